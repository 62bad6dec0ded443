/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing, linear probing. Nothing is called that another library may stand in for: see
 * driver/elf.c.
 */
#include "interpose/name_index.h"

#define SLOT_MASK (BERTH_NAME_SLOT_COUNT - 1U)

/* FNV-1a. 0 for a name that is longer than any that we hold. */
static uint32_t hash_name(const char *name)
{
	uint32_t hash = 2166136261U;
	size_t length = 0;

	for (; name[length] != '\0'; length++) {
		if (length == BERTH_NAME_LENGTH_MAX)
			return 0;
		hash = (hash ^ (unsigned char)name[length]) * 16777619U;
	}
	return hash != 0 ? hash : 1;
}

static bool same_name(const char *a, const char *b)
{
	while (*a == *b && *a != '\0') {
		a++;
		b++;
	}
	return *a == *b;
}

static void insert(struct berth_name_index *index, size_t at)
{
	uint32_t slot = hash_name(index->names[at]) & SLOT_MASK;

	for (;; slot = (slot + 1) & SLOT_MASK) {
		/* Relaxed throughout: what decides is either our own writing or equal to it. */
		uint16_t held = atomic_load_explicit(&index->slots[slot], memory_order_relaxed);

		if (held == 0)
			break;
		if (same_name(index->names[held - 1], index->names[at]))
			return;
	}
	atomic_store_explicit(&index->slots[slot], (uint16_t)(at + 1), memory_order_relaxed);
}

static void build(struct berth_name_index *index)
{
	for (size_t i = 0; i < index->name_count; i++)
		insert(index, i);
	/* Release: pairs with the acquire in find, whoever sees it sees all slots. */
	atomic_store_explicit(&index->built, true, memory_order_release);
}

int berth_name_index_find(struct berth_name_index *index, const char *name)
{
	uint32_t hash = name != NULL ? hash_name(name) : 0;

	if (hash == 0)
		return -1;
	if (!atomic_load_explicit(&index->built, memory_order_acquire))
		build(index);
	for (uint32_t slot = hash & SLOT_MASK;; slot = (slot + 1) & SLOT_MASK) {
		uint16_t held = atomic_load_explicit(&index->slots[slot], memory_order_relaxed);

		if (held == 0)
			return -1;
		if (same_name(index->names[held - 1], name))
			return held - 1;
	}
}
