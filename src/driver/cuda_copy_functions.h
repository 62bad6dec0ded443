/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that copy and fill. Include driver/cuda_functions.h, not this.
 */
#ifndef BERTH_DRIVER_CUDA_COPY_FUNCTIONS_H
#define BERTH_DRIVER_CUDA_COPY_FUNCTIONS_H

#include "driver/cuda_types.h"

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1 *copy);
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *copy, CUstream stream);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream);
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *copy);
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1 *copy);
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy);
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *copy);
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *copy, CUstream stream);
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream);
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *copy, CUstream stream);
CUresult cuMemcpy3DBatchAsync(size_t num_ops, CUDA_MEMCPY3D_BATCH_OP *op_list, size_t *fail_idx,
			      unsigned long long flags, CUstream stream);
CUresult cuMemcpy3DBatchAsync_v2(size_t num_ops, CUDA_MEMCPY3D_BATCH_OP *op_list,
				 unsigned long long flags, CUstream stream);
CUresult cuMemcpy3DBatchAsync_ptsz(size_t num_ops, CUDA_MEMCPY3D_BATCH_OP *op_list,
				   size_t *fail_idx, unsigned long long flags, CUstream stream);
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t num_ops, CUDA_MEMCPY3D_BATCH_OP *op_list,
				      unsigned long long flags, CUstream stream);
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy);
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *copy);
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream);
CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *copy, CUstream stream);
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
CUresult cuMemcpyAtoA(CUarray dst_array, unsigned int dst_offset, CUarray src_array,
		      unsigned int src_offset, unsigned int bytes);
CUresult cuMemcpyAtoA_v2(CUarray dst_array, size_t dst_offset, CUarray src_array, size_t src_offset,
			 size_t bytes);
CUresult cuMemcpyAtoA_v2_ptds(CUarray dst_array, size_t dst_offset, CUarray src_array,
			      size_t src_offset, size_t bytes);
CUresult cuMemcpyAtoD(CUdeviceptr_v1 dst_device, CUarray src_array, unsigned int src_offset,
		      unsigned int bytes);
CUresult cuMemcpyAtoD_v2(CUdeviceptr dst_device, CUarray src_array, size_t src_offset,
			 size_t bytes);
CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr dst_device, CUarray src_array, size_t src_offset,
			      size_t bytes);
CUresult cuMemcpyAtoH(void *dst_host, CUarray src_array, unsigned int src_offset,
		      unsigned int bytes);
CUresult cuMemcpyAtoH_v2(void *dst_host, CUarray src_array, size_t src_offset, size_t bytes);
CUresult cuMemcpyAtoH_v2_ptds(void *dst_host, CUarray src_array, size_t src_offset, size_t bytes);
CUresult cuMemcpyAtoHAsync(void *dst_host, CUarray src_array, unsigned int src_offset,
			   unsigned int bytes, CUstream stream);
CUresult cuMemcpyAtoHAsync_v2(void *dst_host, CUarray src_array, size_t src_offset, size_t bytes,
			      CUstream stream);
CUresult cuMemcpyAtoHAsync_v2_ptsz(void *dst_host, CUarray src_array, size_t src_offset,
				   size_t bytes, CUstream stream);
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			    CUmemcpyAttributes *attrs, size_t *attrs_idxs, size_t num_attrs,
			    size_t *fail_idx, CUstream stream);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			       CUmemcpyAttributes *attrs, size_t *attrs_idxs, size_t num_attrs,
			       CUstream stream);
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
				 CUmemcpyAttributes *attrs, size_t *attrs_idxs, size_t num_attrs,
				 size_t *fail_idx, CUstream stream);
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
				    size_t count, CUmemcpyAttributes *attrs, size_t *attrs_idxs,
				    size_t num_attrs, CUstream stream);
CUresult cuMemcpyDtoA(CUarray dst_array, unsigned int dst_offset, CUdeviceptr_v1 src_device,
		      unsigned int bytes);
CUresult cuMemcpyDtoA_v2(CUarray dst_array, size_t dst_offset, CUdeviceptr src_device,
			 size_t bytes);
CUresult cuMemcpyDtoA_v2_ptds(CUarray dst_array, size_t dst_offset, CUdeviceptr src_device,
			      size_t bytes);
CUresult cuMemcpyDtoD(CUdeviceptr_v1 dst_device, CUdeviceptr_v1 src_device, unsigned int bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr dst_device, CUdeviceptr src_device, size_t bytes);
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dst_device, CUdeviceptr src_device, size_t bytes);
CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 dst_device, CUdeviceptr_v1 src_device, unsigned int bytes,
			   CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst_device, CUdeviceptr src_device, size_t bytes,
			      CUstream stream);
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dst_device, CUdeviceptr src_device, size_t bytes,
				   CUstream stream);
CUresult cuMemcpyDtoH(void *dst_host, CUdeviceptr_v1 src_device, unsigned int bytes);
CUresult cuMemcpyDtoH_v2(void *dst_host, CUdeviceptr src_device, size_t bytes);
CUresult cuMemcpyDtoH_v2_ptds(void *dst_host, CUdeviceptr src_device, size_t bytes);
CUresult cuMemcpyDtoHAsync(void *dst_host, CUdeviceptr_v1 src_device, unsigned int bytes,
			   CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *dst_host, CUdeviceptr src_device, size_t bytes,
			      CUstream stream);
CUresult cuMemcpyDtoHAsync_v2_ptsz(void *dst_host, CUdeviceptr src_device, size_t bytes,
				   CUstream stream);
CUresult cuMemcpyHtoA(CUarray dst_array, unsigned int dst_offset, const void *src_host,
		      unsigned int bytes);
CUresult cuMemcpyHtoA_v2(CUarray dst_array, size_t dst_offset, const void *src_host, size_t bytes);
CUresult cuMemcpyHtoA_v2_ptds(CUarray dst_array, size_t dst_offset, const void *src_host,
			      size_t bytes);
CUresult cuMemcpyHtoAAsync(CUarray dst_array, unsigned int dst_offset, const void *src_host,
			   unsigned int bytes, CUstream stream);
CUresult cuMemcpyHtoAAsync_v2(CUarray dst_array, size_t dst_offset, const void *src_host,
			      size_t bytes, CUstream stream);
CUresult cuMemcpyHtoAAsync_v2_ptsz(CUarray dst_array, size_t dst_offset, const void *src_host,
				   size_t bytes, CUstream stream);
CUresult cuMemcpyHtoD(CUdeviceptr_v1 dst_device, const void *src_host, unsigned int bytes);
CUresult cuMemcpyHtoD_v2(CUdeviceptr dst_device, const void *src_host, size_t bytes);
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dst_device, const void *src_host, size_t bytes);
CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 dst_device, const void *src_host, unsigned int bytes,
			   CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst_device, const void *src_host, size_t bytes,
			      CUstream stream);
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dst_device, const void *src_host, size_t bytes,
				   CUstream stream);
CUresult cuMemcpyPeer(CUdeviceptr dst_device, CUcontext dst_context, CUdeviceptr src_device,
		      CUcontext src_context, size_t bytes);
CUresult cuMemcpyPeer_ptds(CUdeviceptr dst_device, CUcontext dst_context, CUdeviceptr src_device,
			   CUcontext src_context, size_t bytes);
CUresult cuMemcpyPeerAsync(CUdeviceptr dst_device, CUcontext dst_context, CUdeviceptr src_device,
			   CUcontext src_context, size_t bytes, CUstream stream);
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr dst_device, CUcontext dst_context,
				CUdeviceptr src_device, CUcontext src_context, size_t bytes,
				CUstream stream);
CUresult cuMemsetD16(CUdeviceptr_v1 dst_device, unsigned short value, unsigned int count);
CUresult cuMemsetD16_v2(CUdeviceptr dst_device, unsigned short value, size_t count);
CUresult cuMemsetD16_v2_ptds(CUdeviceptr dst_device, unsigned short value, size_t count);
CUresult cuMemsetD16Async(CUdeviceptr dst_device, unsigned short value, size_t count,
			  CUstream stream);
CUresult cuMemsetD16Async_ptsz(CUdeviceptr dst_device, unsigned short value, size_t count,
			       CUstream stream);
CUresult cuMemsetD2D16(CUdeviceptr_v1 dst_device, unsigned int dst_pitch, unsigned short value,
		       unsigned int width, unsigned int height);
CUresult cuMemsetD2D16_v2(CUdeviceptr dst_device, size_t dst_pitch, unsigned short value,
			  size_t width, size_t height);
CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr dst_device, size_t dst_pitch, unsigned short value,
			       size_t width, size_t height);
CUresult cuMemsetD2D16Async(CUdeviceptr dst_device, size_t dst_pitch, unsigned short value,
			    size_t width, size_t height, CUstream stream);
CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr dst_device, size_t dst_pitch, unsigned short value,
				 size_t width, size_t height, CUstream stream);
CUresult cuMemsetD2D32(CUdeviceptr_v1 dst_device, unsigned int dst_pitch, unsigned int value,
		       unsigned int width, unsigned int height);
CUresult cuMemsetD2D32_v2(CUdeviceptr dst_device, size_t dst_pitch, unsigned int value,
			  size_t width, size_t height);
CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr dst_device, size_t dst_pitch, unsigned int value,
			       size_t width, size_t height);
CUresult cuMemsetD2D32Async(CUdeviceptr dst_device, size_t dst_pitch, unsigned int value,
			    size_t width, size_t height, CUstream stream);
CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr dst_device, size_t dst_pitch, unsigned int value,
				 size_t width, size_t height, CUstream stream);
CUresult cuMemsetD2D8(CUdeviceptr_v1 dst_device, unsigned int dst_pitch, unsigned char value,
		      unsigned int width, unsigned int height);
CUresult cuMemsetD2D8_v2(CUdeviceptr dst_device, size_t dst_pitch, unsigned char value,
			 size_t width, size_t height);
CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr dst_device, size_t dst_pitch, unsigned char value,
			      size_t width, size_t height);
CUresult cuMemsetD2D8Async(CUdeviceptr dst_device, size_t dst_pitch, unsigned char value,
			   size_t width, size_t height, CUstream stream);
CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr dst_device, size_t dst_pitch, unsigned char value,
				size_t width, size_t height, CUstream stream);
CUresult cuMemsetD32(CUdeviceptr_v1 dst_device, unsigned int value, unsigned int count);
CUresult cuMemsetD32_v2(CUdeviceptr dst_device, unsigned int value, size_t count);
CUresult cuMemsetD32_v2_ptds(CUdeviceptr dst_device, unsigned int value, size_t count);
CUresult cuMemsetD32Async(CUdeviceptr dst_device, unsigned int value, size_t count,
			  CUstream stream);
CUresult cuMemsetD32Async_ptsz(CUdeviceptr dst_device, unsigned int value, size_t count,
			       CUstream stream);
CUresult cuMemsetD8(CUdeviceptr_v1 dst_device, unsigned char value, unsigned int count);
CUresult cuMemsetD8_v2(CUdeviceptr dst_device, unsigned char value, size_t count);
CUresult cuMemsetD8_v2_ptds(CUdeviceptr dst_device, unsigned char value, size_t count);
CUresult cuMemsetD8Async(CUdeviceptr dst_device, unsigned char value, size_t count,
			 CUstream stream);
CUresult cuMemsetD8Async_ptsz(CUdeviceptr dst_device, unsigned char value, size_t count,
			      CUstream stream);

#endif
