/* SPDX-License-Identifier: Apache-2.0
 *
 * The one-dimensional cuMemcpy*: 32-bit and 64-bit forms, of either default stream, now or on a
 * stream. Each export is one line; what it copies is told by the function it names.
 */
#include "sim/cuda/context.h"
#include "sim/cuda/copy_run.h"

#define COPY_NOW(symbol, form, copy, ...)                              \
	SIM_EXPORT CUresult symbol(__VA_ARGS__)                        \
	{                                                              \
		SIM_ENTER(symbol);                                     \
		return SIM_LEAVE(sim_copy_now(copy, SIM_FORM_##form)); \
	}

#define COPY_LATER(symbol, form, copy, ...)                                          \
	SIM_EXPORT CUresult symbol(__VA_ARGS__, CUstream stream)                     \
	{                                                                            \
		SIM_ENTER(symbol);                                                   \
		return SIM_LEAVE(sim_copy_on_stream(copy, stream, SIM_FORM_##form)); \
	}

static CUDA_MEMCPY3D row(CUmemorytype to, CUmemorytype from, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.dstMemoryType = to,
		.srcMemoryType = from,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

static CUDA_MEMCPY3D unified(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	CUDA_MEMCPY3D copy = row(CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED, bytes);

	copy.dstDevice = to;
	copy.srcDevice = from;
	return copy;
}

static CUDA_MEMCPY3D host_to_device(CUdeviceptr to, const void *from, size_t bytes)
{
	CUDA_MEMCPY3D copy = row(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST, bytes);

	copy.dstDevice = to;
	copy.srcHost = from;
	return copy;
}

static CUDA_MEMCPY3D device_to_host(void *to, CUdeviceptr from, size_t bytes)
{
	CUDA_MEMCPY3D copy = row(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, bytes);

	copy.dstHost = to;
	copy.srcDevice = from;
	return copy;
}

static CUDA_MEMCPY3D device_to_device(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	CUDA_MEMCPY3D copy = row(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE, bytes);

	copy.dstDevice = to;
	copy.srcDevice = from;
	return copy;
}

/* ---- between host and device ---- */

#define UNIFIED unified(dst, src, bytes)
#define TO_DEV  host_to_device(dst, src, bytes)
#define TO_HOST device_to_host(dst, src, bytes)
#define DEV_DEV device_to_device(dst, src, bytes)
#define P64     CUdeviceptr dst, CUdeviceptr src, size_t bytes
#define P32     CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int bytes
#define H2D64   CUdeviceptr dst, const void *src, size_t bytes
#define H2D32   CUdeviceptr_v1 dst, const void *src, unsigned int bytes
#define D2H64   void *dst, CUdeviceptr src, size_t bytes
#define D2H32   void *dst, CUdeviceptr_v1 src, unsigned int bytes

COPY_NOW(cuMemcpy, plain, UNIFIED, P64)
COPY_NOW(cuMemcpy_ptds, ptds, UNIFIED, P64)
COPY_LATER(cuMemcpyAsync, plain, UNIFIED, P64)
COPY_LATER(cuMemcpyAsync_ptsz, ptsz, UNIFIED, P64)

COPY_NOW(cuMemcpyHtoD, plain, TO_DEV, H2D32)
COPY_NOW(cuMemcpyHtoD_v2, plain, TO_DEV, H2D64)
COPY_NOW(cuMemcpyHtoD_v2_ptds, ptds, TO_DEV, H2D64)
COPY_LATER(cuMemcpyHtoDAsync, plain, TO_DEV, H2D32)
COPY_LATER(cuMemcpyHtoDAsync_v2, plain, TO_DEV, H2D64)
COPY_LATER(cuMemcpyHtoDAsync_v2_ptsz, ptsz, TO_DEV, H2D64)

COPY_NOW(cuMemcpyDtoH, plain, TO_HOST, D2H32)
COPY_NOW(cuMemcpyDtoH_v2, plain, TO_HOST, D2H64)
COPY_NOW(cuMemcpyDtoH_v2_ptds, ptds, TO_HOST, D2H64)
COPY_LATER(cuMemcpyDtoHAsync, plain, TO_HOST, D2H32)
COPY_LATER(cuMemcpyDtoHAsync_v2, plain, TO_HOST, D2H64)
COPY_LATER(cuMemcpyDtoHAsync_v2_ptsz, ptsz, TO_HOST, D2H64)

COPY_NOW(cuMemcpyDtoD, plain, DEV_DEV, P32)
COPY_NOW(cuMemcpyDtoD_v2, plain, DEV_DEV, P64)
COPY_NOW(cuMemcpyDtoD_v2_ptds, ptds, DEV_DEV, P64)
COPY_LATER(cuMemcpyDtoDAsync, plain, DEV_DEV, P32)
COPY_LATER(cuMemcpyDtoDAsync_v2, plain, DEV_DEV, P64)
COPY_LATER(cuMemcpyDtoDAsync_v2_ptsz, ptsz, DEV_DEV, P64)

/* ---- arrays: the offset counts bytes within the first row ---- */

static CUDA_MEMCPY3D array_to_array(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
				    size_t bytes)
{
	CUDA_MEMCPY3D copy = row(CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_ARRAY, bytes);

	copy.dstArray = to;
	copy.dstXInBytes = to_offset;
	copy.srcArray = from;
	copy.srcXInBytes = from_offset;
	return copy;
}

static CUDA_MEMCPY3D array_to_device(CUdeviceptr to, CUarray from, size_t offset, size_t bytes)
{
	CUDA_MEMCPY3D copy = row(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY, bytes);

	copy.dstDevice = to;
	copy.srcArray = from;
	copy.srcXInBytes = offset;
	return copy;
}

static CUDA_MEMCPY3D device_to_array(CUarray to, size_t offset, CUdeviceptr from, size_t bytes)
{
	CUDA_MEMCPY3D copy = row(CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_DEVICE, bytes);

	copy.dstArray = to;
	copy.dstXInBytes = offset;
	copy.srcDevice = from;
	return copy;
}

static CUDA_MEMCPY3D array_to_host(void *to, CUarray from, size_t offset, size_t bytes)
{
	CUDA_MEMCPY3D copy = row(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_ARRAY, bytes);

	copy.dstHost = to;
	copy.srcArray = from;
	copy.srcXInBytes = offset;
	return copy;
}

static CUDA_MEMCPY3D host_to_array(CUarray to, size_t offset, const void *from, size_t bytes)
{
	CUDA_MEMCPY3D copy = row(CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_HOST, bytes);

	copy.dstArray = to;
	copy.dstXInBytes = offset;
	copy.srcHost = from;
	return copy;
}

#define ARR_ARR  array_to_array(dst, dst_offset, src, src_offset, bytes)
#define ARR_DEV  array_to_device(dst, src, offset, bytes)
#define DEV_ARR  device_to_array(dst, offset, src, bytes)
#define ARR_HOST array_to_host(dst, src, offset, bytes)
#define HOST_ARR host_to_array(dst, offset, src, bytes)
#define A2A64    CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t bytes
#define A2A32                                                                       \
	CUarray dst, unsigned int dst_offset, CUarray src, unsigned int src_offset, \
		unsigned int bytes
#define A2D64 CUdeviceptr dst, CUarray src, size_t offset, size_t bytes
#define A2D32 CUdeviceptr_v1 dst, CUarray src, unsigned int offset, unsigned int bytes
#define D2A64 CUarray dst, size_t offset, CUdeviceptr src, size_t bytes
#define D2A32 CUarray dst, unsigned int offset, CUdeviceptr_v1 src, unsigned int bytes
#define A2H64 void *dst, CUarray src, size_t offset, size_t bytes
#define A2H32 void *dst, CUarray src, unsigned int offset, unsigned int bytes
#define H2A64 CUarray dst, size_t offset, const void *src, size_t bytes
#define H2A32 CUarray dst, unsigned int offset, const void *src, unsigned int bytes

COPY_NOW(cuMemcpyAtoA, plain, ARR_ARR, A2A32)
COPY_NOW(cuMemcpyAtoA_v2, plain, ARR_ARR, A2A64)
COPY_NOW(cuMemcpyAtoA_v2_ptds, ptds, ARR_ARR, A2A64)
COPY_NOW(cuMemcpyAtoD, plain, ARR_DEV, A2D32)
COPY_NOW(cuMemcpyAtoD_v2, plain, ARR_DEV, A2D64)
COPY_NOW(cuMemcpyAtoD_v2_ptds, ptds, ARR_DEV, A2D64)
COPY_NOW(cuMemcpyDtoA, plain, DEV_ARR, D2A32)
COPY_NOW(cuMemcpyDtoA_v2, plain, DEV_ARR, D2A64)
COPY_NOW(cuMemcpyDtoA_v2_ptds, ptds, DEV_ARR, D2A64)
COPY_NOW(cuMemcpyAtoH, plain, ARR_HOST, A2H32)
COPY_NOW(cuMemcpyAtoH_v2, plain, ARR_HOST, A2H64)
COPY_NOW(cuMemcpyAtoH_v2_ptds, ptds, ARR_HOST, A2H64)
COPY_LATER(cuMemcpyAtoHAsync, plain, ARR_HOST, A2H32)
COPY_LATER(cuMemcpyAtoHAsync_v2, plain, ARR_HOST, A2H64)
COPY_LATER(cuMemcpyAtoHAsync_v2_ptsz, ptsz, ARR_HOST, A2H64)
COPY_NOW(cuMemcpyHtoA, plain, HOST_ARR, H2A32)
COPY_NOW(cuMemcpyHtoA_v2, plain, HOST_ARR, H2A64)
COPY_NOW(cuMemcpyHtoA_v2_ptds, ptds, HOST_ARR, H2A64)
COPY_LATER(cuMemcpyHtoAAsync, plain, HOST_ARR, H2A32)
COPY_LATER(cuMemcpyHtoAAsync_v2, plain, HOST_ARR, H2A64)
COPY_LATER(cuMemcpyHtoAAsync_v2_ptsz, ptsz, HOST_ARR, H2A64)

/* ---- between devices ---- */

/* Both contexts must live; the addresses say the rest. */
static CUresult peer_check(CUcontext to, CUcontext from)
{
	struct sim_context *context;

	if (sim_context_get(to, false, &context) != CUDA_SUCCESS ||
	    sim_context_get(from, false, &context) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	return CUDA_SUCCESS;
}

#define PEER_NOW(symbol, form)                                                              \
	SIM_EXPORT CUresult symbol(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, \
				   CUcontext src_context, size_t bytes)                     \
	{                                                                                   \
		CUresult result;                                                            \
                                                                                            \
		SIM_ENTER(symbol);                                                          \
		result = peer_check(dst_context, src_context);                              \
		if (result == CUDA_SUCCESS)                                                 \
			result = sim_copy_now(DEV_DEV, SIM_FORM_##form);                    \
		return SIM_LEAVE(result);                                                   \
	}

#define PEER_LATER(symbol, form)                                                            \
	SIM_EXPORT CUresult symbol(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, \
				   CUcontext src_context, size_t bytes, CUstream stream)    \
	{                                                                                   \
		CUresult result;                                                            \
                                                                                            \
		SIM_ENTER(symbol);                                                          \
		result = peer_check(dst_context, src_context);                              \
		if (result == CUDA_SUCCESS)                                                 \
			result = sim_copy_on_stream(DEV_DEV, stream, SIM_FORM_##form);      \
		return SIM_LEAVE(result);                                                   \
	}

PEER_NOW(cuMemcpyPeer, plain)
PEER_NOW(cuMemcpyPeer_ptds, ptds)
PEER_LATER(cuMemcpyPeerAsync, plain)
PEER_LATER(cuMemcpyPeerAsync_ptsz, ptsz)
