/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA arrays: rows of elements in device memory that has no address for the program.
 */
#ifndef BERTH_SIM_CUDA_ARRAY_H
#define BERTH_SIM_CUDA_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/cuda_types.h"
#include "sim/cuda/handle.h"

struct sim_block;
struct sim_context;
struct sim_mipmap;

/* How an array's elements lie, one row after the other. */
struct sim_array_shape {
	size_t element_bytes; /* of a compressed format: of a block of 4 x 4 */
	size_t row_bytes;
	size_t row_count; /* of a slice, all planes */
	size_t slice_count;
	size_t bytes;
};

struct sim_array {
	struct sim_handle handle;
	CUDA_ARRAY3D_DESCRIPTOR descriptor;
	struct sim_array_shape shape;
	unsigned gpu;
	struct sim_context *context;
	struct sim_block *block;    /* shared with the owner for a level or plane */
	size_t offset_bytes;        /* in the block */
	struct sim_mipmap *mipmap;  /* a level of it */
	struct sim_array *parent;   /* a plane of it */
	struct sim_array *next;     /* array.c's list */
	struct sim_array *children; /* planes made so far, by their sibling */
	struct sim_array *sibling;
};

struct sim_mipmap {
	struct sim_handle handle;
	CUDA_ARRAY3D_DESCRIPTOR descriptor;
	unsigned gpu;
	struct sim_context *context;
	struct sim_block *block;
	unsigned level_count;
	struct sim_array *levels[32]; /* made with it */
	struct sim_mipmap *next;
};

/* NULL for what isn't a living one. */
struct sim_array *sim_array_get(CUarray handle);
struct sim_mipmap *sim_mipmap_get(CUmipmappedArray handle);
/* Where its first byte lies for the simulator. Notes that it is written to. */
unsigned char *sim_array_bytes(struct sim_array *array);

/* False for a descriptor that no driver would take. */
bool sim_array_shape_of(const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
			struct sim_array_shape *ret_shape);
void sim_array_end_with_context(struct sim_context *context);

#endif
