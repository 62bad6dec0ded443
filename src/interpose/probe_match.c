/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the probe.
 */
#include "interpose/probe.h"

static bool moved_so(const struct berth_process_list looks[BERTH_PROBE_LOOKS], unsigned int pid,
		     uint64_t first_bytes, uint64_t second_bytes)
{
	uint64_t bytes[BERTH_PROBE_LOOKS];

	for (int i = 0; i < BERTH_PROBE_LOOKS; i++) {
		bool listed;

		bytes[i] = berth_process_list_bytes(&looks[i], pid, &listed);
		if (!listed)
			return false;
	}
	return bytes[1] == bytes[0] + first_bytes && bytes[2] == bytes[1] + second_bytes &&
	       bytes[3] == bytes[0];
}

unsigned int berth_probe_match(const struct berth_process_list looks[BERTH_PROBE_LOOKS],
			       uint64_t first_bytes, uint64_t second_bytes)
{
	unsigned int found = 0;

	if (!first_bytes || !second_bytes)
		return 0; /* nobody's stillness proves anything */
	for (uint32_t i = 0; i < looks[0].count; i++) {
		unsigned int pid = looks[0].entries[i].pid;

		if (pid == found || !moved_so(looks, pid, first_bytes, second_bytes))
			continue;
		if (found)
			return 0;
		found = pid;
	}
	return found;
}
