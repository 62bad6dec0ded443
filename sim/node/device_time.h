/* SPDX-License-Identifier: Apache-2.0
 *
 * Device time of the node's GPUs for this process: the shared timelines with their lock and clock.
 *
 * BERTH_SIM_TIME_SCALE (a decimal, default 1) is the real time that a unit of device time takes;
 * 0 means that work takes none. The process that first uses a GPU fixes it for the node's life, since
 * all its processes look at one clock.
 *
 * The lock is a word in the timeline that holds the generation of a process, so it needs no kernel
 * object that would tell processes of two pid namespaces apart wrongly. Killed while holding it:
 * whoever waits finds out from the process table, takes it over and repairs the timeline.
 */
#ifndef BERTH_SIM_NODE_DEVICE_TIME_H
#define BERTH_SIM_NODE_DEVICE_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* The node is open. Claims a row if this process has none. 0 or -errno. */
int sim_time_open(void);

uint64_t sim_time_now(unsigned gpu);

/* Queue cost_ns of work; the mark that names it. *ret_now: when that was. */
uint64_t sim_time_submit(unsigned gpu, uint64_t cost_ns, uint64_t *ret_now);

/* Is this process's work done up to the mark, and since when? */
bool sim_time_done(unsigned gpu, uint64_t mark, uint64_t *ret_when);

/* Wait for it in real time. */
uint64_t sim_time_wait(unsigned gpu, uint64_t mark);

/* Percent of the last window_ns of device time in which the GPU was busy, and with that process. */
uint32_t sim_time_use_pct(unsigned gpu, uint64_t window_ns);
uint32_t sim_time_process_use_pct(unsigned gpu, unsigned row, uint64_t window_ns);

/* "0.25" as 250000; -EINVAL for anything but digits with one point, above 1000. */
int sim_time_parse_scale(const char *text, uint64_t *ret_ppm);

#endif
