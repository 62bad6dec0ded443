/* SPDX-License-Identifier: Apache-2.0
 *
 * Attach, fork, and the way from a GPU's index to this process's seat. The reading side for programs
 * without a seat is in room.c.
 *
 * Lock: the guard, rank "attach": held while a region is joined and a seat claimed, never across a
 * driver or NVML call (the list of GPUs is fetched before it is taken), so that a driver that starts
 * threads which call cuInit again can't deadlock on it. A thread that comes second waits for the
 * first one's file operations, which are bounded.
 *
 * A child in its fork handler writes its own copies and nothing of the file: it has neither the
 * mapping nor the lock of its parent's seat. Where it stops or dies matters to nobody else:
 *
 * Killed or stopped              what others see
 * before all is forgotten        the parent's seat and books, as they were; free when the parent dies
 *                                (where a descriptor carries the lock, not before a stopped child has
 *                                closed its copy)
 * with the guard, on its way     as a joiner or claimer (recover.c)
 * seated, not yet published      a seat with a charge of zero, dead at once when it dies
 */
#include "account/account.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "account/books.h"
#include "account/handles.h"
#include "account/host_pid.h"
#include "account/primary.h"
#include "account/reserve.h"
#include "account/room.h"
#include "account/settings.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "base/log.h"
#include "base/process.h"
#include "base/size.h"
#include "region/seat.h"

#define PASSING_NS     (100 * BERTH_NS_PER_MS)
#define PASSING_NAP_NS (200 * BERTH_NS_PER_US)

/* The page that is all zero in a fork child. */
struct wiped_page {
	_Atomic uint32_t state; /* enum berth_account_state; released after all else is set */
	_Atomic uint32_t ours;  /* 0 in a child that no fork handler has seen */
};

static struct {
	pthread_mutex_t guard;
	_Atomic(struct wiped_page *) page; /* NULL before the first attach; then for ever */
	struct berth_region *region;       /* this and the seat: while attached */
	struct berth_seat *seat;
	_Atomic int error;
	_Atomic bool handler_registered;
	void (*_Atomic child_hook)(void);
} account = { .guard = PTHREAD_MUTEX_INITIALIZER };

enum berth_account_state berth_account_state(void)
{
	struct wiped_page *page = atomic_load_explicit(&account.page, memory_order_acquire);

	/* Acquire pairs with the release in publish_locked: region and seat are seen. */
	return page ? (enum berth_account_state)atomic_load_explicit(&page->state,
								     memory_order_acquire)
		    : BERTH_ACCOUNT_UNDECIDED;
}

static void publish_locked(enum berth_account_state state)
{
	struct wiped_page *page = atomic_load_explicit(&account.page, memory_order_relaxed);

	atomic_store_explicit(&page->ours, 1, memory_order_relaxed);
	atomic_store_explicit(&page->state, (uint32_t)state, memory_order_release);
}

/* In a fork child: everything here is the parent's. The guard may be a copy of a held one. */
static void become_child(void)
{
	struct wiped_page *page = atomic_load_explicit(&account.page, memory_order_relaxed);
	struct berth_seat *seat = account.seat;
	struct berth_region *region = account.region;
	void (*hook)(void);

	BERTH_CRASH(account_child_entered);
	if (page) {
		atomic_store_explicit(&page->state, BERTH_ACCOUNT_UNDECIDED, memory_order_relaxed);
		atomic_store_explicit(&page->ours, 1, memory_order_relaxed);
	}
	account.guard = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	account.seat = NULL;
	account.region = NULL;
	atomic_store_explicit(&account.error, 0, memory_order_relaxed);
	if (seat)
		berth_seat_forget(seat);
	if (region)
		berth_region_forget(region);
	BERTH_CRASH(account_child_half_forgotten);
	berth_account_room_forget();
	berth_settings_forget();
	berth_host_pid_forget();
	berth_books_forget();
	berth_handles_forget();
	berth_primary_forget();
	berth_reserve_forget();
	BERTH_CRASH(account_child_forgotten);
	hook = atomic_load_explicit(&account.child_hook, memory_order_relaxed);
	if (hook)
		hook();
}

/* Nothing of ours was ever used without the page: other programs' children are none of our business. */
static void fork_child(void)
{
	if (atomic_load_explicit(&account.page, memory_order_relaxed))
		become_child();
}

static int register_handler(struct berth_reason *reason)
{
	int err;

	if (atomic_load_explicit(&account.handler_registered, memory_order_relaxed))
		return 0;
	err = pthread_atfork(NULL, NULL, fork_child);
	if (err)
		return berth_reason_set(reason, -err, "no fork handler: %s", strerror(err));
	atomic_store_explicit(&account.handler_registered, true, memory_order_relaxed);
	return 0;
}

/* Before main, where no other thread is about to fork: a fork that has begun when a handler is
 * registered doesn't run it. */
__attribute__((constructor)) static void register_early(void)
{
	(void)register_handler(NULL); /* tried again at the first use */
}

/* Without a lock, which a child forked meanwhile would find locked for ever. Of two threads that come at
 * once one's page is taken; both may register the handler, which finds nothing to do the second time. */
static int prepare_page(struct berth_reason *reason)
{
	struct wiped_page *none = NULL;
	struct wiped_page *page;

	if (!atomic_load_explicit(&account.page, memory_order_acquire)) {
		page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			return berth_reason_set(reason, -errno, "no memory for a page: %s",
						strerror(errno));
		/* Refused by kernels before 4.14: then the fork handler alone does it. */
		(void)madvise(page, sizeof(*page), MADV_WIPEONFORK);
		atomic_store_explicit(&page->ours, 1, memory_order_relaxed);
		if (!atomic_compare_exchange_strong_explicit(
			    &account.page, &none, page, memory_order_acq_rel, memory_order_acquire))
			(void)munmap(page, sizeof(*page)); /* can't fail: we mapped it */
	}
	return register_handler(reason);
}

/* A child that came by a bare clone: no fork handler ran. Such a child has one thread here. */
static void notice_bare_clone(void)
{
	struct wiped_page *page = atomic_load_explicit(&account.page, memory_order_acquire);

	if (page && !atomic_exchange_explicit(&page->ours, 1, memory_order_relaxed))
		become_child();
}

int berth_account_watch_forks(struct berth_reason *reason)
{
	notice_bare_clone();
	return prepare_page(reason);
}

_Static_assert(BERTH_CONFIG_NAME_MAX == BERTH_SHARE_NAME_MAX, "copied whole");

static void spec_fill(struct berth_region_spec *spec, const struct berth_config *config,
		      const struct berth_account_gpus *gpus,
		      const struct berth_config_limit limits[])
{
	*spec = (struct berth_region_spec){ .gpu_count = gpus->count,
					    .priority = config->priority };
	memcpy(spec->share_name, config->share_name, sizeof(spec->share_name));
	for (uint32_t i = 0; i < gpus->count; i++) {
		memcpy(spec->gpus[i].uuid, gpus->uuids[i], BERTH_UUID_SIZE);
		spec->gpus[i].memory_limit_bytes = limits[i].memory_limit_bytes;
		spec->gpus[i].compute_limit_pct = limits[i].compute_limit_pct;
	}
}

/* Says once, in words, that what this process asked for is not what is in force. */
static void tell_limits(const struct berth_region_spec *spec,
			const struct berth_region_joined *joined)
{
	for (uint32_t i = 0; i < spec->gpu_count; i++) {
		struct berth_region_gpu now;
		char asked[BERTH_SIZE_TEXT_MAX];
		char held[BERTH_SIZE_TEXT_MAX];

		if (!((joined->kept_mask | joined->lowered_mask) & (1U << i)))
			continue;
		berth_region_gpu(account.region, i, &now);
		berth_warning("GPU %u of share %s: %s memory, %u %% compute are in force; "
			      "this process asked for %s, %u %% (0 = none); the smaller one counts",
			      i, berth_region_share_name(account.region),
			      berth_size_format(now.memory_limit_bytes, held),
			      now.compute_limit_pct,
			      berth_size_format(spec->gpus[i].memory_limit_bytes, asked),
			      spec->gpus[i].compute_limit_pct);
	}
}

/* Limits in the environment still count where they are smaller: those that `berth run` was asked for,
 * should the share have been renewed with larger ones since, and HAMi's (an index is then the GPU's
 * place in the share). Those of `berth run` don't once `berth limit` has changed the share's since: -ESTALE. */
static int bring_limits_locked(const struct berth_config *config, bool outdated,
			       struct berth_region_joined *ret_joined, struct berth_reason *reason)
{
	struct berth_config_limit limits[BERTH_GPU_MAX] = { 0 };
	struct berth_account_gpus gpus = { .count = berth_region_gpu_count(account.region) };
	const char *uuids[BERTH_GPU_MAX];
	struct berth_region_gpu gpu;
	struct berth_region_spec spec;
	int err;

	for (uint32_t i = 0; i < gpus.count; i++) {
		berth_region_gpu(account.region, i, &gpu);
		memcpy(gpus.uuids[i], gpu.uuid, sizeof(gpus.uuids[i]));
		uuids[i] = gpus.uuids[i];
	}
	berth_config_smallest(config, outdated, uuids, gpus.count, limits);
	spec_fill(&spec, config, &gpus, limits);
	spec.stamp = outdated ? 0 : config->limits_stamp;
	err = berth_region_limit(account.region, &spec, ret_joined, reason);
	if (!err)
		tell_limits(&spec, ret_joined);
	return err;
}

/* BERTH_REGION: the share is there, or this program gets no GPU. */
static int join_existing_locked(const struct berth_config *config, const char *path,
				struct berth_region_joined *ret_joined, struct berth_reason *reason)
{
	struct berth_reason refusal = { 0 };
	int err = berth_region_join(path, NULL, 0, &account.region, ret_joined, reason);

	if (err)
		return err;
	err = bring_limits_locked(config, false, ret_joined, &refusal);
	if (err == -ESTALE) {
		refusal = (struct berth_reason){ 0 };
		err = bring_limits_locked(config, true, ret_joined, &refusal);
	}
	if (err) {
		berth_region_close(BERTH_TAKE_PTR(account.region));
		return berth_reason_set(reason, err, "%s", refusal.text);
	}
	return 0;
}

static int join_locked(const struct berth_config *config, const struct berth_account_gpus *gpus,
		       struct berth_region_joined *ret_joined, struct berth_reason *reason)
{
	struct berth_config_limit limits[BERTH_GPU_MAX] = { 0 };
	const char *uuids[BERTH_GPU_MAX];
	struct berth_region_spec spec;
	char path[PATH_MAX];
	int err = berth_settings_region_path(config, true, path, reason);

	if (err)
		return err;
	if (config->join_only)
		return join_existing_locked(config, path, ret_joined, reason);
	for (uint32_t i = 0; i < gpus->count; i++)
		uuids[i] = gpus->uuids[i];
	err = berth_config_resolve(config, uuids, gpus->count, limits, reason);
	if (err)
		return err;
	spec_fill(&spec, config, gpus, limits);
	err = berth_region_join(path, &spec, 0, &account.region, ret_joined, reason);
	if (!err)
		tell_limits(&spec, ret_joined);
	return err;
}

/* Region and seat, or nothing. */
static int sit_locked(const struct berth_config *config, const struct berth_account_gpus *gpus,
		      struct berth_reason *reason)
{
	uint64_t start_ns = berth_clock_ns();
	struct berth_region_joined joined = { 0 };
	struct berth_seat_claimed claimed = { 0 };
	int err = join_locked(config, gpus, &joined, reason);

	if (err)
		return err;
	BERTH_CRASH(account_joined);
	err = berth_seat_claim(account.region, berth_host_pid(), &account.seat, &claimed, reason);
	if (err) {
		berth_region_close(BERTH_TAKE_PTR(account.region));
		return err;
	}
	berth_seat_set_host_pid(account.seat, berth_host_pid(), berth_host_pid_note());
	BERTH_CRASH(account_seated);
	berth_debug("start: region %s %s, seat %u, %llu us, %u dead seats reaped, "
		    "host-pid tier %s",
		    berth_region_path(account.region), joined.created ? "created" : "joined",
		    claimed.index, (berth_clock_ns() - start_ns) / BERTH_NS_PER_US,
		    claimed.reaped_count, berth_host_pid_source_name(berth_host_pid_note().source));
	return 0;
}

static enum berth_account_state decide_locked(const struct berth_config *config, int config_err,
					      const struct berth_account_gpus *gpus,
					      struct berth_reason *reason)
{
	int err = config_err;

	if (!err && config->active)
		err = sit_locked(config, gpus, reason);
	if (err) {
		atomic_store_explicit(&account.error, err, memory_order_relaxed);
		berth_error("this program gets no GPU: %s",
			    reason->text[0] ? reason->text : strerror(-err));
		return BERTH_ACCOUNT_REFUSED;
	}
	return config->active ? BERTH_ACCOUNT_ATTACHED : BERTH_ACCOUNT_PASSIVE;
}

/* The GPUs that limits are meant for: of the region if it is there, else of the machine. Asking the
 * machine is a call of the driver's management library, slow, and not possible in every process (a
 * fork child of one that used the GPU). Before the guard is taken, even if another thread makes it
 * needless. */
static int find_gpus(const struct berth_config *config, berth_account_gpus_fn list,
		     struct berth_account_gpus *ret_gpus, struct berth_reason *reason)
{
	struct berth_reason why = { 0 };
	char path[PATH_MAX];
	int err = berth_settings_region_path(config, false, path, reason);

	if (err)
		return err;
	err = berth_region_peek(path, &ret_gpus->count, ret_gpus->uuids, &why);
	if (err == -EMFILE || err == -ENFILE)
		/* The management library would need descriptors as well, and not say so. */
		return berth_reason_set(reason, err, "%s", why.text);
	/* Absent, or bad: then joining says why. */
	return err ? list(ret_gpus, reason) : 0;
}

static void attach(berth_account_gpus_fn list)
{
	BERTH_UNCANCELLED;
	struct berth_account_gpus gpus = { 0 };
	struct berth_reason reason = { 0 };
	const struct berth_config *config;
	int err;

	err = berth_settings_get(&config, &reason);
	if (!err && config->active && !config->join_only)
		err = find_gpus(config, list, &gpus, &reason);
	if (!err && config->active)
		berth_host_pid_begin(config);

	pthread_mutex_lock(&account.guard);
	BERTH_CRASH(account_guarded);
	if (berth_account_state() == BERTH_ACCOUNT_UNDECIDED) {
		int page_err = prepare_page(&reason);

		if (!page_err || atomic_load_explicit(&account.page, memory_order_relaxed))
			publish_locked(decide_locked(config, err ? err : page_err, &gpus, &reason));
		else
			atomic_store_explicit(&account.error, page_err, memory_order_relaxed);
	}
	pthread_mutex_unlock(&account.guard);
}

enum berth_account_state berth_account_attach(berth_account_gpus_fn list)
{
	enum berth_account_state state = berth_account_state();
	int saved_errno = errno;

	if (state != BERTH_ACCOUNT_UNDECIDED)
		return state;
	attach(list);
	berth_account_tell_host_pid(); /* another thread may have found it meanwhile */
	state = berth_account_state();
	errno = saved_errno;
	/* Not even a page: undecided for the next try, refused for this one. */
	return state == BERTH_ACCOUNT_UNDECIDED ? BERTH_ACCOUNT_REFUSED : state;
}

int berth_account_error(void)
{
	int err = atomic_load_explicit(&account.error, memory_order_relaxed);

	return err ? err : -EPERM;
}

struct berth_region *berth_account_region(void)
{
	return berth_account_state() == BERTH_ACCOUNT_ATTACHED ? account.region : NULL;
}

int berth_account_gpu_find(const char *uuid)
{
	return berth_region_gpu_find(account.region, uuid);
}

bool berth_account_gpu_limited(int gpu)
{
	struct berth_region_gpu limits;

	if (gpu < 0)
		return false;
	berth_region_gpu(account.region, (uint32_t)gpu, &limits);
	return limits.memory_limit_bytes != 0;
}

void berth_account_tell_host_pid(void)
{
	if (berth_account_state() == BERTH_ACCOUNT_ATTACHED)
		berth_seat_set_host_pid(account.seat, berth_host_pid(), berth_host_pid_note());
}

/* true: it was refused because of memory that is given back in a moment, and that has happened, or may
 * have. A process that is stopped in that moment costs each ask that hits it PASSING_NS, no more. */
static bool wait_for_passing(uint32_t gpu, uint64_t bytes)
{
	uint64_t deadline_ns = berth_deadline_after(PASSING_NS);
	uint64_t passing_bytes = berth_region_passing(account.region, gpu);
	struct berth_ledger_room room;
	uint64_t free_bytes;

	if (!passing_bytes)
		return false;
	for (;;) {
		if (berth_ledger_room(account.region, gpu, &room) < 0)
			return false;
		free_bytes = room.limit_bytes > room.charged_bytes
				     ? room.limit_bytes - room.charged_bytes
				     : 0;
		if (bytes <= free_bytes)
			return true;
		if (!passing_bytes || bytes - free_bytes > passing_bytes ||
		    berth_deadline_passed(deadline_ns))
			return false;
		berth_sleep_ns(PASSING_NAP_NS, deadline_ns);
		passing_bytes = berth_region_passing(account.region, gpu);
	}
}

int berth_account_ask(int gpu, enum berth_charge_kind kind, uint64_t bytes)
{
	int saved_errno = errno;
	int err;

	if (gpu < 0)
		return -ENODEV;
	err = berth_ledger_ask(account.seat, (uint32_t)gpu, kind, bytes);
	if (err == -ENOMEM && wait_for_passing((uint32_t)gpu, bytes))
		err = berth_ledger_ask(account.seat, (uint32_t)gpu, kind, bytes);
	errno = saved_errno;
	return err;
}

void berth_account_set_passing(int gpu, uint64_t bytes)
{
	if (gpu >= 0)
		berth_seat_set_passing(account.seat, (uint32_t)gpu, bytes);
}

int berth_account_ask_passing(int gpu, uint64_t bytes)
{
	int saved_errno = errno;
	int err = gpu < 0 ? -ENODEV
			  : berth_ledger_ask(account.seat, (uint32_t)gpu, BERTH_CHARGE_DATA, bytes);

	errno = saved_errno;
	return err;
}

void berth_account_charge(int gpu, enum berth_charge_kind kind, uint64_t bytes)
{
	int saved_errno = errno;

	if (gpu >= 0)
		berth_ledger_charge(account.seat, (uint32_t)gpu, kind, bytes);
	errno = saved_errno;
}

void berth_account_refund(int gpu, enum berth_charge_kind kind, uint64_t bytes)
{
	int saved_errno = errno;

	if (gpu >= 0)
		berth_ledger_refund(account.seat, (uint32_t)gpu, kind, bytes);
	errno = saved_errno;
}

uint64_t berth_account_own_bytes(int gpu)
{
	return gpu >= 0 ? berth_ledger_own(account.seat, (uint32_t)gpu) : 0;
}

void berth_account_on_child(void (*forget)(void))
{
	atomic_store_explicit(&account.child_hook, forget, memory_order_relaxed);
}
