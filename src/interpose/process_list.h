/* SPDX-License-Identifier: Apache-2.0
 *
 * Who uses how much of a GPU's memory, as NVML lists it: by the pids that NVML knows, one with two
 * contexts perhaps twice. Those whose memory isn't told are left out.
 */
#ifndef BERTH_INTERPOSE_PROCESS_LIST_H
#define BERTH_INTERPOSE_PROCESS_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/nvml_types.h"

struct berth_process_entry {
	unsigned int pid;
	uint64_t bytes;
};

struct berth_process_list {
	uint32_t count;
	struct berth_process_entry *entries;
};

/* However many there are. false: there is no list, *list is as it was. Free with berth_process_list_done. */
bool berth_process_list_read(nvmlDevice_t device, struct berth_process_list *list);
/* An empty one is fine. */
void berth_process_list_done(struct berth_process_list *list);

/* What a pid holds in all; *ret_listed tells whether it is there at all. */
uint64_t berth_process_list_bytes(const struct berth_process_list *list, unsigned int pid,
				  bool *ret_listed);

#endif
