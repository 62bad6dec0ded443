/* SPDX-License-Identifier: Apache-2.0
 *
 * See image.h.
 */
#include "sim/cuda/image.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/entry.h"

#define FATBIN_WRAPPER_MAGIC 0x466243b1U
#define FATBIN_MAGIC         0xba55ed50U

/* What nvcc puts around a fat binary. */
struct fatbin_wrapper {
	uint32_t magic;
	uint32_t version;
	const void *data;
	const void *unused;
};

static uint32_t first_word(const void *data)
{
	uint32_t word;

	memcpy(&word, data, sizeof(word));
	return word;
}

/* PTX is text; a cubin or a fat binary begins with bytes that no text has. */
static bool looks_like_text(const unsigned char *data, size_t bytes)
{
	for (size_t i = 0; i < 16 && (!bytes || i < bytes); i++) {
		if (data[i] == '\0')
			return i > 0;
		if (data[i] > 126 ||
		    (data[i] < 32 && data[i] != '\t' && data[i] != '\n' && data[i] != '\r'))
			return false;
	}
	return true;
}

static CUresult read_text(const char *text, size_t bytes, struct sim_image *image)
{
	size_t length = bytes ? strnlen(text, bytes) : strlen(text);

	return sim_ptx_read(text, length, image);
}

static CUresult read_into(const void *data, size_t bytes, struct sim_image *image)
{
	void *owned = NULL;
	size_t length;
	CUresult err;

	if (bytes && bytes < sizeof(uint32_t))
		return CUDA_ERROR_INVALID_IMAGE;
	if (looks_like_text(data, bytes))
		return read_text(data, bytes, image);
	if (first_word(data) == FATBIN_WRAPPER_MAGIC) {
		const struct fatbin_wrapper *wrapper = data;

		if (!wrapper->data)
			return CUDA_ERROR_INVALID_IMAGE;
		return read_into(wrapper->data, 0, image);
	}
	if (first_word(data) == FATBIN_MAGIC) {
		err = sim_fatbin_find(data, bytes, &data, &length, &owned);
		if (err == CUDA_SUCCESS)
			err = read_into(data, length, image);
		free(owned);
		return err;
	}
	length = sim_cubin_length(data);
	if (!length || (bytes && length > bytes))
		return CUDA_ERROR_INVALID_IMAGE;
	return sim_cubin_read(data, length, image);
}

/* What PTX a driver's compiler takes. */
static uint32_t ptx_version_max(void)
{
	int driver = sim_driver_version();

	if (driver < 12000)
		return 74;
	if (driver < 12080)
		return 82;
	return driver < 13000 ? 87 : 90;
}

CUresult sim_image_read(const void *data, size_t bytes, struct sim_image **ret_image)
{
	struct sim_image *image;
	CUresult err;

	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	image = calloc(1, sizeof(*image));
	if (!image)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_init(&image->references, 1);
	err = read_into(data, bytes, image);
	if (err == CUDA_SUCCESS && image->ptx_version > ptx_version_max())
		err = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	if (err != CUDA_SUCCESS) {
		sim_image_drop(image);
		return err;
	}
	*ret_image = image;
	return CUDA_SUCCESS;
}

struct sim_image *sim_image_hold(struct sim_image *image)
{
	atomic_fetch_add(&image->references, 1);
	return image;
}

void sim_image_drop(struct sim_image *image)
{
	if (!image || atomic_fetch_sub(&image->references, 1) != 1)
		return;
	for (size_t i = 0; i < image->kernels_count; i++) {
		free(image->kernels[i].name);
		free(image->kernels[i].parameters);
	}
	for (size_t i = 0; i < image->variables_count; i++) {
		free(image->variables[i].name);
		free(image->variables[i].initial);
	}
	free(image->kernels);
	free(image->variables);
	free(image);
}

const struct sim_kernel_info *sim_image_kernel(const struct sim_image *image, const char *name)
{
	for (size_t i = 0; i < image->kernels_count; i++) {
		if (strcmp(image->kernels[i].name, name) == 0)
			return &image->kernels[i];
	}
	return NULL;
}

const struct sim_variable_info *sim_image_variable(const struct sim_image *image, const char *name)
{
	for (size_t i = 0; i < image->variables_count; i++) {
		if (strcmp(image->variables[i].name, name) == 0)
			return &image->variables[i];
	}
	return NULL;
}

/* Room for one more in an array that grows at each power of two. */
static void *grow(void *array, size_t count, size_t size)
{
	if (count & (count - 1))
		return array;
	return realloc(array, (count ? count * 2 : 1) * size);
}

struct sim_kernel_info *sim_image_add_kernel(struct sim_image *image, const char *name,
					     size_t name_length)
{
	struct sim_kernel_info *kernels =
		grow(image->kernels, image->kernels_count, sizeof(*kernels));
	struct sim_kernel_info *kernel;

	if (!kernels)
		return NULL;
	image->kernels = kernels;
	kernel = &kernels[image->kernels_count];
	*kernel = (struct sim_kernel_info){ .name = strndup(name, name_length) };
	if (!kernel->name)
		return NULL;
	image->kernels_count++;
	return kernel;
}

struct sim_variable_info *sim_image_add_variable(struct sim_image *image, const char *name,
						 size_t name_length)
{
	struct sim_variable_info *variables =
		grow(image->variables, image->variables_count, sizeof(*variables));
	struct sim_variable_info *variable;

	if (!variables)
		return NULL;
	image->variables = variables;
	variable = &variables[image->variables_count];
	*variable = (struct sim_variable_info){ .name = strndup(name, name_length) };
	if (!variable->name)
		return NULL;
	image->variables_count++;
	return variable;
}
