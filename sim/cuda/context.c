/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts and stacks of them; the exported calls are in context_calls.c and context_primary.c.
 *
 * Invariants
 *   A struct sim_context is never freed or used for another context (only a primary one comes back
 *   to life, under the same handle), so every handle that was ever given out may be looked at.
 *   incarnation is odd exactly while the context lives; it is changed under list_mutex.
 *   A stack entry is good while its context lives in the incarnation that was pushed; a primary
 *   context's entries revive with it.
 */
#include "sim/cuda/context_internal.h"

#include <pthread.h>
#include <stdlib.h>

#include "sim/config.h"
#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"
#include "sim/node/node.h"

#define STACK_MAX 256

struct stack_entry {
	struct sim_context *context;
	uint64_t incarnation;
};

static __thread struct {
	unsigned depth;
	struct stack_entry entries[STACK_MAX];
} stack;

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_context *all_contexts; /* dead ones too */
static uint64_t next_id = 1;

static void (*end_functions[SIM_PART_COUNT])(struct sim_context *context);

void sim_context_on_end(enum sim_context_part part, void (*end)(struct sim_context *context))
{
	end_functions[part] = end;
}

bool sim_context_is_alive(const struct sim_context *context)
{
	return atomic_load_explicit(&context->incarnation, memory_order_acquire) & 1;
}

/* ---- the thread's stack ---- */

static bool entry_is_good(const struct stack_entry *entry)
{
	uint64_t now = atomic_load_explicit(&entry->context->incarnation, memory_order_acquire);

	return entry->context->is_primary ? (now & 1) : now == entry->incarnation;
}

CUresult sim_context_current(struct sim_context **ret_context)
{
	struct stack_entry *top;

	if (stack.depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	top = &stack.entries[stack.depth - 1];
	if (!entry_is_good(top))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_context = top->context;
	return CUDA_SUCCESS;
}

struct sim_context *sim_context_stack_top(void)
{
	return stack.depth ? stack.entries[stack.depth - 1].context : NULL;
}

CUresult sim_context_stack_push(struct sim_context *context)
{
	if (stack.depth == STACK_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack.entries[stack.depth++] = (struct stack_entry){ context, context->incarnation };
	return CUDA_SUCCESS;
}

void sim_context_stack_pop(void)
{
	stack.depth--;
}

/* ---- handles ---- */

/* The list is as long as the program made contexts: few. */
static struct sim_context *find_locked(CUcontext handle)
{
	struct sim_context *context = all_contexts;

	while (context && (CUcontext)context != handle)
		context = context->next;
	return context;
}

CUresult sim_context_get(CUcontext handle, bool allow_null, struct sim_context **ret_context)
{
	struct sim_context *context;

	if (!handle)
		return allow_null ? sim_context_current(ret_context) : CUDA_ERROR_INVALID_VALUE;
	/* What is current to this thread is known without the list. */
	if ((CUcontext)sim_context_stack_top() == handle &&
	    sim_context_current(ret_context) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&list_mutex);
	context = find_locked(handle);
	pthread_mutex_unlock(&list_mutex);
	if (!context || !sim_context_is_alive(context))
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_context = context;
	return CUDA_SUCCESS;
}

/* ---- birth and death ---- */

static void set_default_limits(struct sim_context *context)
{
	context->limits[CU_LIMIT_STACK_SIZE] = 1024;
	context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
	context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
	context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
	context->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0;
}

struct sim_context *sim_context_alloc(CUdevice device, bool is_primary)
{
	struct sim_context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	context->device = device;
	context->gpu = sim_device_gpu_of(device);
	context->is_primary = is_primary;
	context->api_version = 3020;
	pthread_mutex_lock(&list_mutex);
	context->next = all_contexts;
	all_contexts = context;
	pthread_mutex_unlock(&list_mutex);
	return context;
}

CUresult sim_context_begin(struct sim_context *context, unsigned flags)
{
	uint64_t bytes = sim_config()->context_bytes;

	if (sim_node_charge(context->gpu, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->charged_bytes = bytes;
	context->flags = flags;
	context->cache_config = CU_FUNC_CACHE_PREFER_NONE;
	context->shared_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
	context->attach_count = 1;
	context->peer_count = 0;
	set_default_limits(context);
	pthread_mutex_lock(&list_mutex);
	context->id = next_id++;
	atomic_fetch_add(&context->incarnation, 1);
	pthread_mutex_unlock(&list_mutex);
	sim_node_note_context(context->gpu, 1);
	return CUDA_SUCCESS;
}

bool sim_context_end(struct sim_context *context)
{
	bool was_alive;

	pthread_mutex_lock(&list_mutex);
	was_alive = context->incarnation & 1;
	if (was_alive)
		atomic_fetch_add(&context->incarnation, 1);
	pthread_mutex_unlock(&list_mutex);
	if (!was_alive)
		return false;
	for (int part = 0; part < SIM_PART_COUNT; part++)
		if (end_functions[part])
			end_functions[part](context);
	sim_node_note_context(context->gpu, -1);
	sim_node_refund(context->gpu, context->charged_bytes);
	context->charged_bytes = 0;
	return true;
}
