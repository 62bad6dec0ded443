/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps an open file open, with the locks on it, exactly as long as this process's memory exists,
 * and without a descriptor that a program could close or a child inherit. For file systems where a
 * mapping doesn't do that (overlayfs maps the file below instead of ours).
 *
 * How: the open file is sent over a pair of sockets and never received, so the receiving socket's
 * queue keeps it; the socket in turn is kept by an asynchronous poll (io_submit) for something that
 * never comes. Such requests belong to the memory of a process: children have none of them, exec and
 * any death cancel them. Only for files of this room.
 *
 * What it costs: the kernel cancels in the background, so that after a death the lock may stay for
 * some milliseconds (4 were seen); a dead process is taken for living so much longer.
 * Rejected: the descriptor alone (a program that closes all loses its seat, and is then over the limit
 * unseen); a thread with a descriptor table of its own (a guest starts no threads); io_uring (refused
 * in most containers).
 */
#ifndef BERTH_REGION_PIN_H
#define BERTH_REGION_PIN_H

#include "base/attributes.h"

/* 0, or -errno where the kernel or a sandbox has no such requests, or their number is exhausted
 * (fs.aio-max-nr): keep the descriptor then. The descriptor stays the caller's. No fork may happen
 * meanwhile (lockbyte.h). */
BERTH_MUST_CHECK int berth_pin_hold(int fd, unsigned long *ret_pin);
/* Lets go; 0 = there is nothing. Not in a child. */
void berth_pin_drop(unsigned long pin);

#endif
