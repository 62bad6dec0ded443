/* SPDX-License-Identifier: Apache-2.0
 *
 * A small list of watched pools under one mutex: programs have a handful. The mutex is held for the
 * arithmetic and the ledger, never across a driver call, so a measurement may be older than another
 * thread's allocation; the one that follows that allocation puts it right.
 */
#include "account/reserve.h"

#include <pthread.h>
#include <stdatomic.h>

#include "account/account.h"
#include "base/log.h"

struct watched {
	uint64_t pool;
	uint64_t threshold_bytes;
	uint64_t kept_bytes; /* charged */
	int gpu;
};

static struct {
	pthread_mutex_t mutex;
	_Atomic size_t count;
	struct watched pools[BERTH_RESERVE_POOL_MAX];
} reserve = { .mutex = PTHREAD_MUTEX_INITIALIZER };

bool berth_reserve_any(void)
{
	return atomic_load_explicit(&reserve.count, memory_order_relaxed) != 0;
}

static struct watched *find_locked(uint64_t pool)
{
	for (size_t i = 0; i < reserve.count; i++) {
		if (reserve.pools[i].pool == pool)
			return &reserve.pools[i];
	}
	return NULL;
}

static void keep_locked(struct watched *watched, uint64_t kept_bytes)
{
	uint64_t before = watched->kept_bytes;

	watched->kept_bytes = kept_bytes;
	if (kept_bytes < before)
		berth_account_refund(watched->gpu, BERTH_CHARGE_DATA, before - kept_bytes);
	else if (kept_bytes > before)
		/* The pool has it already: booked, also over the limit. */
		berth_account_charge(watched->gpu, BERTH_CHARGE_DATA, kept_bytes - before);
}

void berth_reserve_watch(uint64_t pool, int gpu, uint64_t threshold_bytes)
{
	struct watched *watched;

	if (!threshold_bytes) {
		berth_reserve_unwatch(pool);
		return;
	}
	pthread_mutex_lock(&reserve.mutex);
	watched = find_locked(pool);
	if (!watched && reserve.count < BERTH_RESERVE_POOL_MAX) {
		watched = &reserve.pools[reserve.count++];
		*watched = (struct watched){ .pool = pool, .gpu = gpu };
	}
	if (watched)
		watched->threshold_bytes = threshold_bytes;
	else
		berth_log_once(BERTH_LOG_WARNING,
			       "more than %d memory pools with a release threshold: "
			       "what the others keep is not charged",
			       BERTH_RESERVE_POOL_MAX);
	pthread_mutex_unlock(&reserve.mutex);
}

void berth_reserve_unwatch(uint64_t pool)
{
	struct watched *watched;

	pthread_mutex_lock(&reserve.mutex);
	watched = find_locked(pool);
	if (watched) {
		keep_locked(watched, 0);
		*watched = reserve.pools[--reserve.count];
	}
	pthread_mutex_unlock(&reserve.mutex);
}

bool berth_reserve_pool(size_t i, uint64_t *ret_pool, int *ret_gpu)
{
	bool found;

	pthread_mutex_lock(&reserve.mutex);
	found = i < reserve.count;
	if (found) {
		*ret_pool = reserve.pools[i].pool;
		*ret_gpu = reserve.pools[i].gpu;
	}
	pthread_mutex_unlock(&reserve.mutex);
	return found;
}

void berth_reserve_measured(uint64_t pool, uint64_t reserved_bytes, uint64_t used_bytes)
{
	struct watched *watched;

	pthread_mutex_lock(&reserve.mutex);
	watched = find_locked(pool);
	if (watched) {
		if (reserved_bytes > watched->threshold_bytes)
			reserved_bytes = watched->threshold_bytes;
		keep_locked(watched, reserved_bytes > used_bytes ? reserved_bytes - used_bytes : 0);
	}
	pthread_mutex_unlock(&reserve.mutex);
}

uint64_t berth_reserve_use(uint64_t pool, uint64_t bytes)
{
	struct watched *watched;

	pthread_mutex_lock(&reserve.mutex);
	watched = find_locked(pool);
	if (!watched)
		bytes = 0;
	else if (bytes > watched->kept_bytes)
		bytes = watched->kept_bytes;
	if (watched)
		watched->kept_bytes -= bytes;
	pthread_mutex_unlock(&reserve.mutex);
	return bytes;
}

void berth_reserve_forget(void)
{
	reserve.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	reserve.count = 0;
}
