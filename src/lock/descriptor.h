/* SPDX-License-Identifier: Apache-2.0
 *
 * The one descriptor through which a process locks a file, and the record-lock calls on it.
 *
 * Why one: with record locks, closing any descriptor of a file drops all locks that the process has on
 * it. So all locks of a file share it, it is closed with the last of them, and a surplus one is parked.
 *
 * The program is a stranger. It may close our number (many close all they see) and open a file of its own
 * that gets the same number; locking a byte of that file would be wrong twice. A check before each call
 * (fstat, 0.2 us) would cost a quarter of what the call itself does. Instead the call can only
 * succeed on a descriptor of ours: its file position is set to a large random number, the *tag*,
 * and each call names the byte *relative to the position* (l_whence = SEEK_CUR, l_start = byte - tag). In
 * another file, which stands elsewhere, that is before the beginning: EINVAL. Then the file is opened
 * again by its path, if that still leads to it.
 *
 * Libc-free (task.h): the keeper works with it too.
 */
#ifndef BERTH_LOCK_DESCRIPTOR_H
#define BERTH_LOCK_DESCRIPTOR_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"

enum { BERTH_DESCRIPTORS_PARKED = 8 };

/* How a file system answers F_OFD_GETLK about this process's own record lock. */
enum berth_naming {
	BERTH_NAMING_UNKNOWN = 0,
	BERTH_NAMING_RIGHT, /* with our pid */
	BERTH_NAMING_WRONG, /* with another one: a server makes it up */
	BERTH_NAMING_NONE,  /* not at all */
};

struct berth_descriptor {
	struct berth_descriptor
		*next;      /* of all that ever were: they are never freed, only used again */
	_Atomic int number; /* -1 = none: opened again at the next use */
	int64_t tag;
	dev_t device;
	ino_t inode;
	const char *path;
	_Atomic uint32_t naming;                      /* enum berth_naming */
	_Atomic int parked[BERTH_DESCRIPTORS_PARKED]; /* surplus ones, 0 = no such */
};

#define BERTH_DESCRIPTOR_OPEN_FLAGS (O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)

/* Once in its life; one caller at a time. */
void berth_descriptor_list(struct berth_descriptor *descriptor);

/* Number fd now leads to the file of this descriptor (NULL = of a new one): no other can have it. */
void berth_descriptor_number_taken(int fd, const struct berth_descriptor *by);

/* Sets the position to about random, as far out as the file system lets it. The tag, or -errno. */
int64_t berth_descriptor_tag_set(int fd, uint64_t random);

/* 0; -EAGAIN = somebody else has it; -EBADF: the number isn't ours any more; else -errno. EINTR is retried.
 * command: F_SETLK or F_SETLKW. */
BERTH_MUST_CHECK int berth_descriptor_set_once(const struct berth_descriptor *descriptor,
					       int command, short type, int64_t byte);
/* The same, opening the file again if it must be. -ESTALE: the path leads elsewhere by now. */
BERTH_MUST_CHECK int berth_descriptor_set(struct berth_descriptor *descriptor, int command,
					  short type, int64_t byte);

/* Who stands in the way of a write lock? command F_GETLK: of this process's; F_OFD_GETLK: of a stranger's,
 * for whom this process's own lock stands in the way too. */
BERTH_MUST_CHECK int berth_descriptor_get(struct berth_descriptor *descriptor, int command,
					  int64_t byte, struct flock *ret_lock);

/* Right after the byte was locked; asks once a file. */
void berth_descriptor_learn_naming(struct berth_descriptor *descriptor, int64_t byte, pid_t pid);
/* Is it still? 1 = this process (pid) has it, 0 = not, or it can't be told, -errno. */
BERTH_MUST_CHECK int berth_descriptor_held(struct berth_descriptor *descriptor, int64_t byte,
					   pid_t pid);

/* Is the number one of ours? */
bool berth_descriptor_is_ours(const struct berth_descriptor *descriptor, int fd);

/* Keeps a surplus descriptor open, as closing it would drop locks. */
void berth_descriptor_park(struct berth_descriptor *descriptor, int fd);

/* When no lock of the file is left in this process. */
void berth_descriptor_close(struct berth_descriptor *descriptor);

#endif
