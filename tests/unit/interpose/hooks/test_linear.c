/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear memory: plain, pitched, managed, and freeing. Rows of the case list are named in front of
 * each test.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "scene.h"

static int visible_body(void)
{
	CUdeviceptr first = 0;
	CUdeviceptr second = 42;
	CUcontext context;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&first, 600 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&second, 600 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(second == 42);
	CHILD_CHECK(scene_booked(0) == 0 && scene_booked(1) == 0 && scene_booked(3) == 0);
	CHILD_CHECK(scene_booked(2) == 600 * MIB);
	CHILD_CHECK(cuda.cuCtxCreate_v2(&context, 0, 1) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&second, 1024 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(3) == 1024 * MIB);
	return 0;
}

/* A1 */
static void with_some_gpus_visible_each_is_booked_and_limited_by_itself(void **state)
{
	(void)state;
	scene_run(&(struct scene){
		.gpus = "4x8G", .visible = "2,3", .limit = "1G", .body = visible_body });
}

static int second_gpu_body(void)
{
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 64 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0 && scene_booked(1) == 64 * MIB);
	return 0;
}

/* A2 */
static void a_program_on_the_second_gpu_is_booked_there(void **state)
{
	(void)state;
	scene_run(&(struct scene){
		.gpus = "2x8G", .visible = "1", .limit = "1G", .body = second_gpu_body });
	scene_run(&(struct scene){
		.gpus = "2x8G", .visible = "1,0", .limit = "1G", .body = second_gpu_body });
}

static int monotone_body(void)
{
	CUdeviceptr blocks[12];

	CHILD_CHECK(!scene_start());
	for (unsigned i = 0; i < 12; i++) {
		CHILD_CHECK(cuda.cuMemAlloc_v2(&blocks[i], 32 * MIB) == CUDA_SUCCESS);
		CHILD_CHECK(scene_booked(0) == (i + 1) * 32 * MIB);
	}
	for (unsigned i = 0; i < 12; i++) {
		CHILD_CHECK(cuda.cuMemFree_v2(blocks[(i * 5) % 12]) == CUDA_SUCCESS);
		CHILD_CHECK(scene_booked(0) == (11 - i) * 32 * MIB);
	}
	return 0;
}

/* A7 */
static void usage_rises_and_falls_by_what_was_asked(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = monotone_body });
}

static int foreign_body(void)
{
	CUdeviceptr foreign = 0;
	CUdeviceptr own = 0;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemFree_v2(0x1234500) ==
		    berth_driver()->cuMemFree_v2(0x1234500)); /* with an empty table */
	CHILD_CHECK(berth_driver()->cuMemAlloc_v2(&foreign, MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFree_v2(foreign) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&own, MIB) == CUDA_SUCCESS);
	CHILD_CHECK(berth_driver()->cuMemAlloc_v2(&foreign, MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFree_v2(foreign) == CUDA_SUCCESS);
	/* The driver did free it: it doesn't know it any more. */
	CHILD_CHECK(berth_driver()->cuMemFree_v2(foreign) == CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(cuda.cuMemFree_v2(0x1234500) == CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(scene_booked(0) == MIB);
	return 0;
}

/* A8 */
static void a_pointer_never_seen_is_the_drivers_to_free(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = foreign_body });
}

static int twice_body(void)
{
	CUdeviceptr block;
	CUdeviceptr next;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 10 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&next, 1024 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&next, 1) == CUDA_ERROR_OUT_OF_MEMORY);
	return 0;
}

/* A11 */
static void a_second_free_changes_nothing(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = twice_body });
}

static int failed_free_body(void)
{
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 10 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_ERROR_LAUNCH_FAILED);
	CHILD_CHECK(scene_booked(0) == 10 * MIB);
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

static void a_free_that_the_driver_refuses_leaves_the_charge(void **state)
{
	(void)state;
	scene_run(&(struct scene){
		.limit = "1G", .faults = "cuMemFree_v2:fail=719:nth=1", .body = failed_free_body });
}

static int pitch_body(void)
{
	CUdeviceptr block = 1;
	CUdeviceptr untouched = 7;
	size_t pitch = 1;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAllocPitch_v2(&block, &pitch, 100, 1000, 4) == CUDA_SUCCESS);
	CHILD_CHECK(pitch == 512);
	CHILD_CHECK(scene_booked(0) == 512000);
	CHILD_CHECK(cuda.cuMemAllocPitch_v2(&untouched, &pitch, 100, 1000, 0) ==
		    CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(cuda.cuMemAllocPitch_v2(&untouched, &pitch, 100, 1000, 3) ==
		    CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(cuda.cuMemAllocPitch_v2(&untouched, &pitch, 0, 1000, 4) ==
		    CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(cuda.cuMemAllocPitch_v2(&untouched, &pitch, 100, 0, 4) ==
		    CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(cuda.cuMemAllocPitch_v2(NULL, &pitch, 100, 1000, 4) ==
		    CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(cuda.cuMemAllocPitch_v2(&untouched, NULL, 100, 1000, 4) ==
		    CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(untouched == 7 && pitch == 512);
	CHILD_CHECK(scene_booked(0) == 512000);
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

/* A27 */
static void a_pitched_block_costs_the_pitch_that_the_driver_chose(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = pitch_body });
}

static int pitch_over_body(void)
{
	CUdeviceptr block = 7;
	size_t pitch = 9;

	CHILD_CHECK(!scene_start());
	/* 4 bytes a row fit a hundred times over; 512 a row don't. */
	CHILD_CHECK(cuda.cuMemAllocPitch_v2(&block, &pitch, 4, 4096, 4) ==
		    CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(block == 7 && pitch == 9);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(cuda.cuMemAllocPitch_v2(&block, &pitch, SIZE_MAX / 2, SIZE_MAX / 2, 4) ==
		    CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(cuda.cuMemAllocPitch_v2(&block, &pitch, 4, 2048, 4) == CUDA_SUCCESS);
	return 0;
}

/* A27: 512 x 4096 is 2 MiB, 512 x 2048 is 1 MiB. */
static void a_pitch_that_does_not_fit_is_refused_though_the_rows_would(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1M", .body = pitch_over_body });
}

static int slow_free_block;
static CUdeviceptr slow_block;

static void *free_slowly(void *arg)
{
	CUcontext context = arg;

	if (cuda.cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return (void *)1;
	__atomic_store_n(&slow_free_block, 1, __ATOMIC_RELEASE);
	return (void *)(uintptr_t)cuda.cuMemFree_v2(slow_block);
}

static void *alloc_some(void *arg)
{
	CUdeviceptr block;

	if (cuda.cuCtxSetCurrent(arg) != CUDA_SUCCESS)
		return (void *)1;
	for (int i = 0; i < 20; i++) {
		if (cuda.cuMemAlloc_v2(&block, MIB) != CUDA_SUCCESS)
			return (void *)2;
	}
	return NULL;
}

/* The driver's free never comes back (until the process ends): whoever waited for a lock of ours
 * would never end either. */
static int stuck_free_body(void)
{
	CUcontext context = NULL;
	pthread_t slow;
	pthread_t others[8];

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(berth_driver()->cuCtxGetCurrent(&context) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&slow_block, MIB) == CUDA_SUCCESS);
	CHILD_CHECK(!pthread_create(&slow, NULL, free_slowly, context));
	while (!__atomic_load_n(&slow_free_block, __ATOMIC_ACQUIRE))
		;
	for (int i = 0; i < 8; i++)
		CHILD_CHECK(!pthread_create(&others[i], NULL, alloc_some, context));
	for (int i = 0; i < 8; i++) {
		void *wrong = NULL;

		CHILD_CHECK(!pthread_join(others[i], &wrong) && !wrong);
	}
	CHILD_CHECK(scene_booked(0) == 161 * MIB); /* the stuck one is still charged */
	return 0;
}

/* A30 */
static void a_free_stuck_in_the_driver_holds_nobody_up(void **state)
{
	(void)state;
	scene_run(&(struct scene){
		.limit = "1G", .faults = "cuMemFree_v2:block", .body = stuck_free_body });
}

static int managed_body(void)
{
	CUdeviceptr block = 7;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAllocManaged(&block, 65 * MIB, CU_MEM_ATTACH_GLOBAL) ==
		    CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(block == 7);
	CHILD_CHECK(cuda.cuMemAllocManaged(&block, 64 * MIB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 64 * MIB);
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

static void managed_memory_is_charged_where_it_is_made(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = managed_body });
}

static int legacy_body(void)
{
	struct {
		CUdeviceptr_v1 block;
		unsigned int guard;
	} out = { 0, 0xA5A5A5A5 };
	struct {
		unsigned int pitch;
		unsigned int guard;
	} pitched = { 0, 0xA5A5A5A5 };
	int before;

	CHILD_CHECK(!scene_log());
	CHILD_CHECK(!scene_start());
	before = scene_logged("cuMemAlloc_v2");
	CHILD_CHECK(cuda.cuMemAlloc(&out.block, 16 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(out.guard == 0xA5A5A5A5 && out.block);
	CHILD_CHECK(scene_booked(0) == 16 * MIB);
	CHILD_CHECK(scene_logged("cuMemAlloc") == 1 && scene_logged("cuMemAlloc_v2") == before);
	CHILD_CHECK(cuda.cuMemFree(out.block) == CUDA_SUCCESS);
	CHILD_CHECK(scene_logged("cuMemFree") == 1);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(cuda.cuMemAlloc(&out.block, 65 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(cuda.cuMemAllocPitch(&out.block, &pitched.pitch, 100, 1000, 4) == CUDA_SUCCESS);
	CHILD_CHECK(out.guard == 0xA5A5A5A5 && pitched.guard == 0xA5A5A5A5);
	CHILD_CHECK(scene_booked(0) == 512000);
	return 0;
}

/* C22, B5 */
static void the_first_apis_forms_are_booked_and_store_four_bytes(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = legacy_body });
}

static int asked_by_version_body(void)
{
	static const struct {
		const char *base;
		const char *v1;
		const char *v2;
	} rows[] = {
		{ "cuMemAlloc", "cuMemAlloc", "cuMemAlloc_v2" },
		{ "cuMemFree", "cuMemFree", "cuMemFree_v2" },
		{ "cuMemGetInfo", "cuMemGetInfo", "cuMemGetInfo_v2" },
		{ "cuDeviceTotalMem", "cuDeviceTotalMem", "cuDeviceTotalMem_v2" },
	};
	CUdriverProcAddressQueryResult status;
	void *old = NULL;
	void *new = NULL;

	CHILD_CHECK(!scene_start());
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHILD_CHECK(cuda.cuGetProcAddress_v2(rows[i].base, &old, 2000, 0, &status) ==
			    CUDA_SUCCESS);
		CHILD_CHECK(cuda.cuGetProcAddress_v2(rows[i].base, &new, 3020, 0, &status) ==
			    CUDA_SUCCESS);
		CHILD_CHECK(old && new &&old != new);
		if (i == 0) {
			CHILD_CHECK(old == (void *)cuda.cuMemAlloc);
			CHILD_CHECK(new == (void *)cuda.cuMemAlloc_v2);
		}
		if (i == 2) {
			CHILD_CHECK(old == (void *)cuda.cuMemGetInfo);
			CHILD_CHECK(new == (void *)cuda.cuMemGetInfo_v2);
		}
	}
	return 0;
}

/* C22 */
static void both_forms_of_one_base_name_are_answered_each_by_its_own_hook(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = asked_by_version_body });
}

static int nulls_body(void)
{
	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemFreeHost(NULL) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFree_v2(0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemHostUnregister(NULL) == CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

/* C3 */
static void freeing_nothing_is_the_drivers_to_judge(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = nulls_body });
}

static int no_share_body(void)
{
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 4 * GIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS);
	CHILD_CHECK(access(scene_path("shares"), F_OK));
	return 0;
}

static void in_no_share_everything_passes_through(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .body = no_share_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_some_gpus_visible_each_is_booked_and_limited_by_itself),
		cmocka_unit_test(a_program_on_the_second_gpu_is_booked_there),
		cmocka_unit_test(usage_rises_and_falls_by_what_was_asked),
		cmocka_unit_test(a_pointer_never_seen_is_the_drivers_to_free),
		cmocka_unit_test(a_second_free_changes_nothing),
		cmocka_unit_test(a_free_that_the_driver_refuses_leaves_the_charge),
		cmocka_unit_test(a_pitched_block_costs_the_pitch_that_the_driver_chose),
		cmocka_unit_test(a_pitch_that_does_not_fit_is_refused_though_the_rows_would),
		cmocka_unit_test(a_free_stuck_in_the_driver_holds_nobody_up),
		cmocka_unit_test(managed_memory_is_charged_where_it_is_made),
		cmocka_unit_test(the_first_apis_forms_are_booked_and_store_four_bytes),
		cmocka_unit_test(both_forms_of_one_base_name_are_answered_each_by_its_own_hook),
		cmocka_unit_test(freeing_nothing_is_the_drivers_to_judge),
		cmocka_unit_test(in_no_share_everything_passes_through),
	};

	return cmocka_run_group_tests_name("hooks: linear memory", tests, NULL, NULL);
}
