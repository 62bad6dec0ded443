/* SPDX-License-Identifier: Apache-2.0
 *
 * What NVML tells a program about memory. Joined to the share by UUID; works before cuInit and in
 * programs that never call it, which get no seat for looking. The library is asked first, so its
 * errors and its check of the struct's version are its own.
 */
#include <stdint.h>

#include "account/room.h"
#include "base/attributes.h"
#include "driver/gpu_list.h"
#include "interpose/errors.h"
#include "interpose/real.h"
#include "policy/view.h"

static int room_of(nvmlDevice_t device, struct berth_ledger_room *ret_room)
{
	char uuid[BERTH_GPU_UUID_SIZE] = "";
	unsigned int index = UINT32_MAX;

	*ret_room = (struct berth_ledger_room){ 0 };
	if (REAL_NVML(nvmlDeviceGetUUID, device, uuid, sizeof(uuid)) != NVML_SUCCESS)
		return 0;
	/* Only for limits by index, before there is a region; unknown = the general limit. */
	(void)REAL_NVML(nvmlDeviceGetIndex, device, &index);
	return berth_account_room(uuid, index, ret_room);
}

BERTH_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlMemory_t physical = { 0 };
	struct berth_memory_view view;
	struct berth_ledger_room room;
	nvmlReturn_t res = REAL_NVML(nvmlDeviceGetMemoryInfo, device, memory ? &physical : NULL);
	int err;

	if (res != NVML_SUCCESS || !memory)
		return res;
	err = room_of(device, &room);
	if (err)
		return berth_error_to_nvml(err);
	if (room.limit_bytes) {
		view = berth_memory_view(room.limit_bytes, room.charged_bytes, physical.total,
					 physical.free);
		physical.total = view.total_bytes;
		physical.free = view.free_bytes;
		physical.used = view.used_bytes;
	}
	*memory = physical;
	return NVML_SUCCESS;
}

BERTH_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlMemory_v2_t physical = { .version = memory ? memory->version : 0 };
	struct berth_memory_view view;
	struct berth_ledger_room room;
	nvmlReturn_t res = REAL_NVML(nvmlDeviceGetMemoryInfo_v2, device, memory ? &physical : NULL);
	int err;

	if (res != NVML_SUCCESS || !memory)
		return res;
	err = room_of(device, &room);
	if (err)
		return berth_error_to_nvml(err);
	if (room.limit_bytes) {
		view = berth_memory_view(room.limit_bytes, room.charged_bytes, physical.total,
					 physical.free);
		physical.total = view.total_bytes;
		physical.free = view.free_bytes;
		physical.reserved = berth_memory_view_reserved(&view, physical.reserved);
		physical.used = view.used_bytes - physical.reserved;
	}
	*memory = physical;
	return NVML_SUCCESS;
}
