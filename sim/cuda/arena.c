/* SPDX-License-Identifier: Apache-2.0
 *
 * Address space and backing of device memory: per GPU one sparse memory file, mapped once, divided
 * into blocks. A page of it exists only once something was written there. Its size is a multiple of
 * the GPU's memory, since what is scarce is counted by the node and not by address: fragmentation
 * must not be a reason to refuse, a GPU has page tables.
 *
 * Free blocks stand in lists by size class (a power of two and its eighths), found by bitmaps: good
 * fit in constant time. Neighbouring holes are always joined.
 *
 * The mapping isn't copied by fork and the descriptor is closed in the child: the memory is gone
 * with the process that had it.
 */
#include "sim/cuda/memory_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/node/node.h"

#define CLASS_BITS      3U
#define CLASS_STEPS     (1U << CLASS_BITS)
#define CLASS_POWERS    48U
#define OVERSIZE        4U
#define LOW_ARENA_BYTES (1UL << 30)
#define LOW_ARENA_LEAST (64UL << 20)
#define SPOIL_BY_HAND   (64UL << 10) /* up to here poison, from here on give pages back */

struct sim_arena {
	_Atomic bool is_ready;
	int fd;
	uintptr_t base;
	size_t bytes;
	uint64_t power_map;
	uint8_t step_map[CLASS_POWERS];
	struct sim_block *lists[CLASS_POWERS][CLASS_STEPS];
};

static struct sim_arena arenas[SIM_GPU_MAX][2];
static pthread_mutex_t make_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- size classes, in units of SIM_BLOCK_ALIGN ---- */

static void class_of(size_t bytes, unsigned *ret_power, unsigned *ret_step)
{
	size_t units = bytes / SIM_BLOCK_ALIGN;
	unsigned power = 63U - (unsigned)__builtin_clzl(units);

	if (power < CLASS_BITS) {
		*ret_power = 0;
		*ret_step = (unsigned)units & (CLASS_STEPS - 1);
		return;
	}
	*ret_power = power - CLASS_BITS + 1;
	*ret_step = (unsigned)(units >> (power - CLASS_BITS)) & (CLASS_STEPS - 1);
}

/* The least class whose every member is large enough. */
static void class_to_search(size_t bytes, unsigned *ret_power, unsigned *ret_step)
{
	size_t units = bytes / SIM_BLOCK_ALIGN;
	unsigned power = 63U - (unsigned)__builtin_clzl(units);

	if (power >= CLASS_BITS)
		units += ((size_t)1 << (power - CLASS_BITS)) - 1;
	class_of(units * SIM_BLOCK_ALIGN, ret_power, ret_step);
}

static void list_add(struct sim_arena *arena, struct sim_block *block)
{
	struct sim_block **head;
	unsigned power;
	unsigned step;

	class_of(block->span_bytes, &power, &step);
	head = &arena->lists[power][step];
	block->is_free = true;
	block->free_prev = NULL;
	block->free_next = *head;
	if (*head)
		(*head)->free_prev = block;
	*head = block;
	arena->power_map |= 1ULL << power;
	arena->step_map[power] = (uint8_t)(arena->step_map[power] | 1U << step);
}

static void list_remove(struct sim_arena *arena, struct sim_block *block)
{
	unsigned power;
	unsigned step;

	class_of(block->span_bytes, &power, &step);
	if (block->free_prev)
		block->free_prev->free_next = block->free_next;
	else
		arena->lists[power][step] = block->free_next;
	if (block->free_next)
		block->free_next->free_prev = block->free_prev;
	block->is_free = false;
	if (arena->lists[power][step])
		return;
	arena->step_map[power] = (uint8_t)(arena->step_map[power] & ~(1U << step));
	if (!arena->step_map[power])
		arena->power_map &= ~(1ULL << power);
}

static struct sim_block *list_find(struct sim_arena *arena, size_t bytes)
{
	unsigned power;
	unsigned step;
	uint64_t powers;
	unsigned steps;

	class_to_search(bytes, &power, &step);
	steps = arena->step_map[power] & (0xffU << step);
	if (!steps) {
		powers = arena->power_map & ~((2ULL << power) - 1);
		if (!powers)
			return NULL;
		power = (unsigned)__builtin_ctzl(powers);
		steps = arena->step_map[power];
	}
	return arena->lists[power][__builtin_ctz(steps)];
}

/* ---- making one ---- */

static void close_in_child(void)
{
	for (unsigned gpu = 0; gpu < SIM_GPU_MAX; gpu++)
		for (unsigned low = 0; low < 2; low++)
			if (arenas[gpu][low].is_ready)
				close(arenas[gpu][low].fd);
}

static void *map_file(int fd, size_t bytes, int flags)
{
	void *map;

	if (ftruncate(fd, (off_t)bytes) < 0)
		return MAP_FAILED;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | flags, fd, 0);
	if (map != MAP_FAILED && madvise(map, bytes, MADV_DONTFORK) < 0) {
		munmap(map, bytes);
		return MAP_FAILED;
	}
	return map;
}

/* Less address space is better than none. */
static bool arena_map(struct sim_arena *arena, size_t bytes, size_t least_bytes, int flags)
{
	void *map = MAP_FAILED;

	arena->fd = memfd_create("berth-sim-memory", MFD_CLOEXEC);
	if (arena->fd < 0)
		return false;
	for (; map == MAP_FAILED && bytes >= least_bytes; bytes /= 2) {
		map = map_file(arena->fd, bytes, flags);
		arena->bytes = bytes;
	}
	if (map == MAP_FAILED) {
		close(arena->fd);
		return false;
	}
	arena->base = (uintptr_t)map;
	return true;
}

static bool arena_make(struct sim_arena *arena, unsigned gpu, bool low)
{
	static bool fork_is_handled;
	uint64_t memory_bytes = sim_node_gpu(gpu)->memory_bytes;
	size_t bytes = (memory_bytes + SIM_LARGE_BLOCK - 1) / SIM_LARGE_BLOCK * SIM_LARGE_BLOCK;
	struct sim_block *all;

	if (!fork_is_handled)
		fork_is_handled = pthread_atfork(NULL, NULL, close_in_child) == 0;
	/* One more large block: the mapping may begin anywhere within one. */
	if (low ? !arena_map(arena, LOW_ARENA_BYTES, LOW_ARENA_LEAST, MAP_32BIT)
		: !arena_map(arena, (bytes + SIM_LARGE_BLOCK) * OVERSIZE, bytes, 0))
		return false;
	sim_memory_lock();
	all = sim_block_new();
	if (all) {
		all->base = arena->base;
		all->span_bytes = arena->bytes;
		all->arena = arena;
		list_add(arena, all);
	}
	sim_memory_unlock();
	/* Pairs with the load in sim_arena_get: base, bytes and the first hole are there. */
	atomic_store_explicit(&arena->is_ready, all != NULL, memory_order_release);
	return all != NULL;
}

struct sim_arena *sim_arena_get(unsigned gpu, bool low)
{
	struct sim_arena *arena = &arenas[gpu][low];
	bool is_made;

	if (atomic_load_explicit(&arena->is_ready, memory_order_acquire))
		return arena;
	pthread_mutex_lock(&make_mutex);
	is_made = arena->is_ready || arena_make(arena, gpu, low);
	pthread_mutex_unlock(&make_mutex);
	return is_made ? arena : NULL;
}

/* ---- taking and giving ---- */

/* Cuts the block after `bytes`; what is left becomes a hole. */
static bool cut_locked(struct sim_block *block, size_t bytes)
{
	struct sim_block *rest;

	if (block->span_bytes == bytes)
		return true;
	rest = sim_block_new();
	if (!rest)
		return false;
	rest->arena = block->arena;
	rest->base = block->base + bytes;
	rest->span_bytes = block->span_bytes - bytes;
	rest->before = block;
	rest->after = block->after;
	if (rest->after)
		rest->after->before = rest;
	block->after = rest;
	block->span_bytes = bytes;
	list_add(block->arena, rest);
	return true;
}

struct sim_block *sim_arena_take_locked(struct sim_arena *arena, size_t bytes, size_t align)
{
	size_t span = (bytes + SIM_BLOCK_ALIGN - 1) & ~(SIM_BLOCK_ALIGN - 1);
	size_t slack = align > SIM_BLOCK_ALIGN ? align - SIM_BLOCK_ALIGN : 0;
	struct sim_block *block;
	uintptr_t start;

	block = list_find(arena, span + slack);
	if (!block)
		return NULL;
	list_remove(arena, block);
	start = (block->base + align - 1) & ~(align - 1);
	if (start != block->base) {
		struct sim_block *front = block;

		if (!cut_locked(front, start - front->base)) {
			list_add(arena, front);
			return NULL;
		}
		block = front->after;
		list_remove(arena, block);
		list_add(arena, front);
	}
	if (!cut_locked(block, span)) {
		list_add(arena, block);
		return NULL;
	}
	/* What the hole was before is forgotten. */
	*block = (struct sim_block){
		.base = block->base,
		.span_bytes = block->span_bytes,
		.size_bytes = bytes,
		.arena = arena,
		.before = block->before,
		.after = block->after,
	};
	return block;
}

static void join_locked(struct sim_block *block)
{
	struct sim_block *next = block->after;

	block->span_bytes += next->span_bytes;
	block->after = next->after;
	if (block->after)
		block->after->before = block;
	sim_block_free(next);
}

void sim_arena_give_locked(struct sim_block *block)
{
	struct sim_arena *arena = block->arena;

	if (block->after && block->after->is_free) {
		list_remove(arena, block->after);
		join_locked(block);
	}
	if (block->before && block->before->is_free) {
		block = block->before;
		list_remove(arena, block);
		join_locked(block);
	}
	list_add(arena, block);
}

void sim_arena_spoil(struct sim_block *block)
{
	uintptr_t from = (block->base + SIM_PAGE - 1) & ~(SIM_PAGE - 1);
	uintptr_t to = (block->base + block->span_bytes) & ~(SIM_PAGE - 1);

	if (!block->is_touched)
		return;
	if (block->span_bytes < SPOIL_BY_HAND ||
	    madvise((void *)from, to - from, MADV_REMOVE) < 0) {
		memset((void *)block->base, SIM_POISON, block->span_bytes);
		return;
	}
	memset((void *)block->base, SIM_POISON, from - block->base);
	memset((void *)to, SIM_POISON, block->base + block->span_bytes - to);
}

int sim_arena_fd(const struct sim_arena *arena)
{
	return arena->fd;
}

uint64_t sim_arena_offset(const struct sim_arena *arena, uintptr_t address)
{
	return address - arena->base;
}

bool sim_arena_contains(uintptr_t address)
{
	for (unsigned gpu = 0; gpu < sim_node_gpu_count(); gpu++)
		for (unsigned low = 0; low < 2; low++)
			if (arenas[gpu][low].is_ready &&
			    address - arenas[gpu][low].base < arenas[gpu][low].bytes)
				return true;
	return false;
}
