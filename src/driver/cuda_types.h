/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver API's types, as far as Berth and its simulator need them, written from the public
 * documentation: names, values and layouts are the API's, so that no toolkit is needed to build.
 * A test compares them with an installed toolkit. Where one type has several versions, the plain
 * name is the newest that cuda.h gives it and the older ones keep their _vN.
 */
#ifndef BERTH_DRIVER_CUDA_TYPES_H
#define BERTH_DRIVER_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* The newest API these declarations describe: 1000 * major + 10 * minor. */
#define CUDA_VERSION 13000

/* Device addresses. The first API had 32-bit ones: a v1 call must never get 8 bytes stored. */
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1;

typedef int CUdevice;
#define CU_DEVICE_CPU     ((CUdevice)-1)
#define CU_DEVICE_INVALID ((CUdevice)-2)

/* Opaque handles. */
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUtexref_st *CUtexref;
typedef struct CUsurfref_st *CUsurfref;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef struct CUuserObject_st *CUuserObject;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef uint64_t CUgraphConditionalHandle;

/* Two streams have numbers, not objects: which one NULL means depends on the _ptds/_ptsz form. */
#define CU_STREAM_LEGACY     ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

typedef enum cudaError_enum {
#define CUDA_RESULT(name, value, phrase) name = (value),
#include "driver/cuda_results.def"
#undef CUDA_RESULT
} CUresult;

typedef void (*CUhostFn)(void *data);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *data);
typedef size_t (*CUoccupancyB2DSize)(int block_size);

/* Bits of cuGetProcAddress and what its last output tells. */
typedef enum CUdriverProcAddress_flags_enum {
	CU_GET_PROC_ADDRESS_DEFAULT = 0,
	CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
} CUdriverProcAddress_flags;

typedef enum CUdriverProcAddressQueryResult_enum {
	CU_GET_PROC_ADDRESS_SUCCESS = 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

#include "driver/cuda_attributes.h"
#include "driver/cuda_execution_types.h"
#include "driver/cuda_graph_types.h"
#include "driver/cuda_memory_types.h"

#endif
