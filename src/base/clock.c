/* SPDX-License-Identifier: Apache-2.0
 *
 * Monotonic time and deadlines.
 */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

static uint64_t clock_read(clockid_t clock)
{
	struct timespec now = { 0 };

	/* Neither clock can fail on a kernel that we run on. */
	(void)clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * BERTH_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t berth_clock_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

uint64_t berth_clock_boot_ns(void)
{
	return clock_read(CLOCK_BOOTTIME);
}

uint64_t berth_deadline_after(uint64_t ns)
{
	uint64_t deadline_ns = 0;

	if (__builtin_add_overflow(berth_clock_ns(), ns, &deadline_ns))
		return UINT64_MAX;
	return deadline_ns;
}

bool berth_deadline_passed(uint64_t deadline_ns)
{
	return berth_deadline_left_ns(deadline_ns) == 0;
}

uint64_t berth_deadline_left_ns(uint64_t deadline_ns)
{
	uint64_t now_ns = berth_clock_ns();

	return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

void berth_sleep_ns(uint64_t ns, uint64_t deadline_ns)
{
	int saved_errno = errno;
	uint64_t until_ns = berth_deadline_after(ns);
	struct timespec until;

	if (until_ns > deadline_ns)
		until_ns = deadline_ns;
	until.tv_sec = (time_t)(until_ns / BERTH_NS_PER_S);
	until.tv_nsec = (long)(until_ns % BERTH_NS_PER_S);
	/* An absolute time: signals, however many, neither shorten nor lengthen the sleep. */
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	errno = saved_errno;
}
