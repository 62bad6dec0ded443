/* SPDX-License-Identifier: Apache-2.0
 *
 * Other people's habits: programs open and close the region's file, close every descriptor there is
 * and use the numbers again, run out of descriptors, drop their rights, change their root. Whatever
 * they do, on each kind of file system: their seat is alive for others, their asks are granted and
 * refused as before, the dead are told from the living, and no descriptor of theirs is used or closed.
 *
 * Three processes: an observer with a seat; a neighbour with 300 MiB, which dies in the middle; and
 * the program, with 600 MiB. The program stops itself after each of its steps.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "child.h"
#include "place.h"
#include "region/ledger.h"
#include "scratch.h"

enum { FD_MAX = 4096, NOBODY = 65534 };

/* The program's standard error may be closed: where it went wrong is noted in shared memory. */
static struct notes {
	_Atomic int line;
	_Atomic int released; /* children that outlive the program may end */
} * notes;

#define MUST(condition)                                 \
	do {                                            \
		if (!(condition)) {                     \
			if (!notes->line)               \
				notes->line = __LINE__; \
			return 1;                       \
		}                                       \
	} while (0)

struct program {
	char path[PATH_MAX];
	struct berth_region *region;
	struct berth_seat *seat;
	int region_fds[16]; /* what the library keeps open of the file, if anything */
	int region_fd_count;
	struct stat foreign[FD_MAX]; /* st_ino 0: not ours to look at */
	int foreign_pipe;            /* its reading end: nothing may ever come */
};

struct habit {
	const char *name;
	int (*form)(struct program *program);
	bool needs_root;
	bool blind; /* neither descriptor nor path is left: the dead can't be told from the living */
};

static int open_and_close(struct program *program)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	for (int i = 0; i < 3; i++) {
		int fd = open(program->path, O_RDWR | O_CLOEXEC);
		void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

		MUST(fd >= 0 && page != MAP_FAILED);
		MUST(i != 1 || fcntl(fd, F_SETLK, &lock) == 0);
		MUST(i != 2 || flock(fd, LOCK_EX) == 0);
		MUST(munmap(page, 4096) == 0 && close(fd) == 0);
	}
	return 0;
}

static int close_from_3(struct program *program)
{
	(void)program;
	MUST(syscall(SYS_close_range, 3U, ~0U, 0U) == 0);
	return 0;
}

static int close_range_all(struct program *program)
{
	(void)program;
	MUST(syscall(SYS_close_range, 0U, ~0U, 0U) == 0);
	return 0;
}

/* As daemons do it: each number up to the limit. */
static int close_each(struct program *program)
{
	long max = sysconf(_SC_OPEN_MAX);

	(void)program;
	for (int fd = 0; fd < max && fd < 1 << 20; fd++)
		(void)close(fd);
	return 0;
}

static int foreign_put(struct program *program, int source, int fd)
{
	MUST(fd < FD_MAX && dup2(source, fd) == fd);
	MUST(fstat(fd, &program->foreign[fd]) == 0);
	return 0;
}

static int close_and_reuse(struct program *program)
{
	int ends[2];

	MUST(close_range_all(program) == 0);
	int null = open("/dev/null", O_RDWR);
	MUST(null == 0 && pipe2(ends, O_NONBLOCK) == 0);
	program->foreign_pipe = ends[0];
	MUST(fstat(null, &program->foreign[null]) == 0 &&
	     fstat(ends[0], &program->foreign[ends[0]]) == 0 &&
	     fstat(ends[1], &program->foreign[ends[1]]) == 0);
	for (int fd = 3; fd < 64; fd++)
		MUST(foreign_put(program, fd % 2 ? null : ends[1], fd) == 0);
	for (int i = 0; i < program->region_fd_count; i++)
		MUST(foreign_put(program, ends[1], program->region_fds[i]) == 0);
	return 0;
}

static int run_out_of_descriptors(struct program *program)
{
	struct rlimit none = { 0, 0 };

	MUST(setrlimit(RLIMIT_NOFILE, &none) == 0);
	MUST(open(program->path, O_RDONLY) < 0 && errno == EMFILE);
	return 0;
}

static int drop_rights(struct program *program)
{
	MUST(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
	MUST(open(program->path, O_RDONLY) < 0 && errno == EACCES);
	return 0;
}

static void directory_of(const char *path, char ret_dir[PATH_MAX])
{
	(void)snprintf(ret_dir, PATH_MAX, "%.*s", (int)(strrchr(path, '/') - path), path);
}

static int lose_the_directory(struct program *program)
{
	char dir[PATH_MAX];

	directory_of(program->path, dir);
	MUST(chmod(program->path, 0666) == 0 && chmod(dir, 0700) == 0);
	return drop_rights(program);
}

static int change_root(struct program *program)
{
	char dir[PATH_MAX];

	directory_of(program->path, dir);
	(void)strncat(dir, "/empty", sizeof(dir) - strlen(dir) - 1);
	MUST((mkdir(dir, 0755) == 0 || errno == EEXIST) && chroot(dir) == 0 && chdir("/") == 0);
	MUST(open(program->path, O_RDONLY) < 0 && errno == ENOENT);
	return 0;
}

/* Nothing is left to ask with. */
static int close_and_change_root(struct program *program)
{
	MUST(change_root(program) == 0);
	return close_range_all(program);
}

static int reuse_and_run_out(struct program *program)
{
	MUST(close_and_reuse(program) == 0);
	struct rlimit none = { 0, 0 };
	MUST(setrlimit(RLIMIT_NOFILE, &none) == 0);
	return 0;
}

static int wait_ended(pid_t pid)
{
	int status = -1;

	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* A child that has no handler of the C library run for it, and the same descriptors. */
static int shared_table_child_closes(struct program *program)
{
	(void)program;
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_FILES, 0, 0, 0, 0);
	if (pid == 0) {
		(void)syscall(SYS_close_range, 3U, ~0U, 0U);
		syscall(SYS_exit_group, 0);
	}
	MUST(pid > 0 && wait_ended(pid) == 0);
	return 0;
}

static int child_closes(struct program *program)
{
	pid_t pid = fork();

	(void)program;
	if (pid == 0) {
		(void)syscall(SYS_close_range, 3U, ~0U, 0U);
		_exit(0);
	}
	MUST(pid > 0 && wait_ended(pid) == 0);
	return 0;
}

/* Has copies of all that is open, and outlives the program. */
static int raw_child_stays(struct program *program)
{
	(void)program;
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		for (int i = 0; i < 30000 && !notes->released; i++)
			(void)usleep(1000);
		syscall(SYS_exit_group, 0);
	}
	MUST(pid > 0);
	return 0;
}

static const struct habit habits[] = {
	{ .name = "opens and closes the file", .form = open_and_close },
	{ .name = "closefrom(3)", .form = close_from_3 },
	{ .name = "closes all at once", .form = close_range_all },
	{ .name = "closes each number", .form = close_each },
	{ .name = "closes all, uses the numbers again", .form = close_and_reuse },
	{ .name = "runs out of descriptors", .form = run_out_of_descriptors },
	{ .name = "drops its rights", .form = drop_rights, .needs_root = true },
	{ .name = "loses the directory", .form = lose_the_directory, .needs_root = true },
	{ .name = "changes its root", .form = change_root, .needs_root = true },
	{ .name = "closes all and changes its root",
	  .form = close_and_change_root,
	  .needs_root = true,
	  .blind = true },
	{ .name = "uses all numbers and runs out", .form = reuse_and_run_out, .blind = true },
	{ .name = "has a child with the same table close all", .form = shared_table_child_closes },
	{ .name = "has a child close all", .form = child_closes },
	{ .name = "has a raw child that stays", .form = raw_child_stays },
};

static int foreign_untouched(const struct program *program)
{
	char byte;
	struct stat now;

	for (int fd = 0; fd < FD_MAX; fd++) {
		if (program->foreign[fd].st_ino == 0)
			continue;
		MUST(fstat(fd, &now) == 0 && now.st_ino == program->foreign[fd].st_ino &&
		     now.st_rdev == program->foreign[fd].st_rdev);
	}
	if (program->foreign_pipe >= 0)
		MUST(read(program->foreign_pipe, &byte, 1) < 0 && errno == EAGAIN);
	return 0;
}

/* Which descriptors lead to the region. */
static int region_fds_find(struct program *program)
{
	struct stat file;
	struct stat st;

	MUST(stat(program->path, &file) == 0);
	for (int fd = 0; fd < FD_MAX; fd++) {
		if (fstat(fd, &st) < 0 || st.st_ino != file.st_ino || st.st_dev != file.st_dev)
			continue;
		MUST(program->region_fd_count < 16);
		MUST(fd > STDERR_FILENO && fcntl(fd, F_GETFD) & FD_CLOEXEC);
		program->region_fds[program->region_fd_count++] = fd;
	}
	return 0;
}

/* In a fork child: letting go of what it inherited closes nothing of the program's. */
static int child_forgets(struct program *program)
{
	berth_seat_forget(program->seat);
	berth_region_forget(program->region);
	return foreign_untouched(program);
}

static int program_run(struct program *program, const struct habit *habit)
{
	struct rlimit room = { FD_MAX, FD_MAX };

	(void)setrlimit(RLIMIT_NOFILE, &room); /* keeps closing each number short */
	program->foreign_pipe = -1;
	MUST(berth_region_join(program->path, NULL, 0, &program->region, NULL, NULL) == 0);
	MUST(berth_seat_claim(program->region, 0, &program->seat, NULL, NULL) == 0);
	MUST(berth_ledger_ask(program->seat, 0, BERTH_CHARGE_DATA, 600 * MIB) == 0);
	MUST(region_fds_find(program) == 0);
	MUST(habit->form(program) == 0);
	/* The neighbour lives. */
	MUST(berth_ledger_ask(program->seat, 0, BERTH_CHARGE_DATA, 125 * MIB) == -ENOMEM);
	MUST(berth_ledger_ask(program->seat, 0, BERTH_CHARGE_DATA, 124 * MIB) == 0);
	berth_ledger_refund(program->seat, 0, BERTH_CHARGE_DATA, 124 * MIB);
	(void)raise(SIGSTOP);
	/* It has died. */
	int r = berth_ledger_ask(program->seat, 0, BERTH_CHARGE_DATA, 424 * MIB);
	MUST(r == (habit->blind ? -ENOMEM : 0));
	if (r == 0)
		berth_ledger_refund(program->seat, 0, BERTH_CHARGE_DATA, 424 * MIB);
	MUST(foreign_untouched(program) == 0);
	pid_t pid = fork();
	if (pid == 0)
		_exit(child_forgets(program));
	MUST(pid > 0 && wait_ended(pid) == 0);
	(void)raise(SIGSTOP);
	berth_seat_leave(program->seat);
	berth_region_close(program->region);
	return foreign_untouched(program);
}

static int neighbour_run(void *arg)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	MUST(berth_region_join(arg, NULL, 0, &region, NULL, NULL) == 0);
	MUST(berth_seat_claim(region, 0, &seat, NULL, NULL) == 0);
	MUST(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 300 * MIB) == 0);
	(void)raise(SIGSTOP);
	return 0;
}

struct observer {
	const struct habit *habit;
	char path[PATH_MAX];
	struct berth_region *region;
	struct berth_seat *seat;
	bool program_dies; /* in the end; else it leaves */
	pid_t neighbour;
	pid_t program;
};

static int stopped(pid_t pid)
{
	int status = 0;

	CHILD_CHECK(waitpid(pid, &status, WUNTRACED) == pid);
	if (!WIFSTOPPED(status))
		dprintf(2, "it ended with 0x%x at line %d\n", (unsigned)status, notes->line);
	CHILD_CHECK(WIFSTOPPED(status));
	return 0;
}

/* The kernel may be a few milliseconds late with an overlay's locks. */
static int gone_soon(const struct observer *observer, uint32_t index)
{
	uint64_t deadline_ns = berth_deadline_after(10 * BERTH_NS_PER_S);
	int alive = 1;

	while ((alive = berth_seat_alive(observer->region, index)) == 1 &&
	       !berth_deadline_passed(deadline_ns))
		(void)usleep(100);
	CHILD_CHECK(alive == 0);
	return 0;
}

static uint64_t charged(const struct observer *observer)
{
	struct berth_ledger_room room = { 0 };

	return berth_ledger_room(observer->region, 0, &room) < 0 ? UINT64_MAX : room.charged_bytes;
}

static int program_is_there(const struct observer *observer, uint64_t others_bytes)
{
	uint64_t left_bytes = 424 * MIB - others_bytes;

	CHILD_CHECK(berth_seat_alive(observer->region, 2) == 1);
	CHILD_CHECK(berth_seat_reap(observer->region, 2) == 0);
	CHILD_CHECK(charged(observer) == 600 * MIB + others_bytes);
	CHILD_CHECK(berth_ledger_ask(observer->seat, 0, BERTH_CHARGE_DATA, left_bytes + 1) ==
		    -ENOMEM);
	CHILD_CHECK(berth_ledger_ask(observer->seat, 0, BERTH_CHARGE_DATA, left_bytes) == 0);
	berth_ledger_refund(observer->seat, 0, BERTH_CHARGE_DATA, left_bytes);
	return 0;
}

static int observe(struct observer *observer)
{
	pid_t neighbour = child_start(neighbour_run, observer->path);
	int status = 0;

	observer->neighbour = neighbour;
	CHILD_CHECK(!stopped(neighbour));
	pid_t pid = fork();
	observer->program = pid;
	if (pid == 0) {
		struct program *program = calloc(1, sizeof *program);

		memcpy(program->path, observer->path, sizeof program->path);
		_exit(program_run(program, observer->habit));
	}
	CHILD_CHECK(!stopped(pid));
	CHILD_CHECK(!program_is_there(observer, 300 * MIB));
	CHILD_CHECK(kill(neighbour, SIGKILL) == 0 && child_end(neighbour) == -SIGKILL);
	CHILD_CHECK(!gone_soon(observer, 1));
	CHILD_CHECK(kill(pid, SIGCONT) == 0 && !stopped(pid));
	CHILD_CHECK(!program_is_there(observer, 0));
	CHILD_CHECK(kill(pid, observer->program_dies ? SIGKILL : SIGCONT) == 0);
	CHILD_CHECK(waitpid(pid, &status, 0) == pid);
	if (!observer->program_dies && status != 0)
		dprintf(2, "the program went wrong at line %d\n", notes->line);
	CHILD_CHECK(observer->program_dies || status == 0);
	CHILD_CHECK(!gone_soon(observer, 2));
	CHILD_CHECK(charged(observer) == 0);
	return 0;
}

static int observer_run(struct observer *observer)
{
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_reason reason = { "" };

	*notes = (struct notes){ 0 };
	CHILD_CHECK(!berth_region_join(observer->path, &spec, 0, &observer->region, NULL, NULL));
	CHILD_CHECK(!berth_seat_claim(observer->region, 0, &observer->seat, NULL, NULL));
	int r = observe(observer);
	notes->released = 1;
	if (r) { /* else both have ended */
		(void)kill(observer->neighbour, SIGKILL);
		(void)kill(observer->program, SIGKILL);
	}
	if (r == 0 && berth_region_check(observer->region, &reason) < 0) {
		dprintf(2, "%s\n", reason.text);
		r = 1;
	}
	berth_seat_leave(observer->seat);
	berth_region_close(observer->region);
	return r;
}

struct visit {
	const struct scratch *scratch;
	enum place_kind kind;
};

static int visit_run(void *arg)
{
	const struct visit *visit = arg;
	char place[PATH_MAX];

	if (place_make(visit->kind, visit->scratch->dir, place) < 0)
		CHILD_SKIP("no such file system can be mounted here");
	for (size_t i = 0; i < 2 * sizeof(habits) / sizeof(habits[0]); i++) {
		struct observer observer = { .habit = &habits[i / 2], .program_dies = i % 2 };

		if (observer.habit->needs_root && geteuid() != 0) {
			dprintf(2, "needs root, left out: %s\n", observer.habit->name);
			continue;
		}
		(void)snprintf(observer.path, sizeof observer.path, "%.*s/%zu/r.cache",
			       PATH_MAX - 32, place, i);
		char dir[PATH_MAX];
		directory_of(observer.path, dir);
		CHILD_CHECK(mkdir(dir, 0755) == 0);
		if (observer_run(&observer)) {
			dprintf(2, "on %s, a program that %s and %s\n", place_name(visit->kind),
				observer.habit->name, i % 2 ? "dies" : "leaves");
			return 1;
		}
	}
	return 0;
}

static void visit_place(struct scratch *scratch, enum place_kind kind)
{
	struct visit visit = { scratch, kind };
	struct child_result result;

	child_run_ok(visit_run, &visit, &result);
}

static void every_habit_on_the_disk(void **state)
{
	visit_place(*state, PLACE_DISK);
}

static void every_habit_on_a_tmpfs(void **state)
{
	visit_place(*state, PLACE_TMPFS);
}

static void every_habit_on_an_overlay(void **state)
{
	visit_place(*state, PLACE_OVERLAY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_habit_on_the_disk),
		TEST(every_habit_on_a_tmpfs),
		TEST(every_habit_on_an_overlay),
	};

	notes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (notes == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests_name("manners: habits", tests, NULL, NULL);
}
