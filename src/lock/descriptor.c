/* SPDX-License-Identifier: Apache-2.0
 *
 * See descriptor.h. Two threads may find the number lost at once, and both open the file: the one
 * whose compare-and-swap comes first is used, the other's is parked. Killed anywhere: the kernel closes
 * all of them and frees the locks; the file itself is never changed.
 */
#include "lock/descriptor.h"

#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lock/kernel.h"

enum { REOPENS_MAX = 3 };

static _Atomic(struct berth_descriptor *) descriptors;

void berth_descriptor_list(struct berth_descriptor *descriptor)
{
	descriptor->next = atomic_load_explicit(&descriptors, memory_order_relaxed);
	/* Release pairs with the acquire in number_taken. */
	atomic_store_explicit(&descriptors, descriptor, memory_order_release);
}

void berth_descriptor_number_taken(int fd, const struct berth_descriptor *by)
{
	struct berth_descriptor *other = atomic_load_explicit(&descriptors, memory_order_acquire);

	for (; other != NULL; other = other->next) {
		int number = fd;

		if (other != by)
			(void)atomic_compare_exchange_strong_explicit(&other->number, &number, -1,
								      memory_order_relaxed,
								      memory_order_relaxed);
	}
}

int64_t berth_descriptor_tag_set(int fd, uint64_t random)
{
	/* The largest position: 2^63 - 1 (tmpfs, btrfs, NFS), 2^44 (ext4), 2^41 and less (ext4 made in
	 * odd ways). Below 2^33 no default byte would be before the beginning. */
	static const unsigned char bits[] = { 62, 43, 40, 36, 33 };

	for (size_t i = 0; i < BERTH_ARRAY_LEN(bits); i++) {
		uint64_t top = 1ULL << bits[i];
		int64_t tag = (int64_t)(top | (random & (top / 2 - 1)));

		if (BERTH_KERNEL_3(lseek, fd, tag, SEEK_SET) == tag)
			return tag;
	}
	return -EOPNOTSUPP;
}

bool berth_descriptor_is_ours(const struct berth_descriptor *descriptor, int fd)
{
	return BERTH_KERNEL_3(lseek, fd, 0, SEEK_CUR) == descriptor->tag;
}

static int descriptor_call(const struct berth_descriptor *descriptor, int fd, int command,
			   int64_t byte, short type, struct flock *lock)
{
	long r;

	/* A byte so far out isn't before the beginning of other files: ask first. */
	if (byte >= descriptor->tag && !berth_descriptor_is_ours(descriptor, fd))
		return -EBADF;
	do {
		lock->l_type = type;
		lock->l_whence = SEEK_CUR;
		lock->l_start = byte - descriptor->tag;
		lock->l_len = 1;
		lock->l_pid = 0;
		r = BERTH_KERNEL_3(fcntl, fd, command, lock);
	} while (r == -EINTR);
	if (r == -EACCES)
		return -EAGAIN;
	/* EINVAL is also said of commands that are not known. */
	if (r == -EINVAL && !berth_descriptor_is_ours(descriptor, fd))
		return -EBADF;
	return (int)r;
}

int berth_descriptor_set_once(const struct berth_descriptor *descriptor, int command, short type,
			      int64_t byte)
{
	int fd = atomic_load_explicit(&descriptor->number, memory_order_acquire);
	struct flock lock;

	return descriptor_call(descriptor, fd, command, byte, type, &lock);
}

void berth_descriptor_park(struct berth_descriptor *descriptor, int fd)
{
	for (size_t i = 0; i < BERTH_DESCRIPTORS_PARKED; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong_explicit(&descriptor->parked[i], &none, fd,
							    memory_order_relaxed,
							    memory_order_relaxed))
			return;
		/* The program has closed that one since. */
		if (!berth_descriptor_is_ours(descriptor, none) &&
		    atomic_compare_exchange_strong_explicit(&descriptor->parked[i], &none, fd,
							    memory_order_relaxed,
							    memory_order_relaxed))
			return;
	}
	/* Left open for good: closing it might drop a lock. */
}

/* 0, 1 and 2 are the program's to open: what it prints must not go into a lock file. */
static int above_standard(int fd)
{
	long high;

	if (fd > STDERR_FILENO)
		return fd;
	high = BERTH_KERNEL_3(fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	/* The number was lost, and with it every lock: there is nothing to drop, but for what another thread
	 * has taken again this instant, which berth_recordlock_check sees. */
	(void)BERTH_KERNEL_1(close, fd);
	return (int)high;
}

static bool stat_matches(const struct berth_descriptor *descriptor, const struct stat *st)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the kernel has written it */
	return st->st_dev == descriptor->device && st->st_ino == descriptor->inode;
}

static int descriptor_open(const struct berth_descriptor *descriptor)
{
	struct stat st;
	long r = BERTH_KERNEL_4(newfstatat, AT_FDCWD, descriptor->path, &st, AT_SYMLINK_NOFOLLOW);
	int fd;

	/* Looked at first: another file must not even be opened, as this process may have locks of it, which
	 * the close would drop. */
	if (r < 0 || !stat_matches(descriptor, &st))
		return r == -EACCES ? -EACCES : -ESTALE;
	fd = (int)BERTH_KERNEL_4(openat, AT_FDCWD, descriptor->path, BERTH_DESCRIPTOR_OPEN_FLAGS,
				 0);
	if (fd < 0)
		return fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR ? -ESTALE : fd;
	fd = above_standard(fd);
	if (fd < 0)
		return fd;
	r = BERTH_KERNEL_2(fstat, fd, &st);
	if (r == 0 && !stat_matches(descriptor, &st))
		r = -ESTALE;
	if (r < 0) {
		(void)BERTH_KERNEL_1(close, fd); /* another file's: no lock of ours is dropped */
		return (int)r;
	}
	/* What other lock had this number lost it, and must not find its own tag's like here. */
	berth_descriptor_number_taken(fd, descriptor);
	if (BERTH_KERNEL_3(lseek, fd, descriptor->tag, SEEK_SET) != descriptor->tag) {
		(void)BERTH_KERNEL_1(close,
				     fd); /* was opened by nobody else: as in above_standard */
		return -EIO;
	}
	return fd;
}

static int descriptor_reopen(struct berth_descriptor *descriptor)
{
	int lost = atomic_load_explicit(&descriptor->number, memory_order_acquire);
	int fd;

	if (lost >= 0 && berth_descriptor_is_ours(descriptor, lost))
		return 0; /* another thread was faster */
	fd = descriptor_open(descriptor);
	if (fd < 0)
		return fd;
	/* Release: whoever sees the number finds its tag set. */
	if (!atomic_compare_exchange_strong_explicit(&descriptor->number, &lost, fd,
						     memory_order_acq_rel, memory_order_acquire))
		berth_descriptor_park(descriptor, fd);
	return 0;
}

int berth_descriptor_set(struct berth_descriptor *descriptor, int command, short type, int64_t byte)
{
	int r = -EBADF;

	for (int i = 0; i < REOPENS_MAX && r == -EBADF; i++) {
		r = berth_descriptor_set_once(descriptor, command, type, byte);
		if (r == -EBADF) {
			int err = descriptor_reopen(descriptor);

			if (err < 0)
				return err;
		}
	}
	return r;
}

int berth_descriptor_get(struct berth_descriptor *descriptor, int command, int64_t byte,
			 struct flock *ret_lock)
{
	int r = -EBADF;

	for (int i = 0; i < REOPENS_MAX && r == -EBADF; i++) {
		int fd = atomic_load_explicit(&descriptor->number, memory_order_acquire);

		r = descriptor_call(descriptor, fd, command, byte, F_WRLCK, ret_lock);
		if (r == -EBADF) {
			int err = descriptor_reopen(descriptor);

			if (err < 0)
				return err;
		}
	}
	return r;
}

void berth_descriptor_learn_naming(struct berth_descriptor *descriptor, int64_t byte, pid_t pid)
{
	enum berth_naming naming = BERTH_NAMING_NONE;
	struct flock lock;

	if (atomic_load_explicit(&descriptor->naming, memory_order_relaxed) != BERTH_NAMING_UNKNOWN)
		return;
	if (berth_descriptor_get(descriptor, F_OFD_GETLK, byte, &lock) == 0 &&
	    lock.l_type != F_UNLCK)
		naming = lock.l_pid == pid ? BERTH_NAMING_RIGHT : BERTH_NAMING_WRONG;
	atomic_store_explicit(&descriptor->naming, naming, memory_order_relaxed);
}

/* An open-file lock would stand behind our record lock, as it belongs to the open file and not to the
 * process: so this question shows us our own lock. */
int berth_descriptor_held(struct berth_descriptor *descriptor, int64_t byte, pid_t pid)
{
	uint32_t naming = atomic_load_explicit(&descriptor->naming, memory_order_relaxed);
	struct flock lock;
	int r;

	if (naming == BERTH_NAMING_NONE)
		return 0;
	r = berth_descriptor_get(descriptor, F_OFD_GETLK, byte, &lock);
	if (r < 0 || lock.l_type == F_UNLCK)
		return r;
	if (naming == BERTH_NAMING_RIGHT)
		return lock.l_pid == pid;
	/* Somebody has it. If nobody else has, it is us. Wrong only if ours was dropped *and* another process
	 * gave the byte back between the two questions. */
	r = berth_descriptor_get(descriptor, F_GETLK, byte, &lock);
	return r < 0 ? r : lock.l_type == F_UNLCK;
}

void berth_descriptor_close(struct berth_descriptor *descriptor)
{
	int fd = atomic_exchange_explicit(&descriptor->number, -1, memory_order_relaxed);

	if (fd >= 0 && berth_descriptor_is_ours(descriptor, fd))
		(void)BERTH_KERNEL_1(close, fd);
	for (size_t i = 0; i < BERTH_DESCRIPTORS_PARKED; i++) {
		fd = atomic_exchange_explicit(&descriptor->parked[i], 0, memory_order_relaxed);
		if (fd > 0 && berth_descriptor_is_ours(descriptor, fd))
			(void)BERTH_KERNEL_1(close, fd);
	}
}
