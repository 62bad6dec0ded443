/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays and mipmapped arrays. Asked for by the descriptor's arithmetic; then the driver is asked
 * what it took (it tells this for some kinds only), and the difference is settled.
 */
#include <errno.h>

#include "account/books.h"
#include "base/attributes.h"
#include "interpose/charge.h"
#include "interpose/footprint.h"
#include "interpose/real.h"

/* The device whose requirements are meant; a call the driver just did well with has a context. */
static bool current_device(CUdevice *ret_device)
{
	return REAL(cuCtxGetDevice, ret_device) == CUDA_SUCCESS;
}

static CUresult adjust_array(struct berth_charge *charge, CUarray array)
{
	CUDA_ARRAY_MEMORY_REQUIREMENTS requirements = { 0 };
	CUdevice device;

	if (!charge->counted || !charge->bytes || !current_device(&device) ||
	    REAL(cuArrayGetMemoryRequirements, &requirements, array, device) != CUDA_SUCCESS ||
	    !requirements.size)
		return CUDA_SUCCESS;
	return berth_charge_adjust(charge, requirements.size);
}

static CUresult adjust_mipmap(struct berth_charge *charge, CUmipmappedArray mipmap)
{
	CUDA_ARRAY_MEMORY_REQUIREMENTS requirements = { 0 };
	CUdevice device;

	if (!charge->counted || !charge->bytes || !current_device(&device) ||
	    REAL(cuMipmappedArrayGetMemoryRequirements, &requirements, mipmap, device) !=
		    CUDA_SUCCESS ||
	    !requirements.size)
		return CUDA_SUCCESS;
	return berth_charge_adjust(charge, requirements.size);
}

/* An array the driver has made: keep it and tell the program, or give it back. */
static CUresult finish(struct berth_charge *charge, CUresult res, CUarray array, CUarray *ret_array)
{
	if (res == CUDA_SUCCESS) {
		res = adjust_array(charge, array);
		if (res != CUDA_SUCCESS)
			(void)REAL(cuArrayDestroy, array); /* refused either way */
		else
			*ret_array = array;
	}
	return berth_charge_settle(charge, res, BERTH_KEY_ARRAY, (uintptr_t)array);
}

/* Zero extents are the driver's to refuse. */
static CUresult ask(struct berth_charge *charge, const CUDA_ARRAY3D_DESCRIPTOR *desc,
		    unsigned int levels)
{
	return berth_charge_here(charge, desc->Width ? berth_footprint_bytes(desc, levels) : 0);
}

BERTH_EXPORT CUresult cuArrayCreate(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
	struct berth_charge charge;
	CUarray array = NULL;
	CUresult res;

	if (!handle || !desc)
		return REAL(cuArrayCreate, handle, desc);
	res = ask(&charge,
		  &(CUDA_ARRAY3D_DESCRIPTOR){ .Width = desc->Width,
					      .Height = desc->Height,
					      .Format = desc->Format,
					      .NumChannels = desc->NumChannels },
		  1);
	if (res == CUDA_SUCCESS)
		res = REAL(cuArrayCreate, &array, desc);
	return finish(&charge, res, array, handle);
}

BERTH_EXPORT CUresult cuArrayCreate_v2(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	struct berth_charge charge;
	CUarray array = NULL;
	CUresult res;

	if (!handle || !desc)
		return REAL(cuArrayCreate_v2, handle, desc);
	res = ask(&charge,
		  &(CUDA_ARRAY3D_DESCRIPTOR){ .Width = desc->Width,
					      .Height = desc->Height,
					      .Format = desc->Format,
					      .NumChannels = desc->NumChannels },
		  1);
	if (res == CUDA_SUCCESS)
		res = REAL(cuArrayCreate_v2, &array, desc);
	return finish(&charge, res, array, handle);
}

BERTH_EXPORT CUresult cuArray3DCreate(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
	struct berth_charge charge;
	CUarray array = NULL;
	CUresult res;

	if (!handle || !desc)
		return REAL(cuArray3DCreate, handle, desc);
	res = ask(&charge,
		  &(CUDA_ARRAY3D_DESCRIPTOR){ .Width = desc->Width,
					      .Height = desc->Height,
					      .Depth = desc->Depth,
					      .Format = desc->Format,
					      .NumChannels = desc->NumChannels,
					      .Flags = desc->Flags },
		  1);
	if (res == CUDA_SUCCESS)
		res = REAL(cuArray3DCreate, &array, desc);
	return finish(&charge, res, array, handle);
}

BERTH_EXPORT CUresult cuArray3DCreate_v2(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct berth_charge charge;
	CUarray array = NULL;
	CUresult res;

	if (!handle || !desc)
		return REAL(cuArray3DCreate_v2, handle, desc);
	res = ask(&charge, desc, 1);
	if (res == CUDA_SUCCESS)
		res = REAL(cuArray3DCreate_v2, &array, desc);
	return finish(&charge, res, array, handle);
}

BERTH_EXPORT CUresult cuArrayDestroy(CUarray array)
{
	struct berth_free taken = berth_free_begin(BERTH_KEY_ARRAY, (uintptr_t)array);

	return berth_free_settle(&taken, REAL(cuArrayDestroy, array));
}

BERTH_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *handle,
					     const CUDA_ARRAY3D_DESCRIPTOR *mipmapped_array_desc,
					     unsigned int num_mipmap_levels)
{
	struct berth_charge charge;
	CUmipmappedArray mipmap = NULL;
	CUresult res;

	if (!handle || !mipmapped_array_desc)
		return REAL(cuMipmappedArrayCreate, handle, mipmapped_array_desc,
			    num_mipmap_levels);
	res = ask(&charge, mipmapped_array_desc, num_mipmap_levels);
	if (res == CUDA_SUCCESS)
		res = REAL(cuMipmappedArrayCreate, &mipmap, mipmapped_array_desc,
			   num_mipmap_levels);
	if (res == CUDA_SUCCESS) {
		res = adjust_mipmap(&charge, mipmap);
		if (res != CUDA_SUCCESS)
			(void)REAL(cuMipmappedArrayDestroy, mipmap); /* refused either way */
		else
			*handle = mipmap;
	}
	return berth_charge_settle(&charge, res, BERTH_KEY_MIPMAP, (uintptr_t)mipmap);
}

BERTH_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmapped_array)
{
	struct berth_free taken = berth_free_begin(BERTH_KEY_MIPMAP, (uintptr_t)mipmapped_array);

	return berth_free_settle(&taken, REAL(cuMipmappedArrayDestroy, mipmapped_array));
}
