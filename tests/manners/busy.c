/* SPDX-License-Identifier: Apache-2.0
 *
 * See busy.h.
 */
#include "busy.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "scene.h"

static struct {
	__typeof__(nvmlInit_v2) *init;
	__typeof__(nvmlDeviceGetHandleByIndex_v2) *by_index;
	__typeof__(nvmlDeviceGetMemoryInfo) *memory;
} nvml;

static CUcontext context;

static bool linear(void)
{
	CUdeviceptr block = 0;
	CUdeviceptr more = 0;
	size_t pitch = 0;

	return cuda.cuMemAlloc_v2(&block, MIB) == CUDA_SUCCESS &&
	       cuda.cuMemAllocPitch_v2(&more, &pitch, 100, 1000, 4) == CUDA_SUCCESS &&
	       cuda.cuMemFree_v2(more) == CUDA_SUCCESS && cuda.cuMemFree_v2(block) == CUDA_SUCCESS;
}

static bool refused(void)
{
	CUdeviceptr block = 0;

	return cuda.cuMemAlloc_v2(&block, 2 * GIB) == CUDA_ERROR_OUT_OF_MEMORY;
}

static bool managed(void)
{
	CUdeviceptr block = 0;

	return cuda.cuMemAllocManaged(&block, MIB, 1) == CUDA_SUCCESS &&
	       cuda.cuMemFree_v2(block) == CUDA_SUCCESS;
}

static bool async(void)
{
	CUdeviceptr block = 0;

	return cuda.cuMemAllocAsync(&block, MIB, NULL) == CUDA_SUCCESS &&
	       cuda.cuMemFreeAsync(block, NULL) == CUDA_SUCCESS;
}

static bool physical(void)
{
	const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr place = 0;

	return cuda.cuMemAddressReserve(&place, 2 * MIB, 0, 0, 0) == CUDA_SUCCESS &&
	       cuda.cuMemCreate(&handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS &&
	       cuda.cuMemMap(place, 2 * MIB, 0, handle, 0) == CUDA_SUCCESS &&
	       cuda.cuMemRelease(handle) == CUDA_SUCCESS &&
	       cuda.cuMemUnmap(place, 2 * MIB) == CUDA_SUCCESS &&
	       cuda.cuMemAddressFree(place, 2 * MIB) == CUDA_SUCCESS;
}

static bool info(void)
{
	size_t free_bytes = 0;
	size_t total_bytes = 0;

	return cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
	       total_bytes == GIB && cuda.cuDeviceTotalMem_v2(&total_bytes, 0) == CUDA_SUCCESS &&
	       total_bytes == GIB;
}

static bool contexts(void)
{
	CUcontext own = NULL;

	return cuda.cuCtxCreate_v2(&own, 0, 0) == CUDA_SUCCESS &&
	       cuda.cuCtxDestroy_v2(own) == CUDA_SUCCESS;
}

static bool primary(void)
{
	CUcontext own = NULL;

	return cuda.cuDevicePrimaryCtxRetain(&own, 0) == CUDA_SUCCESS &&
	       cuda.cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS;
}

static bool pools(void)
{
	const CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				       .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	uint64_t threshold_bytes = 8 * MIB;
	CUmemoryPool pool = NULL;
	CUdeviceptr block = 0;

	return cuda.cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS &&
	       cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
					  &threshold_bytes) == CUDA_SUCCESS &&
	       cuda.cuMemAllocFromPoolAsync(&block, MIB, pool, NULL) == CUDA_SUCCESS &&
	       cuda.cuMemFreeAsync(block, NULL) == CUDA_SUCCESS &&
	       cuda.cuStreamSynchronize(NULL) == CUDA_SUCCESS &&
	       cuda.cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS &&
	       cuda.cuMemPoolDestroy(pool) == CUDA_SUCCESS;
}

static bool arrays(void)
{
	const CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1
	};
	CUarray array = NULL;

	return cuda.cuArrayCreate_v2(&array, &shape) == CUDA_SUCCESS &&
	       cuda.cuArrayDestroy(array) == CUDA_SUCCESS;
}

static bool view(void)
{
	nvmlDevice_t device = NULL;
	nvmlMemory_t memory = { 0 };

	return nvml.by_index(0, &device) == NVML_SUCCESS &&
	       nvml.memory(device, &memory) == NVML_SUCCESS && memory.total == GIB;
}

/* The three ways to a hook. The last asks for what is linked, not loaded. */
static bool look_up(void)
{
	void *function = NULL;

	return cuda.cuGetProcAddress_v2("cuMemAlloc", &function, 13000, 0, NULL) == CUDA_SUCCESS &&
	       function && dlsym(RTLD_DEFAULT, "cuMemFree_v2") &&
	       dlsym(RTLD_DEFAULT, "nvmlDeviceGetMemoryInfo") && cuda.cuInit(0) == CUDA_SUCCESS;
}

static bool (*const kinds[])(void) = { linear,   refused, managed, async,  physical, info,
				       contexts, primary, pools,   arrays, view,     look_up };

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

static struct {
	_Atomic bool ended;
	_Atomic unsigned rounds[KIND_COUNT];
	_Atomic int wrong; /* kind + 1 */
	pthread_t threads[KIND_COUNT];
} busy;

static void *work(void *arg)
{
	size_t kind = (size_t)(uintptr_t)arg;

	if (cuda.cuCtxSetCurrent(context) != CUDA_SUCCESS)
		busy.wrong = (int)kind + 1;
	while (!busy.ended && !busy.wrong) {
		if (!kinds[kind]())
			busy.wrong = (int)kind + 1;
		busy.rounds[kind]++;
	}
	return NULL;
}

int busy_start(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	CHILD_CHECK(library);
	nvml.init = (__typeof__(nvml.init))dlsym(library, "nvmlInit_v2");
	nvml.by_index = (__typeof__(nvml.by_index))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	nvml.memory = (__typeof__(nvml.memory))dlsym(library, "nvmlDeviceGetMemoryInfo");
	CHILD_CHECK(nvml.init && nvml.by_index && nvml.memory && nvml.init() == NVML_SUCCESS);
	CHILD_CHECK(berth_driver()->cuCtxGetCurrent(&context) == CUDA_SUCCESS);
	for (size_t i = 0; i < KIND_COUNT; i++)
		CHILD_CHECK(!pthread_create(&busy.threads[i], NULL, work, (void *)(uintptr_t)i));
	return 0;
}

bool busy_await(unsigned rounds)
{
	unsigned before[KIND_COUNT];

	for (size_t i = 0; i < KIND_COUNT; i++)
		before[i] = busy.rounds[i];
	for (size_t i = 0; i < KIND_COUNT; i++) {
		while (busy.rounds[i] - before[i] < rounds && !busy.wrong)
			(void)sched_yield();
	}
	return !busy.wrong;
}

int busy_end(void)
{
	busy.ended = true;
	for (size_t i = 0; i < KIND_COUNT; i++)
		CHILD_CHECK(!pthread_join(busy.threads[i], NULL));
	if (busy.wrong)
		dprintf(2, "the thread of kind %d met a wrong answer\n", busy.wrong - 1);
	return busy.wrong != 0;
}
