/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and mapping a region, and the refusals. Nothing is written here, and nothing of the file
 * is believed before its size, marks and signature were seen.
 */
#include "region/map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "region/lockbyte.h"

/* "DIR", "." or "/" of a path. */
static void path_directory(const char *path, char ret_dir[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;

	if (length >= PATH_MAX)
		length = PATH_MAX - 1;
	memcpy(ret_dir, path, length);
	ret_dir[length] = '\0';
	if (length == 0)
		memcpy(ret_dir, ".", sizeof ".");
}

int berth_map_no_descriptor(const char *path, int err, struct berth_reason *reason)
{
	struct rlimit limit = { 0 };

	if (err != -EMFILE || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return berth_reason_set(reason, err,
					"%s: can't be opened: the machine has no file left to open "
					"(fs.file-max); end some programs or raise it",
					path);
	return berth_reason_set(reason, err,
				"%s: can't be opened: this process has no file descriptor left of "
				"%llu (RLIMIT_NOFILE); close some or raise the limit (ulimit -n)",
				path, (unsigned long long)limit.rlim_cur);
}

static int open_failed(const char *path, int err, struct berth_reason *reason)
{
	switch (err) {
	case -ENOENT:
		return berth_reason_set(reason, err,
					"%s: there is no such region (or its directory is missing)",
					path);
	case -ELOOP:
		return berth_reason_set(reason, err,
					"%s: is a symbolic link; name the region itself", path);
	case -EISDIR:
		return berth_reason_set(reason, err, "%s: is a directory; name a file in it", path);
	case -EACCES:
	case -EPERM:
		return berth_reason_set(reason, err,
					"%s: this user may not open it (%s); it must belong to the "
					"user that the program runs as, or choose another path",
					path, strerror(-err));
	case -EMFILE:
	case -ENFILE:
		return berth_map_no_descriptor(path, err, reason);
	default:
		return berth_reason_set(reason, err, "%s: can't be opened: %s", path,
					strerror(-err));
	}
}

/* In a directory where anyone may put files (sticky, like /tmp), only our own, root's and the
 * directory owner's are believed: a stranger's file could lift the limit later. */
static int owner_check(const char *path, const struct stat *st, struct berth_reason *reason)
{
	char dir[PATH_MAX];
	struct stat dir_st = { 0 };

	if (st->st_uid == geteuid() || st->st_uid == 0)
		return 0;
	path_directory(path, dir);
	/* The directory itself, also where its name is a link (/var/lock): not the link, which anybody
	 * may write. */
	BERTH_FD int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : berth_fd_stat(fd, &dir_st);
	if (r < 0)
		return berth_reason_set(reason, r, "%s: can't be looked at: %s", dir, strerror(-r));
	if (!(dir_st.st_mode & S_ISVTX) || st->st_uid == dir_st.st_uid)
		return 0;
	return berth_reason_set(reason, -EPERM,
				"%s: belongs to user %ld, who is neither you nor the owner of the "
				"directory; remove it or choose another path",
				path, (long)st->st_uid);
}

/* What else may lie there. Looked at before it is opened: opening a device can do things to it. */
static int kind_check(const char *path, const struct stat *st, struct berth_reason *reason)
{
	const char *kind = S_ISFIFO(st->st_mode)                          ? "a FIFO"
			   : S_ISSOCK(st->st_mode)                        ? "a socket"
			   : S_ISBLK(st->st_mode) || S_ISCHR(st->st_mode) ? "a device"
									  : "of a strange kind";

	if (S_ISREG(st->st_mode))
		return 0;
	if (S_ISLNK(st->st_mode))
		return open_failed(path, -ELOOP, reason);
	if (S_ISDIR(st->st_mode))
		return open_failed(path, -EISDIR, reason);
	return berth_reason_set(reason, -EINVAL,
				"%s: is %s, not a regular file; choose another path", path, kind);
}

/* Whether it is long enough to say whose it is. The marks judge the rest. */
static int size_check(int fd, const char *path, off_t size, struct berth_reason *reason)
{
	int32_t magic = 0;

	if (size >= (off_t)sizeof(struct berth_layout_head))
		return 0;
	if (pread(fd, &magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
	    magic == BERTH_LAYOUT_MAGIC)
		return berth_reason_set(reason, -EBADMSG,
					"%s: is not a region: %lld bytes where %zu belong, though "
					"it begins like one: "
					"it is of an older format, or was cut short; end its "
					"programs, then remove it",
					path, (long long)size, (size_t)BERTH_LAYOUT_SIZE);
	return berth_reason_set(reason, -EBADMSG,
				"%s: is not a region: %lld bytes where %zu belong; a left-over or "
				"another program's file: remove it or choose another path",
				path, (long long)size, (size_t)BERTH_LAYOUT_SIZE);
}

int berth_map_open(const char *path, bool writable, struct berth_reason *reason)
{
	/* Never O_CREAT: with fs.protected_regular even root may then not open another's file in a
	 * sticky directory. O_NONBLOCK: a FIFO must not hold us up. */
	int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct stat st;
	int r = berth_path_lstat(AT_FDCWD, path, &st);

	if (r < 0)
		return open_failed(path, r, reason);
	r = kind_check(path, &st, reason);
	if (r < 0)
		return r;
	BERTH_FD int fd = open(path, flags);
	if (fd < 0)
		return open_failed(path, -errno, reason);
	/* Again: it may be another file by now. */
	r = berth_fd_stat(fd, &st);
	if (r < 0)
		return open_failed(path, r, reason);
	r = kind_check(path, &st, reason);
	if (r == 0)
		r = owner_check(path, &st, reason);
	if (r == 0)
		r = size_check(fd, path, st.st_size, reason);
	return r < 0 ? r : BERTH_TAKE_FD(fd);
}

/* Reads the marks with pread: a file that is too short for our mapping is never mapped. */
static int marks_check(int fd, const char *path, off_t size, struct berth_reason *reason)
{
	struct {
		int32_t magic;
		uint32_t major;
		uint32_t minor;
	} head = { 0 };
	uint64_t tail[2] = { 0 };

	if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
	    head.magic != BERTH_LAYOUT_MAGIC)
		return berth_reason_set(reason, -EBADMSG,
					"%s: is not a region, or was never completed; remove it or "
					"choose another path",
					path);
	if (head.major != BERTH_LAYOUT_MAJOR || head.minor != BERTH_LAYOUT_MINOR)
		return berth_reason_set(
			reason, -EPROTONOSUPPORT,
			"%s: is a region of format %u.%u, this version knows %d.%d; end "
			"its programs, then remove it",
			path, head.major, head.minor, BERTH_LAYOUT_MAJOR, BERTH_LAYOUT_MINOR);
	if (pread(fd, tail, sizeof tail, BERTH_TAIL_OFFSET) != (ssize_t)sizeof tail ||
	    tail[0] != BERTH_TAIL_MAGIC)
		return berth_reason_set(reason, -EPROTONOSUPPORT,
					"%s: is a region of another implementation (or was cut "
					"short), which can't be shared with this one; end its "
					"programs, then remove it",
					path);
	if (tail[1] != BERTH_LAYOUT_SIGNATURE)
		return berth_reason_set(reason, -EPROTONOSUPPORT,
					"%s: was made by another version (format %016" PRIx64
					", here %016" PRIx64 "); end its programs, then remove it",
					path, tail[1], (uint64_t)BERTH_LAYOUT_SIGNATURE);
	if (size != (off_t)BERTH_LAYOUT_SIZE)
		return berth_reason_set(
			reason, -EPROTONOSUPPORT,
			"%s: is damaged: it was %s, to %lld bytes where %zu belong; "
			"end its programs, then remove it",
			path, size < (off_t)BERTH_LAYOUT_SIZE ? "cut short" : "made longer",
			(long long)size, (size_t)BERTH_LAYOUT_SIZE);
	return 0;
}

static int count_check(const char *path, uint64_t gpu_count, struct berth_reason *reason)
{
	if (gpu_count <= BERTH_GPU_MAX)
		return 0;
	return berth_reason_set(reason, -EBADMSG,
				"%s: is damaged: it claims %" PRIu64
				" GPUs; end its programs, then remove it",
				path, gpu_count);
}

/* Figures that nothing of ours or of HAMi's writes. Limits and seats need no look: any value of
 * theirs means something, and is used within bounds. Who only looks may see mad seats too, to tell
 * of them. */
static int figures_check(const struct berth_layout *layout, const char *path, bool writable,
			 uint32_t *ret_gpu_count, struct berth_reason *reason)
{
	int32_t high = atomic_load(&layout->head.seat_high);
	/* Once: who may write the file may change it between two reads. */
	uint64_t gpu_count = atomic_load(&layout->head.gpu_count);
	int r = count_check(path, gpu_count, reason);

	if (r < 0)
		return r;
	if (writable && (high < 0 || high > BERTH_SEAT_MAX))
		return berth_reason_set(reason, -EBADMSG,
					"%s: is damaged: it claims %" PRId32
					" seats of %d; end its programs, then remove it",
					path, high, BERTH_SEAT_MAX);
	*ret_gpu_count = (uint32_t)gpu_count;
	return 0;
}

/* What is read here was written at birth and stays, so a read is as good as a mapping. */
int berth_region_peek(const char *path, uint32_t *ret_gpu_count,
		      char ret_uuids[BERTH_GPU_MAX][BERTH_UUID_SIZE], struct berth_reason *reason)
{
	struct {
		uint64_t gpu_count;
		char uuids[BERTH_GPU_MAX][BERTH_UUID_SIZE];
	} head;
	const off_t offset = offsetof(struct berth_layout_head, gpu_count);
	BERTH_FD int fd = berth_map_open(path, false, reason);
	struct stat st;

	_Static_assert(offsetof(struct berth_layout_head, uuids) ==
			       offsetof(struct berth_layout_head, gpu_count) + sizeof(uint64_t),
		       "read in one go");
	if (fd < 0)
		return fd;
	int r = berth_fd_stat(fd, &st);
	if (r == 0)
		r = marks_check(fd, path, st.st_size, reason);
	if (r == 0 && pread(fd, &head, sizeof head, offset) != (ssize_t)sizeof head)
		r = -EBADMSG;
	if (r == 0)
		r = count_check(path, head.gpu_count, reason);
	if (r < 0)
		return berth_reason_set(reason, r, "%s: can't be read: %s", path, strerror(-r));
	for (uint32_t i = 0; i < BERTH_GPU_MAX; i++)
		head.uuids[i][BERTH_UUID_SIZE - 1] = '\0';
	memcpy(ret_uuids, head.uuids, sizeof head.uuids);
	*ret_gpu_count = (uint32_t)head.gpu_count;
	return 0;
}

/* A page that is wiped in children. Where the kernel can't (before 4.14), forget clears it. */
static int mark_make(_Atomic uint64_t **ret_mark)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	_Atomic uint64_t *mark =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mark == MAP_FAILED)
		return -errno;
	(void)madvise(mark, size, MADV_WIPEONFORK); /* see above */
	atomic_store_explicit(mark, 1, memory_order_relaxed);
	*ret_mark = mark;
	return 0;
}

static int layout_map(int fd, bool writable, struct berth_layout **ret_layout)
{
	int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
	void *layout = mmap(NULL, BERTH_LAYOUT_SIZE, prot, MAP_SHARED, fd, 0);

	if (layout == MAP_FAILED)
		return -errno;
	if (madvise(layout, BERTH_LAYOUT_SIZE, MADV_DONTFORK) < 0) {
		int err = -errno;

		(void)munmap(layout, BERTH_LAYOUT_SIZE); /* nothing else can be done about it */
		return err;
	}
	*ret_layout = layout;
	return 0;
}

/* An object with its absolute path behind it, in a mapping of its own: a fork handler can't call free,
 * whose locks may be held by a malloc that prepared itself for the fork. */
static int region_new(const char *path, struct berth_region **ret_region)
{
	struct berth_region *region;
	char dir[PATH_MAX] = "";

	if (path[0] != '/' && !getcwd(dir, sizeof dir - 1))
		return -errno;
	if (path[0] != '/')
		(void)strcat(dir, "/");
	size_t size = sizeof *region + strlen(dir) + strlen(path) + 1;
	region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (region == MAP_FAILED)
		return -ENOMEM;
	region->size = size;
	region->path = (char *)(region + 1);
	(void)strcat(strcpy(region->path, dir), path);
	region->kept_fd = -1;
	*ret_region = region;
	return 0;
}

static int region_fill(struct berth_region *region, int fd, const char *path, bool writable,
		       struct berth_reason *reason)
{
	struct stat st;
	int r = berth_fd_stat(fd, &st);

	if (r < 0)
		return r;
	r = marks_check(fd, path, st.st_size, reason);
	if (r < 0)
		return r;
	region->device = st.st_dev;
	region->inode = st.st_ino;
	region->writable = writable;
	atomic_init(&region->own_seat, -1);
	r = berth_fs_class_of_fd(fd, &region->fs_class);
	if (r == 0)
		r = mark_make(&region->mark);
	if (r == 0)
		r = layout_map(fd, writable, &region->layout);
	if (r < 0)
		return r;
	const struct berth_layout *layout = region->layout;
	r = figures_check(layout, path, writable, &region->gpu_count, reason);
	if (r < 0)
		return r;
	memcpy(region->share_name, layout->tail.share_name, sizeof region->share_name);
	region->share_name[sizeof region->share_name - 1] = '\0';
	return 0;
}

int berth_map_make(int fd, const char *path, bool writable, struct berth_region **ret_region,
		   struct berth_reason *reason)
{
	struct berth_region *region = NULL;
	int r = region_new(path, &region);

	if (r == 0)
		r = region_fill(region, fd, path, writable, reason);
	if (r < 0) {
		berth_region_close(region);
		return berth_reason_set(reason, r, "%s: can't be mapped: %s", path, strerror(-r));
	}
	berth_lockbyte_keep(region, fd);
	*ret_region = region;
	return 0;
}

static void mark_free(struct berth_region *region)
{
	if (region->mark)
		(void)munmap(region->mark,
			     (size_t)sysconf(_SC_PAGESIZE)); /* can't fail: we mapped it */
}

void berth_region_close(struct berth_region *region)
{
	if (!region)
		return;
	if (region->layout && berth_map_ours(region))
		(void)munmap(region->layout, BERTH_LAYOUT_SIZE); /* can't fail: we mapped it */
	berth_region_forget(region);
}

void berth_region_forget(struct berth_region *region)
{
	if (!region)
		return;
	berth_lockbyte_unkeep(region);
	mark_free(region);
	(void)munmap(region, region->size); /* can't fail: we mapped it */
}
