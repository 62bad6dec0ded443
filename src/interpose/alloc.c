/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear memory: plain, pitched, managed, and every free. The first API's forms have 32-bit
 * addresses and sizes; they go to the driver's own 32-bit functions, so no 8 bytes are ever stored
 * into a 4-byte output.
 */
#include "account/books.h"
#include "base/attributes.h"
#include "interpose/charge.h"
#include "interpose/real.h"

BERTH_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *ptr, unsigned int bytes)
{
	struct berth_charge charge;
	CUresult res = berth_charge_here(&charge, ptr ? bytes : 0);

	if (res == CUDA_SUCCESS)
		res = REAL(cuMemAlloc, ptr, bytes);
	return berth_charge_settle(&charge, res, BERTH_KEY_ADDRESS,
				   res == CUDA_SUCCESS && ptr ? *ptr : 0);
}

BERTH_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	struct berth_charge charge;
	CUresult res = berth_charge_here(&charge, ptr ? bytes : 0);

	if (res == CUDA_SUCCESS)
		res = REAL(cuMemAlloc_v2, ptr, bytes);
	return berth_charge_settle(&charge, res, BERTH_KEY_ADDRESS,
				   res == CUDA_SUCCESS && ptr ? *ptr : 0);
}

BERTH_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned int flags)
{
	struct berth_charge charge;
	CUresult res = berth_charge_here(&charge, ptr ? bytes : 0);

	if (res == CUDA_SUCCESS)
		res = REAL(cuMemAllocManaged, ptr, bytes, flags);
	return berth_charge_settle(&charge, res, BERTH_KEY_ADDRESS,
				   res == CUDA_SUCCESS && ptr ? *ptr : 0);
}

static uint64_t area_bytes(uint64_t width_bytes, uint64_t height)
{
	uint64_t bytes;

	return __builtin_mul_overflow(width_bytes, height, &bytes) ? UINT64_MAX : bytes;
}

/* The least that a pitched block can take. An element size that the driver refuses asks for
 * nothing: its answer comes back. If it did accept it, the adjustment charges what it took. */
static CUresult pitch_ask(struct berth_charge *charge, uint64_t width_bytes, uint64_t height,
			  unsigned int element_bytes)
{
	bool sane = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;

	if (!sane || !width_bytes || !height)
		return berth_charge_place(charge);
	return berth_charge_here(charge, area_bytes(width_bytes, height));
}

BERTH_EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *ptr, unsigned int *pitch,
				      unsigned int width_bytes, unsigned int height,
				      unsigned int element_bytes)
{
	struct berth_charge charge;
	CUdeviceptr_v1 block = 0;
	unsigned int chosen = 0;
	CUresult res;

	if (!ptr || !pitch)
		return REAL(cuMemAllocPitch, ptr, pitch, width_bytes, height, element_bytes);
	res = pitch_ask(&charge, width_bytes, height, element_bytes);
	if (res == CUDA_SUCCESS)
		res = REAL(cuMemAllocPitch, &block, &chosen, width_bytes, height, element_bytes);
	if (res == CUDA_SUCCESS) {
		res = berth_charge_adjust(&charge, area_bytes(chosen, height));
		if (res != CUDA_SUCCESS)
			(void)REAL(cuMemFree, block); /* refused either way */
	}
	if (res == CUDA_SUCCESS) {
		*ptr = block;
		*pitch = chosen;
	}
	return berth_charge_settle(&charge, res, BERTH_KEY_ADDRESS, block);
}

BERTH_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *pitch, size_t width_bytes,
					 size_t height, unsigned int element_bytes)
{
	struct berth_charge charge;
	CUdeviceptr block = 0;
	size_t chosen = 0;
	CUresult res;

	if (!ptr || !pitch)
		return REAL(cuMemAllocPitch_v2, ptr, pitch, width_bytes, height, element_bytes);
	res = pitch_ask(&charge, width_bytes, height, element_bytes);
	if (res == CUDA_SUCCESS)
		res = REAL(cuMemAllocPitch_v2, &block, &chosen, width_bytes, height, element_bytes);
	if (res == CUDA_SUCCESS) {
		res = berth_charge_adjust(&charge, area_bytes(chosen, height));
		if (res != CUDA_SUCCESS)
			(void)REAL(cuMemFree_v2, block); /* refused either way */
	}
	if (res == CUDA_SUCCESS) {
		*ptr = block;
		*pitch = chosen;
	}
	return berth_charge_settle(&charge, res, BERTH_KEY_ADDRESS, block);
}

BERTH_EXPORT CUresult cuMemFree(CUdeviceptr_v1 ptr)
{
	struct berth_free taken = berth_free_begin(BERTH_KEY_ADDRESS, ptr);

	return berth_free_settle(&taken, REAL(cuMemFree, ptr));
}

BERTH_EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	struct berth_free taken = berth_free_begin(BERTH_KEY_ADDRESS, ptr);

	return berth_free_settle(&taken, REAL(cuMemFree_v2, ptr));
}
