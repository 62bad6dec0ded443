/* SPDX-License-Identifier: Apache-2.0
 *
 * A socket that clients find by its path.
 *
 * Clients believe a socket of root's, in a directory that is root's and nobody else's, behind which root
 * began to listen (base/pid_broker.h). So it is made by root, before privileges are dropped. Its mode is
 * 0666 because connecting takes the right to write; whoever connects learns his own pid and nothing else.
 *
 * The name leads to a socket that listens, or to the one before: it is made under another name and
 * put in place by one rename. "Killed before that": a left-over .NAME.PID, which nothing uses.
 */
#ifndef BERTH_AGENT_LISTENER_H
#define BERTH_AGENT_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "base/reason.h"

struct berth_listener {
	int fd;
	int dir_fd;       /* -1: the socket was made by somebody else */
	const char *path; /* the caller's; NULL as above */
	dev_t device;     /* of the name in the directory */
	ino_t inode;
};

#define BERTH_LISTENER_CLOSED          \
	(struct berth_listener)        \
	{                              \
		.fd = -1, .dir_fd = -1 \
	}

/* path is absolute and outlives the listener. Its directory is made if it isn't there. A socket that nobody
 * listens on is replaced. -EADDRINUSE: somebody does. -EPERM: the directory, or what is in the place of
 * the socket, isn't root's alone. -ENAMETOOLONG and what the system says. */
BERTH_MUST_CHECK int berth_listener_open(const char *path, struct berth_listener *ret_listener,
					 struct berth_reason *reason);

/* Takes over fd, which must be a listening stream socket of the file system; -EINVAL, and fd stays the
 * caller's. *ret_believed: root began to listen on it. */
BERTH_MUST_CHECK int berth_listener_adopt(int fd, struct berth_listener *ret_listener,
					  bool *ret_believed, struct berth_reason *reason);

/* Takes the name away, if it still leads to this socket. Only root may; others leave it. */
void berth_listener_remove(const struct berth_listener *listener);
void berth_listener_close(struct berth_listener *listener);

#endif
