/* SPDX-License-Identifier: Apache-2.0
 *
 * See engine_fixture.h.
 */
#include "engine_fixture.h"

#include <time.h>

static CUfunction slow_, quick_;

void engine_begin(void)
{
	CUmodule module;

	core_begin(0);
	CHECK_OK(cuModuleLoadData(&module, ENGINE_PTX));
	CHECK_OK(cuModuleGetFunction(&slow_, module, "slow"));
	CHECK_OK(cuModuleGetFunction(&quick_, module, "quick"));
}

void engine_run_slow(CUstream stream, unsigned waves)
{
	CUdeviceptr pointer = 0;
	unsigned number = 0;
	void *parameters[] = { &pointer, &number };
	int sms;

	CHECK_OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	CHECK_OK(cuLaunchKernel(slow_, (unsigned)sms * waves, 1, 1, 32, 1, 1, 0, stream, parameters,
				NULL));
}

void engine_run_quick(CUstream stream)
{
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

double engine_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}
