/* SPDX-License-Identifier: Apache-2.0
 *
 * This process's seat, as seat.c, ledger.c and mirror.c share it. Only for files of this room.
 *
 * `mutex` puts this process's threads in order: at most one of them asks, refunds or writes the
 * mirror, on whatever GPU. It is never held across a driver call, only across memory accesses and,
 * when an ask is in another's way, a wait of a millisecond. In a fork child the object is only
 * forgotten, so what state the mutex was in doesn't matter.
 */
#ifndef BERTH_REGION_OWN_SEAT_H
#define BERTH_REGION_OWN_SEAT_H

#include <pthread.h>

#include "region/ledger.h"
#include "region/map.h"
#include "region/seat.h"

struct berth_own_use {
	uint64_t kind_bytes[BERTH_CHARGE_DATA + 1];
	uint64_t total_bytes;
};

/* What a collect saw, by seat. Scratch of the one asker that has the mutex. */
struct berth_collected {
	uint64_t word[BERTH_SEAT_MAX];
	uint64_t charged_bytes[BERTH_SEAT_MAX];
	uint64_t dead_word[BERTH_SEAT_MAX]; /* the word under which the seat was found dead, or 0 */
	uint16_t counted[BERTH_SEAT_MAX];   /* seats that justify a refusal */
};

struct berth_seat {
	struct berth_region *region;
	uint32_t index;
	void *pin;               /* a mapping of the open file that holds the seat's lock byte */
	unsigned long queue_pin; /* the same where a mapping doesn't (pin.h), else 0 */
	int kept_fd;             /* the same where nothing else does, else -1 */
	pthread_mutex_t mutex;
	/* The owner's own books: what others may have done to the file doesn't change them. */
	struct berth_own_use use[BERTH_GPU_MAX];
	struct berth_collected collected;
};

#endif
