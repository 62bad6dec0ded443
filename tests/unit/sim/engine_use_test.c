/* SPDX-License-Identifier: Apache-2.0
 *
 * Utilisation as NVML tells it: node truth over several processes, following device time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core_fixture.h"
#include "driver/nvml_functions.h"
#include "engine_ptx.h"

#define OK(call) assert_int_equal(call, NVML_SUCCESS)

/* Ten times as fast as real time: NVML's second is over in 100 ms. */
static int node(void **state)
{
	(void)state;
	core_node_new("2x1G");
	setenv("BERTH_SIM_TIME_SCALE", "0.1", 1);
	return 0;
}

static void hog(int socket)
{
	CUdeviceptr pointer = 0;
	unsigned number = 0;
	void *parameters[] = { &pointer, &number };
	CUfunction slow;
	CUmodule module;

	core_begin(1);
	CHECK_OK(cuModuleLoadData(&module, ENGINE_PTX));
	CHECK_OK(cuModuleGetFunction(&slow, module, "slow"));
	for (int i = 0; i < 900; i++)
		CHECK_OK(cuLaunchKernel(slow, 1000000, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
	core_tell(socket);
	pause();
}

static unsigned int use_of(nvmlDevice_t device)
{
	nvmlUtilization_t use = { 77, 77 };

	OK(nvmlDeviceGetUtilizationRates(device, &use));
	return use.gpu;
}

static void use_follows_the_work(void **state)
{
	nvmlProcessUtilizationSample_t samples[8];
	struct core_child hogs[2];
	nvmlDevice_t idle, busy;
	unsigned int count = 8;

	(void)state;
	/* This process is a monitor: it never uses the driver, and its scale is nobody's. */
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetHandleByIndex_v2(0, &idle));
	OK(nvmlDeviceGetHandleByIndex_v2(1, &busy));
	assert_int_equal(use_of(busy), 0);
	for (int i = 0; i < 2; i++) {
		hogs[i] = core_start(hog);
		core_wait(hogs[i].socket);
	}
	usleep(300000);
	assert_in_range(use_of(busy), 95, 100);
	assert_int_equal(use_of(idle), 0);
	OK(nvmlDeviceGetProcessUtilization(busy, samples, &count, 0));
	assert_int_equal(count, 2);
	for (int i = 0; i < 2; i++)
		assert_in_range(samples[i].smUtil, 45, 55);
	assert_true((samples[0].pid == (unsigned)hogs[0].pid &&
		     samples[1].pid == (unsigned)hogs[1].pid) ||
		    (samples[0].pid == (unsigned)hogs[1].pid &&
		     samples[1].pid == (unsigned)hogs[0].pid));
	core_kill(&hogs[0]);
	usleep(300000);
	count = 8;
	OK(nvmlDeviceGetProcessUtilization(busy, samples, &count, 0));
	assert_int_equal(count, 1);
	assert_int_equal(samples[0].pid, hogs[1].pid);
	assert_in_range(samples[0].smUtil, 95, 100);
	core_kill(&hogs[1]);
	usleep(300000);
	assert_int_equal(use_of(busy), 0);
	OK(nvmlShutdown());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(use_follows_the_work, node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
