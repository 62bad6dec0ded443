/* SPDX-License-Identifier: Apache-2.0
 *
 * Berthd's clients on made connections, of whatever user and process a case wants: who is answered, who is
 * dropped for whom, when time is over.
 */
#include "agent/clients.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

static struct berth_clients clients;
static int epoll_fd = -1;

/* Our ends of the connections of a case. */
static int ends[4096];
static int end_count;

static void begin(int max_count)
{
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(epoll_fd >= 0);
	berth_log_set_level(BERTH_LOG_ERROR);
	berth_clients_init(&clients, epoll_fd, max_count);
	end_count = 0;
}

static int teardown(void **state)
{
	(void)state;
	berth_clients_done(&clients);
	while (end_count > 0)
		close(ends[--end_count]);
	close(epoll_fd);
	return clients.count;
}

/* Somebody connects and says size bytes of what; our end. */
static int meet(uid_t uid, pid_t pid, const char *said, size_t size)
{
	struct ucred peer = { .pid = pid, .uid = uid };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(send(pair[0], said, size, 0), (int)size);
	berth_clients_meet(&clients, pair[1], &peer);
	ends[end_count++] = pair[0];
	return pair[0];
}

static bool is_there(int end)
{
	char byte;

	return recv(end, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* The list, the tallies and the table say the same. */
static void consistent(void)
{
	int count = 0;
	uint64_t deadline_ns = 0;

	for (int i = clients.oldest; i != BERTH_CLIENTS_NONE; i = clients.all[i].newer) {
		const struct berth_client *client = &clients.all[i];

		assert_true(client->fd >= 0);
		assert_true(client->deadline_ns >= deadline_ns);
		deadline_ns = client->deadline_ns;
		assert_true(clients.users[client->by_user].key == client->peer.uid);
		assert_true(clients.processes[client->by_process].key ==
			    (uint64_t)client->peer.pid);
		assert_int_equal(client->older == BERTH_CLIENTS_NONE, i == clients.oldest);
		assert_int_equal(client->newer == BERTH_CLIENTS_NONE, i == clients.newest);
		count++;
	}
	assert_int_equal(count, clients.count);
	for (int i = 0; i < BERTH_CLIENTS_MAX; i++)
		count -= clients.users[i].count;
	assert_int_equal(count, 0);
	for (int i = 0; i < BERTH_CLIENTS_MAX; i++)
		count += clients.processes[i].count - (clients.all[i].fd >= 0);
	assert_int_equal(count, 0);
}

struct request_row {
	const char *said;
	size_t size;
	const char *reply; /* "": hung up. NULL: more is waited for */
};

static void test_requests(void **state)
{
	static const struct request_row rows[] = {
		{ "HPID\0\1\0\1", 8, "HPID\0\1\0\0\0\0\x12\x67" },
		{ "HPID\0\1\0\1", 7, NULL },
		{ "HPID", 4, NULL },
		{ "", 0, NULL },
		{ "HPID\0\1\0\2", 8, "HPID\0\1\0\2\0\0\0\0" },
		{ "HPID\0\2\0\1", 8, "HPID\0\1\0\2\0\0\0\0" },
		{ "HPID\1\0\1\0", 8, "HPID\0\1\0\2\0\0\0\0" },
		{ "HPID\0\1\0\1\0", 9, "" },
		{ "hpid\0\1\0\1", 8, "" },
		{ "HPI\0", 4, "" },
		{ "X", 1, "" },
		{ "\0", 1, "" },
	};

	(void)state;
	begin(BERTH_CLIENTS_MAX);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		char reply[64];
		int end = meet(1000, 4711, rows[i].said, rows[i].size);
		ssize_t n = recv(end, reply, sizeof(reply), MSG_DONTWAIT);

		if (rows[i].reply == NULL) {
			assert_true(n < 0 && errno == EAGAIN);
		} else if (rows[i].reply[0] == '\0') {
			assert_true(n == 0 || errno == ECONNRESET);
		} else {
			assert_int_equal(n, 12);
			assert_memory_equal(reply, rows[i].reply, 12);
			assert_int_equal(recv(end, reply, sizeof(reply), MSG_DONTWAIT), 0);
		}
	}
	consistent();
}

/* Somebody of a pid namespace beside ours: the kernel calls him 0. */
static void test_unknown_peer(void **state)
{
	char reply[64];
	int end;

	(void)state;
	begin(BERTH_CLIENTS_MAX);
	end = meet(1000, 0, "HPID\0\1\0\1", 8);
	assert_int_equal(recv(end, reply, sizeof(reply), MSG_DONTWAIT), 12);
	assert_memory_equal(reply, "HPID\0\1\0\1\0\0\0\0", 12);
}

static void test_dropped(void **state)
{
	int one[8];
	int other;

	(void)state;
	begin(8);
	/* User 1 has five, four of them process 10's; user 2 has three, all of process 20's. */
	one[0] = meet(1, 11, "", 0);
	one[1] = meet(2, 20, "", 0);
	one[2] = meet(1, 10, "", 0);
	one[3] = meet(2, 20, "", 0);
	one[4] = meet(1, 10, "", 0);
	one[5] = meet(1, 10, "", 0);
	one[6] = meet(2, 20, "", 0);
	one[7] = meet(1, 10, "", 0);
	for (int i = 0; i < 8; i++)
		assert_true(is_there(one[i]));
	/* The oldest of process 10. */
	other = meet(3, 30, "", 0);
	assert_false(is_there(one[2]));
	assert_true(is_there(other));
	assert_true(is_there(one[0]) && is_there(one[1]));
	/* User 1 still has the most, with four. */
	meet(3, 30, "", 0);
	assert_false(is_there(one[4]));
	/* Users 1 and 2 have three each; process 20 has most. */
	meet(3, 30, "", 0);
	assert_false(is_there(one[1]));
	/* Users 1 and 3: process 30. His own newcomer drops his oldest. */
	meet(3, 30, "", 0);
	assert_false(is_there(other));
	assert_true(is_there(one[0]));
	/* Whoever asks at once needs no place. */
	meet(4, 40, "HPID\0\1\0\1", 8);
	assert_true(is_there(one[0]) && is_there(one[3]) && is_there(one[5]));
	assert_int_equal(clients.count, 8);
	consistent();
}

static void test_flood_of_one(void **state)
{
	int good;

	(void)state;
	begin(BERTH_CLIENTS_MAX);
	good = meet(1, 1, "HPID", 4);
	for (int i = 0; i < 2000; i++)
		meet(2, 100 + i % 50, "", 0);
	assert_true(is_there(good));
	assert_int_equal(clients.count, BERTH_CLIENTS_MAX);
	consistent();
}

/* Everything in any order. */
static void test_any_order(void **state)
{
	uint64_t chance = 1;

	(void)state;
	begin(31);
	for (int i = 0; i < 3000; i++) {
		chance = chance * 6364136223846793005U + 1442695040888963407U;
		unsigned choice = (unsigned)(chance >> 40);

		if (choice % 3 != 0) {
			meet(choice / 3 % 4, (pid_t)(1 + choice / 12 % 9), "HPI", choice / 108 % 4);
		} else if (end_count > 0) {
			struct epoll_event event;
			int at = (int)(choice / 3 % (unsigned)end_count);

			(void)!send(ends[at], choice & 64 ? "D" : "Z", 1, MSG_NOSIGNAL);
			while (epoll_wait(epoll_fd, &event, 1, 0) == 1)
				berth_clients_hear(&clients, event.data.u64);
		}
		consistent();
		assert_in_range(clients.count, 0, 31);
	}
	/* Reported, and ended before its turn came. */
	for (uint64_t place = 0; place < BERTH_CLIENTS_MAX; place++)
		berth_clients_hear(&clients, place);
	consistent();
}

static void test_expire(void **state)
{
	int first;
	int second;
	int left_ms;

	(void)state;
	begin(BERTH_CLIENTS_MAX);
	assert_int_equal(berth_clients_expire(&clients), -1);
	first = meet(1, 1, "HPID", 4);
	left_ms = berth_clients_expire(&clients);
	assert_in_range(left_ms, 1, 501);
	berth_sleep_ns(100 * BERTH_NS_PER_MS, UINT64_MAX);
	second = meet(1, 1, "", 0);
	/* As long as it said, and then it is over for the first, not for the second one. */
	clients.all[clients.newest].deadline_ns = berth_deadline_after(BERTH_NS_PER_S * 3600);
	berth_sleep_ns(BERTH_CLIENTS_TIME_NS, UINT64_MAX);
	assert_true(berth_clients_expire(&clients) > 0);
	assert_false(is_there(first));
	assert_true(is_there(second));
	consistent();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_requests, teardown),
		cmocka_unit_test_teardown(test_unknown_peer, teardown),
		cmocka_unit_test_teardown(test_dropped, teardown),
		cmocka_unit_test_teardown(test_flood_of_one, teardown),
		cmocka_unit_test_teardown(test_any_order, teardown),
		cmocka_unit_test_teardown(test_expire, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
