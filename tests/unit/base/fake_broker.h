/* SPDX-License-Identifier: Apache-2.0
 *
 * Brokers that do well, or not: a child process that accepts connections at a socket in the test's directory and
 * serves each by a function.
 */
#ifndef BERTH_TESTS_FAKE_BROKER_H
#define BERTH_TESTS_FAKE_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fake_broker {
	pid_t pid;
	int verdict_fd; /* a byte for each connection that serve was content with ('+') or not ('-') */
};

/* What a broker does with a connection, which is closed afterwards. 0: the client did as it should. */
typedef int fake_serve(int fd, void *arg);

struct fake_options {
	int backlog;         /* 0: 128 */
	uid_t listener_uid;  /* who calls listen(2) */
	unsigned delay_ms;   /* before the first accept */
	unsigned accept_not; /* 1: never accepts */
};

/* Listens when it returns. */
void fake_broker_start(struct fake_broker *broker, const char *path, fake_serve *serve, void *arg,
		       const struct fake_options *options);
void fake_broker_stop(struct fake_broker *broker);
/* The next connection's verdict; waits for it. */
char fake_broker_verdict(struct fake_broker *broker);

struct fake_reply {
	unsigned char bytes[64];
	size_t size;
	unsigned pause_ms; /* > 0: one byte at a time */
	bool stays;        /* doesn't hang up */
};

struct fake_reply fake_reply_of(const char *magic, unsigned version, unsigned status, uint32_t pid);
/* Waits for the request, then sends the fake_reply that arg is. */
int fake_serve_reply(int fd, void *arg);
/* What a broker is for. */
int fake_serve_peer(int fd, void *arg);
/* No answer, until the client has gone. */
int fake_serve_nothing(int fd, void *arg);

/* Reads the request; 0 if it is the one that the protocol demands and nothing else. */
int fake_request_read(int fd);
/* The pid of whoever connected. */
pid_t fake_peer(int fd);
/* In full, whatever it is. */
void fake_send(int fd, const void *bytes, size_t size);
/* Until the client has gone. 0 if it said nothing. */
int fake_wait_end(int fd);

#endif
