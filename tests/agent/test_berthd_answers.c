/* SPDX-License-Identifier: Apache-2.0
 *
 * What berthd is for: whoever asks learns his own pid, as berthd's side knows it, from any pid namespace, as any
 * user, alone or 300 at once, 20,000 times over.
 *
 *	ASKS=100000 test_berthd_answers build/bin/berthd	asks more often (default 10000)
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/attributes.h"
#include "stage.h"

#define CROWD    300
#define PARALLEL 16

static struct stage_daemon daemon_;

static int setup(void **state)
{
	(void)state;
	stage_start(&daemon_, NULL, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	stage_stop(&daemon_);
	return 0;
}

static int asks_right(void *arg)
{
	return stage_asks_right(arg);
}

static int asks_as_nobody(void *arg)
{
	if (setgid(STAGE_NOBODY) != 0 || setuid(STAGE_NOBODY) != 0)
		return 2;
	return stage_asks_right(arg);
}

static void test_own_pid(void **state)
{
	(void)state;
	assert_int_equal(stage_ask(stage_socket), getpid());
	assert_int_equal(stage_wait(stage_fork(asks_right, stage_socket)), 0);
	assert_int_equal(stage_wait(stage_fork(asks_as_nobody, stage_socket)), 0);
}

/* Byte for byte, as another implementation's client does it; and in two pieces. */
static void test_bytes(void **state)
{
	static const char request[] = { 'H', 'P', 'I', 'D', 0, 1, 0, 1 };

	(void)state;
	for (size_t cut = 0; cut < sizeof(request); cut++) {
		unsigned char reply[64];
		int fd = stage_connect(stage_socket, true);

		assert_true(fd >= 0);
		assert_int_equal(send(fd, request, cut, 0), (int)cut);
		if (cut > 0)
			usleep(5000);
		assert_int_equal(send(fd, request + cut, sizeof(request) - cut, 0),
				 (int)(sizeof(request) - cut));
		/* One reply, then the end. */
		assert_int_equal(recv(fd, reply, sizeof(reply), MSG_WAITALL), 12);
		assert_memory_equal(reply, "HPID\0\1\0\0", 8);
		assert_int_equal((int)reply[8] << 24 | (int)reply[9] << 16 | (int)reply[10] << 8 |
					 (int)reply[11],
				 getpid());
		close(fd);
	}
}

/* As a container has it: the node directory mounted into it, read-only. */
static int asks_through_mount(void *arg)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/mounted", stage_dir);
	if (unshare(CLONE_NEWNS | CLONE_NEWPID) != 0 ||
	    mount("", "/", "", MS_REC | MS_PRIVATE, "") != 0 || mkdir(path, 0755) != 0 ||
	    mount(stage_node, path, "", MS_BIND, "") != 0 ||
	    mount("", path, "", MS_REMOUNT | MS_BIND | MS_RDONLY, "") != 0)
		return 77;
	snprintf(path, sizeof(path), "%s/mounted/probe.lock", stage_dir);
	if (open(path, O_RDWR | O_CLOEXEC) >= 0 || errno != EROFS)
		return 2;
	snprintf(path, sizeof(path), "%s/mounted/broker.sock", stage_dir);
	(void)arg;
	return stage_asks_right(path);
}

static void test_mounted(void **state)
{
	int status = stage_wait(stage_fork(asks_through_mount, NULL));

	(void)state;
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

/* Where all the answers of a family are put together; [i] = the i-th child's. */
static pid_t *answers;

static int answer_write(void *arg)
{
	pid_t *ret_answer = arg;

	*ret_answer = stage_ask(stage_socket);
	return getpid() == 1 ? 0 : 1;
}

/* depth pid namespaces down. What fork returns above is what those above call the child. */
static int nested(void *arg)
{
	int depth = *(const int *)arg - 1;
	pid_t child;

	if (unshare(CLONE_NEWPID) != 0)
		return 77;
	child = depth == 0 ? stage_fork(answer_write, &answers[0]) : stage_fork(nested, &depth);
	if (depth == 0)
		answers[1] = child;
	return stage_wait(child);
}

static void test_namespaces(void **state)
{
	int depth = 1;
	int status;

	(void)state;
	status = stage_wait(stage_fork(nested, &depth));
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
	/* The child is 1 where it is; its parent, in berthd's namespace, calls it what berthd does. */
	assert_int_not_equal(answers[0], 1);
	assert_int_equal(answers[0], answers[1]);

	/* One deeper its parent too calls it something else: the answer is neither. */
	depth = 2;
	assert_int_equal(stage_wait(stage_fork(nested, &depth)), 0);
	assert_true(answers[0] > 0 && answers[0] != 1);
	assert_int_not_equal(answers[0], answers[1]);
}

static int asks_often(void *arg)
{
	for (long i = *(const long *)arg; i > 0; i--) {
		if (stage_asks_right(stage_socket) != 0)
			return 1;
	}
	return 0;
}

static void test_often(void **state)
{
	const char *given = getenv("ASKS");
	long ask_count = given ? strtol(given, NULL, 10) : 10000;
	long each = ask_count / PARALLEL;
	pid_t pids[PARALLEL];
	int fds_before = stage_fd_count(daemon_.pid);
	long rss_before_kb;

	(void)state;
	assert_int_equal(stage_asks_right(stage_socket), 0);
	rss_before_kb = stage_rss_kb(daemon_.pid);
	assert_int_equal(asks_often(&ask_count), 0);
	for (int i = 0; i < PARALLEL; i++)
		pids[i] = stage_fork(asks_often, &each);
	for (int i = 0; i < PARALLEL; i++)
		assert_int_equal(stage_wait(pids[i]), 0);
	assert_int_equal(stage_fd_count(daemon_.pid), fds_before);
	assert_in_range((size_t)stage_rss_kb(daemon_.pid), 1, (size_t)rss_before_kb + 512);
	/* Nobody misbehaved: what was said at the start is all. */
	assert_int_equal(stage_log_lines(), 2);
}

static int crowd_member(void *arg)
{
	pid_t *ret_answer = arg;
	char byte;

	/* The gate's read end; its write end was closed by who forked us. */
	(void)!read(STDIN_FILENO, &byte, 1);
	*ret_answer = stage_ask(stage_socket);
	return 0;
}

/* A namespace ends with its first process. */
static int crowd_stay(void *arg)
{
	(void)arg;
	return pause();
}

/* In a pid namespace of its own: 300 who all ask at the same time. */
static int crowd_lead(void *arg)
{
	pid_t pids[CROWD];
	int gate[2];

	(void)arg;
	if (unshare(CLONE_NEWPID) != 0)
		return 77;
	(void)stage_fork(crowd_stay, NULL); /* ends with us */
	if (pipe(gate) != 0)
		return 1;
	dup2(gate[0], STDIN_FILENO);
	close(gate[0]);
	for (int i = 0; i < CROWD; i++) {
		fflush(NULL);
		pids[i] = fork();
		if (pids[i] == 0) {
			close(gate[1]);
			_exit(crowd_member(&answers[i]));
		}
	}
	close(gate[1]);
	for (int i = 0; i < CROWD; i++) {
		if (stage_wait(pids[i]) != 0 || answers[i] != pids[i]) {
			dprintf(2, "%d of the crowd: %d, not %d\n", i, answers[i], pids[i]);
			return 1;
		}
	}
	return 0;
}

static void test_crowd(void **state)
{
	int status;

	(void)state;
	for (int round = 0; round < 3; round++) {
		memset(answers, 0, CROWD * sizeof(*answers));
		status = stage_wait(stage_fork(crowd_lead, NULL));
		if (status == 77)
			skip();
		assert_int_equal(status, 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_own_pid, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mounted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_namespaces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_often, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crowd, setup, teardown),
	};
	int status = stage_begin(argc, argv);

	if (status != 0)
		return status;
	answers = mmap(NULL, CROWD * sizeof(*answers), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (answers == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, stage_group_setup, stage_group_teardown);
}
