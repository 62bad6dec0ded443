/* SPDX-License-Identifier: Apache-2.0
 *
 * Primary contexts: one a device, alive while retained. Its handle stays the same for the life of
 * the process. The device's mutex covers the whole of retain, release and reset, so that however
 * many threads retain at once there is one context and one charge.
 */
#include <pthread.h>

#include "sim/config.h"
#include "sim/cuda/context_internal.h"
#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/pool.h"

static struct primary {
	pthread_mutex_t mutex;
	struct sim_context *context; /* made by the first retain, never freed */
	unsigned retain_count;
	unsigned flags;
} primaries[SIM_GPU_MAX] = { [0 ... SIM_GPU_MAX - 1] = { .mutex = PTHREAD_MUTEX_INITIALIZER } };

static CUresult retain_locked(struct primary *primary, CUdevice device)
{
	CUresult result;

	if (!primary->context) {
		primary->context = sim_context_alloc(device, true);
		if (!primary->context)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (primary->retain_count == 0) {
		result = sim_context_begin(primary->context, primary->flags);
		if (result != CUDA_SUCCESS)
			return result;
	}
	primary->retain_count++;
	return CUDA_SUCCESS;
}

CUresult sim_context_primary_hold(CUdevice device, struct sim_context **ret_context)
{
	struct primary *primary;
	CUresult result;
	unsigned gpu;

	result = sim_device_gpu(device, &gpu);
	if (result != CUDA_SUCCESS)
		return result;
	primary = &primaries[device];
	pthread_mutex_lock(&primary->mutex);
	result = retain_locked(primary, device);
	if (result == CUDA_SUCCESS)
		*ret_context = primary->context;
	pthread_mutex_unlock(&primary->mutex);
	return result;
}

struct sim_context *sim_context_primary(CUdevice device)
{
	struct primary *primary = &primaries[device];
	struct sim_context *context = NULL;

	pthread_mutex_lock(&primary->mutex);
	if (primary->retain_count > 0)
		context = primary->context;
	pthread_mutex_unlock(&primary->mutex);
	return context;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuDevicePrimaryCtxRetain);
	if (!ctx)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_primary_hold(device, &context);
	if (result == CUDA_SUCCESS)
		*ctx = (CUcontext)context;
	return SIM_LEAVE(result);
}

static CUresult primary_release(CUdevice device)
{
	struct primary *primary;
	CUresult result;
	unsigned gpu;

	result = sim_device_gpu(device, &gpu);
	if (result != CUDA_SUCCESS)
		return result;
	primary = &primaries[device];
	pthread_mutex_lock(&primary->mutex);
	if (primary->retain_count == 0)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (--primary->retain_count == 0)
		(void)sim_context_end(primary->context); /* only ended under this mutex */
	pthread_mutex_unlock(&primary->mutex);
	return result;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	SIM_ENTER(cuDevicePrimaryCtxRelease);
	return SIM_LEAVE(primary_release(device));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	SIM_ENTER(cuDevicePrimaryCtxRelease_v2);
	return SIM_LEAVE(primary_release(device));
}

/* All retains are forgotten with what they kept. */
static CUresult primary_reset(CUdevice device)
{
	struct primary *primary;
	CUresult result;
	unsigned gpu;

	result = sim_device_gpu(device, &gpu);
	if (result != CUDA_SUCCESS)
		return result;
	primary = &primaries[device];
	pthread_mutex_lock(&primary->mutex);
	if (primary->retain_count > 0)
		(void)sim_context_end(primary->context); /* only ended under this mutex */
	primary->retain_count = 0;
	sim_pool_device_reset(device);
	pthread_mutex_unlock(&primary->mutex);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	SIM_ENTER(cuDevicePrimaryCtxReset);
	return SIM_LEAVE(primary_reset(device));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	SIM_ENTER(cuDevicePrimaryCtxReset_v2);
	return SIM_LEAVE(primary_reset(device));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	struct primary *primary;
	CUresult result;
	unsigned gpu;

	SIM_ENTER(cuDevicePrimaryCtxGetState);
	if (!flags || !active)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_device_gpu(device, &gpu);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	primary = &primaries[device];
	pthread_mutex_lock(&primary->mutex);
	*flags = primary->flags;
	*active = primary->retain_count > 0;
	pthread_mutex_unlock(&primary->mutex);
	return SIM_LEAVE(CUDA_SUCCESS);
}

/* _v2: also while it is active; the first form wasn't allowed then. */
static CUresult primary_set_flags(CUdevice device, unsigned flags, bool while_active)
{
	struct primary *primary;
	CUresult result;
	unsigned gpu;

	result = sim_device_gpu(device, &gpu);
	if (result != CUDA_SUCCESS)
		return result;
	if (!sim_context_flags_are_good(flags))
		return CUDA_ERROR_INVALID_VALUE;
	primary = &primaries[device];
	pthread_mutex_lock(&primary->mutex);
	if (primary->retain_count > 0 && !while_active) {
		result = CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
	} else {
		primary->flags = flags;
		if (primary->retain_count > 0)
			primary->context->flags = flags;
	}
	pthread_mutex_unlock(&primary->mutex);
	return result;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
	SIM_ENTER(cuDevicePrimaryCtxSetFlags);
	return SIM_LEAVE(primary_set_flags(device, flags, false));
}

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	SIM_ENTER(cuDevicePrimaryCtxSetFlags_v2);
	return SIM_LEAVE(primary_set_flags(device, flags, true));
}
