/* SPDX-License-Identifier: Apache-2.0
 *
 * cuCtx*: create, destroy, current, and what a context remembers. Waiting for a context's work is
 * in stream files.
 */
#include <pthread.h>

#include "sim/cuda/context_internal.h"
#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/stream.h"

/* Guards the few fields that calls change on a living context. */
static pthread_mutex_t fields_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- create and destroy ---- */

static CUresult context_create(CUcontext *ret_context, unsigned flags, CUdevice device)
{
	struct sim_context *context;
	CUresult result;
	unsigned gpu;

	if (!ret_context || !sim_context_flags_are_good(flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_device_gpu(device, &gpu) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_DEVICE;
	context = sim_context_alloc(device, false);
	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = sim_context_begin(context, flags);
	if (result != CUDA_SUCCESS)
		return result;
	result = sim_context_stack_push(context);
	if (result != CUDA_SUCCESS) {
		(void)sim_context_end(context); /* nobody else knows it yet */
		return result;
	}
	*ret_context = (CUcontext)context;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice device)
{
	SIM_ENTER(cuCtxCreate);
	return SIM_LEAVE(context_create(ctx, flags, device));
}

SIM_EXPORT CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device)
{
	SIM_ENTER(cuCtxCreate_v2);
	return SIM_LEAVE(context_create(ctx, flags, device));
}

/* A share of the multiprocessors can only be had from a server process that isn't there. */
SIM_EXPORT CUresult cuCtxCreate_v3(CUcontext *ctx, CUexecAffinityParam *params_array,
				   int num_params, unsigned int flags, CUdevice device)
{
	SIM_ENTER(cuCtxCreate_v3);
	if (num_params < 0 || (num_params > 0) != (params_array != NULL))
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (num_params > 0)
		return SIM_LEAVE(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	return SIM_LEAVE(context_create(ctx, flags, device));
}

SIM_EXPORT CUresult cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *ctx_create_params,
				   unsigned int flags, CUdevice device)
{
	SIM_ENTER(cuCtxCreate_v4);
	if (ctx_create_params) {
		const CUctxCreateParams *params = ctx_create_params;

		if (params->numExecAffinityParams < 0 ||
		    (params->numExecAffinityParams > 0) != (params->execAffinityParams != NULL))
			return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
		if (params->numExecAffinityParams > 0)
			return SIM_LEAVE(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
		if (params->cigParams)
			return SIM_LEAVE(CUDA_ERROR_NOT_SUPPORTED);
	}
	return SIM_LEAVE(context_create(ctx, flags, device));
}

static CUresult context_destroy(CUcontext handle)
{
	struct sim_context *context;
	CUresult result;

	result = sim_context_get(handle, false, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (context->is_primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!sim_context_end(context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (sim_context_stack_top() == context)
		sim_context_stack_pop();
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxDestroy(CUcontext ctx)
{
	SIM_ENTER(cuCtxDestroy);
	return SIM_LEAVE(context_destroy(ctx));
}

SIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	SIM_ENTER(cuCtxDestroy_v2);
	return SIM_LEAVE(context_destroy(ctx));
}

SIM_EXPORT CUresult cuCtxAttach(CUcontext *ctx, unsigned int flags)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxAttach);
	if (!ctx || flags != 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_current(&context);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	pthread_mutex_lock(&fields_mutex);
	context->attach_count++;
	pthread_mutex_unlock(&fields_mutex);
	*ctx = (CUcontext)context;
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	struct sim_context *context;
	CUresult result;
	bool is_last;

	SIM_ENTER(cuCtxDetach);
	result = sim_context_get(ctx, false, &context);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	if (context != sim_context_stack_top())
		return SIM_LEAVE(CUDA_ERROR_INVALID_CONTEXT);
	pthread_mutex_lock(&fields_mutex);
	is_last = --context->attach_count == 0;
	pthread_mutex_unlock(&fields_mutex);
	return SIM_LEAVE(is_last ? context_destroy(ctx) : CUDA_SUCCESS);
}

/* ---- current ---- */

static CUresult context_push(CUcontext handle)
{
	struct sim_context *context;
	CUresult result;

	result = sim_context_get(handle, false, &context);
	return result == CUDA_SUCCESS ? sim_context_stack_push(context) : result;
}

SIM_EXPORT CUresult cuCtxPushCurrent(CUcontext ctx)
{
	SIM_ENTER(cuCtxPushCurrent);
	return SIM_LEAVE(context_push(ctx));
}

SIM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	SIM_ENTER(cuCtxPushCurrent_v2);
	return SIM_LEAVE(context_push(ctx));
}

static CUresult context_pop(CUcontext *ret_context)
{
	struct sim_context *top = sim_context_stack_top();

	if (!top)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_context_stack_pop();
	if (ret_context)
		*ret_context = (CUcontext)top;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxPopCurrent(CUcontext *ctx)
{
	SIM_ENTER(cuCtxPopCurrent);
	return SIM_LEAVE(context_pop(ctx));
}

SIM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
	SIM_ENTER(cuCtxPopCurrent_v2);
	return SIM_LEAVE(context_pop(ctx));
}

SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxSetCurrent);
	if (!ctx) {
		if (sim_context_stack_top())
			sim_context_stack_pop();
		return SIM_LEAVE(CUDA_SUCCESS);
	}
	result = sim_context_get(ctx, false, &context);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	if (sim_context_stack_top())
		sim_context_stack_pop();
	return SIM_LEAVE(sim_context_stack_push(context));
}

SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	SIM_ENTER(cuCtxGetCurrent);
	if (!ctx)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	*ctx = (CUcontext)sim_context_stack_top();
	return SIM_LEAVE(CUDA_SUCCESS);
}

static CUresult context_device(CUdevice *ret_device, CUcontext handle)
{
	struct sim_context *context;
	CUresult result;

	if (!ret_device)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_context_get(handle, true, &context);
	if (result == CUDA_SUCCESS)
		*ret_device = context->device;
	return result;
}

SIM_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	SIM_ENTER(cuCtxGetDevice);
	return SIM_LEAVE(context_device(device, NULL));
}

SIM_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	SIM_ENTER(cuCtxGetDevice_v2);
	return SIM_LEAVE(context_device(device, ctx));
}

/* ---- what it remembers ---- */

SIM_EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxGetFlags);
	if (!flags)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		*flags = context->flags;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuCtxSetFlags(unsigned int flags)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxSetFlags);
	if (!sim_context_flags_are_good(flags))
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		context->flags = flags;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctx_id)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxGetId);
	if (!ctx_id)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_get(ctx, true, &context);
	if (result == CUDA_SUCCESS)
		*ctx_id = context->id;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxGetApiVersion);
	if (!version)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_get(ctx, true, &context);
	if (result == CUDA_SUCCESS)
		*version = context->api_version;
	return SIM_LEAVE(result);
}

static CUresult limit_check(CUlimit limit)
{
	if ((unsigned)limit > CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit >= CU_LIMIT_SHMEM_SIZE)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxGetLimit);
	if (!pvalue)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = limit_check(limit);
	if (result == CUDA_SUCCESS)
		*pvalue = context->limits[limit];
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxSetLimit);
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = limit_check(limit);
	if (result == CUDA_SUCCESS)
		context->limits[limit] = value;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxGetCacheConfig);
	if (!pconfig)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		*pconfig = (CUfunc_cache)context->cache_config;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxSetCacheConfig);
	if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		context->cache_config = (int)config;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxGetSharedMemConfig);
	if (!config)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		*config = (CUsharedconfig)context->shared_config;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxSetSharedMemConfig);
	if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS && config != CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE)
		context->shared_config = (int)config;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least_priority, int *greatest_priority)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuCtxGetStreamPriorityRange);
	result = sim_context_current(&context);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	if (least_priority)
		*least_priority = 0;
	if (greatest_priority)
		*greatest_priority = -5;
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuCtxResetPersistingL2Cache(void)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxResetPersistingL2Cache);
	return SIM_LEAVE(sim_context_current(&context));
}
