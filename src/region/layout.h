/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in memory: the bytes of a region, and of its lock bytes. No other file knows an offset.
 *
 * The first 2,008,952 bytes are HAMi's layout 1.2 (little-endian, 64-bit, glibc), so that its
 * device plugin and monitor read our regions. Our own tail follows at BERTH_TAIL_OFFSET.
 *
 * Each field says: writer; what orders it; what it is after a crash. "owner" is the process that
 * holds the seat's lock byte, "reaper" one that holds the seat's reap byte while the seat byte is
 * free. Everything that changes after birth is a C11 atomic, because other processes read it
 * meanwhile.
 */
#ifndef BERTH_REGION_LAYOUT_H
#define BERTH_REGION_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/recordlock.h>

#include "region/region.h"

#define BERTH_LAYOUT_MAGIC 19920718
#define BERTH_LAYOUT_MAJOR 1
#define BERTH_LAYOUT_MINOR 2

/* Bytes of one seat on one GPU, as HAMi's readers see them: the mirror of the ledger. Writer:
 * owner, between an odd and an even seat sequence. After a crash: stale or torn; the ledger is
 * right. */
struct berth_layout_use {
	_Atomic uint64_t context_bytes;
	_Atomic uint64_t module_bytes;
	_Atomic uint64_t data_bytes;
	_Atomic uint64_t offset_bytes; /* never written by us */
	_Atomic uint64_t total_bytes;
	uint64_t unused[3];
};

/* Utilisation, for HAMi's readers. */
struct berth_layout_util {
	_Atomic uint64_t decoder;
	_Atomic uint64_t encoder;
	_Atomic uint64_t sm;
	uint64_t unused[3];
};

enum berth_layout_status {
	BERTH_STATUS_FREE = 0,
	BERTH_STATUS_RUNNING = 1,
	BERTH_STATUS_SUSPENDED = 2,
};

/* One process's place. Writer: owner, or a reaper to empty it. */
struct berth_layout_seat {
	_Atomic int32_t pid; /* in the owner's pid namespace; for people, never for liveness */
	_Atomic int32_t host_pid;
	struct berth_layout_use use[BERTH_GPU_MAX];
	_Atomic uint64_t monitor_used[BERTH_GPU_MAX];
	struct berth_layout_util util[BERTH_GPU_MAX];
	_Atomic int32_t status; /* written last by a claim (release), first by an emptying */
	int32_t padding;
	_Atomic uint64_t sequence; /* odd while the mirror is behind; never goes back */
	uint64_t unused[2];
};

/* A glibc sem_t of a 64-bit machine, process-shared. Nobody here waits on it. */
struct berth_layout_semaphore {
	uint32_t value;
	uint32_t waiter_count;
	int32_t shared; /* 128: FUTEX_PRIVATE_FLAG's bit, which glibc keeps for "shared" */
	int32_t unused[5];
};

/* HAMi's part. Fields without a note are written at birth and stay. */
struct berth_layout_head {
	_Atomic int32_t initialized_flag; /* last at birth: a region without it is no region */
	uint32_t major;
	uint32_t minor;
	int32_t sm_init_flag;
	uint64_t owner_pid;
	struct berth_layout_semaphore semaphore;
	_Atomic uint64_t gpu_count;
	char uuids[BERTH_GPU_MAX][BERTH_UUID_SIZE];
	/* Writer: any joiner, downwards, by compare-and-swap; in either direction a renewal under
	 * the creation byte or a change by order under the change byte. seq_cst. One word: never torn. */
	_Atomic uint64_t limit_bytes[BERTH_GPU_MAX];
	_Atomic uint64_t compute_limit_pct[BERTH_GPU_MAX];
	struct berth_layout_seat seats[BERTH_SEAT_MAX];
	/* Seats [0, seat_high) have ever been used. Writer: a claimer, upwards, seq_cst, before it
	 * announces anything. After a crash: too high by one, which the next claim uses. */
	_Atomic int32_t seat_high;
	_Atomic int32_t utilization_switch; /* HAMi's monitor writes it */
	_Atomic int32_t recent_kernel;      /* HAMi's monitor writes it */
	int32_t priority;
	_Atomic int64_t last_kernel_time;
	struct berth_layout_semaphore semaphore_postinit;
};

/* A ledger entry: the truth about one seat on one GPU. ledger.c holds the protocol.
 * word: bit 0 asking, then a nonce, then a version; value[version & 1] is the effective charge,
 * value[!(version & 1)] is the charge after the ask that is being decided.
 * Writer: owner; others only asking -> idle, by compare-and-swap; a reaper when the owner is dead.
 * All word accesses are seq_cst. After a crash: complete, whatever the step was. */
struct berth_layout_entry {
	_Atomic uint64_t word;
	_Atomic uint64_t value_bytes[2];
	_Atomic uint64_t refusal_count; /* writer: owner; zeroed with the seat */
};

/* Who sits there. Writer: owner, before status unless said; zeroed with the seat. For people and for
 * checks. */
struct berth_layout_identity {
	_Atomic uint64_t start_ticks;
	_Atomic uint64_t pid_namespace;
	_Atomic uint64_t boot_id;
	_Atomic uint64_t claimed_unix_s;
	/* berth_host_pid_note_pack. Writer: owner, at any time. */
	_Atomic uint64_t host_pid_note;
	/* Of the charge on that GPU, what will be given back in a moment (interpose/probe.h). Writer: owner,
	 * GPU first. After a crash: the seat is dead. */
	_Atomic uint64_t passing_gpu;
	_Atomic uint64_t passing_bytes;
	uint64_t unused[1];
};

struct berth_layout_gpu {
	_Atomic uint64_t refusal_count; /* any asker adds; never goes back */
	uint64_t unused[15];
};

/* Our part, at BERTH_TAIL_OFFSET. */
struct berth_layout_tail {
	uint64_t magic;
	uint64_t signature; /* BERTH_LAYOUT_SIGNATURE of the creator */
	/* Creation record. */
	uint64_t boot_id;
	uint64_t created_unix_s;
	uint64_t creator_pid_namespace;
	int64_t creator_pid;
	char share_name[BERTH_SHARE_NAME_MAX];
	uint64_t unused[4];
	_Atomic uint64_t change_count;  /* anyone adds: a seat or a limit changed */
	_Atomic uint64_t anomaly_count; /* anyone adds: a figure had to be clamped */
	_Atomic uint64_t cursor;        /* any claimer adds: where it starts to look */
	/* Changes of limits by order, not by joining. Writer: who holds the change byte, before the
	 * limits; seq_cst. After a crash: too high by one, so some orders don't count that should:
	 * the limits in force are never larger for it. */
	_Atomic uint64_t limit_change_count;
	uint64_t unused2[10];
	struct berth_layout_gpu gpus[BERTH_GPU_MAX];
	/* Odd: taken by one of us. Writer: owner or reaper; odd before, even after everything else
	 * of the seat. So an even one beside a status is another implementation's seat. */
	_Atomic uint64_t generation[BERTH_SEAT_MAX];
	struct berth_layout_identity identity[BERTH_SEAT_MAX];
	struct berth_layout_entry ledger[BERTH_GPU_MAX][BERTH_SEAT_MAX];
};

/* The same with pages of 4 KiB and of 64 KiB. */
#define BERTH_TAIL_OFFSET 2031616

struct berth_layout {
	struct berth_layout_head head;
	char gap[BERTH_TAIL_OFFSET - sizeof(struct berth_layout_head)];
	struct berth_layout_tail tail;
};

#define BERTH_LAYOUT_ALIGN 65536UL
/* The file's size: whole pages of either kind, so no access by mapping is ever past its end. */
#define BERTH_LAYOUT_SIZE \
	((sizeof(struct berth_layout) + BERTH_LAYOUT_ALIGN - 1) & ~(BERTH_LAYOUT_ALIGN - 1))

#define BERTH_TAIL_MAGIC 0x6c69617468747265ULL /* reads "erthtail" */
/* Raise it when a field changes its meaning but not its place. */
#define BERTH_LAYOUT_REVISION 3

/* Two builds that disagree on a size or an offset must not share a region. */
#define BERTH_MIX(h, x)           (((h) ^ (uint64_t)(x)) * 0x100000001b3ULL)
#define BERTH_MIX2(h, x, y)       BERTH_MIX(BERTH_MIX(h, x), y)
#define BERTH_MIX4(h, a, b, c, d) BERTH_MIX2(BERTH_MIX2(h, a, b), c, d)
#define BERTH_TAIL_AT(field)      offsetof(struct berth_layout_tail, field)
#define BERTH_LAYOUT_SIGNATURE                                                                \
	BERTH_MIX4(BERTH_MIX4(BERTH_MIX4(0xcbf29ce484222325ULL, BERTH_LAYOUT_REVISION,        \
					 BERTH_LAYOUT_SIZE, sizeof(struct berth_layout_head), \
					 sizeof(struct berth_layout_tail)),                   \
			      BERTH_TAIL_AT(change_count), BERTH_TAIL_AT(gpus),               \
			      BERTH_TAIL_AT(generation), BERTH_TAIL_AT(identity)),            \
		   BERTH_TAIL_AT(ledger), sizeof(struct berth_layout_entry), BERTH_SEAT_MAX,  \
		   BERTH_GPU_MAX)

/* Lock bytes: no data lies there, the kernel only counts with them. */
#define BERTH_LOCK_POSTINIT 0x40000000LL /* start-up steps; newer HAMi-core locks the same byte */
#define BERTH_LOCK_CREATION 0x40000001LL /* a renewal of limits */
#define BERTH_LOCK_CHANGE   0x40000002LL /* a change of limits by order */
#define BERTH_LOCK_SEAT     0x40001000LL /* + index: held by the living owner only */
#define BERTH_LOCK_REAP     0x40002000LL /* + index: whoever takes or empties the seat */

/* HAMi's offsets, one assertion each. */
#define BERTH_AT(type, field, offset) \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field " has moved")

BERTH_AT(berth_layout_head, initialized_flag, 0);
BERTH_AT(berth_layout_head, major, 4);
BERTH_AT(berth_layout_head, minor, 8);
BERTH_AT(berth_layout_head, sm_init_flag, 12);
BERTH_AT(berth_layout_head, owner_pid, 16);
BERTH_AT(berth_layout_head, semaphore, 24);
BERTH_AT(berth_layout_head, gpu_count, 56);
BERTH_AT(berth_layout_head, uuids, 64);
BERTH_AT(berth_layout_head, limit_bytes, 1600);
BERTH_AT(berth_layout_head, compute_limit_pct, 1728);
BERTH_AT(berth_layout_head, seats, 1856);
BERTH_AT(berth_layout_head, seat_high, 2008896);
BERTH_AT(berth_layout_head, utilization_switch, 2008900);
BERTH_AT(berth_layout_head, recent_kernel, 2008904);
BERTH_AT(berth_layout_head, priority, 2008908);
BERTH_AT(berth_layout_head, last_kernel_time, 2008912);
BERTH_AT(berth_layout_head, semaphore_postinit, 2008920);
_Static_assert(sizeof(struct berth_layout_head) == 2008952, "HAMi's part has another size");
BERTH_AT(berth_layout_seat, pid, 0);
BERTH_AT(berth_layout_seat, host_pid, 4);
BERTH_AT(berth_layout_seat, use, 8);
BERTH_AT(berth_layout_seat, monitor_used, 1032);
BERTH_AT(berth_layout_seat, util, 1160);
BERTH_AT(berth_layout_seat, status, 1928);
BERTH_AT(berth_layout_seat, sequence, 1936);
BERTH_AT(berth_layout_seat, unused, 1944);
_Static_assert(sizeof(struct berth_layout_seat) == 1960, "a seat has another size");
BERTH_AT(berth_layout_use, context_bytes, 0);
BERTH_AT(berth_layout_use, module_bytes, 8);
BERTH_AT(berth_layout_use, data_bytes, 16);
BERTH_AT(berth_layout_use, offset_bytes, 24);
BERTH_AT(berth_layout_use, total_bytes, 32);
BERTH_AT(berth_layout_use, unused, 40);
_Static_assert(sizeof(struct berth_layout_use) == 64, "a use has another size");
BERTH_AT(berth_layout_util, decoder, 0);
BERTH_AT(berth_layout_util, encoder, 8);
BERTH_AT(berth_layout_util, sm, 16);
BERTH_AT(berth_layout_util, unused, 24);
_Static_assert(sizeof(struct berth_layout_util) == 48, "a utilisation has another size");
_Static_assert(sizeof(struct berth_layout_semaphore) == 32, "a sem_t has another size");

/* Ours. */
BERTH_AT(berth_layout, tail, BERTH_TAIL_OFFSET);
BERTH_AT(berth_layout_tail, magic, 0);
BERTH_AT(berth_layout_tail, signature, 8);
_Static_assert(sizeof(struct berth_layout_gpu) == 128, "two GPUs would share a cache line");
_Static_assert(sizeof(struct berth_layout_identity) == 64, "an identity has another size");
_Static_assert(sizeof(struct berth_layout_entry) == 32, "an entry has another size");
_Static_assert(BERTH_TAIL_OFFSET % BERTH_LAYOUT_ALIGN == 0, "the tail must begin on a page");
_Static_assert(BERTH_TAIL_AT(ledger) % 64 == 0 && BERTH_TAIL_AT(gpus) % 64 == 0,
	       "entries must not straddle cache lines");
_Static_assert(BERTH_LAYOUT_SIZE < BERTH_LOCK_POSTINIT, "lock bytes must lie beyond the mapping");
_Static_assert(BERTH_LOCK_POSTINIT == BERTH_RECORDLOCK_BYTE, "start-up steps are a record lock");
_Static_assert(BERTH_LOCK_SEAT + BERTH_SEAT_MAX <= BERTH_LOCK_REAP, "lock bytes overlap");
_Static_assert(BERTH_LOCK_CHANGE < BERTH_LOCK_SEAT, "lock bytes overlap");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic int32_t) == 4,
	       "an atomic must be as large as its figure");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
	       "atomics of a process-local lock don't reach other processes");

#endif
