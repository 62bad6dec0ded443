/* SPDX-License-Identifier: Apache-2.0
 *
 * This process's host pid: the number under which NVML knows it. In the initial pid namespace that is
 * getpid(). In a container it is asked for, or proved:
 *
 *   initial   no question, no lock, no NVML call
 *   broker    berthd or HAMi's broker on the host tells the pid of whoever connects; asked once, at the
 *             first cuInit, 500 ms at most
 *   probe     found with a context (interpose/probe.h), under the node's probe lock
 *
 * Unknown is a state like any other: memory limits hold in it, and it is looked for again later, at once
 * with the next context and ever more rarely (1 s, doubling to 64 s) with an allocation. It is never guessed.
 *
 * Thread-safe; keeps errno; nothing here is inherited by a fork child.
 */
#ifndef BERTH_ACCOUNT_HOST_PID_H
#define BERTH_ACCOUNT_HOST_PID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"
#include "policy/config.h"
#include "region/host_pid.h"

/* 0 = unknown. One load. */
int32_t berth_host_pid(void);
struct berth_host_pid_note berth_host_pid_note(void);

/* Before a seat is claimed: the tiers that need no context. */
void berth_host_pid_begin(const struct berth_config *config);

/* Is it time to look for it? One load if it is known. A thread that gets true looks alone, and ends it with
 * berth_host_pid_found or _lacks. with_context: a context was just made, so don't wait for the time. */
BERTH_MUST_CHECK bool berth_host_pid_try(bool with_context);
/* In a try: has a broker come up meanwhile? Then it is found. */
BERTH_MUST_CHECK bool berth_host_pid_ask_again(void);

void berth_host_pid_found(int32_t pid, enum berth_host_pid_source source);
/* Not found this time. Said once for each cause (level warning). */
void berth_host_pid_lacks(enum berth_host_pid_missing missing, const char *fmt, ...)
	BERTH_PRINTF(2, 3);

/* The broker's answer is a process that had a context on a GPU before this one had any: not us. */
void berth_host_pid_refute(void);

/* In a fork child. */
void berth_host_pid_forget(void);

#endif
