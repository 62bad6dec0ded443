/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process owns: driver pointer or handle -> bytes, GPU, owner. One look-up costs the
 * same with one live entry and with 50,000.
 *
 * Open addressing with linear probing, at most half full; a removal shifts its followers back, so
 * there are no tombstones and churn does not slow it down. Shards, each with its own lock, held for
 * a probe or a doubling, never across a driver call. Memory comes from mmap: no allocator of the
 * program is entered. A table of zero bytes is an empty table. Keys of different classes never
 * meet, whatever their values: a device address and a handle may be equal numbers.
 */
#ifndef BERTH_ACCOUNT_POINTER_TABLE_H
#define BERTH_ACCOUNT_POINTER_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"

enum berth_key_class {
	BERTH_KEY_NONE = 0,
	BERTH_KEY_ADDRESS, /* CUdeviceptr, whichever call made it: any free call may get it */
	BERTH_KEY_ARRAY,
	BERTH_KEY_MIPMAP,
	BERTH_KEY_HANDLE,  /* CUmemGenericAllocationHandle */
	BERTH_KEY_MAPPING, /* an address range that a handle is mapped to, by its start */
	BERTH_KEY_CONTEXT,
	BERTH_KEY_POOL,
	BERTH_KEY_CLASS_COUNT
};

struct berth_block {
	uint64_t bytes;
	uint64_t owner; /* context or pool that it belongs to, handle that it maps; 0 = none */
	uint32_t maps;  /* mappings of a handle */
	uint16_t uses;  /* references that the program holds, where a class has them */
	uint8_t gpu;    /* index in the region */
};

#define BERTH_POINTER_SHARD_COUNT 16

struct berth_pointer_slot;
struct berth_pointer_shard {
	pthread_mutex_t mutex;
	struct berth_pointer_slot *slots;
	uint64_t capacity; /* a power of two, or 0 before the first entry */
	uint64_t used_count;
};

struct berth_pointer_table {
	struct berth_pointer_shard shards[BERTH_POINTER_SHARD_COUNT];
};

/* Enters key. 1 = it was known and *ret_replaced holds what stood there: the driver handed the same
 * number out again, so that block died unseen. -ENOMEM. */
BERTH_MUST_CHECK int berth_pointer_table_put(struct berth_pointer_table *table,
					     enum berth_key_class key_class, uint64_t key,
					     const struct berth_block *block,
					     struct berth_block *ret_replaced);

/* Removes key. false = unknown. */
BERTH_MUST_CHECK bool berth_pointer_table_take(struct berth_pointer_table *table,
					       enum berth_key_class key_class, uint64_t key,
					       struct berth_block *ret_block);
BERTH_MUST_CHECK bool berth_pointer_table_get(struct berth_pointer_table *table,
					      enum berth_key_class key_class, uint64_t key,
					      struct berth_block *ret_block);

/* Removes every entry that match accepts and hands it to gone, which runs under a shard's lock: it
 * may not call back into the table. Costs the whole table. */
void berth_pointer_table_drain(struct berth_pointer_table *table,
			       bool (*match)(enum berth_key_class key_class,
					     const struct berth_block *block, void *arg),
			       void (*gone)(const struct berth_block *block, void *arg), void *arg);

size_t berth_pointer_table_count(struct berth_pointer_table *table);

/* Forgets everything and gives the memory back. Only while nobody else can be inside: a fork child
 * (whose locks may be copies of held ones) and tests. */
void berth_pointer_table_reset(struct berth_pointer_table *table);

#endif
