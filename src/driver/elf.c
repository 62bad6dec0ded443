/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbols by walking the loaded objects. The loader keeps its list steady during dl_iterate_phdr,
 * so everything that is read of an object which nobody pinned is read inside the callback.
 *
 * Nothing that another library may stand in for is called on the way to libc's dlsym, not even
 * strcmp or dl_iterate_phdr by name: AddressSanitizer's runtime looks up what it stands in for through
 * dlsym, which is ours, and its strcmp fails until it has found the real one.
 */
#include "driver/elf.h"

#include <errno.h>
#include <gnu/lib-names.h>
#include <string.h>

#include "driver/walk.h"

#define VERSION_HIDDEN 0x8000U
#define VERSION_INDEX  0x7fffU

/* glibc relocates the pointers of the dynamic section in place, except in read-only ones (the
 * vDSO's): what is below the object's base is still an offset. */
static const void *dynamic_pointer(const struct berth_elf *elf, ElfW(Addr) value)
{
	return (const void *)(value < elf->base ? value + elf->base : value);
}

static void read_dynamic(struct berth_elf *elf, const ElfW(Dyn) * dynamic)
{
	ElfW(Xword) soname_offset = 0;

	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		const void *at = dynamic_pointer(elf, dynamic->d_un.d_ptr);

		switch (dynamic->d_tag) {
		case DT_SYMTAB:
			elf->symbols = at;
			break;
		case DT_STRTAB:
			elf->strings = at;
			break;
		case DT_GNU_HASH:
			elf->gnu_hash = at;
			break;
		case DT_HASH:
			elf->sysv_hash = at;
			break;
		case DT_VERSYM:
			elf->versions = at;
			break;
		case DT_VERDEF:
			elf->version_definitions = at;
			break;
		case DT_SONAME:
			soname_offset = dynamic->d_un.d_val;
			break;
		default:
			break;
		}
	}
	if (elf->strings != NULL && soname_offset != 0)
		elf->soname = elf->strings + soname_offset;
}

static bool same_text(const char *a, const char *b)
{
	while (*a == *b && *a != '\0') {
		a++;
		b++;
	}
	return *a == *b;
}

static void describe(const struct dl_phdr_info *info, struct berth_elf *elf)
{
	const ElfW(Dyn) *dynamic = NULL;

	*elf = (struct berth_elf){ .base = info->dlpi_addr, .start = UINTPTR_MAX };
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = elf->base + segment->p_vaddr;

		if (segment->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)start;
		if (segment->p_type != PT_LOAD)
			continue;
		if (start < elf->start)
			elf->start = start;
		if (start + segment->p_memsz > elf->end)
			elf->end = start + segment->p_memsz;
	}
	if (elf->start > elf->end)
		elf->start = elf->end;
	if (dynamic != NULL)
		read_dynamic(elf, dynamic);
}

static bool version_matches(const struct berth_elf *elf, size_t symbol, const char *version)
{
	const char *at = (const char *)elf->version_definitions;
	unsigned wanted;

	if (elf->versions == NULL)
		return version == NULL;
	if (version == NULL)
		return (elf->versions[symbol] & VERSION_HIDDEN) == 0;
	if (at == NULL)
		return false;
	wanted = elf->versions[symbol] & VERSION_INDEX;
	for (;;) {
		const ElfW(Verdef) *definition = (const void *)at;

		if ((definition->vd_ndx & VERSION_INDEX) == wanted) {
			const ElfW(Verdaux) *name = (const void *)(at + definition->vd_aux);

			return same_text(elf->strings + name->vda_name, version);
		}
		if (definition->vd_next == 0)
			return false;
		at += definition->vd_next;
	}
}

static bool symbol_matches(const struct berth_elf *elf, size_t index, const char *name,
			   const char *version)
{
	const ElfW(Sym) *symbol = &elf->symbols[index];
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	unsigned binding = ELF64_ST_BIND(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0)
		return false;
	if (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE)
		return false;
	if (binding != STB_GLOBAL && binding != STB_WEAK && binding != STB_GNU_UNIQUE)
		return false;
	return same_text(elf->strings + symbol->st_name, name) &&
	       version_matches(elf, index, version);
}

/* The index of the symbol, or 0 (which is never one). The table: bucket count, index of the first
 * hashed symbol, Bloom words, Bloom shift; Bloom filter; buckets; one hash per symbol whose lowest
 * bit ends a chain. */
static size_t gnu_hash_find(const struct berth_elf *elf, const char *name, const char *version)
{
	const uint32_t *table = elf->gnu_hash;
	uint32_t bucket_count = table[0];
	uint32_t first = table[1];
	uint32_t bloom_count = table[2];
	uint32_t bloom_shift = table[3];
	const ElfW(Addr) *bloom = (const ElfW(Addr) *)(table + 4);
	const uint32_t *buckets = (const uint32_t *)(bloom + bloom_count);
	const uint32_t *chain = buckets + bucket_count;
	const uint32_t bits = 8 * sizeof(*bloom);
	uint32_t hash = 5381;
	ElfW(Addr) word;

	for (const unsigned char *c = (const unsigned char *)name; *c != '\0'; c++)
		hash = hash * 33 + *c;
	if (bucket_count == 0)
		return 0;
	word = bloom[(hash / bits) & (bloom_count - 1)];
	if (((word >> (hash % bits)) & (word >> ((hash >> bloom_shift) % bits)) & 1) == 0)
		return 0;
	for (uint32_t i = buckets[hash % bucket_count]; i >= first; i++) {
		if ((chain[i - first] | 1U) == (hash | 1U) && symbol_matches(elf, i, name, version))
			return i;
		if ((chain[i - first] & 1U) != 0)
			break;
	}
	return 0;
}

/* The older table: bucket count, symbol count, buckets, chain links; 0 ends a chain. */
static size_t sysv_hash_find(const struct berth_elf *elf, const char *name, const char *version)
{
	const uint32_t *table = elf->sysv_hash;
	const uint32_t *buckets = table + 2;
	const uint32_t *chain = buckets + table[0];
	uint32_t hash = 0;

	for (const unsigned char *c = (const unsigned char *)name; *c != '\0'; c++) {
		hash = (hash << 4) + *c;
		hash = (hash ^ ((hash & 0xf0000000U) >> 24)) & 0x0fffffffU;
	}
	if (table[0] == 0)
		return 0;
	for (uint32_t i = buckets[hash % table[0]]; i != 0; i = chain[i]) {
		if (symbol_matches(elf, i, name, version))
			return i;
	}
	return 0;
}

int berth_elf_symbol(const struct berth_elf *elf, const char *name, const char *version,
		     void **ret_address)
{
	size_t index = 0;

	if (elf->symbols == NULL || elf->strings == NULL)
		return -ENOENT;
	if (elf->gnu_hash != NULL)
		index = gnu_hash_find(elf, name, version);
	else if (elf->sysv_hash != NULL)
		index = sysv_hash_find(elf, name, version);
	if (index == 0)
		return -ENOENT;
	*ret_address = (void *)(elf->base + elf->symbols[index].st_value);
	return 0;
}

/* The loader's list itself, not locked: the objects that the program started with stand first in it
 * and never leave, and libc is one of them. */
int berth_elf_libc_symbol(const char *name, void **ret_address)
{
	for (const struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next) {
		struct berth_elf elf = { .base = map->l_addr };

		if (map->l_ld == NULL)
			continue;
		read_dynamic(&elf, map->l_ld);
		if (elf.soname != NULL && same_text(elf.soname, LIBC_SO))
			return berth_elf_symbol(&elf, name, NULL, ret_address);
	}
	return -ENOENT;
}

/* One walk over the loaded objects: what is looked for, and what was found. */
struct walk {
	const char *soname;
	const void *address;
	const char *name;
	bool behind; /* the object of `address` was passed */
	struct berth_elf *elf;
	char *path;
	void *symbol;
};

static int visit_soname(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk *walk = arg;
	size_t length;

	(void)size;
	describe(info, walk->elf);
	if (walk->elf->soname == NULL || !same_text(walk->elf->soname, walk->soname))
		return 0;
	if (walk->path == NULL)
		return 1;
	length = strlen(info->dlpi_name);
	if (length >= BERTH_ELF_PATH_MAX)
		return 0;
	memcpy(walk->path, info->dlpi_name, length + 1);
	return 1;
}

static int visit_address(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk *walk = arg;

	(void)size;
	describe(info, walk->elf);
	return berth_elf_contains(walk->elf, walk->address);
}

static int visit_definer(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk *walk = arg;

	(void)size;
	describe(info, walk->elf);
	if (walk->behind)
		return berth_elf_symbol(walk->elf, walk->name, NULL, &walk->symbol) == 0;
	walk->behind = berth_elf_contains(walk->elf, walk->address);
	return 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): it is written through walk.path */
int berth_elf_find_soname(const char *soname, struct berth_elf *ret_elf, char *ret_path)
{
	struct berth_elf elf;
	struct walk walk = { .soname = soname, .elf = &elf, .path = ret_path };

	if (berth_walk_objects(visit_soname, &walk) == 0)
		return -ENOENT;
	*ret_elf = elf;
	return 0;
}

int berth_elf_find_address(const void *address, struct berth_elf *ret_elf)
{
	struct berth_elf elf;
	struct walk walk = { .address = address, .elf = &elf };

	if (berth_walk_objects(visit_address, &walk) == 0)
		return -ENOENT;
	*ret_elf = elf;
	return 0;
}

int berth_elf_find_definer(const char *name, const void *after, struct berth_elf *ret_elf,
			   void **ret_address)
{
	struct berth_elf elf;
	struct walk walk = { .name = name, .address = after, .elf = &elf };

	if (berth_walk_objects(visit_definer, &walk) == 0)
		return -ENOENT;
	*ret_elf = elf;
	*ret_address = walk.symbol;
	return 0;
}
