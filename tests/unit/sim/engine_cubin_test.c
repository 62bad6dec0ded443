/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that isn't text: cubins and the fat binaries around them, made here byte by byte.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core_fixture.h"

#define BAD_MODULE ((CUmodule)0x123456)

static CUmodule load(const void *image)
{
	CUmodule module;

	CHECK_OK(cuModuleLoadData(&module, image));
	return module;
}

static void check_global(CUmodule module, const char *name, size_t bytes, const void *content)
{
	unsigned char found[1024];
	CUdeviceptr pointer = 0, base = 0;
	size_t size = 0, range = 0;

	CHECK_OK(cuModuleGetGlobal_v2(&pointer, &size, module, name));
	CHECK(size == bytes);
	CHECK_OK(cuMemGetAddressRange_v2(&base, &range, pointer));
	CHECK(base == pointer && range == bytes);
	if (!content)
		return;
	CHECK_OK(cuMemcpyDtoH_v2(found, pointer, bytes));
	CHECK(memcmp(found, content, bytes) == 0);
}

/* ---- a cubin with one kernel and two variables, as small as one can be ---- */

enum { S_NULL, S_NAMES, S_STRINGS, S_SYMBOLS, S_TEXT, S_INFO, S_SHARED, S_INIT, S_ZERO, S_COUNT };

struct cubin {
	Elf64_Ehdr header;
	Elf64_Shdr sections[S_COUNT];
	Elf64_Sym symbols[5];
	unsigned char info[2][16];
	unsigned char threads[16];
	uint32_t init[2];
	uint32_t text[4];
	char names[128];
	char strings[64];
};

static uint32_t put(char *table, size_t *used, const char *text)
{
	uint32_t at = (uint32_t)*used;

	memcpy(table + at, text, strlen(text) + 1);
	*used += strlen(text) + 1;
	return at;
}

static void section(struct cubin *cubin, int index, const char *name, uint32_t type,
		    const void *data, size_t bytes, size_t *names_used)
{
	cubin->sections[index].sh_name = put(cubin->names, names_used, name);
	cubin->sections[index].sh_type = type;
	cubin->sections[index].sh_offset =
		data ? (uint64_t)((const char *)data - (char *)cubin) : 0;
	cubin->sections[index].sh_size = bytes;
}

static void parameter(unsigned char record[16], uint16_t ordinal, uint16_t offset, uint32_t size)
{
	uint32_t packed = size << 18;
	uint16_t bytes = 12;

	record[0] = 4;
	record[1] = 0x17;
	memcpy(record + 2, &bytes, 2);
	memcpy(record + 8, &ordinal, 2);
	memcpy(record + 10, &offset, 2);
	memcpy(record + 12, &packed, 4);
}

static void make_cubin(struct cubin *c)
{
	size_t names = 1, strings = 1;
	uint32_t threads[3] = { 64, 2, 1 };

	memset(c, 0, sizeof(*c));
	memcpy(c->header.e_ident, ELFMAG, SELFMAG);
	c->header.e_ident[EI_CLASS] = ELFCLASS64;
	c->header.e_ident[EI_DATA] = ELFDATA2LSB;
	c->header.e_machine = 190;
	c->header.e_shentsize = sizeof(Elf64_Shdr);
	c->header.e_shnum = S_COUNT;
	c->header.e_shoff = offsetof(struct cubin, sections);
	c->header.e_shstrndx = S_NAMES;
	section(c, S_NAMES, ".shstrtab", SHT_STRTAB, c->names, sizeof(c->names), &names);
	section(c, S_STRINGS, ".strtab", SHT_STRTAB, c->strings, sizeof(c->strings), &names);
	section(c, S_SYMBOLS, ".symtab", SHT_SYMTAB, c->symbols, sizeof(c->symbols), &names);
	section(c, S_TEXT, ".text.add", SHT_PROGBITS, c->text, sizeof(c->text), &names);
	section(c, S_INFO, ".nv.info.add", SHT_PROGBITS, c->info, 48, &names);
	section(c, S_SHARED, ".nv.shared.add", SHT_NOBITS, NULL, 256, &names);
	section(c, S_INIT, ".nv.global.init", SHT_PROGBITS, c->init, sizeof(c->init), &names);
	section(c, S_ZERO, ".nv.global", SHT_NOBITS, NULL, 4096, &names);
	c->sections[S_SYMBOLS].sh_link = S_STRINGS;
	c->sections[S_TEXT].sh_info = 40U << 24;
	c->init[1] = 1234;
	parameter(c->info[0], 1, 8, 4);
	parameter(c->info[1], 0, 0, 8);
	c->threads[0] = 4;
	c->threads[1] = 0x05;
	c->threads[2] = 12;
	memcpy(c->threads + 4, threads, 12);
	c->symbols[1] = (Elf64_Sym){ .st_name = put(c->strings, &strings, "add"),
				     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				     .st_other = 0x10,
				     .st_shndx = S_TEXT,
				     .st_size = 16 };
	c->symbols[2] = (Elf64_Sym){ .st_name = put(c->strings, &strings, "value"),
				     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
				     .st_shndx = S_INIT,
				     .st_value = 4,
				     .st_size = 4 };
	c->symbols[3] = (Elf64_Sym){ .st_name = put(c->strings, &strings, "zeroes"),
				     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
				     .st_shndx = S_ZERO,
				     .st_size = 4096 };
	c->symbols[4] = (Elf64_Sym){ .st_name = put(c->strings, &strings, "device_only"),
				     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				     .st_shndx = S_TEXT };
}

static void check_cubin(CUmodule module)
{
	CUfunction function;
	size_t offset, size;
	int value;

	CHECK_OK(cuModuleGetFunction(&function, module, "add"));
	CHECK_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
	CHECK(value == 40);
	CHECK_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
	CHECK(value == 128);
	CHECK_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function));
	CHECK(value == 256);
	CHECK_OK(cuFuncGetParamInfo(function, 0, &offset, &size));
	CHECK(offset == 0 && size == 8);
	CHECK_OK(cuFuncGetParamInfo(function, 1, &offset, &size));
	CHECK(offset == 8 && size == 4);
	check_global(module, "value", 4, &(uint32_t){ 1234 });
	check_global(module, "zeroes", 4096, NULL);
	CHECK_CODE(cuModuleGetFunction(&function, module, "device_only"), CUDA_ERROR_NOT_FOUND);
}

static void cubins(int socket)
{
	struct cubin cubin;
	CUmodule module = BAD_MODULE;

	(void)socket;
	core_begin(0);
	make_cubin(&cubin);
	check_cubin(load(&cubin));
	cubin.sections[S_SYMBOLS].sh_link = 77;
	CHECK_CODE(cuModuleLoadData(&module, &cubin), CUDA_ERROR_INVALID_IMAGE);
	make_cubin(&cubin);
	cubin.symbols[2].st_value = 1U << 20;
	CHECK_CODE(cuModuleLoadData(&module, &cubin), CUDA_ERROR_INVALID_IMAGE);
	make_cubin(&cubin);
	cubin.header.e_machine = EM_X86_64;
	CHECK_CODE(cuModuleLoadData(&module, &cubin), CUDA_ERROR_INVALID_IMAGE);
	CHECK(module == BAD_MODULE);
}

static void fat_binaries(int socket)
{
	static struct {
		uint32_t magic;
		uint16_t version, header_bytes;
		uint64_t body_bytes;
		uint16_t kind, entry_version;
		uint32_t entry_bytes;
		uint64_t payload_bytes;
		uint32_t compressed_bytes, unused;
		uint16_t minor, major;
		uint32_t architecture, name_offset, name_bytes;
		uint64_t flags, reserved, decompressed_bytes;
		struct cubin cubin;
	} fat = { 0xba55ed50,
		  1,
		  16,
		  64 + sizeof(struct cubin),
		  2,
		  0x101,
		  64,
		  sizeof(struct cubin),
		  0,
		  0,
		  0,
		  0,
		  86,
		  0,
		  0,
		  0,
		  0,
		  0,
		  { .text = { 0 } } };
	struct {
		uint32_t magic, version;
		const void *data, *unused;
	} wrapper = { 0x466243b1, 1, &fat, NULL };
	CUmodule module;

	(void)socket;
	core_begin(0);
	make_cubin(&fat.cubin);
	check_cubin(load(&fat));
	CHECK_OK(cuModuleLoadFatBinary(&module, &wrapper));
	check_cubin(module);
	fat.payload_bytes = 1U << 20;
	CHECK_CODE(cuModuleLoadData(&module, &fat), CUDA_ERROR_INVALID_IMAGE);
	fat.payload_bytes = sizeof(struct cubin);
	fat.kind = 9;
	CHECK_CODE(cuModuleLoadData(&module, &fat), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

static void passes(void **state)
{
	assert_true(core_passes("1x1G", *(void (**)(int)) * state));
}

#define PASSES(body)                                        \
	{                                                   \
#body, passes, NULL, NULL, &(void (*)(int)) \
		{                                           \
			body                                \
		}                                           \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PASSES(cubins),
		PASSES(fat_binaries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
