/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver API's functions that Berth hooks or its simulator implements, by their real symbol
 * names: no macro hides a _vN, and the forms with the thread's own default stream (_ptds, _ptsz)
 * are functions of their own. Here: start, devices, contexts; the rest by topic.
 */
#ifndef BERTH_DRIVER_CUDA_FUNCTIONS_H
#define BERTH_DRIVER_CUDA_FUNCTIONS_H

#include "driver/cuda_types.h"

CUresult cuCtxAttach(CUcontext *ctx, unsigned int flags);
CUresult cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);
CUresult cuCtxCreate_v3(CUcontext *ctx, CUexecAffinityParam *params_array, int num_params,
			unsigned int flags, CUdevice device);
CUresult cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *ctx_create_params, unsigned int flags,
			CUdevice device);
CUresult cuCtxDestroy(CUcontext ctx);
CUresult cuCtxDestroy_v2(CUcontext ctx);
CUresult cuCtxDetach(CUcontext ctx);
CUresult cuCtxDisablePeerAccess(CUcontext peer_context);
CUresult cuCtxEnablePeerAccess(CUcontext peer_context, unsigned int flags);
CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx ctx);
CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version);
CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig);
CUresult cuCtxGetCurrent(CUcontext *ctx);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx);
CUresult cuCtxGetDevResource(CUcontext ctx, CUdevResource *resource, CUdevResourceType type);
CUresult cuCtxGetFlags(unsigned int *flags);
CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctx_id);
CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit);
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config);
CUresult cuCtxGetStreamPriorityRange(int *least_priority, int *greatest_priority);
CUresult cuCtxPopCurrent(CUcontext *ctx);
CUresult cuCtxPopCurrent_v2(CUcontext *ctx);
CUresult cuCtxPushCurrent(CUcontext ctx);
CUresult cuCtxPushCurrent_v2(CUcontext ctx);
CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event);
CUresult cuCtxResetPersistingL2Cache(void);
CUresult cuCtxSetCacheConfig(CUfunc_cache config);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuCtxSetFlags(unsigned int flags);
CUresult cuCtxSetLimit(CUlimit limit, size_t value);
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config);
CUresult cuCtxSynchronize(void);
CUresult cuCtxSynchronize_v2(CUcontext ctx);
CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event);
CUresult cuDeviceCanAccessPeer(int *can_access_peer, CUdevice device, CUdevice peer_dev);
CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice device);
CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *pci_bus_id);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice device);
CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type);
CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice device);
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value);
CUresult cuDeviceGetLuid(char *luid, unsigned int *device_node_mask, CUdevice device);
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device);
CUresult cuDeviceGetName(char *name, int len, CUdevice device);
CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice src_device,
				 CUdevice dst_device);
CUresult cuDeviceGetPCIBusId(char *pci_bus_id, int len, CUdevice device);
CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice device);
CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *max_width_in_elements, CUarray_format format,
					    unsigned int num_channels, CUdevice device);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGraphMemTrim(CUdevice device);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxReset(CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags);
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value);
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources,
				   unsigned int nb_resources);
CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nb_groups,
				     const CUdevResource *input, CUdevResource *remaining,
				     unsigned int use_flags, unsigned int min_count);
CUresult cuDriverGetVersion(int *driver_version);
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
				    CUflushGPUDirectRDMAWritesScope scope);
CUresult cuGetErrorName(CUresult error, const char **str);
CUresult cuGetErrorString(CUresult error, const char **str);
CUresult cuGetExportTable(const void **export_table, const CUuuid *export_table_id);
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cuda_version, uint64_t flags);
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version, uint64_t flags,
			     CUdriverProcAddressQueryResult *symbol_status);
CUresult cuGreenCtxCreate(CUgreenCtx *ctx, CUdevResourceDesc desc, CUdevice device,
			  unsigned int flags);
CUresult cuGreenCtxDestroy(CUgreenCtx ctx);
CUresult cuGreenCtxGetDevResource(CUgreenCtx ctx, CUdevResource *resource, CUdevResourceType type);
CUresult cuGreenCtxGetId(CUgreenCtx green_ctx, unsigned long long *green_ctx_id);
CUresult cuGreenCtxRecordEvent(CUgreenCtx ctx, CUevent event);
CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green_ctx, unsigned int flags,
				int priority);
CUresult cuGreenCtxWaitEvent(CUgreenCtx ctx, CUevent event);
CUresult cuInit(unsigned int flags);
CUresult cuProfilerInitialize(const char *config_file, const char *output_file,
			      CUoutput_mode output_mode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

#include "driver/cuda_copy_functions.h"
#include "driver/cuda_execution_functions.h"
#include "driver/cuda_graph_functions.h"
#include "driver/cuda_memory_functions.h"

#endif
