/* SPDX-License-Identifier: Apache-2.0
 *
 * From NVML, by the difference of two looks. Where our host pid is known it is what NVML books for
 * this very process. Elsewhere our entry can't be told from a
 * neighbour's that grew meanwhile: the least that any one process grew by is charged, since too much
 * would refuse this share's asks for what a neighbour did. Where NVML lists nobody (it hides what
 * a container can't see), the whole GPU's difference is all there is; no context takes more than
 * UNLISTED_MAX_BYTES, so more is somebody else's.
 *
 * NVML is initialised for the two looks only: held initialised it would let the program call it
 * without doing so itself, which must fail as it does without us. No fork of the program happens while
 * we are in NVML, whose locks its child would find held (driver/walk.h).
 */
#include "interpose/growth.h"

#include "account/account.h"
#include "account/host_pid.h"
#include "driver/walk.h"
#include "interpose/real.h"

#define UNLISTED_MAX_BYTES (512ULL << 20)
/* Looks that other threads' allocations fell into, before one of them is taken as it is. */
#define LOOK_TRIES 3

/* Without a list it is an empty one. */
static bool look_once(nvmlDevice_t device, struct berth_growth_look *look)
{
	nvmlMemory_t memory = { 0 };

	if (REAL_NVML(nvmlDeviceGetMemoryInfo, device, &memory) != NVML_SUCCESS)
		return false;
	look->used_bytes = memory.used;
	berth_process_list_done(&look->processes);
	berth_process_list_read(device, &look->processes);
	return true;
}

/* The list is to be freed, whatever the answer is. */
static bool look(nvmlDevice_t device, int gpu, struct berth_growth_look *ret_look)
{
	for (int i = 0; i < LOOK_TRIES; i++) {
		uint64_t charged_bytes = berth_account_own_bytes(gpu);

		if (!look_once(device, ret_look))
			return false;
		ret_look->charged_bytes = berth_account_own_bytes(gpu);
		if (ret_look->charged_bytes == charged_bytes)
			break;
	}
	return true;
}

static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

/* The same without what was charged, or given back, by itself meanwhile. */
static uint64_t grown_uncharged(uint64_t before, uint64_t after,
				const struct berth_growth_look *first,
				const struct berth_growth_look *last)
{
	return grown(before + last->charged_bytes, after + first->charged_bytes);
}

/* Who is listed twice is looked at once. */
static bool is_first(const struct berth_process_list *list, uint32_t entry)
{
	for (uint32_t i = 0; i < entry; i++) {
		if (list->entries[i].pid == list->entries[entry].pid)
			return false;
	}
	return true;
}

/* Who is new in the list may be us, also if its context took nothing: *ret_new. */
static uint64_t process_grown(const struct berth_growth_look *before,
			      const struct berth_growth_look *after, unsigned int pid,
			      bool *ret_new)
{
	bool was_listed, listed;
	uint64_t first = berth_process_list_bytes(&before->processes, pid, &was_listed);

	*ret_new = !was_listed;
	return grown(first, berth_process_list_bytes(&after->processes, pid, &listed));
}

/* Not listed yet, as NVML is late: all that nobody else grew by. */
static uint64_t unlisted_grown(const struct berth_growth_look *before,
			       const struct berth_growth_look *after)
{
	uint64_t left = grown_uncharged(before->used_bytes, after->used_bytes, before, after);
	bool is_new;

	for (uint32_t i = 0; i < after->processes.count; i++) {
		if (is_first(&after->processes, i))
			left = grown(process_grown(before, after, after->processes.entries[i].pid,
						   &is_new),
				     left);
	}
	return left < UNLISTED_MAX_BYTES ? left : UNLISTED_MAX_BYTES;
}

/* Whoever grew least, of those that grew or are new. false: nobody. */
static bool least_grown(const struct berth_growth_look *before,
			const struct berth_growth_look *after, uint64_t *ret_bytes)
{
	bool found = false;
	bool is_new;

	for (uint32_t i = 0; i < after->processes.count; i++) {
		uint64_t one;

		if (!is_first(&after->processes, i))
			continue;
		one = process_grown(before, after, after->processes.entries[i].pid, &is_new);
		/* A neighbour's that stayed as it is doesn't grow by what we gave back. */
		one = grown(grown(before->charged_bytes, after->charged_bytes), one);
		if ((one || is_new) && (!found || one < *ret_bytes)) {
			*ret_bytes = one;
			found = true;
		}
	}
	return found;
}

uint64_t berth_growth_between(const struct berth_growth_look *before,
			      const struct berth_growth_look *after, unsigned int own_pid)
{
	bool was_listed, listed = false;
	uint64_t bytes = 0;

	if (own_pid)
		bytes = berth_process_list_bytes(&after->processes, own_pid, &listed);
	if (listed)
		return grown_uncharged(
			berth_process_list_bytes(&before->processes, own_pid, &was_listed), bytes,
			before, after);
	if (!own_pid && least_grown(before, after, &bytes))
		return bytes;
	return unlisted_grown(before, after);
}

/* NVML stays started if it is true. */
static bool look_first(const char *uuid, struct berth_growth *growth)
{
	if (berth_nvml_start() != NVML_SUCCESS)
		return false;
	if (REAL_NVML(nvmlDeviceGetHandleByUUID, uuid, &growth->device) == NVML_SUCCESS &&
	    look(growth->device, growth->gpu, &growth->before))
		return true;
	berth_process_list_done(&growth->before.processes);
	berth_nvml_stop();
	return false;
}

void berth_growth_begin(int gpu, struct berth_growth *ret_growth)
{
	struct berth_region_gpu of_region;

	*ret_growth = (struct berth_growth){ .gpu = gpu };
	if (!berth_account_gpu_limited(gpu))
		return;
	berth_region_gpu(berth_account_region(), (uint32_t)gpu, &of_region);
	berth_walk_enter();
	ret_growth->running = look_first(of_region.uuid, ret_growth);
	berth_walk_leave();
}

uint64_t berth_growth_end(struct berth_growth *growth)
{
	struct berth_growth_look after = { 0 };
	uint64_t bytes = 0;

	if (!growth->running)
		return 0;
	berth_walk_enter();
	if (look(growth->device, growth->gpu, &after))
		bytes = berth_growth_between(&growth->before, &after,
					     (unsigned int)berth_host_pid());
	berth_nvml_stop();
	berth_walk_leave();
	berth_process_list_done(&after.processes);
	berth_process_list_done(&growth->before.processes);
	growth->running = false;
	return bytes;
}
