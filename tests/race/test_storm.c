/* SPDX-License-Identifier: Apache-2.0
 *
 * The start-up storm: 8, 18, 64, 300 and 1000 processes start at the same moment, in a share that
 * nobody made yet, that as many have left in order, and in which as many were killed. All get in,
 * each with a seat of its own; nobody waits by the clock where a region is; what a joiner asks of the
 * kernel doesn't grow with the dead; the 1025th is told why it can't sit; and in the end nothing is
 * left. PROCS=N leaves out the sizes above N.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "base/fd.h"
#include "crowd.h"
#include "region/ledger.h"
#include "region/snapshot.h"

#define MIB        (1ULL << 20)
#define KEPT_BYTES 1000

/* One joiner's lock operations at most, whatever is dead: it needs 4 for an empty seat and 5 for a
 * dead one, and PROBE_COUNT others may be in its way (seat.c). */
#define LOCK_CALLS_MAX 16

enum step { STEP_SIT = 1, STEP_LEAVE };
enum { COUNT_SEAT, COUNT_LOCK_CALLS, COUNT_SLEEPS, COUNT_CREATED };

static char path[128];

/* Both are called by the code under test: the linker leads it here. */

static uint32_t lock_call_count;
static uint32_t sleep_count;

int __wrap_fcntl(int fd, int command, ...);
int __real_fcntl(int fd, int command, ...);
void __wrap_berth_sleep_ns(uint64_t ns, uint64_t deadline_ns);
void __real_berth_sleep_ns(uint64_t ns, uint64_t deadline_ns);

int __wrap_fcntl(int fd, int command, ...)
{
	va_list args;

	va_start(args, command);
	void *arg = va_arg(args, void *);
	va_end(args);
	if (command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK)
		lock_call_count++;
	return __real_fcntl(fd, command, arg);
}

void __wrap_berth_sleep_ns(uint64_t ns, uint64_t deadline_ns)
{
	sleep_count++;
	__real_berth_sleep_ns(ns, deadline_ns);
}

static void spec_fill(struct berth_region_spec *spec)
{
	*spec = (struct berth_region_spec){ .share_name = "storm", .gpu_count = 2, .priority = 1 };
	for (uint32_t i = 0; i < spec->gpu_count; i++) {
		(void)snprintf(spec->gpus[i].uuid, sizeof spec->gpus[i].uuid, "GPU-%u", i);
		spec->gpus[i].memory_limit_bytes = 1024 * MIB;
	}
}

static struct {
	struct berth_region *region;
	struct berth_seat *seat;
} own;

static int sit(struct crowd_member *self)
{
	struct berth_region_joined joined = { 0 };
	struct berth_region_spec spec;

	spec_fill(&spec);
	lock_call_count = 0;
	sleep_count = 0;
	int r = berth_region_join(path, &spec, 0, &own.region, &joined, &self->reason);
	if (r == 0)
		r = berth_seat_claim(own.region, 0, &own.seat, NULL, &self->reason);
	if (r < 0)
		return r;
	self->count[COUNT_LOCK_CALLS] = lock_call_count;
	self->count[COUNT_SLEEPS] = sleep_count;
	self->count[COUNT_SEAT] = berth_seat_index(own.seat);
	self->count[COUNT_CREATED] = joined.created;
	r = berth_ledger_ask(own.seat, 0, BERTH_CHARGE_DATA, KEPT_BYTES);
	if (r == 0)
		r = berth_ledger_ask(own.seat, 1, BERTH_CHARGE_DATA, MIB);
	if (r == 0)
		berth_ledger_refund(own.seat, 1, BERTH_CHARGE_DATA, MIB);
	return berth_reason_set(&self->reason, r, "a small ask was not granted");
}

static int act(void *arg, unsigned step, struct crowd_member *self)
{
	(void)arg;
	if (step == STEP_SIT)
		return sit(self);
	berth_seat_leave(own.seat);
	berth_region_close(own.region);
	return 0;
}

static void step_or_fail(struct crowd *crowd)
{
	struct berth_reason reason = { "" };

	if (crowd_step(crowd, &reason) == 0)
		return;
	(void)crowd_end(crowd, CROWD_KILLED);
	fail_msg("%s", reason.text);
}

/* What is charged on either GPU, and that every invariant holds. Joins without a spec. */
static void books_check(uint64_t kept_bytes)
{
	struct berth_reason reason = { "" };
	struct berth_region *region = NULL;

	if (berth_region_join(path, NULL, 0, &region, NULL, &reason) < 0)
		fail_msg("%s", reason.text);
	for (uint32_t gpu = 0; gpu < 2; gpu++) {
		struct berth_ledger_room room = { 0 };

		assert_int_equal(berth_ledger_room(region, gpu, &room), 0);
		assert_int_equal(room.charged_bytes, gpu == 0 ? kept_bytes : 0);
		assert_int_equal(room.limit_bytes, 1024 * MIB);
	}
	if (berth_region_check(region, &reason) < 0)
		fail_msg("%s", reason.text);
	berth_region_close(region);
}

/* Nobody is left: once the dead are reaped not a seat is in use. */
static void emptiness_check(void)
{
	struct berth_snapshot *snapshot = NULL;
	struct berth_region *region = NULL;

	books_check(0);
	assert_int_equal(berth_region_join(path, NULL, 0, &region, NULL, NULL), 0);
	assert_true(berth_seat_reap_all(region) >= 0);
	assert_int_equal(berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &snapshot), 0);
	assert_int_equal(snapshot->seat_count, 0);
	assert_int_equal(snapshot->anomaly_count, 0);
	assert_int_equal(snapshot->gpus[0].refusal_count, 0);
	berth_snapshot_free(snapshot);
	berth_region_close(region);
	books_check(0);
}

static void sitters_check(const struct crowd *crowd, bool fresh)
{
	bool taken[BERTH_SEAT_MAX] = { false };
	uint32_t created_count = 0;

	for (uint32_t i = 0; i < crowd->count; i++) {
		const uint32_t *count = crowd->members[i].count;

		assert_true(count[COUNT_SEAT] < BERTH_SEAT_MAX);
		assert_false(taken[count[COUNT_SEAT]]);
		taken[count[COUNT_SEAT]] = true;
		created_count += count[COUNT_CREATED];
		if (!fresh)
			assert_int_equal(count[COUNT_SLEEPS], 0);
	}
	assert_int_equal(created_count, fresh);
	books_check((uint64_t)crowd->count * KEPT_BYTES);
}

enum parting { PART_LEAVING, PART_KILLED, PART_EXITING };

static void wave(uint32_t count, bool fresh, enum parting parting)
{
	struct crowd crowd;

	assert_int_equal(crowd_gather(&crowd, count, act, NULL), 0);
	step_or_fail(&crowd);
	sitters_check(&crowd, fresh);
	if (parting == PART_LEAVING) {
		step_or_fail(&crowd);
		books_check(0);
	}
	(void)crowd_end(&crowd, parting == PART_KILLED ? CROWD_KILLED : CROWD_GOES);
	books_check(0);
}

/* Sanitizers make each process large and each fork slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SIZE_DEFAULT 64
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SIZE_DEFAULT 64
#endif
#endif
#ifndef SIZE_DEFAULT
#define SIZE_DEFAULT 1000
#endif

static uint32_t size_max(void)
{
	const char *text = getenv("PROCS");
	long wanted = text ? strtol(text, NULL, 10) : 0;

	return wanted > 0 && wanted <= 1000 ? (uint32_t)wanted : SIZE_DEFAULT;
}

static void test_storms(void **state)
{
	static const uint32_t sizes[] = { 8, 18, 64, 300, 1000 };

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(sizes) && sizes[i] <= size_max(); i++) {
		(void)unlink(path);
		wave(sizes[i], true, PART_LEAVING);
		emptiness_check();
		wave(sizes[i], false, PART_KILLED);
		wave(sizes[i], false, PART_EXITING);
		emptiness_check();
	}
}

/* All seats are taken: the next one is told so, in words; then one dies, and it gets in. */
static void test_full_house(void **state)
{
	struct berth_reason reason = { "" };
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	struct crowd crowd;

	(void)state;
	if (size_max() < 1000)
		skip();
	assert_int_equal(crowd_gather(&crowd, BERTH_SEAT_MAX, act, NULL), 0);
	step_or_fail(&crowd);
	sitters_check(&crowd, false);
	assert_int_equal(berth_region_join(path, NULL, 0, &region, NULL, NULL), 0);
	for (int i = 0; i < 3; i++) {
		reason.text[0] = '\0';
		assert_int_equal(berth_seat_claim(region, 0, &seat, NULL, &reason), -EUSERS);
		assert_non_null(strstr(reason.text, "all 1024 seats are taken"));
		assert_non_null(strstr(reason.text, path));
	}
	books_check(BERTH_SEAT_MAX * KEPT_BYTES);
	assert_int_equal(kill(crowd.pids[700], SIGKILL), 0);
	assert_int_equal(waitpid(crowd.pids[700], NULL, 0), crowd.pids[700]);
	crowd.pids[700] = 0;
	struct berth_seat_claimed claimed = { 0 };
	assert_int_equal(berth_seat_claim(region, 0, &seat, &claimed, &reason), 0);
	assert_int_equal(claimed.index, crowd.members[700].count[COUNT_SEAT]);
	assert_int_equal(claimed.reaped_count, 1);
	books_check((BERTH_SEAT_MAX - 1) * KEPT_BYTES);
	berth_seat_leave(seat);
	berth_region_close(region);
	(void)crowd_end(&crowd, CROWD_KILLED);
	emptiness_check();
}

/* One joiner, alone; what it asked of the kernel's locks. */
static uint32_t lone_joiner(void)
{
	struct crowd crowd;

	assert_int_equal(crowd_gather(&crowd, 1, act, NULL), 0);
	step_or_fail(&crowd);
	uint32_t lock_calls = crowd.members[0].count[COUNT_LOCK_CALLS];
	assert_int_equal(crowd.members[0].count[COUNT_SLEEPS], 0);
	(void)crowd_end(&crowd, CROWD_KILLED);
	return lock_calls;
}

static void test_cost_beside_the_dead(void **state)
{
	struct crowd crowd;
	uint32_t count = size_max();

	(void)state;
	(void)unlink(path);
	assert_in_range(lone_joiner(), 1, LOCK_CALLS_MAX); /* makes it */
	assert_in_range(lone_joiner(), 1, LOCK_CALLS_MAX); /* beside one dead */
	assert_int_equal(crowd_gather(&crowd, count, act, NULL), 0);
	step_or_fail(&crowd);
	assert_in_range(lone_joiner(), 1, LOCK_CALLS_MAX); /* beside the living */
	(void)crowd_end(&crowd, CROWD_KILLED);
	for (int i = 0; i < 20; i++)
		assert_in_range(lone_joiner(), 1, LOCK_CALLS_MAX); /* beside the dead */
	emptiness_check();
}

static pid_t joiner_start(bool stops)
{
	struct berth_region_spec spec;
	struct berth_region *region = NULL;
	struct berth_reason reason = { "" };
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#ifdef BERTH_CRASH_POINTS
	if (stops)
		berth_crash_arm(BERTH_CRASH_birth_sized, BERTH_CRASH_STOP, 1);
#else
	(void)stops;
#endif
	spec_fill(&spec);
	int r = berth_region_join(path, &spec, 0, &region, NULL, &reason);
	if (r < 0)
		(void)fprintf(stderr, "storm: %s\n", reason.text);
	_exit(r < 0);
}

/* 0, or 1 if one of the two could not join. */
static int joiners_overlap(void)
{
	int first_status = 0;
	int second_status = 0;
	pid_t first = joiner_start(true);

	if (first < 0 || waitpid(first, &first_status, WUNTRACED) != first)
		return 1;
	pid_t second = joiner_start(false);
	__real_berth_sleep_ns(300 * BERTH_NS_PER_MS, UINT64_MAX); /* it meets no space meanwhile */
	if (WIFSTOPPED(first_status)) {
		(void)kill(first, SIGCONT);
		if (waitpid(first, &first_status, 0) != first)
			return 1;
	}
	if (second < 0 || waitpid(second, &second_status, 0) != second)
		return 1;
	return first_status != 0 || second_status != 0;
}

static int crowds_overlap(void)
{
	struct berth_reason reason = { "" };
	struct crowd crowd;
	int r = 0;

	for (int i = 0; r == 0 && i < 10; i++) {
		(void)unlink(path);
		r = crowd_gather(&crowd, 64, act, NULL);
		if (r == 0)
			r = crowd_step(&crowd, &reason);
		(void)crowd_end(&crowd, CROWD_KILLED);
	}
	if (r < 0)
		(void)fprintf(stderr, "storm: %s\n", reason.text);
	return r < 0;
}

/* Room for one region and not for two: whoever comes while one is being made must not be told that
 * the place is full. In a mount namespace of its own, in a child. */
static int little_room(void)
{
	char dir[] = "/tmp/berth-storm-XXXXXX";

	if (!mkdtemp(dir))
		return 1;
	int r = 77;
	if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("storm", dir, "tmpfs", 0, "size=4m") == 0) {
		(void)snprintf(path, sizeof path, "%s/storm.cache", dir);
		r = joiners_overlap() || crowds_overlap();
		(void)umount2(dir, MNT_DETACH); /* goes with the namespace anyhow */
	}
	(void)rmdir(dir); /* a left-over does no harm */
	return r;
}

static void test_little_room(void **state)
{
	int status = 0;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(little_room());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* may not mount here */
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_storms),
		cmocka_unit_test(test_full_house),
		cmocka_unit_test(test_cost_beside_the_dead),
		cmocka_unit_test(test_little_room),
	};

	(void)snprintf(path, sizeof path, "%s/berth-storm-%ld.cache",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path); /* made by the test */
	return failed;
}
