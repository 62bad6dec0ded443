/* SPDX-License-Identifier: Apache-2.0
 *
 * File descriptors. All are close-on-exec. The few calls whose glibc wrapper is newer than
 * GLIBC_2.28 go to the kernel directly, so the preloaded library loads in old containers.
 */
#ifndef BERTH_BASE_FD_H
#define BERTH_BASE_FD_H

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/attributes.h"

/* Closes *fd if it is >= 0 and sets it to -1. Never retried (the descriptor is gone even on
 * EINTR); errno is kept. For BERTH_CLEANUP. */
void berth_fd_close(int *fd);

#define BERTH_FD BERTH_CLEANUP(berth_fd_close)

/* Hand a descriptor on: the variable becomes -1. */
#define BERTH_TAKE_FD(fd)          \
	({                         \
		int taken_ = (fd); \
		(fd) = -1;         \
		taken_;            \
	})

/* fstat, lstat without the glibc 2.33 symbols. 0 or -errno. */
BERTH_MUST_CHECK int berth_fd_stat(int fd, struct stat *ret_st);
BERTH_MUST_CHECK int berth_path_lstat(int dirfd, const char *path, struct stat *ret_st);

/* Reads up to size-1 bytes of a small file (procfs, config) into buf, NUL-terminates it.
 * Returns the length or -errno; -EFBIG if the file holds more. Retries EINTR. */
BERTH_MUST_CHECK ssize_t berth_file_read(int dirfd, const char *path, char *buf, size_t size);

/* The same from a descriptor's present offset. */
BERTH_MUST_CHECK ssize_t berth_fd_read(int fd, char *buf, size_t size);

/* As berth_file_read, but what does not fit is left out. For files whose beginning will do. */
BERTH_MUST_CHECK ssize_t berth_file_read_head(int dirfd, const char *path, char *buf, size_t size);

/* Writes all of buf, retrying EINTR and short writes. 0 or -errno. */
BERTH_MUST_CHECK int berth_fd_write_all(int fd, const void *buf, size_t size);

/* mkdir -p of an absolute path: each missing directory gets the mode given, whatever the umask is.
 * An existing component that is a symlink is followed (/var/run); the last one must be a directory,
 * not a symlink. 0 or -errno. */
BERTH_MUST_CHECK int berth_dir_make(const char *path, mode_t mode);

#endif
