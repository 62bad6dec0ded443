/* SPDX-License-Identifier: Apache-2.0
 *
 * A wait in the kernel's queue for a lock (F_SETLKW) with a deadline, without a signal, handler or timer of
 * the program: a proxy process waits, which shares the table of descriptors. A record lock belongs to
 * that table, so what the proxy is granted is its parent's, and stays so when the proxy has ended.
 */
#ifndef BERTH_LOCK_PROXY_H
#define BERTH_LOCK_PROXY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/attributes.h"
#include "lock/descriptor.h"

struct berth_task;

/* Waits a while (at most two seconds, then the proxy ends; a new one may follow). count: one up when it begins to wait.
 *
 * 0: granted. The kernel's record names the proxy until the owner writes his own over it (recordlock.c); then
 * berth_proxy_dismiss lets the proxy end, which must be reaped in the end: berth_proxy_reap. -ETIMEDOUT: not granted, or
 * in the last moment, which a try tells. -EBADF: the number isn't ours any more. -ECHILD: there can be no
 * proxy, now or at all. Else what the kernel said of the lock. */
BERTH_MUST_CHECK int berth_proxy_wait(const struct berth_descriptor *descriptor, int64_t byte,
				      uint64_t deadline_ns, _Atomic uint64_t *count,
				      struct berth_task **ret_proxy);

void berth_proxy_dismiss(struct berth_task *task);
void berth_proxy_reap(struct berth_task *task);

/* What it is called, for those who find its pid in the kernel's record: its parent is meant. */
#define BERTH_PROXY_NAME "berth-proxy"

#endif
