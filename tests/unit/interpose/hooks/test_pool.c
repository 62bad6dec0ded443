/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream-ordered memory and its pools.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "scene.h"

static int mixed_body(void)
{
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	for (int i = 0; i < 50; i++) {
		CHILD_CHECK(cuda.cuMemAllocAsync(&block, 100 * MIB, NULL) == CUDA_SUCCESS);
		CHILD_CHECK(scene_booked(0) == 100 * MIB);
		CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS);
		CHILD_CHECK(scene_booked(0) == 0);
	}
	for (int i = 0; i < 50; i++) {
		CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 100 * MIB) == CUDA_SUCCESS);
		CHILD_CHECK(cuda.cuMemFreeAsync(block, NULL) == CUDA_SUCCESS);
		CHILD_CHECK(scene_booked(0) == 0);
		CHILD_CHECK(cuda.cuStreamSynchronize(NULL) == CUDA_SUCCESS);
	}
	return 0;
}

/* A12 */
static void either_free_call_frees_either_kind_of_block(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "256M", .body = mixed_body });
}

static int forms_body(void)
{
	CUdeviceptr plain;
	CUdeviceptr per_thread;
	CUdeviceptr refused = 7;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAllocAsync(&plain, 100 * MIB, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAllocAsync_ptsz(&per_thread, 100 * MIB, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 200 * MIB);
	CHILD_CHECK(cuda.cuMemAllocAsync(&refused, 100 * MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(cuda.cuMemAllocAsync_ptsz(&refused, 100 * MIB, NULL) ==
		    CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(refused == 7);
	CHILD_CHECK(cuda.cuMemFreeAsync_ptsz(plain, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFreeAsync(per_thread, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(cuda.cuMemAllocAsync(NULL, MIB, NULL) ==
		    berth_driver()->cuMemAllocAsync(NULL, MIB, NULL));
	CHILD_CHECK(cuda.cuMemAllocAsync(&refused, 0, NULL) ==
		    berth_driver()->cuMemAllocAsync(&refused, 0, NULL));
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

static void the_per_thread_stream_forms_are_the_same(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "256M", .body = forms_body });
}

static CUmemoryPool make_pool(int device)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, device } };
	CUmemoryPool pool = NULL;

	return cuda.cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS ? pool : NULL;
}

static int explicit_body(void)
{
	CUmemoryPool pool;
	CUdeviceptr first;
	CUdeviceptr second = 7;

	CHILD_CHECK(!scene_start());
	pool = make_pool(0);
	CHILD_CHECK(pool);
	CHILD_CHECK(cuda.cuMemAllocFromPoolAsync(&first, 600 * MIB, pool, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAllocFromPoolAsync(&second, 600 * MIB, pool, NULL) ==
		    CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(cuda.cuMemAllocFromPoolAsync_ptsz(&second, 600 * MIB, pool, NULL) ==
		    CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(second == 7);
	CHILD_CHECK(scene_booked(0) == 600 * MIB);
	CHILD_CHECK(cuda.cuMemFreeAsync(first, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(cuda.cuStreamSynchronize(NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemPoolDestroy(pool) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

/* A16 */
static void an_explicit_pools_blocks_are_booked_and_freed(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = explicit_body });
}

static int other_gpu_body(void)
{
	CUmemoryPool pool;
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	pool = make_pool(1);
	CHILD_CHECK(pool);
	CHILD_CHECK(cuda.cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0 && scene_booked(1) == 64 * MIB);
	CHILD_CHECK(cuda.cuMemFreeAsync(block, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuDeviceGetDefaultMemPool(&pool, 1) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0 && scene_booked(1) == 64 * MIB);
	return 0;
}

static void a_pool_books_on_its_own_gpu(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .gpus = "2x8G", .limit = "1G", .body = other_gpu_body });
}

static int threshold_body(void)
{
	uint64_t threshold = UINT64_MAX;
	CUmemoryPool pool;
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
					       &threshold) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAllocAsync(&block, 600 * MIB, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 600 * MIB);
	CHILD_CHECK(cuda.cuMemFreeAsync(block, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuStreamSynchronize(NULL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 600 * MIB); /* the pool keeps it */
	/* From the pool: no second charge, no refusal. */
	CHILD_CHECK(cuda.cuMemAllocAsync(&block, 600 * MIB, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 600 * MIB);
	CHILD_CHECK(cuda.cuMemFreeAsync(block, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuStreamSynchronize(NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

static void what_a_pool_keeps_is_charged_until_it_is_trimmed(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = threshold_body });
}

static int pressure_body(void)
{
	uint64_t threshold = UINT64_MAX;
	CUmemoryPool pool;
	CUmemoryPool other;
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS);
	other = make_pool(0);
	CHILD_CHECK(other);
	CHILD_CHECK(cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
					       &threshold) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAllocAsync(&block, 600 * MIB, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFreeAsync(block, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuStreamSynchronize(NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAllocFromPoolAsync(&block, 900 * MIB, other, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 900 * MIB);
	return 0;
}

static void what_a_pool_keeps_unused_is_given_up_before_a_refusal(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = pressure_body });
}

static int capture_body(void)
{
	static const char *const extra[] = { "cuMemGetInfo_v2",       "cuStreamSynchronize",
					     "cuCtxSynchronize",      "cuCtxSetCurrent",
					     "cuStreamIsCapturing",   "cuStreamGetCtx",
					     "cuMemPoolGetAttribute", "cuPointerGetAttribute" };
	uint64_t threshold = UINT64_MAX;
	CUmemoryPool pool;
	CUstream stream;
	CUgraph graph;
	CUdeviceptr block;
	int before[8];

	CHILD_CHECK(!scene_log());
	CHILD_CHECK(!scene_start());
	/* A watched pool: outside a capture it would be measured. */
	CHILD_CHECK(cuda.cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
					       &threshold) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
		    CUDA_SUCCESS);
	for (unsigned i = 0; i < 8; i++)
		before[i] = scene_logged(extra[i]);
	CHILD_CHECK(cuda.cuMemAllocAsync(&block, MIB, stream) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemsetD8Async(block, 0, MIB, stream) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
	for (unsigned i = 0; i < 8; i++)
		CHILD_CHECK(scene_logged(extra[i]) == before[i]);
	CHILD_CHECK(scene_logged("cuMemAllocAsync") == 1 && scene_logged("cuMemFreeAsync") == 1);
	CHILD_CHECK(cuda.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

/* A35 */
static void during_a_capture_the_driver_sees_the_programs_calls_only(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = capture_body });
}

/* Memory in a stream's order lies on the stream's GPU, whatever is current. */
static int foreign_stream_body(void)
{
	CUdeviceptr block = 7;
	CUcontext other;
	CUcontext current;
	CUstream stream;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuDevicePrimaryCtxRetain(&other, 1) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuCtxSetCurrent(other) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuStreamCreate(&stream, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuDevicePrimaryCtxRetain(&current, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuCtxSetCurrent(current) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAllocAsync(&block, 2 * GIB, stream) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(block == 7);
	CHILD_CHECK(cuda.cuMemAllocAsync(&block, 600 * MIB, stream) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(scene_booked(1) == 600 * MIB);
	CHILD_CHECK(cuda.cuMemFreeAsync(block, stream) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(1) == 0);
	return 0;
}

static void a_block_is_booked_on_its_streams_gpu(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .gpus = "2x8G", .limit = "1G", .body = foreign_stream_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(either_free_call_frees_either_kind_of_block),
		cmocka_unit_test(the_per_thread_stream_forms_are_the_same),
		cmocka_unit_test(an_explicit_pools_blocks_are_booked_and_freed),
		cmocka_unit_test(a_pool_books_on_its_own_gpu),
		cmocka_unit_test(a_block_is_booked_on_its_streams_gpu),
		cmocka_unit_test(what_a_pool_keeps_is_charged_until_it_is_trimmed),
		cmocka_unit_test(what_a_pool_keeps_unused_is_given_up_before_a_refusal),
		cmocka_unit_test(during_a_capture_the_driver_sees_the_programs_calls_only),
	};

	return cmocka_run_group_tests_name("hooks: pools", tests, NULL, NULL);
}
