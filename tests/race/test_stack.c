/* SPDX-License-Identifier: Apache-2.0
 *
 * The race through the whole stack: processes of several threads allocate and free under the preload
 * on the simulated driver, are killed and stopped at random, and the limit is lowered, also below
 * what is charged, and raised meanwhile. The simulated driver's own books judge: they share no code
 * with Berth and know nothing of it.
 *
 * PROCS=N: processes (64). ASKS=N: asks in all, over the three cases (1.2 million; the full form is
 * ASKS=10000000, some minutes).
 *
 * What the books are asked. The node keeps the peak: the most that living processes had at one
 * time, taken at each charge (sim/node/charge.c), so nothing between two looks is missed. What a
 * dead process had is not in it. That is no favour: a process's seat is free as soon as it is dead,
 * what it held may be granted to others at that moment, and by then the driver may not have noticed;
 * a real driver has the same window, in which the memory of the dead is not yet free, and answers
 * out of memory if it can't give what was granted. Berth owes that the living don't exceed the
 * limit.
 *
 * Limits change, so the peak is judged by phases. A phase begins with a change of the limit. Then the
 * judge waits until each ask that was under way when the change returned has been answered (it may
 * have been decided by the limit before) and until what is held fits. From then on nothing but
 * grants under the phase's limit raises what is held: the peak starts anew, and at the end of the
 * phase it must not exceed the limit. Refunds reach the driver's books before the ledger, charges
 * reach them after it: so at any moment the books hold no more than what is charged.
 *
 * Exactly the limit, in whole units: a block takes multiples of 512 bytes of the simulated GPU, and
 * what is charged is what was asked for. With sizes that are multiples of 512 the two are the same.
 * With sizes from one byte on each block may take up to 511 bytes more than was charged for it: the
 * third case allows that many for each block that can be live, and no more. Contexts are charged as
 * measured: in the first case they are there from the start and count in the limit like everything
 * else. Where processes are killed, their successors' contexts would be booked over the limit, as
 * they must, so there contexts take nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "region/ledger.h"
#include "region/snapshot.h"
#include "sim/node/node.h"
#include "stack_player.h"

#define MIB   ((uint64_t)1 << 20)
#define LIMIT (1024 * MIB)

enum { THREADS = 4, CASES = 3, ASKS = 1200000 };

struct race {
	const char *context_bytes;
	uint64_t unit_bytes;
	bool killing;
	uint64_t slack_bytes; /* by which the books may exceed what is charged */
};

static struct {
	char directory[64];
	struct berth_region *region;
	struct stack_hall *hall;
	int hall_fd;
	uint32_t process_count;
	pid_t pids[STACK_PROCESSES_MAX]; /* by place */
	uint64_t random;
	uint32_t started_count;
	uint32_t killed_count;
	uint32_t phase_count;
	uint32_t below_count; /* changes to a limit below what was held */
	uint32_t full_count;  /* phases whose peak came near their limit */
} stage;

static uint64_t number_or(const char *name, uint64_t least, uint64_t most, uint64_t other)
{
	const char *text = getenv(name);
	unsigned long long wanted = text ? strtoull(text, NULL, 10) : 0;

	return wanted >= least && wanted <= most ? wanted : other;
}

static uint64_t random_next(void)
{
	stage.random = stage.random * 6364136223846793005ULL + 1442695040888963407ULL;
	return stage.random >> 33;
}

static void sleep_us(uint64_t us)
{
	berth_sleep_ns(us * BERTH_NS_PER_US, UINT64_MAX);
}

/* ---- players ---- */

static void player_start(uint32_t place)
{
	char fd_text[16];
	char place_text[16];
	char seed_text[24];

	(void)snprintf(fd_text, sizeof fd_text, "%d", stage.hall_fd);
	(void)snprintf(place_text, sizeof place_text, "%u", place);
	(void)snprintf(seed_text, sizeof seed_text, "%u", ++stage.started_count);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setenv("LD_PRELOAD", getenv("BERTH_TEST_PRELOAD"), 1) == 0)
			(void)execl("/proc/self/exe", "test_race_stack", "--player", fd_text,
				    place_text, seed_text, (char *)NULL);
		_exit(127);
	}
	stage.pids[place] = pid;
}

static uint32_t player_choose(void)
{
	return (uint32_t)(random_next() % stage.process_count);
}

/* A successor takes the place at once. */
static void player_kill(uint32_t place)
{
	int status;

	assert_int_equal(kill(stage.pids[place], SIGKILL), 0);
	assert_int_equal(waitpid(stage.pids[place], &status, 0), stage.pids[place]);
	assert_true(WIFSIGNALED(status)); /* it hadn't ended by itself */
	stage.killed_count++;
	atomic_store(&stage.hall->ready[place], 0);
	atomic_store(&stage.hall->done[place], 0);
	for (uint32_t t = 0; t < stage.hall->thread_count; t++) {
		_Atomic uint64_t *calls = &stage.hall->threads[place][t].calls;

		atomic_store(calls, (atomic_load(calls) + 1) & ~(uint64_t)1);
	}
	player_start(place);
}

static void player_stop(uint32_t place)
{
	assert_int_equal(kill(stage.pids[place], SIGSTOP), 0);
	sleep_us(1000 + random_next() % 4000);
	assert_int_equal(kill(stage.pids[place], SIGCONT), 0);
}

/* ---- phases ---- */

static bool asks_are_left(void)
{
	return atomic_load(&stage.hall->asks_left) > 0;
}

/* Until every call that is under way now has ended. */
static void calls_await(void)
{
	static uint64_t calls[STACK_PROCESSES_MAX][STACK_THREADS_MAX];

	for (uint32_t p = 0; p < stage.process_count; p++) {
		for (uint32_t t = 0; t < THREADS; t++)
			calls[p][t] = atomic_load(&stage.hall->threads[p][t].calls);
	}
	for (uint32_t p = 0; p < stage.process_count; p++) {
		for (uint32_t t = 0; t < THREADS; t++) {
			while (calls[p][t] % 2 &&
			       atomic_load(&stage.hall->threads[p][t].calls) == calls[p][t])
				sleep_us(50);
		}
	}
}

static uint64_t held_bytes(void)
{
	sim_node_sweep();
	return sim_node_used_bytes(0);
}

static void limit_set(uint64_t bytes)
{
	struct berth_region_change change = { .gpu_mask = 1, .memory_set = true };
	struct berth_reason reason = { "" };

	change.memory_limit_bytes = bytes;
	if (berth_region_change(stage.region, &change, NULL, NULL, &reason) < 0)
		fail_msg("%s", reason.text);
}

static uint64_t limit_choose(uint64_t unit_bytes)
{
	uint64_t bytes = LIMIT;

	if (random_next() % 2)
		bytes = LIMIT / 16 + random_next() * 1024 % (LIMIT * 15 / 16);
	return bytes - bytes % unit_bytes;
}

static void fate_play(const struct race *race, uint64_t end_ns)
{
	while (asks_are_left() && berth_clock_ns() < end_ns) {
		sleep_us(random_next() % 8000);
		uint32_t place = player_choose();
		if (race->killing && random_next() % 4)
			player_kill(place);
		else
			player_stop(place);
	}
}

static void phase_play(const struct race *race)
{
	uint64_t limit_bytes = limit_choose(race->unit_bytes);

	limit_set(limit_bytes);
	stage.below_count += held_bytes() > limit_bytes;
	calls_await();
	while (held_bytes() > limit_bytes + race->slack_bytes)
		sleep_us(50);
	sim_node_peak_start(0);
	fate_play(race, berth_clock_ns() + (10 + random_next() % 40) * BERTH_NS_PER_MS);
	uint64_t peak_bytes = sim_node_peak_bytes(0);
	if (peak_bytes > limit_bytes + race->slack_bytes)
		fail_msg("%llu bytes were held under a limit of %llu",
			 (unsigned long long)peak_bytes, (unsigned long long)limit_bytes);
	stage.full_count += peak_bytes > limit_bytes / 2;
	stage.phase_count++;
}

/* ---- the whole ---- */

static void hall_make(const struct race *race)
{
	stage.hall_fd = memfd_create("berth-stack-hall", 0);
	assert_true(stage.hall_fd >= 0);
	assert_int_equal(ftruncate(stage.hall_fd, sizeof *stage.hall), 0);
	void *memory = mmap(NULL, sizeof *stage.hall, PROT_READ | PROT_WRITE, MAP_SHARED,
			    stage.hall_fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	stage.hall = memory;
	stage.hall->thread_count = THREADS;
	stage.hall->ask_max_bytes = LIMIT;
	stage.hall->unit_bytes = race->unit_bytes;
	atomic_store(&stage.hall->asks_left,
		     (int64_t)number_or("ASKS", CASES, INT64_MAX, ASKS) / CASES);
}

static void share_make(void)
{
	struct berth_region_spec spec = { .share_name = "stack", .gpu_count = 1, .priority = 1 };
	struct berth_reason reason = { "" };

	(void)snprintf(spec.gpus[0].uuid, sizeof spec.gpus[0].uuid, "%s",
		       sim_node_gpu(0)->uuid_text);
	spec.gpus[0].memory_limit_bytes = LIMIT;
	if (berth_region_join(getenv("BERTH_REGION"), &spec, 0, &stage.region, NULL, &reason) < 0)
		fail_msg("%s", reason.text);
}

static uint64_t charged_bytes(void)
{
	struct berth_ledger_room room = { 0 };

	assert_int_equal(berth_ledger_room(stage.region, 0, &room), 0);
	return room.charged_bytes;
}

static void players_await(const _Atomic uint32_t *flags)
{
	for (uint32_t p = 0; p < stage.process_count; p++) {
		while (!atomic_load(&flags[p])) {
			sleep_us(1000);
			/* None gives up. */
			assert_int_equal(waitpid(stage.pids[p], NULL, WNOHANG), 0);
		}
	}
}

static void players_end(void)
{
	atomic_store(&stage.hall->leave, 1);
	for (uint32_t p = 0; p < stage.process_count; p++) {
		int status;

		assert_int_equal(waitpid(stage.pids[p], &status, 0), stage.pids[p]);
		assert_int_equal(status, 0);
	}
}

/* No figure was ever taken below zero, on either side. */
static void anomalies_judge(void)
{
	struct berth_snapshot *taken = NULL;
	struct berth_reason reason = { "" };

	assert_int_equal(sim_node_short_refund_count(0), 0);
	assert_int_equal(berth_snapshot_take(stage.region, 0, &taken), 0);
	assert_int_equal(taken->anomaly_count, 0);
	berth_snapshot_free(taken);
	if (berth_region_check(stage.region, &reason) < 0)
		fail_msg("%s", reason.text);
}

static void counts_print(uint64_t elapsed_ns)
{
	uint64_t granted_count = 0;
	uint64_t refused_count = 0;

	for (uint32_t p = 0; p < stage.process_count; p++) {
		for (uint32_t t = 0; t < THREADS; t++) {
			granted_count += atomic_load(&stage.hall->threads[p][t].granted_count);
			refused_count += atomic_load(&stage.hall->threads[p][t].refused_count);
		}
	}
	print_message("%llu granted, %llu refused, %u killed, %u phases, %u of them full, "
		      "%u times lowered below what was held, %llu ms\n",
		      (unsigned long long)granted_count, (unsigned long long)refused_count,
		      stage.killed_count, stage.phase_count, stage.full_count, stage.below_count,
		      (unsigned long long)(elapsed_ns / BERTH_NS_PER_MS));
	/* Else nothing was contested. */
	assert_true(granted_count > 0);
	assert_true(refused_count > 0);
	assert_true(stage.full_count > 0);
}

static void race_run(const struct race *race)
{
	assert_int_equal(setenv("BERTH_SIM_CONTEXT_BYTES", race->context_bytes, 1), 0);
	stage.process_count = (uint32_t)number_or("PROCS", 2, STACK_PROCESSES_MAX, 64);
	stage.killed_count = stage.phase_count = stage.full_count = stage.below_count = 0;
	hall_make(race);
	share_make();
	for (uint32_t p = 0; p < stage.process_count; p++)
		player_start(p);
	players_await(stage.hall->ready);
	uint64_t contexts_bytes = held_bytes();
	assert_int_equal(charged_bytes(), contexts_bytes);
	uint64_t start_ns = berth_clock_ns();
	atomic_store(&stage.hall->open, 1);
	while (asks_are_left())
		phase_play(race);
	players_await(stage.hall->done);
	uint64_t elapsed_ns = berth_clock_ns() - start_ns;
	/* Everything is given back but the contexts, on both sides. */
	assert_int_equal(held_bytes(), contexts_bytes);
	assert_int_equal(charged_bytes(), contexts_bytes);
	players_end();
	assert_int_equal(held_bytes(), 0);
	assert_int_equal(charged_bytes(), 0);
	anomalies_judge();
	assert_int_equal(atomic_load(&stage.hall->failures), 0);
	counts_print(elapsed_ns);
	berth_region_close(stage.region);
	assert_int_equal(unlink(getenv("BERTH_REGION")), 0);
	assert_int_equal(munmap(stage.hall, sizeof *stage.hall), 0);
	assert_int_equal(close(stage.hall_fd), 0);
}

static void test_contexts_count(void **state)
{
	(void)state;
	race_run(&(struct race){ .context_bytes = "256K", .unit_bytes = SIM_CHARGE_UNIT });
}

static void test_some_are_killed(void **state)
{
	(void)state;
	race_run(&(struct race){
		.context_bytes = "0", .unit_bytes = SIM_CHARGE_UNIT, .killing = true });
}

static void test_from_one_byte(void **state)
{
	uint64_t blocks = number_or("PROCS", 2, STACK_PROCESSES_MAX, 64) * THREADS * STACK_HELD_MAX;

	(void)state;
	race_run(&(struct race){ .context_bytes = "0",
				 .unit_bytes = 1,
				 .killing = true,
				 .slack_bytes = blocks * (SIM_CHARGE_UNIT - 1) });
}

static int erase(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int directory_make(void)
{
	char path[128];

	(void)snprintf(stage.directory, sizeof stage.directory, "%s/berth-stack-XXXXXX",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(stage.directory) || setenv("BERTH_STATE_DIR", stage.directory, 1))
		return -1;
	(void)snprintf(path, sizeof path, "%s/share.cache", stage.directory);
	if (setenv("BERTH_REGION", path, 1))
		return -1;
	(void)snprintf(path, sizeof path, "%s/node", stage.directory);
	return setenv("BERTH_SIM_STATE", path, 1) || setenv("BERTH_SIM_GPUS", "1x8G", 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contexts_count),
		cmocka_unit_test(test_some_are_killed),
		cmocka_unit_test(test_from_one_byte),
	};

	if (argc == 5 && strcmp(argv[1], "--player") == 0)
		return stack_player_run((int)strtol(argv[2], NULL, 10),
					(uint32_t)strtoul(argv[3], NULL, 10),
					strtoull(argv[4], NULL, 10));
	if (!getenv("BERTH_TEST_PRELOAD")) {
		(void)fprintf(stderr, "BERTH_TEST_PRELOAD must name libberth-cuda.so\n");
		return 1;
	}
	if (directory_make() || sim_node_open()) {
		perror("test_race_stack");
		return 1;
	}
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)nftw(stage.directory, erase, 8, FTW_DEPTH | FTW_PHYS); /* a left-over does no harm */
	return failed;
}
