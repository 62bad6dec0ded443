/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays and mipmapped arrays, every format and shape.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "scene.h"

static int plain_body(void)
{
	CUDA_ARRAY_DESCRIPTOR big = { 4096, 4096, CU_AD_FORMAT_FLOAT, 4 };
	CUDA_ARRAY_DESCRIPTOR small = { 1024, 1024, CU_AD_FORMAT_FLOAT, 1 };
	CUDA_ARRAY_DESCRIPTOR wrong = { 0, 1024, CU_AD_FORMAT_FLOAT, 1 };
	CUarray untouched = (CUarray)7;
	CUarray array = NULL;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuArrayCreate_v2(&untouched, &big) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(cuda.cuArrayCreate_v2(&untouched, &wrong) ==
		    berth_driver()->cuArrayCreate_v2(&untouched, &wrong));
	CHILD_CHECK(cuda.cuArrayCreate_v2(NULL, &small) == CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(cuda.cuArrayCreate_v2(&untouched, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHILD_CHECK(untouched == (CUarray)7 && scene_booked(0) == 0);
	CHILD_CHECK(cuda.cuArrayCreate_v2(&array, &small) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 4 * MIB);
	CHILD_CHECK(cuda.cuArrayDestroy(array) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(cuda.cuArrayDestroy(array) != CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

/* A26 */
static void an_array_is_charged_and_limited(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = plain_body });
}

struct shape {
	CUDA_ARRAY3D_DESCRIPTOR desc;
	uint64_t bytes;
};

static int shapes_body(void)
{
	static const struct shape shapes[] = {
		{ { 256, 256, 4, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0 }, 1 * MIB },
		{ { 256, 256, 4, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_LAYERED }, 1 * MIB },
		{ { 256, 256, 6, CU_AD_FORMAT_HALF, 2, CUDA_ARRAY3D_CUBEMAP }, 3 * MIB / 2 },
		{ { 1024, 1024, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0 }, MIB / 2 },
		{ { 1024, 1024, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0 }, 1 * MIB },
		{ { 1024, 1024, 0, CU_AD_FORMAT_NV12, 3, 0 }, 3 * MIB / 2 },
		{ { 1024, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0 }, 4096 },
	};
	CUarray array;

	CHILD_CHECK(!scene_start());
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		CUresult res = cuda.cuArray3DCreate_v2(&array, &shapes[i].desc);

		if (res == CUDA_ERROR_INVALID_VALUE) /* this driver lacks the format */
			continue;
		CHILD_CHECK(res == CUDA_SUCCESS);
		if (scene_booked(0) < shapes[i].bytes) {
			dprintf(2, "shape %zu\n", i);
			return 1;
		}
		CHILD_CHECK(scene_booked(0) <= 2 * shapes[i].bytes + 65536);
		CHILD_CHECK(cuda.cuArrayDestroy(array) == CUDA_SUCCESS);
		CHILD_CHECK(scene_booked(0) == 0);
	}
	return 0;
}

/* A26 */
static void depth_layers_cubes_and_odd_formats_are_counted(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = shapes_body });
}

static int every_format_body(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = { .Width = 1 << 20, .Height = 1 << 20, .NumChannels = 4 };
	CUarray untouched = (CUarray)7;

	CHILD_CHECK(!scene_start());
	for (unsigned format = 0; format < 300; format++) {
		desc.Format = (CUarray_format)format;
		CHILD_CHECK(cuda.cuArray3DCreate_v2(&untouched, &desc) == CUDA_ERROR_OUT_OF_MEMORY);
	}
	desc.Format = (CUarray_format)0x7fffffff;
	CHILD_CHECK(cuda.cuArray3DCreate_v2(&untouched, &desc) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(untouched == (CUarray)7 && scene_booked(0) == 0);
	return 0;
}

/* A26: formats known and unknown, no table is read beyond its end. */
static void a_format_nobody_knows_is_not_free(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = every_format_body });
}

static int mipmap_body(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = { 1024, 1024, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
	CUmipmappedArray mipmap = NULL;
	CUmipmappedArray untouched = (CUmipmappedArray)7;
	uint64_t levels_bytes = 0;

	CHILD_CHECK(!scene_start());
	for (uint64_t edge = 1024; edge; edge /= 2)
		levels_bytes += edge * edge * 4;
	CHILD_CHECK(cuda.cuMipmappedArrayCreate(&mipmap, &desc, 11) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) >= levels_bytes);
	CHILD_CHECK(scene_booked(0) <= levels_bytes + MIB);
	CHILD_CHECK(cuda.cuMipmappedArrayDestroy(mipmap) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	desc.Width = desc.Height = 8192;
	CHILD_CHECK(cuda.cuMipmappedArrayCreate(&untouched, &desc, 4) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(untouched == (CUmipmappedArray)7);
	return 0;
}

/* A26 */
static void all_levels_of_a_mipmap_are_counted(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = mipmap_body });
}

static int sparse_body(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {
		16384, 16384, 0, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_SPARSE
	};
	CUarray array = NULL;

	CHILD_CHECK(!scene_start());
	/* No memory of its own: its tiles are mapped from handles, which are charged. */
	if (berth_driver()->cuArray3DCreate_v2(&array, &desc) != CUDA_SUCCESS)
		return 0; /* this driver has none */
	CHILD_CHECK(cuda.cuArray3DCreate_v2(&array, &desc) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

static void a_sparse_array_takes_nothing_itself(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .body = sparse_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_array_is_charged_and_limited),
		cmocka_unit_test(depth_layers_cubes_and_odd_formats_are_counted),
		cmocka_unit_test(a_format_nobody_knows_is_not_free),
		cmocka_unit_test(all_levels_of_a_mipmap_are_counted),
		cmocka_unit_test(a_sparse_array_takes_nothing_itself),
	};

	return cmocka_run_group_tests_name("hooks: arrays", tests, NULL, NULL);
}
