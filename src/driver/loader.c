/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding and pinning. Order matters: an object seen in the loader's list may be on its way in
 * (another thread is inside dlopen) or out (dlclose), so it is pinned through dlopen first, which waits
 * for those, and read afterwards.
 *
 * Not a lock and not pthread_once: the first use may be a constructor that runs inside somebody's
 * dlopen, while another thread waits for the loader's lock inside ours. Two threads that come first
 * both do the work; one block is published, the other unmapped. A fork between those steps leaves
 * the child with nothing published, which is a state like any other.
 */
#include "driver/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/lib-names.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "driver/walk.h"

static void *find_in_libc(_Atomic(void *) *cache, const char *name)
{
	void *address = atomic_load_explicit(cache, memory_order_relaxed);
	struct berth_elf libdl;

	if (address != NULL)
		return address;
	if (berth_elf_libc_symbol(name, &address) != 0 &&
	    (berth_elf_find_soname(LIBDL_SO, &libdl, NULL) != 0 ||
	     berth_elf_symbol(&libdl, name, NULL, &address) != 0))
		return NULL;
	/* Relaxed: the code behind the address was there before this library. */
	atomic_store_explicit(cache, address, memory_order_relaxed);
	return address;
}

berth_dlopen_function *berth_loader_dlopen(void)
{
	static _Atomic(void *) cache;

	return (berth_dlopen_function *)find_in_libc(&cache, "dlopen");
}

berth_dlsym_function *berth_loader_dlsym(void)
{
	static _Atomic(void *) cache;

	return (berth_dlsym_function *)find_in_libc(&cache, "dlsym");
}

berth_dlvsym_function *berth_loader_dlvsym(void)
{
	static _Atomic(void *) cache;

	return (berth_dlvsym_function *)find_in_libc(&cache, "dlvsym");
}

static void *load(berth_dlopen_function *open, const char *path, int flags)
{
	berth_walk_enter();
	void *handle = open(path, flags);
	berth_walk_leave();
	return handle;
}

/* Keeps the object for ever. A process that has no dlopen (before glibc 2.34, libdl not loaded) has
 * nobody who could close it either. */
static bool pin(const char *path, const char *soname)
{
	berth_dlopen_function *open = berth_loader_dlopen();
	const int flags = RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE;

	if (open == NULL)
		return true;
	return load(open, path[0] != '\0' ? path : soname, flags) != NULL;
}

/* Reads the pinned object's functions into a block of its own and publishes it. */
static const void *publish(struct berth_library *library, const struct berth_elf *elf)
{
	void *expected = NULL;
	char *block = mmap(NULL, library->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	if (block == MAP_FAILED)
		return NULL;
	for (size_t i = 0; i < library->name_count; i++) {
		void *address = NULL;

		if (berth_elf_symbol(elf, library->names[i], NULL, &address) != 0)
			address = NULL;
		memcpy(block + i * sizeof(address), &address, sizeof(address));
	}
	memcpy(block + library->object_offset, elf, sizeof(*elf));
	(void)mprotect(block, library->size, PROT_READ); /* hardening only */

	/* Release: pairs with the acquire in berth_library_published. */
	if (atomic_compare_exchange_strong_explicit(&library->published, &expected, block,
						    memory_order_acq_rel, memory_order_acquire))
		return block;
	(void)munmap(block, library->size); /* can't fail for a whole mapping of ours */
	return expected;
}

const void *berth_library_loaded(struct berth_library *library)
{
	const void *block = berth_library_published(library);
	char path[BERTH_ELF_PATH_MAX];
	struct berth_elf elf;
	int saved_errno = errno;

	if (block != NULL)
		return block;
	/* Described again once it is pinned: it may have been unloaded and loaded anew in between. */
	if (berth_elf_find_soname(library->soname, &elf, path) == 0 && pin(path, library->soname) &&
	    berth_elf_find_soname(library->soname, &elf, NULL) == 0)
		block = publish(library, &elf);
	errno = saved_errno;
	return block;
}

const void *berth_library_get(struct berth_library *library)
{
	const void *block = berth_library_loaded(library);
	berth_dlopen_function *open = berth_loader_dlopen();
	int saved_errno = errno;

	if (block != NULL || open == NULL)
		return block;
	if (load(open, library->soname, RTLD_LAZY | RTLD_LOCAL) != NULL)
		block = berth_library_loaded(library);
	errno = saved_errno;
	return block;
}

static const char *loader_error(void)
{
	static _Atomic(void *) cache;
	char *(*error)(void) = (char *(*)(void))find_in_libc(&cache, "dlerror");
	const char *text = error != NULL ? error() : NULL;

	return text != NULL ? text : "the loader gives no reason";
}

int berth_library_open(struct berth_library *library, const char *path, struct berth_reason *reason)
{
	berth_dlopen_function *open = berth_loader_dlopen();
	const struct berth_elf *object;
	const char *block;
	const struct link_map *map;

	if (open == NULL)
		return berth_reason_set(reason, -ENOSYS, "%s: this libc has no dlopen", path);
	/* glibc documents its handles as struct link_map (dlinfo's RTLD_DI_LINKMAP gives itself). */
	map = load(open, path, RTLD_LAZY | RTLD_LOCAL);
	if (map == NULL)
		return berth_reason_set(reason, -ENOENT, "%s", loader_error());
	block = berth_library_loaded(library);
	if (block == NULL)
		return berth_reason_set(reason, -ENOENT, "%s is not a %s", path, library->soname);
	object = (const void *)(block + library->object_offset);
	if (!berth_elf_contains(object, map->l_ld))
		return berth_reason_set(reason, -EALREADY, "%s: another %s is already in use", path,
					library->soname);
	return 0;
}

bool berth_library_contains(struct berth_library *library, const void *address)
{
	const char *block = berth_library_published(library);
	struct berth_elf elf;

	if (block != NULL)
		return berth_elf_contains((const void *)(block + library->object_offset), address);
	return berth_elf_find_address(address, &elf) == 0 && elf.soname != NULL &&
	       strcmp(elf.soname, library->soname) == 0;
}
