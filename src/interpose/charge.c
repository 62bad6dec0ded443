/* SPDX-License-Identifier: Apache-2.0
 *
 * See charge.h.
 */
#include "interpose/charge.h"

#include <string.h>

#include "account/account.h"
#include "interpose/gpu.h"
#include "interpose/probe.h"

/* Every refusal of memory is out-of-memory, also on a GPU that is not of the share: anything else makes
 * a framework give up where it would free its caches and retry. */
static CUresult ask(struct berth_charge *charge, uint64_t bytes)
{
	if (berth_books_ask(charge->gpu, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	charge->bytes = bytes;
	return CUDA_SUCCESS;
}

/* true: go on and count. */
static bool enter(struct berth_charge *ret_charge, CUresult *ret_res)
{
	memset(ret_charge, 0, sizeof(*ret_charge));
	*ret_res = CUDA_SUCCESS;
	if (berth_gpu_attached())
		return true;
	if (berth_account_state() == BERTH_ACCOUNT_REFUSED)
		*ret_res = CUDA_ERROR_OUT_OF_MEMORY;
	return false;
}

/* What was found, into the charge. */
static CUresult placed(struct berth_charge *ret_charge, CUresult res,
		       const struct berth_place *place)
{
	/* Without a context the driver will say so itself. With one whose GPU can't be told, nothing
	 * can be charged: the driver's error, and no memory. */
	if (res != CUDA_SUCCESS)
		return place->context ? res : CUDA_SUCCESS;
	ret_charge->counted = true;
	ret_charge->gpu = place->gpu;
	ret_charge->device = place->device;
	ret_charge->owner = place->context;
	return CUDA_SUCCESS;
}

CUresult berth_charge_place(struct berth_charge *ret_charge)
{
	struct berth_place place = { 0 };
	CUresult res;

	if (!enter(ret_charge, &res))
		return res;
	res = berth_place_current(&place);
	return placed(ret_charge, res, &place);
}

CUresult berth_charge_stream(struct berth_charge *ret_charge, CUstream stream)
{
	struct berth_place place = { 0 };
	CUresult res;

	if (!enter(ret_charge, &res))
		return res;
	res = berth_place_stream(stream, &place);
	return placed(ret_charge, res, &place);
}

CUresult berth_charge_here(struct berth_charge *ret_charge, uint64_t bytes)
{
	CUresult res;

	if (!bytes) {
		memset(ret_charge, 0, sizeof(*ret_charge));
		return CUDA_SUCCESS;
	}
	res = berth_charge_place(ret_charge);
	if (res != CUDA_SUCCESS || !ret_charge->counted)
		return res;
	return ask(ret_charge, bytes);
}

CUresult berth_charge_device(struct berth_charge *ret_charge, CUdevice device, uint64_t bytes)
{
	CUresult res;

	if (!enter(ret_charge, &res) || !bytes)
		return res;
	ret_charge->counted = true;
	ret_charge->gpu = berth_gpu_of_device(device);
	ret_charge->device = device;
	return ask(ret_charge, bytes);
}

CUresult berth_charge_adjust(struct berth_charge *charge, uint64_t bytes)
{
	if (!charge->counted)
		return CUDA_SUCCESS;
	if (bytes > charge->bytes && berth_books_ask(charge->gpu, bytes - charge->bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes < charge->bytes)
		berth_books_refund(charge->gpu, charge->bytes - bytes);
	charge->bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult berth_charge_settle(struct berth_charge *charge, CUresult res,
			     enum berth_key_class key_class, uint64_t key)
{
	struct berth_block block;

	if (!charge->counted)
		return res;
	if (res != CUDA_SUCCESS) {
		berth_books_refund(charge->gpu, charge->bytes);
		return res;
	}
	block = (struct berth_block){ .bytes = charge->bytes,
				      .owner = charge->owner,
				      .gpu = (uint8_t)charge->gpu };
	berth_books_enter(key_class, key, &block);
	berth_probe_allocation(charge->gpu, charge->device);
	return res;
}

struct berth_free berth_free_begin(enum berth_key_class key_class, uint64_t key)
{
	struct berth_free taken = { .key_class = key_class, .key = key };

	taken.counted = berth_account_state() == BERTH_ACCOUNT_ATTACHED &&
			berth_books_take(key_class, key, &taken.block);
	return taken;
}

CUresult berth_free_settle(const struct berth_free *taken, CUresult res)
{
	if (!taken->counted)
		return res;
	if (res == CUDA_SUCCESS)
		berth_books_gone(taken->key_class, &taken->block);
	else
		berth_books_restore(taken->key_class, taken->key, &taken->block);
	return res;
}
