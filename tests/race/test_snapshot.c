/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots under fire: 4 writers (two threads that share a seat, and one in each of two other
 * processes) move bytes from data to module and back all the time; 4 readers in processes of their
 * own take 400,000 snapshots in all (READS=N in the environment: another number). What is moved by
 * each writer has a size of its own, so a set of figures tells of each mover where its bytes were,
 * and figures that don't belong together tell of themselves.
 *
 * And snapshots beside a writer that was killed or stopped in mid-update, for each place of the
 * update (in builds with crash points): the tries and the waits are counted here (berth_sleep_ns is
 * wrapped), not timed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "region/layout.h"
#include "region/ledger.h"
#include "region/snapshot.h"

#define MIB ((uint64_t)1 << 20)

enum {
	READS = 400000,
	READERS = 4,
	SEATS = 3, /* writing processes; number 0 has two threads */
	STUCK_SLEEPS_MAX = 20,
	MOVING_SLEEPS_MAX = 110,
};

static const uint64_t context_bytes[SEATS] = { 3 * MIB, 5 * MIB, 7 * MIB };
static const uint64_t rest_bytes[SEATS] = { 11, 13, 17 }; /* data that stays */
/* Of the first and, where there is one, the second thread: no sum of some is another's. */
static const uint64_t moved_bytes[SEATS][2] = { { 1 << 20, 1 << 24 },
						{ 1 << 21, 0 },
						{ 12345, 0 } };

/* Between the processes of the contest. */
struct scene {
	_Atomic int ready_count;
	_Atomic int stopped; /* the readers have ended: writers put everything back */
	_Atomic int settled_count;
	_Atomic int released;
	_Atomic uint64_t move_count;
	_Atomic uint64_t whole_count;
	_Atomic uint64_t torn_count;
	_Atomic uint64_t violation_count;
	char violation[512]; /* one of them */
};

static struct scene *scene;
static char region_path[128];

static struct {
	uint64_t count;
	uint64_t ns;
	_Atomic uint64_t *sequence; /* if not NULL: moved by `step` at each sleep */
	uint64_t step;
} sleeps;

void __real_berth_sleep_ns(uint64_t ns, uint64_t deadline_ns);
void __wrap_berth_sleep_ns(uint64_t ns, uint64_t deadline_ns);

void __wrap_berth_sleep_ns(uint64_t ns, uint64_t deadline_ns)
{
	sleeps.count++;
	sleeps.ns += ns;
	if (sleeps.sequence)
		atomic_fetch_add(sleeps.sequence, sleeps.step);
	__real_berth_sleep_ns(ns, deadline_ns);
}

static struct berth_region *region_join(void)
{
	struct berth_region_spec spec = { .share_name = "fire", .gpu_count = 1, .priority = 1 };
	struct berth_region *region = NULL;

	memcpy(spec.gpus[0].uuid, "GPU-0", sizeof "GPU-0");
	spec.gpus[0].memory_limit_bytes = 1024 * MIB;
	return berth_region_join(region_path, &spec, 0, &region, NULL, NULL) == 0 ? region : NULL;
}

static pid_t child_start(int (*body)(int), int arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no child outlives a test that failed */
		_exit(body(arg) & 0xff);
	}
	assert_true(pid > 0);
	return pid;
}

static int child_end(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		return -1000;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* One line of work: all of `bytes` are data, or nowhere for a moment, or module. */
struct mover {
	struct berth_seat *seat;
	uint64_t bytes;
};

static void *mover_run(void *arg)
{
	const struct mover *mover = arg;
	uint64_t count = 0;

	while (!atomic_load_explicit(&scene->stopped, memory_order_relaxed)) {
		berth_ledger_refund(mover->seat, 0, BERTH_CHARGE_DATA, mover->bytes);
		berth_ledger_charge(mover->seat, 0, BERTH_CHARGE_MODULE, mover->bytes);
		berth_ledger_refund(mover->seat, 0, BERTH_CHARGE_MODULE, mover->bytes);
		berth_ledger_charge(mover->seat, 0, BERTH_CHARGE_DATA, mover->bytes);
		count += 4;
	}
	atomic_fetch_add(&scene->move_count, count);
	return NULL;
}

static void await(const _Atomic int *count, int wanted)
{
	while (atomic_load(count) < wanted)
		(void)usleep(1000); /* a signal that cuts it short does no harm */
}

/* The seat's number is shown as its host pid: readers know by it whose figures they have. */
static int writer_run(int number)
{
	struct berth_region *region = region_join();
	struct berth_seat *seat = NULL;
	struct mover movers[2];
	pthread_t thread;

	if (!region || berth_seat_claim(region, number + 1, &seat, NULL, NULL) < 0)
		return 1;
	bool two = moved_bytes[number][1] != 0;
	berth_ledger_charge(seat, 0, BERTH_CHARGE_CONTEXT, context_bytes[number]);
	berth_ledger_charge(seat, 0, BERTH_CHARGE_DATA, rest_bytes[number]);
	for (int i = 0; i < 2; i++) {
		movers[i] = (struct mover){ .seat = seat, .bytes = moved_bytes[number][i] };
		berth_ledger_charge(seat, 0, BERTH_CHARGE_DATA, movers[i].bytes);
	}
	atomic_fetch_add(&scene->ready_count, 1);
	if (two && pthread_create(&thread, NULL, mover_run, &movers[1]) != 0)
		return 2;
	(void)mover_run(&movers[0]);
	if (two && pthread_join(thread, NULL) != 0)
		return 3;
	atomic_fetch_add(&scene->settled_count, 1);
	await(&scene->released, 1);
	berth_seat_leave(seat);
	berth_region_close(region);
	return 0;
}

/* True if some of the movers' bytes add up to it; takes those out of *left_mask. */
static bool moved_take(int number, uint64_t bytes, unsigned *left_mask)
{
	for (unsigned mask = 0; mask < 4; mask++) {
		uint64_t sum = (mask & 1 ? moved_bytes[number][0] : 0) +
			       (mask & 2 ? moved_bytes[number][1] : 0);

		if (sum == bytes && (mask & ~*left_mask) == 0) {
			*left_mask &= ~mask;
			return true;
		}
	}
	return false;
}

/* NULL, or what is wrong with a writer's figures. */
static const char *figures_fault(const struct berth_snapshot_seat *seat)
{
	const struct berth_snapshot_use *use = &seat->use[0];
	int number = seat->host_pid - 1;
	uint64_t fixed = context_bytes[number] + rest_bytes[number];
	unsigned left = moved_bytes[number][1] ? 3 : 1;
	unsigned left_of_total = left;

	if (use->total_bytes < fixed ||
	    !moved_take(number, use->total_bytes - fixed, &left_of_total))
		return "the total is none of its values";
	if (seat->torn)
		return NULL; /* only the total is vouched for */
	if (use->context_bytes + use->module_bytes + use->data_bytes != use->total_bytes)
		return "the kinds don't add up to the total";
	if (use->context_bytes != context_bytes[number])
		return "the context's bytes have changed";
	if (use->data_bytes < rest_bytes[number] ||
	    !moved_take(number, use->data_bytes - rest_bytes[number], &left) ||
	    !moved_take(number, use->module_bytes, &left))
		return "somebody's bytes are in two places, or in half a place";
	return NULL;
}

static void violation_note(const struct berth_snapshot_seat *seat, const char *what)
{
	const struct berth_snapshot_use *use = &seat->use[0];

	if (atomic_fetch_add(&scene->violation_count, 1) == 0)
		(void)snprintf(
			scene->violation, sizeof scene->violation,
			"seat %u of writer %d: %s: %llu + %llu + %llu, total %llu", seat->index,
			seat->host_pid - 1, what, (unsigned long long)use->context_bytes,
			(unsigned long long)use->module_bytes, (unsigned long long)use->data_bytes,
			(unsigned long long)use->total_bytes);
}

/* Every hundredth time the kernel is asked as well. */
static int reader_run(int reads)
{
	struct berth_region *region = NULL;
	uint64_t whole = 0, torn = 0;

	if (berth_region_view(region_path, &region, NULL) < 0)
		return 1;
	for (int i = 0; i < reads; i++) {
		struct berth_snapshot *taken = NULL;
		unsigned flags = i % 100 ? 0 : BERTH_SNAPSHOT_LIVENESS;

		if (berth_snapshot_take(region, flags, &taken) < 0 || taken->seat_count != SEATS)
			return 2;
		for (int s = 0; s < SEATS; s++) {
			const struct berth_snapshot_seat *seat = &taken->seats[s];

			if (!seat->alive || seat->host_pid < 1 || seat->host_pid > SEATS)
				return 3;
			const char *what = figures_fault(seat);
			if (what)
				violation_note(seat, what);
			whole += !seat->torn;
			torn += seat->torn;
		}
		berth_snapshot_free(taken);
	}
	atomic_fetch_add(&scene->whole_count, whole);
	atomic_fetch_add(&scene->torn_count, torn);
	berth_region_close(region);
	return 0;
}

/* After the last move: to the byte, in mirror and ledger. */
static void end_check(struct berth_region *region)
{
	struct berth_snapshot *taken = NULL;
	struct berth_reason reason = { "" };
	uint64_t sum = 0;

	assert_int_equal(berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken), 0);
	assert_int_equal(taken->seat_count, SEATS);
	for (int s = 0; s < SEATS; s++) {
		const struct berth_snapshot_use *use = &taken->seats[s].use[0];
		int n = taken->seats[s].host_pid - 1;
		uint64_t data = rest_bytes[n] + moved_bytes[n][0] + moved_bytes[n][1];

		assert_false(taken->seats[s].torn);
		assert_int_equal(use->context_bytes, context_bytes[n]);
		assert_int_equal(use->module_bytes, 0);
		assert_int_equal(use->data_bytes, data);
		assert_int_equal(use->total_bytes, context_bytes[n] + data);
		sum += use->total_bytes;
	}
	assert_int_equal(taken->gpus[0].charged_bytes, sum);
	assert_int_equal(taken->anomaly_count, 0);
	berth_snapshot_free(taken);
	if (berth_region_check(region, &reason) < 0)
		fail_msg("%s", reason.text);
}

static void test_under_fire(void **state)
{
	const char *text = getenv("READS");
	int reads = text && atoi(text) > 0 ? atoi(text) : READS;
	struct berth_region *region = region_join();
	struct berth_ledger_room room = { 0 };
	pid_t writers[SEATS], readers[READERS];

	(void)state;
	assert_non_null(region);
	for (int i = 0; i < SEATS; i++)
		writers[i] = child_start(writer_run, i);
	await(&scene->ready_count, SEATS);
	for (int i = 0; i < READERS; i++)
		readers[i] = child_start(reader_run, reads / READERS);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(child_end(readers[i]), 0);
	atomic_store(&scene->stopped, 1);
	await(&scene->settled_count, SEATS);
	print_message("%d reads beside %llu changes: %llu sets of figures whole, %llu torn\n",
		      reads, (unsigned long long)atomic_load(&scene->move_count),
		      (unsigned long long)atomic_load(&scene->whole_count),
		      (unsigned long long)atomic_load(&scene->torn_count));
	if (atomic_load(&scene->violation_count))
		fail_msg("%llu violations: %s",
			 (unsigned long long)atomic_load(&scene->violation_count),
			 scene->violation);
	/* Torn ones are for writers that lose the processor in mid-update: the exception. */
	assert_true(atomic_load(&scene->whole_count) > atomic_load(&scene->torn_count));
	assert_true(atomic_load(&scene->move_count) > 0);
	end_check(region);
	atomic_store(&scene->released, 1);
	for (int i = 0; i < SEATS; i++)
		assert_int_equal(child_end(writers[i]), 0);
	assert_int_equal(berth_ledger_room(region, 0, &room), 0);
	assert_int_equal(room.charged_bytes, 0);
	berth_region_close(region);
}

static struct berth_snapshot *snapshot_counted(const struct berth_region *region, unsigned flags)
{
	struct berth_snapshot *taken = NULL;

	sleeps.count = 0;
	sleeps.ns = 0;
	assert_int_equal(berth_snapshot_take(region, flags, &taken), 0);
	return taken;
}

#ifdef BERTH_CRASH_POINTS
static const struct {
	enum berth_crash_point point;
	uint64_t total_bytes; /* what the ledger says there: before or after the ask of 5M */
} places[] = {
	{ BERTH_CRASH_mirror_opened, 8 * MIB },
	{ BERTH_CRASH_ledger_ask_granted, 13 * MIB },
	{ BERTH_CRASH_mirror_half_written, 13 * MIB },
	{ BERTH_CRASH_mirror_written, 13 * MIB },
};

enum { PLACES = sizeof places / sizeof places[0] };

/* Holds 8M, then breaks off in the middle of an ask for 5M more. arg: place * 2 + 1 to stop. */
static int break_off(int arg)
{
	struct berth_region *region = region_join();
	struct berth_seat *seat = NULL;

	if (!region || berth_seat_claim(region, 0, &seat, NULL, NULL) < 0)
		return 1;
	berth_ledger_charge(seat, 0, BERTH_CHARGE_CONTEXT, MIB);
	if (berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 7 * MIB) < 0)
		return 2;
	berth_crash_arm(places[arg / 2].point, arg % 2 ? BERTH_CRASH_STOP : BERTH_CRASH_KILL, 1);
	if (berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 5 * MIB) < 0)
		return 3;
	(void)raise(SIGSTOP); /* whole again: the test looks once more */
	berth_seat_leave(seat);
	berth_region_close(region);
	return 0;
}

static void assert_stopped(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

/* A reader without the kernel's word, then one with it. */
static void assert_torn(const struct berth_region *region, uint64_t total_bytes, bool alive)
{
	for (unsigned flags = 0; flags <= BERTH_SNAPSHOT_LIVENESS; flags++) {
		struct berth_snapshot *taken = snapshot_counted(region, flags);

		assert_int_equal(taken->seat_count, 1);
		assert_true(taken->seats[0].torn);
		assert_int_equal(taken->seats[0].use[0].total_bytes, total_bytes);
		assert_int_equal(taken->seats[0].alive, flags ? alive : true);
		assert_int_equal(taken->gpus[0].charged_bytes, !flags || alive ? total_bytes : 0);
		assert_true(sleeps.count > 0 && sleeps.count <= STUCK_SLEEPS_MAX);
		assert_true(sleeps.ns <= STUCK_SLEEPS_MAX * 10 * BERTH_NS_PER_US);
		berth_snapshot_free(taken);
	}
}

static void test_killed_writer(void **state)
{
	(void)state;
	for (int i = 0; i < PLACES; i++) {
		struct berth_region *region = region_join();
		struct berth_snapshot *taken;

		assert_int_equal(child_end(child_start(break_off, 2 * i)), -SIGKILL);
		assert_torn(region, places[i].total_bytes, false);
		assert_int_equal(berth_seat_reap_all(region), 1);
		taken = snapshot_counted(region, 0);
		assert_int_equal(taken->seat_count, 0);
		assert_int_equal(sleeps.count, 0);
		berth_snapshot_free(taken);
		berth_region_close(region);
	}
}

static void test_stopped_writer(void **state)
{
	(void)state;
	for (int i = 0; i < PLACES; i++) {
		struct berth_region *region = region_join();
		pid_t pid = child_start(break_off, 2 * i + 1);

		assert_stopped(pid);
		assert_torn(region, places[i].total_bytes, true);
		assert_int_equal(kill(pid, SIGCONT), 0);
		assert_stopped(pid);
		struct berth_snapshot *taken = snapshot_counted(region, 0);
		const struct berth_snapshot_use *use = &taken->seats[0].use[0];
		assert_false(taken->seats[0].torn);
		assert_int_equal(sleeps.count, 0);
		assert_int_equal(use->context_bytes, MIB);
		assert_int_equal(use->data_bytes, 12 * MIB);
		assert_int_equal(use->total_bytes, 13 * MIB);
		berth_snapshot_free(taken);
		assert_int_equal(kill(pid, SIGCONT), 0);
		assert_int_equal(child_end(pid), 0);
		berth_region_close(region);
	}
}

/* Several that are stopped cost each the same: the waits add up, they don't multiply. */
static void test_many_stopped(void **state)
{
	enum { STOPPED = 8 };
	struct berth_region *region = region_join();
	pid_t pids[STOPPED];

	(void)state;
	for (int i = 0; i < STOPPED; i++) {
		pids[i] = child_start(break_off, 2 * 2 + 1);
		assert_stopped(pids[i]);
	}
	struct berth_snapshot *taken = snapshot_counted(region, BERTH_SNAPSHOT_LIVENESS);
	assert_int_equal(taken->seat_count, STOPPED);
	assert_int_equal(taken->gpus[0].charged_bytes, STOPPED * 13 * MIB);
	assert_true(sleeps.count <= STOPPED * STUCK_SLEEPS_MAX);
	berth_snapshot_free(taken);
	for (int i = 0; i < STOPPED; i++) {
		assert_int_equal(kill(pids[i], SIGKILL), 0);
		assert_int_equal(child_end(pids[i]), -SIGKILL);
	}
	assert_int_equal(berth_seat_reap_all(region), STOPPED);
	berth_region_close(region);
}

#endif

/* A writer that is in mid-update whenever one looks, but gets on: longer waits, and an end too. */
static void test_always_odd(void **state)
{
	struct berth_region *region = region_join();
	struct berth_seat *seat = NULL;
	int file = -1;

	(void)state;
	assert_int_equal(berth_seat_claim(region, 0, &seat, NULL, NULL), 0);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 9 * MIB), 0);
	FILE *stream = fopen(region_path, "r+e");
	assert_non_null(stream);
	file = fileno(stream);
	struct berth_layout *layout =
		mmap(NULL, BERTH_LAYOUT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert_ptr_not_equal(layout, MAP_FAILED);
	assert_int_equal(fclose(stream), 0);

	sleeps.sequence = &layout->head.seats[berth_seat_index(seat)].sequence;
	sleeps.step = 2;
	atomic_fetch_add(sleeps.sequence, 1);
	struct berth_snapshot *taken = snapshot_counted(region, 0);
	assert_true(taken->seats[0].torn);
	assert_int_equal(taken->seats[0].use[0].total_bytes, 9 * MIB);
	assert_true(sleeps.count > STUCK_SLEEPS_MAX && sleeps.count <= MOVING_SLEEPS_MAX);
	assert_true(sleeps.ns <= 5 * BERTH_NS_PER_MS);
	berth_snapshot_free(taken);
	/* The next wait sees the end of the update: whole, after one sleep. */
	sleeps.step = 1;
	taken = snapshot_counted(region, 0);
	assert_false(taken->seats[0].torn);
	assert_int_equal(sleeps.count, 1);
	berth_snapshot_free(taken);
	sleeps.sequence = NULL;
	assert_int_equal(munmap(layout, BERTH_LAYOUT_SIZE), 0);
	berth_seat_leave(seat);
	berth_region_close(region);
}

static int setup(void **state)
{
	(void)state;
	scene = mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	return scene == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	sleeps.sequence = NULL;
	(void)unlink(region_path); /* not there if the test failed before it was made */
	return munmap(scene, sizeof *scene);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_under_fire),    TEST(test_always_odd),
#ifdef BERTH_CRASH_POINTS
		TEST(test_killed_writer), TEST(test_stopped_writer), TEST(test_many_stopped),
#endif
	};

	(void)snprintf(region_path, sizeof region_path, "%s/berth-fire-%ld.cache",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
