/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that this process has locks of, each once whatever its paths are, and in each the bytes.
 *
 * Who may use what: a byte is used by those who have it from berth_lockfile_get until they put it. The
 * mutex of the list is held for looks at memory only, never across a call that could wait for a file
 * system.
 */
#ifndef BERTH_LOCK_LOCKFILE_H
#define BERTH_LOCK_LOCKFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "lock/descriptor.h"
#include "lock/guard.h"

struct berth_lockfile {
	struct berth_lockfile *next; /* entries are never freed, only used for another file */
	uint32_t use_count;          /* under the mutex; 0 = this entry is free */
	struct berth_descriptor descriptor;
	struct berth_lockbyte *bytes;
	bool blocks; /* of a class whose kernel queue can be trusted */
};

#define BERTH_HOLDER_BUSY ((uintptr_t)1)

struct berth_lockbyte {
	struct berth_lockbyte *next;
	struct berth_lockfile *file;
	int64_t byte;
	uint32_t use_count; /* under the mutex */
	struct berth_guard guard;
	/* Through which lock it is held, 0 = not. Written by who has the guard, cleared by whoever ends the hold.
	 * BERTH_HOLDER_BUSY: a thread is taking a lost lock again, and the hold can't end meanwhile. */
	_Atomic uintptr_t holder;
	_Atomic uint32_t broken;       /* by the keeper: the hold was lost and taken again */
	_Atomic uint64_t broken_count; /* how often */
	_Atomic uint32_t unkept;       /* by the keeper: it has ended before the hold */
};

/* Opens, or finds, the file of path and the byte. make: create it if absent. */
BERTH_MUST_CHECK int berth_lockfile_get(const char *path, bool make, int64_t byte,
					struct berth_lockbyte **ret_byte);
/* -EPERM: others than root and this user own the open file or may write it. */
BERTH_MUST_CHECK int berth_lockfile_trust(struct berth_lockfile *file);

/* With no hold of the caller's left. */
void berth_lockfile_put(struct berth_lockbyte *byte);

/* In a fork child: no guard is entered, nothing is held. */
void berth_lockfile_forget_all(void);

#endif
