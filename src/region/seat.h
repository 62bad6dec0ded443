/* SPDX-License-Identifier: Apache-2.0
 *
 * Seats: one process's place in a region. Alive = the seat's byte is locked by the kernel (an
 * open-file-description lock pinned by the mapping), so death frees it whatever the process did.
 */
#ifndef BERTH_REGION_SEAT_H
#define BERTH_REGION_SEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "region/host_pid.h"
#include "region/region.h"

struct berth_seat;

struct berth_seat_claimed {
	uint32_t index;
	uint32_t reaped_count; /* dead seats emptied on the way */
};

/* Takes a seat for this process. host_pid: as NVML will show it, 0 = unknown (set later).
 * -EUSERS, with the reason, when all seats are taken by the living. The region must outlive the
 * seat and have been joined, not viewed. Thread-safe between processes; one seat per process and
 * region. */
BERTH_MUST_CHECK int berth_seat_claim(struct berth_region *region, int32_t host_pid,
				      struct berth_seat **ret_seat,
				      struct berth_seat_claimed *ret_claimed,
				      struct berth_reason *reason);

/* Tidy exit: empties the seat and frees it early. Only housekeeping; nothing depends on it. NULL is
 * fine. */
void berth_seat_leave(struct berth_seat *seat);
/* In a fork child: frees the object without touching the parent's seat. */
void berth_seat_forget(struct berth_seat *seat);

uint32_t berth_seat_index(const struct berth_seat *seat);
/* host_pid 0 = unknown; the note says why, or where it is from. */
void berth_seat_set_host_pid(struct berth_seat *seat, int32_t host_pid,
			     struct berth_host_pid_note note);

/* Of this seat's charge on a GPU, so much is given back in a moment, whatever happens: others who are
 * refused because of it had better ask again (berth_account_ask does). 0 = no more. */
void berth_seat_set_passing(struct berth_seat *seat, uint32_t gpu, uint64_t bytes);
/* The same, of all seats of a region. What a dead one left counts until it is reaped. */
uint64_t berth_region_passing(const struct berth_region *region, uint32_t gpu);

/* 1 alive, 0 dead or free, -errno if the kernel can't be asked. */
BERTH_MUST_CHECK int berth_seat_alive(const struct berth_region *region, uint32_t index);

/* Empties a dead seat. 1 = emptied, 0 = it is alive or already empty, or another is at it. */
BERTH_MUST_CHECK int berth_seat_reap(struct berth_region *region, uint32_t index);
/* All dead seats; returns how many. */
BERTH_MUST_CHECK int berth_seat_reap_all(struct berth_region *region);

#endif
