/* SPDX-License-Identifier: Apache-2.0
 *
 * A listener's place: many who want it at the same time, whose it is afterwards, and that nobody takes
 * away what isn't his. (What berthd refuses, and how it says so, is in tests/agent.)
 */
#include "agent/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"

#define STARTERS 8
#define ROUNDS   40

static char scratch[] = "/tmp/berth-test-listener-XXXXXX";
static char path[128];

static int group_setup(void **state)
{
	(void)state;
	if (mkdtemp(scratch) == NULL || chmod(scratch, 0755) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/broker.sock", scratch);
	return 0;
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", scratch);
	return system(command);
}

/* Who listens there; 0: nobody. */
static pid_t listener_pid(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	BERTH_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	memcpy(address.sun_path, path, strlen(path));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		return 0;
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size), 0);
	return peer.pid;
}

/* Each starter's result, and what they wait for. */
static struct {
	_Atomic int ready_count;
	_Atomic int go;
	_Atomic int done_count;
	_Atomic int result[STARTERS];
} * hall;

static int starter(int number)
{
	struct berth_listener listener = BERTH_LISTENER_CLOSED;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	hall->ready_count++;
	while (!hall->go)
		;
	hall->result[number] = berth_listener_open(path, &listener, NULL);
	hall->done_count++;
	/* The place stays taken until all have looked. */
	return pause();
}

static void round_run(pid_t *pids)
{
	memset(hall, 0, sizeof(*hall));
	for (int i = 0; i < STARTERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			_exit(starter(i));
	}
	while (hall->ready_count < STARTERS)
		usleep(100);
	hall->go = 1;
	while (hall->done_count < STARTERS)
		usleep(100);
}

/* Over what a dead one left: one gets it, and clients get to him. */
static void test_contest(void **state)
{
	pid_t pids[STARTERS];

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		pid_t winner = 0;
		int winner_count = 0;

		round_run(pids);
		for (int i = 0; i < STARTERS; i++) {
			if (hall->result[i] == 0) {
				winner = pids[i];
				winner_count++;
			} else {
				assert_int_equal(hall->result[i], -EADDRINUSE);
			}
		}
		assert_int_equal(winner_count, 1);
		assert_int_equal(listener_pid(), winner);
		for (int i = 0; i < STARTERS; i++) {
			kill(pids[i], SIGKILL);
			assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
		}
		assert_int_equal(listener_pid(), 0);
	}
}

static void test_remove(void **state)
{
	struct berth_listener first = BERTH_LISTENER_CLOSED;
	struct berth_listener second = BERTH_LISTENER_CLOSED;

	(void)state;
	assert_int_equal(berth_listener_open(path, &first, NULL), 0);
	berth_fd_close(&first.fd);
	assert_int_equal(berth_listener_open(path, &second, NULL), 0);
	/* It is the second one's by now. */
	berth_listener_remove(&first);
	assert_int_equal(listener_pid(), getpid());
	berth_listener_remove(&second);
	assert_int_equal(access(path, F_OK), -1);
	berth_listener_remove(&second);
	berth_listener_close(&first);
	berth_listener_close(&second);
}

/* Anybody who can read the directory can lock it. */
static void test_locked_directory(void **state)
{
	struct berth_listener listener = BERTH_LISTENER_CLOSED;
	BERTH_FD int dir = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_int_equal(flock(dir, LOCK_EX), 0);
	assert_int_equal(berth_listener_open(path, &listener, NULL), 0);
	assert_int_equal(listener_pid(), getpid());
	berth_listener_remove(&listener);
	berth_listener_close(&listener);
	/* And whoever has opened it is in nobody's way. */
	assert_int_equal(flock(dir, LOCK_UN), 0);
	assert_int_equal(berth_listener_open(path, &listener, NULL), 0);
	assert_int_equal(flock(dir, LOCK_EX | LOCK_NB), 0);
	berth_listener_remove(&listener);
	berth_listener_close(&listener);
}

static void test_long_path(void **state)
{
	struct berth_listener listener = BERTH_LISTENER_CLOSED;
	struct berth_reason reason = { "" };
	char long_path[400];

	(void)state;
	snprintf(long_path, sizeof(long_path), "%s/%0200d.sock", scratch, 0);
	assert_int_equal(berth_listener_open(long_path, &listener, &reason), -ENAMETOOLONG);
	assert_non_null(strstr(reason.text, "too long"));
	assert_int_equal(listener.fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contest),
		cmocka_unit_test(test_remove),
		cmocka_unit_test(test_locked_directory),
		cmocka_unit_test(test_long_path),
	};

	if (geteuid() != 0) {
		puts("skipped: only root's sockets are opened");
		return 77;
	}
	hall = mmap(NULL, sizeof(*hall), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hall == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
