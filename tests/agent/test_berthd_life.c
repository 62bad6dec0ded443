/* SPDX-License-Identifier: Apache-2.0
 *
 * How berthd begins and ends: sockets that are its own, found, handed over or refused; privileges; the file of
 * the probe lock; options.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/attributes.h"
#include "base/pid_broker.h"
#include "stage.h"

#define EXIT_FAILED       1
#define EXIT_USAGE        2
#define EXIT_OTHER_SERVES 3

/* Each test finds no node directory. */
static int setup(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s other", stage_node);
	return system(command);
}

static struct stat stat_of(const char *path)
{
	struct stat st = { 0 };

	if (lstat(path, &st) != 0)
		fail_msg("%s: %s", path, strerror(errno));
	return st;
}

static void named(char *ret_path, size_t size, const char *name)
{
	snprintf(ret_path, size, "%s/%s", stage_node, name);
}

static int entry_count(const char *dir_path)
{
	DIR *dir = opendir(dir_path);
	int count = 0;

	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
		count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(dir);
	return count;
}

static void odd_umask(void *arg)
{
	umask(*(const mode_t *)arg);
}

static void test_made(void **state)
{
	static const mode_t masks[] = { 0, 022, 077, 0777 };
	struct stage_daemon daemon;
	char lock[200];

	named(lock, sizeof(lock), "probe.lock");
	for (size_t i = 0; i < BERTH_ARRAY_LEN(masks); i++) {
		mode_t mask = masks[i];
		struct stage_before before = { odd_umask, &mask };

		assert_int_equal(setup(state), 0);
		stage_start(&daemon, NULL, &before);
		assert_int_equal(stat_of(stage_node).st_mode, S_IFDIR | 0755);
		assert_int_equal(stat_of(stage_node).st_uid, 0);
		assert_int_equal(stat_of(stage_socket).st_mode, S_IFSOCK | 0666);
		assert_int_equal(stat_of(stage_socket).st_uid, 0);
		assert_int_equal(stat_of(lock).st_mode, S_IFREG | 0600);
		assert_int_equal(stat_of(lock).st_uid, 0);
		assert_int_equal(stat_of(lock).st_size, 0);
		/* Nothing else: no temporary name. */
		assert_int_equal(entry_count(stage_node), 2);
		assert_int_equal(stage_asks_right(stage_socket), 0);
		stage_stop(&daemon);
	}
}

static void many_groups(void *arg)
{
	gid_t groups[] = { 0, 4, 27, 1000 };

	(void)arg;
	(void)setgroups(BERTH_ARRAY_LEN(groups), groups);
}

static void status_is(pid_t pid, const char *name, const char *expected)
{
	char value[256];

	stage_status(pid, name, value, sizeof(value));
	value[strcspn(value, " ")] = '\0';
	if (strcmp(value, expected) != 0)
		fail_msg("%s is '%s', not '%s'", name, value, expected);
}

static void powerless(pid_t pid, const char *ids)
{
	static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapAmb" };

	status_is(pid, "Uid", ids);
	status_is(pid, "Gid", ids);
	status_is(pid, "Groups", "");
	status_is(pid, "NoNewPrivs", "1");
	status_is(pid, "Threads", "1");
	for (size_t i = 0; i < BERTH_ARRAY_LEN(sets); i++)
		status_is(pid, sets[i], "0000000000000000");
}

static void test_privileges(void **state)
{
	static const char *const as_number[] = { "--user", "12345", NULL };
	static const char *const as_root[] = { "--user", "root", NULL };
	static const char *const as_zero[] = { "--user", "0", NULL };
	static const char *const as_nobody_knows[] = { "--user", "nobody-knows", NULL };
	struct stage_before before = { many_groups, NULL };
	struct stage_daemon daemon;

	(void)state;
	stage_start(&daemon, NULL, &before);
	powerless(daemon.pid, "65534\t65534\t65534\t65534");
	assert_true(stage_log_has("runs as user 65534"));
	assert_int_equal(stage_asks_right(stage_socket), 0);
	stage_stop(&daemon);

	stage_start(&daemon, as_number, &before);
	powerless(daemon.pid, "12345\t12345\t12345\t12345");
	stage_stop(&daemon);

	/* And none of these leaves anything there. */
	assert_int_equal(setup(NULL), 0);
	assert_int_equal(stage_run(as_root, NULL), EXIT_FAILED);
	assert_int_equal(stage_run(as_zero, NULL), EXIT_FAILED);
	assert_true(stage_log_has("is root"));
	assert_int_equal(stage_run(as_nobody_knows, NULL), EXIT_FAILED);
	assert_true(stage_log_has("no user 'nobody-knows'"));
	assert_int_equal(access(stage_node, F_OK), -1);
}

static void test_ends(void **state)
{
	static const int ending[] = { SIGTERM, SIGINT, SIGHUP };
	struct stage_daemon daemon;

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ending); i++) {
		/* As one started by nohup(1), or in the background by a shell. */
		signal(ending[i], SIG_IGN);
		stage_start(&daemon, NULL, NULL);
		signal(ending[i], SIG_DFL);
		assert_int_equal(kill(daemon.pid, ending[i]), 0);
		assert_int_equal(stage_wait(daemon.pid), 0);
		assert_true(stage_told("STOPPING=1"));
		/* Nobody is there any more, which a client sees at once. */
		assert_int_equal(stage_ask(stage_socket), -ENOENT);
	}
}

/* What a dead one left is no obstacle, nor is it noticed: the name leads to the old one or the new one. */
static void test_restart(void **state)
{
	struct stage_daemon daemon;
	struct stat lock_before;
	char lock[200];
	ino_t before;

	(void)state;
	named(lock, sizeof(lock), "probe.lock");
	stage_start(&daemon, NULL, NULL);
	lock_before = stat_of(lock);
	for (int i = 0; i < 5; i++) {
		before = stat_of(stage_socket).st_ino;
		stage_kill(&daemon);
		assert_int_equal(stage_ask(stage_socket), -ENOENT);
		stage_start(&daemon, NULL, NULL);
		assert_int_not_equal(stat_of(stage_socket).st_ino, before);
		assert_int_equal(stage_asks_right(stage_socket), 0);
		assert_int_equal(entry_count(stage_node), 2);
	}
	/* Somebody may hold the lock. */
	assert_int_equal(stat_of(lock).st_ino, lock_before.st_ino);
	stage_stop(&daemon);
}

static void test_second(void **state)
{
	struct stage_daemon daemon;
	struct stat before;

	(void)state;
	stage_start(&daemon, NULL, NULL);
	before = stat_of(stage_socket);
	assert_int_equal(stage_run(NULL, NULL), EXIT_OTHER_SERVES);
	assert_true(stage_log_has("another broker listens there"));
	assert_int_equal(stat_of(stage_socket).st_ino, before.st_ino);
	assert_int_equal(entry_count(stage_node), 2);
	assert_int_equal(stage_asks_right(stage_socket), 0);
	/* One that is stopped, its queue not yet full, is alive. */
	assert_int_equal(kill(daemon.pid, SIGSTOP), 0);
	assert_int_equal(stage_run(NULL, NULL), EXIT_OTHER_SERVES);
	assert_int_equal(kill(daemon.pid, SIGCONT), 0);
	assert_int_equal(stage_asks_right(stage_socket), 0);
	stage_stop(&daemon);
}

static void refused(const char *word)
{
	assert_int_equal(stage_run(NULL, NULL), EXIT_FAILED);
	assert_true(stage_log_has(word));
}

static void test_directory(void **state)
{
	(void)state;
	assert_int_equal(mkdir("other", 0755), 0);
	assert_int_equal(symlink("other", stage_node), 0);
	refused("isn't followed");
	assert_int_equal(entry_count("other"), 0);
	assert_int_equal(unlink(stage_node), 0);

	assert_int_equal(mkdir(stage_node, 0755), 0);
	assert_int_equal(chown(stage_node, STAGE_NOBODY, 0), 0);
	refused("must belong to root");
	assert_int_equal(chown(stage_node, 0, 0), 0);
	assert_int_equal(chmod(stage_node, 0775), 0);
	refused("must belong to root");
	assert_int_equal(chmod(stage_node, 01777), 0);
	refused("must belong to root");
	assert_int_equal(entry_count(stage_node), 0);
	assert_int_equal(rmdir(stage_node), 0);

	assert_int_equal(close(creat(stage_node, 0644)), 0);
	refused(stage_node);
}

static void test_socket(void **state)
{
	char target[200];
	int fd;

	(void)state;
	named(target, sizeof(target), "target");
	assert_int_equal(mkdir(stage_node, 0755), 0);
	assert_int_equal(symlink("target", stage_socket), 0);
	refused("no socket of root's");
	assert_int_equal(stat_of(stage_socket).st_mode & S_IFMT, S_IFLNK);
	assert_int_equal(access(target, F_OK), -1);
	assert_int_equal(unlink(stage_socket), 0);

	fd = creat(stage_socket, 0644);
	assert_true(fd >= 0 && write(fd, "mine", 4) == 4 && close(fd) == 0);
	refused("no socket of root's");
	assert_int_equal(stat_of(stage_socket).st_size, 4);
	assert_int_equal(unlink(stage_socket), 0);

	assert_int_equal(mknod(stage_socket, S_IFSOCK | 0666, 0), 0);
	assert_int_equal(chown(stage_socket, STAGE_NOBODY, 0), 0);
	refused("no socket of root's");
	assert_int_equal(stat_of(stage_socket).st_uid, STAGE_NOBODY);
	/* Only what was there. */
	assert_int_equal(entry_count(stage_node), 1);
}

static void test_several(void **state)
{
	char first[200];
	char second[200];
	char third[200];
	const char *const three[] = {
		"--socket", first, "--socket", second, "--socket", third, NULL
	};
	const char *const relative[] = { "--socket", "node/broker.sock", NULL };
	const char *const no_name[] = { "--socket", "/tmp/", NULL };
	struct stage_daemon daemon;

	(void)state;
	named(first, sizeof(first), "a.sock");
	named(second, sizeof(second), "deep/hostpid/broker.sock");
	snprintf(third, sizeof(third), "%s/other/c.sock", stage_dir);
	stage_start(&daemon, three, NULL);
	assert_int_equal(stage_asks_right(first), 0);
	assert_int_equal(stage_asks_right(second), 0);
	assert_int_equal(stage_asks_right(third), 0);
	assert_int_equal(access(stage_socket, F_OK), -1);
	stage_stop(&daemon);

	/* If one can't be had, the others that are there by then go again; what isn't ours stays. */
	assert_int_equal(setup(NULL), 0);
	assert_int_equal(mkdir("other", 0777), 0);
	assert_int_equal(chmod("other", 0777), 0);
	assert_int_equal(stage_run(three, NULL), EXIT_FAILED);
	assert_int_equal(access(first, F_OK), -1);
	assert_int_equal(access(second, F_OK), -1);

	assert_int_equal(stage_run(relative, NULL), EXIT_FAILED);
	assert_true(stage_log_has("absolute path"));
	assert_int_equal(stage_run(no_name, NULL), EXIT_FAILED);
}

static void test_probe_lock(void **state)
{
	struct stage_daemon daemon;
	char target[200];
	char lock[200];

	(void)state;
	named(lock, sizeof(lock), "probe.lock");
	named(target, sizeof(target), "target");
	assert_int_equal(mkdir(stage_node, 0755), 0);
	assert_int_equal(symlink("target", lock), 0);
	stage_start(&daemon, NULL, NULL);
	assert_int_equal(access(target, F_OK), -1);
	assert_true(stage_log_has("without the file of the probe lock"));
	/* The broker does without. */
	assert_int_equal(stage_asks_right(stage_socket), 0);
	stage_stop(&daemon);
	assert_int_equal(unlink(lock), 0);

	assert_int_equal(close(creat(lock, 0600)), 0);
	assert_int_equal(chown(lock, STAGE_NOBODY, 0), 0);
	stage_start(&daemon, NULL, NULL);
	assert_true(stage_log_has("no file of root's alone"));
	assert_int_equal(stat_of(lock).st_uid, STAGE_NOBODY);
	stage_stop(&daemon);
}

/* A socket as systemd opens it, and who takes it over. */
struct handed_over {
	int fd;
	uid_t listener_uid; /* who listens */
	uid_t uid;          /* whose berthd is */
	const char *count;
	const char *pid; /* NULL: berthd's */
};

static void hand_over(void *arg)
{
	const struct handed_over *given = arg;
	char pid[16];

	if (given->fd >= 0)
		dup2(given->fd, 3);
	if (given->listener_uid != 0)
		(void)!seteuid(given->listener_uid);
	if (given->fd >= 0)
		(void)!listen(3, 128);
	(void)!seteuid(0);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", given->pid ? given->pid : pid, 1);
	setenv("LISTEN_FDS", given->count, 1);
	if (given->uid != 0 &&
	    (setgroups(0, NULL) != 0 || setgid(given->uid) != 0 || setuid(given->uid) != 0))
		_exit(125);
}

static int socket_bound(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)mkdir(stage_node, 0755);
	(void)unlink(stage_socket);
	memcpy(address.sun_path, stage_socket, strlen(stage_socket));
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(chmod(stage_socket, 0666), 0);
	return fd;
}

static void test_handed_over(void **state)
{
	struct handed_over given = { .uid = 4242, .count = "1" };
	struct stage_before before = { hand_over, &given };
	struct stage_daemon daemon;
	char lock[200];

	(void)state;
	named(lock, sizeof(lock), "probe.lock");
	/* To a user without rights. */
	given.fd = socket_bound();
	stage_start(&daemon, NULL, &before);
	powerless(daemon.pid, "4242\t4242\t4242\t4242");
	assert_int_equal(stage_asks_right(stage_socket), 0);
	/* It has no rights to make it, and doesn't need it. */
	assert_int_equal(access(lock, F_OK), -1);
	stage_stop(&daemon);
	/* systemd has the socket still, and starts the next one, which serves those who wait. */
	stage_start(&daemon, NULL, &before);
	assert_int_equal(stage_asks_right(stage_socket), 0);
	stage_stop(&daemon);

	/* To root, who gives his up. */
	given.uid = 0;
	stage_start(&daemon, NULL, &before);
	powerless(daemon.pid, "65534\t65534\t65534\t65534");
	assert_int_equal(stage_asks_right(stage_socket), 0);
	assert_int_equal(access(lock, F_OK), 0);
	stage_stop(&daemon);
	close(given.fd);
}

static void test_handed_over_badly(void **state)
{
	struct handed_over given = { .fd = -1, .count = "1" };
	struct stage_before before = { hand_over, &given };
	struct stage_daemon daemon;

	(void)state;
	/* One that nobody believes: berthd says so. */
	given.fd = socket_bound();
	given.listener_uid = STAGE_NOBODY;
	stage_start(&daemon, NULL, &before);
	assert_true(stage_log_has("clients won't believe"));
	assert_int_equal(stage_ask(stage_socket), -EPERM);
	stage_stop(&daemon);
	close(given.fd);
	given.listener_uid = 0;

	/* No listening socket. */
	given.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(stage_run(NULL, &before), EXIT_FAILED);
	assert_true(stage_log_has("no listening stream socket"));
	close(given.fd);
	given.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	given.count = "2";
	assert_int_equal(stage_run(NULL, &before), EXIT_FAILED);
	close(given.fd);
	given.fd = -1;
	given.count = "many";
	assert_int_equal(stage_run(NULL, &before), EXIT_FAILED);
	assert_true(stage_log_has("LISTEN_FDS"));

	/* Meant for another process: as if nothing was said. */
	assert_int_equal(setup(NULL), 0);
	given.pid = "1";
	stage_start(&daemon, NULL, &before);
	assert_int_equal(stage_asks_right(stage_socket), 0);
	stage_stop(&daemon);
}

static void as_nobody(void *arg)
{
	(void)arg;
	(void)!setuid(STAGE_NOBODY);
}

static void no_streams(void *arg)
{
	(void)arg;
	close(0);
	close(1);
	close(2);
}

static void test_surroundings(void **state)
{
	struct stage_before nobody = { as_nobody, NULL };
	struct stage_before streamless = { no_streams, NULL };
	struct stage_daemon daemon;
	char link[64] = "";
	char path[64];

	(void)state;
	assert_int_equal(stage_run(NULL, &nobody), EXIT_FAILED);
	assert_true(stage_log_has("only root can open"));

	stage_start(&daemon, NULL, &streamless);
	for (int fd = 0; fd <= 2; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", daemon.pid, fd);
		assert_true(readlink(path, link, sizeof(link) - 1) > 0);
		assert_string_equal(link, "/dev/null");
	}
	assert_int_equal(stage_asks_right(stage_socket), 0);
	stage_stop(&daemon);
}

static int in_other_namespace(void *arg)
{
	static const char *const bare[] = { "(bare)", NULL };

	(void)arg;
	if (unshare(CLONE_NEWPID) != 0)
		return 77;
	return stage_run(bare, NULL) == EXIT_FAILED ? 0 : 1;
}

static void test_namespace(void **state)
{
	int status = stage_wait(stage_fork(in_other_namespace, NULL));

	(void)state;
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
	assert_true(stage_log_has("isn't the host's own pid namespace"));
	assert_int_equal(access(stage_node, F_OK), -1);
}

static void test_options(void **state)
{
	static const char *const wrong[][3] = {
		{ "--sockets", NULL },
		{ "--socket", NULL },
		{ "operand", NULL },
		{ "-x", NULL },
	};
	static const char *const right[][2] = { { "--help", NULL }, { "--version", NULL } };
	const char *many[24] = { NULL };

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(wrong); i++) {
		assert_int_equal(stage_run(wrong[i], NULL), EXIT_USAGE);
		assert_true(stage_log_has("berthd --help"));
	}
	for (int i = 0; i < 17; i++)
		many[i] = "--socket=/nowhere/b.sock";
	assert_int_equal(stage_run(many, NULL), EXIT_USAGE);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(right); i++)
		assert_int_equal(stage_run(right[i], NULL), 0);
	assert_int_equal(access(stage_node, F_OK), -1);
	assert_int_equal(access("/nowhere", F_OK), -1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_made, setup),
		cmocka_unit_test_setup(test_privileges, setup),
		cmocka_unit_test_setup(test_ends, setup),
		cmocka_unit_test_setup(test_restart, setup),
		cmocka_unit_test_setup(test_second, setup),
		cmocka_unit_test_setup(test_directory, setup),
		cmocka_unit_test_setup(test_socket, setup),
		cmocka_unit_test_setup(test_several, setup),
		cmocka_unit_test_setup(test_probe_lock, setup),
		cmocka_unit_test_setup(test_handed_over, setup),
		cmocka_unit_test_setup(test_handed_over_badly, setup),
		cmocka_unit_test_setup(test_surroundings, setup),
		cmocka_unit_test_setup(test_namespace, setup),
		cmocka_unit_test_setup(test_options, setup),
	};
	int status = stage_begin(argc, argv);

	return status != 0 ? status
			   : cmocka_run_group_tests(tests, stage_group_setup, stage_group_teardown);
}
