/* SPDX-License-Identifier: Apache-2.0
 *
 * The node directory: which of the three places it is, and which are not believed. The parts with mounts
 * need root, and are left out without.
 */
#include "base/node_dir.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "child.h"

static char scratch[] = "/tmp/berth-test-node-XXXXXX";

static int group_setup(void **state)
{
	(void)state;
	return mkdtemp(scratch) && chmod(scratch, 0755) == 0 && chdir(scratch) == 0 ? 0 : -1;
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf %s", scratch);
	return system(command);
}

static int ask(char *ret_path, struct berth_reason *reason)
{
	reason->text[0] = '\0';
	return berth_node_dir(ret_path, BERTH_NODE_DIR_MAX, reason);
}

static int given_child(void *arg)
{
	struct berth_reason reason = { "" };
	char path[BERTH_NODE_DIR_MAX] = "before";
	char dir[128], link_path[128];
	char small[8] = "before";

	(void)arg;
	(void)snprintf(dir, sizeof(dir), "%s/given", scratch);
	(void)snprintf(link_path, sizeof(link_path), "%s/link", scratch);
	CHILD_CHECK(mkdir(dir, 0755) == 0);
	CHILD_CHECK(symlink(dir, link_path) == 0);

	setenv("BERTH_NODE_DIR", "not/absolute", 1);
	CHILD_CHECK(ask(path, &reason) == -EINVAL);
	CHILD_CHECK(strstr(reason.text, "BERTH_NODE_DIR") && strstr(reason.text, "not/absolute"));
	setenv("BERTH_NODE_DIR", link_path, 1);
	CHILD_CHECK(ask(path, &reason) == -ENOENT);
	setenv("BERTH_NODE_DIR", "/nowhere/at/all", 1);
	CHILD_CHECK(ask(path, &reason) == -ENOENT);
	CHILD_CHECK(strstr(reason.text, "/nowhere/at/all"));
	CHILD_CHECK(strcmp(path, "before") == 0);

	setenv("BERTH_NODE_DIR", dir, 1);
	if (geteuid() != 0) {
		CHILD_CHECK(ask(path, &reason) == -EPERM); /* ours is not root's */
		return 0;
	}
	CHILD_CHECK(ask(path, &reason) == 0);
	CHILD_CHECK(strcmp(path, dir) == 0);
	CHILD_CHECK(strcmp(berth_node_dir_of_hami(), dir) == 0);
	CHILD_CHECK(berth_node_dir(small, sizeof(small), &reason) == -ENAMETOOLONG);
	CHILD_CHECK(strcmp(small, "before") == 0);

	CHILD_CHECK(chmod(dir, 0777) == 0);
	CHILD_CHECK(ask(path, &reason) == -EPERM);
	CHILD_CHECK(strstr(reason.text, dir) && strstr(reason.text, "chmod"));
	CHILD_CHECK(chmod(dir, 0775) == 0);
	CHILD_CHECK(ask(path, &reason) == -EPERM);
	CHILD_CHECK(chmod(dir, 01777) == 0);
	CHILD_CHECK(ask(path, &reason) == 0);
	CHILD_CHECK(chown(dir, 4711, 0) == 0);
	CHILD_CHECK(ask(path, &reason) == -EPERM);
	CHILD_CHECK(strstr(reason.text, "4711"));
	return 0;
}

static void the_variable_wins_and_is_checked(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(given_child, NULL, &result);
}

/* In a mount namespace of its own. */
static int places_child(void *arg)
{
	struct berth_reason reason = { "" };
	char path[BERTH_NODE_DIR_MAX];

	(void)arg;
	if (unshare(CLONE_NEWNS) != 0)
		CHILD_SKIP("no mount namespace: not root, or not allowed here");
	CHILD_CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHILD_CHECK(mount("run", "/run", "tmpfs", 0, "mode=755") == 0);
	CHILD_CHECK(mount("tmp", "/tmp", "tmpfs", 0, "mode=1777") == 0);
	unsetenv("BERTH_NODE_DIR");

	CHILD_CHECK(ask(path, &reason) == -ENOENT);
	CHILD_CHECK(strstr(reason.text, "/run/berth") && strstr(reason.text, "BERTH_NODE_DIR"));
	CHILD_CHECK(mkdir("/run/berth", 0755) == 0); /* nobody else's: nothing is mounted there */
	CHILD_CHECK(ask(path, &reason) == -ENOENT);
	CHILD_CHECK(mkdir("/tmp/vgpulock", 0755) == 0);
	CHILD_CHECK(ask(path, &reason) == 0);
	CHILD_CHECK(strcmp(path, "/tmp/vgpulock") == 0);
	CHILD_CHECK(strcmp(berth_node_dir_of_hami(), "/tmp/vgpulock") == 0);
	CHILD_CHECK(chmod("/tmp/vgpulock", 0777) == 0);
	CHILD_CHECK(ask(path, &reason) == -EPERM);
	CHILD_CHECK(strstr(reason.text, "/tmp/vgpulock"));

	/* A bind mount of the same file system counts, too. */
	CHILD_CHECK(mkdir("/run/node", 0755) == 0);
	CHILD_CHECK(mount("/run/node", "/run/berth", NULL, MS_BIND, NULL) == 0);
	CHILD_CHECK(ask(path, &reason) == 0);
	CHILD_CHECK(strcmp(path, "/run/berth") == 0);
	/* One that is there but not to be trusted is no reason to take the next. */
	CHILD_CHECK(chmod("/run/berth", 0757) == 0);
	CHILD_CHECK(ask(path, &reason) == -EPERM);
	CHILD_CHECK(strstr(reason.text, "/run/berth"));
	return 0;
}

static void the_mounted_one_then_hamis(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(places_child, NULL, &result);
}

static void names_of_files(void **state)
{
	char path[32] = "before";

	(void)state;
	assert_int_equal(berth_node_dir_file("/run/berth", "probe.lock", path, sizeof(path)), 0);
	assert_string_equal(path, "/run/berth/probe.lock");
	assert_int_equal(berth_node_dir_file("/run/berth", "probe.lock", path, 21), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_variable_wins_and_is_checked),
		cmocka_unit_test(the_mounted_one_then_hamis),
		cmocka_unit_test(names_of_files),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
