/* SPDX-License-Identifier: Apache-2.0
 *
 * The connections of clients that haven't said all of their request. A client that has is answered where it
 * was accepted and is never here, so whoever is here has kept us waiting.
 *
 * Invariants: count <= max_count <= BERTH_CLIENTS_MAX; each has an end in time, and the list runs from
 * the one that ends first. When there is no room the newcomer gets it: from the client of whom there are
 * most, first by user, then by process, and of those the oldest. So a flood pushes out itself.
 *
 * One thread. Nothing here waits.
 */
#ifndef BERTH_AGENT_CLIENTS_H
#define BERTH_AGENT_CLIENTS_H

#include <stdint.h>
#include <sys/socket.h>

#include "agent/request.h"
#include "base/attributes.h"
#include "base/clock.h"
#include "base/log.h"

#define BERTH_CLIENTS_MAX     256
#define BERTH_CLIENTS_TIME_NS (500 * BERTH_NS_PER_MS)
#define BERTH_CLIENTS_NONE    (-1)

/* How many clients share a user, or a process. */
struct berth_tally {
	uint64_t key;
	int count; /* 0: free */
};

struct berth_client {
	int fd;                  /* -1: free */
	int newer, older;        /* BERTH_CLIENTS_NONE at the ends */
	int by_user, by_process; /* its tallies */
	uint64_t deadline_ns;
	struct ucred peer;
	struct berth_request request;
};

struct berth_clients {
	int epoll_fd;
	int max_count;
	int count;
	int oldest, newest;
	struct berth_client all[BERTH_CLIENTS_MAX];
	struct berth_tally users[BERTH_CLIENTS_MAX];
	struct berth_tally processes[BERTH_CLIENTS_MAX];
	struct berth_log_limit wrong_said, dropped_said, accept_said;
};

/* epoll_fd reports a client as the number (data.u64) of its place in all. */
void berth_clients_init(struct berth_clients *clients, int epoll_fd, int max_count);
void berth_clients_done(struct berth_clients *clients);

/* Accepts who waits at the listening socket, a batch at a time, and answers who has asked. */
void berth_clients_accept(struct berth_clients *clients, int listener_fd);

/* Takes over fd, a connection from peer. */
void berth_clients_meet(struct berth_clients *clients, int fd, const struct ucred *peer);

/* epoll reported something about the client at this place. */
void berth_clients_hear(struct berth_clients *clients, uint64_t place);

/* Ends those whose time is over. Returns the milliseconds until the next one's end, -1 for none. */
int berth_clients_expire(struct berth_clients *clients);

#endif
