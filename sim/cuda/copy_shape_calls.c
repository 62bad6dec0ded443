/* SPDX-License-Identifier: Apache-2.0
 *
 * cuMemcpy2D*, cuMemcpy3D* and the batches: descriptors of several versions into the one that
 * copy.c moves.
 */
#include "sim/cuda/array.h"
#include "sim/cuda/context.h"
#include "sim/cuda/copy_run.h"
#include "sim/cuda/memory.h"

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *copy)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = copy->srcXInBytes,
		.srcY = copy->srcY,
		.srcMemoryType = copy->srcMemoryType,
		.srcHost = copy->srcHost,
		.srcDevice = copy->srcDevice,
		.srcArray = copy->srcArray,
		.srcPitch = copy->srcPitch,
		.dstXInBytes = copy->dstXInBytes,
		.dstY = copy->dstY,
		.dstMemoryType = copy->dstMemoryType,
		.dstHost = copy->dstHost,
		.dstDevice = copy->dstDevice,
		.dstArray = copy->dstArray,
		.dstPitch = copy->dstPitch,
		.WidthInBytes = copy->WidthInBytes,
		.Height = copy->Height,
		.Depth = 1,
	};
}

static CUDA_MEMCPY3D from_2d_v1(const CUDA_MEMCPY2D_v1 *copy)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = copy->srcXInBytes,
		.srcY = copy->srcY,
		.srcMemoryType = copy->srcMemoryType,
		.srcHost = copy->srcHost,
		.srcDevice = copy->srcDevice,
		.srcArray = copy->srcArray,
		.srcPitch = copy->srcPitch,
		.dstXInBytes = copy->dstXInBytes,
		.dstY = copy->dstY,
		.dstMemoryType = copy->dstMemoryType,
		.dstHost = copy->dstHost,
		.dstDevice = copy->dstDevice,
		.dstArray = copy->dstArray,
		.dstPitch = copy->dstPitch,
		.WidthInBytes = copy->WidthInBytes,
		.Height = copy->Height,
		.Depth = 1,
	};
}

static CUDA_MEMCPY3D from_3d(const CUDA_MEMCPY3D *copy)
{
	return *copy;
}

static CUDA_MEMCPY3D from_3d_v1(const CUDA_MEMCPY3D_v1 *copy)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = copy->srcXInBytes,
		.srcY = copy->srcY,
		.srcZ = copy->srcZ,
		.srcLOD = copy->srcLOD,
		.srcMemoryType = copy->srcMemoryType,
		.srcHost = copy->srcHost,
		.srcDevice = copy->srcDevice,
		.srcArray = copy->srcArray,
		.srcPitch = copy->srcPitch,
		.srcHeight = copy->srcHeight,
		.dstXInBytes = copy->dstXInBytes,
		.dstY = copy->dstY,
		.dstZ = copy->dstZ,
		.dstLOD = copy->dstLOD,
		.dstMemoryType = copy->dstMemoryType,
		.dstHost = copy->dstHost,
		.dstDevice = copy->dstDevice,
		.dstArray = copy->dstArray,
		.dstPitch = copy->dstPitch,
		.dstHeight = copy->dstHeight,
		.WidthInBytes = copy->WidthInBytes,
		.Height = copy->Height,
		.Depth = copy->Depth,
	};
}

/* The two contexts only say which devices: addresses do that already. */
static CUDA_MEMCPY3D from_peer(const CUDA_MEMCPY3D_PEER *copy)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = copy->srcXInBytes,
		.srcY = copy->srcY,
		.srcZ = copy->srcZ,
		.srcLOD = copy->srcLOD,
		.srcMemoryType = copy->srcMemoryType,
		.srcHost = copy->srcHost,
		.srcDevice = copy->srcDevice,
		.srcArray = copy->srcArray,
		.srcPitch = copy->srcPitch,
		.srcHeight = copy->srcHeight,
		.dstXInBytes = copy->dstXInBytes,
		.dstY = copy->dstY,
		.dstZ = copy->dstZ,
		.dstLOD = copy->dstLOD,
		.dstMemoryType = copy->dstMemoryType,
		.dstHost = copy->dstHost,
		.dstDevice = copy->dstDevice,
		.dstArray = copy->dstArray,
		.dstPitch = copy->dstPitch,
		.dstHeight = copy->dstHeight,
		.WidthInBytes = copy->WidthInBytes,
		.Height = copy->Height,
		.Depth = copy->Depth,
	};
}

static bool peers_live(const CUDA_MEMCPY3D_PEER *copy)
{
	struct sim_context *context;

	return sim_context_get(copy->srcContext, false, &context) == CUDA_SUCCESS &&
	       sim_context_get(copy->dstContext, false, &context) == CUDA_SUCCESS;
}

static bool always(const void *copy)
{
	(void)copy;
	return true;
}

#define SHAPE_NOW(symbol, form, type, convert, contexts_live)                   \
	SIM_EXPORT CUresult symbol(const type *copy)                            \
	{                                                                       \
		SIM_ENTER(symbol);                                              \
		if (!copy)                                                      \
			return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);             \
		if (!contexts_live(copy))                                       \
			return SIM_LEAVE(CUDA_ERROR_INVALID_CONTEXT);           \
		return SIM_LEAVE(sim_copy_now(convert(copy), SIM_FORM_##form)); \
	}

#define SHAPE_LATER(symbol, form, type, convert, contexts_live)                               \
	SIM_EXPORT CUresult symbol(const type *copy, CUstream stream)                         \
	{                                                                                     \
		SIM_ENTER(symbol);                                                            \
		if (!copy)                                                                    \
			return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);                           \
		if (!contexts_live(copy))                                                     \
			return SIM_LEAVE(CUDA_ERROR_INVALID_CONTEXT);                         \
		return SIM_LEAVE(sim_copy_on_stream(convert(copy), stream, SIM_FORM_##form)); \
	}

SHAPE_NOW(cuMemcpy2D, plain, CUDA_MEMCPY2D_v1, from_2d_v1, always)
SHAPE_NOW(cuMemcpy2D_v2, plain, CUDA_MEMCPY2D, from_2d, always)
SHAPE_NOW(cuMemcpy2D_v2_ptds, ptds, CUDA_MEMCPY2D, from_2d, always)
SHAPE_NOW(cuMemcpy2DUnaligned, plain, CUDA_MEMCPY2D_v1, from_2d_v1, always)
SHAPE_NOW(cuMemcpy2DUnaligned_v2, plain, CUDA_MEMCPY2D, from_2d, always)
SHAPE_NOW(cuMemcpy2DUnaligned_v2_ptds, ptds, CUDA_MEMCPY2D, from_2d, always)
SHAPE_LATER(cuMemcpy2DAsync, plain, CUDA_MEMCPY2D_v1, from_2d_v1, always)
SHAPE_LATER(cuMemcpy2DAsync_v2, plain, CUDA_MEMCPY2D, from_2d, always)
SHAPE_LATER(cuMemcpy2DAsync_v2_ptsz, ptsz, CUDA_MEMCPY2D, from_2d, always)

SHAPE_NOW(cuMemcpy3D, plain, CUDA_MEMCPY3D_v1, from_3d_v1, always)
SHAPE_NOW(cuMemcpy3D_v2, plain, CUDA_MEMCPY3D, from_3d, always)
SHAPE_NOW(cuMemcpy3D_v2_ptds, ptds, CUDA_MEMCPY3D, from_3d, always)
SHAPE_LATER(cuMemcpy3DAsync, plain, CUDA_MEMCPY3D_v1, from_3d_v1, always)
SHAPE_LATER(cuMemcpy3DAsync_v2, plain, CUDA_MEMCPY3D, from_3d, always)
SHAPE_LATER(cuMemcpy3DAsync_v2_ptsz, ptsz, CUDA_MEMCPY3D, from_3d, always)

SHAPE_NOW(cuMemcpy3DPeer, plain, CUDA_MEMCPY3D_PEER, from_peer, peers_live)
SHAPE_NOW(cuMemcpy3DPeer_ptds, ptds, CUDA_MEMCPY3D_PEER, from_peer, peers_live)
SHAPE_LATER(cuMemcpy3DPeerAsync, plain, CUDA_MEMCPY3D_PEER, from_peer, peers_live)
SHAPE_LATER(cuMemcpy3DPeerAsync_ptsz, ptsz, CUDA_MEMCPY3D_PEER, from_peer, peers_live)

/* ---- batches: in order, and nothing after the first that fails ---- */

struct batch {
	const CUdeviceptr *targets;
	const CUdeviceptr *sources;
	const size_t *sizes;
	size_t count;
	const CUmemcpyAttributes *attributes;
	const size_t *attribute_indexes;
	size_t attribute_count;
};

static bool batch_is_good(const struct batch *batch)
{
	if (!batch->targets || !batch->sources || !batch->sizes || batch->count == 0 ||
	    !batch->attributes || !batch->attribute_indexes || batch->attribute_count == 0 ||
	    batch->attribute_count > batch->count || batch->attribute_indexes[0] != 0)
		return false;
	for (size_t i = 1; i < batch->attribute_count; i++)
		if (batch->attribute_indexes[i] <= batch->attribute_indexes[i - 1] ||
		    batch->attribute_indexes[i] >= batch->count)
			return false;
	return true;
}

static CUresult batch_run(const struct batch *batch, size_t *ret_fail_index, CUstream stream,
			  enum sim_form form)
{
	CUresult result;

	if (ret_fail_index)
		*ret_fail_index = SIZE_MAX; /* nothing in particular is to blame */
	/* The default stream of all threads can't run a batch. */
	if (!batch_is_good(batch) || stream == CU_STREAM_LEGACY ||
	    (!stream && form == SIM_FORM_plain))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < batch->count; i++) {
		CUDA_MEMCPY3D copy = {
			.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			.srcDevice = batch->sources[i],
			.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			.dstDevice = batch->targets[i],
			.WidthInBytes = batch->sizes[i],
			.Height = 1,
			.Depth = 1,
		};

		result = sim_copy_on_stream(copy, stream, form);
		if (result != CUDA_SUCCESS) {
			if (ret_fail_index)
				*ret_fail_index = i;
			return result;
		}
	}
	return CUDA_SUCCESS;
}

#define BATCH_PARAMS                                                       \
	CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, \
		CUmemcpyAttributes *attrs, size_t *attrs_idxs, size_t num_attrs

#define BATCH_OF_PARAMS                                                \
	&(struct batch)                                                \
	{                                                              \
		dsts, srcs, sizes, count, attrs, attrs_idxs, num_attrs \
	}

#define BATCH_V1(symbol, form)                                                                   \
	SIM_EXPORT CUresult symbol(BATCH_PARAMS, size_t *fail_idx, CUstream stream)              \
	{                                                                                        \
		SIM_ENTER(symbol);                                                               \
		if (!fail_idx)                                                                   \
			return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);                              \
		return SIM_LEAVE(batch_run(BATCH_OF_PARAMS, fail_idx, stream, SIM_FORM_##form)); \
	}

#define BATCH_V2(symbol, form)                                                               \
	SIM_EXPORT CUresult symbol(BATCH_PARAMS, CUstream stream)                            \
	{                                                                                    \
		SIM_ENTER(symbol);                                                           \
		return SIM_LEAVE(batch_run(BATCH_OF_PARAMS, NULL, stream, SIM_FORM_##form)); \
	}

BATCH_V1(cuMemcpyBatchAsync, plain)
BATCH_V1(cuMemcpyBatchAsync_ptsz, ptsz)
BATCH_V2(cuMemcpyBatchAsync_v2, plain)
BATCH_V2(cuMemcpyBatchAsync_v2_ptsz, ptsz)

/* Elements of a copy count in the array's size of them, or in bytes without an array. */
static size_t operand_element_bytes(const CUmemcpy3DOperand *operand)
{
	struct sim_array *array;

	if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return 1;
	array = sim_array_get(operand->op.array.array);
	return array ? array->shape.element_bytes : 1;
}

static CUDA_MEMCPY3D from_batch_op(const CUDA_MEMCPY3D_BATCH_OP *op)
{
	size_t source_element = operand_element_bytes(&op->src);
	size_t target_element = operand_element_bytes(&op->dst);
	size_t element = source_element > target_element ? source_element : target_element;
	CUDA_MEMCPY3D copy = {
		.WidthInBytes = op->extent.width * element,
		.Height = op->extent.height,
		.Depth = op->extent.depth,
	};

	if (op->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
		copy.srcArray = op->src.op.array.array;
		copy.srcXInBytes = op->src.op.array.offset.x * element;
		copy.srcY = op->src.op.array.offset.y;
		copy.srcZ = op->src.op.array.offset.z;
	} else {
		copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
		copy.srcDevice = op->src.op.ptr.ptr;
		copy.srcPitch =
			(op->src.op.ptr.rowLength ? op->src.op.ptr.rowLength : op->extent.width) *
			element;
		copy.srcHeight =
			op->src.op.ptr.layerHeight ? op->src.op.ptr.layerHeight : op->extent.height;
	}
	if (op->dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
		copy.dstArray = op->dst.op.array.array;
		copy.dstXInBytes = op->dst.op.array.offset.x * element;
		copy.dstY = op->dst.op.array.offset.y;
		copy.dstZ = op->dst.op.array.offset.z;
	} else {
		copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
		copy.dstDevice = op->dst.op.ptr.ptr;
		copy.dstPitch =
			(op->dst.op.ptr.rowLength ? op->dst.op.ptr.rowLength : op->extent.width) *
			element;
		copy.dstHeight =
			op->dst.op.ptr.layerHeight ? op->dst.op.ptr.layerHeight : op->extent.height;
	}
	return copy;
}

static CUresult batch_3d_run(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count,
			     size_t *ret_fail_index, unsigned long long flags, CUstream stream,
			     enum sim_form form)
{
	CUresult result;

	if (ret_fail_index)
		*ret_fail_index = SIZE_MAX;
	if (!ops || count == 0 || flags != 0 || stream == CU_STREAM_LEGACY ||
	    (!stream && form == SIM_FORM_plain))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		result = sim_copy_on_stream(from_batch_op(&ops[i]), stream, form);
		if (result != CUDA_SUCCESS) {
			if (ret_fail_index)
				*ret_fail_index = i;
			return result;
		}
	}
	return CUDA_SUCCESS;
}

#define BATCH_3D_V1(symbol, form)                                                                  \
	SIM_EXPORT CUresult symbol(size_t num_ops, CUDA_MEMCPY3D_BATCH_OP *op_list,                \
				   size_t *fail_idx, unsigned long long flags, CUstream stream)    \
	{                                                                                          \
		SIM_ENTER(symbol);                                                                 \
		if (!fail_idx)                                                                     \
			return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);                                \
		return SIM_LEAVE(                                                                  \
			batch_3d_run(op_list, num_ops, fail_idx, flags, stream, SIM_FORM_##form)); \
	}

#define BATCH_3D_V2(symbol, form)                                                              \
	SIM_EXPORT CUresult symbol(size_t num_ops, CUDA_MEMCPY3D_BATCH_OP *op_list,            \
				   unsigned long long flags, CUstream stream)                  \
	{                                                                                      \
		SIM_ENTER(symbol);                                                             \
		return SIM_LEAVE(                                                              \
			batch_3d_run(op_list, num_ops, NULL, flags, stream, SIM_FORM_##form)); \
	}

BATCH_3D_V1(cuMemcpy3DBatchAsync, plain)
BATCH_3D_V1(cuMemcpy3DBatchAsync_ptsz, ptsz)
BATCH_3D_V2(cuMemcpy3DBatchAsync_v2, plain)
BATCH_3D_V2(cuMemcpy3DBatchAsync_v2_ptsz, ptsz)
