/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded objects and their symbols, read from memory: which object an address lies in, and the
 * address of a symbol by walking the object's own hash table. Nothing here goes through dlsym (the
 * library exports its own), allocates, or takes a lock but dl_iterate_phdr's own; usable before
 * main. A description is valid as long as the object stays loaded: the caller pins it or uses it
 * inside one callback.
 */
#ifndef BERTH_DRIVER_ELF_H
#define BERTH_DRIVER_ELF_H

#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"

struct berth_elf {
	uintptr_t base; /* what is added to the addresses in the file */
	uintptr_t start;
	uintptr_t end; /* the first address past it */
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *gnu_hash; /* either may be NULL */
	const uint32_t *sysv_hash;
	const ElfW(Half) * versions; /* NULL: the object has none */
	const ElfW(Verdef) * version_definitions;
	const char *soname; /* NULL: none */
};

#define BERTH_ELF_PATH_MAX PATH_MAX

/* The first loaded object of that DT_SONAME. ret_path: BERTH_ELF_PATH_MAX bytes for the name under
 * which the loader knows it, or NULL. -ENOENT if there is none. */
BERTH_MUST_CHECK int berth_elf_find_soname(const char *soname, struct berth_elf *ret_elf,
					   char *ret_path);
/* The loaded object that the address lies in, or -ENOENT. */
BERTH_MUST_CHECK int berth_elf_find_address(const void *address, struct berth_elf *ret_elf);

static inline bool berth_elf_contains(const struct berth_elf *elf, const void *address)
{
	return (uintptr_t)address - elf->start < elf->end - elf->start;
}

/* The function or object that the file defines under this name. version NULL: the default one,
 * else exactly that. -ENOENT if it has none; indirect functions (STT_GNU_IFUNC) count as none,
 * since their address is only known to who runs their resolver. */
BERTH_MUST_CHECK int berth_elf_symbol(const struct berth_elf *elf, const char *name,
				      const char *version, void **ret_address);

/* The same for libc.so.6, by the only way that calls nothing which another library may stand in
 * for: whatever state the process is in. */
BERTH_MUST_CHECK int berth_elf_libc_symbol(const char *name, void **ret_address);

/* Who would answer a search that begins behind the object which holds `after`: the first object in
 * load order behind it that defines name. -ENOENT if none does (or `after` lies in no object). */
BERTH_MUST_CHECK int berth_elf_find_definer(const char *name, const void *after,
					    struct berth_elf *ret_elf, void **ret_address);

#endif
