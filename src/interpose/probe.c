/* SPDX-License-Identifier: Apache-2.0
 *
 * The probe's rounds; probe.h says what they are.
 */
#include "interpose/probe.h"

#include <berth/recordlock.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "account/account.h"
#include "account/host_pid.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/node_dir.h"
#include "driver/walk.h"
#include "interpose/capture.h"
#include "interpose/real.h"

#define UNIT_BYTES   (2ULL << 20)
#define UNITS_MAX    8U
#define ROUND_MAX    10
#define PAUSE_NS     (20 * BERTH_NS_PER_MS)
#define LOCK_WAIT_NS (2 * BERTH_NS_PER_S)

static _Atomic bool context_made;

/* One probe. */
struct probe {
	int gpu;
	CUdevice device;
	nvmlDevice_t nvml;
	struct berth_recordlock *lock;
	uint64_t lock_deadline_ns;
	uint64_t unit_bytes;
	enum berth_host_pid_missing missing;
	struct berth_reason why;
};

static void lacks(struct probe *probe, enum berth_host_pid_missing missing, const char *why)
{
	probe->missing = missing;
	probe->why = (struct berth_reason){ 0 };
	(void)berth_reason_set(&probe->why, 0, "%s", why);
}

static void looks_done(struct berth_process_list looks[BERTH_PROBE_LOOKS])
{
	for (int i = 0; i < BERTH_PROBE_LOOKS; i++)
		berth_process_list_done(&looks[i]);
}

static bool look(struct probe *probe, struct berth_process_list *ret_look)
{
	if (!berth_process_list_read(probe->nvml, ret_look)) {
		lacks(probe, BERTH_HOST_PID_NO_LIST, "NVML does not list the processes of the GPU");
		return false;
	}
	return true;
}

static CUmemAllocationProp blocks(const struct probe *probe)
{
	return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
						    .id = probe->device } };
}

/* Charged to the share like any memory. */
static bool block_take(struct probe *probe, uint64_t bytes, CUmemGenericAllocationHandle *ret_block)
{
	CUmemAllocationProp prop = blocks(probe);
	CUresult res = CUDA_ERROR_OUT_OF_MEMORY;

	if (berth_account_ask_passing(probe->gpu, bytes) == 0) {
		res = REAL(cuMemCreate, ret_block, bytes, &prop, 0);
		if (res != CUDA_SUCCESS)
			berth_account_refund(probe->gpu, BERTH_CHARGE_DATA, bytes);
	}
	if (res != CUDA_SUCCESS)
		lacks(probe, BERTH_HOST_PID_NO_ROOM,
		      res == CUDA_ERROR_OUT_OF_MEMORY
			      ? "no room for the memory that the probe takes for a moment"
			      : "the driver has no physical memory by handle (cuMemCreate)");
	return res == CUDA_SUCCESS;
}

static void block_give(const struct probe *probe, uint64_t bytes,
		       CUmemGenericAllocationHandle block)
{
	(void)REAL(cuMemRelease, block); /* it is ours and mapped nowhere */
	berth_account_refund(probe->gpu, BERTH_CHARGE_DATA, bytes);
}

static bool steps(struct probe *probe, struct berth_process_list looks[BERTH_PROBE_LOOKS],
		  uint64_t first_bytes, uint64_t second_bytes)
{
	CUmemGenericAllocationHandle first, second;
	bool seen;

	if (!look(probe, &looks[0]))
		return false;
	if (looks[0].count == 0) {
		lacks(probe, BERTH_HOST_PID_NO_LIST,
		      "NVML lists no process with the memory that it uses");
		return false;
	}
	if (!block_take(probe, first_bytes, &first))
		return false;
	BERTH_CRASH(probe_one_step);
	seen = look(probe, &looks[1]) && block_take(probe, second_bytes, &second);
	if (seen) {
		BERTH_CRASH(probe_two_steps);
		seen = look(probe, &looks[2]);
		block_give(probe, second_bytes, second);
	}
	block_give(probe, first_bytes, first);
	return seen && look(probe, &looks[3]);
}

static uint64_t random_bytes(const struct probe *probe)
{
	uint8_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = (uint8_t)(berth_clock_ns() / BERTH_NS_PER_US);
	return (1 + number % UNITS_MAX) * probe->unit_bytes;
}

/* A quarter of the limit, and of the GPU, stays free, so that hardly anybody has to wait for our sake. */
static bool has_room(struct probe *probe, uint64_t bytes)
{
	struct berth_ledger_room room;
	nvmlMemory_t memory = { 0 };
	uint64_t free_bytes;

	if (REAL_NVML(nvmlDeviceGetMemoryInfo, probe->nvml, &memory) == NVML_SUCCESS &&
	    memory.free < bytes + memory.total / 4) {
		lacks(probe, BERTH_HOST_PID_NO_ROOM,
		      "the GPU has no room for the memory that the probe takes for a moment");
		return false;
	}
	if (berth_ledger_room(berth_account_region(), (uint32_t)probe->gpu, &room) < 0)
		return false;
	if (!room.limit_bytes)
		return true;
	free_bytes =
		room.limit_bytes > room.charged_bytes ? room.limit_bytes - room.charged_bytes : 0;
	if (free_bytes >= bytes && free_bytes - bytes >= room.limit_bytes / 4)
		return true;
	lacks(probe, BERTH_HOST_PID_NO_ROOM,
	      "the share has no room for the memory that the probe takes for a moment");
	return false;
}

/* In a capture that another thread has begun, or begins now, the driver refuses calls such as ours, and spoils
 * the capture for it, unless the thread that makes them has said that it means no harm. */
static bool steps_relaxed(struct probe *probe, struct berth_process_list looks[BERTH_PROBE_LOOKS],
			  uint64_t first_bytes, uint64_t second_bytes)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	bool exchanged = REAL(cuThreadExchangeStreamCaptureMode, &mode) == CUDA_SUCCESS;
	bool seen = steps(probe, looks, first_bytes, second_bytes);

	if (exchanged)
		(void)REAL(cuThreadExchangeStreamCaptureMode, &mode); /* it came from there */
	return seen;
}

/* With the lock. 0 = not told apart. */
static unsigned int round_locked(struct probe *probe)
{
	struct berth_process_list looks[BERTH_PROBE_LOOKS] = { 0 };
	uint64_t first_bytes = random_bytes(probe);
	uint64_t second_bytes = random_bytes(probe);
	unsigned int pid = 0;
	bool seen = false;

	if (has_room(probe, first_bytes + second_bytes)) {
		berth_account_set_passing(probe->gpu, first_bytes + second_bytes);
		seen = steps_relaxed(probe, looks, first_bytes, second_bytes);
		berth_account_set_passing(probe->gpu, 0);
	}
	if (seen) {
		pid = berth_probe_match(looks, first_bytes, second_bytes);
		if (!pid)
			lacks(probe, BERTH_HOST_PID_UNDECIDED,
			      "no process that NVML lists could be told to be this one");
	}
	looks_done(looks);
	/* Without the lock all the time, another's step of the same size could have been ours. */
	if (pid && berth_recordlock_check(probe->lock) != 0) {
		lacks(probe, BERTH_HOST_PID_NO_LOCK, "the probe lock was lost meanwhile");
		pid = 0;
	}
	return pid;
}

static bool lock_take(struct probe *probe)
{
	struct berth_recordlock_owner owner = { 0 };
	uint64_t wait_ns = berth_deadline_left_ns(probe->lock_deadline_ns);
	int err = berth_recordlock_take(probe->lock, (int64_t)(wait_ns / BERTH_NS_PER_MS), &owner);

	if (!err)
		return true;
	probe->why = (struct berth_reason){ 0 };
	probe->missing = err == -ETIMEDOUT ? BERTH_HOST_PID_BUSY : BERTH_HOST_PID_NO_LOCK;
	if (err == -ETIMEDOUT && owner.pid > 0)
		(void)berth_reason_set(&probe->why, 0,
				       "process %d held the probe lock all the time",
				       (int)owner.pid);
	else if (err == -ETIMEDOUT)
		(void)berth_reason_set(&probe->why, 0,
				       "a process that is not visible here held the probe lock all "
				       "the time");
	else
		(void)berth_reason_set(&probe->why, 0, "the probe lock can't be taken: %s",
				       strerror(-err));
	return false;
}

/* In a capture no call of ours is made. */
static unsigned int rounds(struct probe *probe, int round_max)
{
	unsigned int pid = 0;

	lacks(probe, BERTH_HOST_PID_UNDECIDED, "a stream is in capture");
	for (int i = 0; i < round_max && !pid && !berth_capture_running(); i++) {
		if (i > 0)
			berth_sleep_ns(PAUSE_NS, UINT64_MAX);
		if (!lock_take(probe))
			break;
		BERTH_CRASH(probe_locked);
		/* A fork waits: NVML's locks would be held in its child because of us. */
		berth_walk_enter();
		pid = round_locked(probe);
		berth_walk_leave();
		BERTH_CRASH(probe_judged);
		(void)berth_recordlock_give(probe->lock); /* ours, or lost: gone either way */
		if (!pid && probe->missing == BERTH_HOST_PID_NO_ROOM)
			break;
	}
	return pid;
}

static void lock_report(void *arg, int err, const char *text)
{
	(void)arg;
	(void)err;
	berth_log_once(BERTH_LOG_INFO, "probe lock: %s", text);
}

/* Whoever can write to the file can hold the lock, so it has to be root's or ours. */
static void lock_open_failed(struct probe *probe, const char *path, int err)
{
	bool is_distrust = err == -EPERM || err == -ELOOP || err == -EISDIR || err == -EINVAL;

	probe->missing = is_distrust ? BERTH_HOST_PID_DISTRUST : BERTH_HOST_PID_NO_LOCK;
	probe->why = (struct berth_reason){ 0 };
	if (err == -EPERM)
		(void)berth_reason_set(&probe->why, 0,
				       "%s must belong to root or to user %u, and nobody else may "
				       "write it",
				       path, (unsigned)geteuid());
	else if (is_distrust)
		(void)berth_reason_set(&probe->why, 0, "%s is not a regular file: remove it", path);
	else
		(void)berth_reason_set(&probe->why, 0, "%s can't be opened: %s", path,
				       strerror(-err));
}

static bool lock_open(struct probe *probe)
{
	/* In somebody else's program we make no task that waits in the kernel's queue: it would take part
	 * in the kernel's search for deadlocks among the program's own locks, and an execve meanwhile could
	 * lose those. */
	const struct berth_recordlock_options options = { .size = sizeof(options),
							  .way = BERTH_RECORDLOCK_POLL,
							  .flags = BERTH_RECORDLOCK_CREATE |
								   BERTH_RECORDLOCK_TRUSTED,
							  .report = lock_report };
	char dir[BERTH_NODE_DIR_MAX];
	char path[PATH_MAX];
	int err = berth_node_dir(dir, sizeof(dir), &probe->why);

	if (err) {
		probe->missing = err == -EPERM ? BERTH_HOST_PID_DISTRUST : BERTH_HOST_PID_NO_PLACE;
		return false;
	}
	err = berth_node_dir_file(dir, BERTH_NODE_PROBE_LOCK, path, sizeof(path));
	if (!err)
		err = berth_recordlock_open(path, &options, &probe->lock);
	if (!err)
		return true;
	lock_open_failed(probe, path, err);
	return false;
}

/* NVML's name for the GPU, by UUID: its order is its own. */
static bool nvml_open(struct probe *probe)
{
	struct berth_region_gpu gpu;
	bool found = false;

	berth_region_gpu(berth_account_region(), (uint32_t)probe->gpu, &gpu);
	berth_walk_enter();
	if (berth_nvml_start() == NVML_SUCCESS) {
		found = REAL_NVML(nvmlDeviceGetHandleByUUID, gpu.uuid, &probe->nvml) ==
			NVML_SUCCESS;
		if (!found)
			berth_nvml_stop();
	}
	berth_walk_leave();
	if (!found)
		lacks(probe, BERTH_HOST_PID_NO_LIST, "NVML does not know the GPU");
	return found;
}

static void unit_find(struct probe *probe)
{
	CUmemAllocationProp prop = blocks(probe);
	size_t granularity = 0;

	probe->unit_bytes = UNIT_BYTES;
	if (REAL(cuMemGetAllocationGranularity, &granularity, &prop,
		 CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
	    granularity > UNIT_BYTES)
		probe->unit_bytes = granularity;
}

static unsigned int run(struct probe *probe, int round_max)
{
	unsigned int pid = 0;

	if (!lock_open(probe))
		return 0;
	if (nvml_open(probe)) {
		unit_find(probe);
		pid = rounds(probe, round_max);
		berth_walk_enter();
		berth_nvml_stop();
		berth_walk_leave();
	}
	berth_recordlock_close(probe->lock);
	return pid;
}

static void find(int gpu, CUdevice device, int round_max, uint64_t lock_wait_ns)
{
	BERTH_UNCANCELLED;
	struct probe probe = { .gpu = gpu, .device = device };
	int saved_errno = errno;
	unsigned int pid;

	/* One wait for it in a process's life: then it is taken if it is free. */
	if (berth_host_pid_note().missing == BERTH_HOST_PID_BUSY)
		lock_wait_ns = 0;
	if (!berth_host_pid_ask_again()) {
		probe.lock_deadline_ns =
			lock_wait_ns ? berth_deadline_after(lock_wait_ns) : BERTH_DEADLINE_NOW;
		pid = run(&probe, round_max);
		if (pid && pid <= INT32_MAX)
			berth_host_pid_found((int32_t)pid, BERTH_HOST_PID_PROBE);
		else
			berth_host_pid_lacks(probe.missing, "%s", probe.why.text);
	}
	errno = saved_errno;
}

void berth_probe_before_context(const struct berth_growth *growth)
{
	unsigned int pid = (unsigned int)berth_host_pid();

	if (!growth->running || berth_host_pid_note().source != BERTH_HOST_PID_BROKER ||
	    atomic_load_explicit(&context_made, memory_order_relaxed))
		return;
	for (unsigned int i = 0; i < growth->before.processes.count; i++) {
		if (growth->before.processes.entries[i].pid == pid) {
			berth_host_pid_refute();
			return;
		}
	}
}

void berth_probe_context(int gpu, CUdevice device)
{
	atomic_store_explicit(&context_made, true, memory_order_relaxed);
	if (gpu >= 0 && berth_host_pid_try(true))
		find(gpu, device, ROUND_MAX, LOCK_WAIT_NS);
}

void berth_probe_allocation(int gpu, CUdevice device)
{
	if (gpu >= 0 && berth_host_pid_try(false))
		find(gpu, device, 1, 0);
}

void berth_probe_forget(void)
{
	atomic_store_explicit(&context_made, false, memory_order_relaxed);
}
