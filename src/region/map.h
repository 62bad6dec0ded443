/* SPDX-License-Identifier: Apache-2.0
 *
 * A region as this process has it: the mapping and what is known about the file. Only for files of
 * this room.
 *
 * Whose object: `mark` lies in a page that the kernel wipes in every child that doesn't share our
 * memory (fork or raw clone). There the mapping is gone (MADV_DONTFORK), so everything that reads
 * it asks berth_map_ours first.
 *
 * A file that somebody cuts short while it is mapped kills its users by SIGBUS: whoever may write
 * the file could as well write nonsense into it, and the kernel offers no seal for files with a
 * name. So the file is 0600, its size is checked before it is mapped, and nothing of ours truncates
 * one.
 */
#ifndef BERTH_REGION_MAP_H
#define BERTH_REGION_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/filesystem.h"
#include "base/reason.h"
#include "region/layout.h"
#include "region/region.h"

struct berth_region {
	struct berth_layout *layout;
	_Atomic uint64_t *mark; /* 1 in the process that mapped it, 0 in its children */
	size_t size;            /* of this object with the path behind it */
	char *path;             /* absolute: the program may change its directory */
	dev_t device;
	ino_t inode;
	bool writable;
	int kept_fd; /* to ask with when the path leads here no more (lockbyte.h), or -1 */
	enum berth_fs_class fs_class;
	uint32_t gpu_count;
	char share_name[BERTH_SHARE_NAME_MAX];
	/* What this process's own environment asks for, by GPU of the region; 0 = nothing. */
	uint64_t wanted_limit_bytes[BERTH_GPU_MAX];
	uint64_t wanted_compute_pct[BERTH_GPU_MAX];
	uint64_t wanted_stamp;    /* as berth_region_spec.stamp */
	_Atomic int32_t own_seat; /* this process's, or -1 */
};

static inline bool berth_map_ours(const struct berth_region *region)
{
	return atomic_load_explicit(region->mark, memory_order_relaxed) != 0;
}

/* [0, high): never beyond the table, whatever another program wrote there. seq_cst: partner is the
 * raise in seat.c, which precedes the newcomer's first announcement. */
static inline uint32_t berth_map_seat_high(const struct berth_region *region)
{
	int32_t high = atomic_load(&region->layout->head.seat_high);

	if (high < 0)
		return 0;
	return high > BERTH_SEAT_MAX ? BERTH_SEAT_MAX : (uint32_t)high;
}

/* Opens an existing file for joining or viewing; refuses what can't be a region by its kind, owner
 * or size. Returns the descriptor or -errno. */
BERTH_MUST_CHECK int berth_map_open(const char *path, bool writable, struct berth_reason *reason);

/* The words for -EMFILE and -ENFILE, which name the limit. Returns err. */
int berth_map_no_descriptor(const char *path, int err, struct berth_reason *reason);

/* Maps the open file, checks every byte that tells what it is, and makes the object. The descriptor
 * stays the caller's. */
BERTH_MUST_CHECK int berth_map_make(int fd, const char *path, bool writable,
				    struct berth_region **ret_region, struct berth_reason *reason);

#endif
