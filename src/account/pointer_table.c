/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash behind pointer_table.h. Invariant of a shard: from an entry's home slot to the slot it
 * lies in, no slot is empty; so a probe may stop at the first empty one. Removal restores it by
 * moving back each follower whose home is not behind the hole.
 */
#include "account/pointer_table.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 128 /* one page of slots */

struct berth_pointer_slot {
	uint64_t key;
	uint64_t bytes;
	uint64_t owner;
	uint32_t maps;
	uint16_t uses;
	uint8_t gpu;
	uint8_t key_class; /* BERTH_KEY_NONE = empty */
};
_Static_assert(sizeof(struct berth_pointer_slot) == 32, "two slots a cache line");

/* Finaliser of MurmurHash3: addresses differ in few middle bits, shards and slots need all. */
static uint64_t hash(enum berth_key_class key_class, uint64_t key)
{
	uint64_t h = key ^ ((uint64_t)key_class << 56);

	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdULL;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53ULL;
	return h ^ (h >> 33);
}

static struct berth_pointer_shard *shard_of(struct berth_pointer_table *table, uint64_t h)
{
	return &table->shards[h >> 60];
}

_Static_assert(BERTH_POINTER_SHARD_COUNT == 16, "shard_of takes the top four bits");

static void block_load(const struct berth_pointer_slot *slot, struct berth_block *ret_block)
{
	*ret_block = (struct berth_block){ .bytes = slot->bytes,
					   .owner = slot->owner,
					   .gpu = slot->gpu,
					   .uses = slot->uses,
					   .maps = slot->maps };
}

static void block_store(struct berth_pointer_slot *slot, const struct berth_block *block)
{
	slot->bytes = block->bytes;
	slot->owner = block->owner;
	slot->gpu = block->gpu;
	slot->uses = block->uses;
	slot->maps = block->maps;
}

/* The slot of key, or the empty one where it belongs. NULL in a shard without slots. */
static struct berth_pointer_slot *find_locked(struct berth_pointer_shard *shard, uint64_t h,
					      enum berth_key_class key_class, uint64_t key)
{
	uint64_t mask = shard->capacity - 1;

	if (!shard->capacity)
		return NULL;
	for (uint64_t i = h & mask;; i = (i + 1) & mask) {
		struct berth_pointer_slot *slot = &shard->slots[i];

		if (slot->key_class == BERTH_KEY_NONE ||
		    (slot->key == key && slot->key_class == key_class))
			return slot;
	}
}

static int grow_locked(struct berth_pointer_shard *shard)
{
	struct berth_pointer_slot *old = shard->slots;
	uint64_t old_capacity = shard->capacity;
	uint64_t capacity = old_capacity ? old_capacity * 2 : FIRST_CAPACITY;
	void *memory = mmap(NULL, capacity * sizeof(*old), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -ENOMEM;
	shard->slots = memory;
	shard->capacity = capacity;
	for (uint64_t i = 0; i < old_capacity; i++) {
		enum berth_key_class key_class = (enum berth_key_class)old[i].key_class;

		if (key_class != BERTH_KEY_NONE)
			*find_locked(shard, hash(key_class, old[i].key), key_class, old[i].key) =
				old[i];
	}
	if (old)
		(void)munmap(old, old_capacity * sizeof(*old)); /* nothing to do about a failure */
	return 0;
}

static void remove_locked(struct berth_pointer_shard *shard, struct berth_pointer_slot *slot)
{
	uint64_t mask = shard->capacity - 1;
	uint64_t hole = (uint64_t)(slot - shard->slots);

	for (uint64_t i = (hole + 1) & mask;; i = (i + 1) & mask) {
		struct berth_pointer_slot *next = &shard->slots[i];
		uint64_t home;

		if (next->key_class == BERTH_KEY_NONE)
			break;
		home = hash((enum berth_key_class)next->key_class, next->key) & mask;
		if (((i - home) & mask) < ((i - hole) & mask))
			continue; /* its home lies behind the hole: it may not move before it */
		shard->slots[hole] = *next;
		hole = i;
	}
	shard->slots[hole].key_class = BERTH_KEY_NONE;
	shard->used_count--;
}

/* A slot for a key that is not there; NULL: no memory. */
static struct berth_pointer_slot *add_locked(struct berth_pointer_shard *shard, uint64_t h,
					     enum berth_key_class key_class, uint64_t key)
{
	struct berth_pointer_slot *slot;

	if ((shard->used_count + 1) * 2 > shard->capacity && grow_locked(shard))
		return NULL;
	slot = find_locked(shard, h, key_class, key);
	if (slot) {
		slot->key = key;
		slot->key_class = (uint8_t)key_class;
		shard->used_count++;
	}
	return slot;
}

int berth_pointer_table_put(struct berth_pointer_table *table, enum berth_key_class key_class,
			    uint64_t key, const struct berth_block *block,
			    struct berth_block *ret_replaced)
{
	uint64_t h = hash(key_class, key);
	struct berth_pointer_shard *shard = shard_of(table, h);
	struct berth_pointer_slot *slot;
	bool known;

	pthread_mutex_lock(&shard->mutex);
	slot = find_locked(shard, h, key_class, key);
	known = slot && slot->key_class != BERTH_KEY_NONE;
	if (known)
		block_load(slot, ret_replaced);
	else
		slot = add_locked(shard, h, key_class, key);
	if (slot)
		block_store(slot, block);
	pthread_mutex_unlock(&shard->mutex);
	return slot ? known : -ENOMEM;
}

static bool look_up(struct berth_pointer_table *table, enum berth_key_class key_class, uint64_t key,
		    bool take, struct berth_block *ret_block)
{
	uint64_t h = hash(key_class, key);
	struct berth_pointer_shard *shard = shard_of(table, h);
	struct berth_pointer_slot *slot;
	bool found;

	pthread_mutex_lock(&shard->mutex);
	slot = find_locked(shard, h, key_class, key);
	found = slot && slot->key_class != BERTH_KEY_NONE;
	if (found) {
		block_load(slot, ret_block);
		if (take)
			remove_locked(shard, slot);
	}
	pthread_mutex_unlock(&shard->mutex);
	return found;
}

bool berth_pointer_table_take(struct berth_pointer_table *table, enum berth_key_class key_class,
			      uint64_t key, struct berth_block *ret_block)
{
	return look_up(table, key_class, key, true, ret_block);
}

bool berth_pointer_table_get(struct berth_pointer_table *table, enum berth_key_class key_class,
			     uint64_t key, struct berth_block *ret_block)
{
	return look_up(table, key_class, key, false, ret_block);
}

void berth_pointer_table_drain(struct berth_pointer_table *table,
			       bool (*match)(enum berth_key_class key_class,
					     const struct berth_block *block, void *arg),
			       void (*gone)(const struct berth_block *block, void *arg), void *arg)
{
	for (size_t s = 0; s < BERTH_POINTER_SHARD_COUNT; s++) {
		struct berth_pointer_shard *shard = &table->shards[s];

		pthread_mutex_lock(&shard->mutex);
		for (uint64_t i = 0; i < shard->capacity;) {
			struct berth_pointer_slot *slot = &shard->slots[i];
			struct berth_block block;

			block_load(slot, &block);
			if (slot->key_class == BERTH_KEY_NONE ||
			    !match((enum berth_key_class)slot->key_class, &block, arg)) {
				i++;
				continue;
			}
			/* A follower may move into this slot: look at it again. One that wraps
			 * round from the start was seen there already. */
			remove_locked(shard, slot);
			gone(&block, arg);
		}
		pthread_mutex_unlock(&shard->mutex);
	}
}

size_t berth_pointer_table_count(struct berth_pointer_table *table)
{
	size_t count = 0;

	for (size_t s = 0; s < BERTH_POINTER_SHARD_COUNT; s++) {
		pthread_mutex_lock(&table->shards[s].mutex);
		count += table->shards[s].used_count;
		pthread_mutex_unlock(&table->shards[s].mutex);
	}
	return count;
}

void berth_pointer_table_reset(struct berth_pointer_table *table)
{
	for (size_t s = 0; s < BERTH_POINTER_SHARD_COUNT; s++) {
		struct berth_pointer_shard *shard = &table->shards[s];

		if (shard->slots)
			(void)munmap(shard->slots, shard->capacity * sizeof(*shard->slots));
		*shard = (struct berth_pointer_shard){ .mutex = PTHREAD_MUTEX_INITIALIZER };
	}
}
