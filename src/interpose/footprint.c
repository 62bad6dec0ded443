/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats come in three shapes: an element per texel (bits times channels), blocks of 4 x 4 texels,
 * and planes with fewer chroma samples (bits per texel in all, whatever the channels say).
 */
#include "interpose/footprint.h"

#include <stdbool.h>
#include <stddef.h>

enum shape {
	PER_CHANNEL, /* bits of one channel */
	PER_TEXEL,   /* bits of a whole texel */
	PER_BLOCK,   /* bits of a block of 4 x 4 texels */
};

static const struct format {
	CUarray_format format;
	enum shape shape;
	uint32_t bits;
} formats[] = {
	{ CU_AD_FORMAT_UNSIGNED_INT8, PER_CHANNEL, 8 },
	{ CU_AD_FORMAT_UNSIGNED_INT16, PER_CHANNEL, 16 },
	{ CU_AD_FORMAT_UNSIGNED_INT32, PER_CHANNEL, 32 },
	{ CU_AD_FORMAT_SIGNED_INT8, PER_CHANNEL, 8 },
	{ CU_AD_FORMAT_SIGNED_INT16, PER_CHANNEL, 16 },
	{ CU_AD_FORMAT_SIGNED_INT32, PER_CHANNEL, 32 },
	{ CU_AD_FORMAT_HALF, PER_CHANNEL, 16 },
	{ CU_AD_FORMAT_FLOAT, PER_CHANNEL, 32 },
	{ CU_AD_FORMAT_UNORM_INT8X1, PER_TEXEL, 8 },
	{ CU_AD_FORMAT_UNORM_INT8X2, PER_TEXEL, 16 },
	{ CU_AD_FORMAT_UNORM_INT8X4, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_UNORM_INT16X1, PER_TEXEL, 16 },
	{ CU_AD_FORMAT_UNORM_INT16X2, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_UNORM_INT16X4, PER_TEXEL, 64 },
	{ CU_AD_FORMAT_SNORM_INT8X1, PER_TEXEL, 8 },
	{ CU_AD_FORMAT_SNORM_INT8X2, PER_TEXEL, 16 },
	{ CU_AD_FORMAT_SNORM_INT8X4, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_SNORM_INT16X1, PER_TEXEL, 16 },
	{ CU_AD_FORMAT_SNORM_INT16X2, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_SNORM_INT16X4, PER_TEXEL, 64 },
	{ CU_AD_FORMAT_UNORM_INT_101010_2, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_BC1_UNORM, PER_BLOCK, 64 },
	{ CU_AD_FORMAT_BC1_UNORM_SRGB, PER_BLOCK, 64 },
	{ CU_AD_FORMAT_BC2_UNORM, PER_BLOCK, 128 },
	{ CU_AD_FORMAT_BC2_UNORM_SRGB, PER_BLOCK, 128 },
	{ CU_AD_FORMAT_BC3_UNORM, PER_BLOCK, 128 },
	{ CU_AD_FORMAT_BC3_UNORM_SRGB, PER_BLOCK, 128 },
	{ CU_AD_FORMAT_BC4_UNORM, PER_BLOCK, 64 },
	{ CU_AD_FORMAT_BC4_SNORM, PER_BLOCK, 64 },
	{ CU_AD_FORMAT_BC5_UNORM, PER_BLOCK, 128 },
	{ CU_AD_FORMAT_BC5_SNORM, PER_BLOCK, 128 },
	{ CU_AD_FORMAT_BC6H_UF16, PER_BLOCK, 128 },
	{ CU_AD_FORMAT_BC6H_SF16, PER_BLOCK, 128 },
	{ CU_AD_FORMAT_BC7_UNORM, PER_BLOCK, 128 },
	{ CU_AD_FORMAT_BC7_UNORM_SRGB, PER_BLOCK, 128 },
	/* Luma in full, two chroma samples for 4 texels (4:2:0), for 2 (4:2:2), for each (4:4:4). */
	{ CU_AD_FORMAT_NV12, PER_TEXEL, 12 },
	{ CU_AD_FORMAT_P010, PER_TEXEL, 24 },
	{ CU_AD_FORMAT_P016, PER_TEXEL, 24 },
	{ CU_AD_FORMAT_NV16, PER_TEXEL, 16 },
	{ CU_AD_FORMAT_P210, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_P216, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_YUY2, PER_TEXEL, 16 },
	{ CU_AD_FORMAT_Y210, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_Y216, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_AYUV, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_Y410, PER_TEXEL, 32 },
	{ CU_AD_FORMAT_Y416, PER_TEXEL, 64 },
	{ CU_AD_FORMAT_Y444_PLANAR8, PER_TEXEL, 24 },
	{ CU_AD_FORMAT_Y444_PLANAR10, PER_TEXEL, 48 },
	{ CU_AD_FORMAT_YUV444_8bit_SemiPlanar, PER_TEXEL, 24 },
	{ CU_AD_FORMAT_YUV444_16bit_SemiPlanar, PER_TEXEL, 48 },
};

static const struct format unknown_format = { .shape = PER_CHANNEL, .bits = 32 };

static const struct format *find(CUarray_format format)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (formats[i].format == format)
			return &formats[i];
	}
	return &unknown_format;
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t at_least_one(uint64_t extent)
{
	return extent ? extent : 1;
}

static uint64_t level_bytes(const struct format *format, uint32_t channels, uint64_t width,
			    uint64_t height, uint64_t depth)
{
	uint64_t count = times(times(width, height), depth);
	uint64_t bits = format->bits;

	if (format->shape == PER_BLOCK)
		count = times(times(width / 4 + !!(width % 4), height / 4 + !!(height % 4)), depth);
	else if (format->shape == PER_CHANNEL)
		bits *= format == &unknown_format ? 4 : at_least_one(channels);
	if (count > UINT64_MAX / bits)
		return UINT64_MAX;
	return (count * bits + 7) / 8;
}

uint64_t berth_footprint_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
	const struct format *format = find(desc->Format);
	bool layered = desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	uint64_t width = at_least_one(desc->Width);
	uint64_t height = at_least_one(desc->Height);
	uint64_t depth = at_least_one(desc->Depth);
	uint64_t sum = 0;

	if (desc->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	for (unsigned int level = 0; level < (levels ? levels : 1); level++) {
		uint64_t bytes = level_bytes(format, desc->NumChannels, width, height, depth);

		if (__builtin_add_overflow(sum, bytes, &sum))
			return UINT64_MAX;
		if (width == 1 && height == 1 && (layered || depth == 1))
			break;
		width = at_least_one(width / 2);
		height = at_least_one(height / 2);
		/* Layers and the faces of a cube stay as many on every level. */
		depth = layered ? depth : at_least_one(depth / 2);
	}
	return sum;
}
