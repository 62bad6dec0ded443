/* SPDX-License-Identifier: Apache-2.0
 *
 * Monotonic time and deadlines. A deadline is a point of CLOCK_MONOTONIC in nanoseconds;
 * BERTH_DEADLINE_NOW means one try.
 */
#ifndef BERTH_BASE_CLOCK_H
#define BERTH_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define BERTH_NS_PER_US    1000ULL
#define BERTH_NS_PER_MS    1000000ULL
#define BERTH_NS_PER_S     1000000000ULL
#define BERTH_DEADLINE_NOW 0ULL

uint64_t berth_clock_ns(void);
/* CLOCK_BOOTTIME: what /proc/PID/stat's start time counts in. */
uint64_t berth_clock_boot_ns(void);

/* now + ns, saturating. */
uint64_t berth_deadline_after(uint64_t ns);
bool berth_deadline_passed(uint64_t deadline_ns);
/* 0 when passed. */
uint64_t berth_deadline_left_ns(uint64_t deadline_ns);

/* Sleeps the whole time, whatever signals come (handlers run); never longer than the deadline. */
void berth_sleep_ns(uint64_t ns, uint64_t deadline_ns);

#endif
