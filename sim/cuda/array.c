/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays and mipmapped arrays: their memory and their life. A mipmapped array is one block, its
 * levels are arrays inside it that end with it; likewise the planes of a video format.
 */
#include "sim/cuda/array.h"

#include <pthread.h>
#include <string.h>

#include "sim/cuda/context.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/memory_internal.h"
#include "sim/cuda/stream.h"

static pthread_mutex_t arrays_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_array *arrays; /* those that own their block */
static struct sim_mipmap *mipmaps;

struct sim_array *sim_array_get(CUarray handle)
{
	return sim_handle_get(SIM_HANDLE_ARRAY, handle);
}

struct sim_mipmap *sim_mipmap_get(CUmipmappedArray handle)
{
	return sim_handle_get(SIM_HANDLE_MIPMAP, handle);
}

unsigned char *sim_array_bytes(struct sim_array *array)
{
	array->block->is_touched = true;
	return (unsigned char *)array->block->base + array->offset_bytes;
}

/* ---- arrays ---- */

static CUresult array_create(CUarray *ret_handle, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
	struct sim_array_shape shape;
	struct sim_context *context;
	struct sim_array *array;
	struct sim_block *block;
	CUresult result;

	if (!sim_array_shape_of(descriptor, &shape))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = sim_capture_forbid();
	if (result != CUDA_SUCCESS)
		return result;
	if (descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_ERROR_NOT_SUPPORTED; /* as the device's attributes say */
	result = sim_memory_make(context->gpu, false, shape.bytes, 0, shape.bytes, &block);
	if (result != CUDA_SUCCESS)
		return result;
	array = sim_handle_new(SIM_HANDLE_ARRAY, sizeof(*array));
	if (!array) {
		sim_memory_unmake(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	array->descriptor = *descriptor;
	array->shape = shape;
	array->gpu = context->gpu;
	array->context = context;
	array->block = block;
	pthread_mutex_lock(&arrays_mutex);
	array->next = arrays;
	arrays = array;
	pthread_mutex_unlock(&arrays_mutex);
	*ret_handle = (CUarray)array;
	return CUDA_SUCCESS;
}

static CUDA_ARRAY3D_DESCRIPTOR from_2d(const CUDA_ARRAY_DESCRIPTOR *desc)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = desc->Width,
		.Height = desc->Height,
		.Format = desc->Format,
		.NumChannels = desc->NumChannels,
	};
}

SIM_EXPORT CUresult cuArrayCreate_v2(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR descriptor;

	SIM_ENTER(cuArrayCreate_v2);
	if (!handle || !desc)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	descriptor = from_2d(desc);
	return SIM_LEAVE(array_create(handle, &descriptor));
}

SIM_EXPORT CUresult cuArrayCreate(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
	SIM_ENTER(cuArrayCreate);
	if (!handle || !desc)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	return SIM_LEAVE(array_create(handle, &(CUDA_ARRAY3D_DESCRIPTOR){ desc->Width, desc->Height,
									  0, desc->Format,
									  desc->NumChannels, 0 }));
}

SIM_EXPORT CUresult cuArray3DCreate_v2(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	SIM_ENTER(cuArray3DCreate_v2);
	if (!handle || !desc)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	return SIM_LEAVE(array_create(handle, desc));
}

SIM_EXPORT CUresult cuArray3DCreate(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
	SIM_ENTER(cuArray3DCreate);
	if (!handle || !desc)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	return SIM_LEAVE(
		array_create(handle, &(CUDA_ARRAY3D_DESCRIPTOR){ desc->Width, desc->Height,
								 desc->Depth, desc->Format,
								 desc->NumChannels, desc->Flags }));
}

/* Off the list; false if it owns no block or is gone already. */
static bool array_take(struct sim_array *array)
{
	struct sim_array **place = &arrays;
	bool is_there;

	pthread_mutex_lock(&arrays_mutex);
	while (*place && *place != array)
		place = &(*place)->next;
	is_there = *place != NULL;
	if (is_there)
		*place = array->next;
	pthread_mutex_unlock(&arrays_mutex);
	return is_there;
}

static void array_end(struct sim_array *array)
{
	while (array->children) {
		struct sim_array *child = array->children;

		array->children = child->sibling;
		sim_handle_free(child);
	}
	sim_memory_unmake(array->block);
	sim_handle_free(array);
}

static CUresult array_destroy(CUarray handle)
{
	struct sim_array *array = sim_array_get(handle);
	CUresult result;

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	result = sim_capture_forbid();
	if (result != CUDA_SUCCESS)
		return result;
	if (!array_take(array))
		return CUDA_ERROR_INVALID_VALUE; /* a level or a plane ends with its owner */
	array_end(array);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuArrayDestroy(CUarray array)
{
	SIM_ENTER(cuArrayDestroy);
	return SIM_LEAVE(array_destroy(array));
}

/* ---- mipmapped arrays ---- */

static size_t halved(size_t extent, unsigned level)
{
	size_t value = extent >> level;

	return extent ? value ? value : 1 : 0;
}

static CUDA_ARRAY3D_DESCRIPTOR level_descriptor(const CUDA_ARRAY3D_DESCRIPTOR *top, unsigned level)
{
	CUDA_ARRAY3D_DESCRIPTOR descriptor = *top;

	descriptor.Width = halved(top->Width, level);
	descriptor.Height = halved(top->Height, level);
	if (!(top->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
		descriptor.Depth = halved(top->Depth, level);
	return descriptor;
}

static unsigned most_levels(const CUDA_ARRAY3D_DESCRIPTOR *top)
{
	size_t extent = top->Width > top->Height ? top->Width : top->Height;

	if (!(top->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) && top->Depth > extent)
		extent = top->Depth;
	return 64U - (unsigned)__builtin_clzl(extent);
}

static size_t aligned(size_t bytes)
{
	return (bytes + SIM_BLOCK_ALIGN - 1) & ~(SIM_BLOCK_ALIGN - 1);
}

static size_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *top, unsigned level_count)
{
	struct sim_array_shape shape;
	size_t bytes = 0;

	for (unsigned level = 0; level < level_count; level++) {
		CUDA_ARRAY3D_DESCRIPTOR descriptor = level_descriptor(top, level);

		/* The top one was good, so are its halves. */
		if (sim_array_shape_of(&descriptor, &shape))
			bytes += aligned(shape.bytes);
	}
	return bytes;
}

static void mipmap_end(struct sim_mipmap *mipmap)
{
	for (unsigned level = 0; level < mipmap->level_count; level++)
		sim_handle_free(mipmap->levels[level]);
	sim_memory_unmake(mipmap->block);
	sim_handle_free(mipmap);
}

static bool mipmap_make_levels(struct sim_mipmap *mipmap)
{
	size_t offset_bytes = 0;

	for (unsigned level = 0; level < mipmap->level_count; level++) {
		struct sim_array *array = sim_handle_new(SIM_HANDLE_ARRAY, sizeof(*array));

		if (!array) {
			mipmap->level_count = level;
			return false;
		}
		mipmap->levels[level] = array;
		array->descriptor = level_descriptor(&mipmap->descriptor, level);
		(void)sim_array_shape_of(&array->descriptor, &array->shape); /* as above */
		array->gpu = mipmap->gpu;
		array->context = mipmap->context;
		array->block = mipmap->block;
		array->offset_bytes = offset_bytes;
		array->mipmap = mipmap;
		offset_bytes += aligned(array->shape.bytes);
	}
	return true;
}

static CUresult mipmap_make(struct sim_context *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
			    unsigned level_count, struct sim_mipmap **ret_mipmap)
{
	size_t bytes = mipmap_bytes(descriptor, level_count);
	struct sim_mipmap *mipmap;
	struct sim_block *block;
	CUresult result;

	result = sim_memory_make(context->gpu, false, bytes, 0, bytes, &block);
	if (result != CUDA_SUCCESS)
		return result;
	mipmap = sim_handle_new(SIM_HANDLE_MIPMAP, sizeof(*mipmap));
	if (!mipmap) {
		sim_memory_unmake(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	mipmap->descriptor = *descriptor;
	mipmap->gpu = context->gpu;
	mipmap->context = context;
	mipmap->block = block;
	mipmap->level_count = level_count;
	if (!mipmap_make_levels(mipmap)) {
		mipmap_end(mipmap);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_mipmap = mipmap;
	return CUDA_SUCCESS;
}

static CUresult mipmap_create(CUmipmappedArray *ret_handle,
			      const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned level_count)
{
	struct sim_array_shape shape;
	struct sim_context *context;
	struct sim_mipmap *mipmap;
	CUresult result;

	if (!ret_handle || !descriptor || !sim_array_shape_of(descriptor, &shape))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = sim_capture_forbid();
	if (result != CUDA_SUCCESS)
		return result;
	if (descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_ERROR_NOT_SUPPORTED; /* as the device's attributes say */
	if (level_count == 0)
		level_count = 1;
	if (level_count > most_levels(descriptor))
		level_count = most_levels(descriptor);
	result = mipmap_make(context, descriptor, level_count, &mipmap);
	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&arrays_mutex);
	mipmap->next = mipmaps;
	mipmaps = mipmap;
	pthread_mutex_unlock(&arrays_mutex);
	*ret_handle = (CUmipmappedArray)mipmap;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *handle,
					   const CUDA_ARRAY3D_DESCRIPTOR *mipmapped_array_desc,
					   unsigned int num_mipmap_levels)
{
	SIM_ENTER(cuMipmappedArrayCreate);
	return SIM_LEAVE(mipmap_create(handle, mipmapped_array_desc, num_mipmap_levels));
}

static bool mipmap_take(struct sim_mipmap *mipmap)
{
	struct sim_mipmap **place = &mipmaps;
	bool is_there;

	pthread_mutex_lock(&arrays_mutex);
	while (*place && *place != mipmap)
		place = &(*place)->next;
	is_there = *place != NULL;
	if (is_there)
		*place = mipmap->next;
	pthread_mutex_unlock(&arrays_mutex);
	return is_there;
}

static CUresult mipmap_destroy(CUmipmappedArray handle)
{
	struct sim_mipmap *mipmap = sim_mipmap_get(handle);
	CUresult result;

	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	result = sim_capture_forbid();
	if (result != CUDA_SUCCESS)
		return result;
	if (!mipmap_take(mipmap))
		return CUDA_ERROR_INVALID_HANDLE;
	mipmap_end(mipmap);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmapped_array)
{
	SIM_ENTER(cuMipmappedArrayDestroy);
	return SIM_LEAVE(mipmap_destroy(mipmapped_array));
}

SIM_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *level_array, CUmipmappedArray mipmapped_array,
					     unsigned int level)
{
	struct sim_mipmap *mipmap;

	SIM_ENTER(cuMipmappedArrayGetLevel);
	if (!level_array)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	mipmap = sim_mipmap_get(mipmapped_array);
	if (!mipmap)
		return SIM_LEAVE(CUDA_ERROR_INVALID_HANDLE);
	if (level >= mipmap->level_count)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	*level_array = (CUarray)mipmap->levels[level];
	return SIM_LEAVE(CUDA_SUCCESS);
}

/* ---- the end of a context ---- */

static struct sim_array *array_of_context(const struct sim_context *context)
{
	struct sim_array *array;

	pthread_mutex_lock(&arrays_mutex);
	array = arrays;
	while (array && array->context != context)
		array = array->next;
	pthread_mutex_unlock(&arrays_mutex);
	return array;
}

static struct sim_mipmap *mipmap_of_context(const struct sim_context *context)
{
	struct sim_mipmap *mipmap;

	pthread_mutex_lock(&arrays_mutex);
	mipmap = mipmaps;
	while (mipmap && mipmap->context != context)
		mipmap = mipmap->next;
	pthread_mutex_unlock(&arrays_mutex);
	return mipmap;
}

void sim_array_end_with_context(struct sim_context *context)
{
	struct sim_mipmap *mipmap;
	struct sim_array *array;

	while ((array = array_of_context(context)))
		if (array_take(array))
			array_end(array);
	while ((mipmap = mipmap_of_context(context)))
		if (mipmap_take(mipmap))
			mipmap_end(mipmap);
}
