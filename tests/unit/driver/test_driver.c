/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver as a process comes to have it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "child.h"
#include "driver/driver.h"
#include "driver/nvml.h"

#define FAKE      FAKE_DIR "/libcuda.so.1"
#define OTHER     FAKE_DIR "/sysv/libcuda.so.1"
#define FAKE_NVML FAKE_DIR "/libnvidia-ml.so.1"

static void absent(void)
{
	const struct berth_driver *driver;

	CHECK(berth_driver_loaded() == NULL);
	CHECK(berth_nvml_loaded() == NULL);
	CHECK(!berth_driver_contains((void *)absent));
	errno = 77;
	driver = berth_driver(); /* LD_LIBRARY_PATH names none here */
	CHECK(errno == 77);
	CHECK(driver != NULL && driver->cuInit == NULL && driver->cuMemCreate == NULL);
	CHECK(driver->object.start == driver->object.end);
	/* Not remembered: it may come later. */
	CHECK(berth_driver_open(FAKE, NULL) == 0);
	CHECK(berth_driver()->cuInit != NULL);
}

static void test_absent(void **state)
{
	void *installed = dlopen("libcuda.so.1", RTLD_LAZY);

	(void)state;
	if (installed != NULL) {
		dlclose(installed);
		print_message("a driver is installed here: skipped\n");
		skip();
	}
	in_child(absent);
}

static void pointers(void)
{
	void *handle = dlopen(FAKE, RTLD_NOW);
	const struct berth_driver *driver = berth_driver_loaded();

	CHECK(handle != NULL && driver != NULL);
	CHECK(driver == berth_driver());
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) \
	CHECK((void *)driver->symbol == dlsym(handle, #symbol));
#include "driver/symbols.def"
	CHECK(berth_driver_contains((void *)driver->cuInit));
	CHECK(!berth_driver_contains((void *)pointers));
	CHECK(!berth_driver_contains(NULL));
	CHECK(driver->cuInit(0) == 0);
}

static void test_pointers(void **state)
{
	(void)state;
	in_child(pointers);
}

static void old_driver(void)
{
	CHECK(berth_driver_open(OLD_DRIVER, NULL) == 0);
	CHECK(berth_driver()->cuInit != NULL && berth_driver()->cuInit(0) == 0);
	CHECK(berth_driver()->cuMemAlloc_v2 == NULL);
	CHECK(berth_driver()->cuGetProcAddress == NULL);
}

static void test_old_driver(void **state)
{
	(void)state;
	in_child(old_driver);
}

/* The program closes it: the pointers stay good. */
static void pinned(void)
{
	void *handle = dlopen(FAKE, RTLD_NOW);
	const struct berth_driver *driver = berth_driver_loaded();

	CHECK(dlclose(handle) == 0);
	CHECK(driver->cuInit(0) == 0);
	handle = dlopen(FAKE, RTLD_NOW);
	CHECK(dlsym(handle, "cuInit") == (void *)driver->cuInit);
	CHECK(berth_driver() == driver);
}

static void test_pinned(void **state)
{
	(void)state;
	in_child(pinned);
}

static void opening(void)
{
	struct berth_reason reason = { .text = "" };

	CHECK(berth_driver_open("/nowhere/libcuda.so.1", &reason) == -ENOENT);
	CHECK(strstr(reason.text, "/nowhere/libcuda.so.1") != NULL);
	reason.text[0] = '\0';
	CHECK(berth_driver_open(FAKE_NVML, &reason) == -ENOENT);
	CHECK(strstr(reason.text, "libcuda.so.1") != NULL);
	CHECK(berth_driver_loaded() == NULL);

	CHECK(berth_driver_open(FAKE, &reason) == 0);
	CHECK(berth_driver_open(FAKE, &reason) == 0);
	reason.text[0] = '\0';
	CHECK(berth_driver_open(OTHER, &reason) == -EALREADY);
	CHECK(strstr(reason.text, OTHER) != NULL);
	CHECK(berth_driver()->cuInit != NULL);
}

static void test_opening(void **state)
{
	(void)state;
	in_child(opening);
}

static void *first_use(void *arg)
{
	pthread_barrier_wait(arg);
	return (void *)(uintptr_t)berth_driver_loaded();
}

static void threads(void)
{
	enum { THREAD_COUNT = 16 };
	pthread_t ids[THREAD_COUNT];
	pthread_barrier_t barrier;

	CHECK(dlopen(FAKE, RTLD_NOW) != NULL);
	pthread_barrier_init(&barrier, NULL, THREAD_COUNT);
	for (int i = 0; i < THREAD_COUNT; i++)
		CHECK(pthread_create(&ids[i], NULL, first_use, &barrier) == 0);
	for (int i = 0; i < THREAD_COUNT; i++) {
		void *seen = NULL;

		pthread_join(ids[i], &seen);
		CHECK(seen != NULL && seen == berth_driver());
	}
}

static void test_threads(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++)
		in_child(threads);
}

static void nvml(void)
{
	void *handle = dlopen(FAKE_NVML, RTLD_NOW);
	const struct berth_nvml *library = berth_nvml_loaded();

	CHECK(handle != NULL && library != NULL && library == berth_nvml());
#define NVML_SYMBOL(symbol, kind) CHECK((void *)library->symbol == dlsym(handle, #symbol));
#include "driver/symbols.def"
	CHECK(berth_nvml_contains((void *)library->nvmlInit_v2));
	CHECK(!berth_driver_contains((void *)library->nvmlInit_v2));
	CHECK(berth_nvml_open(FAKE_NVML, NULL) == 0);
}

static void test_nvml(void **state)
{
	(void)state;
	in_child(nvml);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_absent),     cmocka_unit_test(test_pointers),
		cmocka_unit_test(test_old_driver), cmocka_unit_test(test_pinned),
		cmocka_unit_test(test_opening),    cmocka_unit_test(test_threads),
		cmocka_unit_test(test_nvml),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
