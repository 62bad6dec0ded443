/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules, libraries, functions, kernels. A module is an image in one context, its variables in
 * that context's memory. A library is an image without a context; where it is used, it gets a
 * module of its own there. A CUkernel is a library's, a CUfunction a module's; a launch takes both.
 */
#ifndef BERTH_SIM_CUDA_MODULE_H
#define BERTH_SIM_CUDA_MODULE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda_types.h"
#include "sim/cuda/context.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/image.h"

#define SIM_LEGACY_PARAMETER_BYTES 4096U

/* What cuFuncSet* and cuParamSet* change. */
struct sim_function_settings {
	int dynamic_shared_max;
	int carveout;
	int cluster[3];
	int cluster_required;
	int cluster_policy;
	int allows_big_clusters;
	unsigned block[3]; /* the old launch calls' */
	unsigned shared_bytes;
	unsigned parameter_bytes;
	unsigned char *parameters;
};

struct sim_module {
	struct sim_handle handle;
	struct sim_context *context;
	uint64_t incarnation;
	struct sim_image *image;
	struct sim_library *library;     /* whose it is, or NULL */
	struct sim_function **functions; /* as kernels of the image; made when asked for */
	CUdeviceptr *variables;          /* as variables of the image */
	struct sim_module *next;         /* in its context */
};

struct sim_library {
	struct sim_handle handle;
	struct sim_image *image;
	struct sim_function **kernels;
	/* One for each context that used it; those that ended with theirs are dead handles. */
	struct sim_module **modules;
	size_t modules_count;
};

/* A CUfunction (module set) or a CUkernel (library set). */
struct sim_function {
	struct sim_handle handle;
	const struct sim_kernel_info *info;
	struct sim_module *module;
	struct sim_library *library;
	uint64_t wave_ns; /* device time of a wave of blocks */
	void (*host_function)(void);
	struct sim_function_settings settings;
};

CUresult sim_module_load(struct sim_context *context, struct sim_image *image,
			 struct sim_library *library, struct sim_module **ret_module);
void sim_module_unload(struct sim_module *module);
void sim_library_unload(struct sim_library *library);
/* INVALID_HANDLE, CONTEXT_IS_DESTROYED */
CUresult sim_module_get(CUmodule handle, struct sim_module **ret_module);
/* The library's module in the context, loaded if need be. */
CUresult sim_library_module(struct sim_library *library, struct sim_context *context,
			    struct sim_module **ret_module);
CUresult sim_module_function(struct sim_module *module, const struct sim_kernel_info *info,
			     struct sim_function **ret_function);
CUresult sim_module_variable(struct sim_module *module, const char *name, CUdeviceptr *ret_pointer,
			     size_t *ret_bytes);

struct sim_function *sim_function_make(enum sim_handle_kind kind,
				       const struct sim_kernel_info *info);
void sim_function_free(struct sim_function *function);
/* A CUfunction, or a CUkernel as its function in the context. INVALID_HANDLE. */
CUresult sim_function_get(CUfunction handle, struct sim_context *context,
			  struct sim_function **ret_function);
/* Either, without a context. NULL: neither. */
struct sim_function *sim_function_find(const void *handle);

/* Device time of a wave: the image's word, BERTH_SIM_KERNEL_COST, or 1 us. -EINVAL: it is wrong. */
int sim_kernel_wave_ns(const struct sim_kernel_info *info, uint64_t *ret_ns);
/* The host function that a plug-in has for a kernel, or NULL. */
void (*sim_kernel_host_function(const char *name))(void);

/* Checks and answers options of the just-in-time compiler; `error` goes into the program's log. */
CUresult sim_jit_options(unsigned count, CUjit_option *options, void **values, const char *error);

#endif
