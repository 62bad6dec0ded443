/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules in their contexts; see module.h. One lock a context guards its list and the lazily made
 * functions; it is not held while memory is asked for.
 */
#include "sim/cuda/module.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cuda/entry.h"
#include "sim/cuda/memory.h"

/* parts[SIM_PART_MODULE]; stays allocated when its context ends, like a context's streams. */
struct sim_modules {
	pthread_mutex_t lock;
	struct sim_module *first;
};

static CUresult modules_of(struct sim_context *context, struct sim_modules **ret_modules)
{
	_Atomic(void *) *part = &context->parts[SIM_PART_MODULE];
	struct sim_modules *modules = atomic_load_explicit(part, memory_order_acquire);
	void *none = NULL;

	if (!modules) {
		modules = calloc(1, sizeof(*modules));
		if (!modules)
			return CUDA_ERROR_OUT_OF_MEMORY;
		pthread_mutex_init(&modules->lock, NULL);
		if (!atomic_compare_exchange_strong(part, &none, modules)) {
			free(modules);
			modules = none;
		}
	}
	*ret_modules = modules;
	return CUDA_SUCCESS;
}

static struct sim_modules *own_modules(const struct sim_module *module)
{
	return atomic_load_explicit(&module->context->parts[SIM_PART_MODULE], memory_order_acquire);
}

static CUresult load_variable(struct sim_module *module, const struct sim_variable_info *info,
			      CUdeviceptr *ret_pointer)
{
	size_t bytes = info->size_bytes ? info->size_bytes : 1;
	enum sim_memory_kind kind =
		info->space == SIM_VARIABLE_MANAGED ? SIM_MEMORY_MANAGED : SIM_MEMORY_MODULE;
	CUdeviceptr pointer;
	void *host;
	CUresult err;

	if (info->space == SIM_VARIABLE_TEXTURE)
		return CUDA_SUCCESS;
	err = sim_memory_allocate(module->context, kind, bytes, info->align_bytes, &pointer);
	if (err != CUDA_SUCCESS)
		return err;
	err = sim_memory_resolve(pointer, bytes, SIM_WRITE, &host);
	if (err != CUDA_SUCCESS)
		return err;
	if (info->initial)
		memcpy(host, info->initial, info->size_bytes);
	else
		memset(host, 0, bytes);
	*ret_pointer = pointer;
	return CUDA_SUCCESS;
}

/* What is in it, not its handle. */
static void module_done(struct sim_module *module)
{
	for (size_t i = 0; module->variables && i < module->image->variables_count; i++) {
		if (module->variables[i])
			(void)sim_memory_free(module->variables[i]); /* or went with a reset */
	}
	for (size_t i = 0; module->functions && i < module->image->kernels_count; i++)
		sim_function_free(module->functions[i]);
	free(module->variables);
	free(module->functions);
	sim_image_drop(module->image);
	module->variables = NULL;
	module->functions = NULL;
	module->image = NULL;
}

static CUresult fill(struct sim_module *module, struct sim_image *image)
{
	size_t kernels = image->kernels_count ? image->kernels_count : 1;
	size_t variables = image->variables_count ? image->variables_count : 1;

	module->image = sim_image_hold(image);
	module->functions = calloc(kernels, sizeof(*module->functions));
	module->variables = calloc(variables, sizeof(*module->variables));
	if (!module->functions || !module->variables)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < image->variables_count; i++) {
		CUresult err = load_variable(module, &image->variables[i], &module->variables[i]);

		if (err != CUDA_SUCCESS)
			return err;
	}
	return CUDA_SUCCESS;
}

CUresult sim_module_load(struct sim_context *context, struct sim_image *image,
			 struct sim_library *library, struct sim_module **ret_module)
{
	struct sim_modules *modules;
	struct sim_module *module;
	CUresult err = modules_of(context, &modules);

	if (err != CUDA_SUCCESS)
		return err;
	module = sim_handle_new(SIM_HANDLE_MODULE, sizeof(*module));
	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->context = context;
	module->incarnation = atomic_load(&context->incarnation);
	module->library = library;
	err = fill(module, image);
	if (err != CUDA_SUCCESS) {
		module_done(module);
		sim_handle_free(module);
		return err;
	}
	pthread_mutex_lock(&modules->lock);
	module->next = modules->first;
	modules->first = module;
	pthread_mutex_unlock(&modules->lock);
	*ret_module = module;
	return CUDA_SUCCESS;
}

void sim_module_unload(struct sim_module *module)
{
	struct sim_modules *modules = own_modules(module);
	struct sim_module **link;

	pthread_mutex_lock(&modules->lock);
	for (link = &modules->first; *link && *link != module; link = &(*link)->next)
		continue;
	if (*link)
		*link = module->next;
	pthread_mutex_unlock(&modules->lock);
	module_done(module);
	sim_handle_free(module);
}

CUresult sim_module_get(CUmodule handle, struct sim_module **ret_module)
{
	struct sim_module *module = sim_handle_get(SIM_HANDLE_MODULE, handle);

	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!sim_context_is_alive(module->context) ||
	    atomic_load(&module->context->incarnation) != module->incarnation)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_module = module;
	return CUDA_SUCCESS;
}

/* Guards the libraries' lists; two threads that launch a kernel first must load it once. */
static pthread_mutex_t libraries_lock_ = PTHREAD_MUTEX_INITIALIZER;

/* A slot whose module is dead or, used again since, another's. */
static bool is_stale(const struct sim_library *library, size_t slot)
{
	struct sim_module *module = sim_handle_get(SIM_HANDLE_MODULE, library->modules[slot]);

	return !module || module->library != library;
}

static CUresult library_slot_locked(struct sim_library *library, size_t *ret_slot)
{
	struct sim_module **modules;

	for (size_t slot = 0; slot < library->modules_count; slot++) {
		if (is_stale(library, slot)) {
			*ret_slot = slot;
			return CUDA_SUCCESS;
		}
	}
	modules = realloc(library->modules, (library->modules_count + 1) * sizeof(*modules));
	if (!modules)
		return CUDA_ERROR_OUT_OF_MEMORY;
	library->modules = modules;
	modules[library->modules_count] = NULL;
	*ret_slot = library->modules_count++;
	return CUDA_SUCCESS;
}

static CUresult library_module_locked(struct sim_library *library, struct sim_context *context,
				      struct sim_module **ret_module)
{
	size_t slot;
	CUresult err;

	for (slot = 0; slot < library->modules_count; slot++) {
		if (!is_stale(library, slot) && library->modules[slot]->context == context) {
			*ret_module = library->modules[slot];
			return CUDA_SUCCESS;
		}
	}
	err = library_slot_locked(library, &slot);
	if (err == CUDA_SUCCESS)
		err = sim_module_load(context, library->image, library, &library->modules[slot]);
	if (err == CUDA_SUCCESS)
		*ret_module = library->modules[slot];
	return err;
}

CUresult sim_library_module(struct sim_library *library, struct sim_context *context,
			    struct sim_module **ret_module)
{
	CUresult err;

	pthread_mutex_lock(&libraries_lock_);
	err = library_module_locked(library, context, ret_module);
	pthread_mutex_unlock(&libraries_lock_);
	return err;
}

void sim_library_unload(struct sim_library *library)
{
	pthread_mutex_lock(&libraries_lock_);
	for (size_t slot = 0; slot < library->modules_count; slot++) {
		if (!is_stale(library, slot))
			sim_module_unload(library->modules[slot]);
	}
	free(library->modules);
	library->modules = NULL;
	library->modules_count = 0;
	pthread_mutex_unlock(&libraries_lock_);
	for (size_t i = 0; i < library->image->kernels_count; i++)
		sim_function_free(library->kernels[i]);
	free(library->kernels);
	sim_image_drop(library->image);
	sim_handle_free(library);
}

CUresult sim_module_function(struct sim_module *module, const struct sim_kernel_info *info,
			     struct sim_function **ret_function)
{
	struct sim_modules *modules = own_modules(module);
	size_t index = (size_t)(info - module->image->kernels);
	struct sim_function *function;

	pthread_mutex_lock(&modules->lock);
	function = module->functions[index];
	if (!function) {
		function = sim_function_make(SIM_HANDLE_FUNCTION, info);
		if (function)
			function->module = module;
		module->functions[index] = function;
	}
	pthread_mutex_unlock(&modules->lock);
	if (!function)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_function = function;
	return CUDA_SUCCESS;
}

CUresult sim_module_variable(struct sim_module *module, const char *name, CUdeviceptr *ret_pointer,
			     size_t *ret_bytes)
{
	const struct sim_variable_info *info = sim_image_variable(module->image, name);

	if (!info || info->space == SIM_VARIABLE_TEXTURE)
		return CUDA_ERROR_NOT_FOUND;
	*ret_pointer = module->variables[info - module->image->variables];
	*ret_bytes = info->size_bytes;
	return CUDA_SUCCESS;
}

static void end_context(struct sim_context *context)
{
	struct sim_modules *modules =
		atomic_load_explicit(&context->parts[SIM_PART_MODULE], memory_order_acquire);

	while (modules && modules->first)
		sim_module_unload(modules->first);
	atomic_store(&context->parts[SIM_PART_MODULE], NULL);
}

__attribute__((constructor)) static void watch_contexts(void)
{
	sim_context_on_end(SIM_PART_MODULE, end_context);
}
