/* SPDX-License-Identifier: Apache-2.0
 *
 * The client of the host-pid broker, against brokers that answer as they should, badly, late, never, or aren't to
 * be believed. All of it as root, because only root's brokers are believed.
 */
#include "base/pid_broker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "child.h"
#include "fake_broker.h"

#define NOBODY 65534
/* A deadline that no test waits for, and one that it does. */
#define LONG_NS  (20 * BERTH_NS_PER_S)
#define SHORT_NS (200 * BERTH_NS_PER_MS)
/* However busy the machine: less than LONG_NS, or it was waited for. */
#define WATCHDOG_NS (15 * BERTH_NS_PER_S)
#define UNTOUCHED   (-77)

static char scratch[] = "/tmp/berth-test-broker-XXXXXX";
static char node[128]; /* the directory of most tests */
static char path[160]; /* the socket in it */
static int fds_at_begin;

static int fd_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

static int group_setup(void **state)
{
	(void)state;
	fds_at_begin = fd_count();
	if (mkdtemp(scratch) == NULL || chmod(scratch, 0755) != 0 || chdir(scratch) != 0)
		return -1;
	snprintf(node, sizeof(node), "%s/node", scratch);
	snprintf(path, sizeof(path), "%s/broker.sock", node);
	return mkdir(node, 0755) == 0 && chmod(node, 0755) == 0 ? 0 : -1;
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", scratch);
	return system(command);
}

/* Asks, and checks what holds for every question. */
static int ask_at(const char *where, uint64_t wait_ns, pid_t *ret_pid, struct berth_reason *reason)
{
	uint64_t begin_ns = berth_clock_ns();
	pid_t pid = UNTOUCHED;
	int err;

	reason->text[0] = '\0';
	errno = EXDEV;
	err = berth_pid_broker_ask(where, begin_ns + wait_ns, &pid, reason);
	assert_int_equal(errno, EXDEV);
	assert_true(berth_clock_ns() - begin_ns < WATCHDOG_NS);
	assert_true((err == 0) == (pid != UNTOUCHED));
	assert_true((err == 0) == (reason->text[0] == '\0'));
	/* The reason names the socket. */
	if (err != 0 && strncmp(reason->text, where, strlen(where)) != 0)
		fail_msg("'%s' doesn't name %s", reason->text, where);
	if (err == -ETIMEDOUT)
		assert_true(berth_clock_ns() - begin_ns >= wait_ns);
	*ret_pid = pid;
	return err;
}

static void refused_at(const char *where, uint64_t wait_ns, int expected, const char *word)
{
	struct berth_reason reason;
	pid_t pid;
	int err = ask_at(where, wait_ns, &pid, &reason);

	if (err != expected || strstr(reason.text, word) == NULL)
		fail_msg("%d, '%s' instead of %d with '%s'", err, reason.text, expected, word);
}

static void answered_at(const char *where, pid_t expected)
{
	struct berth_reason reason;
	pid_t pid;
	int err = ask_at(where, LONG_NS, &pid, &reason);

	if (err != 0)
		fail_msg("%d: %s", err, reason.text);
	assert_int_equal(pid, expected);
}

static int serve_hang_up(int fd, void *arg)
{
	(void)fd;
	(void)arg;
	return 0;
}

static void test_wire(void **state)
{
	uint8_t bytes[BERTH_PID_BROKER_REPLY_BYTES];
	pid_t pid = 0;

	(void)state;
	berth_pid_broker_request_encode(bytes);
	assert_memory_equal(bytes, "HPID\0\1\0\1", BERTH_PID_BROKER_REQUEST_BYTES);
	berth_pid_broker_reply_encode(BERTH_PID_BROKER_OK, 0x01020304, bytes);
	assert_memory_equal(bytes, "HPID\0\1\0\0\1\2\3\4", BERTH_PID_BROKER_REPLY_BYTES);
	assert_int_equal(berth_pid_broker_reply_decode(bytes, sizeof(bytes), "b", &pid, NULL), 0);
	assert_int_equal(pid, 0x01020304);
	berth_pid_broker_reply_encode(BERTH_PID_BROKER_REFUSED, 0, bytes);
	assert_memory_equal(bytes, "HPID\0\1\0\2\0\0\0\0", BERTH_PID_BROKER_REPLY_BYTES);
}

static void test_answers(void **state)
{
	struct fake_broker broker;
	struct fake_reply pieces = fake_reply_of("HPID", 1, 0, 4711);
	struct fake_reply stays = fake_reply_of("HPID", 1, 0, INT32_MAX);

	(void)state;
	fake_broker_start(&broker, path, fake_serve_peer, NULL, NULL);
	for (int i = 0; i < 50; i++) {
		answered_at(path, getpid());
		assert_int_equal(fake_broker_verdict(&broker), '+');
	}
	fake_broker_stop(&broker);

	pieces.pause_ms = 3;
	fake_broker_start(&broker, path, fake_serve_reply, &pieces, NULL);
	answered_at(path, 4711);
	assert_int_equal(fake_broker_verdict(&broker), '+');
	fake_broker_stop(&broker);

	/* One that waits for the client to hang up. */
	stays.stays = true;
	fake_broker_start(&broker, path, fake_serve_reply, &stays, NULL);
	answered_at(path, INT32_MAX);
	assert_int_equal(fake_broker_verdict(&broker), '+');
	fake_broker_stop(&broker);
}

static void wrong_reply(struct fake_reply reply, const char *word)
{
	struct fake_broker broker;

	fake_broker_start(&broker, path, fake_serve_reply, &reply, NULL);
	refused_at(path, LONG_NS, -EPROTO, word);
	assert_int_equal(fake_broker_verdict(&broker), '+');
	fake_broker_stop(&broker);
}

static void test_wrong_replies(void **state)
{
	static const size_t short_sizes[] = { 0, 1, 4, 11 };
	static const size_t long_sizes[] = { 13, 24, 64 };
	struct fake_reply reply = fake_reply_of("HPID", 1, 0, 4711);

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(short_sizes); i++) {
		reply.size = short_sizes[i];
		wrong_reply(reply, "hung up after");
	}
	for (size_t i = 0; i < BERTH_ARRAY_LEN(long_sizes); i++) {
		reply.size = long_sizes[i];
		reply.stays = i == 1;
		wrong_reply(reply, "too long");
	}
	wrong_reply(fake_reply_of("hpid", 1, 0, 4711), "no host-pid broker");
	wrong_reply(fake_reply_of("HPIE", 1, 0, 4711), "no host-pid broker");
	wrong_reply(fake_reply_of("HTTP", 1, 0, 4711), "no host-pid broker");
	wrong_reply(fake_reply_of("HPID", 0, 0, 4711), "version 0");
	wrong_reply(fake_reply_of("HPID", 2, 0, 4711), "version 2");
	wrong_reply(fake_reply_of("HPID", 256, 0, 4711), "version 256");
	wrong_reply(fake_reply_of("HPID", 1, 1, 4711), "status 1");
	wrong_reply(fake_reply_of("HPID", 1, 0xffff, 4711), "status 65535");
	wrong_reply(fake_reply_of("HPID", 1, 0, 0), "no pid");
	wrong_reply(fake_reply_of("HPID", 1, 0, 0x80000000U), "no pid");
	wrong_reply(fake_reply_of("HPID", 1, 0, 0xffffffffU), "no pid");
}

static void test_hangs_up(void **state)
{
	struct fake_options never = { .accept_not = 1 };
	struct fake_broker broker;
	pid_t killer;

	(void)state;
	/* Before it was asked, while it is, after it was: as it happens. SIGPIPE would end this test. */
	assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	fake_broker_start(&broker, path, serve_hang_up, NULL, NULL);
	for (int i = 0; i < 200; i++)
		refused_at(path, LONG_NS, -EPROTO, "hung up after 0");
	fake_broker_stop(&broker);

	/* One that dies with us in its queue. */
	fake_broker_start(&broker, path, fake_serve_nothing, NULL, &never);
	killer = fork();
	assert_true(killer >= 0);
	if (killer == 0) {
		usleep(50 * 1000);
		kill(broker.pid, SIGKILL);
		_exit(0);
	}
	refused_at(path, LONG_NS, -EPROTO, "hung up after 0");
	assert_int_equal(waitpid(killer, NULL, 0), killer);
	fake_broker_stop(&broker);
}

static void test_silent(void **state)
{
	struct fake_reply cut = fake_reply_of("HPID", 1, 0, 4711);
	struct fake_reply trickle = fake_reply_of("HPID", 1, 0, 4711);
	struct fake_options never = { .accept_not = 1 };
	struct fake_broker broker;

	(void)state;
	fake_broker_start(&broker, path, fake_serve_nothing, NULL, NULL);
	refused_at(path, SHORT_NS, -ETIMEDOUT, "in time");
	refused_at(path, 0, -ETIMEDOUT, "in time");
	/* Stopped in the middle of its work. */
	kill(broker.pid, SIGSTOP);
	refused_at(path, SHORT_NS, -ETIMEDOUT, "in time");
	fake_broker_stop(&broker);

	cut.size = 11;
	cut.stays = true;
	fake_broker_start(&broker, path, fake_serve_reply, &cut, NULL);
	refused_at(path, SHORT_NS, -ETIMEDOUT, "in time");
	fake_broker_stop(&broker);

	/* Each byte in time, all of them not. */
	trickle.pause_ms = 1000;
	fake_broker_start(&broker, path, fake_serve_reply, &trickle, NULL);
	refused_at(path, 2 * BERTH_NS_PER_S, -ETIMEDOUT, "in time");
	fake_broker_stop(&broker);

	fake_broker_start(&broker, path, fake_serve_nothing, NULL, &never);
	refused_at(path, SHORT_NS, -ETIMEDOUT, "in time");
	fake_broker_stop(&broker);
}

/* Connections until there is no room for one more. */
static int queue_fill(int *fds, int max_count)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	assert_true(strlen(path) < sizeof(address.sun_path));
	memcpy(address.sun_path, path, strlen(path) + 1);
	for (int i = 0; i < max_count; i++) {
		fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		assert_true(fds[i] >= 0);
		if (connect(fds[i], (const struct sockaddr *)&address, sizeof(address)) != 0) {
			assert_int_equal(errno, EAGAIN);
			close(fds[i]);
			return i;
		}
	}
	fail_msg("a queue without end");
	return 0;
}

static void test_full_queue(void **state)
{
	struct fake_options never = { .backlog = 2, .accept_not = 1 };
	struct fake_options later = { .backlog = 2, .delay_ms = 300 };
	struct fake_broker broker;
	int fds[16];
	int count;

	(void)state;
	fake_broker_start(&broker, path, fake_serve_nothing, NULL, &never);
	count = queue_fill(fds, 16);
	refused_at(path, SHORT_NS, -ETIMEDOUT, "in time");
	refused_at(path, 0, -ETIMEDOUT, "in time");
	while (count > 0)
		close(fds[--count]);
	fake_broker_stop(&broker);

	fake_broker_start(&broker, path, fake_serve_peer, NULL, &later);
	count = queue_fill(fds, 16);
	while (count > 0)
		close(fds[--count]);
	answered_at(path, getpid());
	fake_broker_stop(&broker);
}

static void test_absent(void **state)
{
	char long_path[5000];
	struct berth_reason reason = { "" };
	struct fake_broker broker;
	pid_t pid;

	(void)state;
	(void)unlink(path);
	refused_at(path, LONG_NS, -ENOENT, "no broker");
	refused_at("/nowhere/at/all/broker.sock", LONG_NS, -ENOENT, "no broker");
	refused_at("/dev/null/node/broker.sock", LONG_NS, -ENOENT, "no broker");
	/* Left by a dead one. */
	fake_broker_start(&broker, path, fake_serve_peer, NULL, NULL);
	fake_broker_stop(&broker);
	refused_at(path, LONG_NS, -ENOENT, "nobody listens");

	assert_int_equal(berth_pid_broker_ask("broker.sock", LONG_NS, &pid, &reason), -EINVAL);
	assert_int_equal(berth_pid_broker_ask("/tmp/", LONG_NS, &pid, NULL), -EINVAL);
	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = '\0';
	assert_int_equal(berth_pid_broker_ask(long_path, LONG_NS, &pid, NULL), -ENAMETOOLONG);
	long_path[sizeof(long_path) - 7] = '/';
	assert_int_equal(berth_pid_broker_ask(long_path, LONG_NS, &pid, NULL), -ENAMETOOLONG);
}

static void test_directory(void **state)
{
	static const mode_t open_modes[] = { 0775, 0757, 0777, 01777, 0722 };
	struct fake_broker broker;
	char linked[160];

	(void)state;
	fake_broker_start(&broker, path, fake_serve_peer, NULL, NULL);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(open_modes); i++) {
		assert_int_equal(chmod(node, open_modes[i]), 0);
		refused_at(path, LONG_NS, -EPERM, "can write to its directory");
	}
	assert_int_equal(chmod(node, 0755), 0);
	assert_int_equal(chown(node, NOBODY, 0), 0);
	refused_at(path, LONG_NS, -EPERM, "belongs to user 65534");
	assert_int_equal(chown(node, 0, 0), 0);

	assert_int_equal(symlink("node", "link"), 0);
	snprintf(linked, sizeof(linked), "%s/link/broker.sock", scratch);
	refused_at(linked, LONG_NS, -EPERM, "directory is a link");
	/* Nobody has been asked; and now, that everything is as it should be, he is. */
	answered_at(path, getpid());
	assert_int_equal(fake_broker_verdict(&broker), '+');
	fake_broker_stop(&broker);
}

static void test_socket(void **state)
{
	struct fake_broker broker;
	char other[200];
	char real[200];

	(void)state;
	fake_broker_start(&broker, path, fake_serve_peer, NULL, NULL);
	assert_int_equal(chown(path, NOBODY, NOBODY), 0);
	refused_at(path, LONG_NS, -EPERM, "belongs to user 65534");
	assert_int_equal(chown(path, 0, 0), 0);

	snprintf(real, sizeof(real), "%s/broker.sock", node);
	snprintf(other, sizeof(other), "%s/other", node);
	assert_int_equal(symlink("broker.sock", other), 0);
	refused_at(other, LONG_NS, -EPERM, "no socket");
	assert_int_equal(unlink(other), 0);
	assert_int_equal(symlink("gone", other), 0);
	refused_at(other, LONG_NS, -EPERM, "no socket");
	assert_int_equal(unlink(other), 0);
	assert_int_equal(mkfifo(other, 0666), 0);
	refused_at(other, LONG_NS, -EPERM, "no socket");
	assert_int_equal(unlink(other), 0);
	assert_int_equal(close(creat(other, 0666)), 0);
	refused_at(other, LONG_NS, -EPERM, "no socket");
	assert_int_equal(unlink(other), 0);

	answered_at(real, getpid());
	assert_int_equal(fake_broker_verdict(&broker), '+');
	fake_broker_stop(&broker);
}

/* The directory and the socket are root's, who listens is not. He isn't even asked. */
static void test_peer(void **state)
{
	struct fake_options foreign = { .listener_uid = NOBODY };
	struct fake_broker broker;

	(void)state;
	fake_broker_start(&broker, path, fake_serve_nothing, NULL, &foreign);
	refused_at(path, LONG_NS, -EPERM, "runs as user 65534");
	assert_int_equal(fake_broker_verdict(&broker), '+');
	fake_broker_stop(&broker);
}

/* What the client has open while it waits, seen from outside: nothing from 0 to 2, and no socket that a
 * program it starts would inherit. It is not answered. */
static int serve_looks_at_fds(int fd, void *arg)
{
	char name[128];
	int socket_count = 0;

	(void)arg;
	if (fake_request_read(fd) < 0)
		return -1;
	for (int i = 0; i < 64; i++) {
		char link[64] = "";
		char info[512] = "";
		unsigned flags = 0;
		FILE *file;

		snprintf(name, sizeof(name), "/proc/%d/fd/%d", fake_peer(fd), i);
		if (readlink(name, link, sizeof(link) - 1) < 0)
			continue;
		if (i <= 2)
			return -1;
		snprintf(name, sizeof(name), "/proc/%d/fdinfo/%d", fake_peer(fd), i);
		file = fopen(name, "re");
		if (file == NULL)
			return -1;
		while (fgets(info, sizeof(info), file) != NULL)
			(void)sscanf(info, "flags: %o", &flags);
		(void)fclose(file);
		socket_count += strncmp(link, "socket:", 7) == 0;
		if (strncmp(link, "socket:", 7) == 0 && (flags & O_CLOEXEC) == 0)
			return -1;
	}
	if (socket_count != 1)
		return -1;
	return 0;
}

static int closed_streams_child(void *arg)
{
	struct berth_reason reason = { "" };
	pid_t pid = 0;

	(void)arg;
	for (int fd = 0; fd < 64; fd++)
		close(fd);
	return berth_pid_broker_ask(path, berth_deadline_after(SHORT_NS), &pid, &reason) == -EPROTO
		       ? 0
		       : 1;
}

static void test_descriptors(void **state)
{
	struct child_result result;
	struct fake_broker broker;

	(void)state;
	fake_broker_start(&broker, path, serve_looks_at_fds, NULL, NULL);
	child_run_ok(closed_streams_child, NULL, &result);
	assert_int_equal(fake_broker_verdict(&broker), '+');
	fake_broker_stop(&broker);
	/* The tests before this one have failed in every place. */
	assert_int_equal(fd_count(), fds_at_begin);
}

static int unmapped_child(void *arg)
{
	struct berth_reason reason = { "" };
	pid_t pid = UNTOUCHED;

	(void)arg;
	if (unshare(CLONE_NEWUSER) != 0)
		CHILD_SKIP("no user namespaces here");
	CHILD_CHECK(berth_pid_broker_ask(path, berth_deadline_after(LONG_NS), &pid, &reason) ==
		    -EPERM);
	CHILD_CHECK(pid == UNTOUCHED);
	CHILD_CHECK(strstr(reason.text, "not to root") != NULL);
	return 0;
}

static void test_user_namespace(void **state)
{
	struct child_result result;
	struct fake_broker broker;

	(void)state;
	fake_broker_start(&broker, path, fake_serve_peer, NULL, NULL);
	child_run_ok(unmapped_child, NULL, &result);
	fake_broker_stop(&broker);
}

static char deep_path[400]; /* longer than a socket's address */

static int no_proc_child(void *arg)
{
	pid_t pid = UNTOUCHED;

	(void)arg;
	if (unshare(CLONE_NEWNS) != 0 || mount("", "/", "", MS_REC | MS_PRIVATE, "") != 0 ||
	    mount("none", "/proc", "tmpfs", 0, "") != 0)
		CHILD_SKIP("no mount namespaces here");
	CHILD_CHECK(access("/proc/self", F_OK) != 0);
	CHILD_CHECK(berth_pid_broker_ask(path, berth_deadline_after(LONG_NS), &pid, NULL) == 0);
	CHILD_CHECK(pid == getpid());
	CHILD_CHECK(berth_pid_broker_ask(deep_path, berth_deadline_after(LONG_NS), &pid, NULL) ==
		    -ENAMETOOLONG);
	return 0;
}

static void test_no_proc(void **state)
{
	struct child_result result;
	struct fake_broker broker;
	struct fake_broker deep;

	(void)state;
	snprintf(deep_path, sizeof(deep_path), "%s/%0100d", scratch, 0);
	assert_int_equal(mkdir(deep_path, 0755), 0);
	snprintf(deep_path, sizeof(deep_path), "%s/%0100d/broker.sock", scratch, 0);
	fake_broker_start(&deep, deep_path, fake_serve_peer, NULL, NULL);
	answered_at(deep_path, getpid());
	fake_broker_start(&broker, path, fake_serve_peer, NULL, NULL);
	child_run_ok(no_proc_child, NULL, &result);
	fake_broker_stop(&broker);
	fake_broker_stop(&deep);
}

static void on_signal(int number)
{
	(void)number;
}

/* Signals all the time neither end nor prolong it. */
static void test_signals(void **state)
{
	struct sigaction action = { .sa_handler = on_signal }; /* no SA_RESTART */
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct fake_reply slow = fake_reply_of("HPID", 1, 0, 4711);
	struct fake_broker silent;
	struct fake_broker broker;

	(void)state;
	slow.pause_ms = 10;
	fake_broker_start(&silent, deep_path, fake_serve_nothing, NULL, NULL);
	fake_broker_start(&broker, path, fake_serve_reply, &slow, NULL);
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	refused_at(deep_path, SHORT_NS, -ETIMEDOUT, "in time");
	answered_at(path, 4711);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	fake_broker_stop(&broker);
	fake_broker_stop(&silent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wire),          cmocka_unit_test(test_answers),
		cmocka_unit_test(test_wrong_replies), cmocka_unit_test(test_hangs_up),
		cmocka_unit_test(test_silent),        cmocka_unit_test(test_full_queue),
		cmocka_unit_test(test_absent),        cmocka_unit_test(test_directory),
		cmocka_unit_test(test_socket),        cmocka_unit_test(test_peer),
		cmocka_unit_test(test_descriptors),   cmocka_unit_test(test_user_namespace),
		cmocka_unit_test(test_no_proc),       cmocka_unit_test(test_signals),
	};

	if (geteuid() != 0) {
		puts("skipped: only root can be a broker that is believed");
		return 77;
	}
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
