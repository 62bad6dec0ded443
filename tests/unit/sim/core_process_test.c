/* SPDX-License-Identifier: Apache-2.0
 *
 * One device, many processes: capacity is a fact of the node, exact whatever races, and a process
 * that is killed leaves nothing behind.
 */
#include "core_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

#include <cmocka.h>

/* Takes so many MiB and keeps them until it is told to go. */
static size_t keep_mib;

static void keeper_body(int socket)
{
	CUdeviceptr pointer;

	core_begin(0);
	CHECK_OK(cuMemAlloc_v2(&pointer, MiB(keep_mib)));
	CHECK_OK(cuMemsetD8_v2(pointer, 1, 4096));
	core_tell(socket);
	core_wait(socket);
}

static void second_body(int socket)
{
	CUdeviceptr pointer = 1;

	core_begin(0);
	CHECK(core_used_bytes() == 2 * CONTEXT_BYTES + MiB(600));
	CHECK_CODE(cuMemAlloc_v2(&pointer, MiB(600)), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(pointer == 1);
	core_tell(socket);
	core_wait(socket); /* the first one was killed meanwhile */
	CHECK_OK(cuMemAlloc_v2(&pointer, MiB(900)));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(900));
}

static void a_killed_process_leaves_nothing(void **state)
{
	struct core_child second;
	struct core_child first;

	(void)state;
	keep_mib = 600;
	core_node_new("1x1G");
	first = core_start(keeper_body);
	core_wait(first.socket);
	second = core_start(second_body);
	core_wait(second.socket);
	core_kill(&first);
	core_tell(second.socket);
	assert_true(core_succeeded(&second));
}

/* Two thirds each: one gets it in every round, and only one; what is reported never exceeds. */
static void racer_body(int socket)
{
	unsigned char won;

	core_begin(0);
	for (unsigned round = 0; round < 100; round++) {
		CUdeviceptr pointer = 0;
		CUresult result;

		core_tell(socket);
		core_wait(socket);
		result = cuMemAlloc_v2(&pointer, MiB(600));
		CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
		CHECK(core_used_bytes() <= GiB(2));
		won = result == CUDA_SUCCESS;
		core_send(socket, &won, 1);
		core_wait(socket);
		if (won)
			CHECK_OK(cuMemFree_v2(pointer));
	}
}

static void one_of_many_gets_it(void **state)
{
	enum { RACERS = 6 };
	struct core_child racers[RACERS];

	(void)state;
	/* Six contexts, and room for one ask and a bit. */
	core_node_new("1x1600M");
	for (unsigned i = 0; i < RACERS; i++)
		racers[i] = core_start(racer_body);
	for (unsigned round = 0; round < 100; round++) {
		unsigned winners = 0;

		for (unsigned i = 0; i < RACERS; i++)
			core_wait(racers[i].socket);
		for (unsigned i = 0; i < RACERS; i++)
			core_tell(racers[i].socket);
		for (unsigned i = 0; i < RACERS; i++) {
			unsigned char won;

			core_receive(racers[i].socket, &won, 1);
			winners += won;
		}
		assert_int_equal(winners, 1);
		for (unsigned i = 0; i < RACERS; i++)
			core_tell(racers[i].socket);
	}
	for (unsigned i = 0; i < RACERS; i++)
		assert_true(core_succeeded(&racers[i]));
}

/* Allocates and frees as fast as it can, in several sizes, until it is killed. */
static void churner_body(int socket)
{
	CUdeviceptr held[8] = { 0 };
	unsigned i = 0;

	core_begin(0);
	core_tell(socket);
	for (;; i = (i + 1) % 8) {
		if (held[i])
			CHECK_OK(cuMemFree_v2(held[i]));
		held[i] = 0;
		if (cuMemAlloc_v2(&held[i], MiB(1 + i * 5)) != CUDA_SUCCESS)
			held[i] = 0;
	}
}

static void nothing_but_own_body(int socket)
{
	const char *context_bytes = getenv("BERTH_SIM_CONTEXT_BYTES");

	(void)socket;
	core_begin(0);
	CHECK(core_used_bytes() ==
	      (context_bytes ? strtoull(context_bytes, NULL, 10) : CONTEXT_BYTES));
}

static void killed_at_any_moment(void **state)
{
	enum { CHURNERS = 4, KILLS = 120 };
	struct core_child churners[CHURNERS];
	struct core_child last;
	unsigned random = 1;

	(void)state;
	core_node_new("1x300M");
	/* What others hold is whole MiB, so a context always finds room and the churn goes on. */
	setenv("BERTH_SIM_CONTEXT_BYTES", "512", 1);
	for (unsigned i = 0; i < CHURNERS; i++) {
		churners[i] = core_start(churner_body);
		core_wait(churners[i].socket);
	}
	for (unsigned kills = 0; kills < KILLS; kills++) {
		unsigned which = kills % CHURNERS;

		random = random * 1103515245U + 12345U;
		usleep((random >> 16) % 3000);
		core_kill(&churners[which]);
		churners[which] = core_start(churner_body);
		core_wait(churners[which].socket);
	}
	for (unsigned i = 0; i < CHURNERS; i++)
		core_kill(&churners[i]);
	last = core_start(nothing_but_own_body);
	assert_true(core_succeeded(&last));
}

/* ---- fork ---- */

static void fork_body(int socket)
{
	CUdeviceptr pointer;
	int status;
	pid_t pid;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuMemAlloc_v2(&pointer, MiB(1)));
	pid = fork();
	if (pid == 0) {
		CUdeviceptr other;

		CHECK_CODE(cuMemAlloc_v2(&other, 1), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_CODE(cuMemFree_v2(pointer), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_CODE(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(1));
	CHECK_OK(cuMemFree_v2(pointer));
}

static void a_fork_child_is_not_initialised(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", fork_body));
}

/* Forks a child that stays, then is killed: the child must not keep its memory charged. */
static void leaver_body(int socket)
{
	CUdeviceptr pointer;

	core_begin(0);
	CHECK_OK(cuMemAlloc_v2(&pointer, MiB(800)));
	if (fork() == 0) {
		char byte;

		/* Ends with the test: its socket then closes. */
		while (read(socket, &byte, 1) > 0)
			;
		_exit(0);
	}
	core_tell(socket);
	for (;;)
		pause();
}

static void a_child_left_behind_keeps_nothing(void **state)
{
	struct core_child leaver;
	struct core_child last;

	(void)state;
	core_node_new("1x1G");
	leaver = core_start(leaver_body);
	core_wait(leaver.socket);
	assert_int_equal(kill(leaver.pid, SIGKILL), 0);
	assert_int_equal(waitpid(leaver.pid, NULL, 0), leaver.pid);
	last = core_start(nothing_but_own_body);
	assert_true(core_succeeded(&last));
	close(leaver.socket);
}

/* ---- memory between processes ---- */

static void exporter_body(int socket)
{
	unsigned char seen[1000];
	CUipcMemHandle handle;
	CUdeviceptr neighbour;
	CUdeviceptr pointer;
	CUdeviceptr own;

	core_begin(0);
	CHECK_OK(cuMemAlloc_v2(&neighbour, 700)); /* so that it doesn't begin at a page */
	CHECK_OK(cuMemAlloc_v2(&pointer, 10000));
	CHECK_OK(cuMemsetD8_v2(pointer, 0x11, 10000));
	CHECK_CODE(cuIpcGetMemHandle(&handle, pointer + 20000), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuIpcGetMemHandle(&handle, pointer));
	CHECK_CODE(cuIpcOpenMemHandle_v2(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		   CUDA_ERROR_INVALID_CONTEXT);
	core_send(socket, &handle, sizeof(handle));
	core_wait(socket);
	CHECK_OK(cuMemcpyDtoH_v2(seen, pointer + 5000, sizeof(seen)));
	for (unsigned i = 0; i < sizeof(seen); i++)
		CHECK(seen[i] == 0x22);
	CHECK_OK(cuMemFree_v2(pointer));
}

static void importer_body(int socket)
{
	CUipcMemHandle handle;
	CUdeviceptr pointer;
	CUdeviceptr again;
	unsigned char seen[10000];
	size_t used;

	core_begin(0);
	core_receive(socket, &handle, sizeof(handle));
	used = core_used_bytes();
	CHECK_CODE(cuIpcOpenMemHandle_v2(&pointer, handle, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK_OK(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK(again == pointer);
	CHECK(core_used_bytes() == used); /* it is charged to the exporter only */
	CHECK_OK(cuMemcpyDtoH_v2(seen, pointer, sizeof(seen)));
	for (unsigned i = 0; i < sizeof(seen); i++)
		CHECK(seen[i] == 0x11);
	CHECK_CODE(cuMemcpyDtoH_v2(seen, pointer + 1, sizeof(seen)), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemsetD8_v2(pointer + 5000, 0x22, 1000));
	CHECK_CODE(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuIpcCloseMemHandle(pointer));
	CHECK_OK(cuMemcpyDtoH_v2(seen, pointer, 1)); /* opened twice */
	CHECK_OK(cuIpcCloseMemHandle(pointer));
	CHECK_CODE(cuIpcCloseMemHandle(pointer), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemcpyDtoH_v2(seen, pointer, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK(core_used_bytes() == used);
	core_tell(socket);
}

static void memory_by_handle(void **state)
{
	struct core_child exporter;
	struct core_child importer;
	CUipcMemHandle handle;

	(void)state;
	core_node_new("1x1G");
	exporter = core_start(exporter_body);
	importer = core_start(importer_body);
	core_receive(exporter.socket, &handle, sizeof(handle));
	core_send(importer.socket, &handle, sizeof(handle));
	core_wait(importer.socket);
	assert_true(core_succeeded(&importer));
	core_tell(exporter.socket);
	assert_true(core_succeeded(&exporter));
}

static void dead_importer_body(int socket)
{
	CUipcMemHandle handle;
	CUdeviceptr pointer = 5;

	core_begin(0);
	core_receive(socket, &handle, sizeof(handle));
	CHECK_CODE(cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK(pointer == 5);
}

static void a_dead_exporter_is_noticed(void **state)
{
	struct core_child exporter;
	struct core_child importer;
	CUipcMemHandle handle;

	(void)state;
	core_node_new("1x1G");
	exporter = core_start(exporter_body);
	core_receive(exporter.socket, &handle, sizeof(handle));
	core_kill(&exporter);
	importer = core_start(dead_importer_body);
	core_send(importer.socket, &handle, sizeof(handle));
	assert_true(core_succeeded(&importer));
}

/* ---- what the environment says ---- */

static void other_gpus_body(int socket)
{
	(void)socket;
	setenv("BERTH_SIM_GPUS", "2x4G", 1);
	CHECK_CODE(cuInit(0), CUDA_ERROR_SYSTEM_NOT_READY);
}

static void new_gpus_body(int socket)
{
	int count;

	(void)socket;
	setenv("BERTH_SIM_GPUS", "2x4G", 1);
	core_begin(1);
	CHECK_OK(cuDeviceGetCount(&count));
	CHECK(count == 2);
	CHECK(core_free_bytes() == GiB(4) - CONTEXT_BYTES);
}

static void a_living_node_keeps_its_gpus(void **state)
{
	struct core_child keeper;
	struct core_child other;

	(void)state;
	keep_mib = 1;
	core_node_new("1x1G");
	keeper = core_start(keeper_body);
	core_wait(keeper.socket);
	other = core_start(other_gpus_body);
	assert_true(core_succeeded(&other));
	core_kill(&keeper);
	other = core_start(new_gpus_body);
	assert_true(core_succeeded(&other));
}

static void bad_config_body(int socket)
{
	(void)socket;
	close(STDERR_FILENO); /* it says why, which is not for this test's output */
	setenv("BERTH_SIM_GPUS", "1xlots", 1);
	if (cuInit(0) != CUDA_ERROR_SYSTEM_NOT_READY)
		_exit(1);
	if (cuInit(0) != CUDA_ERROR_SYSTEM_NOT_READY)
		_exit(2);
}

static void a_wrong_environment_is_refused(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", bad_config_body));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_process_leaves_nothing),
		cmocka_unit_test(one_of_many_gets_it),
		cmocka_unit_test(killed_at_any_moment),
		cmocka_unit_test(a_fork_child_is_not_initialised),
		cmocka_unit_test(a_child_left_behind_keeps_nothing),
		cmocka_unit_test(memory_by_handle),
		cmocka_unit_test(a_dead_exporter_is_noticed),
		cmocka_unit_test(a_living_node_keeps_its_gpus),
		cmocka_unit_test(a_wrong_environment_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
