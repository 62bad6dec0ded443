/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls without a context, over the limit, and on a driver that fails: through every way to take
 * memory.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "scene.h"

/* One way to take memory: size in bytes, *ret_out is what the call would write. */
struct way {
	const char *symbol;
	CUresult (*take)(uint64_t bytes, void *out);
	CUresult (*give)(const void *out); /* NULL: cuMemFree_v2 */
};

static CUmemoryPool pool;

static CUresult take_plain(uint64_t bytes, void *out)
{
	return cuda.cuMemAlloc_v2(out, bytes);
}

static CUresult take_pitch(uint64_t bytes, void *out)
{
	size_t pitch;

	return cuda.cuMemAllocPitch_v2(out, &pitch, 1024, bytes / 1024, 4);
}

static CUresult take_managed(uint64_t bytes, void *out)
{
	return cuda.cuMemAllocManaged(out, bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult take_async(uint64_t bytes, void *out)
{
	return cuda.cuMemAllocAsync(out, bytes, NULL);
}

static CUresult take_async_ptsz(uint64_t bytes, void *out)
{
	return cuda.cuMemAllocAsync_ptsz(out, bytes, NULL);
}

static CUresult take_pool(uint64_t bytes, void *out)
{
	return cuda.cuMemAllocFromPoolAsync(out, bytes, pool, NULL);
}

static CUresult take_pool_ptsz(uint64_t bytes, void *out)
{
	return cuda.cuMemAllocFromPoolAsync_ptsz(out, bytes, pool, NULL);
}

static CUresult take_handle(uint64_t bytes, void *out)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

	return cuda.cuMemCreate(out, bytes, &prop, 0);
}

static CUresult take_array(uint64_t bytes, void *out)
{
	CUDA_ARRAY_DESCRIPTOR desc = { 4096, bytes / 4096, CU_AD_FORMAT_UNSIGNED_INT8, 1 };

	return cuda.cuArrayCreate_v2(out, &desc);
}

static CUresult take_array_3d(uint64_t bytes, void *out)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {
		1024, 1024, bytes >> 20, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0
	};

	return cuda.cuArray3DCreate_v2(out, &desc);
}

static CUresult take_mipmap(uint64_t bytes, void *out)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = { 4096, bytes / 4096, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0 };

	return cuda.cuMipmappedArrayCreate(out, &desc, 1);
}

static CUresult give_handle(const void *out)
{
	return cuda.cuMemRelease(*(const CUmemGenericAllocationHandle *)out);
}

static CUresult give_array(const void *out)
{
	return cuda.cuArrayDestroy(*(const CUarray *)out);
}

static CUresult give_mipmap(const void *out)
{
	return cuda.cuMipmappedArrayDestroy(*(const CUmipmappedArray *)out);
}

static const struct way ways[] = {
	{ "cuMemAlloc_v2", take_plain, NULL },
	{ "cuMemAllocPitch_v2", take_pitch, NULL },
	{ "cuMemAllocManaged", take_managed, NULL },
	{ "cuMemAllocAsync", take_async, NULL },
	{ "cuMemAllocAsync_ptsz", take_async_ptsz, NULL },
	{ "cuMemAllocFromPoolAsync", take_pool, NULL },
	{ "cuMemAllocFromPoolAsync_ptsz", take_pool_ptsz, NULL },
	{ "cuMemCreate", take_handle, give_handle },
	{ "cuArrayCreate_v2", take_array, give_array },
	{ "cuArray3DCreate_v2", take_array_3d, give_array },
	{ "cuMipmappedArrayCreate", take_mipmap, give_mipmap },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static int start_with_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS);
	return 0;
}

static int check_way(const struct way *way)
{
	uint64_t out = 0xAAAAAAAAAAAAAAAAULL;

	CHILD_CHECK(way->take(66 * MIB, &out) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(out == 0xAAAAAAAAAAAAAAAAULL);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(way->take(4 * MIB, &out) == CUDA_SUCCESS);
	CHILD_CHECK(out != 0xAAAAAAAAAAAAAAAAULL);
	CHILD_CHECK(scene_booked(0) >= 4 * MIB && scene_booked(0) < 6 * MIB);
	CHILD_CHECK((way->give ? way->give(&out) : cuda.cuMemFree_v2(out)) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

static int over_body(void)
{
	CHILD_CHECK(!start_with_pool());
	for (size_t i = 0; i < WAYS; i++) {
		if (check_way(&ways[i])) {
			dprintf(2, "by %s\n", ways[i].symbol);
			return 1;
		}
	}
	return 0;
}

/* C4 */
static void over_the_limit_every_way_says_out_of_memory_and_the_next_small_ask_works(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = over_body });
}

static int failing_body(void)
{
	CHILD_CHECK(!start_with_pool());
	for (size_t i = 0; i < WAYS; i++) {
		uint64_t out = 0xAAAAAAAAAAAAAAAAULL;

		if (ways[i].take(4 * MIB, &out) != CUDA_ERROR_LAUNCH_FAILED ||
		    out != 0xAAAAAAAAAAAAAAAAULL || scene_booked(0) != 0) {
			dprintf(2, "by %s\n", ways[i].symbol);
			return 1;
		}
	}
	return 0;
}

/* C14 */
static void when_the_driver_fails_its_code_comes_back_and_nothing_is_booked(void **state)
{
	static const char faults[] = "cuMemAlloc*:fail=719;cuMemCreate:fail=719;"
				     "cuArray*Create*:fail=719;cuMipmappedArrayCreate:fail=719";

	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .faults = faults, .body = failing_body });
	scene_run(&(struct scene){
		.limit = "64M", .faults = faults, .log_level = "trace", .body = failing_body });
}

static int null_body(void)
{
	CHILD_CHECK(!start_with_pool());
	for (size_t i = 0; i < WAYS; i++) {
		/* Also over the limit: an argument check comes before the limit. */
		if (ways[i].take(4 * MIB, NULL) != CUDA_ERROR_INVALID_VALUE ||
		    ways[i].take(66 * MIB, NULL) != CUDA_ERROR_INVALID_VALUE ||
		    scene_booked(0) != 0) {
			dprintf(2, "by %s\n", ways[i].symbol);
			return 1;
		}
	}
	return 0;
}

/* C14 */
static void a_null_output_is_the_drivers_to_refuse(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = null_body });
}

static void *without_context(void *arg)
{
	for (size_t i = 0; i < WAYS; i++) {
		uint64_t out = 7;
		CUresult res;

		/* Two need no context: they name their device. */
		if (strstr(ways[i].symbol, "Pool") || !strcmp(ways[i].symbol, "cuMemCreate"))
			continue;
		res = ways[i].take(4 * MIB, &out);
		if (res != CUDA_ERROR_INVALID_CONTEXT || out != 7) {
			dprintf(2, "by %s: %d\n", ways[i].symbol, (int)res);
			return arg;
		}
	}
	return NULL;
}

static int no_context_body(void)
{
	pthread_t thread;
	void *wrong = NULL;

	CHILD_CHECK(!start_with_pool());
	CHILD_CHECK(!pthread_create(&thread, NULL, without_context, &wrong));
	CHILD_CHECK(!pthread_join(thread, &wrong) && !wrong);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

/* A6 */
static void a_thread_without_a_context_gets_the_drivers_answer(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = no_context_body });
}

static int unknown_gpu_body(void)
{
	CUdeviceptr block = 7;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, MIB) == CUDA_ERROR_INVALID_CONTEXT);
	CHILD_CHECK(block == 7 && scene_booked(0) == 0);
	return 0;
}

/* A6: there is a context, but the driver won't say of which GPU. Unaccounted memory is no answer. */
static void memory_on_a_gpu_that_cannot_be_told_is_not_given(void **state)
{
	(void)state;
	scene_run(&(struct scene){
		.limit = "64M", .faults = "cuCtxGetDevice:fail=201", .body = unknown_gpu_body });
}

static int refused_body(void)
{
	CUcontext context = NULL;
	uint64_t out = 7;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(cuda.cuInit(0) == CUDA_ERROR_NOT_PERMITTED);
	CHILD_CHECK(cuda.cuInit(0) == CUDA_ERROR_NOT_PERMITTED);
	/* Even if something else initialises the driver behind our back. */
	CHILD_CHECK(berth_driver()->cuInit(0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS);
	CHILD_CHECK(berth_driver()->cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
	for (size_t i = 0; i < WAYS; i++) {
		if (strstr(ways[i].symbol, "Pool"))
			continue;
		if (ways[i].take(4 * MIB, &out) != CUDA_ERROR_OUT_OF_MEMORY || out != 7) {
			dprintf(2, "by %s\n", ways[i].symbol);
			return 1;
		}
	}
	return 0;
}

static void a_limit_that_cannot_be_read_stops_all_gpu_use_and_says_so_once(void **state)
{
	static char error[8192];
	const char *newline;

	(void)state;
	scene_run(&(struct scene){ .limit = "-1", .body = refused_body, .ret_error = error });
	assert_non_null(strstr(error, "CUDA_DEVICE_MEMORY_LIMIT"));
	newline = strchr(error, '\n');
	assert_non_null(newline);
	assert_string_equal(newline, "\n");
}

static int late_body(void)
{
	CUcontext context = NULL;
	CUdeviceptr block = 7;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(berth_driver()->cuInit(0) == CUDA_SUCCESS);
	CHILD_CHECK(berth_driver()->cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 65 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 64 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 64 * MIB);
	return 0;
}

static void a_driver_initialised_without_us_is_limited_all_the_same(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = late_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			over_the_limit_every_way_says_out_of_memory_and_the_next_small_ask_works),
		cmocka_unit_test(when_the_driver_fails_its_code_comes_back_and_nothing_is_booked),
		cmocka_unit_test(a_null_output_is_the_drivers_to_refuse),
		cmocka_unit_test(a_thread_without_a_context_gets_the_drivers_answer),
		cmocka_unit_test(memory_on_a_gpu_that_cannot_be_told_is_not_given),
		cmocka_unit_test(a_limit_that_cannot_be_read_stops_all_gpu_use_and_says_so_once),
		cmocka_unit_test(a_driver_initialised_without_us_is_limited_all_the_same),
	};

	return cmocka_run_group_tests_name("hooks: misuse and failure", tests, NULL, NULL);
}
