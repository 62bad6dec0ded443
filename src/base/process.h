/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process: never a bare pid. A pid is named together with its start time and the pid
 * namespace it was read in; /proc/PID/stat is parsed from its *last* ')', because a process may be
 * called ") Z 1 (".
 */
#ifndef BERTH_BASE_PROCESS_H
#define BERTH_BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"

struct berth_process_id {
	pid_t pid;              /* as seen in pid_namespace */
	uint64_t start_ticks;   /* field 22 of /proc/PID/stat: clock ticks after boot */
	uint64_t pid_namespace; /* inode of /proc/PID/ns/pid, 0 = unknown */
};

struct berth_process_stat {
	char state; /* R S D Z T t X I … */
	pid_t ppid;
	uint64_t start_ticks;
	char comm[64]; /* raw bytes: escape before printing */
};

/* Parses the text of one /proc/PID/stat. -EBADMSG if it isn't one. */
BERTH_MUST_CHECK int berth_process_stat_parse(const char *text,
					      struct berth_process_stat *ret_stat);
/* -ESRCH if there is no such process; -EACCES if there is one but /proc doesn't show it (hidepid, no
 * /proc). */
BERTH_MUST_CHECK int berth_process_stat_read(pid_t pid, struct berth_process_stat *ret_stat);

/* This process. Not cached: correct after fork and clone. */
BERTH_MUST_CHECK int berth_process_self(struct berth_process_id *ret_id);
/* Is this very process (pid and start time, in our own pid namespace) there and not a zombie? An id of
 * another pid namespace isn't; one that /proc doesn't show is taken to be there (never call it dead). */
bool berth_process_same(const struct berth_process_id *id);

/* Command line for people, escaped, arguments joined by blanks, cut to size; comm in brackets if
 * there is none. Length or -errno. */
BERTH_MUST_CHECK ssize_t berth_process_command(pid_t pid, char *buf, size_t size);

/* true if this process is in the machine's initial pid namespace (inode 0xEFFFFFFC). */
bool berth_process_in_initial_pid_namespace(void);

/* First 8 bytes, as a number, of /proc/sys/kernel/random/boot_id; 0 = unknown. */
uint64_t berth_boot_id(void);

/* true if the kernel started this program with elevated rights (AT_SECURE): the environment is then
 * not to be trusted. */
bool berth_process_is_secure(void);

#endif
