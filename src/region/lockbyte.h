/* SPDX-License-Identifier: Apache-2.0
 *
 * Lock bytes of a region: open-file-description locks (F_OFD_SETLK), never waited for. They belong
 * to the open file, so a foreign close of the same file in this process doesn't drop them (POSIX
 * record locks would go), and the mapping of an open file keeps them after its descriptor is
 * closed.
 *
 * An open file is inherited by a fork child, which would then keep the parent's lock alive. So
 * locks are only taken between berth_lockbyte_enter and _leave, during which no fork of this
 * process can happen (a pthread_atfork handler waits); at _leave every lock is dropped, pinned by a
 * mapping that isn't inherited (MADV_DONTFORK), or its descriptor is known to be closed in the
 * child. A raw clone by another thread in these microseconds isn't covered: there is no hook for
 * it.
 */
#ifndef BERTH_REGION_LOCKBYTE_H
#define BERTH_REGION_LOCKBYTE_H

#include <stdbool.h>
#include <stdint.h>

#include "region/map.h"

void berth_lockbyte_enter(void);
void berth_lockbyte_leave(void);

/* A new open file of the region, to lock (writable) or to ask with. -ESTALE: the path leads to
 * another file by now. */
BERTH_MUST_CHECK int berth_lockbyte_open(const struct berth_region *region, bool writable);

/* Is this number a descriptor of the region's file? Not if the program has closed ours and used the
 * number again. */
bool berth_lockbyte_leads_here(const struct berth_region *region, int fd);

/* Asking about others goes on when the path is lost: no descriptor is left, the rights were dropped,
 * the root was changed. For that a region keeps a descriptor of its own, of an open file that
 * carries no lock, high up where no program looks for its next one. A program may close it, as those
 * do that close all, and use the number again: then it isn't the region's any more, which is seen,
 * and nothing of the program's is used or closed. */
void berth_lockbyte_keep(struct berth_region *region, int fd);
void berth_lockbyte_unkeep(struct berth_region *region);

/* Who asks which seats are held: opens the region at the first question, a new descriptor or else the
 * kept one. */
struct berth_asker {
	const struct berth_region *region;
	int fd; /* -1 = not yet, else -errno: nobody can be asked about */
	bool kept;
};

#define BERTH_ASKER(name, from) \
	BERTH_CLEANUP(berth_asker_done) struct berth_asker name = { .region = (from), .fd = -1 }

void berth_asker_done(struct berth_asker *asker);
/* 1 = somebody sits in the seat, 0 = nobody, else -errno: it can't be told. */
BERTH_MUST_CHECK int berth_asker_seat_held(struct berth_asker *asker, uint32_t index);

/* 0 = taken, -EAGAIN = somebody else has it, else -errno. */
BERTH_MUST_CHECK int berth_lockbyte_try(int fd, int64_t offset);
void berth_lockbyte_drop(int fd, int64_t offset);

/* 1 = another open file has it, 0 = nobody (or this very open file), else -errno. */
BERTH_MUST_CHECK int berth_lockbyte_held(int fd, int64_t offset);

#endif
