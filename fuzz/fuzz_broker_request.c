/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client may send to berthd. The first byte says where the rest is cut in two. The parser's verdict
 * doesn't depend on the cut, and is what the protocol says; over a real connection the daemon answers the
 * one request with the pid, another kind with a refusal, and everything else with nothing; it keeps the
 * connection only of those who may still make it right.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/clients.h"
#include "agent/request.h"

#define PEER_PID 4711

static const uint8_t request_bytes[] = { 'H', 'P', 'I', 'D', 0, 1, 0, 1 };

/* The protocol once more, from the whole. */
static enum berth_request_verdict judge(const uint8_t *data, size_t size)
{
	if (size > sizeof(request_bytes) || memcmp(data, request_bytes, size < 4 ? size : 4) != 0)
		return BERTH_REQUEST_WRONG;
	if (size < sizeof(request_bytes))
		return BERTH_REQUEST_MORE;
	return memcmp(data, request_bytes, size) == 0 ? BERTH_REQUEST_PID
						      : BERTH_REQUEST_UNSUPPORTED;
}

static enum berth_request_verdict parse(const uint8_t *data, size_t size, size_t cut)
{
	struct berth_request request = { 0 };
	enum berth_request_verdict first = berth_request_feed(&request, data, cut);

	FUZZ_CHECK(first == judge(data, cut));
	return berth_request_feed(&request, data + cut, size - cut);
}

/* What the daemon sends back to whom it takes for done with; -1: it waits for more. */
static ssize_t reply_read(struct berth_clients *clients, int fd, uint8_t *reply, size_t size)
{
	ssize_t n = recv(fd, reply, size, MSG_DONTWAIT);

	/* Hung up before it had read all of it. */
	if (n < 0 && errno == ECONNRESET)
		n = 0;
	FUZZ_CHECK((n < 0) == (clients->count == 1));
	return n;
}

static void reply_check(enum berth_request_verdict verdict, ssize_t n, const uint8_t *reply)
{
	uint8_t expected[BERTH_PID_BROKER_REPLY_BYTES];

	if (verdict == BERTH_REQUEST_MORE || verdict == BERTH_REQUEST_WRONG) {
		FUZZ_CHECK(n == (verdict == BERTH_REQUEST_MORE ? -1 : 0));
		return;
	}
	berth_pid_broker_reply_encode(verdict == BERTH_REQUEST_PID ? BERTH_PID_BROKER_OK
								   : BERTH_PID_BROKER_REFUSED,
				      verdict == BERTH_REQUEST_PID ? PEER_PID : 0, expected);
	FUZZ_CHECK(n == (ssize_t)sizeof(expected) &&
		   memcmp(reply, expected, sizeof(expected)) == 0);
}

static void serve(const uint8_t *data, size_t size, size_t cut)
{
	static struct berth_clients clients;
	const struct ucred peer = { .pid = PEER_PID, .uid = 1000, .gid = 1000 };
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;
	uint8_t reply[64];
	int ends[2];
	ssize_t n;

	FUZZ_CHECK(epoll_fd >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	berth_clients_init(&clients, epoll_fd, 8);
	FUZZ_CHECK(send(ends[0], data, cut, MSG_DONTWAIT) == (ssize_t)cut);
	berth_clients_meet(&clients, ends[1], &peer);
	n = reply_read(&clients, ends[0], reply, sizeof(reply));
	reply_check(judge(data, cut < 9 ? cut : 9), n, reply);
	if (n < 0 && size > cut) {
		FUZZ_CHECK(send(ends[0], data + cut, size - cut, MSG_DONTWAIT) ==
			   (ssize_t)(size - cut));
		FUZZ_CHECK(epoll_wait(epoll_fd, &event, 1, 0) == 1);
		berth_clients_hear(&clients, event.data.u64);
		n = reply_read(&clients, ends[0], reply, sizeof(reply));
		reply_check(judge(data, size < 9 ? size : 9), n, reply);
	}
	berth_clients_done(&clients);
	FUZZ_CHECK(clients.count == 0);
	close(ends[0]);
	close(epoll_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t cut;

	berth_log_set_level(BERTH_LOG_ERROR);
	if (size == 0)
		return 0;
	cut = data[0] % size;
	data++;
	size--;
	FUZZ_CHECK(parse(data, size, cut) == judge(data, size));
	serve(data, size, cut);
	return 0;
}
