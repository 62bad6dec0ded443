/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of different users in one region, where its mode allows it: they share one limit and see
 * each other's deaths. Where it doesn't: refused in words, the file untouched. Needs root, to become
 * others.
 *
 * fs.protected_regular belongs to the whole machine: for one test it is set to 2, and a guardian puts
 * it back when this process ends, however it does. Where it can't be set, its present value is used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actor.h"
#include "base/clock.h"
#include "region/ledger.h"
#include "region/snapshot.h"
#include "scratch.h"

enum { ANN = 61001, BOB = 61002, EVE = 61003, TEAM = 61100, OTHERS = 61200 };

static const char protected_regular[] = "/proc/sys/fs/protected_regular";

static int become(uid_t uid, gid_t gid)
{
	return setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
	       setresuid(uid, uid, uid) < 0;
}

/* One process of a user, and what it is to do. */
struct visitor {
	uid_t uid;
	gid_t gid;
	const char *path;
	mode_t mode; /* of a region that it makes */
	struct actor *actor;
};

static struct berth_region_spec spec_with(mode_t mode)
{
	struct berth_region_spec spec = spec_of(1024 * MIB);

	spec.mode = mode;
	return spec;
}

/* Exit status: 0, or errno of the refusal; what was said goes to standard error, unless it names
 * neither the file nor what to do. */
static int refusal_status(const char *path, int err, const struct berth_reason *reason)
{
	if (err == 0)
		return 0;
	return strstr(reason->text, path) && strstr(reason->text, "choose another path") ? -err
											 : 250;
}

static int make_run(void *arg)
{
	const struct visitor *visitor = arg;
	struct berth_region_spec spec = spec_with(visitor->mode);
	struct berth_region *region = NULL;
	struct berth_reason reason = { "" };

	if (become(visitor->uid, visitor->gid))
		return 251;
	return refusal_status(visitor->path,
			      berth_region_join(visitor->path, &spec, 0, &region, NULL, &reason),
			      &reason);
}

static int join_run(void *arg)
{
	const struct visitor *visitor = arg;
	struct berth_region *region = NULL;
	struct berth_reason reason = { "" };

	if (become(visitor->uid, visitor->gid))
		return 251;
	return refusal_status(visitor->path,
			      berth_region_join(visitor->path, NULL, 0, &region, NULL, &reason),
			      &reason);
}

static int act_run(void *arg)
{
	const struct visitor *visitor = arg;

	if (become(visitor->uid, visitor->gid))
		return 251;
	return actor_obey(visitor->actor, visitor->path);
}

static int in_child(int (*body)(void *), const struct visitor *visitor)
{
	return child_end(child_start(body, (void *)(uintptr_t)visitor));
}

static void needs_root(void)
{
	if (geteuid() != 0) {
		print_message("needs root: skipped\n");
		skip();
	}
}

static void directory_mode(const struct scratch *scratch, mode_t mode, uid_t owner)
{
	assert_int_equal(chown(scratch->dir, owner, 0), 0);
	assert_int_equal(chmod(scratch->dir, mode), 0);
}

struct cast {
	struct visitor visitors[3];
	pid_t pids[3];
	struct actor *actors;
};

static void cast_start(struct cast *cast, const char *path, gid_t gid)
{
	static const uid_t uids[] = { ANN, BOB, EVE };

	cast->actors = actors_make();
	for (int i = 0; i < 3; i++) {
		cast->visitors[i] = (struct visitor){
			.uid = uids[i],
			.gid = gid,
			.path = path,
			.actor = &cast->actors[i],
		};
		cast->pids[i] = child_start(act_run, &cast->visitors[i]);
		actor_await(&cast->actors[i]);
	}
}

/* Ann dies: Bob finds her dead, empties her seat, and he and Eve share the room. */
static void share_and_bury(struct cast *cast)
{
	struct actor *ann = &cast->actors[0];
	struct actor *bob = &cast->actors[1];
	struct actor *eve = &cast->actors[2];

	for (int i = 0; i < 3; i++)
		assert_int_equal(actor_do(&cast->actors[i], ACTOR_ASK, 300 * MIB), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(actor_do(&cast->actors[i], ACTOR_ASK, 125 * MIB), -ENOMEM);
		assert_int_equal(actor_do(&cast->actors[i], ACTOR_CHARGED, 0), 900 * MIB);
		assert_int_equal(actor_do(&cast->actors[i], ACTOR_REAP, 0), 0);
	}
	assert_int_equal(kill(cast->pids[0], SIGKILL), 0);
	assert_int_equal(child_end(cast->pids[0]), -SIGKILL);
	assert_int_equal(actor_do(bob, ACTOR_ALIVE, ann->seat), 0);
	assert_int_equal(actor_do(bob, ACTOR_ALIVE, eve->seat), 1);
	assert_int_equal(actor_do(bob, ACTOR_REAP, 0), 1);
	assert_int_equal(actor_do(eve, ACTOR_ASK, 424 * MIB), 0);
	assert_int_equal(actor_do(bob, ACTOR_ASK, 1), -ENOMEM);
	/* Found by an ask in need, without being told to empty anything. */
	assert_int_equal(kill(cast->pids[1], SIGKILL), 0);
	assert_int_equal(child_end(cast->pids[1]), -SIGKILL);
	assert_int_equal(actor_do(eve, ACTOR_ASK, 300 * MIB), 0);
	assert_int_equal(actor_do(eve, ACTOR_CHARGED, 0), 1024 * MIB);
	assert_int_equal(kill(cast->pids[2], SIGKILL), 0);
	assert_int_equal(child_end(cast->pids[2]), -SIGKILL);
}

static void test_shared_by_all(void **state)
{
	struct scratch *scratch = *state;
	struct cast cast;

	needs_root();
	directory_mode(scratch, 0755, 0);
	struct berth_region_spec spec = spec_with(0666);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	cast_start(&cast, scratch->path, OTHERS);
	share_and_bury(&cast);
	assert_int_equal(charged_bytes(region, 0), 0);
	check_or_fail(region);
	berth_region_close(region);
	actors_free(cast.actors);
}

static struct stat stat_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st;
}

static void test_shared_by_a_group(void **state)
{
	struct scratch *scratch = *state;
	struct visitor maker = { .uid = ANN, .gid = TEAM, .path = scratch->path, .mode = 0660 };
	struct visitor stranger = { .uid = EVE, .gid = OTHERS, .path = scratch->path };
	struct cast cast;

	needs_root();
	directory_mode(scratch, 0777, 0);
	assert_int_equal(in_child(make_run, &maker), 0);
	struct stat before = stat_of(scratch->path);
	assert_int_equal(before.st_mode & 0777, 0660);
	assert_int_equal(before.st_gid, TEAM);
	assert_int_equal(in_child(join_run, &stranger), EACCES);
	assert_int_equal(in_child(make_run, &stranger), EACCES);
	struct stat after = stat_of(scratch->path);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(after.st_mode, before.st_mode);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
	cast_start(&cast, scratch->path, TEAM);
	share_and_bury(&cast);
	actors_free(cast.actors);
}

static void test_not_shared(void **state)
{
	struct scratch *scratch = *state;
	struct visitor maker = { .uid = ANN, .gid = TEAM, .path = scratch->path };
	struct visitor other = { .uid = BOB, .gid = TEAM, .path = scratch->path };

	needs_root();
	directory_mode(scratch, 0777, 0);
	assert_int_equal(in_child(make_run, &maker), 0);
	struct stat before = stat_of(scratch->path);
	assert_int_equal(before.st_mode & 0777, 0600);
	assert_int_equal(in_child(join_run, &other), EACCES);
	assert_int_equal(in_child(make_run, &other), EACCES);
	struct stat after = stat_of(scratch->path);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
	assert_int_equal(in_child(join_run, &maker), 0);
}

static int protected_read(void)
{
	char text[16] = "";
	int fd = open(protected_regular, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	ssize_t length = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	return length > 0 ? (int)strtol(text, NULL, 10) : -1;
}

static bool protected_write(int value)
{
	int fd = open(protected_regular, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && dprintf(fd, "%d\n", value) > 0;

	if (fd >= 0)
		(void)close(fd);
	return written && protected_read() == value;
}

/* Puts the value back when the test closes the pipe, or ends. */
static pid_t guardian_start(int value, int *ret_fd)
{
	int ends[2];
	char byte;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(ends[1]);
		(void)setsid(); /* what is meant for the test's group is not for it */
		while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
			;
		_exit(!protected_write(value));
	}
	(void)close(ends[0]);
	*ret_fd = ends[1];
	return pid;
}

static void visits_to_a_sticky_directory(const struct scratch *scratch)
{
	struct visitor ann = { .uid = ANN, .gid = OTHERS, .path = scratch->path, .mode = 0666 };
	struct visitor bob = { .uid = BOB, .gid = OTHERS, .path = scratch->path, .mode = 0666 };
	struct visitor root = { .path = scratch->path, .mode = 0666 };

	/* The directory's owner has put it there: anyone may come, also with limits of his own. */
	directory_mode(scratch, 01777, ANN);
	assert_int_equal(in_child(make_run, &ann), 0);
	assert_int_equal(in_child(join_run, &bob), 0);
	assert_int_equal(in_child(make_run, &bob), 0);
	assert_int_equal(in_child(make_run, &root), 0);
	/* In root's directory it is a third user's, who could lift the limit later. */
	directory_mode(scratch, 01777, 0);
	assert_int_equal(in_child(join_run, &bob), EPERM);
	assert_int_equal(in_child(make_run, &bob), EPERM);
	assert_int_equal(in_child(make_run, &root), EPERM);
	assert_int_equal(in_child(make_run, &ann), 0);
	assert_int_equal(stat_of(scratch->path).st_uid, ANN);
	/* Root's own is believed by all. */
	assert_int_equal(unlink(scratch->path), 0);
	assert_int_equal(in_child(make_run, &root), 0);
	assert_int_equal(in_child(join_run, &bob), 0);
	assert_int_equal(in_child(make_run, &ann), 0);
}

static void test_sticky_directory(void **state)
{
	struct scratch *scratch = *state;
	int before = protected_read();
	int hold = -1;

	needs_root();
	pid_t guardian = guardian_start(before, &hold);
	if (before < 0 || !protected_write(2))
		print_message("%s can't be set: tested with %d\n", protected_regular, before);
	visits_to_a_sticky_directory(scratch);
	assert_int_equal(close(hold), 0);
	int status = child_end(guardian);
	if (before >= 0) {
		assert_int_equal(protected_read(), before);
		assert_true(status == 0 || protected_read() == before);
	}
}

struct look {
	const char *path;
	uint32_t living;
	uint32_t dead;
	uint64_t charged_bytes;
};

/* A user who may only read. */
static int view_run(void *arg)
{
	const struct look *look = arg;
	struct berth_region *region = NULL;
	struct berth_snapshot *taken = NULL;

	if (become(EVE, OTHERS))
		return 251;
	if (berth_region_join(look->path, NULL, 0, &region, NULL, NULL) != -EACCES)
		return 1;
	if (berth_region_view(look->path, &region, NULL) < 0)
		return 2;
	if (berth_seat_alive(region, look->living) != 1 ||
	    berth_seat_alive(region, look->dead) != 0)
		return 3;
	if (berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken) < 0)
		return 4;
	for (uint32_t i = 0; i < taken->seat_count; i++) {
		if (taken->seats[i].alive != (taken->seats[i].index == look->living))
			return 5;
	}
	if (taken->seat_count != 2 || taken->gpus[0].charged_bytes != look->charged_bytes)
		return 6;
	if (berth_seat_reap_all(region) != -EROFS)
		return 7;
	return 0;
}

static void test_reader(void **state)
{
	struct scratch *scratch = *state;
	struct actor *actors = actors_make();
	struct visitor ann = { .path = scratch->path, .actor = &actors[0] };
	struct visitor bob = { .path = scratch->path, .actor = &actors[1] };

	needs_root();
	directory_mode(scratch, 0755, 0);
	struct berth_region_spec spec = spec_with(0644);
	berth_region_close(join_or_fail(scratch->path, &spec));
	pid_t first = child_start(act_run, &ann);
	actor_await(&actors[0]);
	pid_t second = child_start(act_run, &bob);
	actor_await(&actors[1]);
	assert_int_equal(actor_do(&actors[0], ACTOR_ASK, 300 * MIB), 0);
	assert_int_equal(actor_do(&actors[1], ACTOR_ASK, 200 * MIB), 0);
	assert_int_equal(kill(second, SIGKILL), 0);
	assert_int_equal(child_end(second), -SIGKILL);
	struct look look = { scratch->path, actors[0].seat, actors[1].seat, 300 * MIB };
	assert_int_equal(child_end(child_start(view_run, &look)), 0);
	assert_int_equal(kill(first, SIGKILL), 0);
	assert_int_equal(child_end(first), -SIGKILL);
	actors_free(actors);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_shared_by_all), TEST(test_shared_by_a_group),
		TEST(test_not_shared),    TEST(test_sticky_directory),
		TEST(test_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
