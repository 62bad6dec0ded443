/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program sees of a GPU's memory. Pure arithmetic: every path that tells a program about
 * memory (CUDA and NVML) uses it, so that all agree to the byte.
 */
#ifndef BERTH_POLICY_VIEW_H
#define BERTH_POLICY_VIEW_H

#include <stdint.h>

struct berth_memory_view {
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t used_bytes; /* total - free */
};

/* total = min(limit, physical); free = min(limit - charged, physical free), never below zero and never
 * above total. limit 0 = none: the driver's own figures. Charges above the limit (it was lowered) leave
 * nothing free. */
struct berth_memory_view berth_memory_view(uint64_t limit_bytes, uint64_t charged_bytes,
					   uint64_t physical_total_bytes,
					   uint64_t physical_free_bytes);

/* NVML's version 2 tells what the driver keeps for itself apart: total = reserved + used + free there.
 * The reserve a program sees: the driver's own, but never more than used has room for. */
uint64_t berth_memory_view_reserved(const struct berth_memory_view *view,
				    uint64_t physical_reserved_bytes);

#endif
