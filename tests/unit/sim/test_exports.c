/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated libcuda's exports as a whole: all there, each a function of its own, each strict
 * before cuInit, none that falls over when everything it is given is zero.
 *
 * BERTH_TEST_LIBCUDA is the library, BERTH_TEST_SYMBOLS the table that a toolkit gave.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/cuda_types.h"

struct row {
	const char *symbol;
	const char *base;
	int since;
	const char *form;
	bool implemented;
	bool no_init;
};

#define KIND_IMPL    true
#define KIND_STUB    false
#define FLAG_NONE    false
#define FLAG_NO_INIT true

static const struct row rows_[] = {
#define EXPORT(symbol, base, since, form, kind, flags) \
	{ #symbol, #base, since, #form, KIND_##kind, FLAG_##flags },
#include "sim/cuda/exports.def"
#undef EXPORT
};

#define ROWS_COUNT (sizeof(rows_) / sizeof(rows_[0]))

/* Twelve zeros are enough for every function; what it doesn't take it doesn't see. */
typedef CUresult (*any_function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
				 uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static void *library_;

static int open_library(void **state)
{
	(void)state;
	library_ = dlopen(getenv("BERTH_TEST_LIBCUDA"), RTLD_NOW | RTLD_LOCAL);
	if (!library_)
		fprintf(stderr, "%s\n", dlerror());
	return library_ ? 0 : -1;
}

static any_function find(const char *symbol)
{
	return (any_function)dlsym(library_, symbol);
}

static CUresult call_with_zeros(const char *symbol)
{
	return find(symbol)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static const struct row *find_row(const char *symbol)
{
	for (size_t i = 0; i < ROWS_COUNT; i++) {
		if (strcmp(rows_[i].symbol, symbol) == 0)
			return &rows_[i];
	}
	return NULL;
}

/* exports.def says of each name what a toolkit says of it, and has no other names. */
static void table_is_the_toolkits(void **state)
{
	FILE *file = fopen(getenv("BERTH_TEST_SYMBOLS"), "re");
	char symbol[96], base[96], form[8], line[256];
	size_t count = 0;
	int since;

	(void)state;
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		const struct row *row;

		if (line[0] == '#')
			continue;
		assert_int_equal(sscanf(line, "%95s %95s %d %7s", symbol, base, &since, form), 4);
		row = find_row(symbol);
		if (!row)
			fail_msg("%s has no row in exports.def", symbol);
		assert_string_equal(row->base, base);
		assert_string_equal(row->form, form);
		assert_int_equal(row->since, since);
		count++;
	}
	fclose(file);
	assert_int_equal(count, ROWS_COUNT);
	assert_true(count >= 637);
}

/* Forms that share an address would share their place in the log, too. */
static void each_name_is_a_function_of_its_own(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS_COUNT; i++) {
		any_function address = find(rows_[i].symbol);
		Dl_info info;

		if (!address || !dladdr((void *)address, &info))
			fail_msg("%s is not exported", rows_[i].symbol);
		assert_string_equal(info.dli_sname, rows_[i].symbol);
		assert_ptr_equal(info.dli_saddr, address);
	}
}

static void nothing_works_before_init(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS_COUNT; i++) {
		CUresult result;

		if (rows_[i].no_init)
			continue;
		result = call_with_zeros(rows_[i].symbol);
		if (result != CUDA_ERROR_NOT_INITIALIZED)
			fail_msg("%s answers %d before cuInit", rows_[i].symbol, result);
	}
}

static void stubs_are_not_supported(void **state)
{
	size_t count = 0;

	(void)state;
	assert_int_equal(call_with_zeros("cuInit"), CUDA_SUCCESS);
	for (size_t i = 0; i < ROWS_COUNT; i++) {
		CUresult result;

		if (rows_[i].implemented)
			continue;
		result = call_with_zeros(rows_[i].symbol);
		if (result != CUDA_ERROR_NOT_SUPPORTED)
			fail_msg("%s answers %d", rows_[i].symbol, result);
		count++;
	}
	assert_true(count < ROWS_COUNT);
	printf("%zu implemented, %zu stubs\n", ROWS_COUNT - count, count);
}

static CUresult make_context(void)
{
	typedef CUresult (*create_function)(CUcontext *, unsigned int, CUdevice);
	CUcontext context;

	return ((create_function)dlsym(library_, "cuCtxCreate_v2"))(&context, 0, 0);
}

/* In a child: what it did to itself is nobody's concern, how it ended is. */
static int zeros_status(const struct row *row, bool with_context)
{
	pid_t pid = fork();
	int status = -1;

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(20);
		if (call_with_zeros("cuInit") != CUDA_SUCCESS)
			_exit(2);
		if (with_context && make_context() != CUDA_SUCCESS)
			_exit(3);
		_exit(call_with_zeros(row->symbol) == CUDA_ERROR_NOT_INITIALIZED ? 4 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void zeros_never_crash(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS_COUNT; i++) {
		if (!rows_[i].implemented)
			continue;
		for (int with_context = 0; with_context <= 1; with_context++) {
			int status = zeros_status(&rows_[i], with_context);

			if (status != 0)
				fail_msg("%s(0, ...) %s a context: status %#x", rows_[i].symbol,
					 with_context ? "with" : "without", (unsigned int)status);
		}
	}
}

static void errors_have_their_words(void **state)
{
	typedef CUresult (*text_function)(CUresult, const char **);
	text_function name = (text_function)dlsym(library_, "cuGetErrorName");
	text_function phrase = (text_function)dlsym(library_, "cuGetErrorString");
	const char *text;

	(void)state;
#define CUDA_RESULT(code, value, words)                      \
	assert_int_equal(code, value);                       \
	assert_int_equal(name(code, &text), CUDA_SUCCESS);   \
	assert_string_equal(text, #code);                    \
	assert_int_equal(phrase(code, &text), CUDA_SUCCESS); \
	assert_string_equal(text, words);
#include "driver/cuda_results.def"
#undef CUDA_RESULT
	text = "untouched";
	assert_int_equal(name((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
	assert_int_equal(phrase(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	/* In this order: what holds before cuInit, in children, then after it. */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_the_toolkits),
		cmocka_unit_test(each_name_is_a_function_of_its_own),
		cmocka_unit_test(errors_have_their_words),
		cmocka_unit_test(nothing_works_before_init),
		cmocka_unit_test(zeros_never_crash),
		cmocka_unit_test(stubs_are_not_supported),
	};

	return cmocka_run_group_tests(tests, open_library, NULL);
}
