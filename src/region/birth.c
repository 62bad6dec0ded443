/* SPDX-License-Identifier: Apache-2.0
 *
 * Birth: a region appears complete or not at all. It is built without a name (O_TMPFILE), then
 * linkat gives it one; whoever loses that race opens the winner's. So there is no half-made state
 * that anybody must wait for, and nothing to clean up after a death. Rejected: create, lock, fill,
 * with a flag that others wait for; every death in between leaves a file that holds up all who
 * come.
 *
 * Many who find no region at once take turns in making it, by a flock on the directory that the
 * kernel drops at a death: else each fills 2.6 MB and waits for the disk, only for one of them to
 * win (64 at once on the 64 MB that containers get in /dev/shm: no space; 300 on a disk: 1.7 s).
 * The turn spares, it doesn't protect: who has waited for a stopped one long enough goes ahead, and
 * so does everybody where directories have no locks.
 *
 * Where the file system has no nameless files (NFS, FUSE, old overlayfs) the file is built under a
 * name of its own, ".NAME.PID-RANDOM.birth", whose creator holds its creation byte. Such a name
 * never matches *.cache. The next creator removes those whose byte is free.
 *
 * Killed after                what others see                who repairs
 * the turn is taken           nothing, the turn is free      nothing to repair
 * it has its temporary name   nothing                        an orphan: the next creator removes it
 * an orphan was found         nothing                        the next creator finds it too
 * the file is made            nothing                        the kernel frees it (named: an orphan,
 * it has its size             nothing                        removed by the next creator)
 * it is filled                nothing                        the same
 * the name leads to it        a whole region, nobody in it   nothing to repair (named: a second
 *                                                            name for it, removed likewise)
 * A stopped creator holds nobody up, and keeps its file: its byte is locked. Stopped between name
 * and lock it may lose the file to a clean-up; it notices that there is nothing to link, and makes
 * another. A clean-up that was stopped unlinks, when it goes on, a name that is never used twice.
 *
 * The file's pages are really there before the name is: a full file system is -ENOSPC here, not a
 * SIGBUS later.
 */
#include "region/birth.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "base/fd.h"
#include "base/process.h"
#include "region/layout.h"
#include "region/lockbyte.h"
#include "region/map.h"

enum { NAME_TRIES = 16 };

#define TURN_WAIT_NS      (30 * BERTH_NS_PER_MS) /* for another one's turn */
#define FULL_WAIT_NS      (100 * BERTH_NS_PER_MS) /* for space, should others be at it without a turn */
#define SPACE_WAIT_NS     (5 * BERTH_NS_PER_S) /* for the space of who has the turn */
#define TURN_DELAY_NS     (BERTH_NS_PER_MS / 4)
#define TURN_DELAY_MAX_NS (8 * BERTH_NS_PER_MS)

struct birth_place {
	char dir[PATH_MAX];
	char base[NAME_MAX + 1];
	char temporary[PATH_MAX]; /* "" = nameless */
};

/* Until when to wait for others. */
struct birth_patience {
	uint64_t turn_deadline_ns;
	uint64_t full_deadline_ns;
	uint64_t space_deadline_ns;
};

static int place_split(const char *path, struct birth_place *place)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	size_t dir_length = slash ? (size_t)(slash - path) : 0;

	if (*base == '\0')
		return -EISDIR;
	if (strlen(base) > NAME_MAX || dir_length >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(place->base, base, strlen(base) + 1);
	if (slash == path)
		memcpy(place->dir, "/", sizeof "/");
	else if (!slash)
		memcpy(place->dir, ".", sizeof ".");
	else {
		memcpy(place->dir, path, dir_length);
		place->dir[dir_length] = '\0';
	}
	place->temporary[0] = '\0';
	return 0;
}

/* All blocks allocated. NFS 4.1 and FUSE know no fallocate: write zeros instead. */
static int file_size(int fd)
{
	static const char zeros[65536];
	int r = 0;

	do
		r = fallocate(fd, 0, 0, (off_t)BERTH_LAYOUT_SIZE) < 0 ? -errno : 0;
	while (r == -EINTR);
	if (r != -EOPNOTSUPP && r != -ENOSYS)
		return r;
	for (size_t done = 0; done < BERTH_LAYOUT_SIZE; done += sizeof zeros) {
		r = berth_fd_write_all(fd, zeros, sizeof zeros);
		if (r < 0)
			return r;
	}
	return 0;
}

static void head_fill(struct berth_layout_head *head, const struct berth_region_spec *spec)
{
	static const struct berth_layout_semaphore semaphore = { .value = 1, .shared = 128 };

	head->major = BERTH_LAYOUT_MAJOR;
	head->minor = BERTH_LAYOUT_MINOR;
	head->semaphore = semaphore;
	head->semaphore_postinit = semaphore;
	head->gpu_count = spec->gpu_count;
	head->priority = spec->priority;
	atomic_init(&head->utilization_switch, 1);
	for (uint32_t i = 0; i < spec->gpu_count; i++) {
		const struct berth_region_gpu *gpu = &spec->gpus[i];

		memcpy(head->uuids[i], gpu->uuid, strnlen(gpu->uuid, BERTH_UUID_SIZE - 1));
		atomic_init(&head->limit_bytes[i], gpu->memory_limit_bytes);
		atomic_init(&head->compute_limit_pct[i], gpu->compute_limit_pct);
	}
}

static void tail_fill(struct berth_layout_tail *tail, const struct berth_region_spec *spec)
{
	struct berth_process_id self = { 0 };

	tail->magic = BERTH_TAIL_MAGIC;
	tail->signature = BERTH_LAYOUT_SIGNATURE;
	tail->boot_id = berth_boot_id();
	tail->created_unix_s = (uint64_t)time(NULL);
	if (berth_process_self(&self) == 0) { /* without /proc: left at 0, it is for people only */
		tail->creator_pid_namespace = self.pid_namespace;
		tail->creator_pid = self.pid;
	}
	memcpy(tail->share_name, spec->share_name,
	       strnlen(spec->share_name, BERTH_SHARE_NAME_MAX - 1));
}

static int file_fill(int fd, const struct berth_region_spec *spec)
{
	struct berth_layout *layout =
		mmap(NULL, BERTH_LAYOUT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (layout == MAP_FAILED)
		return -errno;
	head_fill(&layout->head, spec);
	tail_fill(&layout->tail, spec);
	/* Last; release: whoever reads the mark in a mapping sees all of the above. */
	atomic_store_explicit(&layout->head.initialized_flag, BERTH_LAYOUT_MAGIC,
			      memory_order_release);
	(void)munmap(layout, BERTH_LAYOUT_SIZE); /* can't fail: we mapped it */
	/* The name must not reach the disk before the bytes: a power failure would leave a
	 * half-written region. Costs nothing on tmpfs. */
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

static int nameless_open(struct birth_place *place)
{
	int fd = open(place->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

/* The file system (or a kernel before 3.11, as EISDIR) has no nameless files. */
static bool nameless_unknown(int err)
{
	return err == -EOPNOTSUPP || err == -EISDIR || err == -EINVAL || err == -ENOSYS;
}

static bool name_is_temporary(const struct birth_place *place, const char *name)
{
	size_t base_length = strlen(place->base);
	size_t length = strlen(name);
	size_t suffix_length = sizeof ".birth" - 1;

	return name[0] == '.' && length > base_length + 2 + suffix_length &&
	       memcmp(name + 1, place->base, base_length) == 0 && name[base_length + 1] == '.' &&
	       memcmp(name + length - suffix_length, ".birth", suffix_length) == 0;
}

/* What dead creators left: their byte is free. One that has just been made and isn't locked yet may be
 * caught too; its creator then tries again. found may be NULL. */
static int orphans_each(const struct birth_place *place, bool remove,
			int (*found)(void *arg, const char *name, bool removed), void *arg)
{
	DIR *dir = opendir(place->dir);
	int r = 0;

	if (!dir)
		return -errno;
	for (const struct dirent *entry = readdir(dir); entry && r == 0; entry = readdir(dir)) {
		bool removed = false;

		if (!name_is_temporary(place, entry->d_name))
			continue;
		BERTH_FD int fd = openat(dirfd(dir), entry->d_name,
					 O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0 || berth_lockbyte_held(fd, BERTH_LOCK_CREATION) != 0)
			continue;
		BERTH_CRASH(birth_orphan_found);
		if (remove)
			removed = unlinkat(dirfd(dir), entry->d_name, 0) == 0;
		if (found)
			r = found(arg, entry->d_name, removed);
	}
	(void)closedir(dir); /* only read */
	return r;
}

int berth_birth_orphans(const char *path, bool remove,
			int (*found)(void *arg, const char *name, bool removed), void *arg)
{
	struct birth_place place;
	int r = place_split(path, &place);

	return r < 0 ? r : orphans_each(&place, remove, found, arg);
}

static int named_open(struct birth_place *place)
{
	(void)orphans_each(place, true, NULL, NULL); /* the next one tries again */
	for (int i = 0; i < NAME_TRIES; i++) {
		int n = snprintf(place->temporary, sizeof place->temporary, "%s/.%s.%ld-%llx.birth",
				 place->dir, place->base, (long)getpid(),
				 (unsigned long long)berth_clock_ns());
		if (n < 0 || (size_t)n >= sizeof place->temporary)
			return -ENAMETOOLONG;
		BERTH_FD int fd = open(place->temporary,
				       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno == EEXIST)
			continue;
		if (fd < 0)
			return -errno;
		BERTH_CRASH(birth_named);
		int r = berth_lockbyte_try(fd, BERTH_LOCK_CREATION);
		if (r < 0 && r != -EAGAIN) {
			(void)unlink(place->temporary); /* the error that counts is r */
			return r;
		}
		return BERTH_TAKE_FD(fd);
	}
	return -EEXIST;
}

/* 0, -EEXIST: another has the name, or -errno. */
static int name_give(int fd, const struct birth_place *place, const char *path)
{
	char proc[64];

	if (place->temporary[0] != '\0')
		return link(place->temporary, path) < 0 ? -errno : 0;
	(void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd); /* always fits */
	if (linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	/* No /proc: needs CAP_DAC_READ_SEARCH, or Linux 6.10; else it is as if nameless files were
	 * unknown. */
	if (linkat(fd, "", AT_FDCWD, path, AT_EMPTY_PATH) == 0)
		return 0;
	return errno == ENOENT ? -EOPNOTSUPP : -errno;
}

static int file_build(int fd, const struct birth_place *place, const char *path,
		      const struct berth_region_spec *spec)
{
	BERTH_CRASH(birth_file_made);
	int r = file_size(fd);
	if (r < 0)
		return r;
	BERTH_CRASH(birth_sized);
	/* O_TMPFILE obeys the umask as well: what it took away is given back. */
	if (fchmod(fd, spec->mode ? spec->mode : 0600) < 0)
		return -errno;
	r = file_fill(fd, spec);
	if (r < 0)
		return r;
	BERTH_CRASH(birth_filled);
	r = name_give(fd, place, path);
	if (r == 0)
		BERTH_CRASH(birth_linked);
	return r;
}

static int make_failed(const char *path, const struct birth_place *place, int err,
		       struct berth_reason *reason)
{
	switch (err) {
	case -EEXIST:
		return err;
	case -ENOSPC:
	case -EDQUOT:
		return berth_reason_set(
			reason, err,
			"%s: no space for %zu bytes (%s); make room there or choose "
			"another place",
			path, (size_t)BERTH_LAYOUT_SIZE, strerror(-err));
	case -ENOENT:
	case -ENOTDIR:
		return berth_reason_set(reason, err,
					"%s: there is no directory %s; make it or choose another "
					"place",
					path, place->dir);
	case -EACCES:
	case -EPERM:
	case -EROFS:
		return berth_reason_set(reason, err,
					"%s: the directory %s can't be written (%s); change its "
					"rights or choose another place",
					path, place->dir, strerror(-err));
	case -EMFILE:
	case -ENFILE:
		return berth_map_no_descriptor(path, err, reason);
	default:
		return berth_reason_set(reason, err, "%s: can't be made: %s", path, strerror(-err));
	}
}

static int make_nameless(struct birth_place *place, const char *path,
			 const struct berth_region_spec *spec)
{
	BERTH_FD int fd = nameless_open(place);

	return fd < 0 ? fd : file_build(fd, place, path, spec);
}

static int make_named(struct birth_place *place, const char *path,
		      const struct berth_region_spec *spec)
{
	int r = -ENOENT;

	for (int i = 0; r == -ENOENT && i < NAME_TRIES; i++) {
		BERTH_FD int fd = named_open(place);

		if (fd < 0)
			return fd;
		/* -ENOENT: taken for an orphan before it was locked. */
		r = file_build(fd, place, path, spec);
		(void)unlink(place->temporary); /* else an orphan that the next creator removes */
	}
	return r;
}

/* A descriptor that holds the turn, -EAGAIN: another has it, or another -errno: there are no turns
 * here. */
static int turn_try(const struct birth_place *place)
{
	BERTH_FD int fd = open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return BERTH_TAKE_FD(fd);
}

/* Explicitly: a child of a raw clone may have the descriptor too. */
static void turn_drop(int *fd)
{
	if (*fd >= 0)
		(void)flock(*fd, LOCK_UN); /* what we hold can be dropped */
	berth_fd_close(fd);
}

static bool name_there(const char *path)
{
	struct stat st;

	return berth_path_lstat(AT_FDCWD, path, &st) == 0;
}

/* -EAGAIN: another one is at it. */
static int make_in_turn(struct birth_place *place, const char *path,
			const struct berth_region_spec *spec, bool named,
			const struct birth_patience *patience)
{
	BERTH_CLEANUP(turn_drop) int turn = turn_try(place);
	bool busy = turn == -EAGAIN;

	if (busy && !berth_deadline_passed(patience->turn_deadline_ns))
		return -EAGAIN;
	if (!named && name_there(path))
		return -EEXIST;
	BERTH_CRASH(birth_turn_taken);
	int r = named ? -EOPNOTSUPP : make_nameless(place, path, spec);
	if (nameless_unknown(r))
		r = make_named(place, path, spec);
	if (r != -ENOSPC && r != -EDQUOT)
		return r;
	uint64_t deadline_ns = busy ? patience->space_deadline_ns : patience->full_deadline_ns;
	return berth_deadline_passed(deadline_ns) ? r : -EAGAIN;
}

static int make_patiently(struct birth_place *place, const char *path,
			  const struct berth_region_spec *spec, bool named)
{
	const struct birth_patience patience = {
		.turn_deadline_ns = berth_deadline_after(TURN_WAIT_NS),
		.full_deadline_ns = berth_deadline_after(FULL_WAIT_NS),
		.space_deadline_ns = berth_deadline_after(SPACE_WAIT_NS),
	};
	uint64_t delay_ns = TURN_DELAY_NS;

	for (;;) {
		/* Neither the turn nor the creation byte of a named file may be inherited: no fork
		 * meanwhile. */
		berth_lockbyte_enter();
		int r = make_in_turn(place, path, spec, named, &patience);
		berth_lockbyte_leave();
		if (r != -EAGAIN)
			return r;
		if (name_there(path))
			return -EEXIST;
		berth_sleep_ns(delay_ns, UINT64_MAX);
		if (delay_ns < TURN_DELAY_MAX_NS)
			delay_ns *= 2;
	}
}

int berth_birth_make(const char *path, const struct berth_region_spec *spec, bool named,
		     struct berth_reason *reason)
{
	struct birth_place place;
	int r = place_split(path, &place);

	if (spec->gpu_count > BERTH_GPU_MAX)
		return berth_reason_set(reason, -EINVAL, "%s: %u GPUs asked for, at most %d fit",
					path, spec->gpu_count, BERTH_GPU_MAX);
	if (r == 0)
		r = make_patiently(&place, path, spec, named);
	return r < 0 ? make_failed(path, &place, r, reason) : 0;
}
