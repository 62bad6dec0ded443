/* SPDX-License-Identifier: Apache-2.0
 *
 * What a seat says of its process's host pid, the number under which NVML knows it: where it is from or,
 * while it is unknown, what was missing. One list of either, for the books and for people.
 */
#ifndef BERTH_REGION_HOST_PID_H
#define BERTH_REGION_HOST_PID_H

#include <stdint.h>

/* Stored in regions: a number never changes its meaning. */
enum berth_host_pid_source {
	BERTH_HOST_PID_UNKNOWN = 0,
	BERTH_HOST_PID_INITIAL = 1, /* the process is in the initial pid namespace */
	BERTH_HOST_PID_BROKER = 2,  /* a broker on the host said so */
	BERTH_HOST_PID_PROBE = 3,   /* proved by what its memory did (interpose/probe.h) */
	BERTH_HOST_PID_SOURCE_COUNT
};

enum berth_host_pid_missing {
	BERTH_HOST_PID_NOTHING = 0,   /* nothing is known to be missing */
	BERTH_HOST_PID_NOT_YET = 1,   /* looked for with the first context */
	BERTH_HOST_PID_NO_PLACE = 2,  /* no directory that the node's containers share */
	BERTH_HOST_PID_DISTRUST = 3,  /* that directory, or the lock's file, may be others' */
	BERTH_HOST_PID_BUSY = 4,      /* the probe lock was held by others all the time */
	BERTH_HOST_PID_NO_LOCK = 5,   /* the probe lock can't be taken */
	BERTH_HOST_PID_NO_LIST = 6,   /* NVML doesn't tell who uses how much memory */
	BERTH_HOST_PID_NO_ROOM = 7,   /* no room in the share, or no call, for the probe's memory */
	BERTH_HOST_PID_UNDECIDED = 8, /* no listed process moved as this one did */
	BERTH_HOST_PID_MISSING_COUNT
};

struct berth_host_pid_note {
	enum berth_host_pid_source source;
	enum berth_host_pid_missing missing;
};

/* "initial", "broker", "probe", "unknown". For any number, also one that a newer version wrote. */
const char *berth_host_pid_source_name(enum berth_host_pid_source source);
/* What is missing, in words with the remedy; NULL for nothing. */
const char *berth_host_pid_missing_text(enum berth_host_pid_missing missing);

/* To and from the word in the region; what isn't known reads as unknown, nothing. */
uint64_t berth_host_pid_note_pack(struct berth_host_pid_note note);
struct berth_host_pid_note berth_host_pid_note_unpack(uint64_t word);

#endif
