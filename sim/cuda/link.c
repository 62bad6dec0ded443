/* SPDX-License-Identifier: Apache-2.0
 *
 * Linking device code. Inputs are read as images, so bad ones are refused when they are added; what
 * comes out is an image that holds the kernels and variables of all of them: PTX text is joined,
 * and a cubin (or the first of several) goes through as it is if nothing else was added.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/file_image.h"
#include "sim/cuda/module.h"
#include "sim/cuda/stream_state.h"

struct sim_link {
	struct sim_handle handle;
	char *text; /* PTX joined so far */
	size_t text_bytes;
	void *binary; /* the one input that isn't PTX */
	size_t binary_bytes;
	bool is_complete;
};

static CUresult create(unsigned count, CUjit_option *options, void **values, CUlinkState *ret_state)
{
	struct sim_context *context;
	struct sim_link *link;
	CUresult err = sim_context_current(&context);

	if (err == CUDA_SUCCESS && !ret_state)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		err = sim_jit_options(count, options, values, NULL);
	if (err != CUDA_SUCCESS)
		return err;
	link = sim_handle_new(SIM_HANDLE_LINK, sizeof(*link));
	if (!link)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_state = (CUlinkState)link;
	return CUDA_SUCCESS;
}

static CUresult link_get(CUlinkState handle, struct sim_link **ret_link)
{
	struct sim_link *link = sim_handle_get(SIM_HANDLE_LINK, handle);

	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_link = link;
	return CUDA_SUCCESS;
}

static CUresult append_text(struct sim_link *link, const char *text, size_t bytes)
{
	size_t length = strnlen(text, bytes);
	char *grown = realloc(link->text, link->text_bytes + length + 2);

	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(grown + link->text_bytes, text, length);
	link->text = grown;
	link->text_bytes += length;
	grown[link->text_bytes++] = '\n';
	grown[link->text_bytes] = '\0';
	return CUDA_SUCCESS;
}

static CUresult keep_binary(struct sim_link *link, const void *data, size_t bytes)
{
	if (link->binary || link->text)
		return CUDA_ERROR_NOT_SUPPORTED; /* joining machine code is a linker's work */
	link->binary = malloc(bytes);
	if (!link->binary)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(link->binary, data, bytes);
	link->binary_bytes = bytes;
	return CUDA_SUCCESS;
}

static CUresult add_read(struct sim_link *link, CUjitInputType type, const void *data, size_t bytes)
{
	struct sim_image *image;
	CUresult err = sim_image_read(data, bytes, &image);

	if (err != CUDA_SUCCESS)
		return err;
	sim_image_drop(image);
	if (type == CU_JIT_INPUT_PTX)
		return link->binary ? CUDA_ERROR_NOT_SUPPORTED : append_text(link, data, bytes);
	return keep_binary(link, data, bytes);
}

static bool is_input(CUjitInputType type)
{
	return (int)type >= CU_JIT_INPUT_CUBIN && type < CU_JIT_NUM_INPUT_TYPES &&
	       type != CU_JIT_INPUT_NVVM;
}

static CUresult add_data(CUlinkState handle, CUjitInputType type, const void *data, size_t bytes,
			 unsigned count, CUjit_option *options, void **values)
{
	struct sim_link *link;
	CUresult err = link_get(handle, &link);

	if (err == CUDA_SUCCESS && (!data || !bytes || !is_input(type) || link->is_complete))
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		err = add_read(link, type, data, bytes);
	if (err != CUDA_SUCCESS)
		return err;
	return sim_jit_options(count, options, values, NULL);
}

static CUresult add_file(CUlinkState handle, CUjitInputType type, const char *path, unsigned count,
			 CUjit_option *options, void **values)
{
	void *data = NULL;
	size_t bytes;
	CUresult err = path ? sim_file_image_read(path, &data, &bytes) : CUDA_ERROR_INVALID_VALUE;

	if (err == CUDA_SUCCESS)
		err = add_data(handle, type, data, bytes, count, options, values);
	free(data);
	return err;
}

static CUresult complete(CUlinkState handle, void **ret_image, size_t *ret_bytes)
{
	struct sim_link *link;
	CUresult err = ret_image ? link_get(handle, &link) : CUDA_ERROR_INVALID_VALUE;

	if (err == CUDA_SUCCESS && !link->text && !link->binary)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err != CUDA_SUCCESS)
		return err;
	link->is_complete = true;
	*ret_image = link->text ? link->text : link->binary;
	if (ret_bytes)
		*ret_bytes = link->text ? link->text_bytes + 1 : link->binary_bytes;
	return CUDA_SUCCESS;
}

static CUresult destroy(CUlinkState handle)
{
	struct sim_link *link;
	CUresult err = link_get(handle, &link);

	if (err != CUDA_SUCCESS)
		return err;
	free(link->text);
	free(link->binary);
	link->text = NULL;
	link->binary = NULL;
	sim_handle_free(link);
	return CUDA_SUCCESS;
}

SIM_FUNCTION(cuLinkCreate,
	     (unsigned int num_options, CUjit_option *options, void **option_values,
	      CUlinkState *state_out),
	     create(num_options, options, option_values, state_out))
SIM_FUNCTION(cuLinkCreate_v2,
	     (unsigned int num_options, CUjit_option *options, void **option_values,
	      CUlinkState *state_out),
	     create(num_options, options, option_values, state_out))
SIM_FUNCTION(cuLinkAddData,
	     (CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name,
	      unsigned int num_options, CUjit_option *options, void **option_values),
	     ((void)name, add_data(state, type, data, bytes, num_options, options, option_values)))
SIM_FUNCTION(cuLinkAddData_v2,
	     (CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name,
	      unsigned int num_options, CUjit_option *options, void **option_values),
	     ((void)name, add_data(state, type, data, bytes, num_options, options, option_values)))
SIM_FUNCTION(cuLinkAddFile,
	     (CUlinkState state, CUjitInputType type, const char *path, unsigned int num_options,
	      CUjit_option *options, void **option_values),
	     add_file(state, type, path, num_options, options, option_values))
SIM_FUNCTION(cuLinkAddFile_v2,
	     (CUlinkState state, CUjitInputType type, const char *path, unsigned int num_options,
	      CUjit_option *options, void **option_values),
	     add_file(state, type, path, num_options, options, option_values))
SIM_FUNCTION(cuLinkComplete, (CUlinkState state, void **cubin_out, size_t *size_out),
	     complete(state, cubin_out, size_out))
SIM_FUNCTION(cuLinkDestroy, (CUlinkState state), destroy(state))
