/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions for memory, arrays, pools, mappings. Include driver/cuda_functions.h, not this.
 */
#ifndef BERTH_DRIVER_CUDA_MEMORY_FUNCTIONS_H
#define BERTH_DRIVER_CUDA_MEMORY_FUNCTIONS_H

#include "driver/cuda_types.h"

CUresult cuArray3DCreate(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc);
CUresult cuArray3DCreate_v2(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *desc);
CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *desc, CUarray array);
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array);
CUresult cuArrayCreate(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR_v1 *desc);
CUresult cuArrayCreate_v2(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *desc);
CUresult cuArrayDestroy(CUarray array);
CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *desc, CUarray array);
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array);
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memory_requirements,
				      CUarray array, CUdevice device);
CUresult cuArrayGetPlane(CUarray *plane_array, CUarray array, unsigned int plane_idx);
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparse_properties, CUarray array);
CUresult cuDestroyExternalMemory(CUexternalMemory ext_mem);
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *dev_ptr, CUexternalMemory ext_mem,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer_desc);
CUresult cuExternalMemoryGetMappedMipmappedArray(
	CUmipmappedArray *mipmap, CUexternalMemory ext_mem,
	const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmap_desc);
CUresult cuImportExternalMemory(CUexternalMemory *ext_mem_out,
				const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *mem_handle_desc);
CUresult cuIpcCloseMemHandle(CUdeviceptr ptr);
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr);
CUresult cuIpcOpenMemHandle(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags);
CUresult cuMemAddressFree(CUdeviceptr ptr, size_t bytes);
CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t bytes, size_t alignment, CUdeviceptr addr,
			     unsigned long long flags);
CUresult cuMemAdvise(CUdeviceptr dev_ptr, size_t count, CUmem_advise advice, CUdevice device);
CUresult cuMemAdvise_v2(CUdeviceptr dev_ptr, size_t count, CUmem_advise advice,
			CUmemLocation location);
CUresult cuMemAlloc(CUdeviceptr_v1 *ptr, unsigned int bytes);
CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes);
CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream);
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUstream stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
				 CUstream stream);
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
				      CUstream stream);
CUresult cuMemAllocHost(void **ptr, unsigned int bytes);
CUresult cuMemAllocHost_v2(void **ptr, size_t bytes);
CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned int flags);
CUresult cuMemAllocPitch(CUdeviceptr_v1 *ptr, unsigned int *pitch, unsigned int width_bytes,
			 unsigned int height, unsigned int element_bytes);
CUresult cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *pitch, size_t width_bytes, size_t height,
			    unsigned int element_bytes);
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags);
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
					   CUmemLocation *prefetch_locs, size_t *prefetch_loc_idxs,
					   size_t num_prefetch_locs, unsigned long long flags,
					   CUstream stream);
CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count,
						CUmemLocation *prefetch_locs,
						size_t *prefetch_loc_idxs, size_t num_prefetch_locs,
						unsigned long long flags, CUstream stream);
CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
				unsigned long long flags, CUstream stream);
CUresult cuMemDiscardBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count,
				     unsigned long long flags, CUstream stream);
CUresult cuMemExportToShareableHandle(void *shareable_handle, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType handle_type,
				      unsigned long long flags);
CUresult cuMemFree(CUdeviceptr_v1 ptr);
CUresult cuMemFree_v2(CUdeviceptr ptr);
CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream);
CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream);
CUresult cuMemFreeHost(void *p);
CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr);
CUresult cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 ptr);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr ptr);
CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option);
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle);
CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
				CUmemAllocationType type);
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t bytes,
				       CUmemRangeHandleType handle_type, unsigned long long flags);
CUresult cuMemGetInfo(unsigned int *free, unsigned int *total);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type);
CUresult cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags);
CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *ptr, void *p, unsigned int flags);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ptr, void *p, unsigned int flags);
CUresult cuMemHostGetFlags(unsigned int *flags, void *p);
CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags);
CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags);
CUresult cuMemHostUnregister(void *p);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
					CUmemAllocationHandleType sh_handle_type);
CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags);
CUresult cuMemMapArrayAsync(CUarrayMapInfo *map_info_list, unsigned int count, CUstream stream);
CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *map_info_list, unsigned int count,
				 CUstream stream);
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *pool_props);
CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *share_data_out, CUdeviceptr ptr);
CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
					  CUmemAllocationHandleType handle_type,
					  unsigned long long flags);
CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool mem_pool,
			    CUmemLocation *location);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value);
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
					    CUmemAllocationHandleType handle_type,
					    unsigned long long flags);
CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
				CUmemPoolPtrExportData *share_data);
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t min_bytes_to_keep);
CUresult cuMemPrefetchAsync(CUdeviceptr dev_ptr, size_t count, CUdevice dst_device,
			    CUstream stream);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr dev_ptr, size_t count, CUmemLocation location,
			       unsigned int flags, CUstream stream);
CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr dev_ptr, size_t count, CUdevice dst_device,
				 CUstream stream);
CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr dev_ptr, size_t count, CUmemLocation location,
				    unsigned int flags, CUstream stream);
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
				 CUmemLocation *prefetch_locs, size_t *prefetch_loc_idxs,
				 size_t num_prefetch_locs, unsigned long long flags,
				 CUstream stream);
CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count,
				      CUmemLocation *prefetch_locs, size_t *prefetch_loc_idxs,
				      size_t num_prefetch_locs, unsigned long long flags,
				      CUstream stream);
CUresult cuMemRangeGetAttribute(void *data, size_t data_size, CUmem_range_attribute attribute,
				CUdeviceptr dev_ptr, size_t count);
CUresult cuMemRangeGetAttributes(void **data, size_t *data_sizes, CUmem_range_attribute *attributes,
				 size_t num_attributes, CUdeviceptr dev_ptr, size_t count);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr);
CUresult cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc, size_t count);
CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool);
CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes);
CUresult cuMipmappedArrayCreate(CUmipmappedArray *handle,
				const CUDA_ARRAY3D_DESCRIPTOR *mipmapped_array_desc,
				unsigned int num_mipmap_levels);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmapped_array);
CUresult cuMipmappedArrayGetLevel(CUarray *level_array, CUmipmappedArray mipmapped_array,
				  unsigned int level);
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memory_requirements,
					       CUmipmappedArray mipmap, CUdevice device);
CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparse_properties,
					     CUmipmappedArray mipmap);
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mc_handle, CUdevice device);
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mc_handle, size_t mc_offset,
			     CUdeviceptr memptr, size_t bytes, unsigned long long flags);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mc_handle, size_t mc_offset,
			    CUmemGenericAllocationHandle mem_handle, size_t mem_offset,
			    size_t bytes, unsigned long long flags);
CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mc_handle,
			   const CUmulticastObjectProp *prop);
CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
				   CUmulticastGranularity_flags option);
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mc_handle, CUdevice device,
			   size_t mc_offset, size_t bytes);
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
CUresult cuPointerGetAttributes(unsigned int num_attributes, CUpointer_attribute *attributes,
				void **data, CUdeviceptr ptr);
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr);

#endif
