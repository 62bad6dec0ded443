/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: what they take themselves, and what goes with them.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "scene.h"

static int retain_body(void)
{
	CUcontext context = NULL;
	CUcontext untouched = (CUcontext)7;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuDevicePrimaryCtxRetain(&untouched, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(cuda.cuDevicePrimaryCtxRetain(&untouched, 99) == CUDA_ERROR_INVALID_DEVICE);
	CHILD_CHECK(untouched == (CUcontext)7);
	CHILD_CHECK(scene_booked(0) == 0);
	for (int i = 0; i < 3; i++) {
		CHILD_CHECK(cuda.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
		CHILD_CHECK(scene_booked(0) == 100 * MIB);
	}
	for (int i = 0; i < 2; i++) {
		CHILD_CHECK(cuda.cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
		CHILD_CHECK(scene_booked(0) == 100 * MIB);
	}
	CHILD_CHECK(cuda.cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(cuda.cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

/* A17 */
static void the_primary_context_is_charged_once_from_first_retain_to_last_release(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G",
				   .context_bytes = "100M",
				   .faults = "cuDevicePrimaryCtxRetain:fail=2:nth=1",
				   .body = retain_body });
}

static pthread_barrier_t barrier;

static void *retain(void *arg)
{
	(void)arg;
	CUcontext context;

	pthread_barrier_wait(&barrier);
	return cuda.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS ? NULL : (void *)1;
}

static int race_body(void)
{
	enum { THREADS = 16 };
	pthread_t threads[THREADS];

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS);
	for (int round = 0; round < 20; round++) {
		CHILD_CHECK(!pthread_barrier_init(&barrier, NULL, THREADS));
		for (int i = 0; i < THREADS; i++)
			CHILD_CHECK(!pthread_create(&threads[i], NULL, retain, NULL));
		for (int i = 0; i < THREADS; i++) {
			void *wrong = NULL;

			CHILD_CHECK(!pthread_join(threads[i], &wrong) && !wrong);
		}
		CHILD_CHECK(scene_booked(0) == 100 * MIB);
		for (int i = 0; i < THREADS; i++)
			CHILD_CHECK(cuda.cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
		CHILD_CHECK(scene_booked(0) == 0);
	}
	return 0;
}

/* A19 */
static void threads_that_retain_at_once_charge_once(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .context_bytes = "100M", .body = race_body });
}

static int destroy_body(void)
{
	CUDA_ARRAY_DESCRIPTOR desc = { 1024, 1024, CU_AD_FORMAT_FLOAT, 1 };
	CUcontext first = NULL;
	CUcontext second = NULL;
	CUdeviceptr block;
	CUarray array;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuCtxCreate_v2(&first, 0, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 10 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuArrayCreate_v2(&array, &desc) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuCtxCreate_v2(&second, 0, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 20 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 234 * MIB);
	CHILD_CHECK(cuda.cuCtxDestroy_v2(first) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 120 * MIB);
	CHILD_CHECK(cuda.cuCtxDestroy_v2(first) != CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 120 * MIB);
	CHILD_CHECK(cuda.cuCtxDestroy_v2(second) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

static void a_destroyed_context_takes_its_allocations_with_it(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .context_bytes = "100M", .body = destroy_body });
}

static int reset_body(void)
{
	CUcontext context = NULL;
	CUdeviceptr block;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuCtxSetCurrent(context) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 300 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAllocAsync(&block, 300 * MIB, NULL) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 700 * MIB);
	CHILD_CHECK(cuda.cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(cuda.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuCtxSetCurrent(context) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 900 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 1000 * MIB);
	return 0;
}

static void a_reset_gives_back_all_that_was_allocated(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .context_bytes = "100M", .body = reset_body });
}

static int unlimited_body(void)
{
	CUdeviceptr block;

	CHILD_CHECK(!scene_log());
	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == MIB);
	return 0;
}

static void without_a_limit_no_context_is_measured(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "0", .context_bytes = "100M", .body = unlimited_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_primary_context_is_charged_once_from_first_retain_to_last_release),
		cmocka_unit_test(threads_that_retain_at_once_charge_once),
		cmocka_unit_test(a_destroyed_context_takes_its_allocations_with_it),
		cmocka_unit_test(a_reset_gives_back_all_that_was_allocated),
		cmocka_unit_test(without_a_limit_no_context_is_measured),
	};

	return cmocka_run_group_tests_name("hooks: contexts", tests, NULL, NULL);
}
