/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that do berthd harm, or would: floods of connections that say nothing, garbage, clients that are
 * killed or stopped half-way, few descriptors. Others are served meanwhile, and nothing is left of it afterwards:
 * no descriptor, no memory, a few lines of log.
 *
 *	FLOOD=20000 test_berthd_abuse build/bin/berthd	a larger flood (default 2000 connections)
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/attributes.h"
#include "stage.h"

#define FLOODERS   4
#define GOOD_ASKS  60
#define CLIENT_NS  (500 * BERTH_NS_PER_MS)
#define LINES_MOST 20

static struct stage_daemon daemon_;
static int fds_at_begin;

static int setup(void **state)
{
	(void)state;
	stage_start(&daemon_, NULL, NULL);
	fds_at_begin = stage_fd_count(daemon_.pid);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	stage_stop(&daemon_);
	return 0;
}

/* All of them are dropped when their time is over, whether or not they have gone. */
static void all_dropped(void)
{
	uint64_t deadline_ns = berth_deadline_after(STAGE_WATCHDOG_NS);

	while (stage_fd_count(daemon_.pid) != fds_at_begin) {
		if (berth_deadline_passed(deadline_ns))
			fail_msg("%d descriptors instead of %d", stage_fd_count(daemon_.pid),
				 fds_at_begin);
		usleep(10000);
	}
}

static long flood_size(void)
{
	const char *given = getenv("FLOOD");

	return given ? strtol(given, NULL, 10) : 2000;
}

struct flooder {
	uid_t uid;
	int go_fd; /* told when its first wave is there */
	bool half; /* says half a request */
};

/* Keeps its part of the flood open, and opens each anew that was dropped, until it is killed. */
static int flood(void *arg)
{
	const struct flooder *flooder = arg;
	long count = flood_size() / FLOODERS;
	struct rlimit limit = { (rlim_t)count + 64, (rlim_t)count + 64 };
	int *fds = calloc((size_t)count, sizeof(*fds));

	if (fds == NULL || setrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 2;
	if (flooder->uid != 0 && setuid(flooder->uid) != 0)
		return 3;
	for (bool first = true;; first = false) {
		char byte;

		for (long i = 0; i < count; i++) {
			if (!first && fds[i] >= 0 &&
			    (recv(fds[i], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN))
				continue;
			if (!first && fds[i] >= 0)
				close(fds[i]);
			fds[i] = stage_connect(stage_socket, false);
			if (flooder->half && fds[i] >= 0)
				(void)!send(fds[i], "HPID", 4, MSG_NOSIGNAL);
		}
		if (first)
			(void)!write(flooder->go_fd, "f", 1);
		/* It is berthd's time that is wanted here, not the processors'. */
		usleep(2000);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* As good clients fare meanwhile: each is answered. Within the time that programs wait: the median says. */
static void good_client_check(void)
{
	uint64_t took_ns[GOOD_ASKS];

	for (int i = 0; i < GOOD_ASKS; i++) {
		uint64_t begin_ns = berth_clock_ns();

		assert_int_equal(stage_ask(stage_socket), getpid());
		took_ns[i] = berth_clock_ns() - begin_ns;
	}
	qsort(took_ns, GOOD_ASKS, sizeof(took_ns[0]), compare);
	print_message("under the flood: median %llu us, longest %llu us\n",
		      (unsigned long long)(took_ns[GOOD_ASKS / 2] / BERTH_NS_PER_US),
		      (unsigned long long)(took_ns[GOOD_ASKS - 1] / BERTH_NS_PER_US));
	/* On a machine that is busy otherwise too: some, at least. */
	assert_true(took_ns[GOOD_ASKS / 8] < CLIENT_NS);
}

static void flood_check(uid_t uid, bool half)
{
	pid_t pids[FLOODERS];
	int go[2];
	char byte;

	assert_int_equal(pipe(go), 0);
	for (int i = 0; i < FLOODERS; i++) {
		struct flooder flooder = { .uid = uid, .go_fd = go[1], .half = half };

		pids[i] = stage_fork(flood, &flooder);
	}
	for (int i = 0; i < FLOODERS; i++)
		assert_int_equal(read(go[0], &byte, 1), 1);
	good_client_check();
	/* It keeps to its number whatever comes. */
	assert_in_range(stage_fd_count(daemon_.pid), fds_at_begin, fds_at_begin + 256 + 1);
	for (int i = 0; i < FLOODERS; i++) {
		assert_int_equal(kill(pids[i], SIGKILL), 0);
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	}
	close(go[0]);
	close(go[1]);
	all_dropped();
}

static void test_flood(void **state)
{
	long rss_kb;

	(void)state;
	flood_check(STAGE_NOBODY, false);
	rss_kb = stage_rss_kb(daemon_.pid);
	flood_check(0, false);
	flood_check(0, true);
	assert_in_range((size_t)stage_rss_kb(daemon_.pid), 1, (size_t)rss_kb + 256);
	assert_true(stage_log_has("is dropped"));
	assert_in_range(stage_log_lines(), 3, LINES_MOST);
}

/* splitmix64, seeded the same each time. */
static uint64_t random_state = 1;

static uint64_t random_next(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* What is sent may be cut short by its refusal; there is never an answer with a pid. */
static void garbage_send(const unsigned char *bytes, size_t size)
{
	unsigned char reply[64];
	int fd = stage_connect(stage_socket, true);
	ssize_t n;

	assert_true(fd >= 0);
	(void)!send(fd, bytes, size, MSG_NOSIGNAL);
	(void)shutdown(fd, SHUT_WR);
	n = recv(fd, reply, sizeof(reply), MSG_WAITALL);
	if (n > 0) {
		assert_int_equal(n, 12);
		assert_memory_equal(reply, "HPID\0\1\0\2\0\0\0\0", 12);
	}
	close(fd);
}

static void test_garbage(void **state)
{
	static unsigned char bytes[1 << 20];
	static const unsigned char request[] = { 'H', 'P', 'I', 'D', 0, 1, 0, 1 };
	long rss_kb = stage_rss_kb(daemon_.pid);

	(void)state;
	for (int i = 0; i < 2000; i++) {
		size_t size = random_next() % (i % 10 == 0 ? sizeof(bytes) : 32);
		size_t right = random_next() % sizeof(request);

		for (size_t k = 0; k < size; k++)
			bytes[k] = (unsigned char)random_next();
		/* Right for a while, so that some get far; never all the way. */
		if (i % 2 == 0 && size > sizeof(request)) {
			memcpy(bytes, request, sizeof(request));
			bytes[right] ^= (unsigned char)(1U << random_next() % 8);
		}
		if (i % 100 == 0)
			memset(bytes, 0, size);
		garbage_send(bytes, size);
	}
	/* One byte too many is no request. */
	memcpy(bytes, request, sizeof(request));
	bytes[sizeof(request)] = 0;
	garbage_send(bytes, sizeof(request) + 1);
	/* Parts of it. */
	for (size_t size = 0; size < sizeof(request); size++)
		garbage_send(request, size);
	assert_int_equal(stage_asks_right(stage_socket), 0);
	all_dropped();
	assert_in_range((size_t)stage_rss_kb(daemon_.pid), 1, (size_t)rss_kb + 256);
	assert_true(stage_log_has("no request"));
	assert_in_range(stage_log_lines(), 3, LINES_MOST);
}

struct half_way {
	size_t said; /* bytes of the request */
	bool stop;   /* else: die */
};

static int half_way(void *arg)
{
	const struct half_way *half = arg;
	int fd = stage_connect(stage_socket, true);

	if (fd < 0 || send(fd, "HPID\0\1\0\1", half->said, 0) != (ssize_t)half->said)
		return 1;
	raise(half->stop ? SIGSTOP : SIGKILL);
	return 2;
}

static void test_killed(void **state)
{
	(void)state;
	for (int i = 0; i < 90; i++) {
		struct half_way half = { .said = (size_t)i % 9 };
		pid_t pid = stage_fork(half_way, &half);
		int status = 0;

		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	assert_int_equal(stage_asks_right(stage_socket), 0);
	all_dropped();
}

static void test_stopped(void **state)
{
	pid_t pids[27];

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(pids); i++) {
		struct half_way half = { .said = i % 9, .stop = true };
		int status = 0;

		pids[i] = stage_fork(half_way, &half);
		assert_int_equal(waitpid(pids[i], &status, WUNTRACED), pids[i]);
		assert_true(WIFSTOPPED(status));
	}
	assert_int_equal(stage_asks_right(stage_socket), 0);
	/* They are dropped though they hold their ends. */
	all_dropped();
	assert_int_equal(stage_asks_right(stage_socket), 0);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(pids); i++) {
		assert_int_equal(kill(pids[i], SIGKILL), 0);
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	}
}

/* A client has its time from the connection on, however it spends it: bytes don't buy more. */
static void test_time(void **state)
{
	static const char request[] = { 'H', 'P', 'I', 'D', 0, 1, 0, 1 };
	uint64_t begin_ns = berth_clock_ns();
	int silent = stage_connect(stage_socket, true);
	int trickling = stage_connect(stage_socket, true);
	char reply[12];

	(void)state;
	assert_true(silent >= 0 && trickling >= 0);
	assert_int_equal(recv(silent, reply, 1, 0), 0);
	assert_true(berth_clock_ns() - begin_ns >= CLIENT_NS);
	close(trickling);
	trickling = stage_connect(stage_socket, true);
	for (size_t i = 0; i < sizeof(request); i++) {
		(void)!send(trickling, request + i, 1, MSG_NOSIGNAL);
		usleep(300000);
	}
	assert_int_not_equal(recv(trickling, reply, sizeof(reply), MSG_WAITALL), sizeof(reply));
	close(silent);
	close(trickling);
	all_dropped();
}

static void few_descriptors(void *arg)
{
	const rlim_t *count = arg;
	struct rlimit limit = { *count, *count };

	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Silent clients, more than there are descriptors for; others are served. */
static void scarcity_check(rlim_t limit)
{
	struct stage_before before = { few_descriptors, &limit };
	int fds[200];

	stage_stop(&daemon_);
	stage_start(&daemon_, NULL, &before);
	fds_at_begin = stage_fd_count(daemon_.pid);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < BERTH_ARRAY_LEN(fds); i++)
			fds[i] = stage_connect(stage_socket, true);
		assert_int_equal(stage_asks_right(stage_socket), 0);
		assert_in_range(stage_fd_count(daemon_.pid), fds_at_begin, limit);
		for (size_t i = 0; i < BERTH_ARRAY_LEN(fds); i++)
			close(fds[i]);
	}
	all_dropped();
	assert_int_equal(stage_asks_right(stage_socket), 0);
	assert_in_range(stage_log_lines(), 3, LINES_MOST);
}

static void test_few_descriptors(void **state)
{
	(void)state;
	scarcity_check(70);
	assert_true(stage_log_has("is dropped"));
}

/* Fewer than it could plan for: it finds out when it accepts. */
static void test_no_descriptors(void **state)
{
	(void)state;
	scarcity_check(12);
	assert_true(stage_log_has("can't be accepted"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_flood, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_few_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_descriptors, setup, teardown),
	};
	int status = stage_begin(argc, argv);

	return status != 0 ? status
			   : cmocka_run_group_tests(tests, stage_group_setup, stage_group_teardown);
}
