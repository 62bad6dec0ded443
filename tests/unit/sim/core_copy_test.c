/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills move the right bytes and no others, in every form.
 */
#include "core_fixture.h"

#include <setjmp.h>

#include <cmocka.h>

enum { N = 10000 };

static unsigned char sent[N];
static unsigned char back[N];

static void fill_sent(void)
{
	for (unsigned i = 0; i < N; i++)
		sent[i] = (unsigned char)(i * 131 ^ i >> 5);
}

static void check_back(CUdeviceptr pointer)
{
	memset(back, 0, N);
	CHECK_OK(cuMemcpyDtoH_v2(back, pointer, N));
	CHECK(memcmp(sent, back, N) == 0);
}

static CUdeviceptr fresh(void)
{
	CUdeviceptr pointer;

	CHECK_OK(cuMemAlloc_v2(&pointer, N));
	CHECK_OK(cuMemsetD8_v2(pointer, 0xee, N));
	return pointer;
}

static void linear_body(int socket)
{
	CUdeviceptr source;
	CUdeviceptr other;
	CUcontext first;
	CUcontext second;
	CUstream stream;
	CUdeviceptr t;

	(void)socket;
	fill_sent();
	first = core_begin(0);
	second = core_begin(1);
	CHECK_OK(cuMemAlloc_v2(&other, N));
	CHECK_OK(cuCtxSetCurrent(first));
	CHECK_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	source = fresh();
	CHECK_OK(cuMemcpyHtoD_v2(source, sent, N));
	check_back(source);
#define INTO_FRESH(call)                               \
	do {                                           \
		t = fresh();                           \
		CHECK_OK(call);                        \
		CHECK_OK(cuStreamSynchronize(stream)); \
		check_back(t);                         \
		CHECK_OK(cuMemFree_v2(t));             \
	} while (0)
	INTO_FRESH(cuMemcpyHtoD_v2_ptds(t, sent, N));
	INTO_FRESH(cuMemcpyHtoDAsync_v2(t, sent, N, stream));
	INTO_FRESH(cuMemcpyHtoDAsync_v2_ptsz(t, sent, N, stream));
	INTO_FRESH(cuMemcpyDtoD_v2(t, source, N));
	INTO_FRESH(cuMemcpyDtoD_v2_ptds(t, source, N));
	INTO_FRESH(cuMemcpyDtoDAsync_v2(t, source, N, stream));
	INTO_FRESH(cuMemcpyDtoDAsync_v2_ptsz(t, source, N, stream));
	INTO_FRESH(cuMemcpy(t, source, N));
	INTO_FRESH(cuMemcpy(t, (CUdeviceptr)(uintptr_t)sent, N));
	INTO_FRESH(cuMemcpy_ptds(t, source, N));
	INTO_FRESH(cuMemcpyAsync(t, (CUdeviceptr)(uintptr_t)sent, N, stream));
	INTO_FRESH(cuMemcpyAsync_ptsz(t, source, N, stream));
	CHECK_OK(cuMemcpyPeer(other, second, source, first, N));
	INTO_FRESH(cuMemcpyPeer(t, first, other, second, N));
	INTO_FRESH(cuMemcpyPeerAsync(t, first, other, second, N, stream));
	memset(back, 0, N);
	CHECK_OK(cuMemcpyDtoHAsync_v2(back, source, N, stream));
	CHECK_OK(cuStreamSynchronize(stream));
	CHECK(memcmp(sent, back, N) == 0);
	/* A piece of the middle changes nothing around it. */
	t = fresh();
	CHECK_OK(cuMemcpyDtoD_v2(t + 100, source + 7, 50));
	CHECK_OK(cuMemcpyDtoH_v2(back, t, N));
	for (unsigned i = 0; i < N; i++)
		CHECK(back[i] == (i >= 100 && i < 150 ? sent[i - 93] : 0xee));
	/* Nothing is nothing. */
	CHECK_OK(cuMemcpyHtoD_v2(t, sent, 0));
	CHECK_CODE(cuMemcpyHtoD_v2(t, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemcpyDtoH_v2(NULL, t, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemcpyPeer(t, (CUcontext)0x1234, other, second, N),
		   CUDA_ERROR_INVALID_CONTEXT);
}

static void linear_copies(void **state)
{
	(void)state;
	assert_true(core_passes("2x1G", linear_body));
}

/* A window of 30 x 20 bytes at (5, 3) of rows of 100 into one at (11, 7) of rows of 128. */
static void window_body(int socket)
{
	static unsigned char seen[128 * 40];
	CUDA_MEMCPY2D copy = {
		.srcXInBytes = 5,
		.srcY = 3,
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = sent,
		.srcPitch = 100,
		.dstXInBytes = 11,
		.dstY = 7,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstPitch = 128,
		.WidthInBytes = 30,
		.Height = 20,
	};
	CUDA_MEMCPY2D wrong;

	(void)socket;
	fill_sent();
	core_begin(0);
	CHECK_OK(cuMemAlloc_v2(&copy.dstDevice, sizeof(seen)));
	CHECK_OK(cuMemsetD8_v2(copy.dstDevice, 0xee, sizeof(seen)));
	CHECK_OK(cuMemcpy2D_v2(&copy));
	CHECK_OK(cuMemcpyDtoH_v2(seen, copy.dstDevice, sizeof(seen)));
	for (unsigned y = 0; y < 40; y++)
		for (unsigned x = 0; x < 128; x++) {
			bool inside = y >= 7 && y < 27 && x >= 11 && x < 41;
			unsigned char want = inside ? sent[(y - 4) * 100 + x - 6] : 0xee;

			CHECK(seen[y * 128 + x] == want);
		}
	CHECK_CODE(cuMemcpy2D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	wrong = copy;
	wrong.srcPitch = 34; /* narrower than what is read of a row */
	CHECK_CODE(cuMemcpy2D_v2(&wrong), CUDA_ERROR_INVALID_VALUE);
	wrong = copy;
	wrong.dstY = 21; /* the last row lies behind the end */
	CHECK_CODE(cuMemcpy2D_v2(&wrong), CUDA_ERROR_INVALID_VALUE);
	wrong = copy;
	wrong.dstMemoryType = 9;
	CHECK_CODE(cuMemcpy2DUnaligned_v2(&wrong), CUDA_ERROR_INVALID_VALUE);
	wrong = copy;
	wrong.Height = SIZE_MAX;
	CHECK_CODE(cuMemcpy2D_v2(&wrong), CUDA_ERROR_INVALID_VALUE);
	wrong.Height = 0;
	CHECK_OK(cuMemcpy2D_v2(&wrong));
}

static void windows_of_rows(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", window_body));
}

/* 8 x 4 x 3 floats through an array and back, then a corner of it. */
static void volume_body(int socket)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { 8, 4, 3, CU_AD_FORMAT_FLOAT, 1, 0 };
	CUDA_MEMCPY3D in = { .srcMemoryType = CU_MEMORYTYPE_HOST,
			     .srcHost = sent,
			     .srcPitch = 32,
			     .srcHeight = 4,
			     .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			     .WidthInBytes = 32,
			     .Height = 4,
			     .Depth = 3 };
	CUDA_MEMCPY3D out = { .srcXInBytes = 8,
			      .srcY = 1,
			      .srcZ = 1,
			      .srcMemoryType = CU_MEMORYTYPE_ARRAY,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = back,
			      .dstPitch = 16,
			      .dstHeight = 2,
			      .WidthInBytes = 16,
			      .Height = 2,
			      .Depth = 2 };
	CUarray array;

	(void)socket;
	fill_sent();
	core_begin(0);
	CHECK_OK(cuArray3DCreate_v2(&array, &shape));
	in.dstArray = array;
	out.srcArray = array;
	CHECK_OK(cuMemcpy3D_v2(&in));
	CHECK_OK(cuMemcpy3D_v2(&out));
	for (unsigned z = 0; z < 2; z++)
		for (unsigned y = 0; y < 2; y++)
			CHECK(memcmp(back + (z * 2 + y) * 16, sent + ((z + 1) * 4 + y + 1) * 32 + 8,
				     16) == 0);
	out.srcXInBytes = 24;
	CHECK_CODE(cuMemcpy3D_v2(&out), CUDA_ERROR_INVALID_VALUE);
	out.srcXInBytes = 2; /* half an element */
	CHECK_CODE(cuMemcpy3D_v2(&out), CUDA_ERROR_INVALID_VALUE);
	out.srcXInBytes = 8;
	out.srcZ = 2;
	CHECK_CODE(cuMemcpy3D_v2(&out), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuArrayDestroy(array));
	out.srcZ = 1;
	CHECK_CODE(cuMemcpy3D_v2(&out), CUDA_ERROR_INVALID_HANDLE);
}

static void volumes_and_arrays(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", volume_body));
}

static void fills_body(int socket)
{
	CUdeviceptr pointer;
	CUstream stream;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuStreamCreate(&stream, 0));
	pointer = fresh();
	CHECK_OK(cuMemsetD8_v2(pointer + 1, 0x11, 3));
	CHECK_OK(cuMemsetD16_v2(pointer + 6, 0x2322, 2));
	CHECK_OK(cuMemsetD32_v2(pointer + 12, 0x37363534, 2));
	CHECK_CODE(cuMemsetD16_v2(pointer + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemsetD32_v2(pointer + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemsetD32_v2(pointer, 0, N / 4 + 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemsetD32_v2(pointer, 0, SIZE_MAX / 2), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemsetD2D8Async(pointer + 32, 16, 0x44, 3, 4, stream));
	CHECK_CODE(cuMemsetD2D32_v2(pointer, 8, 0, 3, 2), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuStreamSynchronize(stream));
	CHECK_OK(cuMemcpyDtoH_v2(back, pointer, N));
	CHECK(memcmp(back,
		     "\xee\x11\x11\x11\xee\xee\x22\x23\x22\x23\xee\xee"
		     "\x34\x35\x36\x37\x34\x35\x36\x37\xee",
		     21) == 0);
	for (unsigned y = 0; y < 4; y++)
		for (unsigned x = 0; x < 16; x++)
			CHECK(back[32 + y * 16 + x] == (x < 3 ? 0x44 : 0xee));
	CHECK(back[32 + 64] == 0xee);
}

static void fills(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", fills_body));
}

static void batch_body(int socket)
{
	CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	CUdeviceptr sources[3];
	CUdeviceptr targets[3];
	size_t sizes[3] = { 100, 200, 300 };
	size_t first = 0;
	size_t failed = 7;
	CUdeviceptr pointer;
	CUstream stream;

	(void)socket;
	fill_sent();
	core_begin(0);
	CHECK_OK(cuStreamCreate(&stream, 0));
	pointer = fresh();
	for (unsigned i = 0; i < 3; i++) {
		sources[i] = (CUdeviceptr)(uintptr_t)(sent + i * 1000);
		targets[i] = pointer + i * 1000;
	}
	CHECK_OK(cuMemcpyBatchAsync(targets, sources, sizes, 3, &attributes, &first, 1, &failed,
				    stream));
	CHECK_OK(cuMemcpyDtoH_v2(back, pointer, N));
	for (unsigned i = 0; i < 3; i++)
		CHECK(memcmp(back + i * 1000, sent + i * 1000, sizes[i]) == 0 &&
		      back[i * 1000 + sizes[i]] == 0xee);
	targets[1] = pointer + N;
	CHECK_CODE(cuMemcpyBatchAsync(targets, sources, sizes, 3, &attributes, &first, 1, &failed,
				      stream),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK(failed == 1);
	CHECK_CODE(cuMemcpyBatchAsync_v2(targets, sources, sizes, 3, &attributes, &first, 1, NULL),
		   CUDA_ERROR_INVALID_VALUE);
}

static void batches(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", batch_body));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linear_copies),
		cmocka_unit_test(windows_of_rows),
		cmocka_unit_test(volumes_and_arrays),
		cmocka_unit_test(fills),
		cmocka_unit_test(batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
