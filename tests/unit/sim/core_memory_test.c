/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear memory: what fits, what is refused, what a wrong pointer gets.
 */
#include "core_fixture.h"

#include <pthread.h>
#include <setjmp.h>

#include <cmocka.h>

#define POISON ((CUdeviceptr)0xaaaaaaaaaaaaaaaaULL)

static void capacity_body(int socket)
{
	CUdeviceptr pointer = POISON;
	CUdeviceptr second = POISON;

	(void)socket;
	core_begin(0);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_CODE(cuMemAlloc_v2(&pointer, GiB(1)), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CODE(cuMemAlloc_v2(&pointer, core_free_bytes() + 1), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CODE(cuMemAlloc_v2(&pointer, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CODE(cuMemAlloc_v2(&pointer, SIZE_MAX - 4096), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(pointer == POISON);
	CHECK_OK(cuMemAlloc_v2(&pointer, core_free_bytes()));
	CHECK(core_free_bytes() == 0);
	CHECK_CODE(cuMemAlloc_v2(&second, 1), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(second == POISON);
	CHECK_OK(cuMemFree_v2(pointer));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_OK(cuMemAlloc_v2(&second, 1));
	CHECK_OK(cuMemFree_v2(second));
}

static void capacity(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", capacity_body));
}

static void sums_body(int socket)
{
	CUdeviceptr pointers[10];
	CUdeviceptr one;

	(void)socket;
	core_begin(0);
	for (unsigned i = 0; i < 10; i++) {
		CHECK_OK(cuMemAlloc_v2(&pointers[i], MiB(32)));
		CHECK(core_used_bytes() == CONTEXT_BYTES + (i + 1) * MiB(32));
	}
	for (unsigned i = 0; i < 10; i++)
		CHECK_OK(cuMemFree_v2(pointers[i * 7 % 10]));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_OK(cuMemAlloc_v2(&one, MiB(10)));
	CHECK_OK(cuMemFree_v2(one));
	CHECK_CODE(cuMemFree_v2(one), CUDA_ERROR_INVALID_VALUE);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_OK(cuMemAlloc_v2(&one, core_free_bytes()));
}

static void sums_follow_in_any_order(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", sums_body));
}

static void wrong_pointers_body(int socket)
{
	char buffer[4096] = { 0 };
	CUdeviceptr pointer;
	CUdeviceptr neighbour;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuMemAlloc_v2(&pointer, 1000));
	CHECK_OK(cuMemAlloc_v2(&neighbour, 1000));
	CHECK_CODE(cuMemFree_v2(pointer + 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemFree_v2((CUdeviceptr)(uintptr_t)buffer), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemFree_v2(0x1000), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemFree_v2(0));
	/* To the last byte that was asked for and no further. */
	CHECK_OK(cuMemcpyHtoD_v2(pointer, buffer, 1000));
	CHECK_CODE(cuMemcpyHtoD_v2(pointer, buffer, 1001), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemcpyHtoD_v2(pointer + 999, buffer, 2), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemsetD8_v2(pointer + 1000, 1, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemcpyDtoH_v2(buffer, (CUdeviceptr)(uintptr_t)buffer, 16),
		   CUDA_ERROR_INVALID_VALUE);
	/* After the free it is nobody's, whichever way it is named. */
	CHECK_OK(cuMemFree_v2(pointer));
	CHECK_CODE(cuMemcpyHtoD_v2(pointer, buffer, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemcpyDtoH_v2(buffer, pointer, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemcpyDtoD_v2(neighbour, pointer, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemcpy(neighbour, pointer, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemsetD32_v2(pointer, 7, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemFree_v2(neighbour));
}

static void wrong_pointers_are_found(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", wrong_pointers_body));
}

static void spoiled_body(int socket)
{
	static unsigned char buffer[MiB(1)];
	CUdeviceptr first;
	CUdeviceptr again;

	(void)socket;
	core_begin(0);
	for (size_t bytes = 4096; bytes <= sizeof(buffer); bytes *= 16) {
		CHECK_OK(cuMemAlloc_v2(&first, bytes));
		CHECK_OK(cuMemsetD8_v2(first, 0x5a, bytes));
		CHECK_OK(cuMemFree_v2(first));
		CHECK_OK(cuMemAlloc_v2(&again, bytes));
		CHECK(again == first); /* or this proves nothing */
		CHECK_OK(cuMemcpyDtoH_v2(buffer, again, bytes));
		for (size_t i = 0; i < bytes; i++)
			CHECK(buffer[i] != 0x5a);
		CHECK_OK(cuMemFree_v2(again));
	}
}

static void freed_contents_are_gone(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", spoiled_body));
}

static void pitch_body(int socket)
{
	CUdeviceptr pointer = POISON;
	size_t pitch = 77;
	CUdeviceptr base;
	size_t bytes;

	(void)socket;
	core_begin(0);
	CHECK_CODE(cuMemAllocPitch_v2(&pointer, &pitch, 100, 1000, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAllocPitch_v2(&pointer, &pitch, 100, 1000, 3), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAllocPitch_v2(&pointer, &pitch, 0, 1000, 4), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAllocPitch_v2(&pointer, &pitch, 100, 0, 4), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAllocPitch_v2(NULL, &pitch, 100, 10, 4), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAllocPitch_v2(&pointer, NULL, 100, 10, 4), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAllocPitch_v2(&pointer, &pitch, 512, SIZE_MAX / 512, 4),
		   CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CODE(cuMemAllocPitch_v2(&pointer, &pitch, SIZE_MAX, 2, 4), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(pointer == POISON && pitch == 77);
	CHECK_OK(cuMemAllocPitch_v2(&pointer, &pitch, 100, 1000, 4));
	CHECK(pitch == 512);
	CHECK(core_used_bytes() == CONTEXT_BYTES + 512000);
	CHECK_OK(cuMemGetAddressRange_v2(&base, &bytes, pointer + 511999));
	CHECK(base == pointer && bytes == 512000);
	CHECK_OK(cuMemFree_v2(pointer));
	CHECK_CODE(cuMemGetAddressRange_v2(&base, &bytes, pointer), CUDA_ERROR_NOT_FOUND);
}

static void pitch_is_512(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", pitch_body));
}

static void first_api_body(int socket)
{
	struct {
		CUdeviceptr_v1 pointer;
		unsigned guard;
	} out = { 0, 0x12345678 };
	struct {
		unsigned bytes;
		unsigned guard;
	} info[2] = { { 0, 0x12345678 }, { 0, 0x12345678 } };
	char buffer[100] = "below four gigabytes";
	char back[100] = { 0 };

	(void)socket;
	core_begin(0);
	CHECK_CODE(cuMemAlloc(&out.pointer, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemAlloc(&out.pointer, 100));
	CHECK(out.pointer != 0 && out.guard == 0x12345678);
	CHECK_OK(cuMemcpyHtoD(out.pointer, buffer, 100));
	CHECK_OK(cuMemcpyDtoH_v2(back, out.pointer, 100)); /* the same address in 64 bits */
	CHECK(memcmp(buffer, back, 100) == 0);
	CHECK_OK(cuMemGetInfo(&info[0].bytes, &info[1].bytes));
	CHECK(info[0].guard == 0x12345678 && info[1].guard == 0x12345678);
	CHECK(info[1].bytes == UINT32_MAX); /* 8 GiB don't fit */
	CHECK_OK(cuMemFree(out.pointer));
	CHECK_CODE(cuMemFree(out.pointer), CUDA_ERROR_INVALID_VALUE);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
}

static void first_api_has_32_bits(void **state)
{
	(void)state;
	assert_true(core_passes("1x8G", first_api_body));
}

/* Finds by address must not walk: counted by what a walk would take, not by time. With 50,000 live
 * ones, this many calls would be 2 * 10^10 steps. */
static void many_live_body(int socket)
{
	enum { LIVE = 50000, PAIRS = 200000 };
	static CUdeviceptr pointers[LIVE];
	CUdeviceptr base;
	CUdeviceptr one;
	size_t bytes;

	(void)socket;
	core_begin(0);
	for (unsigned i = 0; i < LIVE; i++)
		CHECK_OK(cuMemAlloc_v2(&pointers[i], 512 * (1 + i % 16)));
	for (unsigned i = 0; i < PAIRS; i++) {
		unsigned which = i * 7919U % LIVE;

		CHECK_OK(cuMemAlloc_v2(&one, 4096));
		CHECK_OK(cuMemGetAddressRange_v2(&base, &bytes, pointers[which] + 511));
		CHECK(base == pointers[which] && bytes == 512 * (1 + which % 16));
		CHECK_OK(cuMemFree_v2(one));
	}
	for (unsigned i = 0; i < LIVE; i++)
		CHECK_OK(cuMemFree_v2(pointers[i * 7919U % LIVE]));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	/* All holes were joined again. */
	CHECK_OK(cuMemAlloc_v2(&one, core_free_bytes()));
}

static void many_live_allocations(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", many_live_body));
}

static void random_sizes_body(int socket)
{
	enum { SLOTS = 500, STEPS = 20000 };
	static struct {
		CUdeviceptr pointer;
		unsigned bytes;
		unsigned char mark;
	} slots[SLOTS];
	static unsigned char seen[1 << 16];
	unsigned random = 12345;

	(void)socket;
	core_begin(0);
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i;

		random = random * 1103515245U + 12345U;
		i = (random >> 8) % SLOTS;
		if (slots[i].pointer) {
			CHECK_OK(cuMemcpyDtoH_v2(seen, slots[i].pointer, slots[i].bytes));
			for (unsigned b = 0; b < slots[i].bytes; b += 61)
				CHECK(seen[b] == slots[i].mark);
			CHECK_OK(cuMemFree_v2(slots[i].pointer));
			slots[i].pointer = 0;
			continue;
		}
		slots[i].bytes = 1 + (random >> 12) % (random & 1 ? 600U : 1U << 16);
		slots[i].mark = (unsigned char)step;
		CHECK_OK(cuMemAlloc_v2(&slots[i].pointer, slots[i].bytes));
		CHECK_OK(cuMemsetD8_v2(slots[i].pointer, slots[i].mark, slots[i].bytes));
	}
}

static void blocks_never_overlap(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", random_sizes_body));
}

static CUcontext shared_context;

static void *worker(void *arg)
{
	unsigned char mark = (unsigned char)(uintptr_t)arg;
	static __thread unsigned char seen[3000];
	CUdeviceptr pointers[16] = { 0 };

	CHECK_OK(cuCtxSetCurrent(shared_context));
	for (unsigned i = 0; i < 2000; i++) {
		CUdeviceptr *pointer = &pointers[i % 16];

		if (*pointer) {
			CHECK_OK(cuMemcpyDtoH_v2(seen, *pointer, sizeof(seen)));
			for (unsigned b = 0; b < sizeof(seen); b += 101)
				CHECK(seen[b] == mark);
			CHECK_OK(cuMemFree_v2(*pointer));
		}
		CHECK_OK(cuMemAlloc_v2(pointer, sizeof(seen) + i));
		CHECK_OK(cuMemsetD8_v2(*pointer, mark, sizeof(seen) + i));
	}
	for (unsigned i = 0; i < 16; i++)
		CHECK_OK(cuMemFree_v2(pointers[i]));
	return NULL;
}

static void threads_body(int socket)
{
	enum { THREADS = 8 };
	pthread_t threads[THREADS];

	(void)socket;
	shared_context = core_begin(0);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)(i + 1)) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
}

static void threads_of_one_context(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", threads_body));
}

static void host_body(int socket)
{
	static char mine[8192];
	CUdeviceptr device;
	unsigned flags;
	void *host;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuMemFreeHost(NULL));
	CHECK_CODE(cuMemHostUnregister(NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAllocHost_v2(&host, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemHostAlloc(&host, 5000, CU_MEMHOSTALLOC_PORTABLE));
	memset(host, 1, 5000);
	CHECK_OK(cuMemHostGetFlags(&flags, host));
	CHECK(flags == CU_MEMHOSTALLOC_PORTABLE);
	CHECK_OK(cuMemHostGetDevicePointer_v2(&device, host, 0));
	CHECK(device == (uintptr_t)host);
	CHECK_CODE(cuMemFree_v2(device), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemFreeHost(host));
	CHECK_CODE(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemHostRegister_v2(mine, sizeof(mine), 0));
	CHECK_CODE(cuMemHostRegister_v2(mine + 100, 10, 0),
		   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	CHECK_CODE(cuMemFreeHost(mine), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemHostUnregister(mine));
	CHECK_CODE(cuMemHostUnregister(mine), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	CHECK_CODE(cuMemHostRegister_v2((void *)0x1000, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK(core_used_bytes() == CONTEXT_BYTES); /* none of it is device memory */
}

static void host_memory(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", host_body));
}

static void managed_body(int socket)
{
	CUdeviceptr pointer = POISON;
	unsigned is_managed = 0;
	int device = 0;
	int *numbers;

	(void)socket;
	core_begin(0);
	CHECK_CODE(cuMemAllocManaged(&pointer, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAllocManaged(&pointer, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
	CHECK(pointer == POISON);
	CHECK_OK(cuMemAllocManaged(&pointer, MiB(4), CU_MEM_ATTACH_GLOBAL));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(4));
	numbers = (int *)(uintptr_t)pointer;
	numbers[1000] = 42; /* the processor uses it directly */
	CHECK_OK(cuMemsetD32_v2(pointer, 7, 10));
	CHECK(numbers[0] == 7 && numbers[9] == 7 && numbers[1000] == 42);
	CHECK_OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
	CHECK(is_managed == 1);
	CHECK_OK(cuMemAdvise(pointer, MiB(4), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
	CHECK_OK(cuMemRangeGetAttribute(&device, sizeof(device),
					CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, pointer,
					MiB(4)));
	CHECK(device == 0);
	CHECK_CODE(cuMemAdvise(pointer, MiB(5), CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemPrefetchAsync(pointer, MiB(4), 5, NULL), CUDA_ERROR_INVALID_DEVICE);
	CHECK_OK(cuMemPrefetchAsync(pointer, MiB(4), 0, NULL));
	CHECK_OK(cuMemFree_v2(pointer));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
}

static void managed_memory(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", managed_body));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(capacity),
		cmocka_unit_test(sums_follow_in_any_order),
		cmocka_unit_test(wrong_pointers_are_found),
		cmocka_unit_test(freed_contents_are_gone),
		cmocka_unit_test(pitch_is_512),
		cmocka_unit_test(first_api_has_32_bits),
		cmocka_unit_test(many_live_allocations),
		cmocka_unit_test(blocks_never_overlap),
		cmocka_unit_test(threads_of_one_context),
		cmocka_unit_test(host_memory),
		cmocka_unit_test(managed_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
