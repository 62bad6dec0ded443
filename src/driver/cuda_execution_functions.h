/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions for streams, events, code and launches. Include driver/cuda_functions.h, not this.
 */
#ifndef BERTH_DRIVER_CUDA_EXECUTION_FUNCTIONS_H
#define BERTH_DRIVER_CUDA_EXECUTION_FUNCTIONS_H

#include "driver/cuda_types.h"

CUresult cuDestroyExternalSemaphore(CUexternalSemaphore ext_sem);
CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventDestroy(CUevent event);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end);
CUresult cuEventQuery(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream);
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags);
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags);
CUresult cuEventSynchronize(CUevent event);
CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction function);
CUresult cuFuncGetModule(CUmodule *hmod, CUfunction function);
CUresult cuFuncGetName(const char **name, CUfunction function);
CUresult cuFuncGetParamInfo(CUfunction function, size_t param_index, size_t *param_offset,
			    size_t *param_size);
CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function);
CUresult cuFuncLoad(CUfunction function);
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attrib, int value);
CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z);
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config);
CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config);
CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes);
CUresult cuImportExternalSemaphore(CUexternalSemaphore *ext_sem_out,
				   const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *sem_handle_desc);
CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event);
CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle);
CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
			      CUdevice device);
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel);
CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel);
CUresult cuKernelGetName(const char **name, CUkernel function);
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t param_index, size_t *param_offset,
			      size_t *param_size);
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
			      CUdevice device);
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device);
CUresult cuLaunch(CUfunction f);
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int grid_dim_x, unsigned int grid_dim_y,
				   unsigned int grid_dim_z, unsigned int block_dim_x,
				   unsigned int block_dim_y, unsigned int block_dim_z,
				   unsigned int shared_mem_bytes, CUstream stream,
				   void **kernel_params);
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int grid_dim_x,
					unsigned int grid_dim_y, unsigned int grid_dim_z,
					unsigned int block_dim_x, unsigned int block_dim_y,
					unsigned int block_dim_z, unsigned int shared_mem_bytes,
					CUstream stream, void **kernel_params);
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launch_params_list,
					      unsigned int num_devices, unsigned int flags);
CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height);
CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream stream);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *user_data);
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn fn, void *user_data);
CUresult cuLaunchKernel(CUfunction f, unsigned int grid_dim_x, unsigned int grid_dim_y,
			unsigned int grid_dim_z, unsigned int block_dim_x, unsigned int block_dim_y,
			unsigned int block_dim_z, unsigned int shared_mem_bytes, CUstream stream,
			void **kernel_params, void **extra);
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int grid_dim_x, unsigned int grid_dim_y,
			     unsigned int grid_dim_z, unsigned int block_dim_x,
			     unsigned int block_dim_y, unsigned int block_dim_z,
			     unsigned int shared_mem_bytes, CUstream stream, void **kernel_params,
			     void **extra);
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernel_params,
			  void **extra);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernel_params,
			       void **extra);
CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int num_kernels, CUlibrary library);
CUresult cuLibraryGetGlobal(CUdeviceptr *ptr, size_t *bytes, CUlibrary library, const char *name);
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library);
CUresult cuLibraryGetManaged(CUdeviceptr *ptr, size_t *bytes, CUlibrary library, const char *name);
CUresult cuLibraryGetModule(CUmodule *mod, CUlibrary library);
CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol);
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options,
			   void **jit_options_values, unsigned int num_jit_options,
			   CUlibraryOption *library_options, void **library_option_values,
			   unsigned int num_library_options);
CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *file_name, CUjit_option *jit_options,
			       void **jit_options_values, unsigned int num_jit_options,
			       CUlibraryOption *library_options, void **library_option_values,
			       unsigned int num_library_options);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t bytes,
		       const char *name, unsigned int num_options, CUjit_option *options,
		       void **option_values);
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t bytes,
			  const char *name, unsigned int num_options, CUjit_option *options,
			  void **option_values);
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
		       unsigned int num_options, CUjit_option *options, void **option_values);
CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
			  unsigned int num_options, CUjit_option *options, void **option_values);
CUresult cuLinkComplete(CUlinkState state, void **cubin_out, size_t *size_out);
CUresult cuLinkCreate(unsigned int num_options, CUjit_option *options, void **option_values,
		      CUlinkState *state_out);
CUresult cuLinkCreate_v2(unsigned int num_options, CUjit_option *options, void **option_values,
			 CUlinkState *state_out);
CUresult cuLinkDestroy(CUlinkState state);
CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int num_functions,
				    CUmodule mod);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule hmod, const char *name);
CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod);
CUresult cuModuleGetGlobal(CUdeviceptr_v1 *ptr, unsigned int *bytes, CUmodule hmod,
			   const char *name);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *ptr, size_t *bytes, CUmodule hmod, const char *name);
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode);
CUresult cuModuleLoad(CUmodule *module, const char *path);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int num_options,
			    CUjit_option *options, void **option_values);
CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fat_cubin);
CUresult cuModuleUnload(CUmodule hmod);
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamic_smem_size, CUfunction function,
						 int num_blocks, int block_size);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *num_blocks, CUfunction function,
						     int block_size, size_t dynamic_s_mem_size);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *num_blocks, CUfunction function,
							      int block_size,
							      size_t dynamic_s_mem_size,
							      unsigned int flags);
CUresult cuOccupancyMaxActiveClusters(int *num_clusters, CUfunction function,
				      const CUlaunchConfig *config);
CUresult cuOccupancyMaxPotentialBlockSize(int *min_grid_size, int *block_size, CUfunction function,
					  CUoccupancyB2DSize block_size_to_dynamic_s_mem_size,
					  size_t dynamic_s_mem_size, int block_size_limit);
CUresult
cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_grid_size, int *block_size, CUfunction function,
					  CUoccupancyB2DSize block_size_to_dynamic_s_mem_size,
					  size_t dynamic_s_mem_size, int block_size_limit,
					  unsigned int flags);
CUresult cuOccupancyMaxPotentialClusterSize(int *cluster_size, CUfunction function,
					    const CUlaunchConfig *config);
CUresult cuParamSetf(CUfunction function, int offset, float value);
CUresult cuParamSeti(CUfunction function, int offset, unsigned int value);
CUresult cuParamSetSize(CUfunction function, unsigned int numbytes);
CUresult cuParamSetv(CUfunction function, int offset, void *ptr, unsigned int numbytes);
CUresult cuSignalExternalSemaphoresAsync(const CUexternalSemaphore *ext_sem_array,
					 const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params_array,
					 unsigned int num_ext_sems, CUstream stream);
CUresult
cuSignalExternalSemaphoresAsync_ptsz(const CUexternalSemaphore *ext_sem_array,
				     const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params_array,
				     unsigned int num_ext_sems, CUstream stream);
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *user_data,
			     unsigned int flags);
CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void *user_data,
				  unsigned int flags);
CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr ptr, size_t length,
				unsigned int flags);
CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr ptr, size_t length,
				     unsigned int flags);
CUresult cuStreamBeginCapture(CUstream stream);
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
CUresult cuStreamBeginCapture_ptsz(CUstream stream);
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode);
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
				     const CUgraphNode *dependencies,
				     const CUgraphEdgeData *dependency_data,
				     size_t num_dependencies, CUstreamCaptureMode mode);
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
					  const CUgraphNode *dependencies,
					  const CUgraphEdgeData *dependency_data,
					  size_t num_dependencies, CUstreamCaptureMode mode);
CUresult cuStreamCopyAttributes(CUstream dst_stream, CUstream src_stream);
CUresult cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority);
CUresult cuStreamDestroy(CUstream stream);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph);
CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attr, CUstreamAttrValue *value);
CUresult cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID attr,
				   CUstreamAttrValue *value_out);
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *capture_status_out,
				uint64_t *id_out);
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *capture_status_out,
				   uint64_t *id_out, CUgraph *graph_out,
				   const CUgraphNode **dependencies_out,
				   size_t *num_dependencies_out);
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *capture_status_out,
				   uint64_t *id_out, CUgraph *graph_out,
				   const CUgraphNode **dependencies_out,
				   const CUgraphEdgeData **edge_data_out,
				   size_t *num_dependencies_out);
CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream, CUstreamCaptureStatus *capture_status_out,
				     uint64_t *id_out);
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus *capture_status_out,
					uint64_t *id_out, CUgraph *graph_out,
					const CUgraphNode **dependencies_out,
					size_t *num_dependencies_out);
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus *capture_status_out,
					uint64_t *id_out, CUgraph *graph_out,
					const CUgraphNode **dependencies_out,
					const CUgraphEdgeData **edge_data_out,
					size_t *num_dependencies_out);
CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx);
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *ctx, CUgreenCtx *green_ctx);
CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext *ctx);
CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext *ctx, CUgreenCtx *green_ctx);
CUresult cuStreamGetDevice(CUstream stream, CUdevice *device);
CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice *device);
CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags);
CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int *flags);
CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *ctx);
CUresult cuStreamGetId(CUstream stream, unsigned long long *stream_id);
CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long *stream_id);
CUresult cuStreamGetPriority(CUstream stream, int *priority);
CUresult cuStreamGetPriority_ptsz(CUstream stream, int *priority);
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *capture_status);
CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *capture_status);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamQuery_ptsz(CUstream stream);
CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attr, const CUstreamAttrValue *value);
CUresult cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID attr,
				   const CUstreamAttrValue *value);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamSynchronize_ptsz(CUstream stream);
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies,
					   size_t num_dependencies, unsigned int flags);
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *dependencies,
					      const CUgraphEdgeData *dependency_data,
					      size_t num_dependencies, unsigned int flags);
CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode *dependencies,
						size_t num_dependencies, unsigned int flags);
CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode *dependencies,
						   const CUgraphEdgeData *dependency_data,
						   size_t num_dependencies, unsigned int flags);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags);
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, uint32_t value, unsigned int flags);
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, uint32_t value,
				unsigned int flags);
CUresult cuStreamWaitValue32_ptsz(CUstream stream, CUdeviceptr addr, uint32_t value,
				  unsigned int flags);
CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr addr, uint32_t value,
				     unsigned int flags);
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags);
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, uint64_t value,
				unsigned int flags);
CUresult cuStreamWaitValue64_ptsz(CUstream stream, CUdeviceptr addr, uint64_t value,
				  unsigned int flags);
CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr addr, uint64_t value,
				     unsigned int flags);
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, uint32_t value,
			      unsigned int flags);
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, uint32_t value,
				 unsigned int flags);
CUresult cuStreamWriteValue32_ptsz(CUstream stream, CUdeviceptr addr, uint32_t value,
				   unsigned int flags);
CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr addr, uint32_t value,
				      unsigned int flags);
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, uint64_t value,
			      unsigned int flags);
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, uint64_t value,
				 unsigned int flags);
CUresult cuStreamWriteValue64_ptsz(CUstream stream, CUdeviceptr addr, uint64_t value,
				   unsigned int flags);
CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr addr, uint64_t value,
				      unsigned int flags);
CUresult cuSurfObjectCreate(CUsurfObject *surf_object, const CUDA_RESOURCE_DESC *res_desc);
CUresult cuSurfObjectDestroy(CUsurfObject surf_object);
CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *res_desc, CUsurfObject surf_object);
CUresult cuTexObjectCreate(CUtexObject *tex_object, const CUDA_RESOURCE_DESC *res_desc,
			   const CUDA_TEXTURE_DESC *tex_desc,
			   const CUDA_RESOURCE_VIEW_DESC *res_view_desc);
CUresult cuTexObjectDestroy(CUtexObject tex_object);
CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *res_desc, CUtexObject tex_object);
CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *res_view_desc,
					CUtexObject tex_object);
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *tex_desc, CUtexObject tex_object);
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
CUresult cuWaitExternalSemaphoresAsync(const CUexternalSemaphore *ext_sem_array,
				       const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params_array,
				       unsigned int num_ext_sems, CUstream stream);
CUresult cuWaitExternalSemaphoresAsync_ptsz(const CUexternalSemaphore *ext_sem_array,
					    const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params_array,
					    unsigned int num_ext_sems, CUstream stream);

#endif
