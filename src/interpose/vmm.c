/* SPDX-License-Identifier: Apache-2.0
 *
 * Physical memory by handle. Charged to the GPU that the properties name, whatever context is
 * current; host memory is not device memory. The lifetimes are in account/handles.h.
 */
#include "account/account.h"
#include "account/handles.h"
#include "base/attributes.h"
#include "interpose/charge.h"
#include "interpose/real.h"

static bool attached(void)
{
	return berth_account_state() == BERTH_ACCOUNT_ATTACHED;
}

BERTH_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
				  const CUmemAllocationProp *prop, unsigned long long flags)
{
	bool on_gpu = handle && prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	struct berth_charge charge;
	CUresult res;

	if (!on_gpu)
		return REAL(cuMemCreate, handle, bytes, prop, flags);
	res = berth_charge_device(&charge, prop->location.id, bytes);
	if (res == CUDA_SUCCESS)
		res = REAL(cuMemCreate, handle, bytes, prop, flags);
	if (res != CUDA_SUCCESS)
		return berth_charge_settle(&charge, res, BERTH_KEY_HANDLE, 0);
	if (charge.counted)
		berth_handle_created(*handle, charge.gpu, charge.bytes);
	return res;
}

BERTH_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	uint64_t serial = attached() ? berth_handle_serial(handle) : 0;
	CUresult res = REAL(cuMemRelease, handle);

	if (res == CUDA_SUCCESS && serial)
		berth_handle_released(handle, serial);
	return res;
}

BERTH_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult res = REAL(cuMemRetainAllocationHandle, handle, addr);

	if (res == CUDA_SUCCESS && handle && attached())
		berth_handle_retained(*handle);
	return res;
}

BERTH_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset,
			       CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult res = REAL(cuMemMap, ptr, bytes, offset, handle, flags);

	if (res == CUDA_SUCCESS && attached())
		berth_handle_mapped(handle, ptr, bytes);
	return res;
}

BERTH_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	CUresult res = REAL(cuMemUnmap, ptr, bytes);

	if (res == CUDA_SUCCESS && attached())
		berth_handle_unmapped(ptr, bytes);
	return res;
}
