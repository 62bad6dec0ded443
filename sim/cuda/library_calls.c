/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported functions of libraries (code without a context) and their kernels.
 */
#include <stdlib.h>

#include "sim/cuda/file_image.h"
#include "sim/cuda/module.h"
#include "sim/cuda/stream_state.h"

struct jit {
	unsigned count;
	CUjit_option *options;
	void **values;
};

static struct sim_library *library_new(struct sim_image *image)
{
	struct sim_library *library = sim_handle_new(SIM_HANDLE_LIBRARY, sizeof(*library));
	size_t kernels = image->kernels_count ? image->kernels_count : 1;

	if (!library)
		return NULL;
	library->kernels = calloc(kernels, sizeof(*library->kernels));
	if (!library->kernels) {
		sim_handle_free(library);
		return NULL;
	}
	library->image = sim_image_hold(image);
	for (size_t i = 0; i < image->kernels_count; i++) {
		library->kernels[i] = sim_function_make(SIM_HANDLE_KERNEL, &image->kernels[i]);
		if (library->kernels[i])
			library->kernels[i]->library = library;
	}
	return library;
}

static CUresult load(CUlibrary *ret_library, const void *code, size_t bytes, const struct jit *jit,
		     unsigned options_count, CUlibraryOption *options, void **option_values)
{
	struct sim_library *library;
	struct sim_image *image;
	CUresult err;

	if (!ret_library || !code || (options_count && (!options || !option_values)))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < options_count; i++) {
		if ((int)options[i] < 0 || options[i] >= CU_LIBRARY_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
	}
	err = sim_jit_options(jit->count, jit->options, jit->values, NULL);
	if (err == CUDA_SUCCESS)
		err = sim_image_read(code, bytes, &image);
	if (err != CUDA_SUCCESS)
		return err;
	library = library_new(image);
	sim_image_drop(image);
	if (!library)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_library = (CUlibrary)library;
	return CUDA_SUCCESS;
}

static CUresult load_file(CUlibrary *ret_library, const char *path, const struct jit *jit,
			  unsigned options_count, CUlibraryOption *options, void **option_values)
{
	void *data = NULL;
	size_t bytes;
	CUresult err;

	if (!ret_library || !path)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_file_image_read(path, &data, &bytes);
	if (err == CUDA_SUCCESS)
		err = load(ret_library, data, bytes, jit, options_count, options, option_values);
	free(data);
	return err;
}

static CUresult library_get(CUlibrary handle, struct sim_library **ret_library)
{
	struct sim_library *library = sim_handle_get(SIM_HANDLE_LIBRARY, handle);

	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_library = library;
	return CUDA_SUCCESS;
}

static CUresult unload(CUlibrary handle)
{
	struct sim_library *library;
	CUresult err = library_get(handle, &library);

	if (err == CUDA_SUCCESS)
		sim_library_unload(library);
	return err;
}

static CUresult get_kernel(CUkernel *ret_kernel, CUlibrary handle, const char *name)
{
	const struct sim_kernel_info *info;
	struct sim_library *library;
	struct sim_function *kernel;
	CUresult err;

	if (!ret_kernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	err = library_get(handle, &library);
	if (err != CUDA_SUCCESS)
		return err;
	info = sim_image_kernel(library->image, name);
	if (!info)
		return CUDA_ERROR_NOT_FOUND;
	kernel = library->kernels[info - library->image->kernels];
	if (!kernel)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_kernel = (CUkernel)kernel;
	return CUDA_SUCCESS;
}

static CUresult kernel_count(unsigned *ret_count, CUlibrary handle)
{
	struct sim_library *library;
	CUresult err;

	if (!ret_count)
		return CUDA_ERROR_INVALID_VALUE;
	err = library_get(handle, &library);
	if (err == CUDA_SUCCESS)
		*ret_count = (unsigned)library->image->kernels_count;
	return err;
}

static CUresult enumerate(CUkernel *kernels, unsigned count, CUlibrary handle)
{
	struct sim_library *library;
	CUresult err;

	if (!kernels && count)
		return CUDA_ERROR_INVALID_VALUE;
	err = library_get(handle, &library);
	for (size_t i = 0; err == CUDA_SUCCESS && i < library->image->kernels_count && i < count;
	     i++)
		kernels[i] = (CUkernel)library->kernels[i];
	return err;
}

static CUresult own_module(CUlibrary handle, struct sim_module **ret_module)
{
	struct sim_context *context;
	struct sim_library *library;
	CUresult err = sim_context_current(&context);

	if (err == CUDA_SUCCESS)
		err = library_get(handle, &library);
	if (err == CUDA_SUCCESS)
		err = sim_library_module(library, context, ret_module);
	return err;
}

static CUresult get_module(CUmodule *ret_module, CUlibrary handle)
{
	struct sim_module *module;
	CUresult err;

	if (!ret_module)
		return CUDA_ERROR_INVALID_VALUE;
	err = own_module(handle, &module);
	if (err == CUDA_SUCCESS)
		*ret_module = (CUmodule)module;
	return err;
}

static CUresult get_global(CUdeviceptr *ret_pointer, size_t *ret_bytes, CUlibrary handle,
			   const char *name, bool managed)
{
	const struct sim_variable_info *info;
	struct sim_module *module;
	CUdeviceptr pointer;
	size_t bytes;
	CUresult err;

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	err = own_module(handle, &module);
	if (err != CUDA_SUCCESS)
		return err;
	info = sim_image_variable(module->image, name);
	if (!info || (managed && info->space != SIM_VARIABLE_MANAGED))
		return CUDA_ERROR_NOT_FOUND;
	err = sim_module_variable(module, name, &pointer, &bytes);
	if (err == CUDA_SUCCESS && ret_pointer)
		*ret_pointer = pointer;
	if (err == CUDA_SUCCESS && ret_bytes)
		*ret_bytes = bytes;
	return err;
}

static CUresult unified_function(void **ret_function, CUlibrary handle, const char *name)
{
	struct sim_library *library;

	if (!ret_function || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (library_get(handle, &library) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	return CUDA_ERROR_NOT_FOUND;
}

static CUresult kernel_get(CUkernel handle, struct sim_function **ret_kernel)
{
	struct sim_function *kernel = sim_handle_get(SIM_HANDLE_KERNEL, handle);

	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_kernel = kernel;
	return CUDA_SUCCESS;
}

static CUresult kernel_function(CUfunction *ret_function, CUkernel handle)
{
	struct sim_context *context;
	struct sim_function *kernel, *function;
	CUresult err = sim_context_current(&context);

	if (err == CUDA_SUCCESS && !ret_function)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		err = kernel_get(handle, &kernel);
	if (err == CUDA_SUCCESS)
		err = sim_function_get((CUfunction)kernel, context, &function);
	if (err == CUDA_SUCCESS)
		*ret_function = (CUfunction)function;
	return err;
}

static CUresult kernel_library(CUlibrary *ret_library, CUkernel handle)
{
	struct sim_function *kernel;
	CUresult err;

	if (!ret_library)
		return CUDA_ERROR_INVALID_VALUE;
	err = kernel_get(handle, &kernel);
	if (err == CUDA_SUCCESS)
		*ret_library = (CUlibrary)kernel->library;
	return err;
}

SIM_FUNCTION(cuLibraryLoadData,
	     (CUlibrary * library, const void *code, CUjit_option *jit_options,
	      void **jit_options_values, unsigned int num_jit_options,
	      CUlibraryOption *library_options, void **library_option_values,
	      unsigned int num_library_options),
	     load(library, code, 0,
		  &(struct jit){ num_jit_options, jit_options, jit_options_values },
		  num_library_options, library_options, library_option_values))
SIM_FUNCTION(cuLibraryLoadFromFile,
	     (CUlibrary * library, const char *file_name, CUjit_option *jit_options,
	      void **jit_options_values, unsigned int num_jit_options,
	      CUlibraryOption *library_options, void **library_option_values,
	      unsigned int num_library_options),
	     load_file(library, file_name,
		       &(struct jit){ num_jit_options, jit_options, jit_options_values },
		       num_library_options, library_options, library_option_values))
SIM_FUNCTION(cuLibraryUnload, (CUlibrary library), unload(library))
SIM_FUNCTION(cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char *name),
	     get_kernel(kernel, library, name))
SIM_FUNCTION(cuLibraryGetKernelCount, (unsigned int *count, CUlibrary library),
	     kernel_count(count, library))
SIM_FUNCTION(cuLibraryEnumerateKernels,
	     (CUkernel * kernels, unsigned int num_kernels, CUlibrary library),
	     enumerate(kernels, num_kernels, library))
SIM_FUNCTION(cuLibraryGetModule, (CUmodule * mod, CUlibrary library), get_module(mod, library))
SIM_FUNCTION(cuLibraryGetGlobal,
	     (CUdeviceptr * ptr, size_t *bytes, CUlibrary library, const char *name),
	     get_global(ptr, bytes, library, name, false))
SIM_FUNCTION(cuLibraryGetManaged,
	     (CUdeviceptr * ptr, size_t *bytes, CUlibrary library, const char *name),
	     get_global(ptr, bytes, library, name, true))
SIM_FUNCTION(cuLibraryGetUnifiedFunction, (void **fptr, CUlibrary library, const char *symbol),
	     unified_function(fptr, library, symbol))
SIM_FUNCTION(cuKernelGetFunction, (CUfunction * function, CUkernel kernel),
	     kernel_function(function, kernel))
SIM_FUNCTION(cuKernelGetLibrary, (CUlibrary * library, CUkernel kernel),
	     kernel_library(library, kernel))
