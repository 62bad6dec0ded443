/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordinals are looked up once. The context's GPU is remembered per thread with the generation of
 * context deaths, so the usual allocation costs one extra driver call (which context is current),
 * not two.
 */
#include "interpose/gpu.h"

#include <errno.h>
#include <stdatomic.h>

#include "account/account.h"
#include "base/log.h"
#include "driver/gpu_list.h"
#include "interpose/capture.h"
#include "interpose/init.h"
#include "interpose/real.h"

#define ORDINAL_MAX 64

/* 0 = not looked up, GPU + 1, or -1 = not of the share. */
static _Atomic int ordinals[ORDINAL_MAX];

static _Atomic uint64_t context_generation = 1;

/* Initial-exec: preloaded, so the loader has room for it; and no call to find it. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
	uint64_t generation;
	struct berth_place place;
} last_place;

void berth_place_forget(void)
{
	for (int i = 0; i < ORDINAL_MAX; i++)
		atomic_store_explicit(&ordinals[i], 0, memory_order_relaxed);
	berth_place_invalidate();
}

/* A driver that is up although no cuInit came by: some path we do not cover. Fail closed: attach. */
static bool attach_late(void)
{
	CUcontext context;

	if (REAL(cuCtxGetCurrent, &context) != CUDA_SUCCESS)
		return false; /* not initialised: whatever it is, the driver will refuse it */
	return berth_attach() == BERTH_ACCOUNT_ATTACHED;
}

bool berth_gpu_attached(void)
{
	enum berth_account_state state = berth_account_state();

	return state == BERTH_ACCOUNT_ATTACHED ||
	       (state == BERTH_ACCOUNT_UNDECIDED && attach_late());
}

static int look_up(CUdevice device)
{
	char text[BERTH_GPU_UUID_SIZE] = "";
	CUuuid uuid;
	int gpu = -ENODEV;

	if (REAL(cuDeviceGetUuid, &uuid, device) != CUDA_SUCCESS)
		return -EAGAIN; /* a wrong ordinal: the driver's to refuse, not ours to remember */
	berth_gpu_uuid_format(uuid.bytes, text);
	gpu = berth_account_gpu_find(text);
	if (gpu < 0)
		berth_log_once(BERTH_LOG_ERROR,
			       "CUDA device %d (%s) is not in this share: its memory is refused",
			       device, text);
	return gpu;
}

int berth_gpu_of_device(CUdevice device)
{
	bool known = device >= 0 && device < ORDINAL_MAX;
	int gpu = known ? atomic_load_explicit(&ordinals[device], memory_order_relaxed) : 0;

	if (gpu)
		return gpu > 0 ? gpu - 1 : -ENODEV;
	gpu = look_up(device);
	if (known && gpu != -EAGAIN)
		atomic_store_explicit(&ordinals[device], gpu >= 0 ? gpu + 1 : -1,
				      memory_order_relaxed);
	return gpu >= 0 ? gpu : -ENODEV;
}

CUresult berth_place_current(struct berth_place *place)
{
	uint64_t generation = atomic_load_explicit(&context_generation, memory_order_acquire);
	CUcontext context = NULL;
	CUdevice device;
	CUresult res = REAL(cuCtxGetCurrent, &context);

	*place = (struct berth_place){ .context = (uintptr_t)context };
	if (res != CUDA_SUCCESS)
		return res;
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (last_place.generation != generation || last_place.place.context != (uintptr_t)context) {
		res = REAL(cuCtxGetDevice, &device);
		if (res != CUDA_SUCCESS)
			return res;
		last_place.place.gpu = berth_gpu_of_device(device);
		last_place.place.device = device;
		last_place.place.context = (uintptr_t)context;
		last_place.generation = generation;
	}
	*place = last_place.place;
	return CUDA_SUCCESS;
}

/* Handles 0, 1 and 2 are names of the current context's default streams. */
static bool is_default_stream(CUstream stream)
{
	return (uintptr_t)stream <= 2;
}

CUresult berth_place_stream(CUstream stream, struct berth_place *place)
{
	CUcontext context = NULL, popped = NULL;
	CUdevice device;
	CUresult res = berth_place_current(place);

	if (res != CUDA_SUCCESS || is_default_stream(stream) || berth_capture_running())
		return res;
	/* No such stream: the driver will say so itself. */
	if (REAL(cuStreamGetCtx, stream, &context) != CUDA_SUCCESS ||
	    (uintptr_t)context == place->context)
		return res;
	/* cuCtxGetDevice asks the current context only; its form with a context is of 13.0. */
	res = REAL(cuCtxPushCurrent_v2, context);
	if (res != CUDA_SUCCESS)
		return res;
	res = REAL(cuCtxGetDevice, &device);
	(void)REAL(cuCtxPopCurrent_v2, &popped); /* what was pushed above */
	if (res != CUDA_SUCCESS)
		return res;
	*place = (struct berth_place){ .gpu = berth_gpu_of_device(device),
				       .device = device,
				       .context = (uintptr_t)context };
	return CUDA_SUCCESS;
}

void berth_place_invalidate(void)
{
	atomic_fetch_add_explicit(&context_generation, 1, memory_order_release);
}
