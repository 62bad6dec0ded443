/* SPDX-License-Identifier: Apache-2.0
 *
 * What CUDA tells a program about memory: the driver is asked first, so its errors and argument
 * checks are its own; then the share's view replaces what it answered.
 */
#include <stdint.h>

#include "account/account.h"
#include "account/room.h"
#include "base/attributes.h"
#include "driver/gpu_list.h"
#include "interpose/errors.h"
#include "interpose/gpu.h"
#include "interpose/real.h"
#include "policy/view.h"

/* The share's room on a device. limit 0: the driver's own figures hold. */
static int room_of(CUdevice device, struct berth_ledger_room *ret_room)
{
	char text[BERTH_GPU_UUID_SIZE];
	CUuuid uuid;
	int gpu;

	*ret_room = (struct berth_ledger_room){ 0 };
	if (berth_gpu_attached()) {
		gpu = berth_gpu_of_device(device);
		return gpu < 0 ? 0
			       : berth_ledger_room(berth_account_region(), (uint32_t)gpu, ret_room);
	}
	if (berth_account_state() == BERTH_ACCOUNT_PASSIVE)
		return 0;
	if (REAL(cuDeviceGetUuid, &uuid, device) != CUDA_SUCCESS)
		return 0;
	berth_gpu_uuid_format(uuid.bytes, text);
	return berth_account_room(text, UINT32_MAX, ret_room);
}

/* The view of the current context's GPU, from the driver's figures (0 = not asked for). */
static int view_current(uint64_t total_bytes, uint64_t free_bytes,
			struct berth_memory_view *ret_view)
{
	struct berth_ledger_room room = { 0 };
	CUdevice device = 0;
	int err = 0;

	if (berth_account_state() != BERTH_ACCOUNT_PASSIVE &&
	    REAL(cuCtxGetDevice, &device) == CUDA_SUCCESS)
		err = room_of(device, &room);
	if (!err)
		*ret_view = berth_memory_view(room.limit_bytes, room.charged_bytes, total_bytes,
					      free_bytes);
	return err;
}

BERTH_EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct berth_memory_view view;
	size_t free_bytes = 0;
	size_t total_bytes = SIZE_MAX;
	CUresult res =
		REAL(cuMemGetInfo_v2, free ? &free_bytes : NULL, total ? &total_bytes : NULL);
	int err;

	if (res != CUDA_SUCCESS)
		return res;
	err = view_current(total_bytes, free_bytes, &view);
	if (err)
		return berth_error_to_cuda(err);
	if (free)
		*free = view.free_bytes;
	if (total)
		*total = view.total_bytes;
	return CUDA_SUCCESS;
}

static unsigned int narrow(uint64_t bytes)
{
	return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

/* 32-bit: what doesn't fit is shown as the most that does, by the driver and by us. */
BERTH_EXPORT CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	struct berth_memory_view view;
	unsigned int free_bytes = 0;
	unsigned int total_bytes = UINT32_MAX;
	CUresult res = REAL(cuMemGetInfo, free ? &free_bytes : NULL, total ? &total_bytes : NULL);
	int err;

	if (res != CUDA_SUCCESS)
		return res;
	err = view_current(total_bytes, free_bytes, &view);
	if (err)
		return berth_error_to_cuda(err);
	if (free)
		*free = narrow(view.free_bytes);
	if (total)
		*total = narrow(view.total_bytes);
	return CUDA_SUCCESS;
}

BERTH_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	struct berth_ledger_room room;
	size_t total_bytes = 0;
	CUresult res = REAL(cuDeviceTotalMem_v2, bytes ? &total_bytes : NULL, device);
	int err;

	if (res != CUDA_SUCCESS || !bytes)
		return res;
	err = room_of(device, &room);
	if (err)
		return berth_error_to_cuda(err);
	*bytes = berth_memory_view(room.limit_bytes, 0, total_bytes, 0).total_bytes;
	return CUDA_SUCCESS;
}

BERTH_EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	struct berth_ledger_room room;
	unsigned int total_bytes = 0;
	CUresult res = REAL(cuDeviceTotalMem, bytes ? &total_bytes : NULL, device);
	int err;

	if (res != CUDA_SUCCESS || !bytes)
		return res;
	err = room_of(device, &room);
	if (err)
		return berth_error_to_cuda(err);
	*bytes = narrow(berth_memory_view(room.limit_bytes, 0, total_bytes, 0).total_bytes);
	return CUDA_SUCCESS;
}
