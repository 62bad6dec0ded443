/* SPDX-License-Identifier: Apache-2.0
 *
 * Which answer a look-up gets. The hard ones are those without a handle, where the real dlsym
 * searches on behalf of its caller, and where this library stands in the way of what a search
 * without it would have found:
 *
 *   RTLD_DEFAULT, or the program's own handle: the search meets this library's function first. It
 *     is the right answer where the driver is loaded. Where it is not, the right answer is what
 *     the search would have met behind this library, mostly nothing.
 *   RTLD_NEXT: who stands behind the caller in load order is looked up here, to learn whether it
 *     would be the driver; the real function, called from here, would search behind this library.
 *
 * One difference to a bare program remains, on purpose: a driver that was loaded RTLD_LOCAL is
 * also found without a handle. A NULL where the bare search succeeds (from a library in the same
 * local scope) would break a program; a function where it says NULL breaks none.
 */
#include "interpose/lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"
#include "base/log.h"
#include "driver/driver.h"
#include "driver/loader.h"
#include "driver/nvml.h"
#include "interpose/init.h"
#include "interpose/name_index.h"

enum library {
	LIBRARY_CUDA,
	LIBRARY_NVML,
};

struct hook {
	void *function; /* ours */
	enum library library;
};

#define ROW_HOOK(symbol, library) { (void *)(symbol), library },
#define ROW_USE(symbol, library)
#define ROW_FORM(symbol, library)

static const struct hook hooks[] = {
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) ROW_##kind(symbol, LIBRARY_CUDA)
#define NVML_SYMBOL(symbol, kind)                              ROW_##kind(symbol, LIBRARY_NVML)
#include "driver/symbols.def"
};

#undef ROW_HOOK
#define ROW_HOOK(symbol, library) #symbol,

static const char *const hook_names[] = {
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) ROW_##kind(symbol, LIBRARY_CUDA)
#define NVML_SYMBOL(symbol, kind)                              ROW_##kind(symbol, LIBRARY_NVML)
#include "driver/symbols.def"
};

static struct berth_name_index hook_index = {
	.names = hook_names,
	.name_count = BERTH_ARRAY_LEN(hook_names),
};

struct query {
	void *handle;
	const char *name;
	const char *version; /* of a dlvsym */
	bool versioned;
	const void *caller;
};

static bool library_contains(enum library library, const void *address)
{
	return library == LIBRARY_CUDA ? berth_driver_contains(address)
				       : berth_nvml_contains(address);
}

static bool library_loaded(enum library library)
{
	return library == LIBRARY_CUDA ? berth_driver_loaded() != NULL
				       : berth_nvml_loaded() != NULL;
}

static void *real_function(const struct query *query)
{
	return query->versioned ? (void *)berth_loader_dlvsym() : (void *)berth_loader_dlsym();
}

/* The real function's answer to this library as the caller. */
static void *ask(const struct query *query, void *handle)
{
	if (query->versioned)
		return berth_loader_dlvsym()(handle, query->name, query->version);
	return berth_loader_dlsym()(handle, query->name);
}

static struct berth_lookup_answer answer_value(void *value)
{
	return (struct berth_lookup_answer){ .value = value };
}

static struct berth_lookup_answer answer_jump(const struct query *query)
{
	return (struct berth_lookup_answer){ .jump = real_function(query) };
}

/* A search through the global scope meets this library before the driver, also when the driver
 * searches. */
static struct berth_lookup_answer from_library(const struct query *query, const struct hook *hook)
{
	struct berth_elf self;
	void *value;
	void *own;

	if (query->handle == RTLD_NEXT)
		return answer_jump(query);
	value = ask(query, query->handle);
	if (value == hook->function && berth_elf_find_address(query->caller, &self) == 0 &&
	    berth_elf_symbol(&self, query->name, NULL, &own) == 0)
		value = own;
	return answer_value(value);
}

/* The search met this library's function: would the next one have been the driver's? */
static struct berth_lookup_answer behind_ourselves(const struct query *query,
						   const struct hook *hook)
{
	struct berth_elf elf;
	void *next;

	if (!library_loaded(hook->library))
		return answer_value(ask(query, RTLD_NEXT));
	if (berth_elf_find_definer(query->name, hook->function, &elf, &next) == 0 &&
	    library_contains(hook->library, next))
		return answer_value(hook->function);
	/* Another library that shows this name stands before the driver, perhaps out of sight. */
	next = ask(query, RTLD_NEXT);
	if (next != NULL && !library_contains(hook->library, next))
		return answer_value(next);
	/* Asked again to succeed: dlerror must not tell of the failure in between. */
	(void)ask(query, RTLD_DEFAULT);
	return answer_value(hook->function);
}

static struct berth_lookup_answer behind_caller(const struct query *query, const struct hook *hook)
{
	struct berth_elf elf;
	void *next;

	if (berth_elf_find_definer(query->name, query->caller, &elf, &next) != 0) {
		/* A driver that was loaded before its user, or none. */
		if (library_loaded(hook->library))
			return answer_value(hook->function);
		return answer_jump(query);
	}
	if (next == hook->function)
		return behind_ourselves(query, hook);
	if (library_contains(hook->library, next) && library_loaded(hook->library))
		return answer_value(hook->function);
	return answer_jump(query);
}

static void warn_second_library(const struct query *query, const void *value)
{
	struct berth_elf elf;

	if (berth_elf_find_address(value, &elf) != 0 || elf.soname == NULL)
		return;
	berth_log_once(
		berth_unlimited_level(),
		"%s was not taken from the driver in use but from another library (%s): calls "
		"through it are not limited",
		query->name, elf.soname);
}

static struct berth_lookup_answer decide_hook(const struct query *query, const struct hook *hook)
{
	void *value;

	if (library_contains(hook->library, query->caller))
		return from_library(query, hook);
	if (query->handle == RTLD_NEXT)
		return behind_caller(query, hook);
	/* Before the real call, which then is the last to speak through dlerror. */
	(void)library_loaded(hook->library);
	value = ask(query, query->handle);
	if (value == NULL)
		return answer_value(NULL);
	if (value == hook->function)
		return behind_ourselves(query, hook);
	if (library_contains(hook->library, value))
		return answer_value(hook->function);
	warn_second_library(query, value);
	return answer_value(value);
}

static struct berth_lookup_answer decide(const struct query *query)
{
	const char *name = query->name;
	struct berth_lookup_answer answer;
	int saved_errno;
	int row;

	/* Nearly all names end here. */
	if (name == NULL ||
	    !((name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v')))
		return answer_jump(query);
	row = berth_name_index_find(&hook_index, name);
	if (row < 0 || real_function(query) == NULL)
		return answer_jump(query);
	saved_errno = errno;
	answer = decide_hook(query, &hooks[row]);
	errno = saved_errno;
	return answer;
}

struct berth_lookup_answer berth_lookup_dlsym(void *handle, const char *name, const void *caller)
{
	const struct query query = { .handle = handle, .name = name, .caller = caller };

	return decide(&query);
}

struct berth_lookup_answer berth_lookup_dlvsym(void *handle, const char *name, const char *version,
					       const void *caller)
{
	const struct query query = {
		.handle = handle,
		.name = name,
		.version = version,
		.versioned = true,
		.caller = caller,
	};

	return decide(&query);
}
