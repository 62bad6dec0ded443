/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions and kernels, and what may be asked about and set on them. The same attributes count
 * for a CUkernel on every device: there is one made-up kind of GPU code.
 */
#include <stdlib.h>

#include "sim/cuda/device.h"
#include "sim/cuda/function_limits.h"
#include "sim/cuda/module.h"
#include "sim/cuda/stream_state.h"

struct sim_function *sim_function_make(enum sim_handle_kind kind,
				       const struct sim_kernel_info *info)
{
	struct sim_function *function = sim_handle_new(kind, sizeof(*function));

	if (!function)
		return NULL;
	function->info = info;
	function->host_function = sim_kernel_host_function(info->name);
	function->settings.carveout = CU_SHAREDMEM_CARVEOUT_DEFAULT;
	function->settings.dynamic_shared_max =
		(int)(SIM_SHARED_BYTES_DEFAULT - (info->shared_bytes < SIM_SHARED_BYTES_DEFAULT
							  ? info->shared_bytes
							  : SIM_SHARED_BYTES_DEFAULT));
	/* A bad variable was complained about; a launch then fails. */
	if (sim_kernel_wave_ns(info, &function->wave_ns) != 0)
		function->wave_ns = UINT64_MAX;
	return function;
}

void sim_function_free(struct sim_function *function)
{
	if (!function)
		return;
	free(function->settings.parameters);
	function->settings.parameters = NULL;
	sim_handle_free(function);
}

struct sim_function *sim_function_find(const void *handle)
{
	struct sim_function *function = sim_handle_get(SIM_HANDLE_FUNCTION, handle);

	return function ? function : sim_handle_get(SIM_HANDLE_KERNEL, handle);
}

CUresult sim_function_get(CUfunction handle, struct sim_context *context,
			  struct sim_function **ret_function)
{
	struct sim_function *function = sim_handle_get(SIM_HANDLE_FUNCTION, handle);
	struct sim_function *kernel;
	struct sim_module *module;
	CUresult err;

	if (function) {
		*ret_function = function;
		return CUDA_SUCCESS;
	}
	kernel = sim_handle_get(SIM_HANDLE_KERNEL, handle);
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	err = sim_library_module(kernel->library, context, &module);
	if (err != CUDA_SUCCESS)
		return err;
	err = sim_module_function(module, kernel->info, &function);
	if (err != CUDA_SUCCESS)
		return err;
	/* What was set on the kernel counts wherever it runs. */
	function->settings.dynamic_shared_max = kernel->settings.dynamic_shared_max;
	function->settings.carveout = kernel->settings.carveout;
	*ret_function = function;
	return CUDA_SUCCESS;
}

static int attribute_of(const struct sim_function *function, CUfunction_attribute attribute)
{
	const struct sim_kernel_info *info = function->info;
	const struct sim_function_settings *settings = &function->settings;

	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		return (int)info->threads_max;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		return (int)info->shared_bytes;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		return (int)info->constant_bytes;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		return (int)info->local_bytes;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		return (int)info->registers_count;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		return SIM_BINARY_VERSION;
	case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
		return 0;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		return settings->dynamic_shared_max;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return settings->carveout;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
		return settings->cluster_required;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		return settings->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		return settings->allows_big_clusters;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		return settings->cluster_policy;
	}
	return 0;
}

static bool is_attribute(CUfunction_attribute attribute)
{
	return (int)attribute >= 0 &&
	       attribute <= CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
}

static CUresult get_attribute(int *ret_value, CUfunction_attribute attribute, const void *handle)
{
	struct sim_function *function;

	if (!ret_value || !is_attribute(attribute))
		return CUDA_ERROR_INVALID_VALUE;
	function = sim_function_find(handle);
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_value = attribute_of(function, attribute);
	return CUDA_SUCCESS;
}

static CUresult set_attribute(const void *handle, CUfunction_attribute attribute, int value)
{
	struct sim_function *function = sim_function_find(handle);
	struct sim_function_settings *settings;

	if (!is_attribute(attribute))
		return CUDA_ERROR_INVALID_VALUE;
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	settings = &function->settings;
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 ||
		    (unsigned)value + function->info->shared_bytes > SIM_SHARED_BYTES_OPTIN)
			return CUDA_ERROR_INVALID_VALUE;
		settings->dynamic_shared_max = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < CU_SHAREDMEM_CARVEOUT_DEFAULT ||
		    value > CU_SHAREDMEM_CARVEOUT_MAX_SHARED)
			return CUDA_ERROR_INVALID_VALUE;
		settings->carveout = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		if (value < 0)
			return CUDA_ERROR_INVALID_VALUE;
		settings->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		settings->allows_big_clusters = value != 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		settings->cluster_policy = value;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE; /* read only */
	}
}

static CUresult kernel_attribute(int *ret_value, CUfunction_attribute attribute, CUkernel kernel,
				 CUdevice device)
{
	unsigned gpu;
	CUresult err = sim_device_gpu(device, &gpu);

	return err != CUDA_SUCCESS ? err : get_attribute(ret_value, attribute, kernel);
}

static CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel kernel,
				     CUdevice device)
{
	unsigned gpu;
	CUresult err = sim_device_gpu(device, &gpu);

	return err != CUDA_SUCCESS ? err : set_attribute(kernel, attribute, value);
}

static CUresult get_name(const char **ret_name, const void *handle)
{
	struct sim_function *function = sim_function_find(handle);

	if (!ret_name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_name = function->info->name;
	return CUDA_SUCCESS;
}

static CUresult get_module(CUmodule *ret_module, CUfunction handle)
{
	struct sim_function *function = sim_handle_get(SIM_HANDLE_FUNCTION, handle);

	if (!ret_module)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_module = (CUmodule)function->module;
	return CUDA_SUCCESS;
}

static CUresult parameter_info(const void *handle, size_t index, size_t *ret_offset,
			       size_t *ret_size)
{
	struct sim_function *function = sim_function_find(handle);

	if (!ret_offset)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (index >= function->info->parameters_count)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_offset = function->info->parameters[index].offset_bytes;
	if (ret_size)
		*ret_size = function->info->parameters[index].size_bytes;
	return CUDA_SUCCESS;
}

static CUresult is_loaded(CUfunctionLoadingState *ret_state, CUfunction handle)
{
	if (!ret_state)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_function_find(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

static CUresult check_only(const void *handle, bool good)
{
	if (!sim_function_find(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_cache_config(CUfunc_cache config)
{
	return (int)config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
}

SIM_FUNCTION(cuFuncGetAttribute, (int *pi, CUfunction_attribute attrib, CUfunction function),
	     get_attribute(pi, attrib, function))
SIM_FUNCTION(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attrib, int value),
	     set_attribute(function, attrib, value))
SIM_FUNCTION(cuFuncGetModule, (CUmodule * hmod, CUfunction function), get_module(hmod, function))
SIM_FUNCTION(cuFuncGetName, (const char **name, CUfunction function), get_name(name, function))
SIM_FUNCTION(cuFuncGetParamInfo,
	     (CUfunction function, size_t param_index, size_t *param_offset, size_t *param_size),
	     parameter_info(function, param_index, param_offset, param_size))
SIM_FUNCTION(cuFuncIsLoaded, (CUfunctionLoadingState * state, CUfunction function),
	     is_loaded(state, function))
SIM_FUNCTION(cuFuncLoad, (CUfunction function), check_only(function, true))
SIM_FUNCTION(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache config),
	     check_only(function, is_cache_config(config)))
SIM_FUNCTION(cuFuncSetSharedMemConfig, (CUfunction function, CUsharedconfig config),
	     check_only(function, (unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE))
SIM_FUNCTION(cuKernelGetAttribute,
	     (int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice device),
	     kernel_attribute(pi, attrib, kernel, device))
SIM_FUNCTION(cuKernelSetAttribute,
	     (CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice device),
	     kernel_set_attribute(attrib, val, kernel, device))
SIM_FUNCTION(cuKernelGetName, (const char **name, CUkernel function), get_name(name, function))
SIM_FUNCTION(cuKernelGetParamInfo,
	     (CUkernel kernel, size_t param_index, size_t *param_offset, size_t *param_size),
	     parameter_info(kernel, param_index, param_offset, param_size))
SIM_FUNCTION(cuKernelSetCacheConfig, (CUkernel kernel, CUfunc_cache config, CUdevice device),
	     check_only(kernel, is_cache_config(config) && device >= 0))
