/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker against the loader's own answers.
 */
#include <dlfcn.h>
#include <errno.h>
#include <gnu/lib-names.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "driver/elf.h"
#include "driver/loader.h"

static const char *const driver_names[] = {
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) #symbol,
#include "driver/symbols.def"
};

static void *open_fake(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (handle == NULL)
		print_error("%s\n", dlerror());
	assert_non_null(handle);
	return handle;
}

static void test_libc_names(void **state)
{
	static const char *const names[] = { "getpid",
					     "printf",
					     "dlopen",
					     "dlsym",
					     "dlvsym",
					     "environ",
					     "pthread_mutex_lock",
					     "qsort",
					     "__errno_location" };
	void *handle = dlopen(LIBC_SO, RTLD_NOW);
	struct berth_elf libc;

	(void)state;
	assert_int_equal(berth_elf_find_soname(LIBC_SO, &libc, NULL), 0);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(names); i++) {
		void *address = NULL;

		assert_int_equal(berth_elf_symbol(&libc, names[i], NULL, &address), 0);
		assert_ptr_equal(address, dlsym(handle, names[i]));
		assert_true(berth_elf_contains(&libc, address));
	}
}

static void test_absent_names(void **state)
{
	static const char *const names[] = { "", "getpi", "getpidd", "no_such_function", "cuInit" };
	void *address = &address;
	struct berth_elf libc;

	(void)state;
	assert_int_equal(berth_elf_find_soname(LIBC_SO, &libc, NULL), 0);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(names); i++)
		assert_int_equal(berth_elf_symbol(&libc, names[i], NULL, &address), -ENOENT);
	/* Symbols of its own dependencies are not its own. */
	assert_int_equal(berth_elf_symbol(&libc, "_dl_allocate_tls", NULL, &address), -ENOENT);
	assert_ptr_equal(address, &address);
}

/* Each name of a driver, through either hash table. */
static void check_driver(const char *path)
{
	void *handle = open_fake(path);
	struct berth_elf elf;

	assert_int_equal(berth_elf_find_address(dlsym(handle, "cuInit"), &elf), 0);
	assert_string_equal(elf.soname, "libcuda.so.1");
	for (size_t i = 0; i < BERTH_ARRAY_LEN(driver_names); i++) {
		void *address = NULL;
		char longer[128];

		assert_int_equal(berth_elf_symbol(&elf, driver_names[i], NULL, &address), 0);
		assert_ptr_equal(address, dlsym(handle, driver_names[i]));
		snprintf(longer, sizeof(longer), "%s_v77", driver_names[i]);
		assert_int_equal(berth_elf_symbol(&elf, longer, NULL, &address), -ENOENT);
	}
}

static void test_gnu_hash(void **state)
{
	(void)state;
	check_driver(FAKE_DIR "/libcuda.so.1");
}

static void test_sysv_hash(void **state)
{
	(void)state;
	check_driver(FAKE_DIR "/sysv/libcuda.so.1");
}

static void test_versions(void **state)
{
	void *handle = open_fake(FAKE_DIR "/versioned/libcuda.so.1");
	void *wanted = dlsym(handle, "cuMemCreate");
	void *address = NULL;
	struct berth_elf elf;

	(void)state;
	assert_int_equal(berth_elf_find_address(wanted, &elf), 0);
	assert_int_equal(berth_elf_symbol(&elf, "cuMemCreate", "FAKE_1.0", &address), 0);
	assert_ptr_equal(address, wanted);
	assert_int_equal(berth_elf_symbol(&elf, "cuMemCreate", "FAKE_1", &address), -ENOENT);
	assert_int_equal(berth_elf_symbol(&elf, "cuMemCreate", "GLIBC_2.34", &address), -ENOENT);
}

/* Without a version, the one that a program would be linked to. */
static void test_default_version(void **state)
{
	void *handle = open_fake(TWO_VERSIONS);
	void *address = NULL;
	struct berth_elf elf;

	(void)state;
	assert_int_equal(berth_elf_find_address(dlsym(handle, "versioned"), &elf), 0);
	assert_int_equal(berth_elf_symbol(&elf, "versioned", NULL, &address), 0);
	assert_ptr_equal(address, dlvsym(handle, "versioned", "NEW_2.0"));
	assert_int_equal(berth_elf_symbol(&elf, "versioned", "NEW_2.0", &address), 0);
	assert_ptr_equal(address, dlvsym(handle, "versioned", "NEW_2.0"));
	assert_int_equal(berth_elf_symbol(&elf, "versioned", "OLD_1.0", &address), 0);
	assert_ptr_equal(address, dlvsym(handle, "versioned", "OLD_1.0"));
}

static int here(void)
{
	return 1;
}

static void test_objects(void **state)
{
	struct berth_elf elf;
	int on_the_stack = 0;
	void *address;

	(void)state;
	assert_int_equal(berth_elf_find_address((void *)here, &elf), 0);
	assert_null(elf.soname);
	assert_true(berth_elf_contains(&elf, driver_names));
	assert_false(berth_elf_contains(&elf, &on_the_stack));
	assert_int_equal(berth_elf_find_address(&on_the_stack, &elf), -ENOENT);
	assert_int_equal(berth_elf_find_address(NULL, &elf), -ENOENT);
	assert_int_equal(berth_elf_find_soname("libnothing.so.1", &elf, NULL), -ENOENT);

	/* libc answers for getppid, whoever stands before it; behind it, nobody does. */
	assert_int_equal(berth_elf_find_definer("getppid", (void *)here, &elf, &address), 0);
	assert_ptr_equal(address, dlsym(RTLD_NEXT, "getppid"));
	assert_int_equal(berth_elf_find_definer("getppid", address, &elf, &address), -ENOENT);
}

static void test_path(void **state)
{
	char path[BERTH_ELF_PATH_MAX];
	struct berth_elf elf;

	(void)state;
	assert_int_equal(berth_elf_find_soname(LIBC_SO, &elf, path), 0);
	assert_ptr_equal(dlopen(path, RTLD_NOW | RTLD_NOLOAD), dlopen(LIBC_SO, RTLD_NOW));
}

static void test_real_functions(void **state)
{
	void *handle = dlopen(LIBC_SO, RTLD_NOW);

	(void)state;
	assert_ptr_equal((void *)berth_loader_dlsym(), dlsym(handle, "dlsym"));
	assert_ptr_equal((void *)berth_loader_dlvsym(), dlsym(handle, "dlvsym"));
	assert_ptr_equal((void *)berth_loader_dlopen(), dlsym(handle, "dlopen"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libc_names),     cmocka_unit_test(test_absent_names),
		cmocka_unit_test(test_gnu_hash),       cmocka_unit_test(test_sysv_hash),
		cmocka_unit_test(test_versions),       cmocka_unit_test(test_default_version),
		cmocka_unit_test(test_objects),        cmocka_unit_test(test_path),
		cmocka_unit_test(test_real_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
