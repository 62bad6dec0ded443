/* SPDX-License-Identifier: Apache-2.0
 *
 * cuMemset*: one table of the forms.
 */
#include "sim/cuda/copy_run.h"

/* A row is `count` elements. */
static CUDA_MEMSET_NODE_PARAMS row(CUdeviceptr dst, unsigned value, unsigned element_bytes,
				   size_t count)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = dst,
		.value = value,
		.elementSize = element_bytes,
		.width = count,
		.height = 1,
	};
}

static CUDA_MEMSET_NODE_PARAMS rows(CUdeviceptr dst, size_t pitch, unsigned value,
				    unsigned element_bytes, size_t width, size_t height)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = dst,
		.pitch = pitch,
		.value = value,
		.elementSize = element_bytes,
		.width = width,
		.height = height,
	};
}

#define FILL_NOW(symbol, form, fill, ...)                              \
	SIM_EXPORT CUresult symbol(__VA_ARGS__)                        \
	{                                                              \
		SIM_ENTER(symbol);                                     \
		return SIM_LEAVE(sim_fill_now(fill, SIM_FORM_##form)); \
	}

#define FILL_LATER(symbol, form, fill, ...)                                          \
	SIM_EXPORT CUresult symbol(__VA_ARGS__, CUstream stream)                     \
	{                                                                            \
		SIM_ENTER(symbol);                                                   \
		return SIM_LEAVE(sim_fill_on_stream(fill, stream, SIM_FORM_##form)); \
	}

/* The forms of one element type: 32-bit, 64-bit, with either default stream, now and on a stream. */
#define FILLS(bits, type)                                                                          \
	FILL_NOW(cuMemsetD##bits, plain, row(dst, value, sizeof(type), count), CUdeviceptr_v1 dst, \
		 type value, unsigned int count)                                                   \
	FILL_NOW(cuMemsetD##bits##_v2, plain, row(dst, value, sizeof(type), count),                \
		 CUdeviceptr dst, type value, size_t count)                                        \
	FILL_NOW(cuMemsetD##bits##_v2_ptds, ptds, row(dst, value, sizeof(type), count),            \
		 CUdeviceptr dst, type value, size_t count)                                        \
	FILL_LATER(cuMemsetD##bits##Async, plain, row(dst, value, sizeof(type), count),            \
		   CUdeviceptr dst, type value, size_t count)                                      \
	FILL_LATER(cuMemsetD##bits##Async_ptsz, ptsz, row(dst, value, sizeof(type), count),        \
		   CUdeviceptr dst, type value, size_t count)                                      \
	FILL_NOW(cuMemsetD2D##bits, plain, rows(dst, pitch, value, sizeof(type), width, height),   \
		 CUdeviceptr_v1 dst, unsigned int pitch, type value, unsigned int width,           \
		 unsigned int height)                                                              \
	FILL_NOW(cuMemsetD2D##bits##_v2, plain,                                                    \
		 rows(dst, pitch, value, sizeof(type), width, height), CUdeviceptr dst,            \
		 size_t pitch, type value, size_t width, size_t height)                            \
	FILL_NOW(cuMemsetD2D##bits##_v2_ptds, ptds,                                                \
		 rows(dst, pitch, value, sizeof(type), width, height), CUdeviceptr dst,            \
		 size_t pitch, type value, size_t width, size_t height)                            \
	FILL_LATER(cuMemsetD2D##bits##Async, plain,                                                \
		   rows(dst, pitch, value, sizeof(type), width, height), CUdeviceptr dst,          \
		   size_t pitch, type value, size_t width, size_t height)                          \
	FILL_LATER(cuMemsetD2D##bits##Async_ptsz, ptsz,                                            \
		   rows(dst, pitch, value, sizeof(type), width, height), CUdeviceptr dst,          \
		   size_t pitch, type value, size_t width, size_t height)

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)
