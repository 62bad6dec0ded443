/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program sees of a GPU's memory.
 */
#include "policy/view.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

struct berth_memory_view berth_memory_view(uint64_t limit_bytes, uint64_t charged_bytes,
					   uint64_t physical_total_bytes,
					   uint64_t physical_free_bytes)
{
	struct berth_memory_view view = {
		.total_bytes = physical_total_bytes,
		.free_bytes = least(physical_free_bytes, physical_total_bytes),
	};

	if (limit_bytes != 0) {
		uint64_t left_bytes = limit_bytes - least(charged_bytes, limit_bytes);

		view.total_bytes = least(limit_bytes, physical_total_bytes);
		view.free_bytes = least(left_bytes, view.free_bytes);
		/* What others hold makes free smaller than the share's own rest; what is charged but
		 * not on the card yet must not make it larger than the card. */
		view.free_bytes = least(view.free_bytes, view.total_bytes);
	}
	view.used_bytes = view.total_bytes - view.free_bytes;
	return view;
}

uint64_t berth_memory_view_reserved(const struct berth_memory_view *view,
				    uint64_t physical_reserved_bytes)
{
	return least(physical_reserved_bytes, view->used_bytes);
}
