/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program's device code says about itself: its kernels and variables, read from PTX text,
 * a cubin (ELF) or a fat binary that holds either. The code itself is never run; a kernel computes
 * only if a plug-in brings a host function for it (plugin.h).
 *
 * An image is shared by all modules and libraries made from it and never changes once read.
 */
#ifndef BERTH_SIM_CUDA_IMAGE_H
#define BERTH_SIM_CUDA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/cuda_types.h"

#define SIM_KERNEL_PARAMETERS 256U

struct sim_parameter {
	uint32_t offset_bytes;
	uint32_t size_bytes;
};

struct sim_kernel_info {
	char *name;
	struct sim_parameter *parameters;
	uint32_t parameters_count;
	bool parameters_known;
	uint32_t registers_count;
	uint32_t threads_max;  /* per block */
	uint32_t shared_bytes; /* static */
	uint32_t constant_bytes;
	uint32_t local_bytes;
	uint64_t cost_ns; /* of a wave, said by the image; 0: nothing said */
};

enum sim_variable_space {
	SIM_VARIABLE_GLOBAL,
	SIM_VARIABLE_CONSTANT,
	SIM_VARIABLE_MANAGED,
	SIM_VARIABLE_TEXTURE, /* .texref, .surfref: a reference, no memory */
};

struct sim_variable_info {
	char *name;
	enum sim_variable_space space;
	size_t size_bytes;
	size_t align_bytes;
	unsigned char *initial; /* size_bytes of it, or NULL for zeroes */
};

struct sim_image {
	_Atomic uint32_t references;
	struct sim_kernel_info *kernels;
	size_t kernels_count;
	struct sim_variable_info *variables;
	size_t variables_count;
	uint32_t ptx_version; /* 10 * major + minor; 0: not PTX */
	uint32_t target;      /* of PTX: 86 for sm_86 */
};

/* INVALID_IMAGE, INVALID_PTX, UNSUPPORTED_PTX_VERSION, OUT_OF_MEMORY. `bytes` 0: the image says
 * itself where it ends. */
CUresult sim_image_read(const void *data, size_t bytes, struct sim_image **ret_image);
struct sim_image *sim_image_hold(struct sim_image *image);
void sim_image_drop(struct sim_image *image);

const struct sim_kernel_info *sim_image_kernel(const struct sim_image *image, const char *name);
const struct sim_variable_info *sim_image_variable(const struct sim_image *image, const char *name);

/* The readers of one format each; they add to the image. */
CUresult sim_ptx_read(const char *text, size_t length, struct sim_image *image);
CUresult sim_cubin_read(const unsigned char *elf, size_t length, struct sim_image *image);
/* The best entry of a fat binary; *ret_owned must be freed if not NULL. */
CUresult sim_fatbin_find(const unsigned char *fatbin, size_t length, const void **ret_data,
			 size_t *ret_length, void **ret_owned);
/* How long a cubin is by its own tables; 0 if it isn't one. */
size_t sim_cubin_length(const unsigned char *elf);

/* A zeroed entry more; NULL: out of memory. The name is copied. */
struct sim_kernel_info *sim_image_add_kernel(struct sim_image *image, const char *name,
					     size_t name_length);
struct sim_variable_info *sim_image_add_variable(struct sim_image *image, const char *name,
						 size_t name_length);

#endif
