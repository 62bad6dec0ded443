/* SPDX-License-Identifier: Apache-2.0
 *
 * See host_pid.h.
 */
#include "region/host_pid.h"

#include <stddef.h>

#include "base/attributes.h"

static const char *const source_names[] = {
	[BERTH_HOST_PID_UNKNOWN] = "unknown",
	[BERTH_HOST_PID_INITIAL] = "initial",
	[BERTH_HOST_PID_BROKER] = "broker",
	[BERTH_HOST_PID_PROBE] = "probe",
};
_Static_assert(BERTH_ARRAY_LEN(source_names) == BERTH_HOST_PID_SOURCE_COUNT,
	       "a source has no name");

static const char *const missing_texts[] = {
	[BERTH_HOST_PID_NOTHING] = NULL,
	[BERTH_HOST_PID_NOT_YET] = "it is looked for when the program makes its first context",
	[BERTH_HOST_PID_NO_PLACE] = "no broker answers and the containers of this node share no "
				    "directory: run berthd on "
				    "the host and mount its /run/berth into the container",
	[BERTH_HOST_PID_DISTRUST] = "the directory that the node's containers share, or its "
				    "probe.lock, is not root's alone: chown root, chmod go-w",
	[BERTH_HOST_PID_BUSY] = "other processes held the probe lock all the time",
	[BERTH_HOST_PID_NO_LOCK] = "the probe lock can't be taken: see this program's log "
				   "(BERTH_LOG_LEVEL=warning)",
	[BERTH_HOST_PID_NO_LIST] =
		"the driver does not tell containers which process uses how much "
		"memory: run berthd on the host",
	[BERTH_HOST_PID_NO_ROOM] = "the share or the GPU has no room for the 32M that the probe "
				   "takes for a moment",
	[BERTH_HOST_PID_UNDECIDED] =
		"no process that the driver lists could be told to be this one",
};
_Static_assert(BERTH_ARRAY_LEN(missing_texts) == BERTH_HOST_PID_MISSING_COUNT,
	       "a cause has no text");

const char *berth_host_pid_source_name(enum berth_host_pid_source source)
{
	return (unsigned)source < BERTH_HOST_PID_SOURCE_COUNT
		       ? source_names[source]
		       : source_names[BERTH_HOST_PID_UNKNOWN];
}

const char *berth_host_pid_missing_text(enum berth_host_pid_missing missing)
{
	return (unsigned)missing < BERTH_HOST_PID_MISSING_COUNT ? missing_texts[missing] : NULL;
}

uint64_t berth_host_pid_note_pack(struct berth_host_pid_note note)
{
	return (uint64_t)note.source | (uint64_t)note.missing << 32;
}

struct berth_host_pid_note berth_host_pid_note_unpack(uint64_t word)
{
	uint32_t source = (uint32_t)word;
	uint32_t missing = (uint32_t)(word >> 32);
	struct berth_host_pid_note note = { .source = BERTH_HOST_PID_UNKNOWN };

	if (source < BERTH_HOST_PID_SOURCE_COUNT)
		note.source = (enum berth_host_pid_source)source;
	if (missing < BERTH_HOST_PID_MISSING_COUNT)
		note.missing = (enum berth_host_pid_missing)missing;
	return note;
}
