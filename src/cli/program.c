/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic linker ignores a preload silently in all the cases found here, and a program that
 * ignores it has no limit. So look first. Headers are foreign bytes: every offset is checked against
 * the file's size before it is followed.
 */
#include "cli/program.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"

#if __SIZEOF_POINTER__ != 8
#error "Berth runs on 64-bit machines"
#endif

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#error "add this machine's ELF number, and the trampolines in src/interpose"
#endif

enum { MAX_SCRIPT_DEPTH = 4 };

static int try_executable(const char *path, struct berth_program *program)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || access(path, X_OK) != 0)
		return -EACCES;
	(void)snprintf(program->path, sizeof program->path, "%s", path);
	return 0;
}

static int search_path(const char *name, struct berth_program *program)
{
	const char *dirs = getenv("PATH");
	int result = -ENOENT;

	if (!dirs)
		dirs = "/usr/local/bin:/usr/bin:/bin";
	while (*dirs) {
		size_t n = strcspn(dirs, ":");
		char path[PATH_MAX];
		int length = snprintf(path, sizeof path, "%.*s/%s", n ? (int)n : 1, n ? dirs : ".",
				      name);
		if (length > 0 && (size_t)length < sizeof path) {
			int r = try_executable(path, program);
			if (r == 0)
				return 0;
			if (r == -EACCES)
				result = r;
		}
		dirs += n + (dirs[n] == ':');
	}
	return result;
}

int berth_program_find(const char *name, struct berth_program *ret_program,
		       struct berth_reason *reason)
{
	struct berth_program found = { .path = "" };
	int r;

	if (!*name || strlen(name) >= PATH_MAX)
		return berth_reason_set(reason, -ENOENT, "no program is named");
	r = strchr(name, '/') ? try_executable(name, &found) : search_path(name, &found);
	if (r == -EACCES)
		return berth_reason_set(reason, r, "%s is not an executable file", name);
	if (r < 0)
		return berth_reason_set(reason, -ENOENT, "%s: no such program%s", name,
					strchr(name, '/') ? "" : " in PATH");
	*ret_program = found;
	return 0;
}

/* A file, mapped; the bounds of everything that is read from it. */
struct image {
	const unsigned char *bytes;
	size_t size;
};

static void image_done(struct image *image)
{
	if (image->bytes)
		(void)munmap((void *)image->bytes,
			     image->size); /* nothing to be done about a failure */
	image->bytes = NULL;
}

static const void *image_at(const struct image *image, uint64_t offset, uint64_t size)
{
	if (offset > image->size || size > image->size - offset)
		return NULL;
	return image->bytes + offset;
}

static int image_open(const char *path, struct image *ret_image, struct stat *ret_st)
{
	BERTH_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *map;

	if (fd < 0)
		return -errno;
	int r = berth_fd_stat(fd, ret_st);
	if (r < 0)
		return r;
	if (ret_st->st_size < 4)
		return -ENOEXEC;
	map = mmap(NULL, (size_t)ret_st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	*ret_image = (struct image){ .bytes = map, .size = (size_t)ret_st->st_size };
	return 0;
}

static bool gains_rights(const char *path, const struct stat *st)
{
	if ((st->st_mode & S_ISUID) && st->st_uid != geteuid())
		return true;
	if ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getegid())
		return true;
	/* File capabilities count for root too: the kernel then sets AT_SECURE only for others. */
	return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

static const Elf64_Phdr *segment(const struct image *image, const Elf64_Ehdr *head, uint32_t type)
{
	const Elf64_Phdr *table =
		image_at(image, head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr));

	if (!table || head->e_phentsize != sizeof(Elf64_Phdr))
		return NULL;
	for (unsigned i = 0; i < head->e_phnum; i++) {
		if (table[i].p_type == type)
			return &table[i];
	}
	return NULL;
}

/* File offset of a virtual address, through the load segments. */
static bool offset_of(const struct image *image, const Elf64_Ehdr *head, uint64_t address,
		      uint64_t *ret_offset)
{
	const Elf64_Phdr *table =
		image_at(image, head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr));

	for (unsigned i = 0; table && i < head->e_phnum; i++) {
		if (table[i].p_type == PT_LOAD && address >= table[i].p_vaddr &&
		    address - table[i].p_vaddr < table[i].p_filesz) {
			*ret_offset = address - table[i].p_vaddr + table[i].p_offset;
			return true;
		}
	}
	return false;
}

static const char *string_at(const struct image *image, uint64_t offset)
{
	const char *text = image_at(image, offset, 1);

	return text && memchr(text, '\0', image->size - offset) ? text : NULL;
}

/* gcc links AddressSanitizer's runtime as a library, which insists on being first. */
static void find_asan(const struct image *image, const Elf64_Ehdr *head,
		      struct berth_program *program)
{
	const Elf64_Phdr *dynamic = segment(image, head, PT_DYNAMIC);
	const Elf64_Dyn *entries =
		dynamic ? image_at(image, dynamic->p_offset, dynamic->p_filesz) : NULL;
	size_t count = entries ? dynamic->p_filesz / sizeof(Elf64_Dyn) : 0;
	uint64_t strings = 0;

	for (size_t i = 0; i < count; i++) {
		if (entries[i].d_tag == DT_STRTAB &&
		    !offset_of(image, head, entries[i].d_un.d_ptr, &strings))
			return;
	}
	for (size_t i = 0; strings && i < count; i++) {
		if (entries[i].d_tag != DT_NEEDED || entries[i].d_un.d_val >= image->size)
			continue;
		const char *name = string_at(image, strings + entries[i].d_un.d_val);
		if (name && strncmp(name, "libasan.so.", 11) == 0)
			(void)snprintf(program->asan_runtime, sizeof program->asan_runtime, "%s",
				       name);
	}
}

static int inspect_elf(const struct image *image, const char *path, struct berth_program *program,
		       struct berth_reason *reason)
{
	const Elf64_Ehdr *head = image_at(image, 0, sizeof *head);
	const Elf64_Phdr *linker;
	const char *linker_name;

	if (!head || head->e_ident[EI_CLASS] != ELFCLASS64 ||
	    head->e_ident[EI_DATA] != ELFDATA2LSB || head->e_machine != OWN_MACHINE)
		return berth_reason_set(
			reason, -ENOTSUP,
			"%s is a program for another machine or word size: "
			"the library can't be loaded into it, so it can't be limited",
			path);
	linker = segment(image, head, PT_INTERP);
	if (!linker)
		return berth_reason_set(
			reason, -ENOTSUP,
			"%s is statically linked: it loads no libraries, so it can't be "
			"limited; use a dynamically linked build of it",
			path);
	linker_name = string_at(image, linker->p_offset);
	if (linker_name && strstr(linker_name, "musl"))
		return berth_reason_set(
			reason, -ENOTSUP,
			"%s is built for musl (%s); Berth needs a program for glibc "
			"2.28 or newer",
			path, linker_name);
	find_asan(image, head, program);
	return 0;
}

/* The interpreter of a "#!" line, into path. */
static int script_interpreter(const struct image *image, char *path, size_t size)
{
	size_t i = 2, n = 0;

	while (i < image->size && (image->bytes[i] == ' ' || image->bytes[i] == '\t'))
		i++;
	while (i < image->size && n + 1 < size && !isspace(image->bytes[i]))
		path[n++] = (char)image->bytes[i++];
	path[n] = '\0';
	return n ? 0 : -ENOEXEC;
}

/* One file: 0 = judged, 1 = a script whose interpreter (in program->interpreter) is to be judged. */
static int inspect_file(const char *path, struct berth_program *program,
			struct berth_reason *reason)
{
	BERTH_CLEANUP(image_done) struct image image = { 0 };
	struct stat st;
	int r = image_open(path, &image, &st);

	if (r == -EACCES || r == -EPERM)
		return 0; /* execute-only: nothing to be seen, the dynamic linker decides */
	if (r < 0)
		return berth_reason_set(reason, r, "%s: %s", path, strerror(-r));
	if (memcmp(image.bytes, "#!", 2) == 0) {
		/* The kernel ignores set-user-ID on scripts. */
		r = script_interpreter(&image, program->interpreter, sizeof program->interpreter);
		return r < 0 ? berth_reason_set(reason, r, "%s: no interpreter behind #!", path)
			     : 1;
	}
	if (gains_rights(path, &st))
		return berth_reason_set(
			reason, -ENOTSUP,
			"%s runs with other rights than its caller's (set-user-ID, "
			"set-group-ID or file capabilities): the system then ignores "
			"preloaded libraries, so it can't be limited",
			path);
	if (memcmp(image.bytes, ELFMAG, SELFMAG) != 0)
		return 0; /* binfmt_misc or a script without #!: the shell runs it, and it is
			     dynamic */
	return inspect_elf(&image, path, program, reason);
}

int berth_program_inspect(struct berth_program *program, struct berth_reason *reason)
{
	char path[PATH_MAX];
	int r = inspect_file(program->path, program, reason);

	for (int depth = 1; r == 1 && depth < MAX_SCRIPT_DEPTH; depth++) {
		memcpy(path, program->interpreter, sizeof path);
		r = inspect_file(path, program, reason);
	}
	if (r == 1)
		return berth_reason_set(reason, -ELOOP,
					"%s: interpreters of interpreters of scripts",
					program->path);
	return r;
}
