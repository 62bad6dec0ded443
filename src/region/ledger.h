/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger: bytes charged per seat and GPU. Charge before the driver call, refund if it fails,
 * refund after a successful free. Never over the limit, never a false refusal, nobody waits for
 * a stopped or dead process (the protocol and its crash table: ledger.c; its proof:
 * models/ledger.pml).
 */
#ifndef BERTH_REGION_LEDGER_H
#define BERTH_REGION_LEDGER_H

#include <stdint.h>

#include "region/seat.h"

enum berth_charge_kind {
	BERTH_CHARGE_CONTEXT,
	BERTH_CHARGE_MODULE,
	BERTH_CHARGE_DATA,
};

/* 0 = granted and charged; -ENOMEM = refused: it does not fit; -EINVAL: no such GPU; -ECHILD: in a
 * child that has the parent's seat by memory only (so for every function here). Thread-safe, not
 * async-signal-safe, lock-free between processes, no system call unless refused or contended. */
BERTH_MUST_CHECK int berth_ledger_ask(struct berth_seat *seat, uint32_t gpu,
				      enum berth_charge_kind kind, uint64_t bytes);

/* Books what the driver has already taken (a context's own memory), also over the limit: later asks
 * are refused until it fits. */
void berth_ledger_charge(struct berth_seat *seat, uint32_t gpu, enum berth_charge_kind kind,
			 uint64_t bytes);

/* Gives back. Never below zero: clamps, and counts the anomaly. */
void berth_ledger_refund(struct berth_seat *seat, uint32_t gpu, enum berth_charge_kind kind,
			 uint64_t bytes);

/* What this seat itself is charged on a GPU. 0 where the others above do nothing. */
uint64_t berth_ledger_own(struct berth_seat *seat, uint32_t gpu);

struct berth_ledger_room {
	uint64_t limit_bytes;   /* 0 = none */
	uint64_t charged_bytes; /* by the living of the whole share */
};
/* For cuMemGetInfo and NVML: bounded, needs no seat. */
BERTH_MUST_CHECK int berth_ledger_room(const struct berth_region *region, uint32_t gpu,
				       struct berth_ledger_room *ret_room);

#endif
