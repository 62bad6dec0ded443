/* SPDX-License-Identifier: Apache-2.0
 *
 * The call log, as berth-sim-log prints it: every call, each form by its own name, in the order of
 * entry, also of those that never came back.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "core_fixture.h"

static char path_[] = "/tmp/berth-sim-log-XXXXXX";

/* What the reader prints about it, blanks made one; the caller frees. */
static char *read_log(const char *columns)
{
	char command[1024];
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	char line[512];
	FILE *in;

	snprintf(command, sizeof(command), "'%s' '%s' | awk '{print %s}'",
		 getenv("BERTH_TEST_LOG_READER"), path_, columns);
	in = popen(command, "r");
	assert_non_null(in);
	while (fgets(line, sizeof(line), in))
		fputs(line, out);
	assert_int_equal(pclose(in), 0);
	fclose(out);
	return text;
}

static void calls(int socket)
{
	CUdeviceptr pointer;
	CUcontext context;
	CUstream stream;

	(void)socket;
	cuMemAlloc_v2(&pointer, 512);
	cuInit(0);
	cuCtxCreate_v2(&context, 0, 0);
	cuStreamCreate(&stream, 0);
	cuMemAlloc_v2(&pointer, 512);
	cuMemsetD8Async_ptsz(pointer, 1, 512, stream);
	cuStreamSynchronize_ptsz(stream);
	cuStreamSynchronize(NULL);
	cuMemAlloc_v2(NULL, 512);
	cuMemFree_v2(pointer);
	cuGetExportTable(NULL, NULL);
}

static void dies_within(int socket)
{
	setenv("BERTH_SIM_FAULTS", "cuCtxSynchronize:block", 1);
	core_begin(0);
	core_tell(socket);
	cuCtxSynchronize();
}

static int fresh(void **state)
{
	(void)state;
	unlink(path_);
	core_node_new("1x1G");
	setenv("BERTH_SIM_LOG", path_, 1);
	return 0;
}

static void tells_the_exact_sequence(void **state)
{
	struct core_child child = core_start(calls);
	char *text;

	(void)state;
	assert_true(core_succeeded(&child));
	text = read_log("$4, $5");
	assert_string_equal(text, "cuMemAlloc_v2 3\n"
				  "cuInit 0\n"
				  "cuCtxCreate_v2 0\n"
				  "cuStreamCreate 0\n"
				  "cuMemAlloc_v2 0\n"
				  "cuMemsetD8Async_ptsz 0\n"
				  "cuStreamSynchronize_ptsz 0\n"
				  "cuStreamSynchronize 0\n"
				  "cuMemAlloc_v2 1\n"
				  "cuMemFree_v2 0\n"
				  "cuGetExportTable 1\n");
	free(text);
}

static void tells_who_never_came_back(void **state)
{
	struct core_child child = core_start(dies_within);
	char expected[128];
	char *text;

	(void)state;
	core_wait(child.socket);
	usleep(50000);
	core_kill(&child);
	snprintf(expected, sizeof(expected), "%d %d cuCtxSynchronize - -\n", (int)child.pid,
		 (int)child.pid);
	text = read_log("$2, $3, $4, $5, $6");
	assert_non_null(strstr(text, expected));
	assert_true(strlen(strstr(text, expected)) == strlen(expected));
	free(text);
}

static void many_processes_write_one_log(void **state)
{
	struct core_child children[4];
	size_t lines = 0;
	char *text;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		children[i] = core_start(calls);
	for (size_t i = 0; i < 4; i++)
		assert_true(core_succeeded(&children[i]));
	text = read_log("$4");
	for (const char *at = text; *at; at++)
		lines += *at == '\n';
	assert_int_equal(lines, 4 * 11);
	free(text);
}

static void another_file_is_not_touched(void **state)
{
	FILE *file = fopen(path_, "w");
	struct core_child child;
	char line[64] = "";

	(void)state;
	assert_non_null(file);
	fputs("mine\n", file);
	fclose(file);
	child = core_start(calls); /* says on stderr why there is no log */
	assert_true(core_succeeded(&child));
	file = fopen(path_, "r");
	assert_non_null(fgets(line, sizeof(line), file));
	assert_string_equal(line, "mine\n");
	assert_null(fgets(line, sizeof(line), file));
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(tells_the_exact_sequence, fresh),
		cmocka_unit_test_setup(tells_who_never_came_back, fresh),
		cmocka_unit_test_setup(many_processes_write_one_log, fresh),
		cmocka_unit_test_setup(another_file_is_not_touched, fresh),
	};
	int fd = mkstemp(path_);
	int failed;

	if (fd < 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path_);
	return failed;
}
