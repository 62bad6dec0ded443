/* SPDX-License-Identifier: Apache-2.0
 *
 * See lockfile.h. State of this module: one list and its mutex.
 *
 * A fork child may get a copy of the list at any moment of another thread's work on it. Entries are
 * published by the store of one pointer, and removed so, thus the copy can be walked; counts may be one
 * too high in it (an entry that is never free again), and the mutex is made anew.
 */
#include "lock/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/filesystem.h"

static const char content[] = "berth lock\n";

static struct {
	pthread_mutex_t mutex;
	_Atomic(struct berth_lockfile *) first;
} files = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static struct berth_lockfile *file_find_locked(const struct stat *st)
{
	struct berth_lockfile *file = atomic_load_explicit(&files.first, memory_order_relaxed);

	for (; file != NULL; file = file->next) {
		if (file->use_count > 0 && file->descriptor.device == st->st_dev &&
		    file->descriptor.inode == st->st_ino)
			return file;
	}
	return NULL;
}

static int byte_get_locked(struct berth_lockfile *file, int64_t at,
			   struct berth_lockbyte **ret_byte)
{
	struct berth_lockbyte *byte = file->bytes;

	while (byte != NULL && byte->byte != at)
		byte = byte->next;
	if (byte == NULL) {
		byte = calloc(1, sizeof(*byte));
		if (byte == NULL)
			return -ENOMEM;
		byte->next = file->bytes;
		byte->file = file;
		byte->byte = at;
		atomic_signal_fence(memory_order_release);
		file->bytes = byte;
	}
	byte->use_count++;
	file->use_count++;
	*ret_byte = byte;
	return 0;
}

/* Absolute, to be found again from another working directory. */
static char *path_copy(const char *path)
{
	char full[PATH_MAX];

	if (path[0] == '/')
		return strdup(path);
	if (getcwd(full, sizeof(full)) == NULL || strlen(full) + 1 + strlen(path) >= sizeof(full))
		return strdup(path);
	(void)strcat(strcat(full, "/"), path);
	return strdup(full);
}

static uint64_t random_bits(void)
{
	uint64_t bits = 0;

	/* It is no secret: a number that no program's file stands at by chance. */
	if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != (ssize_t)sizeof(bits))
		bits = berth_clock_ns() * 0x9e3779b97f4a7c15UL;
	return bits;
}

static int open_checked(const char *path, int flags, struct stat *ret_st)
{
	BERTH_FD int fd = open(path, BERTH_DESCRIPTOR_OPEN_FLAGS | flags, 0600);
	struct stat st;

	if (fd < 0)
		return -errno;
	/* Whatever the umask is. A line in it: what can't be read can give no hint, and whoever finds the
	 * file knows what it is. */
	if (flags & O_CREAT) {
		if (fchmod(fd, 0600) != 0)
			return -errno;
		int r = berth_fd_write_all(fd, content, sizeof(content) - 1);

		(void)r; /* a full disk: a hint less */
	}
	int r = berth_fd_stat(fd, &st);
	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*ret_st = st;
	return BERTH_TAKE_FD(fd);
}

static int file_open(const char *path, bool make, struct stat *ret_st)
{
	int fd = open_checked(path, 0, ret_st);

	if (fd == -ENOENT && make) {
		fd = open_checked(path, O_CREAT | O_EXCL, ret_st);
		if (fd == -EEXIST)
			fd = open_checked(path, 0, ret_st);
	}
	return fd;
}

/* An entry for the open file; takes fd over on success. */
static int file_add_locked(int fd, const struct stat *st, char **path, int64_t tag,
			   struct berth_lockfile **ret_file)
{
	struct berth_lockfile *file = atomic_load_explicit(&files.first, memory_order_relaxed);
	enum berth_fs_class fs_class = BERTH_FS_UNKNOWN;
	struct berth_descriptor *descriptor = NULL;
	bool is_new = false;

	while (file != NULL && file->use_count > 0)
		file = file->next;
	if (file == NULL) {
		file = calloc(1, sizeof(*file));
		if (file == NULL)
			return -ENOMEM;
		is_new = true;
	}
	descriptor = &file->descriptor;
	free((char *)(uintptr_t)descriptor->path);
	descriptor->path = BERTH_TAKE_PTR(*path);
	descriptor->device = st->st_dev;
	descriptor->inode = st->st_ino;
	descriptor->tag = tag;
	if (berth_fs_class_of_fd(fd, &fs_class) < 0)
		fs_class = BERTH_FS_UNKNOWN;
	file->blocks = fs_class == BERTH_FS_LOCAL || fs_class == BERTH_FS_OVERLAY;
	atomic_store_explicit(&descriptor->naming, BERTH_NAMING_UNKNOWN, memory_order_relaxed);
	atomic_store_explicit(&descriptor->number, fd, memory_order_release);
	if (is_new) {
		file->next = atomic_load_explicit(&files.first, memory_order_relaxed);
		atomic_store_explicit(&files.first, file, memory_order_release);
		berth_descriptor_list(descriptor);
	}
	*ret_file = file;
	return 0;
}

/* 0, 1 and 2 are the program's to open: what it prints must not go into a lock file. The first descriptor
 * of its file here, so nothing is dropped by closing it. */
static int above_standard(int *fd)
{
	int high;

	if (*fd > STDERR_FILENO)
		return 0;
	high = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (high < 0)
		return -errno;
	berth_fd_close(fd);
	*fd = high;
	return 0;
}

/* Takes over *fd and *path, on success. */
static int file_add_opened_locked(int *fd, const struct stat *st, char **path,
				  struct berth_lockfile **ret_file)
{
	struct berth_lockfile *file = file_find_locked(st);
	int64_t tag;
	int r;

	if (file != NULL) {
		/* Another thread was faster, and may hold the lock by now: no closing. */
		berth_descriptor_number_taken(*fd, &file->descriptor);
		if (lseek(*fd, file->descriptor.tag, SEEK_SET) == file->descriptor.tag)
			berth_descriptor_park(&file->descriptor, *fd);
		*fd = -1;
		*ret_file = file;
		return 0;
	}
	r = above_standard(fd);
	if (r < 0)
		return r;
	berth_descriptor_number_taken(*fd, NULL);
	tag = berth_descriptor_tag_set(*fd, random_bits());
	if (tag < 0)
		return (int)tag;
	r = file_add_locked(*fd, st, path, tag, ret_file);
	if (r == 0)
		*fd = -1;
	return r;
}

static void path_free(char **path)
{
	free(*path);
}

static int get_by_opening(const char *path, bool make, int64_t at, struct berth_lockbyte **ret_byte)
{
	BERTH_CLEANUP(path_free) char *copy = path_copy(path);
	struct berth_lockfile *file = NULL;
	struct stat st = { 0 };
	int r = 0;

	if (copy == NULL)
		return -ENOMEM;
	BERTH_FD int fd = file_open(path, make, &st);
	if (fd < 0)
		return fd;
	pthread_mutex_lock(&files.mutex);
	r = file_add_opened_locked(&fd, &st, &copy, &file);
	if (r == 0)
		r = byte_get_locked(file, at, ret_byte);
	if (r < 0 && file != NULL && file->use_count == 0)
		berth_descriptor_close(&file->descriptor);
	pthread_mutex_unlock(&files.mutex);
	return r;
}

static int get_known(const struct stat *st, int64_t at, struct berth_lockbyte **ret_byte)
{
	struct berth_lockfile *file = NULL;
	int r = -ENOENT;

	pthread_mutex_lock(&files.mutex);
	file = file_find_locked(st);
	if (file != NULL)
		r = byte_get_locked(file, at, ret_byte);
	pthread_mutex_unlock(&files.mutex);
	return r;
}

int berth_lockfile_get(const char *path, bool make, int64_t byte, struct berth_lockbyte **ret_byte)
{
	struct stat st;
	int r = berth_path_lstat(AT_FDCWD, path, &st);

	if (r == 0) {
		if (S_ISLNK(st.st_mode))
			return -ELOOP;
		if (S_ISDIR(st.st_mode))
			return -EISDIR;
		if (!S_ISREG(st.st_mode))
			return -EINVAL;
		r = get_known(&st, byte, ret_byte);
	}
	/* -ENOENT: the file is absent, or not open here. */
	return r == -ENOENT ? get_by_opening(path, make, byte, ret_byte) : r;
}

int berth_lockfile_trust(struct berth_lockfile *file)
{
	struct berth_descriptor *descriptor = &file->descriptor;
	struct flock lock;
	struct stat st = { 0 };
	/* A question that opens the file again if the program has closed it. */
	int r = berth_descriptor_get(descriptor, F_GETLK, 0, &lock);

	if (r == 0)
		r = berth_fd_stat(atomic_load_explicit(&descriptor->number, memory_order_acquire),
				  &st);
	if (r < 0)
		return r;
	if (st.st_dev != descriptor->device || st.st_ino != descriptor->inode ||
	    (st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return -EPERM;
	return 0;
}

static void byte_remove_locked(struct berth_lockbyte *byte)
{
	struct berth_lockbyte **link = &byte->file->bytes;

	while (*link != byte)
		link = &(*link)->next;
	*link = byte->next;
	atomic_signal_fence(memory_order_release);
	free(byte);
}

void berth_lockfile_put(struct berth_lockbyte *byte)
{
	struct berth_lockfile *file = byte->file;

	pthread_mutex_lock(&files.mutex);
	if (--byte->use_count == 0)
		byte_remove_locked(byte);
	/* Under the mutex: a thread that opens the file now must not take its lock before the close. */
	if (--file->use_count == 0)
		berth_descriptor_close(&file->descriptor);
	pthread_mutex_unlock(&files.mutex);
}

void berth_lockfile_forget_all(void)
{
	struct berth_lockfile *file = atomic_load_explicit(&files.first, memory_order_acquire);

	files.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (; file != NULL; file = file->next) {
		for (struct berth_lockbyte *byte = file->bytes; byte != NULL; byte = byte->next) {
			berth_guard_forget(&byte->guard);
			atomic_store_explicit(&byte->holder, 0, memory_order_relaxed);
			atomic_store_explicit(&byte->broken, 0, memory_order_relaxed);
		}
	}
}
