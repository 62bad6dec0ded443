/* SPDX-License-Identifier: Apache-2.0
 *
 * Hints: what may end a pause early while a lock is polled. They are never believed: the lock alone
 * decides. A pidfd on the owner tells of his death, inotify on the file of a release (the owner reads a
 * byte of it) and of the last close. Where one can't be had (limits, another host's owner, an old kernel),
 * the pauses go on without it, without a word.
 *
 * The program may close our numbers and use them again: each carries a mark (F_SETSIG, which means nothing
 * without O_ASYNC), and without it nothing is read or closed.
 */
#ifndef BERTH_LOCK_HINT_H
#define BERTH_LOCK_HINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "lock/descriptor.h"

/* The inotify instance of a lock. It outlives a wait: closing one that has just watched makes the kernel wait
 * for a grace period (7 to 20 ms, measured), which is no time to spend with the lock in hand. Removing the
 * watch is quick, and so is closing an instance that has had none for a while. */
struct berth_watch {
	int fd;           /* -1 = none */
	int id;           /* of the watch, -1 = none */
	uint32_t epoch;   /* whose it is: a fork child shares its parent's */
	uint64_t idle_ns; /* since when there is no watch */
};

void berth_watch_init(struct berth_watch *watch);
/* Closes an instance that has been idle for long. */
void berth_watch_rest(struct berth_watch *watch);
void berth_watch_done(struct berth_watch *watch);

struct berth_hints {
	struct berth_watch *watch; /* NULL = no hints at all */
	int owner_fd;              /* pidfd, -1 = none */
	pid_t owner;               /* whose */
	bool dying;                /* he is dead; his locks are freed after his memory */
};

#define BERTH_HINTS(name)               \
	BERTH_CLEANUP(berth_hints_done) \
	struct berth_hints name = { .owner_fd = -1 }

void berth_hints_done(struct berth_hints *hints);

/* watch is used till berth_hints_done. */
void berth_hints_watch_file(struct berth_hints *hints, struct berth_watch *watch,
			    const struct berth_descriptor *descriptor);

/* Asks who has the byte and watches him. 1 = it seems free, 0 = somebody has it, -errno. */
BERTH_MUST_CHECK int berth_hints_look(struct berth_hints *hints,
				      struct berth_descriptor *descriptor, int64_t byte);

/* Waits for a hint until then. true = there was one. Handlers of the program run meanwhile. */
bool berth_hints_wait(struct berth_hints *hints, uint64_t until_ns);

#endif
