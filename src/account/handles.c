/* SPDX-License-Identifier: Apache-2.0
 *
 * Lifetimes of physical memory. One entry a handle {bytes, serial, references, mappings} and one a
 * mapping {size, handle, serial}. The driver may hand a handle's number out again the moment the
 * old one dies, before our bookkeeping of that death ran: then entering the new one refunds the old
 * (books.c), and the serial number keeps the late bookkeeping off the new one.
 *
 * A count that would pass its field's range stays there: never freed, the safe side.
 */
#include "account/handles.h"

#include <limits.h>
#include <pthread.h>

#include "account/books.h"

/* Serialises read-modify-write of entries; innermost but for the table's shards. */
static pthread_mutex_t handles_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t last_serial;

static uint32_t next_serial_locked(void)
{
	if (++last_serial == 0)
		last_serial = 1;
	return last_serial;
}

/* Puts a changed entry back, or gives its bytes back when nothing holds it any more. */
static void settle_locked(uint64_t handle, const struct berth_block *block)
{
	if (block->uses || block->maps)
		berth_books_restore(BERTH_KEY_HANDLE, handle, block);
	else
		berth_books_gone(BERTH_KEY_HANDLE, block);
}

uint64_t berth_handle_serial(uint64_t handle)
{
	struct berth_block block;

	return berth_books_get(BERTH_KEY_HANDLE, handle, &block) ? block.owner : 0;
}

void berth_handle_created(uint64_t handle, int gpu, uint64_t bytes)
{
	struct berth_block block = { .bytes = bytes, .gpu = (uint8_t)gpu, .uses = 1 };

	pthread_mutex_lock(&handles_mutex);
	block.owner = next_serial_locked();
	berth_books_enter(BERTH_KEY_HANDLE, handle, &block);
	pthread_mutex_unlock(&handles_mutex);
}

void berth_handle_retained(uint64_t handle)
{
	struct berth_block block;

	pthread_mutex_lock(&handles_mutex);
	if (berth_books_take(BERTH_KEY_HANDLE, handle, &block)) {
		if (block.uses < UINT16_MAX)
			block.uses++;
		settle_locked(handle, &block);
	}
	pthread_mutex_unlock(&handles_mutex);
}

void berth_handle_released(uint64_t handle, uint64_t serial)
{
	struct berth_block block;

	pthread_mutex_lock(&handles_mutex);
	if (berth_books_take(BERTH_KEY_HANDLE, handle, &block)) {
		if (block.owner == serial && block.uses && block.uses < UINT16_MAX)
			block.uses--;
		settle_locked(handle, &block);
	}
	pthread_mutex_unlock(&handles_mutex);
}

void berth_handle_mapped(uint64_t handle, uint64_t address, uint64_t size_bytes)
{
	struct berth_block mapping = { .bytes = size_bytes, .owner = handle };
	struct berth_block block;

	pthread_mutex_lock(&handles_mutex);
	if (berth_books_take(BERTH_KEY_HANDLE, handle, &block)) {
		if (block.maps < UINT32_MAX)
			block.maps++;
		mapping.maps = (uint32_t)block.owner;
		settle_locked(handle, &block);
	}
	/* Untracked handles too, so that a walk over a range finds no gap. */
	berth_books_enter(BERTH_KEY_MAPPING, address, &mapping);
	pthread_mutex_unlock(&handles_mutex);
}

static void unmap_one_locked(const struct berth_block *mapping)
{
	struct berth_block block;

	if (!mapping->maps || !berth_books_take(BERTH_KEY_HANDLE, mapping->owner, &block))
		return;
	if (block.owner == mapping->maps && block.maps && block.maps < UINT32_MAX)
		block.maps--;
	settle_locked(mapping->owner, &block);
}

void berth_handle_unmapped(uint64_t address, uint64_t size_bytes)
{
	struct berth_block mapping;
	uint64_t done = 0;

	pthread_mutex_lock(&handles_mutex);
	/* The driver accepts only a range of whole mappings without gaps. */
	while (done < size_bytes && berth_books_take(BERTH_KEY_MAPPING, address + done, &mapping)) {
		unmap_one_locked(&mapping);
		if (!mapping.bytes)
			break;
		done += mapping.bytes;
	}
	pthread_mutex_unlock(&handles_mutex);
}

void berth_handles_forget(void)
{
	handles_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
