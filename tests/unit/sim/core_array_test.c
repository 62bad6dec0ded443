/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays and mipmapped arrays: what they take, what is refused, what lies where.
 */
#include "core_fixture.h"

#include <setjmp.h>

#include <cmocka.h>

static size_t taken_by(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
	size_t before = core_used_bytes();
	CUarray array;
	size_t taken;

	CHECK_OK(cuArray3DCreate_v2(&array, descriptor));
	taken = core_used_bytes() - before;
	CHECK_OK(cuArrayDestroy(array));
	CHECK(core_used_bytes() == before);
	return taken;
}

static void footprint_body(int socket)
{
	static const struct {
		CUDA_ARRAY3D_DESCRIPTOR descriptor;
		size_t bytes;
	} rows[] = {
		{ { 1024, 1024, 0, CU_AD_FORMAT_FLOAT, 1, 0 }, MiB(4) },
		{ { 4096, 4096, 0, CU_AD_FORMAT_FLOAT, 4, 0 }, MiB(256) },
		{ { 4096, 0, 0, CU_AD_FORMAT_HALF, 2, 0 }, 16384 },
		{ { 256, 256, 16, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0 }, MiB(4) },
		{ { 256, 256, 10, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_LAYERED },
		  65536 * 10 },
		{ { 1024, 0, 10, CU_AD_FORMAT_SIGNED_INT32, 1, CUDA_ARRAY3D_LAYERED }, 40960 },
		{ { 128, 128, 6, CU_AD_FORMAT_UNSIGNED_INT16, 1, CUDA_ARRAY3D_CUBEMAP },
		  128 * 128 * 2 * 6 },
		{ { 128, 128, 12, CU_AD_FORMAT_UNSIGNED_INT16, 1,
		    CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED },
		  128 * 128 * 2 * 12 },
		{ { 1024, 1024, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0 }, MiB(1) / 2 },
		{ { 1024, 1024, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0 }, MiB(1) },
		{ { 1920, 1080, 0, CU_AD_FORMAT_NV12, 3, 0 }, 1920 * 1080 * 3 / 2 },
		{ { 1920, 1080, 0, CU_AD_FORMAT_P016, 3, 0 }, 1920 * 1080 * 3 },
		{ { 256, 256, 0, CU_AD_FORMAT_UNORM_INT_101010_2, 4, 0 }, 262144 },
		{ { 256, 256, 0, CU_AD_FORMAT_UNORM_INT16X4, 4, 0 }, 524288 },
	};

	(void)socket;
	core_begin(0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t bytes = taken_by(&rows[i].descriptor);

		if (bytes != rows[i].bytes)
			fprintf(stderr, "row %zu: %zu bytes\n", i, bytes);
		CHECK(bytes == rows[i].bytes);
	}
}

static void what_arrays_take(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", footprint_body));
}

static void wrong_body(int socket)
{
	static const CUDA_ARRAY3D_DESCRIPTOR rows[] = {
		{ 0, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0 },
		{ 16, 16, 0, CU_AD_FORMAT_FLOAT, 3, 0 },
		{ 16, 16, 0, CU_AD_FORMAT_FLOAT, 0, 0 },
		{ 16, 16, 0, 0, 1, 0 },
		{ 16, 16, 0, 4, 1, 0 },
		{ 16, 16, 0, 0x7fffffff, 1, 0 },
		{ 16, 16, 0, (CUarray_format)-1, 1, 0 },
		{ 16, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0x8000 },
		{ 16, 0, 16, CU_AD_FORMAT_FLOAT, 1, 0 },
		{ 16, 16, 5, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP },
		{ 16, 17, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP },
		{ 16, 16, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED },
		{ SIZE_MAX, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0 },
	};
	CUmipmappedArray mipmap = (CUmipmappedArray)9;
	CUarray array = (CUarray)9;

	(void)socket;
	core_begin(0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_CODE(cuArray3DCreate_v2(&array, &rows[i]), CUDA_ERROR_INVALID_VALUE);
		CHECK_CODE(cuMipmappedArrayCreate(&mipmap, &rows[i], 1), CUDA_ERROR_INVALID_VALUE);
	}
	CHECK_CODE(cuArray3DCreate_v2(NULL, &rows[0]), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuArray3DCreate_v2(&array, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuArrayCreate_v2(&array, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuArrayCreate_v2(&array,
				    &(CUDA_ARRAY_DESCRIPTOR){ 8192, 8192, CU_AD_FORMAT_FLOAT, 4 }),
		   CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(array == (CUarray)9 && mipmap == (CUmipmappedArray)9);
	CHECK_CODE(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuArrayDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
}

static void what_arrays_refuse(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", wrong_body));
}

static void mipmap_body(int socket)
{
	CUDA_ARRAY3D_DESCRIPTOR top = { 1024, 512, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
	CUDA_ARRAY3D_DESCRIPTOR seen;
	static float sent[64];
	static float back[64];
	CUmipmappedArray mipmap;
	size_t bytes = 0;
	CUarray level;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuMipmappedArrayCreate(&mipmap, &top, 100)); /* more than there can be: 11 */
	for (unsigned i = 0; i < 11; i++) {
		size_t width = 1024U >> i;
		size_t height = 512U >> i ? 512U >> i : 1;

		CHECK_OK(cuMipmappedArrayGetLevel(&level, mipmap, i));
		CHECK_OK(cuArray3DGetDescriptor_v2(&seen, level));
		CHECK(seen.Width == width && seen.Height == height);
		bytes += (width * height * 4 + 511) / 512 * 512;
		CHECK_CODE(cuArrayDestroy(level), CUDA_ERROR_INVALID_VALUE);
		for (unsigned j = 0; j < 64; j++)
			sent[j] = (float)(i * 100 + j);
		CHECK_OK(cuMemcpyHtoA_v2(level, 0, sent, width < 64 ? width * 4 : 256));
	}
	CHECK(core_used_bytes() == CONTEXT_BYTES + bytes);
	CHECK_CODE(cuMipmappedArrayGetLevel(&level, mipmap, 11), CUDA_ERROR_INVALID_VALUE);
	/* Levels don't lie over each other. */
	for (unsigned i = 0; i < 11; i++) {
		size_t count = 1024U >> i < 64 ? 1024U >> i : 64;

		CHECK_OK(cuMipmappedArrayGetLevel(&level, mipmap, i));
		CHECK_OK(cuMemcpyAtoH_v2(back, level, 0, count * 4));
		for (unsigned j = 0; j < count; j++)
			CHECK(back[j] == (float)(i * 100 + j));
	}
	CHECK_OK(cuMipmappedArrayDestroy(mipmap));
	CHECK_CODE(cuMipmappedArrayGetLevel(&level, mipmap, 0), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuMemcpyAtoH_v2(back, level, 0, 4), CUDA_ERROR_INVALID_HANDLE);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
}

static void mipmapped_arrays(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", mipmap_body));
}

static void planes_body(int socket)
{
	CUDA_ARRAY3D_DESCRIPTOR frame = { 64, 32, 0, CU_AD_FORMAT_NV12, 3, 0 };
	unsigned char luma[64];
	unsigned char both[64];
	CUDA_ARRAY3D_DESCRIPTOR seen;
	CUarray planes[2];
	CUarray array;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuArray3DCreate_v2(&array, &frame));
	for (unsigned i = 0; i < 2; i++)
		CHECK_OK(cuArrayGetPlane(&planes[i], array, i));
	CHECK_CODE(cuArrayGetPlane(&planes[0], array, 2), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuArray3DGetDescriptor_v2(&seen, planes[1]));
	CHECK(seen.Width == 32 && seen.Height == 16 && seen.NumChannels == 2);
	memset(luma, 0x10, sizeof(luma));
	memset(both, 0x80, sizeof(both));
	CHECK_OK(cuMemcpyHtoA_v2(planes[0], 0, luma, 64));
	CHECK_OK(cuMemcpyHtoA_v2(planes[1], 0, both, 64));
	CHECK_OK(cuMemcpyAtoH_v2(both, array, 0, 64));
	CHECK(memcmp(both, luma, 64) == 0);
	CHECK_OK(cuArrayDestroy(array));
	CHECK_CODE(cuMemcpyHtoA_v2(planes[1], 0, both, 64), CUDA_ERROR_INVALID_HANDLE);
}

static void planes_of_video(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", planes_body));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_arrays_take),
		cmocka_unit_test(what_arrays_refuse),
		cmocka_unit_test(mipmapped_arrays),
		cmocka_unit_test(planes_of_video),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
