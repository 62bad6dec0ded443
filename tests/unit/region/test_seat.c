/* SPDX-License-Identifier: Apache-2.0
 *
 * Seats: who is alive, whoever closes what; the dead are empty at once, and never fill the table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "region/layout.h"
#include "region/ledger.h"
#include "region/snapshot.h"
#include "scratch.h"

/* What a child is to do once it has a seat and has been granted some bytes. */
struct sitter {
	const char *path;
	uint64_t bytes;
	int (*then)(void);
};

static int sit(void *arg)
{
	struct sitter *sitter = arg;
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (berth_region_join(sitter->path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0)
		return 100;
	if (berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, sitter->bytes) < 0)
		return 101;
	return sitter->then();
}

static int then_stop(void)
{
	(void)raise(SIGSTOP);
	return 0;
}

static int then_die(void)
{
	(void)raise(SIGKILL);
	return 102;
}

static int then_exec(void)
{
	(void)execl("/bin/sleep", "sleep", "60", (char *)NULL);
	return 103;
}

/* Starts a sitter that stops itself once it sits. */
static pid_t sitter_start(struct sitter *sitter)
{
	int status = 0;
	pid_t pid = child_start(sit, sitter);

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static void sitter_kill(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(child_end(pid), -SIGKILL);
}

/* A stopped process is alive and keeps its bytes; a killed one neither. */
static void test_death_frees(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *seat = claim_or_fail(region);
	struct sitter sitter = { scratch->path, 600 * MIB, then_stop };
	pid_t pid = sitter_start(&sitter);

	assert_int_equal(berth_seat_alive(region, 1), 1);
	assert_int_equal(berth_seat_reap(region, 1), 0);
	assert_int_equal(charged_bytes(region, 0), 600 * MIB);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 425 * MIB), -ENOMEM);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 424 * MIB), 0);
	sitter_kill(pid);
	assert_int_equal(berth_seat_alive(region, 1), 0);
	assert_int_equal(charged_bytes(region, 0), 424 * MIB);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 600 * MIB), 0);
	check_or_fail(region);
	berth_seat_leave(seat);
	berth_region_close(region);
}

static void test_reap(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct sitter sitter = { scratch->path, MIB, then_die };

	assert_int_equal(berth_seat_reap(region, 0), 0); /* never used */
	assert_int_equal(child_end(child_start(sit, &sitter)), -SIGKILL);
	assert_int_equal(berth_seat_reap(region, 0), 1);
	assert_int_equal(berth_seat_reap(region, 0), 0);
	check_or_fail(region);

	struct sitter stopped = { scratch->path, MIB, then_stop };
	pid_t pids[5];
	for (int i = 0; i < 5; i++)
		pids[i] = sitter_start(&stopped);
	for (int i = 0; i < 4; i++)
		sitter_kill(pids[i]);
	assert_int_equal(berth_seat_reap_all(region), 4);
	assert_int_equal(berth_seat_reap_all(region), 0);
	assert_int_equal(charged_bytes(region, 0), MIB);
	sitter_kill(pids[4]);
	assert_int_equal(berth_seat_reap(region, BERTH_SEAT_MAX), -EINVAL);
	assert_int_equal(berth_seat_alive(region, BERTH_SEAT_MAX), -EINVAL);
	berth_region_close(region);
}

static void test_exec_frees(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct sitter sitter = { scratch->path, MIB, then_exec };
	pid_t pid = child_start(sit, &sitter);
	int alive = 1;

	/* Seated at some moment, and no longer when sleep runs. The watchdog bounds this. */
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		struct berth_snapshot *taken = NULL;

		assert_int_equal(berth_snapshot_take(region, 0, &taken), 0);
		bool seated = taken->seat_count == 1;
		berth_snapshot_free(taken);
		alive = berth_seat_alive(region, 0);
		if (seated && alive == 0)
			break;
	}
	assert_int_equal(alive, 0);
	assert_int_equal(charged_bytes(region, 0), 0);
	sitter_kill(pid);
	berth_region_close(region);
}

static int descriptor_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	assert_int_equal(closedir(dir), 0);
	return count;
}

/* The program opens and closes the same file, and everything else: the seat stays. */
static void test_foreign_closes(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	int before = descriptor_count();
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *seat = claim_or_fail(region);

	/* One is kept to ask about others with; it carries no lock. */
	if (before + 1 != descriptor_count()) {
		print_message("the lock's descriptor stays open on this file system: skipped\n");
		berth_seat_leave(seat);
		berth_region_close(region);
		skip();
	}
	int fd = open(scratch->path, O_RDWR | O_CLOEXEC);
	assert_int_equal(close(fd), 0);
	assert_int_equal(berth_seat_alive(region, 0), 1);
	pid_t pid = fork();
	if (pid == 0) {
		/* As a daemon does: no descriptor is spared. */
		struct berth_region *own = NULL;
		struct berth_seat *own_seat = NULL;

		berth_seat_forget(seat);
		berth_region_forget(region);
		if (berth_region_join(scratch->path, NULL, 0, &own, NULL, NULL) < 0 ||
		    berth_seat_claim(own, 0, &own_seat, NULL, NULL) < 0)
			_exit(1);
		if (syscall(SYS_close_range, 3U, ~0U, 0U) < 0)
			for (int i = 3; i < 1024; i++)
				(void)close(i);
		_exit(berth_seat_index(own_seat) == 1 && berth_seat_alive(own, 1) == 1 ? 0 : 2);
	}
	assert_int_equal(child_end(pid), 0);
	assert_int_equal(berth_seat_alive(region, 1), 0);
	berth_seat_leave(seat);
	assert_int_equal(berth_seat_alive(region, 0), 0);
	berth_region_close(region);
}

static void test_one_seat_per_region(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *seat = claim_or_fail(region);
	struct berth_seat *second = NULL;
	struct berth_region *view = NULL;

	assert_int_equal(berth_seat_claim(region, 0, &second, NULL, NULL), -EBUSY);
	assert_null(second);
	assert_int_equal(berth_region_view(scratch->path, &view, NULL), 0);
	assert_int_equal(berth_seat_claim(view, 0, &second, NULL, NULL), -EROFS);
	assert_int_equal(berth_seat_alive(view, 0), 1);
	assert_int_equal(berth_seat_reap(view, 0), -EROFS);
	berth_region_close(view);
	berth_seat_leave(seat);
	seat = claim_or_fail(region); /* after leaving: a new one */
	berth_seat_leave(seat);
	berth_seat_leave(NULL);
	berth_region_close(region);
}

/* The path leads elsewhere by now: liveness can't be asked, which is said, and nothing is given
 * away. */
static void test_path_replaced(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(100);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *seat = claim_or_fail(region);

	assert_int_equal(unlink(scratch->path), 0);
	assert_int_equal(berth_seat_alive(region, 0), -ENOENT);
	berth_region_close(join_or_fail(scratch->path, &spec));
	assert_int_equal(berth_seat_alive(region, 0), -ESTALE);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 100), 0);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1), -ENOMEM);
	berth_seat_leave(seat);
	berth_region_close(region);
}

/* A seat with a status that we didn't write: named, not counted, not taken from it. */
static void test_foreign_seat(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	static const int32_t high = 1;
	static const int32_t status = 1;
	static const int32_t pid = 4242;
	int fd = open(scratch->path, O_RDWR | O_CLOEXEC);

	assert_int_equal(pwrite(fd, &pid, 4, 1856), 4);
	assert_int_equal(pwrite(fd, &status, 4, 1856 + 1928), 4);
	assert_int_equal(pwrite(fd, &high, 4, 2008896), 4);
	assert_int_equal(close(fd), 0);
	struct berth_seat *seat = claim_or_fail(region);
	assert_int_equal(berth_seat_index(seat), 1);
	assert_int_equal(berth_seat_reap_all(region), 0);
	struct berth_snapshot *taken = NULL;
	assert_int_equal(berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken), 0);
	assert_int_equal(taken->seat_count, 2);
	assert_true(taken->seats[0].foreign);
	assert_int_equal(taken->seats[0].pid, 4242);
	assert_false(taken->seats[1].foreign);
	berth_snapshot_free(taken);
	berth_seat_leave(seat);
	berth_region_close(region);
}

/* One process may hold as many seats as it has region objects: enough to fill the table. */
static void test_table_full_of_living(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region **regions = calloc(BERTH_SEAT_MAX, sizeof(struct berth_region *));
	struct berth_seat **seats = calloc(BERTH_SEAT_MAX, sizeof(struct berth_seat *));
	bool *taken = calloc(BERTH_SEAT_MAX, sizeof *taken);
	struct berth_seat *none = NULL;
	struct berth_reason reason = { "" };

	for (int i = 0; i < BERTH_SEAT_MAX; i++) {
		regions[i] = join_or_fail(scratch->path, &spec);
		seats[i] = claim_or_fail(regions[i]);
		assert_false(taken[berth_seat_index(seats[i])]);
		taken[berth_seat_index(seats[i])] = true;
	}
	struct berth_region *late = join_or_fail(scratch->path, &spec);
	assert_int_equal(berth_seat_claim(late, 0, &none, NULL, &reason), -EUSERS);
	assert_non_null(strstr(reason.text, scratch->path));
	assert_non_null(strstr(reason.text, "1024"));
	uint32_t freed = berth_seat_index(seats[700]);
	berth_seat_leave(seats[700]);
	seats[700] = NULL;
	struct berth_seat *seat = claim_or_fail(late);
	assert_int_equal(berth_seat_index(seat), freed);
	check_or_fail(late);
	berth_seat_leave(seat);
	berth_region_close(late);
	for (int i = 0; i < BERTH_SEAT_MAX; i++) {
		berth_seat_leave(seats[i]);
		berth_region_close(regions[i]);
	}
	free(regions);
	free(seats);
	free(taken);
}

#ifdef __SANITIZE_THREAD__
enum { DEATH_COUNT = 100 }; /* a fork costs a hundred times as much */
#else
enum { DEATH_COUNT = 3 * BERTH_SEAT_MAX };
#endif

/* Three times the table of start-and-SIGKILL: every join goes well, the dead one's bytes are gone
 * at the next query, and the dead don't pile up. */
static void test_three_tables_of_dead(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct sitter sitter = { scratch->path, MIB, then_die };

	for (int i = 0; i < DEATH_COUNT; i++) {
		assert_int_equal(child_end(child_start(sit, &sitter)), -SIGKILL);
		assert_int_equal(charged_bytes(region, 0), 0);
	}
	struct berth_snapshot *taken = NULL;
	assert_int_equal(berth_snapshot_take(region, 0, &taken), 0);
	assert_true(taken->seat_count < 16);
	berth_snapshot_free(taken);
	check_or_fail(region);
	berth_region_close(region);
}

/* All 1024 dead at once: the next joiner takes a dead one's place. */
static int sit_everywhere(void *arg)
{
	for (int i = 0; i < BERTH_SEAT_MAX; i++) {
		struct berth_region *region = NULL;
		struct berth_seat *seat = NULL;

		if (berth_region_join(arg, NULL, 0, &region, NULL, NULL) < 0 ||
		    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0 ||
		    berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, MIB) < 0)
			return 1;
	}
	return then_die();
}

static void test_table_full_of_dead(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat_claimed claimed = { 0 };
	struct berth_seat *seat = NULL;

	assert_int_equal(child_end(child_start(sit_everywhere, scratch->path)), -SIGKILL);
	assert_int_equal(charged_bytes(region, 0), 0);
	assert_int_equal(berth_seat_claim(region, 0, &seat, &claimed, NULL), 0);
	assert_int_equal(claimed.index, berth_seat_index(seat));
	assert_int_equal(claimed.reaped_count, 1); /* only what it needs */
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1024 * MIB), 0);
	check_or_fail(region);
	/* An ask that was in need of room has emptied what stood in its way. */
	assert_int_equal(berth_seat_reap_all(region), 0);
	berth_seat_leave(seat);
	berth_region_close(region);
}

struct refusers {
	const char *path;
	_Atomic uint32_t *open;
};

static int ask_200(void *arg)
{
	struct refusers *refusers = arg;
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (berth_region_join(refusers->path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0)
		return 100;
	atomic_fetch_add(refusers->open, 1);
	while (atomic_load(refusers->open) < 8)
		(void)usleep(100);
	int r = berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 200 * MIB);
	atomic_fetch_add(refusers->open, 1);
	while (atomic_load(refusers->open) < 16) /* nobody gives back before all have asked */
		(void)usleep(100);
	return r == 0;
}

/* One dead process with 600M of 1024M, eight ask for 200M at once: five get it, in every round. */
static void test_eight_find_one_dead(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	_Atomic uint32_t *open =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (int round = 0; round < 50; round++) {
		struct berth_region *region = join_or_fail(scratch->path, &spec);
		struct sitter sitter = { scratch->path, 600 * MIB, then_die };
		struct refusers refusers = { scratch->path, open };
		pid_t pids[8];
		int granted = 0;

		assert_int_equal(child_end(child_start(sit, &sitter)), -SIGKILL);
		atomic_store(open, 0);
		for (int i = 0; i < 8; i++)
			pids[i] = child_start(ask_200, &refusers);
		for (int i = 0; i < 8; i++)
			granted += child_end(pids[i]);
		assert_int_equal(granted, 5);
		check_or_fail(region);
		berth_region_close(region);
		assert_int_equal(unlink(scratch->path), 0);
	}
	assert_int_equal(munmap(open, 4096), 0);
}

/* On overlayfs a mapping pins the file below, not the open file with our lock. */
static int overlay_mount(const char *dir)
{
	char path[4][PATH_MAX];
	char options[3 * PATH_MAX + 64];
	static const char *const names[] = { "lower", "upper", "work", "merged" };

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", dir, "tmpfs", 0, NULL) < 0)
		return -1;
	for (int i = 0; i < 4; i++) {
		(void)snprintf(path[i], sizeof path[i], "%s/%s", dir, names[i]);
		if (mkdir(path[i], 0700) < 0)
			return -1;
	}
	(void)snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s,workdir=%s", path[0],
		       path[1], path[2]);
	return mount("overlay", path[3], "overlay", 0, options);
}

static int live_on_overlay(void *arg)
{
	struct scratch *scratch = arg;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	char path[PATH_MAX];

	if (overlay_mount(scratch->dir) < 0)
		return 77;
	(void)snprintf(path, sizeof path, "%s/merged/region.cache", scratch->dir);
	if (berth_region_join(path, &spec, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0)
		return 1;
	if (berth_seat_alive(region, 0) != 1)
		return 2;
	struct sitter sitter = { path, 600 * MIB, then_die };
	if (child_end(child_start(sit, &sitter)) != -SIGKILL)
		return 3;
	uint64_t deadline_ns = berth_deadline_after(10 * BERTH_NS_PER_S);
	while (berth_seat_alive(region, 1) != 0 && !berth_deadline_passed(deadline_ns))
		(void)usleep(100); /* the kernel may be some milliseconds late (pin.h) */
	if (berth_seat_alive(region, 1) != 0 || charged_bytes(region, 0) != 0)
		return 4;
	/* A child of ours that forgets the seat neither keeps nor ends it. */
	pid_t son = fork();
	if (son == 0) {
		berth_seat_forget(seat);
		berth_region_forget(region);
		(void)pause();
		_exit(0);
	}
	int alive = berth_seat_alive(region, 0);
	berth_seat_leave(seat);
	deadline_ns = berth_deadline_after(10 * BERTH_NS_PER_S);
	while (berth_seat_alive(region, 0) != 0 && !berth_deadline_passed(deadline_ns))
		(void)usleep(100); /* until the son has come to forget it */
	int alive_after = berth_seat_alive(region, 0);
	(void)kill(son, SIGKILL);
	(void)child_end(son);
	berth_region_close(region);
	return alive == 1 && alive_after == 0 ? 0 : 5;
}

static void test_overlay(void **state)
{
	int status = child_end(child_start(live_on_overlay, *state));

	if (status == 77) {
		print_message("can't mount an overlay here: skipped\n");
		skip();
	}
	assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_death_frees),          TEST(test_reap),
		TEST(test_exec_frees),           TEST(test_foreign_closes),
		TEST(test_one_seat_per_region),  TEST(test_path_replaced),
		TEST(test_foreign_seat),         TEST(test_table_full_of_living),
		TEST(test_three_tables_of_dead), TEST(test_table_full_of_dead),
		TEST(test_eight_find_one_dead),  TEST(test_overlay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
