/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program is told of the memory, by CUDA and by NVML.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "scene.h"

static struct {
	__typeof__(nvmlInit_v2) *init;
	__typeof__(nvmlShutdown) *shutdown;
	__typeof__(nvmlDeviceGetHandleByIndex_v2) *by_index;
	__typeof__(nvmlDeviceGetMemoryInfo) *memory;
	__typeof__(nvmlDeviceGetMemoryInfo_v2) *memory_v2;
} nvml;

static int load_nvml(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);

	CHILD_CHECK(library);
	nvml.init = (__typeof__(nvml.init))dlsym(library, "nvmlInit_v2");
	nvml.shutdown = (__typeof__(nvml.shutdown))dlsym(library, "nvmlShutdown");
	nvml.by_index = (__typeof__(nvml.by_index))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	nvml.memory = (__typeof__(nvml.memory))dlsym(library, "nvmlDeviceGetMemoryInfo");
	nvml.memory_v2 = (__typeof__(nvml.memory_v2))dlsym(library, "nvmlDeviceGetMemoryInfo_v2");
	CHILD_CHECK(nvml.init && nvml.by_index && nvml.memory && nvml.memory_v2);
	return 0;
}

/* One end of a page that can't be written past. */
static void *guarded(size_t bytes)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + 4096, 4096, PROT_NONE))
		abort();
	return pages + 4096 - bytes;
}

static int above_body(void)
{
	struct berth_driver const *bare = berth_driver();
	nvmlMemory_t memory = { 0 };
	nvmlDevice_t device;
	size_t bare_free;
	size_t bare_total;
	size_t free_bytes;
	size_t total_bytes;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(bare->cuMemGetInfo_v2(&bare_free, &bare_total) == CUDA_SUCCESS);
	CHILD_CHECK(bare_total == 14917 * MIB);
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS);
	CHILD_CHECK(total_bytes == 14917 * MIB && free_bytes <= bare_free);
	CHILD_CHECK(cuda.cuDeviceTotalMem_v2(&total_bytes, 0) == CUDA_SUCCESS);
	CHILD_CHECK(total_bytes == 14917 * MIB);
	CHILD_CHECK(!load_nvml() && nvml.init() == NVML_SUCCESS);
	CHILD_CHECK(nvml.by_index(0, &device) == NVML_SUCCESS);
	CHILD_CHECK(nvml.memory(device, &memory) == NVML_SUCCESS);
	CHILD_CHECK(memory.total == 14917 * MIB && memory.free <= bare_free);
	return 0;
}

/* B3 */
static void a_limit_above_the_card_shows_the_card(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .gpus = "1x14917M", .limit = "15360M", .body = above_body });
}

static int agree_body(void)
{
	nvmlMemory_v2_t second = { .version = nvmlMemory_v2 };
	nvmlMemory_t first = { 0 };
	nvmlDevice_t device;
	CUdeviceptr block;
	size_t free_bytes;
	size_t total_bytes;
	size_t device_bytes;

	/* Before cuInit, by a program that may never call it. */
	CHILD_CHECK(!load_nvml() && nvml.init() == NVML_SUCCESS);
	CHILD_CHECK(nvml.by_index(0, &device) == NVML_SUCCESS);
	CHILD_CHECK(nvml.memory(device, &first) == NVML_SUCCESS);
	CHILD_CHECK(first.total == GIB && first.free == GIB && first.used == 0);
	CHILD_CHECK(access(scene_region(), F_OK)); /* and no region for looking */
	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 300 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuDeviceTotalMem_v2(&device_bytes, 0) == CUDA_SUCCESS);
	CHILD_CHECK(nvml.memory(device, &first) == NVML_SUCCESS);
	CHILD_CHECK(nvml.memory_v2(device, &second) == NVML_SUCCESS);
	CHILD_CHECK(total_bytes == GIB && device_bytes == GIB);
	CHILD_CHECK(first.total == GIB && second.total == GIB);
	CHILD_CHECK(free_bytes == 724 * MIB && first.free == 724 * MIB && second.free == 724 * MIB);
	CHILD_CHECK(first.used == 300 * MIB && second.used + second.reserved == 300 * MIB);
	return 0;
}

static void all_paths_agree_to_the_byte_before_and_after_cuinit(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = agree_body });
}

static int unlimited_body(void)
{
	struct berth_driver const *bare = berth_driver();
	struct {
		unsigned int bytes;
		unsigned int guard;
	} narrow = { 0, 0xA5A5A5A5 };
	unsigned int bare_narrow = 0;
	size_t bare_bytes = 0;
	size_t bytes = 7;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(bare->cuDeviceTotalMem_v2(&bare_bytes, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuDeviceTotalMem_v2(&bytes, 0) == CUDA_SUCCESS && bytes == bare_bytes);
	CHILD_CHECK(bytes == 8 * GIB);
	CHILD_CHECK(bare->cuDeviceTotalMem(&bare_narrow, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuDeviceTotalMem(&narrow.bytes, 0) == CUDA_SUCCESS);
	CHILD_CHECK(narrow.bytes == bare_narrow && narrow.guard == 0xA5A5A5A5);
	bytes = 7;
	CHILD_CHECK(cuda.cuDeviceTotalMem_v2(&bytes, 99) == CUDA_ERROR_INVALID_DEVICE &&
		    bytes == 7);
	CHILD_CHECK(cuda.cuDeviceTotalMem_v2(NULL, 0) == bare->cuDeviceTotalMem_v2(NULL, 0));
	CHILD_CHECK(cuda.cuDeviceTotalMem(NULL, 0) == bare->cuDeviceTotalMem(NULL, 0));
	return 0;
}

/* B5 */
static void without_a_limit_the_drivers_own_figures_are_shown(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "0", .body = unlimited_body });
	scene_run(&(struct scene){ .body = unlimited_body });
}

static int legacy_body(void)
{
	struct {
		unsigned int free;
		unsigned int guard;
		unsigned int total;
		unsigned int guard2;
	} out = { 0, 0xA5A5A5A5, 0, 0xA5A5A5A5 };
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 300 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemGetInfo(&out.free, &out.total) == CUDA_SUCCESS);
	CHILD_CHECK(out.total == GIB && out.free == 724 * MIB);
	CHILD_CHECK(out.guard == 0xA5A5A5A5 && out.guard2 == 0xA5A5A5A5);
	CHILD_CHECK(cuda.cuDeviceTotalMem(&out.total, 0) == CUDA_SUCCESS && out.total == GIB);
	CHILD_CHECK(out.guard2 == 0xA5A5A5A5);
	return 0;
}

/* B5 */
static void the_first_apis_queries_store_four_bytes(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = legacy_body });
}

static int small_body(void)
{
	CUdeviceptr block;
	size_t free_bytes = 7;
	size_t total_bytes = 7;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(scene_booked(0) == 300 * MIB);
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS);
	CHILD_CHECK(free_bytes == 0 && total_bytes == 64 * MIB);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 1) == CUDA_ERROR_OUT_OF_MEMORY);
	return 0;
}

/* B8 */
static void a_limit_below_the_contexts_own_size_starts_and_shows_nothing_free(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "64M", .context_bytes = "300M", .body = small_body });
}

static int nulls_body(void)
{
	struct berth_driver const *bare = berth_driver();
	size_t bytes = 7;
	size_t bare_bytes = 7;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemGetInfo_v2(NULL, NULL) == bare->cuMemGetInfo_v2(NULL, NULL));
	CHILD_CHECK(cuda.cuMemGetInfo_v2(NULL, &bytes) == bare->cuMemGetInfo_v2(NULL, &bare_bytes));
	CHILD_CHECK(bytes == (bare_bytes == 7 ? 7 : GIB));
	bytes = bare_bytes = 7;
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&bytes, NULL) == bare->cuMemGetInfo_v2(&bare_bytes, NULL));
	CHILD_CHECK(bytes == (bare_bytes == 7 ? 7 : GIB));
	CHILD_CHECK(cuda.cuMemGetInfo(NULL, NULL) == bare->cuMemGetInfo(NULL, NULL));
	return 0;
}

static int failing_body(void)
{
	size_t free_bytes = 7;
	size_t total_bytes = 9;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_ERROR_LAUNCH_FAILED);
	CHILD_CHECK(free_bytes == 7 && total_bytes == 9);
	return 0;
}

/* C1 */
static void null_outputs_and_errors_are_answered_as_the_driver_does(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = nulls_body });
	scene_run(&(struct scene){
		.limit = "1G", .faults = "cuMemGetInfo_v2:fail=719", .body = failing_body });
}

static int uninitialised_body(void)
{
	struct berth_driver const *bare = berth_driver();
	CUdeviceptr block = 7;
	size_t free_bytes = 7;
	size_t total_bytes = 7;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_ERROR_NOT_INITIALIZED);
	CHILD_CHECK(cuda.cuDeviceTotalMem_v2(&total_bytes, 0) == CUDA_ERROR_NOT_INITIALIZED);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 4 * GIB) == CUDA_ERROR_NOT_INITIALIZED);
	CHILD_CHECK(cuda.cuMemAllocAsync(&block, 4 * GIB, NULL) == CUDA_ERROR_NOT_INITIALIZED);
	CHILD_CHECK(cuda.cuMemFree_v2(0x1000) == CUDA_ERROR_NOT_INITIALIZED);
	CHILD_CHECK(block == 7 && free_bytes == 7 && total_bytes == 7);
	CHILD_CHECK(access(scene_region(), F_OK));
	CHILD_CHECK(cuda.cuInit(1) == bare->cuInit(1));
	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuDeviceTotalMem_v2(&total_bytes, 99) == CUDA_ERROR_INVALID_DEVICE);
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_ERROR_INVALID_CONTEXT);
	return 0;
}

static int nvml_uninitialised_body(void)
{
	nvmlMemory_t memory = { .total = 7 };

	CHILD_CHECK(!load_nvml());
	CHILD_CHECK(nvml.memory((nvmlDevice_t)(uintptr_t)16, &memory) == NVML_ERROR_UNINITIALIZED);
	CHILD_CHECK(memory.total == 7);
	/* Our own looks at NVML don't leave it initialised for the program. */
	CHILD_CHECK(!scene_start());
	CHILD_CHECK(nvml.memory((nvmlDevice_t)(uintptr_t)16, &memory) == NVML_ERROR_UNINITIALIZED);
	return 0;
}

/* C19 */
static void before_initialisation_the_answers_are_the_drivers(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = uninitialised_body });
	scene_run(&(struct scene){ .limit = "1G", .body = nvml_uninitialised_body });
}

static int structs_body(void)
{
	nvmlMemory_t *first = guarded(sizeof(*first));
	nvmlMemory_v2_t *second = guarded(sizeof(*second));
	nvmlDevice_t device;
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 300 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(!load_nvml() && nvml.init() == NVML_SUCCESS);
	CHILD_CHECK(nvml.by_index(0, &device) == NVML_SUCCESS);
	CHILD_CHECK(sizeof(*first) == 24 && sizeof(*second) == 40);
	CHILD_CHECK(nvml.memory(device, first) == NVML_SUCCESS);
	CHILD_CHECK(first->used + first->free <= first->total);
	second->version = nvmlMemory_v2;
	CHILD_CHECK(nvml.memory_v2(device, second) == NVML_SUCCESS);
	CHILD_CHECK(second->version == nvmlMemory_v2);
	CHILD_CHECK(second->used + second->free + second->reserved <= second->total);
	memset(second, 0xAA, sizeof(*second));
	second->version = 0;
	CHILD_CHECK(nvml.memory_v2(device, second) != NVML_SUCCESS);
	second->version = nvmlMemory_v2 + 1;
	CHILD_CHECK(nvml.memory_v2(device, second) != NVML_SUCCESS);
	CHILD_CHECK(second->total == 0xAAAAAAAAAAAAAAAAULL);
	CHILD_CHECK(nvml.memory(device, NULL) == NVML_ERROR_INVALID_ARGUMENT);
	CHILD_CHECK(nvml.memory_v2(device, NULL) == NVML_ERROR_INVALID_ARGUMENT);
	return 0;
}

/* N3 */
static void nvmls_two_structs_keep_to_their_sizes_and_versions(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = structs_body });
}

static int over(void)
{
	nvmlMemory_v2_t second = { .version = nvmlMemory_v2 };
	nvmlMemory_t first = { 0 };
	nvmlDevice_t device;
	size_t free_bytes = 7;
	size_t total_bytes = 7;

	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT", "1000M", 1));
	CHILD_CHECK(!scene_start());
	CHILD_CHECK(scene_booked(0) == 1200 * MIB);
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS);
	CHILD_CHECK(free_bytes == 0 && total_bytes == 1000 * MIB);
	CHILD_CHECK(!load_nvml() && nvml.init() == NVML_SUCCESS);
	CHILD_CHECK(nvml.by_index(0, &device) == NVML_SUCCESS);
	CHILD_CHECK(nvml.memory(device, &first) == NVML_SUCCESS);
	CHILD_CHECK(nvml.memory_v2(device, &second) == NVML_SUCCESS);
	CHILD_CHECK(first.free == 0 && second.free == 0);
	CHILD_CHECK(first.total == 1000 * MIB && second.total == 1000 * MIB);
	CHILD_CHECK(first.used == 1000 * MIB && second.used + second.reserved == first.used);
	return 0;
}

/* Another process of the share has 1200 MiB; then one joins that says 1000. */
static int over_body(void)
{
	int told[2];
	int end[2];
	int status = 0;
	char byte = 0;
	pid_t pid;

	CHILD_CHECK(!pipe(told) && !pipe(end));
	pid = fork();
	if (!pid) {
		CUdeviceptr block;

		close(end[1]);
		if (scene_start() || cuda.cuMemAlloc_v2(&block, 1200 * MIB) != CUDA_SUCCESS ||
		    write(told[1], "x", 1) != 1)
			_exit(1);
		_exit(read(end[0], &byte, 1) != 0);
	}
	close(told[1]);
	CHILD_CHECK(read(told[0], &byte, 1) == 1);
	CHILD_CHECK(!over());
	close(end[1]);
	CHILD_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

/* N6 */
static void charges_above_a_lowered_limit_show_nothing_free(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1200M", .body = over_body });
}

static int watcher_body(void)
{
	nvmlMemory_t memory = { .total = 7 };
	nvmlDevice_t device;

	CHILD_CHECK(!load_nvml() && nvml.init() == NVML_SUCCESS);
	CHILD_CHECK(nvml.by_index(0, &device) == NVML_SUCCESS);
	CHILD_CHECK(nvml.memory(device, &memory) == NVML_ERROR_NO_PERMISSION);
	CHILD_CHECK(memory.total == 7);
	return 0;
}

static void a_watcher_with_an_unreadable_limit_is_not_shown_an_unlimited_card(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "plenty", .body = watcher_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_above_the_card_shows_the_card),
		cmocka_unit_test(all_paths_agree_to_the_byte_before_and_after_cuinit),
		cmocka_unit_test(without_a_limit_the_drivers_own_figures_are_shown),
		cmocka_unit_test(the_first_apis_queries_store_four_bytes),
		cmocka_unit_test(a_limit_below_the_contexts_own_size_starts_and_shows_nothing_free),
		cmocka_unit_test(null_outputs_and_errors_are_answered_as_the_driver_does),
		cmocka_unit_test(before_initialisation_the_answers_are_the_drivers),
		cmocka_unit_test(nvmls_two_structs_keep_to_their_sizes_and_versions),
		cmocka_unit_test(charges_above_a_lowered_limit_show_nothing_free),
		cmocka_unit_test(a_watcher_with_an_unreadable_limit_is_not_shown_an_unlimited_card),
	};

	return cmocka_run_group_tests_name("hooks: what is told", tests, NULL, NULL);
}
