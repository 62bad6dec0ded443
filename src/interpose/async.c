/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream-ordered memory. Charged when it is asked for and given back when its free is enqueued, as
 * the pool may hand it out again from then on; what a pool keeps for itself is in pool.h. The GPU
 * is the pool's, or the stream's: not the current context's.
 */
#include "account/books.h"
#include "account/reserve.h"
#include "base/attributes.h"
#include "interpose/charge.h"
#include "interpose/gpu.h"
#include "interpose/pool.h"
#include "interpose/real.h"

/* Finds the GPU: charge->counted tells whether anything is to be booked. */
static CUresult place(struct berth_charge *charge, CUmemoryPool pool, CUstream stream)
{
	CUresult res = pool ? berth_charge_place(charge) : berth_charge_stream(charge, stream);

	if (res != CUDA_SUCCESS || !charge->counted)
		return res;
	if (pool)
		charge->counted = berth_pool_gpu(pool, &charge->gpu);
	charge->owner = pool ? 0 : berth_pool_owner(charge->gpu);
	return CUDA_SUCCESS;
}

/* What the pool already has isn't asked for again. */
static CUresult ask_pool(struct berth_charge *charge, CUmemoryPool pool, uint64_t bytes)
{
	uint64_t kept_bytes = 0;

	if (berth_reserve_any())
		kept_bytes = berth_reserve_use(
			(uintptr_t)(pool ? pool : berth_pool_current(charge->device)), bytes);
	charge->bytes = kept_bytes; /* charged before, now ours */
	return berth_charge_adjust(charge, bytes);
}

static CUresult ask(struct berth_charge *charge, CUmemoryPool pool, CUstream stream, uint64_t bytes)
{
	CUresult res = place(charge, pool, stream);

	if (res != CUDA_SUCCESS || !charge->counted)
		return res;
	res = ask_pool(charge, pool, bytes);
	if (res == CUDA_SUCCESS)
		return res;
	berth_books_refund(charge->gpu, charge->bytes);
	charge->bytes = 0;
	if (berth_pools_trim(charge->gpu))
		res = ask_pool(charge, pool, bytes);
	return res;
}

static CUresult settle(struct berth_charge *charge, CUresult res, const CUdeviceptr *ptr)
{
	res = berth_charge_settle(charge, res, BERTH_KEY_ADDRESS,
				  res == CUDA_SUCCESS && ptr ? *ptr : 0);
	if (charge->counted)
		berth_pools_measure();
	return res;
}

BERTH_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	struct berth_charge charge;
	CUresult res;

	if (!ptr || !bytes)
		return REAL(cuMemAllocAsync, ptr, bytes, stream);
	res = ask(&charge, NULL, stream, bytes);
	if (res == CUDA_SUCCESS)
		res = REAL(cuMemAllocAsync, ptr, bytes, stream);
	return settle(&charge, res, ptr);
}

BERTH_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	struct berth_charge charge;
	CUresult res;

	if (!ptr || !bytes)
		return REAL(cuMemAllocAsync_ptsz, ptr, bytes, stream);
	res = ask(&charge, NULL, stream, bytes);
	if (res == CUDA_SUCCESS)
		res = REAL(cuMemAllocAsync_ptsz, ptr, bytes, stream);
	return settle(&charge, res, ptr);
}

BERTH_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
					      CUstream stream)
{
	struct berth_charge charge;
	CUresult res;

	if (!ptr || !bytes || !pool)
		return REAL(cuMemAllocFromPoolAsync, ptr, bytes, pool, stream);
	res = ask(&charge, pool, stream, bytes);
	if (res == CUDA_SUCCESS)
		res = REAL(cuMemAllocFromPoolAsync, ptr, bytes, pool, stream);
	return settle(&charge, res, ptr);
}

BERTH_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ptr, size_t bytes,
						   CUmemoryPool pool, CUstream stream)
{
	struct berth_charge charge;
	CUresult res;

	if (!ptr || !bytes || !pool)
		return REAL(cuMemAllocFromPoolAsync_ptsz, ptr, bytes, pool, stream);
	res = ask(&charge, pool, stream, bytes);
	if (res == CUDA_SUCCESS)
		res = REAL(cuMemAllocFromPoolAsync_ptsz, ptr, bytes, pool, stream);
	return settle(&charge, res, ptr);
}

BERTH_EXPORT CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
	struct berth_free taken = berth_free_begin(BERTH_KEY_ADDRESS, ptr);
	CUresult res = berth_free_settle(&taken, REAL(cuMemFreeAsync, ptr, stream));

	if (taken.counted)
		berth_pools_measure();
	return res;
}

BERTH_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
	struct berth_free taken = berth_free_begin(BERTH_KEY_ADDRESS, ptr);
	CUresult res = berth_free_settle(&taken, REAL(cuMemFreeAsync_ptsz, ptr, stream));

	if (taken.counted)
		berth_pools_measure();
	return res;
}
