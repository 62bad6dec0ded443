/* SPDX-License-Identifier: Apache-2.0
 *
 * The host-pid broker: a process in a container asks one on the host under which pid the host knows it.
 * The wire format is that of HAMi's broker, and berthd's is the same, so one client serves both.
 *
 * A stream socket of the file system; all numbers big-endian:
 *
 *   request   "HPID"  u16 version 1  u16 command 1
 *   reply     "HPID"  u16 version 1  u16 status, 0 = ok  u32 pid
 *
 * The broker takes the pid from the kernel (SO_PEERCRED), not from the request, so it answers nobody
 * anything but his own pid. The client believes root's broker only: a tenant who could put his own in its
 * place would have his neighbours charged for his memory.
 */
#ifndef BERTH_BASE_PID_BROKER_H
#define BERTH_BASE_PID_BROKER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "base/reason.h"

#define BERTH_PID_BROKER_REQUEST_BYTES 8
#define BERTH_PID_BROKER_REPLY_BYTES   12
#define BERTH_PID_BROKER_VERSION       1
#define BERTH_PID_BROKER_COMMAND_PID   1

enum berth_pid_broker_status {
	BERTH_PID_BROKER_OK = 0,
	BERTH_PID_BROKER_UNKNOWN = 1, /* the peer has no pid in the broker's pid namespace */
	BERTH_PID_BROKER_REFUSED = 2, /* a version or command that this broker doesn't know */
};

void berth_pid_broker_request_encode(uint8_t *ret_request);
void berth_pid_broker_reply_encode(enum berth_pid_broker_status status, pid_t pid,
				   uint8_t *ret_reply);

/* size bytes that came as a reply. -EPROTO, with the reason, unless it is one whole reply that says "ok"
 * and a pid of 1 to INT32_MAX. who: the broker, for the reason. */
BERTH_MUST_CHECK int berth_pid_broker_reply_decode(const uint8_t *reply, size_t size,
						   const char *who, pid_t *ret_pid,
						   struct berth_reason *reason);

/* Asks the broker behind socket_path for this process's pid on its side. Each error with its reason:
 *
 *   -ENOENT     nobody is there: no directory, no socket, or one that nobody listens on
 *   -EPERM      not trusted: the directory isn't root's or others can write to it, the socket isn't root's,
 *               it or its directory is a link, or the process behind it isn't root's. Where root isn't
 *               mapped (a user namespace) nothing is root's.
 *   -ETIMEDOUT  not done by the deadline
 *   -EPROTO     hung up before the answer was whole, or an answer that is none
 *   -EACCES, -EMFILE, ... what the system said
 *
 * Nothing here waits beyond the deadline (berth_clock_ns; BERTH_DEADLINE_NOW is as good as never).
 * Directories above the socket's own may be links. Thread-safe; raises no SIGPIPE; its descriptors
 * are close-on-exec and never 0 to 2; keeps errno. Callers that may be cancelled hold
 * BERTH_UNCANCELLED (base/cancel.h). */
BERTH_MUST_CHECK int berth_pid_broker_ask(const char *socket_path, uint64_t deadline_ns,
					  pid_t *ret_pid, struct berth_reason *reason);

#endif
