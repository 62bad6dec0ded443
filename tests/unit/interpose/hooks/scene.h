/* SPDX-License-Identifier: Apache-2.0
 *
 * A scene: made-up GPUs, a share with a limit, and a body that runs in a process of its own which has
 * the interposer preloaded. The driver is loaded and looked up as programs do it, so `cuda` holds
 * the hooks; what the same driver answers without them is in berth_driver() (driver/driver.h).
 */
#ifndef BERTH_TESTS_HOOKS_SCENE_H
#define BERTH_TESTS_HOOKS_SCENE_H

#include <stdint.h>
#include <stdio.h>

#include "child.h"
#include "driver/cuda_functions.h"
#include "driver/driver.h"
#include "driver/nvml_functions.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

#define SCENE_CALLS(X)                  \
	X(cuInit)                       \
	X(cuDeviceGet)                  \
	X(cuDeviceTotalMem)             \
	X(cuDeviceTotalMem_v2)          \
	X(cuMemGetInfo)                 \
	X(cuMemGetInfo_v2)              \
	X(cuCtxCreate_v2)               \
	X(cuCtxDestroy_v2)              \
	X(cuCtxSetCurrent)              \
	X(cuCtxSynchronize)             \
	X(cuDevicePrimaryCtxRetain)     \
	X(cuDevicePrimaryCtxRelease_v2) \
	X(cuDevicePrimaryCtxReset_v2)   \
	X(cuMemAlloc)                   \
	X(cuMemAlloc_v2)                \
	X(cuMemAllocPitch)              \
	X(cuMemAllocPitch_v2)           \
	X(cuMemAllocManaged)            \
	X(cuMemFree)                    \
	X(cuMemFree_v2)                 \
	X(cuMemFreeHost)                \
	X(cuMemHostUnregister)          \
	X(cuMemAllocAsync)              \
	X(cuMemAllocAsync_ptsz)         \
	X(cuMemAllocFromPoolAsync)      \
	X(cuMemAllocFromPoolAsync_ptsz) \
	X(cuMemFreeAsync)               \
	X(cuMemFreeAsync_ptsz)          \
	X(cuMemPoolCreate)              \
	X(cuMemPoolDestroy)             \
	X(cuMemPoolSetAttribute)        \
	X(cuMemPoolTrimTo)              \
	X(cuDeviceGetDefaultMemPool)    \
	X(cuMemCreate)                  \
	X(cuMemRelease)                 \
	X(cuMemRetainAllocationHandle)  \
	X(cuMemAddressReserve)          \
	X(cuMemAddressFree)             \
	X(cuMemMap)                     \
	X(cuMemUnmap)                   \
	X(cuArrayCreate_v2)             \
	X(cuArray3DCreate_v2)           \
	X(cuArrayDestroy)               \
	X(cuMipmappedArrayCreate)       \
	X(cuMipmappedArrayDestroy)      \
	X(cuGetProcAddress_v2)          \
	X(cuStreamCreate)               \
	X(cuStreamBeginCapture_v2)      \
	X(cuStreamEndCapture)           \
	X(cuStreamSynchronize)          \
	X(cuMemsetD8Async)

struct scene_cuda {
#define SCENE_POINTER(name) __typeof__(name) *name;
	SCENE_CALLS(SCENE_POINTER)
#undef SCENE_POINTER
};
extern struct scene_cuda cuda;

struct scene {
	const char *gpus;          /* NULL = 1x8G */
	const char *limit;         /* of every GPU; NULL = in no share */
	const char *visible;       /* CUDA_VISIBLE_DEVICES */
	const char *faults;        /* BERTH_SIM_FAULTS */
	const char *context_bytes; /* what a context takes; NULL = nothing */
	const char *log_level;
	int (*body)(void);
	char *ret_error; /* what it wrote to standard error; 8192 bytes, or NULL */
};

/* Fails the test unless body returns 0. */
void scene_run(const struct scene *scene);

/* In the body: loads the driver and looks everything up. 0 = well. */
int scene_load(void);
/* The same, cuInit, and a context on CUDA device 0, which is current. */
int scene_start(void);

/* Bytes charged on the region's GPU by all of the share. */
uint64_t scene_booked(int gpu);
/* Path of the share's region, of the fault file, of a log that the simulator writes. */
const char *scene_region(void);
const char *scene_path(const char *name);

/* How often the simulator logged this symbol in this process; call scene_log before scene_load. */
int scene_log(void);
int scene_logged(const char *symbol);

#endif
