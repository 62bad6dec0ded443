/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts take memory of their own, which no call tells: it is measured and booked, also over the
 * limit, for the driver has taken it by then. A context that ends takes its allocations with it.
 */
#include "account/account.h"
#include "account/books.h"
#include "account/primary.h"
#include "base/attributes.h"
#include "base/cancel.h"
#include "interpose/charge.h"
#include "interpose/errors.h"
#include "interpose/gpu.h"
#include "interpose/growth.h"
#include "interpose/pool.h"
#include "interpose/probe.h"
#include "interpose/real.h"
#include "interpose/turn.h"

/* One context on its way. */
struct making {
	bool counted;
	int gpu;
	CUdevice device;
	struct berth_turn turn;
	struct berth_growth growth;
};

static void make_in_turn(struct making *making, bool (*needless)(int gpu))
{
	berth_turn_take(making->gpu, needless, &making->turn);
	if (!needless || !needless(making->gpu))
		berth_growth_begin(making->gpu, &making->growth);
	berth_probe_before_context(&making->growth);
}

/* A program that is refused gets no context either: what it would take couldn't be charged. */
static CUresult begin(struct making *making, CUdevice device, bool (*needless)(int gpu))
{
	*making = (struct making){ .gpu = -1, .device = device };
	if (berth_account_state() == BERTH_ACCOUNT_REFUSED)
		return berth_error_to_cuda(berth_account_error());
	if (!berth_gpu_attached())
		return CUDA_SUCCESS;
	making->gpu = berth_gpu_of_device(device);
	making->counted = making->gpu >= 0;
	if (making->counted)
		make_in_turn(making, needless);
	return CUDA_SUCCESS;
}

static CUresult created(struct making *making, CUresult res, const CUcontext *context)
{
	uint64_t bytes;

	/* First: who knows its own pid measures its own growth. */
	if (res == CUDA_SUCCESS && making->counted)
		berth_probe_context(making->gpu, making->device);
	bytes = berth_growth_end(&making->growth);
	if (res == CUDA_SUCCESS && making->counted && context)
		berth_books_enter_context((uintptr_t)*context, making->gpu, bytes);
	berth_turn_give(&making->turn);
	return res;
}

BERTH_EXPORT CUresult cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice device)
{
	BERTH_UNCANCELLED;
	struct making making;
	CUresult res = begin(&making, device, NULL);

	if (res == CUDA_SUCCESS)
		res = REAL(cuCtxCreate, ctx, flags, device);
	return created(&making, res, ctx);
}

BERTH_EXPORT CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device)
{
	BERTH_UNCANCELLED;
	struct making making;
	CUresult res = begin(&making, device, NULL);

	if (res == CUDA_SUCCESS)
		res = REAL(cuCtxCreate_v2, ctx, flags, device);
	return created(&making, res, ctx);
}

BERTH_EXPORT CUresult cuCtxCreate_v3(CUcontext *ctx, CUexecAffinityParam *params_array,
				     int num_params, unsigned int flags, CUdevice device)
{
	BERTH_UNCANCELLED;
	struct making making;
	CUresult res = begin(&making, device, NULL);

	if (res == CUDA_SUCCESS)
		res = REAL(cuCtxCreate_v3, ctx, params_array, num_params, flags, device);
	return created(&making, res, ctx);
}

BERTH_EXPORT CUresult cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *ctx_create_params,
				     unsigned int flags, CUdevice device)
{
	BERTH_UNCANCELLED;
	struct making making;
	CUresult res = begin(&making, device, NULL);

	if (res == CUDA_SUCCESS)
		res = REAL(cuCtxCreate_v4, ctx, ctx_create_params, flags, device);
	return created(&making, res, ctx);
}

/* One that is to end. */
struct ending {
	struct berth_turn turn;
	struct berth_free taken;
};

static struct ending end_begin(CUcontext context)
{
	struct ending ending = { .turn = { .gpu = -1 } };

	ending.taken = berth_free_begin(BERTH_KEY_CONTEXT, (uintptr_t)context);
	if (ending.taken.counted)
		berth_turn_take(ending.taken.block.gpu, NULL, &ending.turn);
	return ending;
}

static CUresult destroyed(const struct ending *ending, CUresult res, CUcontext context)
{
	(void)berth_free_settle(&ending->taken, res);
	if (res == CUDA_SUCCESS && berth_account_state() == BERTH_ACCOUNT_ATTACHED) {
		berth_place_invalidate();
		berth_books_context_gone((uintptr_t)context);
	}
	berth_turn_give(&ending->turn);
	return res;
}

BERTH_EXPORT CUresult cuCtxDestroy(CUcontext ctx)
{
	BERTH_UNCANCELLED;
	struct ending ending = end_begin(ctx);

	return destroyed(&ending, REAL(cuCtxDestroy, ctx), ctx);
}

BERTH_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	BERTH_UNCANCELLED;
	struct ending ending = end_begin(ctx);

	return destroyed(&ending, REAL(cuCtxDestroy_v2, ctx), ctx);
}

/* The first API counts uses of a context: the last detach destroys it. */
BERTH_EXPORT CUresult cuCtxAttach(CUcontext *ctx, unsigned int flags)
{
	CUresult res = REAL(cuCtxAttach, ctx, flags);
	struct berth_free taken;

	if (res != CUDA_SUCCESS || !ctx)
		return res;
	taken = berth_free_begin(BERTH_KEY_CONTEXT, (uintptr_t)*ctx);
	if (taken.counted) {
		if (taken.block.uses < UINT16_MAX)
			taken.block.uses++;
		berth_books_restore(BERTH_KEY_CONTEXT, taken.key, &taken.block);
	}
	return res;
}

BERTH_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	BERTH_UNCANCELLED;
	struct ending ending = end_begin(ctx);
	struct berth_free *taken = &ending.taken;
	CUresult res = REAL(cuCtxDetach, ctx);

	if (!taken->counted || (res == CUDA_SUCCESS && taken->block.uses == 1))
		return taken->counted ? destroyed(&ending, res, ctx) : res;
	if (res == CUDA_SUCCESS)
		taken->block.uses--;
	berth_books_restore(BERTH_KEY_CONTEXT, taken->key, &taken->block);
	berth_turn_give(&ending.turn);
	return res;
}

BERTH_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
	BERTH_UNCANCELLED;
	struct making making = { .gpu = -1 };
	CUresult res = CUDA_SUCCESS;
	uint64_t bytes;

	/* The usual retain finds the context there: nothing to measure. */
	if (!berth_gpu_attached() || !berth_primary_charged(berth_gpu_of_device(device)))
		res = begin(&making, device, berth_primary_charged);
	else
		making.gpu = berth_gpu_of_device(device);
	if (res == CUDA_SUCCESS)
		res = REAL(cuDevicePrimaryCtxRetain, ctx, device);
	if (res == CUDA_SUCCESS && making.counted)
		berth_probe_context(making.gpu, device);
	bytes = berth_growth_end(&making.growth);
	if (res == CUDA_SUCCESS && ctx && making.gpu >= 0)
		berth_primary_retained(making.gpu, (uintptr_t)*ctx, bytes);
	berth_turn_give(&making.turn);
	return res;
}

/* What a release or reset that went well did to the context: the driver knows. */
static void primary_settle(CUdevice device, int gpu, uint64_t token, bool was_reset)
{
	unsigned int flags = 0;
	uint64_t context = 0;
	int active = 1;

	if (REAL(cuDevicePrimaryCtxGetState, device, &flags, &active) != CUDA_SUCCESS || active ||
	    !berth_primary_gone(gpu, token, &context))
		return;
	berth_place_invalidate();
	if (was_reset)
		berth_books_context_gone(berth_pool_owner(gpu));
	berth_pools_measure();
}

/* A device of the share in an attached program: its GPU; else negative. */
static int counted_gpu(CUdevice device)
{
	return berth_account_state() == BERTH_ACCOUNT_ATTACHED ? berth_gpu_of_device(device) : -1;
}

static CUresult primary_end(CUresult (*call)(CUdevice), CUdevice device, bool is_reset)
{
	BERTH_UNCANCELLED;
	int gpu = counted_gpu(device);
	struct berth_turn turn;
	uint64_t token;
	CUresult res;

	berth_turn_take(gpu, NULL, &turn);
	token = berth_primary_token(gpu);
	res = call ? call(device) : CUDA_ERROR_NOT_FOUND;
	if (res == CUDA_SUCCESS && gpu >= 0)
		primary_settle(device, gpu, token, is_reset);
	berth_turn_give(&turn);
	return res;
}

BERTH_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return primary_end(berth_driver()->cuDevicePrimaryCtxRelease, device, false);
}

BERTH_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	return primary_end(berth_driver()->cuDevicePrimaryCtxRelease_v2, device, false);
}

BERTH_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	return primary_end(berth_driver()->cuDevicePrimaryCtxReset, device, true);
}

BERTH_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	return primary_end(berth_driver()->cuDevicePrimaryCtxReset_v2, device, true);
}
