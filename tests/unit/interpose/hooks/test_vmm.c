/* SPDX-License-Identifier: Apache-2.0
 *
 * Physical memory by handle.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "scene.h"

static CUmemAllocationProp on(CUmemLocationType type, int id)
{
	return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { type, id } };
}

static void *create_on_1(void *arg)
{
	CUmemAllocationProp prop = on(CU_MEM_LOCATION_TYPE_DEVICE, 1);
	CUdevice device;

	if (berth_driver()->cuCtxGetDevice(&device) != CUDA_ERROR_INVALID_CONTEXT)
		return (void *)1;
	return cuda.cuMemCreate(arg, 64 * MIB, &prop, 0) == CUDA_SUCCESS ? NULL : (void *)2;
}

static int fresh_thread_body(void)
{
	CUmemGenericAllocationHandle handle = 0;
	pthread_t thread;
	void *wrong = NULL;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS);
	CHILD_CHECK(!pthread_create(&thread, NULL, create_on_1, &handle));
	CHILD_CHECK(!pthread_join(thread, &wrong) && !wrong);
	CHILD_CHECK(scene_booked(0) == 0 && scene_booked(1) == 64 * MIB);
	CHILD_CHECK(cuda.cuMemRelease(handle) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(1) == 0);
	return 0;
}

/* A4 */
static void a_thread_without_a_context_books_where_the_properties_say(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .gpus = "2x8G", .limit = "1G", .body = fresh_thread_body });
}

static int host_body(void)
{
	static const CUmemLocationType types[] = { CU_MEM_LOCATION_TYPE_HOST,
						   CU_MEM_LOCATION_TYPE_HOST_NUMA,
						   CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT };

	CHILD_CHECK(!scene_start());
	for (unsigned i = 0; i < 3; i++) {
		CUmemAllocationProp prop = on(types[i], 0);
		CUmemGenericAllocationHandle bare = 0;
		CUmemGenericAllocationHandle handle = 0;
		CUresult res = berth_driver()->cuMemCreate(&bare, 2 * MIB, &prop, 0);

		CHILD_CHECK(cuda.cuMemCreate(&handle, 2 * MIB, &prop, 0) == res);
		CHILD_CHECK(scene_booked(0) == 0);
		if (res == CUDA_SUCCESS)
			CHILD_CHECK(cuda.cuMemRelease(handle) == CUDA_SUCCESS);
		CHILD_CHECK(scene_booked(0) == 0);
		CHILD_CHECK(i || res == CUDA_SUCCESS); /* the first is one that the driver does */
	}
	return 0;
}

/* A5 */
static void host_memory_is_not_charged_whatever_the_limit(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1", .body = host_body });
}

static int lifetimes_body(void)
{
	CUmemAllocationProp prop = on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemGenericAllocationHandle handle;
	CUmemGenericAllocationHandle refused = 7;
	CUdeviceptr place;
	CUdeviceptr second;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAddressReserve(&place, 600 * MIB, 0, 0, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAddressReserve(&second, 600 * MIB, 0, 0, 0) == CUDA_SUCCESS);
	/* release, then unmap */
	CHILD_CHECK(cuda.cuMemCreate(&handle, 600 * MIB, &prop, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemMap(place, 600 * MIB, 0, handle, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemRelease(handle) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 600 * MIB);
	CHILD_CHECK(cuda.cuMemCreate(&refused, 600 * MIB, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(refused == 7);
	CHILD_CHECK(cuda.cuMemUnmap(place, 600 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	/* unmap, then release */
	CHILD_CHECK(cuda.cuMemCreate(&handle, 600 * MIB, &prop, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemMap(place, 600 * MIB, 0, handle, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemUnmap(place, 600 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 600 * MIB);
	CHILD_CHECK(cuda.cuMemRelease(handle) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	/* two mappings of one handle */
	CHILD_CHECK(cuda.cuMemCreate(&handle, 600 * MIB, &prop, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemMap(place, 600 * MIB, 0, handle, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemMap(second, 600 * MIB, 0, handle, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemRelease(handle) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemUnmap(second, 600 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 600 * MIB);
	CHILD_CHECK(cuda.cuMemUnmap(place, 600 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

/* A22 */
static void physical_memory_is_charged_until_the_last_of_release_and_unmap(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = lifetimes_body });
}

static int retain_body(void)
{
	CUmemAllocationProp prop = on(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemGenericAllocationHandle handle;
	CUmemGenericAllocationHandle again = 0;
	CUdeviceptr place;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAddressReserve(&place, 2 * MIB, 0, 0, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemCreate(&handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemMap(place, 2 * MIB, 0, handle, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)place) ==
		    CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemRelease(handle) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemUnmap(place, 2 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 2 * MIB);
	CHILD_CHECK(cuda.cuMemRelease(again) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(cuda.cuMemRelease(again) != CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

static void a_handle_found_by_its_address_is_one_reference_more(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = retain_body });
}

static int location_body(void)
{
	CUmemAllocationProp prop = on(CU_MEM_LOCATION_TYPE_DEVICE, 1);
	CUmemGenericAllocationHandle handle;
	CUmemGenericAllocationHandle more = 7;
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemCreate(&handle, 600 * MIB, &prop, 0) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0 && scene_booked(1) == 600 * MIB);
	CHILD_CHECK(cuda.cuMemCreate(&more, 600 * MIB, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(more == 7);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 600 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 600 * MIB && scene_booked(1) == 600 * MIB);
	return 0;
}

/* A24 */
static void the_gpu_of_the_properties_counts_not_the_current_one(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .gpus = "2x8G", .limit = "1G", .body = location_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_without_a_context_books_where_the_properties_say),
		cmocka_unit_test(host_memory_is_not_charged_whatever_the_limit),
		cmocka_unit_test(physical_memory_is_charged_until_the_last_of_release_and_unmap),
		cmocka_unit_test(a_handle_found_by_its_address_is_one_reference_more),
		cmocka_unit_test(the_gpu_of_the_properties_counts_not_the_current_one),
	};

	return cmocka_run_group_tests_name("hooks: memory by handle", tests, NULL, NULL);
}
