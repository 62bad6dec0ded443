/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported forms of launches, from cuLaunchKernelEx down to cuLaunchGrid of the first API, and
 * the calls that set parameters for the latter.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/capture.h"
#include "sim/cuda/launch.h"

static CUresult launch_on(struct sim_stream *stream, CUfunction function, struct sim_launch *launch)
{
	CUresult err = sim_function_get(function, stream->context, &launch->function);

	if (err == CUDA_SUCCESS)
		err = sim_launch_check(launch, stream->context);
	if (err != CUDA_SUCCESS)
		return err;
	if (sim_stream_is_capturing(stream))
		return sim_capture_launch(stream, launch);
	return sim_launch_run(stream, launch);
}

static CUresult launch(CUfunction function, struct sim_launch *launch, CUstream handle,
		       void **extra, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err == CUDA_SUCCESS && launch->parameters && extra)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		err = sim_launch_extra(launch, extra);
	if (err == CUDA_SUCCESS)
		err = launch_on(stream, function, launch);
	return err;
}

/* One attribute of cuLaunchKernelEx. What only hints at speed is taken without effect. */
static CUresult take_attribute(const CUlaunchAttribute *attribute, struct sim_launch *launch)
{
	switch (attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		launch->is_cooperative = attribute->value.cooperative != 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		/* Clusters came with compute capability 9. */
		if (attribute->value.clusterDim.x > 1 || attribute->value.clusterDim.y > 1 ||
		    attribute->value.clusterDim.z > 1)
			return CUDA_ERROR_INVALID_VALUE;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		if ((int)attribute->id < 0 ||
		    attribute->id > CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING)
			return CUDA_ERROR_INVALID_VALUE;
		return CUDA_SUCCESS;
	}
}

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction function, void **parameters,
			  void **extra, enum sim_form form)
{
	struct sim_launch what;

	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	what = (struct sim_launch){
		.grid = { config->gridDimX, config->gridDimY, config->gridDimZ },
		.block = { config->blockDimX, config->blockDimY, config->blockDimZ },
		.shared_bytes = config->sharedMemBytes,
		.parameters = parameters,
	};
	for (unsigned i = 0; i < config->numAttrs; i++) {
		CUresult err = take_attribute(&config->attrs[i], &what);

		if (err != CUDA_SUCCESS)
			return err;
	}
	return launch(function, &what, config->hStream, extra, form);
}

static CUresult launch_on_devices(CUDA_LAUNCH_PARAMS *list, unsigned count)
{
	CUresult err = CUDA_SUCCESS;

	if (!list || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && err == CUDA_SUCCESS; i++) {
		struct sim_launch what = {
			.grid = { list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ },
			.block = { list[i].blockDimX, list[i].blockDimY, list[i].blockDimZ },
			.shared_bytes = list[i].sharedMemBytes,
			.parameters = list[i].kernelParams,
			.is_cooperative = true,
		};
		struct sim_stream *stream;

		/* Each goes to an explicit stream, whose context may be another than the current. */
		if (!list[i].hStream || list[i].hStream == CU_STREAM_LEGACY ||
		    list[i].hStream == CU_STREAM_PER_THREAD)
			return CUDA_ERROR_INVALID_VALUE;
		err = sim_stream_get(list[i].hStream, SIM_FORM_plain, &stream);
		if (err == CUDA_SUCCESS)
			err = launch_on(stream, list[i].function, &what);
	}
	return err;
}

/* ---- the first API: shape and parameters are set on the function ---- */

static CUresult launch_grid(CUfunction handle, int width, int height, CUstream stream)
{
	struct sim_function *function = sim_handle_get(SIM_HANDLE_FUNCTION, handle);
	struct sim_launch what;

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	what = (struct sim_launch){
		.grid = { (unsigned)width, (unsigned)height, 1 },
		.shared_bytes = function->settings.shared_bytes,
		.buffer = function->settings.parameters,
		.buffer_bytes = function->settings.parameter_bytes,
	};
	memcpy(what.block, function->settings.block, sizeof(what.block));
	return launch(handle, &what, stream, NULL, SIM_FORM_plain);
}

static CUresult set_block_shape(CUfunction handle, int x, int y, int z)
{
	struct sim_function *function = sim_handle_get(SIM_HANDLE_FUNCTION, handle);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (x <= 0 || y <= 0 || z <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	function->settings.block[0] = (unsigned)x;
	function->settings.block[1] = (unsigned)y;
	function->settings.block[2] = (unsigned)z;
	return CUDA_SUCCESS;
}

static CUresult set_shared_size(CUfunction handle, unsigned bytes)
{
	struct sim_function *function = sim_handle_get(SIM_HANDLE_FUNCTION, handle);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	function->settings.shared_bytes = bytes;
	return CUDA_SUCCESS;
}

static CUresult set_parameter(CUfunction handle, int offset, const void *value, size_t bytes)
{
	struct sim_function *function = sim_handle_get(SIM_HANDLE_FUNCTION, handle);
	struct sim_function_settings *settings;

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	settings = &function->settings;
	if (offset < 0 || !value || bytes > SIM_LEGACY_PARAMETER_BYTES ||
	    (size_t)offset > SIM_LEGACY_PARAMETER_BYTES - bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!settings->parameters)
		settings->parameters = calloc(1, SIM_LEGACY_PARAMETER_BYTES);
	if (!settings->parameters)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(settings->parameters + offset, value, bytes);
	return CUDA_SUCCESS;
}

static CUresult set_parameter_size(CUfunction handle, unsigned bytes)
{
	struct sim_function *function = sim_handle_get(SIM_HANDLE_FUNCTION, handle);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (bytes > SIM_LEGACY_PARAMETER_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	function->settings.parameter_bytes = bytes;
	return CUDA_SUCCESS;
}

SIM_STREAM_FORMS(cuLaunchKernel,
		 (CUfunction f, unsigned int grid_dim_x, unsigned int grid_dim_y,
		  unsigned int grid_dim_z, unsigned int block_dim_x, unsigned int block_dim_y,
		  unsigned int block_dim_z, unsigned int shared_mem_bytes, CUstream stream,
		  void **kernel_params, void **extra),
		 launch(f,
			&(struct sim_launch){ .grid = { grid_dim_x, grid_dim_y, grid_dim_z },
					      .block = { block_dim_x, block_dim_y, block_dim_z },
					      .shared_bytes = shared_mem_bytes,
					      .parameters = kernel_params },
			stream, extra, form))
SIM_STREAM_FORMS(cuLaunchCooperativeKernel,
		 (CUfunction f, unsigned int grid_dim_x, unsigned int grid_dim_y,
		  unsigned int grid_dim_z, unsigned int block_dim_x, unsigned int block_dim_y,
		  unsigned int block_dim_z, unsigned int shared_mem_bytes, CUstream stream,
		  void **kernel_params),
		 launch(f,
			&(struct sim_launch){ .grid = { grid_dim_x, grid_dim_y, grid_dim_z },
					      .block = { block_dim_x, block_dim_y, block_dim_z },
					      .shared_bytes = shared_mem_bytes,
					      .is_cooperative = true,
					      .parameters = kernel_params },
			stream, NULL, form))
SIM_STREAM_FORMS(cuLaunchKernelEx,
		 (const CUlaunchConfig *config, CUfunction f, void **kernel_params, void **extra),
		 launch_ex(config, f, kernel_params, extra, form))
SIM_FUNCTION(cuLaunchCooperativeKernelMultiDevice,
	     (CUDA_LAUNCH_PARAMS * launch_params_list, unsigned int num_devices,
	      unsigned int flags),
	     flags > 3 ? CUDA_ERROR_INVALID_VALUE
		       : launch_on_devices(launch_params_list, num_devices))
SIM_FUNCTION(cuLaunch, (CUfunction f), launch_grid(f, 1, 1, NULL))
SIM_FUNCTION(cuLaunchGrid, (CUfunction f, int grid_width, int grid_height),
	     launch_grid(f, grid_width, grid_height, NULL))
SIM_FUNCTION(cuLaunchGridAsync, (CUfunction f, int grid_width, int grid_height, CUstream stream),
	     launch_grid(f, grid_width, grid_height, stream))
SIM_FUNCTION(cuFuncSetBlockShape, (CUfunction function, int x, int y, int z),
	     set_block_shape(function, x, y, z))
SIM_FUNCTION(cuFuncSetSharedSize, (CUfunction function, unsigned int bytes),
	     set_shared_size(function, bytes))
SIM_FUNCTION(cuParamSetSize, (CUfunction function, unsigned int numbytes),
	     set_parameter_size(function, numbytes))
SIM_FUNCTION(cuParamSeti, (CUfunction function, int offset, unsigned int value),
	     set_parameter(function, offset, &value, sizeof(value)))
SIM_FUNCTION(cuParamSetf, (CUfunction function, int offset, float value),
	     set_parameter(function, offset, &value, sizeof(value)))
SIM_FUNCTION(cuParamSetv, (CUfunction function, int offset, void *ptr, unsigned int numbytes),
	     set_parameter(function, offset, ptr, numbytes))
