/* SPDX-License-Identifier: Apache-2.0
 *
 * The errors that come before all others: not initialised, no context, missing outputs. Whatever
 * fails leaves the outputs alone.
 */
#include "core_fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <unistd.h>

#include <cmocka.h>

#define POISON 0xaa

/* Outputs that nobody may have written to. */
static union {
	unsigned char bytes[4096];
	CUdeviceptr pointer;
	CUdeviceptr_v1 pointer_v1;
	CUcontext context;
	CUarray array;
	CUmipmappedArray mipmap;
	CUmemoryPool pool;
	CUmemGenericAllocationHandle handle;
	CUipcMemHandle ipc;
	size_t size;
	unsigned word;
	int number;
	void *host;
} out[2];

static void poison(void)
{
	memset(out, POISON, sizeof(out));
}

static void check_poison(const char *what)
{
	for (size_t i = 0; i < sizeof(out); i++)
		if (((unsigned char *)out)[i] != POISON) {
			fprintf(stderr, "%s wrote to an output\n", what);
			_exit(1);
		}
}

#define FAILS(call, code)               \
	do {                            \
		poison();               \
		CHECK_CODE(call, code); \
		check_poison(#call);    \
	} while (0)

static CUmemAllocationProp device_memory = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
static CUmemPoolProps device_pool = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
static CUDA_ARRAY_DESCRIPTOR flat = { 16, 16, CU_AD_FORMAT_FLOAT, 1 };
static CUDA_ARRAY3D_DESCRIPTOR deep = { 16, 16, 4, CU_AD_FORMAT_FLOAT, 1, 0 };
static CUipcMemHandle no_handle;

/* Calls that need a context, all with arguments that are otherwise good. */
static void all_that_need_a_context(CUresult code)
{
	FAILS(cuMemAlloc_v2(&out->pointer, 16), code);
	FAILS(cuMemAlloc(&out->pointer_v1, 16), code);
	FAILS(cuMemAllocPitch_v2(&out->pointer, &out[1].size, 16, 16, 4), code);
	FAILS(cuMemAllocPitch(&out->pointer_v1, &out[1].word, 16, 16, 4), code);
	FAILS(cuMemAllocManaged(&out->pointer, 16, CU_MEM_ATTACH_GLOBAL), code);
	FAILS(cuMemAllocAsync(&out->pointer, 16, NULL), code);
	FAILS(cuMemAllocAsync_ptsz(&out->pointer, 16, NULL), code);
	FAILS(cuMemAllocHost_v2(&out->host, 16), code);
	FAILS(cuMemHostAlloc(&out->host, 16, 0), code);
	FAILS(cuMemHostRegister_v2(out, 16, 0), code);
	FAILS(cuArrayCreate_v2(&out->array, &flat), code);
	FAILS(cuArray3DCreate_v2(&out->array, &deep), code);
	FAILS(cuMipmappedArrayCreate(&out->mipmap, &deep, 2), code);
	FAILS(cuMemGetInfo_v2(&out->size, &out[1].size), code);
	FAILS(cuMemGetInfo(&out->word, &out[1].word), code);
	FAILS(cuMemGetAddressRange_v2(&out->pointer, &out[1].size, 4096), code);
	FAILS(cuMemFree_v2(4096), code);
	FAILS(cuMemFreeAsync(4096, NULL), code);
	FAILS(cuMemcpyHtoD_v2(4096, out, 16), code);
	FAILS(cuMemcpyDtoHAsync_v2(out, 4096, 16, NULL), code);
	FAILS(cuMemsetD8_v2(4096, 0, 16), code);
	FAILS(cuIpcGetMemHandle(&out->ipc, 4096), code);
	FAILS(cuIpcOpenMemHandle_v2(&out->pointer, no_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	      code);
	FAILS(cuCtxGetDevice(&out->number), code);
	FAILS(cuCtxGetFlags(&out->word), code);
	FAILS(cuCtxGetLimit(&out->size, CU_LIMIT_STACK_SIZE), code);
	FAILS(cuCtxSynchronize(), code);
}

/* Calls that need none. */
static void all_that_need_cuInit(CUresult code)
{
	FAILS(cuDeviceGet(&out->number, 0), code);
	FAILS(cuDeviceGetCount(&out->number), code);
	FAILS(cuDeviceGetName((char *)out->bytes, 100, 0), code);
	FAILS(cuDeviceTotalMem_v2(&out->size, 0), code);
	FAILS(cuDeviceTotalMem(&out->word, 0), code);
	FAILS(cuDeviceGetAttribute(&out->number, 1, 0), code);
	FAILS(cuCtxCreate_v2(&out->context, 0, 0), code);
	FAILS(cuCtxGetCurrent(&out->context), code);
	FAILS(cuDevicePrimaryCtxRetain(&out->context, 0), code);
	FAILS(cuMemCreate(&out->handle, 2 << 20, &device_memory, 0), code);
	FAILS(cuMemAddressReserve(&out->pointer, 2 << 20, 0, 0, 0), code);
	FAILS(cuMemPoolCreate(&out->pool, &device_pool), code);
	FAILS(cuDeviceGetDefaultMemPool(&out->pool, 0), code);
	FAILS(cuPointerGetAttribute(out, CU_POINTER_ATTRIBUTE_CONTEXT, 4096), code);
}

static void before_init_body(int socket)
{
	(void)socket;
	all_that_need_cuInit(CUDA_ERROR_NOT_INITIALIZED);
	all_that_need_a_context(CUDA_ERROR_NOT_INITIALIZED);
}

static void nothing_before_init(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", before_init_body));
}

static void *without_context(void *arg)
{
	(void)arg;
	all_that_need_a_context(CUDA_ERROR_INVALID_CONTEXT);
	return NULL;
}

static void no_context_body(int socket)
{
	pthread_t thread;

	(void)socket;
	core_begin(0);
	/* The context of one thread is no other's. */
	CHECK(pthread_create(&thread, NULL, without_context, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
}

static void nothing_without_a_context(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", no_context_body));
}

static void arguments_body(int socket)
{
	CUresult code = CUDA_ERROR_INVALID_VALUE;

	(void)socket;
	core_begin(0);
	FAILS(cuMemAlloc_v2(NULL, 16), code);
	FAILS(cuMemAlloc_v2(&out->pointer, 0), code);
	FAILS(cuMemAllocAsync(NULL, 16, NULL), code);
	FAILS(cuMemAllocAsync(&out->pointer, 0, NULL), code);
	FAILS(cuMemAllocManaged(NULL, 16, CU_MEM_ATTACH_GLOBAL), code);
	FAILS(cuMemAllocHost_v2(NULL, 16), code);
	FAILS(cuMemHostAlloc(&out->host, 16, 0x80), code);
	FAILS(cuMemHostRegister_v2(NULL, 16, 0), code);
	FAILS(cuMemGetInfo_v2(NULL, NULL), code);
	FAILS(cuArrayCreate_v2(NULL, &flat), code);
	FAILS(cuMipmappedArrayCreate(NULL, &deep, 2), code);
	FAILS(cuIpcGetMemHandle(NULL, 4096), code);
	FAILS(cuIpcOpenMemHandle_v2(&out->pointer, no_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	      code);
	FAILS(cuPointerGetAttribute(out, CU_POINTER_ATTRIBUTE_CONTEXT, 4096), code);
	FAILS(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_CONTEXT, 4096), code);
	FAILS(cuMemAllocAsync(&out->pointer, 16, (CUstream)0x1234), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuMemGetAddressRange_v2(&out->pointer, &out[1].size, 4096), CUDA_ERROR_NOT_FOUND);
	/* One output of two may be missing. */
	poison();
	CHECK_OK(cuMemGetInfo_v2(NULL, &out->size));
	CHECK(out->size == GiB(1));
	CHECK_OK(cuMemGetInfo_v2(&out->size, NULL));
	CHECK(out->size == GiB(1) - CONTEXT_BYTES);
}

static void wrong_arguments(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", arguments_body));
}

static void external_body(int socket)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
						  .size = 1 << 20 };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .offset = 5000, .size = 10000 };
	char file[] = "/tmp/berth-sim-external-XXXXXX";
	CUexternalMemory memory;
	CUdeviceptr pointer;

	(void)socket;
	core_begin(0);
	desc.handle.fd = mkstemp(file);
	unlink(file);
	CHECK_CODE(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_VALUE);
	CHECK(ftruncate(desc.handle.fd, 1 << 20) == 0);
	CHECK_OK(cuImportExternalMemory(&memory, &desc));
	CHECK_OK(cuExternalMemoryGetMappedBuffer(&pointer, memory, &part));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_OK(cuMemsetD8_v2(pointer, 1, 10000));
	CHECK_CODE(cuMemsetD8_v2(pointer, 1, 10001), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemFree_v2(pointer));
	CHECK_CODE(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_OK(cuDestroyExternalMemory(memory));
	CHECK_CODE(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
}

static void external_memory(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", external_body));
}

static void *initialiser(void *arg)
{
	CHECK_OK(cuInit(0));
	return arg;
}

static void threads_init_body(int socket)
{
	enum { THREADS = 16 };
	pthread_t threads[THREADS];

	(void)socket;
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, initialiser, NULL) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	core_begin(0);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
}

static void threads_that_start_at_once(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", threads_init_body));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_before_init),
		cmocka_unit_test(nothing_without_a_context),
		cmocka_unit_test(wrong_arguments),
		cmocka_unit_test(external_memory),
		cmocka_unit_test(threads_that_start_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
