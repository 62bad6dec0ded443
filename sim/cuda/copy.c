/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks and moves one copy: each side becomes an address, a pitch and a height, whatever it is. A
 * host address that lies in device memory's address space is device memory there, so a freed device
 * pointer is found also where the program calls it host memory.
 */
#include "sim/cuda/copy.h"

#include <string.h>

#include "sim/cuda/array.h"
#include "sim/cuda/memory_internal.h"

#define MAX_PITCH_BYTES 2147483647UL

struct side {
	CUmemorytype type;
	uintptr_t pointer;
	CUarray array;
	size_t x_bytes;
	size_t y;
	size_t z;
	size_t pitch_bytes;
	size_t height;
	enum sim_access access;
};

/* Where the first byte of the copy is, and how to step on. */
struct place {
	unsigned char *start;
	size_t pitch_bytes;
	size_t slice_bytes;
};

size_t sim_copy_bytes(const CUDA_MEMCPY3D *copy)
{
	size_t bytes;

	if (__builtin_mul_overflow(copy->WidthInBytes, copy->Height, &bytes) ||
	    __builtin_mul_overflow(bytes, copy->Depth, &bytes))
		return SIZE_MAX;
	return bytes;
}

static struct side source_of(const CUDA_MEMCPY3D *copy)
{
	return (struct side){
		.type = copy->srcMemoryType,
		.pointer = copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->srcHost
								     : (uintptr_t)copy->srcDevice,
		.array = copy->srcArray,
		.x_bytes = copy->srcXInBytes,
		.y = copy->srcY,
		.z = copy->srcZ,
		.pitch_bytes = copy->srcPitch,
		.height = copy->srcHeight,
		.access = SIM_READ,
	};
}

static struct side target_of(const CUDA_MEMCPY3D *copy)
{
	return (struct side){
		.type = copy->dstMemoryType,
		.pointer = copy->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->dstHost
								     : (uintptr_t)copy->dstDevice,
		.array = copy->dstArray,
		.x_bytes = copy->dstXInBytes,
		.y = copy->dstY,
		.z = copy->dstZ,
		.pitch_bytes = copy->dstPitch,
		.height = copy->dstHeight,
		.access = SIM_WRITE,
	};
}

static bool is_plain_host(uintptr_t pointer)
{
	struct sim_block *block;

	sim_memory_lock();
	block = sim_map_find_locked(pointer);
	sim_memory_unlock();
	return !block && !sim_arena_contains(pointer);
}

/* Of memory that the program describes: the pitch matters from two rows on, the height from two
 * slices on. */
static bool linear_steps(const struct side *side, const CUDA_MEMCPY3D *copy, struct place *place)
{
	place->pitch_bytes = side->pitch_bytes;
	place->slice_bytes = 0;
	if (copy->Height == 1 && copy->Depth == 1 && side->y == 0 && side->z == 0)
		return true;
	if (side->pitch_bytes > MAX_PITCH_BYTES || side->x_bytes > side->pitch_bytes ||
	    copy->WidthInBytes > side->pitch_bytes - side->x_bytes)
		return false;
	if (copy->Depth == 1 && side->z == 0)
		return true;
	if (side->y > side->height || copy->Height > side->height - side->y)
		return false;
	return !__builtin_mul_overflow(side->pitch_bytes, side->height, &place->slice_bytes);
}

static CUresult linear_place(const struct side *side, const CUDA_MEMCPY3D *copy,
			     struct place *ret_place)
{
	struct place place;
	uintptr_t start;
	size_t before;
	size_t rows;
	size_t span;
	void *host;

	if (!linear_steps(side, copy, &place))
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(side->z, place.slice_bytes, &before) ||
	    __builtin_mul_overflow(side->y, place.pitch_bytes, &rows) ||
	    __builtin_add_overflow(before, rows, &before) ||
	    __builtin_add_overflow(before, side->x_bytes, &before) ||
	    __builtin_add_overflow(side->pointer, before, &start))
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(copy->Depth - 1, place.slice_bytes, &span) ||
	    __builtin_mul_overflow(copy->Height - 1, place.pitch_bytes, &rows) ||
	    __builtin_add_overflow(span, rows, &span) ||
	    __builtin_add_overflow(span, copy->WidthInBytes, &span))
		return CUDA_ERROR_INVALID_VALUE;
	place.start = (unsigned char *)start;
	*ret_place = place;
	if (!side->pointer)
		return CUDA_ERROR_INVALID_VALUE;
	if (side->type != CU_MEMORYTYPE_DEVICE && is_plain_host(start))
		return CUDA_SUCCESS;
	return sim_memory_resolve(start, span, side->access, &host);
}

static CUresult array_place(const struct side *side, const CUDA_MEMCPY3D *copy,
			    struct place *ret_place)
{
	struct sim_array *array = sim_array_get(side->array);
	const struct sim_array_shape *shape;

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	shape = &array->shape;
	if (side->x_bytes > shape->row_bytes ||
	    copy->WidthInBytes > shape->row_bytes - side->x_bytes || side->y > shape->row_count ||
	    copy->Height > shape->row_count - side->y || side->z > shape->slice_count ||
	    copy->Depth > shape->slice_count - side->z)
		return CUDA_ERROR_INVALID_VALUE;
	if (side->x_bytes % shape->element_bytes || copy->WidthInBytes % shape->element_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	ret_place->pitch_bytes = shape->row_bytes;
	ret_place->slice_bytes = shape->row_bytes * shape->row_count;
	ret_place->start = sim_array_bytes(array) + side->z * ret_place->slice_bytes +
			   side->y * shape->row_bytes + side->x_bytes;
	return CUDA_SUCCESS;
}

static CUresult place_of(const struct side *side, const CUDA_MEMCPY3D *copy,
			 struct place *ret_place)
{
	switch (side->type) {
	case CU_MEMORYTYPE_HOST:
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		return linear_place(side, copy, ret_place);
	case CU_MEMORYTYPE_ARRAY:
		return array_place(side, copy, ret_place);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static bool is_empty(const CUDA_MEMCPY3D *copy)
{
	return !copy->WidthInBytes || !copy->Height || !copy->Depth;
}

static CUresult places_of(const CUDA_MEMCPY3D *copy, struct place *ret_from, struct place *ret_to)
{
	struct side source = source_of(copy);
	struct side target = target_of(copy);
	CUresult result;

	result = place_of(&source, copy, ret_from);
	return result == CUDA_SUCCESS ? place_of(&target, copy, ret_to) : result;
}

CUresult sim_copy_check(const CUDA_MEMCPY3D *copy)
{
	struct place from;
	struct place to;

	return is_empty(copy) ? CUDA_SUCCESS : places_of(copy, &from, &to);
}

CUresult sim_copy_move(const CUDA_MEMCPY3D *copy)
{
	struct place from;
	struct place to;
	CUresult result;

	if (is_empty(copy))
		return CUDA_SUCCESS;
	result = places_of(copy, &from, &to);
	if (result != CUDA_SUCCESS)
		return result;
	for (size_t z = 0; z < copy->Depth; z++)
		for (size_t y = 0; y < copy->Height; y++)
			memmove(to.start + z * to.slice_bytes + y * to.pitch_bytes,
				from.start + z * from.slice_bytes + y * from.pitch_bytes,
				copy->WidthInBytes);
	return CUDA_SUCCESS;
}

/* ---- fills ---- */

size_t sim_fill_bytes(const CUDA_MEMSET_NODE_PARAMS *fill)
{
	size_t bytes;

	if (__builtin_mul_overflow(fill->width, fill->elementSize, &bytes) ||
	    __builtin_mul_overflow(bytes, fill->height, &bytes))
		return SIZE_MAX;
	return bytes;
}

/* *ret_host is where to begin. */
static CUresult fill_place(const CUDA_MEMSET_NODE_PARAMS *fill, unsigned char **ret_host)
{
	size_t row_bytes;
	CUresult result;
	size_t span;
	void *host;

	if (fill->elementSize != 1 && fill->elementSize != 2 && fill->elementSize != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (fill->dst % fill->elementSize ||
	    __builtin_mul_overflow(fill->width, fill->elementSize, &row_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (fill->height > 1 && (fill->pitch % fill->elementSize || fill->pitch < row_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(fill->height - 1, fill->height > 1 ? fill->pitch : 0, &span) ||
	    __builtin_add_overflow(span, row_bytes, &span))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_memory_resolve(fill->dst, span, SIM_WRITE, &host);
	if (result == CUDA_SUCCESS)
		*ret_host = host;
	return result;
}

CUresult sim_fill_check(const CUDA_MEMSET_NODE_PARAMS *fill)
{
	unsigned char *host;

	if (fill->width == 0 || fill->height == 0)
		return CUDA_SUCCESS;
	return fill_place(fill, &host);
}

static void fill_row(unsigned char *row, const CUDA_MEMSET_NODE_PARAMS *fill)
{
	uint16_t *halves = (uint16_t *)(void *)row;
	uint32_t *words = (uint32_t *)(void *)row;

	if (fill->elementSize == 1)
		memset(row, (int)(fill->value & 0xff), fill->width);
	else if (fill->elementSize == 2)
		for (size_t i = 0; i < fill->width; i++)
			halves[i] = (uint16_t)fill->value;
	else
		for (size_t i = 0; i < fill->width; i++)
			words[i] = fill->value;
}

CUresult sim_fill_move(const CUDA_MEMSET_NODE_PARAMS *fill)
{
	unsigned char *host;
	CUresult result;

	if (fill->width == 0 || fill->height == 0)
		return CUDA_SUCCESS;
	result = fill_place(fill, &host);
	if (result != CUDA_SUCCESS)
		return result;
	for (size_t y = 0; y < fill->height; y++)
		fill_row(host + y * fill->pitch, fill);
	return CUDA_SUCCESS;
}
