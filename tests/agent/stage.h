/* SPDX-License-Identifier: Apache-2.0
 *
 * A real berthd for a test: in a scratch directory, ready when it has told so (NOTIFY_SOCKET), its log in
 * a file. All of it as root. It serves any pid namespace, so that the tests run in containers too.
 */
#ifndef BERTH_TESTS_AGENT_STAGE_H
#define BERTH_TESTS_AGENT_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

#define STAGE_NOBODY 65534
/* No figure: what takes longer is stuck. */
#define STAGE_WATCHDOG_NS (30 * BERTH_NS_PER_S)
#define STAGE_STUCK       1000

struct stage_daemon {
	pid_t pid;
};

/* What happens in the child before berthd takes its place. */
struct stage_before {
	void (*call)(void *arg);
	void *arg;
};

extern char stage_dir[];       /* scratch, root's, 0755 */
extern char stage_node[128];   /* its node directory: BERTH_NODE_DIR */
extern char stage_socket[160]; /* the default socket */

/* argv[1] of the test: the program. 77 unless root. */
int stage_begin(int argc, char **argv);
int stage_group_setup(void **state);
int stage_group_teardown(void **state);

/* Runs berthd with these options (NULL-terminated; NULL: none) until it is ready. */
void stage_start(struct stage_daemon *daemon, const char *const *options,
		 const struct stage_before *before);
/* The same, until it has ended; its exit status, or STAGE_STUCK. */
int stage_run(const char *const *options, const struct stage_before *before);
/* By SIGTERM; must end with 0. */
void stage_stop(struct stage_daemon *daemon);
/* By SIGKILL. */
void stage_kill(struct stage_daemon *daemon);
/* What it has written, since it was started. */
bool stage_log_has(const char *word);
int stage_log_lines(void);
/* News at the NOTIFY_SOCKET that stage_start hasn't read: true if this is the next. */
bool stage_told(const char *news);

/* When it sleeps, so that nothing is half done; or as it is, if it never does. */
int stage_fd_count(pid_t pid);
long stage_rss_kb(pid_t pid);
/* The line of /proc/PID/status that begins with name, without it and blanks before the value. */
void stage_status(pid_t pid, const char *name, char *ret_value, size_t size);

/* A connection that has said nothing. -1 if the queue is full. */
int stage_connect(const char *path, bool wait);
/* As programs under Berth ask. The pid, or -errno. */
pid_t stage_ask(const char *path);
/* Asks, and must get its own pid. For children: 0 or 1. */
int stage_asks_right(const char *path);
/* body(arg) in a child process; its pid. */
pid_t stage_fork(int (*body)(void *arg), void *arg);
/* Its exit status; must have ended by itself. */
int stage_wait(pid_t pid);

#endif
