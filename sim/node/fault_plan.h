/* SPDX-License-Identifier: Apache-2.0
 *
 * A parsed fault plan; only fault_plan.c fills one and fault.c acts on it.
 */
#ifndef BERTH_SIM_NODE_FAULT_PLAN_H
#define BERTH_SIM_NODE_FAULT_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_FAULT_RULES 64
#define SIM_FAULT_NAME  64

struct sim_fault_rule {
	char pattern[SIM_FAULT_NAME];
	bool fails;
	bool blocks;
	bool kills_before;
	bool kills_after;
	int code;
	uint64_t sleep_ns;
	uint64_t linger_ns;
	uint64_t from;  /* first call that is hit, from 1 */
	uint64_t count; /* how many of them */
	_Atomic uint64_t seen;
};

struct sim_fault_plan {
	size_t rules_count;
	struct sim_fault_rule rules[SIM_FAULT_RULES];
};

#endif
