/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a cubin: an ELF file whose machine is CUDA. A kernel is a function symbol marked as an entry
 * with its code in ".text.NAME"; ".nv.info.NAME" tells its parameters; variables are object symbols
 * in ".nv.global", ".nv.global.init" and ".nv.constant*". Every offset is checked before it is
 * followed: a cut or made-up file is INVALID_IMAGE, never a wild read.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/image.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif
#define STO_CUDA_ENTRY    0x10U
#define THREADS_MOST      1024U
#define REGISTERS_UNKNOWN 32U
#define INFO_HAS_SIZE     4U /* how a record is stored: its size follows */
#define INFO_PARAMETER    0x17U
#define INFO_THREADS_MAX  0x05U
#define LENGTH_MOST       (1UL << 32)

struct cubin {
	const unsigned char *bytes;
	size_t length;
	const Elf64_Ehdr *header;
	const Elf64_Shdr *sections;
	const char *names; /* of sections */
	size_t names_length;
};

static bool is_within(size_t length, uint64_t offset, uint64_t size)
{
	return offset <= length && size <= length - offset;
}

static bool is_cubin(const Elf64_Ehdr *header)
{
	return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_machine == EM_CUDA &&
	       header->e_shentsize == sizeof(Elf64_Shdr) && header->e_shoff % 8 == 0;
}

size_t sim_cubin_length(const unsigned char *elf)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)elf;
	const Elf64_Shdr *sections;
	uint64_t end;

	if (memcmp(elf, ELFMAG, SELFMAG) != 0 || !is_cubin(header))
		return 0;
	end = header->e_shoff + (uint64_t)header->e_shnum * sizeof(Elf64_Shdr);
	if (header->e_shoff > LENGTH_MOST)
		return 0;
	sections = (const Elf64_Shdr *)(const void *)(elf + header->e_shoff);
	for (size_t i = 0; i < header->e_shnum; i++) {
		uint64_t last = sections[i].sh_offset + sections[i].sh_size;

		if (sections[i].sh_type != SHT_NOBITS && last > end)
			end = last;
	}
	return end > LENGTH_MOST ? 0 : (size_t)end;
}

static bool cubin_open(struct cubin *cubin, const unsigned char *elf, size_t length)
{
	const Elf64_Shdr *names;

	*cubin = (struct cubin){ .bytes = elf, .length = length };
	if (length < sizeof(Elf64_Ehdr))
		return false;
	cubin->header = (const Elf64_Ehdr *)(const void *)elf;
	if (!is_cubin(cubin->header) ||
	    !is_within(length, cubin->header->e_shoff,
		       (uint64_t)cubin->header->e_shnum * sizeof(Elf64_Shdr)) ||
	    cubin->header->e_shstrndx >= cubin->header->e_shnum)
		return false;
	cubin->sections = (const Elf64_Shdr *)(const void *)(elf + cubin->header->e_shoff);
	for (size_t i = 0; i < cubin->header->e_shnum; i++) {
		const Elf64_Shdr *section = &cubin->sections[i];

		if (section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL &&
		    !is_within(length, section->sh_offset, section->sh_size))
			return false;
	}
	names = &cubin->sections[cubin->header->e_shstrndx];
	cubin->names = (const char *)(elf + names->sh_offset);
	cubin->names_length = names->sh_size;
	return true;
}

/* "" for a name outside the table or without an end. */
static const char *string_at(const char *table, size_t length, size_t offset)
{
	if (offset >= length || !memchr(table + offset, '\0', length - offset))
		return "";
	return table + offset;
}

static const char *section_name(const struct cubin *cubin, const Elf64_Shdr *section)
{
	return string_at(cubin->names, cubin->names_length, section->sh_name);
}

/* The section called prefix + name; NULL. */
static const Elf64_Shdr *section_find(const struct cubin *cubin, const char *prefix,
				      const char *name)
{
	size_t prefix_length = strlen(prefix);

	for (size_t i = 0; i < cubin->header->e_shnum; i++) {
		const char *found = section_name(cubin, &cubin->sections[i]);

		if (strncmp(found, prefix, prefix_length) == 0 &&
		    strcmp(found + prefix_length, name) == 0)
			return &cubin->sections[i];
	}
	return NULL;
}

static uint32_t word_at(const unsigned char *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

static uint16_t half_at(const unsigned char *bytes)
{
	uint16_t half;

	memcpy(&half, bytes, sizeof(half));
	return half;
}

static bool note_parameter(struct sim_kernel_info *kernel, const unsigned char *record)
{
	uint32_t ordinal = half_at(record + 4);
	struct sim_parameter *parameters = kernel->parameters;

	if (ordinal >= SIM_KERNEL_PARAMETERS)
		return true;
	if (ordinal >= kernel->parameters_count) {
		parameters = realloc(parameters, (ordinal + 1) * sizeof(*parameters));
		if (!parameters)
			return false;
		memset(parameters + kernel->parameters_count, 0,
		       (ordinal + 1 - kernel->parameters_count) * sizeof(*parameters));
		kernel->parameters = parameters;
		kernel->parameters_count = ordinal + 1;
	}
	parameters[ordinal].offset_bytes = half_at(record + 6);
	parameters[ordinal].size_bytes = word_at(record + 8) >> 18;
	return true;
}

static bool read_info(const struct cubin *cubin, struct sim_kernel_info *kernel)
{
	const Elf64_Shdr *section = section_find(cubin, ".nv.info.", kernel->name);
	const unsigned char *at, *end;

	if (!section || section->sh_type == SHT_NOBITS)
		return true;
	kernel->parameters_known = true;
	at = cubin->bytes + section->sh_offset;
	end = at + section->sh_size;
	while (end - at >= 4) {
		size_t size = at[0] == INFO_HAS_SIZE ? half_at(at + 2) : 0;

		if (size > (size_t)(end - at) - 4)
			break;
		if (at[1] == INFO_PARAMETER && size >= 12 && !note_parameter(kernel, at + 4))
			return false;
		if (at[1] == INFO_THREADS_MAX && size >= 12)
			kernel->threads_max = word_at(at + 4) * word_at(at + 8) * word_at(at + 12);
		at += 4 + size;
	}
	return true;
}

static CUresult add_kernel(const struct cubin *cubin, struct sim_image *image, const char *name)
{
	const Elf64_Shdr *code = section_find(cubin, ".text.", name);
	const Elf64_Shdr *shared = section_find(cubin, ".nv.shared.", name);
	struct sim_kernel_info *kernel;

	if (!code)
		return CUDA_ERROR_INVALID_IMAGE;
	kernel = sim_image_add_kernel(image, name, strlen(name));
	if (!kernel || !read_info(cubin, kernel))
		return CUDA_ERROR_OUT_OF_MEMORY;
	kernel->registers_count = code->sh_info >> 24;
	if (!kernel->registers_count)
		kernel->registers_count = REGISTERS_UNKNOWN;
	if (!kernel->threads_max || kernel->threads_max > THREADS_MOST)
		kernel->threads_max = THREADS_MOST;
	kernel->shared_bytes = shared ? (uint32_t)shared->sh_size : 0;
	return CUDA_SUCCESS;
}

static CUresult add_variable(const struct cubin *cubin, struct sim_image *image,
			     const Elf64_Sym *symbol, const char *name)
{
	const Elf64_Shdr *section = &cubin->sections[symbol->st_shndx];
	const char *where = section_name(cubin, section);
	bool is_constant = strncmp(where, ".nv.constant", 12) == 0;
	struct sim_variable_info *variable;

	if (!is_constant && strncmp(where, ".nv.global", 10) != 0)
		return CUDA_SUCCESS;
	variable = sim_image_add_variable(image, name, strlen(name));
	if (!variable)
		return CUDA_ERROR_OUT_OF_MEMORY;
	variable->space = is_constant ? SIM_VARIABLE_CONSTANT : SIM_VARIABLE_GLOBAL;
	variable->size_bytes = symbol->st_size;
	variable->align_bytes = 16;
	if (section->sh_type == SHT_NOBITS || !symbol->st_size)
		return CUDA_SUCCESS;
	if (!is_within(section->sh_size, symbol->st_value, symbol->st_size))
		return CUDA_ERROR_INVALID_IMAGE;
	variable->initial = malloc(symbol->st_size);
	if (!variable->initial)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(variable->initial, cubin->bytes + section->sh_offset + symbol->st_value,
	       symbol->st_size);
	return CUDA_SUCCESS;
}

static CUresult read_symbol(const struct cubin *cubin, struct sim_image *image,
			    const Elf64_Sym *symbol, const char *name)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	if (!*name || symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= cubin->header->e_shnum)
		return CUDA_SUCCESS;
	if (type == STT_FUNC && (symbol->st_other & STO_CUDA_ENTRY))
		return add_kernel(cubin, image, name);
	if (type == STT_OBJECT)
		return add_variable(cubin, image, symbol, name);
	return CUDA_SUCCESS;
}

static CUresult read_symbols(const struct cubin *cubin, struct sim_image *image,
			     const Elf64_Shdr *table)
{
	const Elf64_Sym *symbols =
		(const Elf64_Sym *)(const void *)(cubin->bytes + table->sh_offset);
	size_t count = table->sh_size / sizeof(*symbols);
	const Elf64_Shdr *strings;
	CUresult err = CUDA_SUCCESS;

	if (table->sh_link >= cubin->header->e_shnum || table->sh_offset % 8)
		return CUDA_ERROR_INVALID_IMAGE;
	strings = &cubin->sections[table->sh_link];
	if (strings->sh_type != SHT_STRTAB)
		return CUDA_ERROR_INVALID_IMAGE;
	for (size_t i = 0; i < count && err == CUDA_SUCCESS; i++) {
		const char *name = string_at((const char *)(cubin->bytes + strings->sh_offset),
					     strings->sh_size, symbols[i].st_name);

		err = read_symbol(cubin, image, &symbols[i], name);
	}
	return err;
}

CUresult sim_cubin_read(const unsigned char *elf, size_t length, struct sim_image *image)
{
	struct cubin cubin;

	if (!cubin_open(&cubin, elf, length))
		return CUDA_ERROR_INVALID_IMAGE;
	for (size_t i = 0; i < cubin.header->e_shnum; i++) {
		if (cubin.sections[i].sh_type == SHT_SYMTAB)
			return read_symbols(&cubin, image, &cubin.sections[i]);
	}
	return CUDA_ERROR_INVALID_IMAGE;
}
