/* SPDX-License-Identifier: Apache-2.0
 *
 * How many bytes an array takes: formats in one table, no look-up outside it. Rows aren't padded:
 * what a program asks for is what is charged.
 */
#include "sim/cuda/array.h"

#define MAX_WIDTH    131072UL
#define MAX_HEIGHT   65536UL
#define MAX_DEPTH    16384UL
#define KNOWN_FLAGS  0x1ffU
#define FORMAT(name) CU_AD_FORMAT_##name

/* bytes: of one element, or of one channel where it is `per_channel`. Planes are counted in halves
 * of the first one's height: 2 = one plane, 3 = another of half the height. */
static const struct format {
	CUarray_format format;
	unsigned bytes;
	bool per_channel;
	unsigned block_edge; /* compressed in squares of so many elements */
	unsigned half_planes;
} formats[] = {
	{ FORMAT(UNSIGNED_INT8), 1, true, 1, 2 },
	{ FORMAT(UNSIGNED_INT16), 2, true, 1, 2 },
	{ FORMAT(UNSIGNED_INT32), 4, true, 1, 2 },
	{ FORMAT(SIGNED_INT8), 1, true, 1, 2 },
	{ FORMAT(SIGNED_INT16), 2, true, 1, 2 },
	{ FORMAT(SIGNED_INT32), 4, true, 1, 2 },
	{ FORMAT(HALF), 2, true, 1, 2 },
	{ FORMAT(FLOAT), 4, true, 1, 2 },
	{ FORMAT(UNORM_INT_101010_2), 4, false, 1, 2 },
	{ FORMAT(UNORM_INT8X1), 1, false, 1, 2 },
	{ FORMAT(UNORM_INT8X2), 2, false, 1, 2 },
	{ FORMAT(UNORM_INT8X4), 4, false, 1, 2 },
	{ FORMAT(UNORM_INT16X1), 2, false, 1, 2 },
	{ FORMAT(UNORM_INT16X2), 4, false, 1, 2 },
	{ FORMAT(UNORM_INT16X4), 8, false, 1, 2 },
	{ FORMAT(SNORM_INT8X1), 1, false, 1, 2 },
	{ FORMAT(SNORM_INT8X2), 2, false, 1, 2 },
	{ FORMAT(SNORM_INT8X4), 4, false, 1, 2 },
	{ FORMAT(SNORM_INT16X1), 2, false, 1, 2 },
	{ FORMAT(SNORM_INT16X2), 4, false, 1, 2 },
	{ FORMAT(SNORM_INT16X4), 8, false, 1, 2 },
	{ FORMAT(BC1_UNORM), 8, false, 4, 2 },
	{ FORMAT(BC1_UNORM_SRGB), 8, false, 4, 2 },
	{ FORMAT(BC2_UNORM), 16, false, 4, 2 },
	{ FORMAT(BC2_UNORM_SRGB), 16, false, 4, 2 },
	{ FORMAT(BC3_UNORM), 16, false, 4, 2 },
	{ FORMAT(BC3_UNORM_SRGB), 16, false, 4, 2 },
	{ FORMAT(BC4_UNORM), 8, false, 4, 2 },
	{ FORMAT(BC4_SNORM), 8, false, 4, 2 },
	{ FORMAT(BC5_UNORM), 16, false, 4, 2 },
	{ FORMAT(BC5_SNORM), 16, false, 4, 2 },
	{ FORMAT(BC6H_UF16), 16, false, 4, 2 },
	{ FORMAT(BC6H_SF16), 16, false, 4, 2 },
	{ FORMAT(BC7_UNORM), 16, false, 4, 2 },
	{ FORMAT(BC7_UNORM_SRGB), 16, false, 4, 2 },
	{ FORMAT(NV12), 1, false, 1, 3 },
	{ FORMAT(P010), 2, false, 1, 3 },
	{ FORMAT(P016), 2, false, 1, 3 },
	{ FORMAT(NV16), 1, false, 1, 4 },
	{ FORMAT(P210), 2, false, 1, 4 },
	{ FORMAT(P216), 2, false, 1, 4 },
	{ FORMAT(YUY2), 2, false, 1, 2 },
	{ FORMAT(Y210), 4, false, 1, 2 },
	{ FORMAT(Y216), 4, false, 1, 2 },
	{ FORMAT(AYUV), 4, false, 1, 2 },
	{ FORMAT(Y410), 4, false, 1, 2 },
	{ FORMAT(Y416), 8, false, 1, 2 },
	{ FORMAT(Y444_PLANAR8), 1, false, 1, 6 },
	{ FORMAT(Y444_PLANAR10), 2, false, 1, 6 },
	{ FORMAT(YUV444_8bit_SemiPlanar), 1, false, 1, 6 },
	{ FORMAT(YUV444_16bit_SemiPlanar), 2, false, 1, 6 },
};

static const struct format *format_find(CUarray_format format)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i].format == format)
			return &formats[i];
	return NULL;
}

static bool channels_are_good(const struct format *format, unsigned channels)
{
	if (format->per_channel)
		return channels == 1 || channels == 2 || channels == 4;
	return channels >= 1 && channels <= 4;
}

static bool extent_is_good(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool is_layered = d->Flags & CUDA_ARRAY3D_LAYERED;

	if (d->Width == 0 || d->Width > MAX_WIDTH || d->Height > MAX_HEIGHT || d->Depth > MAX_DEPTH)
		return false;
	if (d->Flags & CUDA_ARRAY3D_CUBEMAP) {
		if (d->Width != d->Height || d->Depth == 0)
			return false;
		return is_layered ? d->Depth % 6 == 0 : d->Depth == 6;
	}
	if (is_layered)
		return d->Depth > 0;
	return d->Depth == 0 || d->Height > 0;
}

static size_t at_least_one(size_t value)
{
	return value ? value : 1;
}

bool sim_array_shape_of(const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
			struct sim_array_shape *ret_shape)
{
	const struct format *format = format_find(descriptor->Format);
	struct sim_array_shape shape;
	size_t height;

	if (!format || !channels_are_good(format, descriptor->NumChannels) ||
	    (descriptor->Flags & ~KNOWN_FLAGS) || !extent_is_good(descriptor))
		return false;
	height = at_least_one(descriptor->Height);
	shape.element_bytes = format->bytes;
	if (format->per_channel)
		shape.element_bytes *= descriptor->NumChannels;
	shape.row_bytes = (descriptor->Width + format->block_edge - 1) / format->block_edge *
			  shape.element_bytes;
	shape.row_count = (height + format->block_edge - 1) / format->block_edge;
	shape.row_count = (shape.row_count * format->half_planes + 1) / 2;
	shape.slice_count = at_least_one(descriptor->Depth);
	/* The greatest extents with the widest element stay below 2^62. */
	shape.bytes = shape.row_bytes * shape.row_count * shape.slice_count;
	*ret_shape = shape;
	return true;
}
