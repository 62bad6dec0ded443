/* SPDX-License-Identifier: Apache-2.0
 *
 * A way to keep a share's books between processes, as bench-recover tries it: ours, and what it is
 * compared with. In each process enter comes first; everything returns 0 or -errno.
 */
#ifndef BERTH_BENCH_RECOVER_H
#define BERTH_BENCH_RECOVER_H

#include <stdint.h>

#define MIB         (1ULL << 20)
#define LIMIT_BYTES (1024 * MIB)

struct recover_way {
	const char *prefix;   /* of its keys */
	int (*prepare)(void); /* before all processes are forked */
	int (*enter)(void);
	int (*ask)(uint64_t bytes); /* -ENOMEM: refused */
	void (*refund)(uint64_t bytes);
	void (*leave)(void);
	void (*finish)(void); /* after all have ended */
};

extern const struct recover_way recover_ours;
extern const struct recover_way recover_robust;
extern const struct recover_way recover_semaphore;

/* How long a waiter waits for the semaphore before it looks whether the owner lives. */
#define RECOVER_SEMAPHORE_WAIT_MS 100

#endif
