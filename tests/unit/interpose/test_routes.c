/* SPDX-License-Identifier: Apache-2.0
 *
 * Every way for a program to reach the driver, each in a process of its own: once bare (which shows
 * that the route is what it says) and once with the library preloaded.
 */
#include <fcntl.h>
#include <setjmp.h>
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

#include "base/attributes.h"

#define SAME NULL /* preloaded, it says what it says bare */

struct route {
	const char *name;
	const char *bare;
	const char *preloaded;
	const char *environment; /* more variables, or NULL */
};

static const char forms_right[] = "0 wrong, enough";
static const char resolver_codes[] = "1 1 1 -1 1 500 1 1 500 2 1 0 1";
static const char dlerror_right[] = "[cleared] [cleared]";

static const struct route routes[] = {
	{ "soname", "driver", "ours", NULL },
	{ "development-name", "driver", "ours", NULL },
	{ "absolute", "driver", "ours", NULL },
	{ "local", "driver", "ours", NULL },
	{ "deepbind", "driver", "ours", NULL },
	{ "noload", "driver", "ours", NULL },
	{ "program-handle", "driver", "ours", NULL },
	{ "program-handle-unloaded", "null", SAME, NULL },
	{ "default", "driver", "ours", NULL },
	{ "default-unloaded", "null", SAME, NULL },
	/* The one difference that is kept on purpose: see lookup.c. */
	{ "default-local", "null", "ours", NULL },
	{ "default-behind-local-shim", "null error", "ours no error", NULL },
	{ "next", "driver", "ours", NULL },
	{ "next-unloaded", "null", SAME, NULL },
	{ "versioned", "null driver driver", "null ours ours", NULL },
	{ "versioned-search", "null driver driver", "null ours ours", NULL },
	{ "sysv-hash", "driver", "ours", NULL },
	{ "plugin", "libshim.so driver driver", "libshim.so ours ours", NULL },
	{ "plugin", "libshim.so driver driver", "libshim.so ours ours", "FAKE_IS_GLOBAL=1" },
	{ "not-hooked", "driver", SAME, NULL },
	{ "wrapper-library", "libshim.so 1", SAME, NULL },
	{ "shim-before-driver", "libshim.so", SAME, NULL },
	{ "errno", "77", SAME, NULL },
	{ "reload", "not loaded driver", "loaded ours", NULL },
	/* cuserid is one of libc: found by each of the three searches, and by handle. */
	{ "foreign", "3 1 not loaded", SAME, NULL },
	{ "init-from-threads", "0 failed, 1 bodies, lost itself 0 times", SAME, NULL },
	{ "driver-finds-itself", "1 bodies, lost itself 0 times", SAME, "FAKE_IS_GLOBAL=1" },
	{ "nvml-names", "1000 found, 1000 missing", SAME, NULL },
	{ "resolver-first", "driver driver driver", "ours ours driver", NULL },
	{ "resolver-first", "driver driver driver", "ours ours driver", "FAKE_PRIVATE_POINTERS=1" },
	{ "resolver-forms", forms_right, SAME, NULL },
	{ "resolver-forms", forms_right, SAME, "FAKE_PRIVATE_POINTERS=1" },
	{ "resolver-forms", forms_right, SAME, "FAKE_LATER_FORMS=1" },
	{ "resolver-forms", forms_right, SAME, "FAKE_LATER_FORMS=1 FAKE_PRIVATE_POINTERS=1" },
	{ "resolver-errors", resolver_codes, SAME, NULL },
};

/* The sanitizers refuse this one themselves. */
static bool can_run(const struct route *route)
{
	return getenv("SANITIZED") == NULL || strcmp(route->name, "deepbind") != 0;
}

static void set_environment(const char *extra, const char *preload)
{
	/* The sanitizers' runtime wants to be first; here it comes with the program anyway. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
	setenv("FAKE_DIR", FAKE_DIR, 1);
	setenv("LD_LIBRARY_PATH", FAKE_DIR, 1);
	setenv("LC_ALL", "C", 1);
	unsetenv("LD_PRELOAD");
	if (strstr(extra, "FAKE_IS_GLOBAL=1") != NULL)
		setenv("FAKE_IS_GLOBAL", "1", 1);
	if (strstr(extra, "FAKE_LATER_FORMS=1") != NULL)
		setenv("FAKE_LATER_FORMS", "1", 1);
	if (strstr(extra, "FAKE_PRIVATE_POINTERS=1") != NULL)
		setenv("FAKE_PRIVATE_POINTERS", "1", 1);
	if (preload != NULL)
		setenv("LD_PRELOAD", preload, 1);
}

/* Runs the program and gives all that it writes, cut at its last newline; exit status 0 is asserted. */
static void run(char *const *argv, const char *extra, const char *preload, char *output,
		size_t size)
{
	size_t length = 0;
	ssize_t got;
	int pipes[2];
	int status;
	pid_t pid;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		set_environment(extra != NULL ? extra : "", preload);
		dup2(pipes[1], STDOUT_FILENO);
		dup2(pipes[1], STDERR_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(pipes[1]);
	while (length < size - 1 && (got = read(pipes[0], output + length, size - 1 - length)) > 0)
		length += (size_t)got;
	close(pipes[0]);
	while (length > 0 && output[length - 1] == '\n')
		length--;
	output[length] = '\0';
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		print_error("%s %s: status %d: %s\n", argv[0], argv[1], status, output);
	assert_int_equal(status, 0);
}

static void run_route(const struct route *route, const char *preload)
{
	char *const argv[] = { (char *)CLIENT, (char *)route->name, NULL };
	const char *expected =
		preload != NULL && route->preloaded != SAME ? route->preloaded : route->bare;
	char output[4096];

	run(argv, route->environment, preload, output, sizeof(output));
	if (strcmp(output, expected) != 0)
		print_error("%s, %s: \"%s\", not \"%s\"\n", route->name,
			    preload != NULL ? "preloaded" : "bare", output, expected);
	assert_string_equal(output, expected);
}

static void test_bare(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(routes); i++) {
		if (can_run(&routes[i]))
			run_route(&routes[i], NULL);
	}
}

static void test_preloaded(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(routes); i++) {
		if (can_run(&routes[i]))
			run_route(&routes[i], INTERPOSER);
	}
}

/* The words of dlerror, whatever libc words them like. */
static void test_dlerror_is_the_same(void **state)
{
	char *const argv[] = { (char *)CLIENT, (char *)"dlerror", NULL };
	char bare[4096];
	char preloaded[4096];

	(void)state;
	run(argv, NULL, NULL, bare, sizeof(bare));
	run(argv, NULL, INTERPOSER, preloaded, sizeof(preloaded));
	assert_non_null(strstr(bare, "cuNoSuchThing"));
	assert_non_null(strstr(bare, dlerror_right));
	assert_string_equal(preloaded, bare);
	run(argv, "FAKE_IS_GLOBAL=1", INTERPOSER, preloaded, sizeof(preloaded));
	assert_string_equal(preloaded, bare);
}

static void test_linked(void **state)
{
	char *const alone[] = { (char *)LINKED, NULL };
	char *const behind_shim[] = { (char *)LINKED_SHIM, NULL };
	char output[4096];

	(void)state;
	run(alone, NULL, NULL, output, sizeof(output));
	assert_string_equal(output, "0 0 driver driver driver driver - -");
	run(alone, NULL, INTERPOSER, output, sizeof(output));
	assert_string_equal(output, "0 0 ours ours ours ours - -");
	run(behind_shim, NULL, NULL, output, sizeof(output));
	assert_string_equal(output, "0 0 driver libshim.so libshim.so libshim.so driver libc.so.6");
	/* Searches end where they would; direct calls meet the preloaded library first. */
	run(behind_shim, NULL, INTERPOSER, output, sizeof(output));
	assert_string_equal(output, "0 0 ours ours libshim.so libshim.so ours libc.so.6");
}

static void test_python_ctypes(void **state)
{
	static const char program[] =
		"import ctypes, os\n"
		"cuda = ctypes.CDLL('libcuda.so.1')\n"
		"found = ctypes.c_void_p()\n"
		"assert cuda.cuGetProcAddress(b'cuGetProcAddress', ctypes.byref(found), 11030, 0) "
		"== 0\n"
		"ours = [m.split()[0].split('-') for m in open('/proc/self/maps') if "
		"'libberth-cuda' in m]\n"
		"print(any(int(a, 16) <= found.value < int(b, 16) for a, b in ours))\n";
	char *const argv[] = { (char *)"python3", (char *)"-c", (char *)program, NULL };
	char output[4096];

	(void)state;
	if (system("python3 -c 'import ctypes' >/dev/null 2>&1") != 0) {
		print_message("no python3 with ctypes: skipped\n");
		skip();
	}
	if (getenv("SANITIZED") != NULL) {
		print_message("python3 is not built with the sanitizer: skipped\n");
		skip();
	}
	run(argv, NULL, NULL, output, sizeof(output));
	assert_string_equal(output, "False");
	run(argv, NULL, INTERPOSER, output, sizeof(output));
	assert_string_equal(output, "True");
}

/* A sanitizer's runtime finds what it stands in for through dlsym, before it can stand in. */
static void test_sanitized_program(void **state)
{
	static const char *const names[] = { "soname", "foreign", "resolver-forms" };
	static const char *const expected[] = { "ours", "3 1 not loaded", forms_right };
	char output[4096];

	(void)state;
	if (ASAN_CLIENT[0] == '\0') {
		print_message("no second program with AddressSanitizer: skipped\n");
		skip();
	}
	for (size_t i = 0; i < BERTH_ARRAY_LEN(names); i++) {
		char *const argv[] = { (char *)ASAN_CLIENT, (char *)names[i], NULL };

		run(argv, NULL, ASAN_RUNTIME " " INTERPOSER, output, sizeof(output));
		assert_string_equal(output, expected[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bare),
		cmocka_unit_test(test_preloaded),
		cmocka_unit_test(test_dlerror_is_the_same),
		cmocka_unit_test(test_linked),
		cmocka_unit_test(test_python_ctypes),
		cmocka_unit_test(test_sanitized_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
