/* SPDX-License-Identifier: Apache-2.0
 *
 * Injected faults: the grammar, and what each kind does to a real call.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "core_fixture.h"
#include "sim/node/fault.h"
#include "sim/node/fault_plan.h"

static bool knows_cu(const char *pattern)
{
	return strncmp(pattern, "cu", 2) == 0 || *pattern == '*';
}

static void good_plans_are_read(void **state)
{
	struct sim_fault_plan *plan;
	const char *bad;

	(void)state;
	assert_int_equal(sim_fault_parse("cuInit:sleep=5ms; # all\n cuMem*:fail=2:nth=3 \n\n"
					 "cuA:block;cuB:kill=before;cuC:kill=after:from=4:count=2",
					 knows_cu, &plan, &bad),
			 0);
	assert_int_equal(plan->rules_count, 5);
	assert_string_equal(plan->rules[0].pattern, "cuInit");
	assert_int_equal(plan->rules[0].sleep_ns, 5000000);
	assert_true(plan->rules[1].fails);
	assert_int_equal(plan->rules[1].code, 2);
	assert_int_equal(plan->rules[1].from, 3);
	assert_int_equal(plan->rules[1].count, 1);
	assert_true(plan->rules[2].blocks);
	assert_true(plan->rules[3].kills_before);
	assert_true(plan->rules[4].kills_after);
	assert_int_equal(plan->rules[4].from, 4);
	assert_int_equal(plan->rules[4].count, 2);
	sim_fault_free(plan);
	assert_int_equal(sim_fault_parse("", knows_cu, &plan, &bad), 0);
	assert_int_equal(plan->rules_count, 0);
	sim_fault_free(plan);
}

static void bad_plans_are_refused_by_rule(void **state)
{
	static const char *const texts[] = {
		"cuInit",
		"cuInit:",
		"cuInit:fail",
		"cuInit:fail=",
		"cuInit:fail=2x",
		"cuInit:fail=-1",
		"cuInit:fail=0",
		"cuInit:sleep=5",
		"cuInit:sleep=5h",
		"cuInit:block=1",
		"cuInit:kill=now",
		"cuInit:nth=0:fail=2",
		"cuInit:nth=2",
		"other:fail=2",
		":fail=2",
		"cuInit:fail=2:what=1",
		"cuInit:sleep=-5ms",
		"cuInit:sleep=99999999999999999999s",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct sim_fault_plan *plan = NULL;
		const char *bad = NULL;
		char text[256];

		snprintf(text, sizeof(text), "cuGood:fail=1;%s", texts[i]);
		assert_int_not_equal(sim_fault_parse(text, knows_cu, &plan, &bad), 0);
		assert_ptr_equal(bad, text + strlen("cuGood:fail=1;"));
	}
}

static void fails_the_nth_call(int socket)
{
	CUdeviceptr pointer = 0xaaaa;

	(void)socket;
	setenv("BERTH_SIM_FAULTS", "cuMemAlloc_v2:fail=2:nth=3;cuMemFree_v2:fail=1:from=2:count=2",
	       1);
	core_begin(0);
	CHECK_OK(cuMemAlloc_v2(&pointer, 512));
	CHECK_OK(cuMemAlloc_v2(&pointer, 512));
	pointer = 0xaaaa;
	CHECK_CODE(cuMemAlloc_v2(&pointer, 512), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(pointer == 0xaaaa);
	CHECK_OK(cuMemAlloc_v2(&pointer, 512));
	CHECK_OK(cuMemFree_v2(pointer));
	CHECK_OK(cuMemAlloc_v2(&pointer, 512));
	CHECK_CODE(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemFree_v2(pointer));
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void sleeps(int socket)
{
	double start;

	(void)socket;
	setenv("BERTH_SIM_FAULTS", "cuInit:sleep=50ms;cuDeviceGetCount:linger=50ms", 1);
	start = seconds();
	CHECK_OK(cuInit(0));
	CHECK(seconds() - start >= 0.05);
	start = seconds();
	CHECK_OK(cuDeviceGetCount(&(int){ 0 }));
	CHECK(seconds() - start >= 0.05);
}

static void bad_plan_fails_all(int socket)
{
	int version = 7;

	(void)socket;
	setenv("BERTH_SIM_FAULTS", "cuMemAlloc_v9:fail=2", 1);
	if (!freopen("/dev/null", "w", stderr))
		_exit(1);
	CHECK_CODE(cuInit(0), CUDA_ERROR_UNKNOWN);
	CHECK_CODE(cuDriverGetVersion(&version), CUDA_ERROR_UNKNOWN);
	CHECK(version == 7);
}

static void nvml_rules_are_not_ours(int socket)
{
	(void)socket;
	setenv("BERTH_SIM_FAULTS", "nvmlInit_v2:fail=999", 1);
	CHECK_OK(cuInit(0));
}

static void even_stubs_fail(int socket)
{
	(void)socket;
	setenv("BERTH_SIM_FAULTS", "cu*:fail=46", 1);
	CHECK_CODE(cuInit(0), CUDA_ERROR_DEVICE_UNAVAILABLE);
	CHECK_CODE(cuDriverGetVersion(&(int){ 0 }), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void write_plan(const char *text)
{
	const char *path = getenv("BERTH_SIM_FAULT_FILE");
	char temporary[300];
	FILE *file;

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	file = fopen(temporary, "w");
	CHECK(file);
	fputs(text, file);
	fclose(file);
	CHECK(rename(temporary, path) == 0);
}

static void file_is_read_again(int socket)
{
	char path[] = "/tmp/berth-sim-faults-XXXXXX";
	int fd = mkstemp(path);

	(void)socket;
	CHECK(fd >= 0);
	close(fd);
	setenv("BERTH_SIM_FAULT_FILE", path, 1);
	core_begin(0);
	CHECK_OK(cuCtxSynchronize());
	write_plan("cuCtxSynchronize:fail=719:nth=1");
	CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
	CHECK_OK(cuCtxSynchronize());
	write_plan("cuCtxSynchronize:fail=700:nth=1 # again");
	CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_OK(cuCtxSynchronize());
	unlink(path);
	CHECK_OK(cuCtxSynchronize());
}

static void blocks(int socket)
{
	setenv("BERTH_SIM_FAULTS", "cuCtxSynchronize:block", 1);
	core_begin(0);
	core_tell(socket);
	cuCtxSynchronize();
	core_tell(socket); /* never */
}

static void blocks_until_the_file_changes(int socket)
{
	char path[] = "/tmp/berth-sim-faults-XXXXXX";
	int fd = mkstemp(path);
	pid_t other;

	(void)socket;
	CHECK(fd >= 0);
	close(fd);
	setenv("BERTH_SIM_FAULT_FILE", path, 1);
	write_plan("cuInit:block");
	other = fork();
	if (other == 0) {
		usleep(100000);
		write_plan("cuDeviceGet:fail=1");
		_exit(0);
	}
	CHECK_OK(cuInit(0));
	CHECK(waitpid(other, NULL, 0) == other);
	unlink(path);
}

static void kills_before(int socket)
{
	setenv("BERTH_SIM_FAULTS", "cuCtxSynchronize:kill=before", 1);
	core_begin(0);
	core_tell(socket);
	cuCtxSynchronize();
	core_tell(socket);
}

/* The driver has done its part: the memory is charged when the program dies of it. */
static void kills_after(int socket)
{
	CUdeviceptr pointer = 0;

	setenv("BERTH_SIM_FAULTS", "cuMemAlloc_v2:kill=after", 1);
	core_begin(0);
	core_tell(socket);
	cuMemAlloc_v2(&pointer, MiB(1));
	core_tell(socket);
}

static void passes(void **state)
{
	assert_true(core_passes("1x1G", *(void (**)(int)) * state));
}

static int status_after_first_word(void (*body)(int socket), bool kill_it)
{
	struct core_child child;
	int status = 0;
	char byte;

	core_node_new("1x1G");
	child = core_start(body);
	core_wait(child.socket);
	if (kill_it) {
		usleep(100000);
		assert_int_equal(recv(child.socket, &byte, 1, MSG_DONTWAIT), -1);
		kill(child.pid, SIGKILL);
	}
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	close(child.socket);
	return status;
}

static void a_blocked_call_can_be_killed(void **state)
{
	int status = status_after_first_word(blocks, true);

	(void)state;
	assert_true(WIFSIGNALED(status));
}

static void a_fault_can_kill(void **state)
{
	int before = status_after_first_word(kills_before, false);
	int after = status_after_first_word(kills_after, false);

	(void)state;
	assert_true(WIFSIGNALED(before) && WTERMSIG(before) == SIGKILL);
	assert_true(WIFSIGNALED(after) && WTERMSIG(after) == SIGKILL);
}

#define PASSES(body)                                        \
	{                                                   \
#body, passes, NULL, NULL, &(void (*)(int)) \
		{                                           \
			body                                \
		}                                           \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_plans_are_read),
		cmocka_unit_test(bad_plans_are_refused_by_rule),
		PASSES(fails_the_nth_call),
		PASSES(sleeps),
		PASSES(bad_plan_fails_all),
		PASSES(nvml_rules_are_not_ours),
		PASSES(even_stubs_fail),
		PASSES(file_is_read_again),
		PASSES(blocks_until_the_file_changes),
		cmocka_unit_test(a_blocked_call_can_be_killed),
		cmocka_unit_test(a_fault_can_kill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
