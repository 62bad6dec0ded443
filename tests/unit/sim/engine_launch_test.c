/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches: what is refused, what they cost, what a plug-in computes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core_fixture.h"
#include "engine_ptx.h"

static CUmodule module_;

static CUfunction begin(const char *name)
{
	CUfunction function;

	core_begin(0);
	CHECK_OK(cuModuleLoadData(&module_, ENGINE_PTX));
	CHECK_OK(cuModuleGetFunction(&function, module_, name));
	return function;
}

static CUresult launch(CUfunction function, unsigned grid, unsigned block, unsigned shared,
		       void **parameters, void **extra)
{
	return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, NULL, parameters, extra);
}

static void refusals(int socket)
{
	CUdeviceptr pointer = 0;
	unsigned number = 0;
	void *good[] = { &pointer, &number };
	void *bad[] = { &pointer, NULL };
	unsigned char values[12] = { 0 };
	size_t bytes = sizeof(values), less = 8;
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, values, CU_LAUNCH_PARAM_BUFFER_SIZE,
			  &bytes, CU_LAUNCH_PARAM_END };
	void *cut[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, values, CU_LAUNCH_PARAM_BUFFER_SIZE, &less,
			CU_LAUNCH_PARAM_END };
	void *half[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, values, CU_LAUNCH_PARAM_END };
	CUfunction slow, quick;

	(void)socket;
	slow = begin("slow");
	CHECK_OK(cuModuleGetFunction(&quick, module_, "quick"));
	CHECK_OK(launch(slow, 1, 32, 0, good, NULL));
	CHECK_OK(launch(slow, 1, 32, 0, NULL, extra));
	CHECK_CODE(launch(NULL, 1, 32, 0, good, NULL), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(launch((CUfunction)0x55, 1, 32, 0, good, NULL), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(launch(slow, 0, 32, 0, good, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(launch(slow, 1, 0, 0, good, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(launch(slow, 1, 1025, 0, good, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(launch(slow, 1, 32, 65536, good, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(launch(slow, 1, 32, 0, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(launch(slow, 1, 32, 0, bad, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(launch(slow, 1, 32, 0, good, extra), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(launch(slow, 1, 32, 0, NULL, cut), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(launch(slow, 1, 32, 0, NULL, half), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuLaunchKernel(slow, 1, 65536, 1, 32, 1, 1, 0, NULL, good, NULL),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 65, 0, NULL, good, NULL),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuLaunchKernel(slow, 1, 1, 1, 32, 1, 1, 0, (CUstream)0x99, good, NULL),
		   CUDA_ERROR_INVALID_HANDLE);
	/* .maxntid 256 */
	CHECK_CODE(launch(quick, 1, 257, 0, NULL, NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	CHECK_OK(launch(quick, 1, 256, 0, NULL, NULL));
	CHECK_OK(cuFuncSetAttribute(slow, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
	CHECK_OK(launch(slow, 1, 32, 65536, good, NULL));
	CHECK_OK(cuCtxSynchronize());
}

static void contexts_must_match(int socket)
{
	CUcontext other;
	CUfunction quick;

	(void)socket;
	quick = begin("quick");
	CHECK_CODE(cuLaunchKernel(quick, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, (void *[]){ NULL }),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuCtxCreate_v2(&other, 0, 0));
	CHECK_CODE(launch(quick, 1, 32, 0, NULL, NULL), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_OK(cuCtxPopCurrent_v2(&other));
	CHECK_OK(launch(quick, 1, 32, 0, NULL, NULL));
	CHECK_OK(cuCtxSetCurrent(NULL));
	CHECK_CODE(launch(quick, 1, 32, 0, NULL, NULL), CUDA_ERROR_INVALID_CONTEXT);
}

static float cost_once(CUfunction function, unsigned grid, void **parameters)
{
	CUevent start, end;
	float ms;

	CHECK_OK(cuEventCreate(&start, 0));
	CHECK_OK(cuEventCreate(&end, 0));
	/* Something before it, so that the start is when that ends and not when it is recorded. */
	CHECK_OK(launch(function, 1000, 32, 0, parameters, NULL));
	CHECK_OK(cuEventRecord(start, NULL));
	CHECK_OK(launch(function, grid, 32, 0, parameters, NULL));
	CHECK_OK(cuEventRecord(end, NULL));
	CHECK_OK(cuEventSynchronize(end));
	CHECK_OK(cuEventElapsedTime(&ms, start, end));
	return ms;
}

/* Milliseconds of device time that a launch takes; the least of some, since on a busy machine the
 * GPU may have been idle between the event and the launch. */
static float cost(CUfunction function, unsigned grid, void **parameters)
{
	float least = cost_once(function, grid, parameters);

	for (int i = 0; i < 4; i++) {
		float ms = cost_once(function, grid, parameters);

		least = ms < least ? ms : least;
	}
	return least;
}

static bool is_about(float found, float wanted)
{
	return found > wanted * 0.999F && found < wanted * 1.001F;
}

static void cost_follows_waves(int socket)
{
	CUdeviceptr pointer = 0;
	unsigned number = 0, sms;
	void *parameters[] = { &pointer, &number };
	CUfunction slow;
	int value;

	(void)socket;
	slow = begin("slow");
	CHECK_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	sms = (unsigned)value;
	CHECK(is_about(cost(slow, 1, parameters), 2.0F));
	CHECK(is_about(cost(slow, sms, parameters), 2.0F));
	CHECK(is_about(cost(slow, 5 * sms, parameters), 10.0F));
	CHECK(is_about(cost(slow, 5 * sms + 1, parameters), 12.0F));
}

static void cost_by_environment(int socket)
{
	CUdeviceptr pointer = 0;
	unsigned number = 0;
	void *parameters[] = { &pointer, &number };
	CUfunction slow, quick;
	int sms;

	(void)socket;
	setenv("BERTH_SIM_KERNEL_COST", "sl*=500us,qui?k=30ms", 1);
	slow = begin("slow");
	CHECK_OK(cuModuleGetFunction(&quick, module_, "quick"));
	CHECK_OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	CHECK(is_about(cost(slow, 100 * (unsigned)sms, parameters), 50.0F));
	CHECK(is_about(cost(quick, 1, NULL), 30.0F));
}

static void bad_cost(int socket)
{
	CUfunction quick;

	(void)socket;
	setenv("BERTH_SIM_KERNEL_COST", "quick=fast", 1);
	CHECK(freopen("/dev/null", "w", stderr));
	quick = begin("quick");
	CHECK_CODE(launch(quick, 1, 32, 0, NULL, NULL), CUDA_ERROR_SYSTEM_NOT_READY);
}

static void every_form_launches(int socket)
{
	CUlaunchAttribute cooperative = { .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
					  .value.cooperative = 1 };
	CUlaunchAttribute unknown = { .id = (CUlaunchAttributeID)77 };
	CUlaunchConfig config = { 1, 1, 1, 32, 1, 1, 0, NULL, &cooperative, 1 };
	CUlibrary library;
	CUkernel kernel;
	CUfunction quick;
	CUstream stream;

	(void)socket;
	quick = begin("quick");
	CHECK_OK(cuStreamCreate(&stream, 0));
	CHECK_OK(cuLaunchKernel_ptsz(quick, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	CHECK_OK(cuLaunchKernelEx(&config, quick, NULL, NULL));
	CHECK_OK(cuLaunchKernelEx_ptsz(&config, quick, NULL, NULL));
	CHECK_CODE(cuLaunchKernelEx(NULL, quick, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	config.attrs = NULL;
	CHECK_CODE(cuLaunchKernelEx(&config, quick, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	config.attrs = &unknown;
	CHECK_CODE(cuLaunchKernelEx(&config, quick, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuLaunchCooperativeKernel(quick, 1, 1, 1, 32, 1, 1, 0, stream, NULL));
	CHECK_OK(cuLaunchCooperativeKernel_ptsz(quick, 1, 1, 1, 32, 1, 1, 0, stream, NULL));
	CHECK_CODE(cuLaunchCooperativeKernel(quick, 1U << 20, 1, 1, 32, 1, 1, 0, stream, NULL),
		   CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	CHECK_OK(cuLaunchCooperativeKernelMultiDevice(
		&(CUDA_LAUNCH_PARAMS){ quick, 1, 1, 1, 32, 1, 1, 0, stream, NULL }, 1, 0));
	CHECK_CODE(cuLaunchCooperativeKernelMultiDevice(
			   &(CUDA_LAUNCH_PARAMS){ quick, 1, 1, 1, 32, 1, 1, 0, NULL, NULL }, 1, 0),
		   CUDA_ERROR_INVALID_VALUE);
	/* A library's kernel where a function is wanted, as the runtime passes it. */
	CHECK_OK(cuLibraryLoadData(&library, ENGINE_PTX, NULL, NULL, 0, NULL, NULL, 0));
	CHECK_OK(cuLibraryGetKernel(&kernel, library, "quick"));
	CHECK_OK(launch((CUfunction)kernel, 1, 32, 0, NULL, NULL));
	CHECK_CODE(launch((CUfunction)kernel, 1, 257, 0, NULL, NULL),
		   CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	CHECK_OK(cuCtxSynchronize());
}

static void the_first_api_s_forms(int socket)
{
	CUdeviceptr pointer = 0;
	CUfunction slow;

	(void)socket;
	slow = begin("slow");
	CHECK_CODE(cuLaunch(slow), CUDA_ERROR_INVALID_VALUE); /* no shape yet */
	CHECK_CODE(cuFuncSetBlockShape(slow, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuFuncSetBlockShape(slow, 32, 1, 1));
	CHECK_OK(cuParamSetv(slow, 0, &pointer, sizeof(pointer)));
	CHECK_OK(cuParamSeti(slow, 8, 5));
	CHECK_CODE(cuParamSeti(slow, 4093, 5), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuParamSeti(slow, -1, 5), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuParamSetSize(slow, 8));
	CHECK_CODE(cuLaunch(slow), CUDA_ERROR_INVALID_VALUE); /* a parameter is missing */
	CHECK_OK(cuParamSetSize(slow, 12));
	CHECK_OK(cuFuncSetSharedSize(slow, 128));
	CHECK_OK(cuLaunch(slow));
	CHECK_OK(cuLaunchGrid(slow, 2, 2));
	CHECK_OK(cuLaunchGridAsync(slow, 2, 2, NULL));
	CHECK_CODE(cuLaunchGrid(slow, 0, 2), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuCtxSynchronize());
}

static void plug_ins_compute(int socket)
{
	float data[4] = { 1, 2, 3, 4 }, factor = 2.5F;
	unsigned char more[16] = { 0 };
	CUdeviceptr pointer;
	unsigned count = 4;
	void *parameters[] = { &pointer, &count, &factor, more };
	CUfunction scale;

	(void)socket;
	setenv("BERTH_SIM_KERNELS", getenv("BERTH_TEST_KERNELS"), 1);
	scale = begin("scale");
	CHECK_OK(cuMemAlloc_v2(&pointer, sizeof(data)));
	CHECK_OK(cuMemcpyHtoD_v2(pointer, data, sizeof(data)));
	CHECK_OK(launch(scale, 1, 32, 0, parameters, NULL));
	CHECK_OK(launch(scale, 1, 32, 0, parameters, NULL));
	CHECK_OK(cuMemcpyDtoH_v2(data, pointer, sizeof(data)));
	CHECK(data[0] == 6.25F && data[3] == 25.0F);
	/* Out of its memory the plug-in gets none, and changes nothing. */
	count = 1000000;
	CHECK_OK(launch(scale, 1, 32, 0, parameters, NULL));
	CHECK_OK(cuMemcpyDtoH_v2(data, pointer, sizeof(data)));
	CHECK(data[0] == 6.25F);
}

static void occupancy(int socket)
{
	int blocks = -1, grid, block, sms;
	CUfunction quick;
	size_t bytes;

	(void)socket;
	quick = begin("quick");
	CHECK_OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	CHECK_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, quick, 256, 0));
	CHECK(blocks == 6);
	CHECK_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, quick, 512, 0));
	CHECK(blocks == 0);
	CHECK_CODE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, quick, 0, 0),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, quick, 32, 0),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, quick, NULL, 0, 0));
	CHECK(block == 256 && grid == 6 * sms);
	CHECK_OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, quick, 2, 256));
	CHECK(bytes > 0 && bytes <= 49152);
}

static void passes(void **state)
{
	assert_true(core_passes("1x1G", *(void (**)(int)) * state));
}

#define PASSES(body)                                        \
	{                                                   \
#body, passes, NULL, NULL, &(void (*)(int)) \
		{                                           \
			body                                \
		}                                           \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PASSES(refusals),
		PASSES(contexts_must_match),
		PASSES(cost_follows_waves),
		PASSES(cost_by_environment),
		PASSES(bad_cost),
		PASSES(every_form_launches),
		PASSES(the_first_api_s_forms),
		PASSES(plug_ins_compute),
		PASSES(occupancy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
