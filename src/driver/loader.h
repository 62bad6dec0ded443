/* SPDX-License-Identifier: Apache-2.0
 *
 * libc's own dlopen, dlsym and dlvsym, and how a library of symbols.def is found, pinned and read.
 *
 * The preloaded library exports dlsym and dlvsym, and may not import what libc got in 2.34: so the
 * real ones are found by walking libc.so.6's symbols (libdl.so.2's before glibc 2.34). `.symver`
 * would recurse into ours, dlvsym is ours too.
 */
#ifndef BERTH_DRIVER_LOADER_H
#define BERTH_DRIVER_LOADER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"
#include "base/reason.h"
#include "driver/elf.h"

/* NULL only where there is no dynamic loader of glibc's kind. O(1) after the first time. */
typedef void *berth_dlopen_function(const char *path, int flags);
typedef void *berth_dlsym_function(void *handle, const char *name);
typedef void *berth_dlvsym_function(void *handle, const char *name, const char *version);

berth_dlopen_function *berth_loader_dlopen(void);
berth_dlsym_function *berth_loader_dlsym(void);
berth_dlvsym_function *berth_loader_dlvsym(void);

/* A library whose functions are kept as one block: name_count pointers in the order of names, then
 * a struct berth_elf at object_offset. One static instance a library; published is NULL until the
 * block is complete, then never changes, and the memory it points to is read-only. */
struct berth_library {
	const char *soname;
	const char *const *names;
	size_t name_count;
	size_t object_offset;
	size_t size;
	_Atomic(void *) published;
};

/* Acquire: pairs with the release that published it. Inline, for each hooked call begins here. */
static inline const void *berth_library_published(struct berth_library *library)
{
	return atomic_load_explicit(&library->published, memory_order_acquire);
}

/* The block, or NULL if the program has not loaded the library (or it can't be pinned). */
const void *berth_library_loaded(struct berth_library *library);
/* The block; loads the library by its soname if need be. NULL if that can't be done. */
const void *berth_library_get(struct berth_library *library);
BERTH_MUST_CHECK int berth_library_open(struct berth_library *library, const char *path,
					struct berth_reason *reason);
bool berth_library_contains(struct berth_library *library, const void *address);

#endif
