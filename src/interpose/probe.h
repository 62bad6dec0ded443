/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of the processes that NVML lists is this one? In a container that no broker serves, the pids of
 * the list mean nothing here. What the process does to a GPU's memory does: a round of the probe takes a
 * random number of blocks of 2 MiB, then another one, gives them back, and looks at the list in between.
 * One process, and only one, whose memory made just these three steps is us: that is a proof, where "who is
 * new in the list" would be a guess whenever a neighbour starts meanwhile or NVML lists us late. No context is ever
 * made for it. The blocks are charged to the share while they last, are physical memory only
 * (cuMemCreate: nothing is mapped, nothing waits for the GPU), and aren't taken where they could be
 * felt: a quarter of the limit and of the GPU must stay free, and no stream may be in capture. Who is refused
 * only because of them asks again when they are back (berth_account_set_passing).
 *
 * Rounds of all processes of a node come one at a time, under the record lock of the node's probe.lock, so
 * that two who take the same number can't be mistaken for each other. The lock is held for one round,
 * some NVML calls; it is the one lock that is held across such calls.
 *
 * Killed or stopped             what others see
 * waiting for the lock          nothing
 * in a round                    the kernel frees the lock and the memory of a dead one; a stopped one stalls the probes of
 *                               others for 2 s each: they go on as "unknown" and look again later
 * after it, unpublished         the host pid unknown, as before
 */
#ifndef BERTH_INTERPOSE_PROBE_H
#define BERTH_INTERPOSE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda_types.h"
#include "interpose/growth.h"
#include "interpose/process_list.h"

/* A context is about to be made: if a broker told our host pid and a process of that pid is on the GPU
 * already, though we never were, it isn't ours. */
void berth_probe_before_context(const struct berth_growth *growth);
/* A context was made on the GPU: rounds for up to 200 ms (NVML lists a new context late), waits for the
 * lock of up to 2 s, once in a process's life. Nothing if the host pid is known. Keeps errno. */
void berth_probe_context(int gpu, CUdevice device);
/* Memory was allocated: one round, if it is time for one and the lock is free. Keeps errno. */
void berth_probe_allocation(int gpu, CUdevice device);

/* In a fork child. */
void berth_probe_forget(void);

enum { BERTH_PROBE_LOOKS = 4 };

/* The pid whose bytes went up by first_bytes, up by second_bytes, and down by both, from look to look; 0 if
 * there is none or more than one. Pure. */
unsigned int berth_probe_match(const struct berth_process_list looks[BERTH_PROBE_LOOKS],
			       uint64_t first_bytes, uint64_t second_bytes);

#endif
