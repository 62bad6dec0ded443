/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays, textures and what is imported from other APIs: formats, descriptors, views.
 * Include driver/cuda_types.h, not this.
 */
#ifndef BERTH_DRIVER_CUDA_ARRAY_TYPES_H
#define BERTH_DRIVER_CUDA_ARRAY_TYPES_H

/* Arrays and mipmapped arrays; the _v1 descriptors have 32-bit sizes. */
typedef enum CUarray_format_enum {
	CU_AD_FORMAT_UNSIGNED_INT8 = 1,
	CU_AD_FORMAT_UNSIGNED_INT16 = 2,
	CU_AD_FORMAT_UNSIGNED_INT32 = 3,
	CU_AD_FORMAT_SIGNED_INT8 = 8,
	CU_AD_FORMAT_SIGNED_INT16 = 9,
	CU_AD_FORMAT_SIGNED_INT32 = 10,
	CU_AD_FORMAT_HALF = 16,
	CU_AD_FORMAT_FLOAT = 32,
	CU_AD_FORMAT_NV12 = 176,
	CU_AD_FORMAT_UNORM_INT8X1 = 192,
	CU_AD_FORMAT_UNORM_INT8X2 = 193,
	CU_AD_FORMAT_UNORM_INT8X4 = 194,
	CU_AD_FORMAT_UNORM_INT16X1 = 195,
	CU_AD_FORMAT_UNORM_INT16X2 = 196,
	CU_AD_FORMAT_UNORM_INT16X4 = 197,
	CU_AD_FORMAT_SNORM_INT8X1 = 198,
	CU_AD_FORMAT_SNORM_INT8X2 = 199,
	CU_AD_FORMAT_SNORM_INT8X4 = 200,
	CU_AD_FORMAT_SNORM_INT16X1 = 201,
	CU_AD_FORMAT_SNORM_INT16X2 = 202,
	CU_AD_FORMAT_SNORM_INT16X4 = 203,
	CU_AD_FORMAT_BC1_UNORM = 145,
	CU_AD_FORMAT_BC1_UNORM_SRGB = 146,
	CU_AD_FORMAT_BC2_UNORM = 147,
	CU_AD_FORMAT_BC2_UNORM_SRGB = 148,
	CU_AD_FORMAT_BC3_UNORM = 149,
	CU_AD_FORMAT_BC3_UNORM_SRGB = 150,
	CU_AD_FORMAT_BC4_UNORM = 151,
	CU_AD_FORMAT_BC4_SNORM = 152,
	CU_AD_FORMAT_BC5_UNORM = 153,
	CU_AD_FORMAT_BC5_SNORM = 154,
	CU_AD_FORMAT_BC6H_UF16 = 155,
	CU_AD_FORMAT_BC6H_SF16 = 156,
	CU_AD_FORMAT_BC7_UNORM = 157,
	CU_AD_FORMAT_BC7_UNORM_SRGB = 158,
	CU_AD_FORMAT_P010 = 159,
	CU_AD_FORMAT_P016 = 161,
	CU_AD_FORMAT_NV16 = 162,
	CU_AD_FORMAT_P210 = 163,
	CU_AD_FORMAT_P216 = 164,
	CU_AD_FORMAT_YUY2 = 165,
	CU_AD_FORMAT_Y210 = 166,
	CU_AD_FORMAT_Y216 = 167,
	CU_AD_FORMAT_AYUV = 168,
	CU_AD_FORMAT_Y410 = 169,
	CU_AD_FORMAT_Y416 = 177,
	CU_AD_FORMAT_Y444_PLANAR8 = 178,
	CU_AD_FORMAT_Y444_PLANAR10 = 179,
	CU_AD_FORMAT_YUV444_8bit_SemiPlanar = 180,
	CU_AD_FORMAT_YUV444_16bit_SemiPlanar = 181,
	CU_AD_FORMAT_UNORM_INT_101010_2 = 80,
	CU_AD_FORMAT_MAX = 0x7fffffff,
} CUarray_format;

#define CUDA_ARRAY3D_LAYERED             0x01
#define CUDA_ARRAY3D_SURFACE_LDST        0x02
#define CUDA_ARRAY3D_CUBEMAP             0x04
#define CUDA_ARRAY3D_TEXTURE_GATHER      0x08
#define CUDA_ARRAY3D_DEPTH_TEXTURE       0x10
#define CUDA_ARRAY3D_COLOR_ATTACHMENT    0x20
#define CUDA_ARRAY3D_SPARSE              0x40
#define CUDA_ARRAY3D_DEFERRED_MAPPING    0x80
#define CUDA_ARRAY3D_VIDEO_ENCODE_DECODE 0x100

#define CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL 0x1

typedef struct CUDA_ARRAY_DESCRIPTOR_st {
	size_t Width;
	size_t Height;
	CUarray_format Format;
	unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct CUDA_ARRAY_DESCRIPTOR_v1_st {
	unsigned int Width;
	unsigned int Height;
	CUarray_format Format;
	unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_st {
	size_t Width;
	size_t Height;
	size_t Depth;
	CUarray_format Format;
	unsigned int NumChannels;
	unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_v1_st {
	unsigned int Width;
	unsigned int Height;
	unsigned int Depth;
	CUarray_format Format;
	unsigned int NumChannels;
	unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;

typedef struct CUDA_ARRAY_SPARSE_PROPERTIES_st {
	struct {
		unsigned int width;
		unsigned int height;
		unsigned int depth;
	} tileExtent;
	unsigned int miptailFirstLevel;
	unsigned long long miptailSize;
	unsigned int flags;
	unsigned int reserved[4];
} CUDA_ARRAY_SPARSE_PROPERTIES;

typedef struct CUDA_ARRAY_MEMORY_REQUIREMENTS_st {
	size_t size;
	size_t alignment;
	unsigned int reserved[4];
} CUDA_ARRAY_MEMORY_REQUIREMENTS;

/* Texture and surface objects. */
typedef enum CUaddress_mode_enum {
	CU_TR_ADDRESS_MODE_WRAP = 0,
	CU_TR_ADDRESS_MODE_CLAMP = 1,
	CU_TR_ADDRESS_MODE_MIRROR = 2,
	CU_TR_ADDRESS_MODE_BORDER = 3,
} CUaddress_mode;

typedef enum CUfilter_mode_enum {
	CU_TR_FILTER_MODE_POINT = 0,
	CU_TR_FILTER_MODE_LINEAR = 1,
} CUfilter_mode;

typedef enum CUresourcetype_enum {
	CU_RESOURCE_TYPE_ARRAY = 0,
	CU_RESOURCE_TYPE_MIPMAPPED_ARRAY = 1,
	CU_RESOURCE_TYPE_LINEAR = 2,
	CU_RESOURCE_TYPE_PITCH2D = 3,
} CUresourcetype;

typedef enum CUresourceViewFormat_enum {
	CU_RES_VIEW_FORMAT_NONE = 0,
	CU_RES_VIEW_FORMAT_UINT_1X8 = 1,
	CU_RES_VIEW_FORMAT_UINT_2X8 = 2,
	CU_RES_VIEW_FORMAT_UINT_4X8 = 3,
	CU_RES_VIEW_FORMAT_SINT_1X8 = 4,
	CU_RES_VIEW_FORMAT_SINT_2X8 = 5,
	CU_RES_VIEW_FORMAT_SINT_4X8 = 6,
	CU_RES_VIEW_FORMAT_UINT_1X16 = 7,
	CU_RES_VIEW_FORMAT_UINT_2X16 = 8,
	CU_RES_VIEW_FORMAT_UINT_4X16 = 9,
	CU_RES_VIEW_FORMAT_SINT_1X16 = 10,
	CU_RES_VIEW_FORMAT_SINT_2X16 = 11,
	CU_RES_VIEW_FORMAT_SINT_4X16 = 12,
	CU_RES_VIEW_FORMAT_UINT_1X32 = 13,
	CU_RES_VIEW_FORMAT_UINT_2X32 = 14,
	CU_RES_VIEW_FORMAT_UINT_4X32 = 15,
	CU_RES_VIEW_FORMAT_SINT_1X32 = 16,
	CU_RES_VIEW_FORMAT_SINT_2X32 = 17,
	CU_RES_VIEW_FORMAT_SINT_4X32 = 18,
	CU_RES_VIEW_FORMAT_FLOAT_1X16 = 19,
	CU_RES_VIEW_FORMAT_FLOAT_2X16 = 20,
	CU_RES_VIEW_FORMAT_FLOAT_4X16 = 21,
	CU_RES_VIEW_FORMAT_FLOAT_1X32 = 22,
	CU_RES_VIEW_FORMAT_FLOAT_2X32 = 23,
	CU_RES_VIEW_FORMAT_FLOAT_4X32 = 24,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC1 = 25,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC2 = 26,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC3 = 27,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC4 = 28,
	CU_RES_VIEW_FORMAT_SIGNED_BC4 = 29,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC5 = 30,
	CU_RES_VIEW_FORMAT_SIGNED_BC5 = 31,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC6H = 32,
	CU_RES_VIEW_FORMAT_SIGNED_BC6H = 33,
	CU_RES_VIEW_FORMAT_UNSIGNED_BC7 = 34,
} CUresourceViewFormat;

#define CU_TRSA_OVERRIDE_FORMAT                0x01
#define CU_TRSF_READ_AS_INTEGER                0x01
#define CU_TRSF_NORMALIZED_COORDINATES         0x02
#define CU_TRSF_SRGB                           0x10
#define CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION 0x20
#define CU_TRSF_SEAMLESS_CUBEMAP               0x40

typedef struct CUDA_RESOURCE_DESC_st {
	CUresourcetype resType;
	union {
		struct {
			CUarray hArray;
		} array;
		struct {
			CUmipmappedArray hMipmappedArray;
		} mipmap;
		struct {
			CUdeviceptr devPtr;
			CUarray_format format;
			unsigned int numChannels;
			size_t sizeInBytes;
		} linear;
		struct {
			CUdeviceptr devPtr;
			CUarray_format format;
			unsigned int numChannels;
			size_t width;
			size_t height;
			size_t pitchInBytes;
		} pitch2D;
		struct {
			int reserved[32];
		} reserved;
	} res;
	unsigned int flags;
} CUDA_RESOURCE_DESC;

typedef struct CUDA_TEXTURE_DESC_st {
	CUaddress_mode addressMode[3];
	CUfilter_mode filterMode;
	unsigned int flags;
	unsigned int maxAnisotropy;
	CUfilter_mode mipmapFilterMode;
	float mipmapLevelBias;
	float minMipmapLevelClamp;
	float maxMipmapLevelClamp;
	float borderColor[4];
	int reserved[12];
} CUDA_TEXTURE_DESC;

typedef struct CUDA_RESOURCE_VIEW_DESC_st {
	CUresourceViewFormat format;
	size_t width;
	size_t height;
	size_t depth;
	unsigned int firstMipmapLevel;
	unsigned int lastMipmapLevel;
	unsigned int firstLayer;
	unsigned int lastLayer;
	unsigned int reserved[16];
} CUDA_RESOURCE_VIEW_DESC;

/* Memory and semaphores of other APIs. */
typedef enum CUexternalMemoryHandleType_enum {
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD = 1,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32 = 2,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT = 3,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP = 4,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE = 5,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE = 6,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT = 7,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF = 8,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD = 9,
} CUexternalMemoryHandleType;

typedef enum CUexternalSemaphoreHandleType_enum {
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD = 1,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32 = 2,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT = 3,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE = 4,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE = 5,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC = 6,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX = 7,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX_KMT = 8,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD = 9,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32 = 10,
} CUexternalSemaphoreHandleType;

#define CUDA_EXTERNAL_MEMORY_DEDICATED 0x1

typedef struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st {
	CUexternalMemoryHandleType type;
	union {
		int fd;
		struct {
			void *handle;
			const void *name;
		} win32;
		const void *nvSciBufObject;
	} handle;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;

typedef struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st {
	unsigned long long offset;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_BUFFER_DESC;

typedef struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st {
	unsigned long long offset;
	CUDA_ARRAY3D_DESCRIPTOR arrayDesc;
	unsigned int numLevels;
	unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC;

typedef struct CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st {
	CUexternalSemaphoreHandleType type;
	union {
		int fd;
		struct {
			void *handle;
			const void *name;
		} win32;
		const void *nvSciSyncObj;
	} handle;
	unsigned int flags;
	unsigned int reserved[16];
} CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC;

typedef struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st {
	struct {
		struct {
			unsigned long long value;
		} fence;
		union {
			void *fence;
			unsigned long long reserved;
		} nvSciSync;
		struct {
			unsigned long long key;
		} keyedMutex;
		unsigned int reserved[12];
	} params;
	unsigned int flags;
	unsigned int reserved[16];
} CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS;

typedef struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st {
	struct {
		struct {
			unsigned long long value;
		} fence;
		union {
			void *fence;
			unsigned long long reserved;
		} nvSciSync;
		struct {
			unsigned long long key;
			unsigned int timeoutMs;
		} keyedMutex;
		unsigned int reserved[10];
	} params;
	unsigned int flags;
	unsigned int reserved[16];
} CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS;

#endif
