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

struct berth_hints {
	int file_fd;  /* inotify, -1 = none */
	int owner_fd; /* pidfd, -1 = none */
	pid_t owner;  /* whose */
	bool dying;   /* he is dead; his locks are freed after his memory */
};

#define BERTH_HINTS(name)               \
	BERTH_CLEANUP(berth_hints_done) \
	struct berth_hints name = { .file_fd = -1, .owner_fd = -1 }

void berth_hints_done(struct berth_hints *hints);

void berth_hints_watch_file(struct berth_hints *hints, const struct berth_descriptor *descriptor);

/* Asks who has the byte and watches him. 1 = it seems free, 0 = somebody has it, -errno. */
BERTH_MUST_CHECK int berth_hints_look(struct berth_hints *hints,
				      struct berth_descriptor *descriptor, int64_t byte);

/* Waits for a hint until then. true = there was one. Handlers of the program run meanwhile. */
bool berth_hints_wait(struct berth_hints *hints, uint64_t until_ns);

#endif
