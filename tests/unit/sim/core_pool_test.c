/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream-ordered memory: what a pool keeps, when it gives it back, who may free what.
 */
#include "core_fixture.h"

#include <setjmp.h>

#include <cmocka.h>

static uint64_t pool_get(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	uint64_t value = 0;

	CHECK_OK(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static void threshold_body(int socket)
{
	uint64_t threshold = MiB(64);
	CUmemoryPool pool;
	CUdeviceptr pointer;
	CUstream stream;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuStreamCreate(&stream, 0));
	CHECK_OK(cuDeviceGetDefaultMemPool(&pool, 0));
	CHECK(pool_get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 0);
	/* Threshold 0: kept until the next synchronisation, not longer. */
	CHECK_OK(cuMemAllocAsync(&pointer, MiB(100), stream));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(100));
	CHECK(pool_get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == MiB(100));
	CHECK_OK(cuMemFreeAsync(pointer, stream));
	CHECK(pool_get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	CHECK(pool_get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == MiB(100));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(100));
	CHECK_OK(cuStreamSynchronize(stream));
	CHECK(pool_get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK(pool_get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == MiB(100));
	/* With a threshold so much stays, and trimming takes it. */
	CHECK_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	CHECK_OK(cuMemAllocAsync(&pointer, MiB(100), stream));
	CHECK_OK(cuMemFreeAsync(pointer, stream));
	CHECK_OK(cuStreamSynchronize(stream));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(64));
	CHECK_OK(cuMemAllocAsync(&pointer, MiB(50), stream)); /* from what is kept */
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(64));
	CHECK_OK(cuMemPoolTrimTo(pool, 0));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(50));
	CHECK_OK(cuMemFreeAsync(pointer, stream));
	CHECK_OK(cuMemPoolTrimTo(pool, MiB(10)));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(10));
	CHECK_OK(cuMemPoolTrimTo(pool, 0));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
}

static void reserve_threshold_and_trim(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", threshold_body));
}

static void mixed_frees_body(int socket)
{
	CUdeviceptr pointer;

	(void)socket;
	core_begin(0);
	for (unsigned i = 0; i < 50; i++) {
		CHECK_OK(cuMemAllocAsync(&pointer, MiB(100), NULL));
		CHECK_OK(cuMemFree_v2(pointer));
		CHECK_CODE(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
		CHECK_CODE(cuMemFreeAsync(pointer, NULL), CUDA_ERROR_INVALID_VALUE);
		CHECK_OK(cuMemAlloc_v2(&pointer, MiB(100)));
		CHECK_OK(cuMemFreeAsync(pointer, NULL));
		CHECK_CODE(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
	}
	CHECK_OK(cuCtxSynchronize());
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_CODE(cuMemFreeAsync(0, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void either_free_frees_either(void **state)
{
	(void)state;
	/* Not twice the 100M. */
	assert_true(core_passes("1x290M", mixed_frees_body));
}

static void explicit_body(int socket)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool stale;
	CUmemoryPool pool;
	CUdeviceptr first;
	CUdeviceptr second = 9;
	CUdeviceptr plain;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuMemPoolCreate(&pool, &props));
	CHECK_CODE(cuMemAllocFromPoolAsync(&first, MiB(1), NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemAllocFromPoolAsync(&first, MiB(600), pool, NULL));
	CHECK_CODE(cuMemAllocFromPoolAsync(&second, MiB(600), pool, NULL),
		   CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(second == 9);
	CHECK_OK(cuMemFreeAsync(first, NULL));
	/* What it keeps isn't in the way of anybody else in the process. */
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(600));
	CHECK_OK(cuMemAlloc_v2(&plain, MiB(800)));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(800));
	CHECK_OK(cuMemFree_v2(plain));
	/* Destroyed while a piece is out: that one stays good until it is freed. */
	CHECK_OK(cuMemAllocFromPoolAsync(&first, MiB(10), pool, NULL));
	CHECK_OK(cuMemPoolDestroy(pool));
	stale = pool;
	CHECK_CODE(cuMemAllocFromPoolAsync(&second, MiB(1), stale, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemPoolDestroy(stale), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemsetD8_v2(first, 1, MiB(10)));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(10));
	CHECK_OK(cuMemFreeAsync(first, NULL));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_OK(cuDeviceGetDefaultMemPool(&pool, 0));
	CHECK_CODE(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

static void a_pool_of_ones_own(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", explicit_body));
}

static void current_body(int socket)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				 .maxSize = MiB(20) };
	CUmemoryPool own;
	CUmemoryPool pool;
	CUdeviceptr pointer;
	int reuse = -1;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuMemPoolCreate(&own, &props));
	CHECK_CODE(cuDeviceSetMemPool(1, own), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuDeviceSetMemPool(0, own));
	CHECK_OK(cuDeviceGetMemPool(&pool, 0));
	CHECK(pool == own);
	CHECK_OK(cuMemAllocAsync(&pointer, MiB(15), NULL));
	CHECK(pool_get(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == MiB(15));
	CHECK_CODE(cuMemAllocAsync(&pointer, MiB(6), NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_OK(cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
	CHECK(reuse == 1);
	CHECK_CODE(cuMemPoolGetAttribute(own, 77, &reuse), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, NULL),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer));
	CHECK(pool == own);
	props.location.id = 5;
	CHECK_CODE(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_DEVICE);
	CHECK_CODE(cuMemPoolCreate(NULL, &props), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemPoolCreate(&pool, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK(pool == own);
	/* A reset takes the device's own pool's pieces only. */
	CHECK_OK(cuDeviceGetDefaultMemPool(&pool, 0));
	CHECK_OK(cuMemAllocFromPoolAsync(&pointer, MiB(30), pool, NULL));
	CHECK_OK(cuDevicePrimaryCtxReset_v2(0));
	CHECK_CODE(cuMemFreeAsync(pointer, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(16));
}

static void the_devices_current_pool(void **state)
{
	(void)state;
	assert_true(core_passes("2x1G", current_body));
}

/* ---- in another process ---- */

static void exporter_body(int socket)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemPoolPtrExportData data;
	CUmemoryPool pool;
	CUdeviceptr pointer;
	int fd;

	core_begin(0);
	CHECK_OK(cuMemPoolCreate(&pool, &props));
	CHECK_OK(cuMemPoolExportToShareableHandle(&fd, pool,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CHECK_OK(cuMemAllocFromPoolAsync(&pointer, MiB(2), pool, NULL));
	CHECK_OK(cuMemsetD8_v2(pointer, 0x44, MiB(2)));
	CHECK_OK(cuMemPoolExportPointer(&data, pointer));
	core_send_fd(socket, fd);
	core_send(socket, &data, sizeof(data));
	core_wait(socket);
}

static void importer_body(int socket)
{
	CUmemPoolPtrExportData data;
	unsigned char byte = 0;
	CUmemoryPool pool;
	CUdeviceptr pointer;
	size_t used;
	int fd;

	core_begin(0);
	fd = core_receive_fd(socket);
	core_receive(socket, &data, sizeof(data));
	used = core_used_bytes();
	CHECK_OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CHECK_CODE(cuMemAllocFromPoolAsync(&pointer, MiB(2), pool, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemPoolImportPointer(&pointer, pool, &data));
	CHECK_OK(cuMemcpyDtoH_v2(&byte, pointer + MiB(2) - 1, 1));
	CHECK(byte == 0x44);
	CHECK_OK(cuMemFreeAsync(pointer, NULL));
	CHECK_CODE(cuMemcpyDtoH_v2(&byte, pointer, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK(core_used_bytes() == used);
	core_tell(socket);
}

static void a_piece_in_another_process(void **state)
{
	struct core_child exporter;
	struct core_child importer;
	CUmemPoolPtrExportData data;
	int fd;

	(void)state;
	core_node_new("1x1G");
	exporter = core_start(exporter_body);
	importer = core_start(importer_body);
	fd = core_receive_fd(exporter.socket);
	core_receive(exporter.socket, &data, sizeof(data));
	core_send_fd(importer.socket, fd);
	close(fd);
	core_send(importer.socket, &data, sizeof(data));
	core_wait(importer.socket);
	assert_true(core_succeeded(&importer));
	core_tell(exporter.socket);
	assert_true(core_succeeded(&exporter));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reserve_threshold_and_trim),
		cmocka_unit_test(either_free_frees_either),
		cmocka_unit_test(a_pool_of_ones_own),
		cmocka_unit_test(the_devices_current_pool),
		cmocka_unit_test(a_piece_in_another_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
