/* SPDX-License-Identifier: Apache-2.0
 *
 * From an address to the block that holds it: a treap by base address, so that pointers into the
 * middle of a block are found as fast as its base, whatever the number of blocks.
 */
#include "sim/cuda/memory_internal.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t memory_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_block *root;
static struct sim_block *last_found; /* programs ask about the same block again and again */
static struct sim_block *spare_blocks;
static uint32_t random_state = 2463534242U;

void sim_memory_lock(void)
{
	pthread_mutex_lock(&memory_mutex);
}

void sim_memory_unlock(void)
{
	pthread_mutex_unlock(&memory_mutex);
}

static uint32_t next_random_locked(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state;
}

/* *ret_low gets what lies below base, *ret_high the rest. */
static void split(struct sim_block *tree, uintptr_t base, struct sim_block **ret_low,
		  struct sim_block **ret_high)
{
	while (tree) {
		if (tree->base < base) {
			*ret_low = tree;
			ret_low = &tree->right;
			tree = tree->right;
		} else {
			*ret_high = tree;
			ret_high = &tree->left;
			tree = tree->left;
		}
	}
	*ret_low = NULL;
	*ret_high = NULL;
}

void sim_map_insert_locked(struct sim_block *block)
{
	struct sim_block **place = &root;

	block->priority = next_random_locked();
	while (*place && (*place)->priority >= block->priority)
		place = block->base < (*place)->base ? &(*place)->left : &(*place)->right;
	split(*place, block->base, &block->left, &block->right);
	*place = block;
}

void sim_map_remove_locked(struct sim_block *block)
{
	struct sim_block **place = &root;
	struct sim_block *low = block->left;
	struct sim_block *high = block->right;

	while (*place != block)
		place = block->base < (*place)->base ? &(*place)->left : &(*place)->right;
	while (low && high) {
		if (low->priority > high->priority) {
			*place = low;
			place = &low->right;
			low = low->right;
		} else {
			*place = high;
			place = &high->left;
			high = high->left;
		}
	}
	*place = low ? low : high;
	block->left = NULL;
	block->right = NULL;
	if (last_found == block)
		last_found = NULL;
}

struct sim_block *sim_map_find_locked(uintptr_t address)
{
	struct sim_block *best = NULL;
	struct sim_block *tree = root;

	if (last_found && address - last_found->base < last_found->span_bytes)
		return last_found;
	while (tree) {
		if (tree->base <= address) {
			best = tree;
			tree = tree->right;
		} else {
			tree = tree->left;
		}
	}
	if (!best || address - best->base >= best->span_bytes)
		return NULL;
	last_found = best;
	return best;
}

struct sim_block *sim_map_next_locked(uintptr_t address)
{
	struct sim_block *best = NULL;
	struct sim_block *tree = root;

	while (tree) {
		if (tree->base >= address) {
			best = tree;
			tree = tree->left;
		} else {
			tree = tree->right;
		}
	}
	return best;
}

bool sim_map_overlaps_locked(uintptr_t base, size_t bytes)
{
	struct sim_block *next;

	if (sim_map_find_locked(base))
		return true;
	next = sim_map_next_locked(base);
	return next && next->base - base < bytes;
}

/* ---- blocks come from a list of used ones, so that a pair of calls costs no allocation ---- */

struct sim_block *sim_block_new(void)
{
	struct sim_block *block = spare_blocks;

	if (!block)
		return calloc(1, sizeof(*block));
	spare_blocks = block->after;
	*block = (struct sim_block){ 0 };
	return block;
}

void sim_block_free(struct sim_block *block)
{
	block->after = spare_blocks;
	spare_blocks = block;
}
