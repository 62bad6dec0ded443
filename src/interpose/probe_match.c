/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the probe.
 */
#include "interpose/probe.h"

/* false: not listed. */
static bool bytes_of(const struct berth_probe_look *look, unsigned int pid, uint64_t *ret_bytes)
{
	uint64_t sum = 0;
	bool listed = false;

	for (uint32_t i = 0; i < look->count; i++) {
		if (look->entries[i].pid != pid)
			continue;
		sum += look->entries[i].bytes;
		listed = true;
	}
	*ret_bytes = sum;
	return listed;
}

static bool moved_so(const struct berth_probe_look looks[BERTH_PROBE_LOOKS], unsigned int pid,
		     uint64_t first_bytes, uint64_t second_bytes)
{
	uint64_t bytes[BERTH_PROBE_LOOKS];

	for (int i = 0; i < BERTH_PROBE_LOOKS; i++) {
		if (!bytes_of(&looks[i], pid, &bytes[i]))
			return false;
	}
	return bytes[1] == bytes[0] + first_bytes && bytes[2] == bytes[1] + second_bytes &&
	       bytes[3] == bytes[0];
}

unsigned int berth_probe_match(const struct berth_probe_look looks[BERTH_PROBE_LOOKS],
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
