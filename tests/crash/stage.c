/* SPDX-License-Identifier: Apache-2.0
 *
 * See stage.h.
 */
#include "stage.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/snapshot.h"

enum { OTHER_ASKS = 50 };

#ifdef __SANITIZE_THREAD__
enum { CROWDS = false }; /* a fork costs a hundred times as much */
#else
enum { CROWDS = true };
#endif

/* Who walks which points: by the beginning of what crash_points.def says of where they are. The
 * first that fits. */
static const char *const suites[][2] = {
	{ "region/birth", "birth" }, { "region/limits", "limits" },
	{ "region/", "region" },     { "account/", "account" },
	{ "lock/", "recordlock" },   { "interpose/probe", "host_pid_crash.sh of tests/e2e" },
};

static const struct {
	const char *name;
	const char *where;
} points[] = {
#define CRASH_POINT(name, where) { #name, where },
#include "base/crash_points.def"
#undef CRASH_POINT
};

struct stage stage;

/* Kept over all plays. */
static struct lasting {
	struct board board;
	_Atomic uint64_t slowest_ns;
	_Atomic uint32_t slowest_point;
} * lasting;

int stage_setup(void **state)
{
	(void)state;
	(void)snprintf(stage.dir, sizeof stage.dir, "%s/berth-crash-XXXXXX",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	lasting = mmap(NULL, sizeof *lasting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (lasting == MAP_FAILED || !mkdtemp(stage.dir))
		return -1;
	stage.board = &lasting->board;
	(void)snprintf(stage.path, sizeof stage.path, "%s/region.cache", stage.dir);
	stage_clear();
	return 0;
}

/* There is something only after a failure. */
static void left_remove(void)
{
	DIR *dir = opendir(stage.dir);

	if (!dir)
		return;
	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
		(void)unlinkat(dirfd(dir), entry->d_name, 0); /* all but "." and ".." */
	(void)closedir(dir);                                  /* only read */
}

int stage_teardown(void **state)
{
	(void)state;
	stage_print_slowest();
	left_remove();
	return rmdir(stage.dir);
}

void stage_clear(void)
{
	memset(stage.board, 0, sizeof *stage.board);
	left_remove();
	stage.brought_bytes = LIMIT;
	stage.may_be_refused = false;
}

struct berth_region_spec stage_spec(uint64_t limit_bytes)
{
	struct berth_region_spec spec = { .share_name = "crash", .gpu_count = 2, .priority = 1 };

	memcpy(spec.gpus[0].uuid, "GPU-one", sizeof "GPU-one");
	memcpy(spec.gpus[1].uuid, "GPU-two", sizeof "GPU-two");
	spec.gpus[0].memory_limit_bytes = limit_bytes;
	return spec;
}

void stage_region_make(void)
{
	struct berth_region_spec spec = stage_spec(LIMIT);
	struct berth_region *region = NULL;
	struct berth_reason reason = { "" };

	if (berth_region_join(stage.path, &spec, 0, &region, NULL, &reason) < 0)
		FAIL("no region: %s", reason.text);
	berth_region_close(region);
}

int stage_enter(uint64_t limit_bytes, unsigned flags, struct berth_region **ret_region,
		struct berth_seat **ret_seat)
{
	struct berth_region_spec spec = stage_spec(limit_bytes);
	struct berth_reason reason = { "" };
	int r = berth_region_join(stage.path, &spec, flags, ret_region, NULL, &reason);

	if (r == 0)
		r = berth_seat_claim(*ret_region, 0, ret_seat, NULL, &reason);
	if (r < 0)
		(void)fprintf(stderr, "crash: %s\n", reason.text);
	return r < 0 ? 10 : 0;
}

void stage_leave(struct berth_region *region, struct berth_seat *seat)
{
	berth_seat_leave(seat);
	berth_region_close(region);
}

int stage_ask(struct berth_seat *seat, uint64_t bytes)
{
	return berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, bytes);
}

void stage_refund(struct berth_seat *seat, uint64_t bytes)
{
	berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, bytes);
}

void stage_wait_for(const _Atomic bool *flag)
{
	while (!atomic_load(flag))
		berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
}

pid_t stage_fork(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* can't fail */
	return pid;
}

pid_t stage_start(int (*body)(void))
{
	pid_t pid = stage_fork();

	if (pid == 0)
		_exit(body());
	return pid;
}

int stage_state_of(pid_t pid, const char *who)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);
	int status = 0;

	while (waitpid(pid, &status, WNOHANG | WUNTRACED) == 0) {
		if (berth_deadline_passed(deadline_ns)) {
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, NULL, 0);
			FAIL("%s never came to an end", who);
		}
		berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
	}
	return status;
}

void stage_end_well(pid_t pid, const char *who)
{
	int status = stage_state_of(pid, who);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("%s ended with status %#x", who, (unsigned)status);
}

pid_t stage_start_stopped(int (*body)(void), const char *who)
{
	pid_t pid = stage_start(body);

	if (!WIFSTOPPED(stage_state_of(pid, who)))
		FAIL("%s didn't stop", who);
	return pid;
}

void stage_continue(pid_t pid, const char *who)
{
	if (pid == 0)
		return;
	(void)kill(pid, SIGCONT);
	stage_end_well(pid, who);
}

bool stage_reaches(pid_t pid, const _Atomic bool *flag, int *ret_status)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);

	while (!atomic_load(flag)) {
		if (waitpid(pid, ret_status, WNOHANG | WUNTRACED) == pid)
			return false;
		if (berth_deadline_passed(deadline_ns))
			FAIL("process %ld got no answer", (long)pid);
		berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
	}
	return true;
}

bool stage_was_hit(int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return true;
	if (!WIFSTOPPED(status) && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
		FAIL("the victim ended with status %#x", (unsigned)status);
	return WIFSTOPPED(status);
}

static struct {
	enum berth_crash_point point;
	enum berth_crash_action action;
} rearmed;

/* Runs before the process goes on at its crash point. */
static void rearm(int signal)
{
	(void)signal;
	berth_crash_arm(rearmed.point, rearmed.action, 1);
}

void stage_rearm_on_continue(enum berth_crash_point point, enum berth_crash_action action)
{
	struct sigaction handler = { .sa_handler = rearm, .sa_flags = (int)SA_RESETHAND };

	rearmed.point = point;
	rearmed.action = action;
	(void)sigaction(SIGCONT, &handler, NULL); /* can't fail */
}

static int other_run(uint32_t number)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = stage_enter(stage.brought_bytes, 0, &region, &seat);

	for (uint64_t i = 0; r == 0 && !atomic_load(&stage.board->ended); i++) {
		uint64_t bytes = MIB / 16 + i % 7;
		int refused = stage_ask(seat, bytes);

		if (refused == 0)
			stage_refund(seat, bytes);
		else if (!stage.may_be_refused || refused != -ENOMEM)
			r = 11; /* there is always room for this */
		atomic_fetch_add(&stage.board->asks[number], 1);
		if (i % 16 == 0)
			berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
	}
	stage_leave(region, seat);
	return r;
}

void stage_others_start(void)
{
	for (uint32_t i = 0; i < stage.other_count; i++) {
		pid_t pid = stage_fork();

		if (pid == 0)
			_exit(other_run(i));
		stage.others[i] = pid;
	}
}

void stage_others_go_on(void)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);
	uint64_t before[OTHERS_MAX];

	for (uint32_t i = 0; i < stage.other_count; i++)
		before[i] = atomic_load(&stage.board->asks[i]);
	for (uint32_t i = 0; i < stage.other_count; i++) {
		while (atomic_load(&stage.board->asks[i]) < before[i] + OTHER_ASKS) {
			if (berth_deadline_passed(deadline_ns))
				FAIL("other %u is held up", i);
			berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
		}
	}
}

void stage_others_end(void)
{
	atomic_store(&stage.board->ended, true);
	for (uint32_t i = 0; i < stage.other_count; i++)
		stage_end_well(stage.others[i], "an other");
}

static void answer_note(uint64_t *start_ns)
{
	uint64_t now_ns = berth_clock_ns();
	uint64_t slowest_ns = atomic_load(&lasting->slowest_ns);
	uint64_t ns = now_ns - *start_ns;

	*start_ns = now_ns;
	while (ns > slowest_ns &&
	       !atomic_compare_exchange_weak(&lasting->slowest_ns, &slowest_ns, ns))
		;
	if (ns > slowest_ns)
		atomic_store(&lasting->slowest_point, (uint32_t)stage.point);
}

void stage_print_slowest(void)
{
	uint64_t ns = atomic_load(&lasting->slowest_ns);

	if (ns > 0)
		print_message("the longest that a newcomer waited for one answer: %llu us, at %s\n",
			      (unsigned long long)(ns / BERTH_NS_PER_US),
			      berth_crash_point_names[atomic_load(&lasting->slowest_point)]);
}

static uint64_t next_bytes;

/* What may be asked of a share, one thing after the other. */
static int next_work(struct berth_region *region, struct berth_seat *seat)
{
	struct berth_snapshot *taken = NULL;
	struct berth_ledger_room room = { 0 };
	uint64_t start_ns = berth_clock_ns();
	int r = stage_ask(seat, next_bytes);

	answer_note(&start_ns);
	if (r < 0)
		return 21;
	if (stage_ask(seat, 2 * LIMIT) != -ENOMEM)
		return 22;
	answer_note(&start_ns);
	stage_refund(seat, next_bytes);
	answer_note(&start_ns);
	if (berth_ledger_room(region, 0, &room) < 0)
		return 23;
	answer_note(&start_ns);
	if (berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken) < 0)
		return 24;
	answer_note(&start_ns);
	berth_snapshot_free(taken);
	r = berth_seat_reap_all(region);
	answer_note(&start_ns);
	return r < 0 ? 25 : 0;
}

static int next_check(struct berth_region *region)
{
	struct berth_reason reason = { "" };

	if (berth_region_check(region, &reason) == 0)
		return 0;
	(void)fprintf(stderr, "crash: %s\n", reason.text);
	return 20;
}

static int next_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	uint64_t start_ns = berth_clock_ns();
	int r = stage_enter(stage.brought_bytes, 0, &region, &seat);

	answer_note(&start_ns);
	if (r == 0)
		r = next_check(region);
	if (r == 0)
		r = next_work(region, seat);
	if (r == 0)
		r = next_check(region);
	stage_leave(region, seat);
	return r;
}

void stage_next_gets(uint64_t bytes)
{
	next_bytes = bytes;
	stage_end_well(stage_start(next_run), "the next");
}

void stage_all_is_free(void)
{
	struct berth_region *region = NULL;
	struct berth_ledger_room room = { 0 };
	struct berth_reason reason = { "" };

	if (berth_region_join(stage.path, NULL, 0, &region, NULL, &reason) < 0)
		FAIL("%s", reason.text);
	if (berth_ledger_room(region, 0, &room) < 0 || room.charged_bytes != 0)
		FAIL("%llu bytes stay charged", (unsigned long long)room.charged_bytes);
	if (berth_seat_reap_all(region) < 0)
		FAIL("the dead can't be reaped");
	if (berth_region_check(region, &reason) < 0)
		FAIL("%s", reason.text);
	struct berth_snapshot *taken = NULL;
	if (berth_snapshot_take(region, 0, &taken) < 0 || taken->seat_count != 0)
		FAIL("a seat is left over");
	if (taken->anomaly_count != 0)
		FAIL("a figure had to be clamped");
	berth_snapshot_free(taken);
	berth_region_close(region);
	assert_int_equal(unlink(stage.path), 0);
}

void stage_rounds(void **state, void (*play)(void))
{
	static const enum berth_crash_action actions[] = { BERTH_CRASH_KILL, BERTH_CRASH_STOP };
	const char *procs = getenv("PROCS");
	long more = procs ? strtol(procs, NULL, 10) : 0;
	uint32_t counts[4] = { 1, 8 };
	size_t count_count = 2;

	if (CROWDS)
		counts[count_count++] = 64;
	if (more > 0)
		counts[count_count++] = more > OTHERS_MAX ? OTHERS_MAX : (uint32_t)more;
	stage.point = (enum berth_crash_point)(uintptr_t)*state;
	for (size_t i = 0; i < 2; i++) {
		stage.action = actions[i];
		for (size_t k = 0; k < count_count; k++) {
			stage.other_count = counts[k];
			play();
		}
	}
}

/* The suite's index, or -1. */
static const char *suite_of(const char *where)
{
	for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
		if (strncmp(where, suites[i][0], strlen(suites[i][0])) == 0)
			return suites[i][1];
	}
	return NULL;
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (fnmatch(argv[i], name, 0) == 0)
			return true;
	}
	return argc < 2;
}

int stage_main(int argc, char **argv, const char *where, CMUnitTestFunction play)
{
	struct CMUnitTest tests[BERTH_CRASH_COUNT];
	size_t count = 0;

	for (uintptr_t i = 0; i < BERTH_CRASH_COUNT; i++) {
		const char *suite = suite_of(points[i].where);

		if (!suite) {
			(void)fprintf(stderr, "%s: no suite walks \"%s\"; stage.c names them\n",
				      points[i].name, points[i].where);
			return 1;
		}
		if (strcmp(suite, where) != 0 || !wanted(points[i].name, argc, argv))
			continue;
		tests[count++] = (struct CMUnitTest){
			.name = points[i].name,
			.test_func = play,
			.initial_state = (void *)i,
		};
	}
	return _cmocka_run_group_tests(where, tests, count, stage_setup, stage_teardown);
}
