/* SPDX-License-Identifier: Apache-2.0
 *
 * See clients.h. Whom a connection belongs to is asked once, when it is accepted: the kernel remembers who
 * connected, whoever holds the other end by now.
 */
#include "agent/clients.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"

#define ACCEPT_BATCH   64
#define ACCEPT_REST_NS (10 * BERTH_NS_PER_MS)
#define SAY_BURST      3
#define SAY_PERIOD_NS  (60 * BERTH_NS_PER_S)

void berth_clients_init(struct berth_clients *clients, int epoll_fd, int max_count)
{
	memset(clients, 0, sizeof(*clients));
	clients->epoll_fd = epoll_fd;
	clients->max_count = max_count;
	clients->oldest = BERTH_CLIENTS_NONE;
	clients->newest = BERTH_CLIENTS_NONE;
	for (int i = 0; i < BERTH_CLIENTS_MAX; i++)
		clients->all[i].fd = -1;
}

static int tally_add(struct berth_tally *tallies, uint64_t key)
{
	int place = BERTH_CLIENTS_NONE;

	for (int i = 0; i < BERTH_CLIENTS_MAX; i++) {
		if (tallies[i].count > 0 && tallies[i].key == key) {
			tallies[i].count++;
			return i;
		}
		if (tallies[i].count == 0 && place == BERTH_CLIENTS_NONE)
			place = i;
	}
	/* As many tallies as clients: one that is new finds one free. */
	tallies[place] = (struct berth_tally){ .key = key, .count = 1 };
	return place;
}

static void list_append(struct berth_clients *clients, int place)
{
	struct berth_client *client = &clients->all[place];

	client->older = clients->newest;
	client->newer = BERTH_CLIENTS_NONE;
	if (client->older == BERTH_CLIENTS_NONE)
		clients->oldest = place;
	else
		clients->all[client->older].newer = place;
	clients->newest = place;
}

static void list_remove(struct berth_clients *clients, const struct berth_client *client)
{
	if (client->older == BERTH_CLIENTS_NONE)
		clients->oldest = client->newer;
	else
		clients->all[client->older].newer = client->newer;
	if (client->newer == BERTH_CLIENTS_NONE)
		clients->newest = client->older;
	else
		clients->all[client->newer].older = client->older;
}

/* epoll forgets a descriptor when it is closed. */
static void client_end(struct berth_clients *clients, struct berth_client *client)
{
	list_remove(clients, client);
	clients->users[client->by_user].count--;
	clients->processes[client->by_process].count--;
	berth_fd_close(&client->fd);
	clients->count--;
}

void berth_clients_done(struct berth_clients *clients)
{
	while (clients->oldest != BERTH_CLIENTS_NONE)
		client_end(clients, &clients->all[clients->oldest]);
}

static bool has_more(const struct berth_clients *clients, const struct berth_client *a,
		     const struct berth_client *b)
{
	int by_user = clients->users[a->by_user].count - clients->users[b->by_user].count;

	if (by_user != 0)
		return by_user > 0;
	return clients->processes[a->by_process].count > clients->processes[b->by_process].count;
}

static void room_make(struct berth_clients *clients)
{
	struct berth_client *victim = &clients->all[clients->oldest];
	uint32_t unsaid_count = 0;

	for (int i = victim->newer; i != BERTH_CLIENTS_NONE; i = clients->all[i].newer) {
		if (has_more(clients, &clients->all[i], victim))
			victim = &clients->all[i];
	}
	if (berth_log_allow(&clients->dropped_said, SAY_BURST, SAY_PERIOD_NS, &unsaid_count))
		berth_warning("%d connections wait without asking: one of pid %d, user %u, is "
			      "dropped (and %u unsaid)",
			      clients->count, (int)victim->peer.pid, (unsigned)victim->peer.uid,
			      unsaid_count);
	client_end(clients, victim);
}

static void client_keep(struct berth_clients *clients, int fd, const struct ucred *peer,
			const struct berth_request *request)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP };
	struct berth_client *client = clients->all;

	if (clients->count == clients->max_count)
		room_make(clients);
	while (client->fd >= 0)
		client++;
	event.data.u64 = (uint64_t)(client - clients->all);
	if (epoll_ctl(clients->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
		berth_fd_close(&fd);
		return;
	}
	client->fd = fd;
	client->peer = *peer;
	client->request = *request;
	client->deadline_ns = berth_deadline_after(BERTH_CLIENTS_TIME_NS);
	client->by_user = tally_add(clients->users, peer->uid);
	client->by_process = tally_add(clients->processes, (uint64_t)(uint32_t)peer->pid);
	list_append(clients, (int)(client - clients->all));
	clients->count++;
}

/* Twelve bytes fit into any connection that nothing was sent on; whoever is gone doesn't want them. */
static void reply_send(int fd, enum berth_pid_broker_status status, pid_t pid)
{
	uint8_t reply[BERTH_PID_BROKER_REPLY_BYTES];

	berth_pid_broker_reply_encode(status, pid, reply);
	(void)!send(fd, reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void wrong_say(struct berth_clients *clients, const struct ucred *peer, const char *what)
{
	uint32_t unsaid_count = 0;

	if (berth_log_allow(&clients->wrong_said, SAY_BURST, SAY_PERIOD_NS, &unsaid_count))
		berth_warning("pid %d, user %u, sent %s (and %u unsaid)", (int)peer->pid,
			      (unsigned)peer->uid, what, unsaid_count);
}

/* Reads what has come and answers it. true: the connection is done with. */
static bool converse(struct berth_clients *clients, int fd, const struct ucred *peer,
		     struct berth_request *request)
{
	/* One more than a request has: whoever sends that has sent no request. */
	uint8_t bytes[BERTH_PID_BROKER_REQUEST_BYTES + 1];
	ssize_t n;

	do {
		n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
	switch (berth_request_feed(request, bytes, (size_t)n)) {
	case BERTH_REQUEST_MORE:
		return false;
	case BERTH_REQUEST_PID:
		/* 0: somebody of a pid namespace that isn't below ours. */
		reply_send(fd, peer->pid > 0 ? BERTH_PID_BROKER_OK : BERTH_PID_BROKER_UNKNOWN,
			   peer->pid);
		return true;
	case BERTH_REQUEST_UNSUPPORTED:
		reply_send(fd, BERTH_PID_BROKER_REFUSED, 0);
		wrong_say(clients, peer, "a request of an unknown kind");
		return true;
	case BERTH_REQUEST_WRONG:
		break;
	}
	wrong_say(clients, peer, "something that is no request");
	return true;
}

void berth_clients_meet(struct berth_clients *clients, int fd, const struct ucred *peer)
{
	struct berth_request request = { 0 };

	if (converse(clients, fd, peer, &request))
		berth_fd_close(&fd);
	else
		client_keep(clients, fd, peer, &request);
}

void berth_clients_hear(struct berth_clients *clients, uint64_t place)
{
	struct berth_client *client = &clients->all[place];

	/* Ended since it was reported, by another one's doing. Its place may have been given away: then
	 * there is nothing to read, or something that would be read anyway. */
	if (client->fd < 0)
		return;
	if (converse(clients, client->fd, &client->peer, &client->request))
		client_end(clients, client);
}

int berth_clients_expire(struct berth_clients *clients)
{
	uint64_t left_ns;

	while (clients->oldest != BERTH_CLIENTS_NONE) {
		left_ns = berth_deadline_left_ns(clients->all[clients->oldest].deadline_ns);
		if (left_ns > 0)
			return (int)(left_ns / BERTH_NS_PER_MS) + 1;
		client_end(clients, &clients->all[clients->oldest]);
	}
	return -1;
}

/* No descriptor or memory for a connection. It stays in the queue, which would be reported at once again:
 * room is made, or, if it isn't ours that are too many, a moment's rest. */
static void accept_failed(struct berth_clients *clients, int err)
{
	uint32_t unsaid_count = 0;

	if (berth_log_allow(&clients->accept_said, SAY_BURST, SAY_PERIOD_NS, &unsaid_count))
		berth_warning("a connection can't be accepted: %s (and %u unsaid)", strerror(err),
			      unsaid_count);
	if (clients->count > 0)
		room_make(clients);
	else
		berth_sleep_ns(ACCEPT_REST_NS, UINT64_MAX);
}

void berth_clients_accept(struct berth_clients *clients, int listener_fd)
{
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		struct ucred peer = { 0 };
		socklen_t size = sizeof(peer);
		int fd = accept4(listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
				berth_fd_close(&fd);
			else
				berth_clients_meet(clients, fd, &peer);
			continue;
		}
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return;
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		accept_failed(clients, errno);
		return;
	}
}
