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

/* Counts itself when it begins to wait. 0: granted; the kernel's record names the proxy, which is gone: the owner writes his own over it
 * (recordlock.c). -ETIMEDOUT: the deadline passed; it may still have been granted in the last moment. -EBADF: the
 * number isn't ours any more. -ECHILD: there can be no proxy, now or at all. Else what the kernel said of
 * the lock. */
BERTH_MUST_CHECK int berth_proxy_wait(const struct berth_descriptor *descriptor, int64_t byte,
				      uint64_t deadline_ns, _Atomic uint64_t *count);

#endif
