/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of GPUs from NVML, from the driver where NVML fails, and from neither.
 */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "child.h"
#include "driver/driver.h"
#include "driver/gpu_list.h"
#include "driver/nvml.h"

#define MAX 4

static void open_nvml(void)
{
	CHECK(berth_nvml_open(GPUS_NVML, NULL) == 0);
}

static void open_driver(void)
{
	CHECK(berth_driver_open(GPUS_CUDA, NULL) == 0);
}

static void from_nvml(void)
{
	const int *init_count = dlsym(dlopen(GPUS_NVML, RTLD_NOW), "fake_nvml_init_count");
	struct berth_gpu gpus[MAX];
	uint32_t count = 77;

	open_nvml();
	CHECK(berth_gpu_list(gpus, MAX, &count, NULL) == 0);
	CHECK(count == 3 && *init_count == 0);
	CHECK(gpus[1].index == 1);
	CHECK(strcmp(gpus[1].uuid, "GPU-number-1") == 0);
	CHECK(strcmp(gpus[1].name, "Card 1") == 0);
	CHECK(strcmp(gpus[1].pci_bus_id, "00000000:02:00.0") == 0);
	CHECK(gpus[1].memory_total_bytes == 2ULL << 30);
	CHECK(gpus[2].memory_total_bytes == 0);
}

static void test_from_nvml(void **state)
{
	(void)state;
	in_child(from_nvml);
}

/* Its neighbours keep their indices. */
static void lost_gpu(void)
{
	struct berth_gpu gpus[MAX];
	uint32_t count;

	setenv("FAKE_LOST", "1", 1);
	open_nvml();
	CHECK(berth_gpu_list(gpus, MAX, &count, NULL) == 0);
	CHECK(count == 2 && gpus[0].index == 0 && gpus[1].index == 2);
	CHECK(strcmp(gpus[1].uuid, "GPU-number-2") == 0);
}

static void test_lost_gpu(void **state)
{
	(void)state;
	in_child(lost_gpu);
}

static void too_many(void)
{
	const int *init_count = dlsym(dlopen(GPUS_NVML, RTLD_NOW), "fake_nvml_init_count");
	struct berth_reason reason = { .text = "" };
	struct berth_gpu gpus[MAX];
	uint32_t count = 77;

	setenv("FAKE_COUNT", "5", 1);
	open_nvml();
	open_driver();
	CHECK(berth_gpu_list(gpus, MAX, &count, &reason) == -E2BIG);
	CHECK(count == 77 && *init_count == 0);
	CHECK(strstr(reason.text, "5 GPUs") != NULL);
}

static void test_too_many(void **state)
{
	(void)state;
	in_child(too_many);
}

static void check_cuda_gpus(void)
{
	struct berth_gpu gpus[MAX];
	uint32_t count;

	setenv("FAKE_CUDA_COUNT", "2", 1);
	CHECK(berth_gpu_list(gpus, MAX, &count, NULL) == 0);
	CHECK(count == 2 && gpus[1].index == 1);
	CHECK(strcmp(gpus[0].uuid, "GPU-f0e1d2c3-b4a5-9687-7869-5a4b3c2d1e0f") == 0);
	CHECK(strcmp(gpus[1].uuid, "GPU-f1e2d3c4-b5a6-9788-796a-5b4c3d2e1f10") == 0);
	CHECK(strcmp(gpus[1].name, "CUDA card 1") == 0);
	CHECK(strcmp(gpus[0].pci_bus_id, "00000000:af:00.0") == 0);
	CHECK(gpus[1].pci_bus_id[0] == '\0'); /* this driver can't tell */
	CHECK(gpus[1].memory_total_bytes == 6ULL << 30);
}

static void nvml_fails(void)
{
	setenv("FAKE_INIT", "9", 1);
	open_nvml();
	open_driver();
	check_cuda_gpus();
}

static void no_nvml(void)
{
	open_driver();
	check_cuda_gpus();
}

static void both_fail(void)
{
	struct berth_reason reason = { .text = "" };
	struct berth_gpu gpus[MAX];
	uint32_t count = 77;

	setenv("FAKE_INIT", "9", 1);
	setenv("FAKE_CUDA_BROKEN", "1", 1);
	open_nvml();
	open_driver();
	CHECK(berth_gpu_list(gpus, MAX, &count, &reason) == -ENODEV);
	CHECK(strstr(reason.text, "no driver, says NVML") != NULL && count == 77);
}

static void neither(void)
{
	struct berth_reason reason = { .text = "" };
	struct berth_gpu gpus[MAX];
	uint32_t count = 77;

	CHECK(berth_gpu_list(gpus, MAX, &count, &reason) == -ENOENT);
	CHECK(reason.text[0] != '\0' && count == 77);
}

static void test_from_driver(void **state)
{
	(void)state;
	in_child(nvml_fails);
	in_child(both_fail);
}

static bool installed(const char *soname)
{
	void *handle = dlopen(soname, RTLD_LAZY);

	if (handle != NULL)
		dlclose(handle);
	return handle != NULL;
}

static void test_absent(void **state)
{
	(void)state;
	if (installed(BERTH_NVML_SONAME) || installed(BERTH_DRIVER_SONAME)) {
		print_message("a driver is installed here: skipped\n");
		skip();
	}
	in_child(no_nvml);
	in_child(neither);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_from_nvml), cmocka_unit_test(test_lost_gpu),
		cmocka_unit_test(test_too_many),  cmocka_unit_test(test_from_driver),
		cmocka_unit_test(test_absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
