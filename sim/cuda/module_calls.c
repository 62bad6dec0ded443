/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported functions of modules.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/file_image.h"
#include "sim/cuda/module.h"
#include "sim/cuda/stream_state.h"

static CUresult load(CUmodule *ret_module, const void *data, size_t bytes)
{
	struct sim_context *context;
	struct sim_module *module;
	struct sim_image *image;
	CUresult err = sim_context_current(&context);

	if (err != CUDA_SUCCESS)
		return err;
	if (!ret_module || !data)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_capture_forbid();
	if (err == CUDA_SUCCESS)
		err = sim_image_read(data, bytes, &image);
	if (err != CUDA_SUCCESS)
		return err;
	err = sim_module_load(context, image, NULL, &module);
	sim_image_drop(image);
	if (err == CUDA_SUCCESS)
		*ret_module = (CUmodule)module;
	return err;
}

static CUresult load_with_options(CUmodule *ret_module, const void *image, unsigned count,
				  CUjit_option *options, void **values)
{
	CUresult err;

	if (count && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	err = load(ret_module, image, 0);
	if (err != CUDA_SUCCESS) {
		/* The load's error counts, whatever is wrong with the options beside it. */
		(void)sim_jit_options(count, options, values, "berth-sim: error: bad image");
		return err;
	}
	err = sim_jit_options(count, options, values, NULL);
	if (err != CUDA_SUCCESS)
		sim_module_unload((struct sim_module *)*ret_module);
	return err;
}

static CUresult load_file(CUmodule *ret_module, const char *path)
{
	void *data = NULL;
	size_t bytes;
	CUresult err;

	if (!ret_module || !path)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_file_image_read(path, &data, &bytes);
	if (err == CUDA_SUCCESS)
		err = load(ret_module, data, bytes);
	free(data);
	return err;
}

static CUresult unload(CUmodule handle)
{
	struct sim_module *module;
	CUresult err = sim_module_get(handle, &module);

	if (err == CUDA_SUCCESS && module->library)
		err = CUDA_ERROR_NOT_PERMITTED; /* its library's to unload */
	if (err == CUDA_SUCCESS)
		err = sim_stream_drain_context(module->context);
	if (err == CUDA_SUCCESS)
		sim_module_unload(module);
	return err;
}

static CUresult get_function(CUfunction *ret_function, CUmodule handle, const char *name)
{
	const struct sim_kernel_info *info;
	struct sim_function *function;
	struct sim_module *module;
	CUresult err;

	if (!ret_function || !name)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_module_get(handle, &module);
	if (err != CUDA_SUCCESS)
		return err;
	info = sim_image_kernel(module->image, name);
	if (!info)
		return CUDA_ERROR_NOT_FOUND;
	err = sim_module_function(module, info, &function);
	if (err == CUDA_SUCCESS)
		*ret_function = (CUfunction)function;
	return err;
}

static CUresult get_global(CUdeviceptr *ret_pointer, size_t *ret_bytes, CUmodule handle,
			   const char *name)
{
	struct sim_module *module;
	CUdeviceptr pointer;
	size_t bytes;
	CUresult err;

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_module_get(handle, &module);
	if (err == CUDA_SUCCESS)
		err = sim_module_variable(module, name, &pointer, &bytes);
	if (err != CUDA_SUCCESS)
		return err;
	if (ret_pointer)
		*ret_pointer = pointer;
	if (ret_bytes)
		*ret_bytes = bytes;
	return CUDA_SUCCESS;
}

/* The first API's addresses had 32 bits: what doesn't fit is not stored cut. */
static CUresult get_global_v1(CUdeviceptr_v1 *ret_pointer, unsigned *ret_bytes, CUmodule handle,
			      const char *name)
{
	CUdeviceptr pointer;
	size_t bytes;
	CUresult err = get_global(&pointer, &bytes, handle, name);

	if (err != CUDA_SUCCESS)
		return err;
	if (ret_pointer && pointer > UINT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (ret_pointer)
		*ret_pointer = (CUdeviceptr_v1)pointer;
	if (ret_bytes)
		*ret_bytes = (unsigned)bytes;
	return CUDA_SUCCESS;
}

static CUresult function_count(unsigned *ret_count, CUmodule handle)
{
	struct sim_module *module;
	CUresult err;

	if (!ret_count)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_module_get(handle, &module);
	if (err == CUDA_SUCCESS)
		*ret_count = (unsigned)module->image->kernels_count;
	return err;
}

static CUresult enumerate(CUfunction *functions, unsigned count, CUmodule handle)
{
	struct sim_module *module;
	CUresult err;

	if (!functions && count)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_module_get(handle, &module);
	for (size_t i = 0; err == CUDA_SUCCESS && i < module->image->kernels_count && i < count;
	     i++) {
		struct sim_function *function;

		err = sim_module_function(module, &module->image->kernels[i], &function);
		if (err == CUDA_SUCCESS)
			functions[i] = (CUfunction)function;
	}
	return err;
}

static CUresult loading_mode(CUmoduleLoadingMode *ret_mode)
{
	const char *wanted = getenv("CUDA_MODULE_LOADING");

	if (!ret_mode)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_mode = wanted && strcmp(wanted, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING
							   : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}

SIM_FUNCTION(cuModuleLoad, (CUmodule * module, const char *path), load_file(module, path))
SIM_FUNCTION(cuModuleLoadData, (CUmodule * module, const void *image), load(module, image, 0))
SIM_FUNCTION(cuModuleLoadDataEx,
	     (CUmodule * module, const void *image, unsigned int num_options, CUjit_option *options,
	      void **option_values),
	     load_with_options(module, image, num_options, options, option_values))
SIM_FUNCTION(cuModuleLoadFatBinary, (CUmodule * module, const void *fat_cubin),
	     load(module, fat_cubin, 0))
SIM_FUNCTION(cuModuleUnload, (CUmodule hmod), unload(hmod))
SIM_FUNCTION(cuModuleGetFunction, (CUfunction * function, CUmodule hmod, const char *name),
	     get_function(function, hmod, name))
SIM_FUNCTION(cuModuleGetGlobal,
	     (CUdeviceptr_v1 * ptr, unsigned int *bytes, CUmodule hmod, const char *name),
	     get_global_v1(ptr, bytes, hmod, name))
SIM_FUNCTION(cuModuleGetGlobal_v2,
	     (CUdeviceptr * ptr, size_t *bytes, CUmodule hmod, const char *name),
	     get_global(ptr, bytes, hmod, name))
SIM_FUNCTION(cuModuleGetFunctionCount, (unsigned int *count, CUmodule mod),
	     function_count(count, mod))
SIM_FUNCTION(cuModuleEnumerateFunctions,
	     (CUfunction * functions, unsigned int num_functions, CUmodule mod),
	     enumerate(functions, num_functions, mod))
SIM_FUNCTION(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), loading_mode(mode))
