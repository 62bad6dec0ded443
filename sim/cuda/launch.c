/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking and running launches; launch_calls.c has the exported forms.
 */
#include "sim/cuda/launch.h"

#include <string.h>

#include "sim/cuda/device.h"
#include "sim/cuda/function_limits.h"
#include "sim/kernel_plugin.h"

static const unsigned grid_most[3] = { 2147483647U, 65535U, 65535U };
static const unsigned block_most[3] = { 1024U, 1024U, 64U };

static uint64_t product(const unsigned size[3])
{
	return (uint64_t)size[0] * size[1] * size[2];
}

static CUresult check_shape(const struct sim_launch *launch)
{
	for (size_t i = 0; i < 3; i++) {
		if (!launch->grid[i] || !launch->block[i] || launch->grid[i] > grid_most[i] ||
		    launch->block[i] > block_most[i])
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (product(launch->block) > SIM_THREADS_BLOCK)
		return CUDA_ERROR_INVALID_VALUE;
	if (product(launch->block) > launch->function->info->threads_max)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (launch->shared_bytes > (unsigned)launch->function->settings.dynamic_shared_max)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult check_parameters(const struct sim_launch *launch)
{
	const struct sim_kernel_info *info = launch->function->info;
	const struct sim_parameter *last;

	if (launch->parameters && launch->buffer)
		return CUDA_ERROR_INVALID_VALUE;
	if (!info->parameters_known || !info->parameters_count)
		return CUDA_SUCCESS;
	if (!launch->parameters && !launch->buffer)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; launch->parameters && i < info->parameters_count; i++) {
		if (!launch->parameters[i])
			return CUDA_ERROR_INVALID_VALUE;
	}
	last = &info->parameters[info->parameters_count - 1];
	if (launch->buffer && launch->buffer_bytes < last->offset_bytes + last->size_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

unsigned sim_blocks_per_sm(const struct sim_function *function, unsigned threads,
			   size_t dynamic_shared_bytes)
{
	const struct sim_kernel_info *info = function->info;
	unsigned warps = (threads + SIM_WARP_THREADS - 1) / SIM_WARP_THREADS;
	size_t shared = info->shared_bytes + dynamic_shared_bytes + SIM_SHARED_BYTES_SYSTEM;
	size_t blocks = SIM_BLOCKS_SM;
	size_t fit;

	if (!warps || threads > info->threads_max)
		return 0;
	fit = SIM_THREADS_SM / (warps * SIM_WARP_THREADS);
	blocks = fit < blocks ? fit : blocks;
	fit = SIM_REGISTERS_SM / ((size_t)info->registers_count * warps * SIM_WARP_THREADS);
	blocks = fit < blocks ? fit : blocks;
	fit = SIM_SHARED_BYTES_SM / shared;
	return (unsigned)(fit < blocks ? fit : blocks);
}

static CUresult check_cooperative(const struct sim_launch *launch,
				  const struct sim_context *context)
{
	uint64_t most =
		(uint64_t)sim_blocks_per_sm(launch->function, (unsigned)product(launch->block),
					    launch->shared_bytes) *
		sim_device_config(context->device)->sm_count;

	return product(launch->grid) > most ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
					    : CUDA_SUCCESS;
}

CUresult sim_launch_check(const struct sim_launch *launch, const struct sim_context *context)
{
	CUresult err;

	if (launch->function->module->context != context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (launch->function->wave_ns == UINT64_MAX)
		return CUDA_ERROR_SYSTEM_NOT_READY; /* BERTH_SIM_KERNEL_COST was complained about */
	err = check_shape(launch);
	if (err == CUDA_SUCCESS)
		err = check_parameters(launch);
	if (err == CUDA_SUCCESS && launch->is_cooperative)
		err = check_cooperative(launch, context);
	return err;
}

CUresult sim_launch_extra(struct sim_launch *launch, void **extra)
{
	const size_t *bytes = NULL;

	if (!extra)
		return CUDA_SUCCESS;
	while (*extra != CU_LAUNCH_PARAM_END) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			launch->buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
		extra += 2;
	}
	if (!launch->buffer || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	launch->buffer_bytes = *bytes;
	return CUDA_SUCCESS;
}

uint64_t sim_launch_cost_ns(const struct sim_launch *launch, const struct sim_context *context)
{
	uint64_t sms = sim_device_config(context->device)->sm_count;
	uint64_t waves = (product(launch->grid) + sms - 1) / (sms ? sms : 1);
	uint64_t cost_ns;

	return __builtin_mul_overflow(waves, launch->function->wave_ns, &cost_ns) ? UINT64_MAX / 4
										  : cost_ns;
}

static void *memory_for_plugin(uint64_t pointer, size_t bytes)
{
	void *host;

	if (sim_memory_resolve(pointer, bytes, SIM_READ | SIM_WRITE, &host) != CUDA_SUCCESS)
		return NULL;
	return host;
}

/* The plug-in gets copies: it may change its parameters as a kernel may. */
static void compute(const struct sim_launch *launch)
{
	const struct sim_kernel_info *info = launch->function->info;
	_Alignas(16) unsigned char values[SIM_LEGACY_PARAMETER_BYTES];
	void *parameters[SIM_KERNEL_PARAMETERS];
	struct berth_sim_launch view = {
		.shared_bytes = launch->shared_bytes,
		.memory = memory_for_plugin,
	};
	berth_sim_kernel kernel = (berth_sim_kernel)launch->function->host_function;

	memcpy(view.grid, launch->grid, sizeof(view.grid));
	memcpy(view.block, launch->block, sizeof(view.block));
	for (uint32_t i = 0; i < info->parameters_count; i++) {
		const struct sim_parameter *parameter = &info->parameters[i];
		size_t end = (size_t)parameter->offset_bytes + parameter->size_bytes;

		if (end > sizeof(values))
			return;
		parameters[i] = values + parameter->offset_bytes;
		memcpy(parameters[i],
		       launch->buffer ? launch->buffer + parameter->offset_bytes
				      : launch->parameters[i],
		       parameter->size_bytes);
	}
	sim_memory_note_kernels();
	kernel(&view, info->parameters_known ? parameters : launch->parameters);
}

CUresult sim_launch_run(struct sim_stream *stream, const struct sim_launch *launch)
{
	CUresult err = sim_stream_begin(stream);

	if (err != CUDA_SUCCESS)
		return err;
	if (launch->function->host_function)
		compute(launch);
	sim_stream_end(stream, sim_launch_cost_ns(launch, stream->context));
	return CUDA_SUCCESS;
}
