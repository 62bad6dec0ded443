/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated NVML: states, finding devices, memory and process lists in all their layouts, what
 * a short buffer leads to, and that it tells the same truth as the simulated driver.
 *
 * BERTH_TEST_LIBCUDA and BERTH_TEST_LIBNVML are the libraries; two GPUs, the second with 8 GiB.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/cuda_functions.h"
#include "driver/nvml_functions.h"

#define GPUS_COUNT 2
#define MIB        (1ULL << 20)

static void *nvml_;
static void *cuda_;

#define NVML(symbol) ((__typeof__(symbol) *)dlsym(nvml_, #symbol))
#define CUDA(symbol) ((__typeof__(symbol) *)dlsym(cuda_, #symbol))

static int open_libraries(void **state)
{
	(void)state;
	nvml_ = dlopen(getenv("BERTH_TEST_LIBNVML"), RTLD_NOW | RTLD_LOCAL);
	cuda_ = dlopen(getenv("BERTH_TEST_LIBCUDA"), RTLD_NOW | RTLD_LOCAL);
	if (!nvml_ || !cuda_)
		fprintf(stderr, "%s\n", dlerror());
	return nvml_ && cuda_ ? 0 : -1;
}

static nvmlDevice_t device_at(unsigned int index)
{
	nvmlDevice_t device = NULL;

	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(index, &device), NVML_SUCCESS);
	return device;
}

/* What every function of the list says before nvmlInit, whatever it is given. */
static void nothing_works_before_init(void **state)
{
	typedef nvmlReturn_t (*any_function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
					     uintptr_t);
	size_t count = 0;

	(void)state;
#define FLAG_NONE    0
#define FLAG_NO_INIT 1
#define NVML_EXPORT(symbol, kind, flags)                                                     \
	{                                                                                    \
		any_function function = (any_function)dlsym(nvml_, #symbol);                 \
                                                                                             \
		if (!function)                                                               \
			fail_msg("%s is not exported", #symbol);                             \
		if (!FLAG_##flags && function(0, 0, 0, 0, 0, 0) != NVML_ERROR_UNINITIALIZED) \
			fail_msg("%s works before nvmlInit", #symbol);                       \
		count++;                                                                     \
	}
#include "sim/nvml/exports.def"
#undef NVML_EXPORT
	assert_true(count > 300);
}

/* As many shutdowns as inits, and one more is too many. */
static void init_counts(void **state)
{
	unsigned int count;

	(void)state;
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlInitWithFlags)(NVML_INIT_FLAG_NO_GPUS), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlShutdown)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetCount_v2)(&count), NVML_SUCCESS);
	assert_int_equal(count, GPUS_COUNT);
	assert_int_equal(NVML(nvmlShutdown)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(NVML(nvmlInitWithFlags)(0x80), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
}

static void a_device_is_found_by_all_its_names(void **state)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE], serial[NVML_DEVICE_SERIAL_BUFFER_SIZE];
	nvmlPciInfo_t pci;
	nvmlDevice_t device, again;

	(void)state;
	for (unsigned int i = 0; i < GPUS_COUNT; i++) {
		unsigned int index = 99;

		device = device_at(i);
		assert_int_equal(NVML(nvmlDeviceGetIndex)(device, &index), NVML_SUCCESS);
		assert_int_equal(index, i);
		assert_int_equal(NVML(nvmlDeviceGetUUID)(device, uuid, sizeof(uuid)), NVML_SUCCESS);
		assert_int_equal(NVML(nvmlDeviceGetHandleByUUID)(uuid, &again), NVML_SUCCESS);
		assert_ptr_equal(again, device);
		assert_int_equal(NVML(nvmlDeviceGetPciInfo_v3)(device, &pci), NVML_SUCCESS);
		assert_int_equal(NVML(nvmlDeviceGetHandleByPciBusId_v2)(pci.busId, &again),
				 NVML_SUCCESS);
		assert_ptr_equal(again, device);
		for (size_t skip = 0; skip <= strlen("0000:"); skip += strlen("0000:")) {
			again = NULL;
			assert_int_equal(NVML(nvmlDeviceGetHandleByPciBusId_v2)(
						 pci.busIdLegacy + skip, &again),
					 NVML_SUCCESS);
			assert_ptr_equal(again, device);
		}
		assert_int_equal(NVML(nvmlDeviceGetSerial)(device, serial, sizeof(serial)),
				 NVML_SUCCESS);
		assert_int_equal(NVML(nvmlDeviceGetHandleBySerial)(serial, &again), NVML_SUCCESS);
		assert_ptr_equal(again, device);
	}
}

static void what_is_no_device_is_refused(void **state)
{
	char uuid[8] = "same";
	nvmlDevice_t device = NULL;
	nvmlMemory_t memory;

	(void)state;
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(GPUS_COUNT, &device),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(NVML(nvmlDeviceGetHandleByUUID)("GPU-none", &device),
			 NVML_ERROR_NOT_FOUND);
	assert_int_equal(NVML(nvmlDeviceGetHandleByPciBusId_v2)("nonsense", &device),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(NVML(nvmlDeviceGetHandleByPciBusId_v2)("0000:fe:1f.0", &device),
			 NVML_ERROR_NOT_FOUND);
	assert_null(device);
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo)(NULL, &memory), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo)((nvmlDevice_t)(uintptr_t)&memory, &memory),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(NVML(nvmlDeviceGetUUID)(device_at(0), uuid, sizeof(uuid)),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_string_equal(uuid, "same");
}

/* A structure that ends where its page does: one byte more would be a SIGSEGV. */
static void *at_page_end(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
	return pages + page - bytes;
}

static void memory_in_both_layouts(void **state)
{
	nvmlMemory_t *v1 = at_page_end(sizeof(*v1));
	nvmlMemory_v2_t *v2 = at_page_end(sizeof(*v2));
	nvmlDevice_t device = device_at(1);

	(void)state;
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo)(device, v1), NVML_SUCCESS);
	assert_int_equal(v1->total, 8192 * MIB);
	assert_int_equal(v1->free + v1->used, v1->total);
	v2->version = nvmlMemory_v2;
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo_v2)(device, v2), NVML_SUCCESS);
	assert_int_equal(v2->total, v1->total);
	assert_int_equal(v2->reserved + v2->free + v2->used, v2->total);
	for (unsigned int bad = 0; bad < 2; bad++) {
		v2->version = bad ? nvmlMemory_v2 + (1U << 24) : 0;
		v2->free = 7;
		assert_int_equal(NVML(nvmlDeviceGetMemoryInfo_v2)(device, v2),
				 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
		assert_int_equal(v2->free, 7);
	}
}

/* In a child: a context on each of the GPUs named and bytes there; says so, then waits to die. */
static pid_t start_user(unsigned int gpu, size_t bytes)
{
	CUcontext context;
	CUdeviceptr pointer;
	int ends[2];
	pid_t pid;
	char ready = 0;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(60);
		if (CUDA(cuInit)(0) || CUDA(cuCtxCreate_v2)(&context, 0, (CUdevice)gpu) ||
		    CUDA(cuMemAlloc_v2)(&pointer, bytes))
			_exit(1);
		ready = 1;
		if (write(ends[1], &ready, 1) == 1)
			pause();
		_exit(1);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &ready, 1), 1);
	close(ends[0]);
	return pid;
}

static void kill_user(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static unsigned long long used_bytes(unsigned int gpu)
{
	nvmlMemory_t memory;

	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo)(device_at(gpu), &memory), NVML_SUCCESS);
	return memory.used;
}

static void a_user_is_listed_until_it_dies(void **state)
{
	nvmlProcessInfo_v1_t *first = at_page_end(2 * sizeof(*first));
	nvmlProcessInfo_t *later = at_page_end(2 * sizeof(*later));
	nvmlDevice_t device = device_at(1);
	unsigned long long before = used_bytes(1);
	unsigned int count = 0;
	pid_t one = start_user(1, 64 * MIB), two = start_user(1, 32 * MIB);

	(void)state;
	assert_true(used_bytes(1) >= before + 96 * MIB);
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, NULL),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(count, 2);
	count = 1;
	memset(later, 0x5a, 2 * sizeof(*later));
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, later),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(count, 2);
	assert_int_equal(later[0].pid, 0x5a5a5a5a);
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, later),
			 NVML_SUCCESS);
	assert_true((later[0].pid == (unsigned int)one && later[1].pid == (unsigned int)two) ||
		    (later[0].pid == (unsigned int)two && later[1].pid == (unsigned int)one));
	assert_true(later[0].usedGpuMemory + later[1].usedGpuMemory == used_bytes(1) - before);
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses)(device, &count, first),
			 NVML_SUCCESS);
	assert_int_equal(first[1].pid, later[1].pid);
	assert_int_equal(first[1].usedGpuMemory, later[1].usedGpuMemory);
	count = 2;
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v2)(device_at(0), &count, NULL),
			 NVML_ERROR_INVALID_ARGUMENT);
	kill_user(one);
	kill_user(two);
	count = 2;
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, later),
			 NVML_SUCCESS);
	assert_int_equal(count, 0);
	assert_int_equal(used_bytes(1), before);
}

static void other_lists_are_empty(void **state)
{
	nvmlProcessInfo_t list[2];
	nvmlProcessUtilizationSample_t samples[2];
	nvmlUtilization_t utilization = { 7, 7 };
	unsigned int count = 2;

	(void)state;
	assert_int_equal(NVML(nvmlDeviceGetGraphicsRunningProcesses_v3)(device_at(0), &count, list),
			 NVML_SUCCESS);
	assert_int_equal(count, 0);
	count = 2;
	assert_int_equal(NVML(nvmlDeviceGetProcessUtilization)(device_at(0), samples, &count, 0),
			 NVML_ERROR_NOT_FOUND);
	assert_int_equal(NVML(nvmlDeviceGetUtilizationRates)(device_at(0), &utilization),
			 NVML_SUCCESS);
	assert_int_equal(utilization.gpu, 0);
}

/* What a child sees whose environment names the quirk: 0 if it is as it should be. */
static int see_quirk(const char *quirk, nvmlReturn_t memory_answer, nvmlReturn_t list_answer,
		     nvmlReturn_t rates_answer)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		nvmlUtilization_t rates;
		nvmlMemory_t memory;
		unsigned int count = 0;
		nvmlDevice_t device;

		setenv("BERTH_SIM_NVML_QUIRKS", quirk, 1);
		if (NVML(nvmlInit_v2)() ||
		    NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) != NVML_SUCCESS)
			_exit(1);
		if (NVML(nvmlDeviceGetMemoryInfo)(device, &memory) != memory_answer)
			_exit(2);
		if (NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, NULL) !=
		    list_answer)
			_exit(3);
		if (NVML(nvmlDeviceGetUtilizationRates)(device, &rates) != rates_answer)
			_exit(4);
		_exit(strcmp(quirk, "over-100") == 0 && rates.gpu <= 100 ? 5 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void quirks_show_what_cards_do(void **state)
{
	pid_t user = start_user(0, MIB);

	(void)state;
	assert_int_equal(see_quirk("", 0, NVML_ERROR_INSUFFICIENT_SIZE, 0), 0);
	assert_int_equal(
		see_quirk("no-memory", NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_INSUFFICIENT_SIZE, 0),
		0);
	assert_int_equal(see_quirk("no-processes", 0, NVML_ERROR_NOT_SUPPORTED, 0), 0);
	assert_int_equal(
		see_quirk("empty-processes,no-utilization", 0, 0, NVML_ERROR_NOT_SUPPORTED), 0);
	assert_int_equal(see_quirk("over-100", 0, NVML_ERROR_INSUFFICIENT_SIZE, 0), 0);
	assert_int_not_equal(see_quirk("no-such-thing", 0, 0, 0), 0);
	kill_user(user);
}

/* How a child with that variable sees the one process that is on the GPU: its bytes, 0 if it isn't listed. */
static int see_listed(const char *name, const char *value, uint64_t bytes)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		nvmlProcessInfo_t infos[4];
		unsigned int count = 4;
		nvmlDevice_t device;

		setenv(name, value, 1);
		if (NVML(nvmlInit_v2)() ||
		    NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) != NVML_SUCCESS)
			_exit(1);
		if (NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, infos) !=
		    NVML_SUCCESS)
			_exit(2);
		_exit((count ? infos[0].usedGpuMemory : 0) == bytes ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void lists_are_late_or_silent(void **state)
{
	pid_t user = start_user(0, MIB);
	uint64_t bytes = used_bytes(0);

	(void)state;
	assert_int_equal(see_listed("BERTH_SIM_NVML_QUIRKS", "", bytes), 0);
	assert_int_equal(see_listed("BERTH_SIM_NVML_QUIRKS", "stale-memory", bytes), 0);
	assert_int_equal(see_listed("BERTH_SIM_NVML_QUIRKS", "na-process-memory", UINT64_MAX), 0);
	assert_int_equal(see_listed("BERTH_SIM_NVML_LIST_LAG_MS", "60000", 0), 0);
	assert_int_equal(see_listed("BERTH_SIM_NVML_LIST_LAG_MS", "0", bytes), 0);
	assert_int_not_equal(see_listed("BERTH_SIM_NVML_LIST_LAG_MS", "soon", bytes), 0);
	kill_user(user);
}

static void both_libraries_agree(void **state)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE], text[64];
	int cuda_version, nvml_version, at = 0;
	CUcontext context;
	CUuuid raw;
	size_t free_bytes, total;

	(void)state;
	assert_int_equal(CUDA(cuInit)(0), CUDA_SUCCESS);
	assert_int_equal(CUDA(cuDriverGetVersion)(&cuda_version), CUDA_SUCCESS);
	assert_int_equal(NVML(nvmlSystemGetCudaDriverVersion_v2)(&nvml_version), NVML_SUCCESS);
	assert_int_equal(cuda_version, nvml_version);
	assert_int_equal(CUDA(cuCtxCreate_v2)(&context, 0, 0), CUDA_SUCCESS);
	assert_int_equal(CUDA(cuDeviceGetUuid_v2)(&raw, 0), CUDA_SUCCESS);
	at += snprintf(text + at, sizeof(text) - (size_t)at, "GPU-");
	for (unsigned int i = 0; i < 16; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%s%02x",
			       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			       (unsigned char)raw.bytes[i]);
	assert_int_equal(NVML(nvmlDeviceGetUUID)(device_at(0), uuid, sizeof(uuid)), NVML_SUCCESS);
	assert_string_equal(uuid, text);
	assert_int_equal(CUDA(cuMemGetInfo_v2)(&free_bytes, &total), CUDA_SUCCESS);
	assert_int_equal(total - free_bytes, used_bytes(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_works_before_init),
		cmocka_unit_test(init_counts),
		cmocka_unit_test(a_device_is_found_by_all_its_names),
		cmocka_unit_test(what_is_no_device_is_refused),
		cmocka_unit_test(memory_in_both_layouts),
		cmocka_unit_test(a_user_is_listed_until_it_dies),
		cmocka_unit_test(other_lists_are_empty),
		cmocka_unit_test(quirks_show_what_cards_do),
		cmocka_unit_test(lists_are_late_or_silent),
		cmocka_unit_test(both_libraries_agree),
	};

	return cmocka_run_group_tests(tests, open_libraries, NULL);
}
