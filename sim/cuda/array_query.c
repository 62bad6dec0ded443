/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told about arrays, and the planes of video formats.
 */
#include <pthread.h>

#include "sim/cuda/array.h"
#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"

SIM_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array)
{
	struct sim_array *found;

	SIM_ENTER(cuArray3DGetDescriptor_v2);
	if (!desc)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	found = sim_array_get(array);
	if (!found)
		return SIM_LEAVE(CUDA_ERROR_INVALID_HANDLE);
	*desc = found->descriptor;
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *desc, CUarray array)
{
	struct sim_array *found;

	SIM_ENTER(cuArray3DGetDescriptor);
	if (!desc)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	found = sim_array_get(array);
	if (!found)
		return SIM_LEAVE(CUDA_ERROR_INVALID_HANDLE);
	*desc = (CUDA_ARRAY3D_DESCRIPTOR_v1){
		.Width = (unsigned)found->descriptor.Width,
		.Height = (unsigned)found->descriptor.Height,
		.Depth = (unsigned)found->descriptor.Depth,
		.Format = found->descriptor.Format,
		.NumChannels = found->descriptor.NumChannels,
		.Flags = found->descriptor.Flags,
	};
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array)
{
	struct sim_array *found;

	SIM_ENTER(cuArrayGetDescriptor_v2);
	if (!desc)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	found = sim_array_get(array);
	if (!found)
		return SIM_LEAVE(CUDA_ERROR_INVALID_HANDLE);
	*desc = (CUDA_ARRAY_DESCRIPTOR){
		.Width = found->descriptor.Width,
		.Height = found->descriptor.Height,
		.Format = found->descriptor.Format,
		.NumChannels = found->descriptor.NumChannels,
	};
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *desc, CUarray array)
{
	struct sim_array *found;

	SIM_ENTER(cuArrayGetDescriptor);
	if (!desc)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	found = sim_array_get(array);
	if (!found)
		return SIM_LEAVE(CUDA_ERROR_INVALID_HANDLE);
	*desc = (CUDA_ARRAY_DESCRIPTOR_v1){
		.Width = (unsigned)found->descriptor.Width,
		.Height = (unsigned)found->descriptor.Height,
		.Format = found->descriptor.Format,
		.NumChannels = found->descriptor.NumChannels,
	};
	return SIM_LEAVE(CUDA_SUCCESS);
}

/* ---- only for arrays whose memory is mapped later, and those can't be made here ---- */

static CUresult requirements(const void *output, bool is_living, CUdevice device)
{
	unsigned gpu;

	if (!output)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_living)
		return CUDA_ERROR_INVALID_HANDLE;
	if (sim_device_gpu(device, &gpu) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *memory_requirements, CUarray array, CUdevice device)
{
	SIM_ENTER(cuArrayGetMemoryRequirements);
	return SIM_LEAVE(requirements(memory_requirements, sim_array_get(array) != NULL, device));
}

SIM_EXPORT CUresult
cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memory_requirements,
				      CUmipmappedArray mipmap, CUdevice device)
{
	SIM_ENTER(cuMipmappedArrayGetMemoryRequirements);
	return SIM_LEAVE(requirements(memory_requirements, sim_mipmap_get(mipmap) != NULL, device));
}

SIM_EXPORT CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparse_properties,
					       CUarray array)
{
	SIM_ENTER(cuArrayGetSparseProperties);
	return SIM_LEAVE(requirements(sparse_properties, sim_array_get(array) != NULL, 0));
}

SIM_EXPORT CUresult cuMipmappedArrayGetSparseProperties(
	CUDA_ARRAY_SPARSE_PROPERTIES *sparse_properties, CUmipmappedArray mipmap)
{
	SIM_ENTER(cuMipmappedArrayGetSparseProperties);
	return SIM_LEAVE(requirements(sparse_properties, sim_mipmap_get(mipmap) != NULL, 0));
}

/* ---- planes ---- */

struct plane {
	CUarray_format format;
	unsigned channels;
	unsigned width_divisor;
	unsigned height_divisor;
};

/* The planes of a format; 0 if it has only one. */
static unsigned planes_of(CUarray_format format, struct plane planes[3])
{
	bool is_wide = format == CU_AD_FORMAT_P010 || format == CU_AD_FORMAT_P016 ||
		       format == CU_AD_FORMAT_P210 || format == CU_AD_FORMAT_P216 ||
		       format == CU_AD_FORMAT_Y444_PLANAR10 ||
		       format == CU_AD_FORMAT_YUV444_16bit_SemiPlanar;
	CUarray_format sample = is_wide ? CU_AD_FORMAT_UNSIGNED_INT16 : CU_AD_FORMAT_UNSIGNED_INT8;

	for (unsigned i = 0; i < 3; i++)
		planes[i] = (struct plane){ sample, 1, 1, 1 };
	switch (format) {
	case CU_AD_FORMAT_NV12:
	case CU_AD_FORMAT_P010:
	case CU_AD_FORMAT_P016:
		planes[1] = (struct plane){ sample, 2, 2, 2 };
		return 2;
	case CU_AD_FORMAT_NV16:
	case CU_AD_FORMAT_P210:
	case CU_AD_FORMAT_P216:
		planes[1] = (struct plane){ sample, 2, 2, 1 };
		return 2;
	case CU_AD_FORMAT_YUV444_8bit_SemiPlanar:
	case CU_AD_FORMAT_YUV444_16bit_SemiPlanar:
		planes[1] = (struct plane){ sample, 2, 1, 1 };
		return 2;
	case CU_AD_FORMAT_Y444_PLANAR8:
	case CU_AD_FORMAT_Y444_PLANAR10:
		return 3;
	default:
		return 0;
	}
}

static CUresult plane_make(struct sim_array *array, unsigned index, CUarray *ret_plane)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct plane planes[3];
	struct sim_array *plane;
	size_t rows_before = 0;

	if (index >= planes_of(array->descriptor.Format, planes))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < index; i++)
		rows_before += array->descriptor.Height / planes[i].height_divisor;
	plane = sim_handle_new(SIM_HANDLE_ARRAY, sizeof(*plane));
	if (!plane)
		return CUDA_ERROR_OUT_OF_MEMORY;
	plane->descriptor = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = array->descriptor.Width / planes[index].width_divisor,
		.Height = array->descriptor.Height / planes[index].height_divisor,
		.Format = planes[index].format,
		.NumChannels = planes[index].channels,
	};
	if (!sim_array_shape_of(&plane->descriptor, &plane->shape)) {
		sim_handle_free(plane);
		return CUDA_ERROR_INVALID_VALUE; /* too small to have one */
	}
	plane->gpu = array->gpu;
	plane->context = array->context;
	plane->block = array->block;
	plane->offset_bytes = array->offset_bytes + rows_before * array->shape.row_bytes;
	plane->parent = array;
	pthread_mutex_lock(&mutex);
	plane->sibling = array->children;
	array->children = plane;
	pthread_mutex_unlock(&mutex);
	*ret_plane = (CUarray)plane;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuArrayGetPlane(CUarray *plane_array, CUarray array, unsigned int plane_idx)
{
	struct sim_array *found;

	SIM_ENTER(cuArrayGetPlane);
	if (!plane_array)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	found = sim_array_get(array);
	if (!found)
		return SIM_LEAVE(CUDA_ERROR_INVALID_HANDLE);
	return SIM_LEAVE(plane_make(found, plane_idx, plane_array));
}
