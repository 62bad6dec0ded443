/* SPDX-License-Identifier: Apache-2.0
 *
 * See host_pid.h. No lock: a try is begun by a compare-and-swap of the time when the next one is due, so
 * there is one at a time, and a thread that doesn't get it goes on without.
 */
#include "account/host_pid.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "account/account.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/node_dir.h"
#include "base/pid_broker.h"
#include "base/process.h"

#define BROKER_WAIT_NS (500 * BERTH_NS_PER_MS)
/* In the middle of the program's work; a broker that is well answers in one. */
#define BROKER_WAIT_AGAIN_NS (50 * BERTH_NS_PER_MS)
#define RETRY_MAX_S          64ULL

/* Values of due_ns besides a time. */
#define NOT_WANTED 0ULL
#define UNDER_WAY  UINT64_MAX

static struct {
	_Atomic int32_t pid;
	_Atomic uint64_t note;   /* berth_host_pid_note_pack */
	_Atomic uint64_t due_ns; /* of the next try */
	_Atomic uint32_t try_count;
	_Atomic uint32_t said_mask; /* bit = cause */
	_Atomic bool ask_hami;
	_Atomic bool broker_failed; /* it is there, and of no use: not asked again */
} host_pid;

int32_t berth_host_pid(void)
{
	return atomic_load_explicit(&host_pid.pid, memory_order_relaxed);
}

struct berth_host_pid_note berth_host_pid_note(void)
{
	return berth_host_pid_note_unpack(
		atomic_load_explicit(&host_pid.note, memory_order_relaxed));
}

/* Release pairs with the acquire of a try: its thread sees what the last one left. */
static void settle(int32_t pid, struct berth_host_pid_note note, uint64_t due_ns)
{
	atomic_store_explicit(&host_pid.pid, pid, memory_order_relaxed);
	atomic_store_explicit(&host_pid.note, berth_host_pid_note_pack(note), memory_order_relaxed);
	atomic_store_explicit(&host_pid.due_ns, due_ns, memory_order_release);
	berth_account_tell_host_pid();
}

void berth_host_pid_found(int32_t pid, enum berth_host_pid_source source)
{
	settle(pid, (struct berth_host_pid_note){ .source = source }, NOT_WANTED);
	berth_debug("host pid %d, from %s", pid, berth_host_pid_source_name(source));
}

void berth_host_pid_lacks(enum berth_host_pid_missing missing, const char *fmt, ...)
{
	uint32_t tries = atomic_fetch_add_explicit(&host_pid.try_count, 1, memory_order_relaxed);
	uint64_t wait_s = tries < 6 ? 1ULL << tries : RETRY_MAX_S;
	char text[BERTH_REASON_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	settle(0, (struct berth_host_pid_note){ .missing = missing },
	       berth_deadline_after(wait_s * BERTH_NS_PER_S));
	if (!(atomic_fetch_or_explicit(&host_pid.said_mask, 1U << missing, memory_order_relaxed) &
	      1U << missing))
		berth_warning("the host pid of this process is unknown: %s; memory limits hold all "
			      "the same, and it is looked for again",
			      text);
}

bool berth_host_pid_try(bool with_context)
{
	uint64_t due_ns = atomic_load_explicit(&host_pid.due_ns, memory_order_relaxed);

	if (due_ns == NOT_WANTED || due_ns == UNDER_WAY ||
	    (!with_context && !berth_deadline_passed(due_ns)))
		return false;
	/* Acquire pairs with the release in settle. */
	return atomic_compare_exchange_strong_explicit(&host_pid.due_ns, &due_ns, UNDER_WAY,
						       memory_order_acquire, memory_order_relaxed);
}

/* true: found. One that is there but fails is remembered. */
static bool ask_one(const char *dir, const char *name, uint64_t deadline_ns)
{
	struct berth_reason reason = { 0 };
	char path[PATH_MAX];
	pid_t pid = 0;
	int err = berth_node_dir_file(dir, name, path, sizeof(path));

	if (!err)
		err = berth_pid_broker_ask(path, deadline_ns, &pid, &reason);
	if (!err) {
		berth_host_pid_found(pid, BERTH_HOST_PID_BROKER);
		return true;
	}
	/* Whoever can't be believed isn't asked again; one that is away or busy is. */
	if (err == -EPERM || err == -EPROTO)
		atomic_store_explicit(&host_pid.broker_failed, true, memory_order_relaxed);
	if (err != -ENOENT)
		berth_log_once(BERTH_LOG_WARNING, "the broker of host pids is of no use: %s",
			       reason.text);
	return false;
}

static bool ask_brokers(uint64_t wait_ns)
{
	uint64_t deadline_ns = berth_deadline_after(wait_ns);
	char dir[BERTH_NODE_DIR_MAX];

	if (berth_node_dir(dir, sizeof(dir), NULL) == 0 &&
	    ask_one(dir, BERTH_NODE_BROKER, deadline_ns))
		return true;
	return atomic_load_explicit(&host_pid.ask_hami, memory_order_relaxed) &&
	       ask_one(berth_node_dir_of_hami(), BERTH_NODE_BROKER_HAMI, deadline_ns);
}

bool berth_host_pid_ask_again(void)
{
	return !atomic_load_explicit(&host_pid.broker_failed, memory_order_relaxed) &&
	       ask_brokers(BROKER_WAIT_AGAIN_NS);
}

void berth_host_pid_begin(const struct berth_config *config)
{
	uint64_t not_wanted = NOT_WANTED;

	if (berth_host_pid_note_pack(berth_host_pid_note()) ||
	    !atomic_compare_exchange_strong_explicit(&host_pid.due_ns, &not_wanted, UNDER_WAY,
						     memory_order_acquire, memory_order_relaxed))
		return; /* another thread came first */
	if (berth_process_in_initial_pid_namespace()) {
		berth_host_pid_found(getpid(), BERTH_HOST_PID_INITIAL);
		return;
	}
	atomic_store_explicit(&host_pid.ask_hami, config->hami_broker, memory_order_relaxed);
	if (!ask_brokers(BROKER_WAIT_NS))
		/* In words only when a context has been made without finding it. */
		settle(0, (struct berth_host_pid_note){ .missing = BERTH_HOST_PID_NOT_YET },
		       berth_clock_ns());
}

void berth_host_pid_refute(void)
{
	berth_log_once(BERTH_LOG_WARNING,
		       "the broker of host pids answered %d, which is another process on the GPU: "
		       "not believed",
		       berth_host_pid());
	atomic_store_explicit(&host_pid.broker_failed, true, memory_order_relaxed);
	settle(0, (struct berth_host_pid_note){ .missing = BERTH_HOST_PID_NOT_YET },
	       berth_clock_ns());
}

void berth_host_pid_forget(void)
{
	atomic_store_explicit(&host_pid.pid, 0, memory_order_relaxed);
	atomic_store_explicit(&host_pid.note, 0, memory_order_relaxed);
	atomic_store_explicit(&host_pid.due_ns, NOT_WANTED, memory_order_relaxed);
	atomic_store_explicit(&host_pid.try_count, 0, memory_order_relaxed);
	atomic_store_explicit(&host_pid.said_mask, 0, memory_order_relaxed);
	atomic_store_explicit(&host_pid.broker_failed, false, memory_order_relaxed);
}
