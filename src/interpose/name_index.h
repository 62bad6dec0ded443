/* SPDX-License-Identifier: Apache-2.0
 *
 * A fixed list of names, found by hash: exact names only, O(1), never allocates. Built on first use
 * into its own static array. Threads that come first at once build it together, each writing what
 * the others write: a name's slot is the same in every run of the insertion, so nobody waits, and a
 * fork or a signal in the middle does no harm.
 */
#ifndef BERTH_INTERPOSE_NAME_INDEX_H
#define BERTH_INTERPOSE_NAME_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BERTH_NAME_SLOT_COUNT 1024
#define BERTH_NAME_LENGTH_MAX 63

struct berth_name_index {
	const char *const *names; /* equal ones may recur: the first counts */
	size_t name_count;        /* at most half of the slots */
	_Atomic bool built;
	_Atomic uint16_t slots[BERTH_NAME_SLOT_COUNT]; /* index + 1, 0 = empty */
};

/* Index of the first equal name, or -1. name may be NULL. */
int berth_name_index_find(struct berth_name_index *index, const char *name);

#endif
