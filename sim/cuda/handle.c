/* SPDX-License-Identifier: Apache-2.0
 *
 * See handle.h. The table is open-addressed and only ever gains addresses, so a look-up needs no
 * lock: a reader that misses one just added was not told of it yet either. When it is half full a
 * bigger copy takes its place; the old ones (in sum as big as the new) are kept for late readers.
 */
#include "sim/cuda/handle.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_FIRST 1024U

struct table {
	size_t slots; /* a power of two */
	size_t used;
	_Atomic(const void *) at[];
};

struct queue {
	struct sim_handle *head;
	struct sim_handle **tail;
	size_t count;
};

static struct handles {
	pthread_mutex_t lock; /* guards growth and the queues */
	_Atomic(struct table *) table;
	struct queue dead[SIM_HANDLE_KINDS];
} handles_ = { .lock = PTHREAD_MUTEX_INITIALIZER };

static size_t slot_of(const struct table *table, const void *address)
{
	uint64_t hash = (uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15ULL;

	return (size_t)(hash >> 32) & (table->slots - 1);
}

static struct table *table_new(size_t slots)
{
	struct table *table = calloc(1, sizeof(*table) + slots * sizeof(table->at[0]));

	if (table)
		table->slots = slots;
	return table;
}

static void table_put(struct table *table, const void *address)
{
	size_t slot = slot_of(table, address);

	while (atomic_load_explicit(&table->at[slot], memory_order_relaxed))
		slot = (slot + 1) & (table->slots - 1);
	/* release: pairs with the acquire in table_has, the object's header is written */
	atomic_store_explicit(&table->at[slot], address, memory_order_release);
	table->used++;
}

static bool table_has(const struct table *table, const void *address)
{
	const void *found;

	for (size_t slot = slot_of(table, address);; slot = (slot + 1) & (table->slots - 1)) {
		found = atomic_load_explicit(&table->at[slot], memory_order_acquire);
		if (found == address)
			return true;
		if (!found)
			return false;
	}
}

static bool remember_locked(const void *address)
{
	struct table *table = atomic_load_explicit(&handles_.table, memory_order_relaxed);

	if (!table || table->used * 2 >= table->slots) {
		struct table *bigger = table_new(table ? table->slots * 2 : TABLE_FIRST);

		if (!bigger)
			return false;
		for (size_t i = 0; table && i < table->slots; i++) {
			const void *known =
				atomic_load_explicit(&table->at[i], memory_order_relaxed);

			if (known)
				table_put(bigger, known);
		}
		atomic_store_explicit(&handles_.table, bigger, memory_order_release);
		table = bigger;
	}
	table_put(table, address);
	return true;
}

static struct sim_handle *reuse_locked(enum sim_handle_kind kind)
{
	struct queue *dead = &handles_.dead[kind];
	struct sim_handle *object = dead->head;

	if (dead->count <= SIM_HANDLE_QUARANTINE)
		return NULL;
	dead->head = object->next;
	dead->count--;
	return object;
}

static struct sim_handle *make_locked(size_t bytes)
{
	struct sim_handle *object = calloc(1, bytes);

	if (object && !remember_locked(object)) {
		free(object);
		object = NULL;
	}
	return object;
}

void *sim_handle_new(enum sim_handle_kind kind, size_t bytes)
{
	struct sim_handle *object;

	pthread_mutex_lock(&handles_.lock);
	object = reuse_locked(kind);
	if (object)
		memset(object, 0, bytes);
	else
		object = make_locked(bytes);
	if (object) {
		object->born_kind = kind;
		atomic_store_explicit(&object->kind, kind, memory_order_release);
	}
	pthread_mutex_unlock(&handles_.lock);
	return object;
}

void sim_handle_free(void *object)
{
	struct sim_handle *handle = object;
	struct queue *dead;

	if (!handle)
		return;
	pthread_mutex_lock(&handles_.lock);
	dead = &handles_.dead[handle->born_kind];
	atomic_store_explicit(&handle->kind, SIM_HANDLE_DEAD, memory_order_release);
	handle->next = NULL;
	if (!dead->head)
		dead->tail = &dead->head;
	*dead->tail = handle;
	dead->tail = &handle->next;
	dead->count++;
	pthread_mutex_unlock(&handles_.lock);
}

void *sim_handle_get(enum sim_handle_kind kind, const void *handle)
{
	const struct table *table = atomic_load_explicit(&handles_.table, memory_order_acquire);
	struct sim_handle *object = (struct sim_handle *)(uintptr_t)handle;

	if (!handle || !table || !table_has(table, handle))
		return NULL;
	if (atomic_load_explicit(&object->kind, memory_order_acquire) != (uint32_t)kind)
		return NULL;
	return object;
}
