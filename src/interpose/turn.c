/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain word a GPU, not a mutex: glibc 2.28 has none that waits with a bound on the monotonic clock.
 */
#include "interpose/turn.h"

#include <errno.h>
#include <stdatomic.h>

#include "account/account.h"
#include "base/clock.h"

#define WAIT_NS  (10 * BERTH_NS_PER_S)
#define SLEEP_NS (100 * BERTH_NS_PER_US)

static _Atomic bool turns[BERTH_GPU_MAX];

/* Acquire pairs with the release in berth_turn_give: what the one before booked is seen. */
static bool take(int gpu)
{
	return !atomic_exchange_explicit(&turns[gpu], true, memory_order_acquire);
}

void berth_turn_take(int gpu, bool (*needless)(int gpu), struct berth_turn *ret_turn)
{
	uint64_t deadline_ns;
	int saved_errno = errno;

	*ret_turn = (struct berth_turn){ .gpu = gpu };
	if (gpu < 0 || gpu >= BERTH_GPU_MAX || !berth_account_gpu_limited(gpu))
		return;
	deadline_ns = berth_deadline_after(WAIT_NS);
	while (!(needless && needless(gpu))) {
		ret_turn->taken = take(gpu);
		if (ret_turn->taken || berth_deadline_passed(deadline_ns))
			break;
		berth_sleep_ns(SLEEP_NS, deadline_ns);
	}
	errno = saved_errno;
}

void berth_turn_give(const struct berth_turn *turn)
{
	if (turn->taken)
		atomic_store_explicit(&turns[turn->gpu], false, memory_order_release);
}

void berth_turn_forget(void)
{
	for (int gpu = 0; gpu < BERTH_GPU_MAX; gpu++)
		atomic_store_explicit(&turns[gpu], false, memory_order_relaxed);
}
