/* SPDX-License-Identifier: Apache-2.0
 *
 * What nodes of graphs do; see graph.h.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/config.h"
#include "sim/cuda/copy.h"
#include "sim/cuda/event.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/host_work.h"
#include "sim/cuda/pool.h"

/* The parameters' values, copied, with pointers to them. */
static CUresult keep_parameters(struct sim_kernel_work *kernel, const struct sim_launch *launch)
{
	const struct sim_kernel_info *info = launch->function->info;
	uint32_t count = info->parameters_count;
	size_t bytes;

	kernel->parameters.extra = NULL;
	kernel->parameters.kernelParams = NULL;
	if (!info->parameters_known || !count)
		return CUDA_SUCCESS;
	bytes = (size_t)info->parameters[count - 1].offset_bytes +
		info->parameters[count - 1].size_bytes;
	kernel->values = calloc(1, bytes ? bytes : 1);
	kernel->pointers = calloc(count, sizeof(*kernel->pointers));
	if (!kernel->values || !kernel->pointers)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < count; i++) {
		const struct sim_parameter *parameter = &info->parameters[i];

		kernel->pointers[i] = kernel->values + parameter->offset_bytes;
		memcpy(kernel->pointers[i],
		       launch->buffer ? launch->buffer + parameter->offset_bytes
				      : launch->parameters[i],
		       parameter->size_bytes);
	}
	kernel->parameters.kernelParams = kernel->pointers;
	return CUDA_SUCCESS;
}

static CUresult launch_of(const CUDA_KERNEL_NODE_PARAMS *p, bool is_cooperative,
			  struct sim_context *context, struct sim_launch *ret_launch)
{
	CUfunction handle = p->func ? p->func : (CUfunction)p->kern;
	CUresult err;

	*ret_launch = (struct sim_launch){
		.grid = { p->gridDimX, p->gridDimY, p->gridDimZ },
		.block = { p->blockDimX, p->blockDimY, p->blockDimZ },
		.shared_bytes = p->sharedMemBytes,
		.is_cooperative = is_cooperative,
		.parameters = p->kernelParams,
	};
	err = sim_launch_extra(ret_launch, p->extra);
	if (err == CUDA_SUCCESS)
		err = sim_function_get(handle, context, &ret_launch->function);
	if (err == CUDA_SUCCESS)
		err = sim_launch_check(ret_launch, ret_launch->function->module->context);
	return err;
}

CUresult sim_work_kernel(struct sim_work *ret_work, const CUDA_KERNEL_NODE_PARAMS *parameters,
			 bool is_cooperative)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_KERNEL };
	struct sim_context *context;
	struct sim_launch launch;
	CUresult err = sim_context_current(&context);

	if (err == CUDA_SUCCESS)
		err = launch_of(parameters, is_cooperative, context, &launch);
	if (err != CUDA_SUCCESS)
		return err;
	work.kernel.parameters = *parameters;
	work.kernel.is_cooperative = is_cooperative;
	err = keep_parameters(&work.kernel, &launch);
	if (err == CUDA_SUCCESS)
		*ret_work = work;
	else
		sim_work_done(&work);
	return err;
}

static struct {
	_Atomic uint64_t bytes;
	_Atomic uint64_t most;
} memory_[SIM_GPU_MAX];

static void count_memory(const struct sim_graph_memory *memory)
{
	uint64_t bytes = memory->parameters.bytesize;
	uint64_t now = atomic_fetch_add(&memory_[memory->gpu].bytes, bytes) + bytes;
	uint64_t most = atomic_load(&memory_[memory->gpu].most);

	while (now > most && !atomic_compare_exchange_weak(&memory_[memory->gpu].most, &most, now))
		continue;
}

uint64_t sim_graph_memory_bytes(unsigned gpu)
{
	return atomic_load(&memory_[gpu].bytes);
}

uint64_t sim_graph_memory_most_bytes(unsigned gpu)
{
	return atomic_load(&memory_[gpu].most);
}

void sim_graph_memory_reset_most(unsigned gpu)
{
	atomic_store(&memory_[gpu].most, atomic_load(&memory_[gpu].bytes));
}

CUresult sim_work_alloc(struct sim_work *ret_work, struct sim_context *context, CUmemoryPool pool,
			const CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	struct sim_graph_memory *memory = calloc(1, sizeof(*memory));
	struct sim_memory_info info;
	CUresult err;

	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = sim_pool_allocate(pool, context, parameters->bytesize, &memory->pointer);
	if (err == CUDA_SUCCESS)
		err = sim_memory_find(memory->pointer, &info);
	if (err != CUDA_SUCCESS) {
		free(memory);
		return err;
	}
	memory->buffer_id = info.buffer_id;
	memory->parameters = *parameters;
	memory->parameters.dptr = memory->pointer;
	memory->gpu = context->gpu;
	atomic_init(&memory->references, 1);
	count_memory(memory);
	*ret_work = (struct sim_work){ .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .memory = memory };
	return CUDA_SUCCESS;
}

static bool memory_lives(const struct sim_graph_memory *memory)
{
	struct sim_memory_info info;

	return sim_memory_find(memory->pointer, &info) == CUDA_SUCCESS &&
	       info.buffer_id == memory->buffer_id;
}

static void memory_drop(struct sim_graph_memory *memory)
{
	if (atomic_fetch_sub(&memory->references, 1) != 1)
		return;
	atomic_fetch_sub(&memory_[memory->gpu].bytes, memory->parameters.bytesize);
	if (memory_lives(memory))
		(void)sim_memory_free(memory->pointer); /* it was just seen alive */
	free(memory);
}

CUresult sim_work_copy(struct sim_work *ret_work, const struct sim_work *work)
{
	struct sim_graph *child;
	CUresult err;

	switch (work->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return sim_work_kernel(ret_work, &work->kernel.parameters,
				       work->kernel.is_cooperative);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		err = sim_graph_clone(work->child, &child);
		if (err != CUDA_SUCCESS)
			return err;
		child->is_child = true;
		*ret_work = (struct sim_work){ .type = work->type, .child = child };
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		atomic_fetch_add(&work->memory->references, 1);
		*ret_work = *work;
		return CUDA_SUCCESS;
	default:
		*ret_work = *work;
		return CUDA_SUCCESS;
	}
}

void sim_work_done(struct sim_work *work)
{
	switch (work->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		free(work->kernel.values);
		free(work->kernel.pointers);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		sim_graph_free(work->child);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		memory_drop(work->memory);
		break;
	default:
		break;
	}
	*work = (struct sim_work){ .type = CU_GRAPH_NODE_TYPE_EMPTY };
}

static CUresult run_kernel(const struct sim_kernel_work *kernel, struct sim_stream *stream)
{
	struct sim_launch launch;
	CUresult err =
		launch_of(&kernel->parameters, kernel->is_cooperative, stream->context, &launch);

	return err == CUDA_SUCCESS ? sim_launch_run(stream, &launch) : err;
}

static CUresult run_copy(const CUDA_MEMCPY3D *copy, struct sim_stream *stream)
{
	CUresult err = sim_stream_begin(stream);

	if (err == CUDA_SUCCESS)
		err = sim_copy_move(copy);
	if (err == CUDA_SUCCESS)
		sim_stream_end(stream, sim_stream_copy_ns(sim_copy_bytes(copy)));
	return err;
}

static CUresult run_fill(const CUDA_MEMSET_NODE_PARAMS *fill, struct sim_stream *stream)
{
	CUresult err = sim_stream_begin(stream);

	if (err == CUDA_SUCCESS)
		err = sim_fill_move(fill);
	if (err == CUDA_SUCCESS)
		sim_stream_end(stream, sim_stream_copy_ns(sim_fill_bytes(fill)));
	return err;
}

static CUresult run_host(const CUDA_HOST_NODE_PARAMS *host, struct sim_stream *stream)
{
	struct sim_host_work work = { .function = host->fn, .data = host->userData };
	struct sim_position position = sim_stream_position(stream);
	CUresult err = sim_host_work_add(stream->gpu, position, &work, &position.gate);

	if (err == CUDA_SUCCESS)
		sim_stream_follow(stream, position);
	return err;
}

static CUresult run_child(const struct sim_graph *graph, struct sim_stream *stream)
{
	struct sim_graph_node **nodes;
	CUresult err = sim_graph_sort(graph, &nodes);

	for (size_t i = 0; err == CUDA_SUCCESS && i < graph->count; i++)
		err = sim_work_run(&nodes[i]->work, stream);
	free(nodes);
	return err;
}

static CUresult run_event(const struct sim_work *work, struct sim_stream *stream)
{
	struct sim_event *event;
	CUresult err = sim_event_get(work->event, &event);

	if (err != CUDA_SUCCESS)
		return err;
	if (work->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		return sim_event_record(event, stream);
	return sim_event_follow(event, stream);
}

CUresult sim_work_run(const struct sim_work *work, struct sim_stream *stream)
{
	switch (work->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return run_kernel(&work->kernel, stream);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return run_copy(&work->copy, stream);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return run_fill(&work->fill, stream);
	case CU_GRAPH_NODE_TYPE_HOST:
		return run_host(&work->host, stream);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return run_child(work->child, stream);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return run_event(work, stream);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		/* Freed by the program since: the same address can't be had again here. */
		return memory_lives(work->memory) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}
