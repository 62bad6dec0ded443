/* SPDX-License-Identifier: Apache-2.0
 *
 * See pool.h. Pools the program made are known from their creation; the devices' own are found once
 * by asking for each device's.
 */
#include "interpose/pool.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "account/account.h"
#include "account/books.h"
#include "account/reserve.h"
#include "base/attributes.h"
#include "interpose/capture.h"
#include "interpose/charge.h"
#include "interpose/gpu.h"
#include "interpose/real.h"

/* The entry of a pool: uses says where its memory lies. */
enum { POOL_ON_HOST = 0, POOL_ON_GPU = 1, POOL_ON_FOREIGN_GPU = 2 };

/* Bit i: on GPU i the program made another pool than the device's own the current one. */
static _Atomic uint32_t custom_current_mask;

void berth_pools_forget(void)
{
	atomic_store_explicit(&custom_current_mask, 0, memory_order_relaxed);
}

static bool attached(void)
{
	return berth_account_state() == BERTH_ACCOUNT_ATTACHED;
}

static void note(CUmemoryPool pool, const CUmemLocation *location)
{
	struct berth_block block = { .uses = POOL_ON_HOST };
	int gpu;

	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
		gpu = berth_gpu_of_device(location->id);
		block.uses = gpu >= 0 ? POOL_ON_GPU : POOL_ON_FOREIGN_GPU;
		block.gpu = gpu >= 0 ? (uint8_t)gpu : 0;
	}
	berth_books_enter(BERTH_KEY_POOL, (uintptr_t)pool, &block);
}

static bool is_own_pool(CUmemoryPool pool, CUdevice device)
{
	CUmemoryPool own = NULL;

	if (REAL(cuDeviceGetDefaultMemPool, &own, device) == CUDA_SUCCESS && own == pool)
		return true;
	/* Imported, or made before we were attached, and now current. */
	return REAL(cuDeviceGetMemPool, &own, device) == CUDA_SUCCESS && own == pool;
}

static bool find_device(CUmemoryPool pool, CUdevice *ret_device)
{
	CUdevice device;
	int count = 0;

	if (REAL(cuDeviceGetCount, &count) != CUDA_SUCCESS)
		return false;
	for (int i = 0; i < count; i++) {
		if (REAL(cuDeviceGet, &device, i) == CUDA_SUCCESS && is_own_pool(pool, device)) {
			*ret_device = device;
			return true;
		}
	}
	return false;
}

bool berth_pool_gpu(CUmemoryPool pool, int *ret_gpu)
{
	struct berth_block block;
	CUdevice device;

	if (!berth_books_get(BERTH_KEY_POOL, (uintptr_t)pool, &block)) {
		/* Of none of the devices: an imported one lies where its exporter made it; the
		 * current GPU is the best that can be told. */
		if (!find_device(pool, &device) && REAL(cuCtxGetDevice, &device) != CUDA_SUCCESS)
			return false;
		*ret_gpu = berth_gpu_of_device(device);
		return true;
	}
	*ret_gpu = block.uses == POOL_ON_GPU ? block.gpu : -ENODEV;
	return block.uses != POOL_ON_HOST;
}

CUmemoryPool berth_pool_current(CUdevice device)
{
	CUmemoryPool pool = NULL;

	return REAL(cuDeviceGetMemPool, &pool, device) == CUDA_SUCCESS ? pool : NULL;
}

uint64_t berth_pool_owner(int gpu)
{
	uint32_t mask = atomic_load_explicit(&custom_current_mask, memory_order_relaxed);

	return gpu < 0 || mask & (1U << gpu) ? 0 : UINT64_MAX - (uint64_t)gpu;
}

/* A handle as the account keeps it. */
static CUmemoryPool handle_of(uint64_t number)
{
	CUmemoryPool pool;

	_Static_assert(sizeof(pool) == sizeof(number), "a handle is kept whole");
	memcpy(&pool, &number, sizeof(pool));
	return pool;
}

static void measure(CUmemoryPool pool)
{
	uint64_t reserved_bytes = 0;
	uint64_t used_bytes = 0;

	if (REAL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
		 &reserved_bytes) == CUDA_SUCCESS &&
	    REAL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used_bytes) ==
		    CUDA_SUCCESS)
		berth_reserve_measured((uintptr_t)pool, reserved_bytes, used_bytes);
}

void berth_pools_measure(void)
{
	uint64_t pool;
	int gpu;

	if (!berth_reserve_any() || berth_capture_running())
		return;
	for (size_t i = 0; berth_reserve_pool(i, &pool, &gpu); i++)
		measure(handle_of(pool));
}

bool berth_pools_trim(int gpu)
{
	bool any = false;
	uint64_t pool;
	int its_gpu;

	if (!berth_reserve_any() || berth_capture_running())
		return false;
	for (size_t i = 0; berth_reserve_pool(i, &pool, &its_gpu); i++) {
		if (its_gpu == gpu && REAL(cuMemPoolTrimTo, handle_of(pool), 0) == CUDA_SUCCESS)
			any = true;
	}
	berth_pools_measure();
	return any;
}

BERTH_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *pool_props)
{
	CUresult res = REAL(cuMemPoolCreate, pool, pool_props);

	if (res == CUDA_SUCCESS && pool && pool_props && berth_gpu_attached())
		note(*pool, &pool_props->location);
	return res;
}

/* Blocks that are still out keep the pool's memory until they are freed, and stay charged. */
BERTH_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct berth_free taken = berth_free_begin(BERTH_KEY_POOL, (uintptr_t)pool);
	CUresult res = berth_free_settle(&taken, REAL(cuMemPoolDestroy, pool));

	if (res == CUDA_SUCCESS && berth_reserve_any())
		berth_reserve_unwatch((uintptr_t)pool);
	return res;
}

BERTH_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
					    void *value)
{
	CUresult res = REAL(cuMemPoolSetAttribute, pool, attr, value);
	int gpu;

	if (res != CUDA_SUCCESS || attr != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD || !value ||
	    !attached() || !berth_pool_gpu(pool, &gpu))
		return res;
	berth_reserve_watch((uintptr_t)pool, gpu, *(const uint64_t *)value);
	berth_pools_measure();
	return res;
}

BERTH_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t min_bytes_to_keep)
{
	CUresult res = REAL(cuMemPoolTrimTo, pool, min_bytes_to_keep);

	if (res == CUDA_SUCCESS)
		berth_pools_measure();
	return res;
}

BERTH_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CUresult res = REAL(cuDeviceSetMemPool, device, pool);
	int gpu;

	if (res != CUDA_SUCCESS || !attached())
		return res;
	gpu = berth_gpu_of_device(device);
	if (gpu >= 0)
		atomic_fetch_or_explicit(&custom_current_mask, 1U << gpu, memory_order_relaxed);
	return res;
}
