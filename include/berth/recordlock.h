/* SPDX-License-Identifier: Apache-2.0
 *
 * A record lock: one process at a time, one thread of it at a time, does a step that must not overlap. It is a
 * POSIX record lock (fcntl) on one byte of a file, so the kernel frees it whatever its owner dies of, in
 * every pid namespace, and nobody ever has to delete a file.
 *
 * Two ways to wait, on the same byte, so they exclude each other whatever the mix:
 *
 *	block	the kernel's own queue (F_SETLKW): ext2/3/4, xfs, btrfs, f2fs, zfs, tmpfs, ramfs, overlayfs
 *	poll	fresh tries (F_SETLK) with pauses, cut short by hints; never blocks in the kernel:
 *		NFS, FUSE, 9p, cifs and every file system that is not known
 *
 * The file system's class decides, unless options or the environment (BERTH_RECORDLOCK=block|poll) do.
 * Every wait has a deadline. No signal, no handler and no timer of the program is touched.
 *
 * What an owner must know. The lock belongs to the process: a fork child doesn't own it, and giving it back
 * there does nothing to the parent's. Closing *any* descriptor of the file in the owner's process drops it
 * without a word (POSIX): berth_recordlock_check, called before each write that the lock guards, sees
 * that. The byte lies outside whatever is mapped of the file: BERTH_RECORDLOCK_OUTSIDE asserts it. Nobody
 * may replace or remove the file while it is in use: who opens it afterwards locks another file.
 *
 * What a program may do. All locks of a file share one descriptor, close-on-exec and above 2. A program may
 * close it, as those do that close all: it is opened again by its path, and what else got its
 * number is neither locked nor closed. A wait in the kernel's queue is made by a small process ("berth-proxy") that
 * shares memory and descriptors. It has exit signal 0: it raises no SIGCHLD, and wait(2) sees it with __WALL only. It
 * ends with the wait, or with the thread that waits, and is reaped at the latest when the lock is given back. Where it
 * can't be made (limits, seccomp, a new pid namespace, valgrind) the wait polls. What it can't hide: the
 * program's own F_SETLKW may fail with EDEADLK where the kernel takes our wait for half of a deadlock, and an execve by
 * another thread during the wait may lose the program's own record locks. BERTH_RECORDLOCK_POLL has neither.
 *
 * Unless a function says otherwise: thread-safe; not async-signal-safe; keeps errno; 0 or a negative errno.
 */
#ifndef BERTH_RECORDLOCK_H
#define BERTH_RECORDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The byte that is locked unless the options name another. Fails to compile if a structure that is mapped from
 * the file's beginning reaches the byte:  BERTH_RECORDLOCK_OUTSIDE(struct header, BERTH_RECORDLOCK_BYTE); */
#define BERTH_RECORDLOCK_BYTE 0x40000000LL
#ifdef __cplusplus
#define BERTH_RECORDLOCK_OUTSIDE(type, byte) \
	static_assert(sizeof(type) <= (unsigned long long)(byte), #type " reaches the lock byte")
#else
#define BERTH_RECORDLOCK_OUTSIDE(type, byte) \
	_Static_assert(sizeof(type) <= (unsigned long long)(byte), #type " reaches the lock byte")
#endif

struct berth_recordlock;

enum berth_recordlock_way {
	BERTH_RECORDLOCK_AUTO = 0,  /* as the environment or the file system's class says */
	BERTH_RECORDLOCK_BLOCK = 1, /* in the kernel's queue, wherever the file lies */
	BERTH_RECORDLOCK_POLL = 2,  /* tries with hints */
	BERTH_RECORDLOCK_BARE = 3,  /* tries without hints: to measure what hints are good for */
};

enum berth_recordlock_flags {
	/* Make the file if it is absent: mode 0600 whatever the umask is, with a line of text in it. */
	BERTH_RECORDLOCK_CREATE = 1U << 0,
	/* Nobody sits and waits for it: pauses grow to 1 s, not to 50 ms. */
	BERTH_RECORDLOCK_PATIENT = 1U << 1,
	/* While it is held, look every 50 ms whether a foreign close has dropped it, and take it again; check still
	 * tells that it was lost. For steps that last: costs a thread that libc doesn't know (some 50 us a
	 * hold), which ends with the hold. It needs /proc, and ends, reported, when the program changes its
	 * user, groups or capabilities: until its next look it has those that the program has given up. */
	BERTH_RECORDLOCK_KEEP = 1U << 2,
	/* Refuse the file (-EPERM) unless it belongs to root or to this user, and nobody else may write it. Looked at
	 * in the file that was opened, not by its path. */
	BERTH_RECORDLOCK_TRUSTED = 1U << 3,
};

struct berth_recordlock_options {
	size_t size;  /* of this structure: sizeof(struct berth_recordlock_options) */
	uint32_t way; /* enum berth_recordlock_way */
	uint32_t flags;
	int64_t byte; /* >= 0; 0 = BERTH_RECORDLOCK_BYTE */
	/* Told, in words, what goes wrong (err < 0), also if it is got over: no queue, no keeper, a hold lost to a foreign
	 * close, an environment variable that says nothing. Called in the thread that uses the lock; must not use it.
	 * NULL = nobody is told. */
	void (*report)(void *arg, int err, const char *text);
	void *report_arg;
};

/* Who stood in the way, as far as it is known. */
struct berth_recordlock_owner {
	pid_t pid; /* in our pid namespace; 0 = unknown */
	/* Field 22 of /proc/PID/stat, 0 = unknown: a pid alone names nobody. */
	uint64_t start_ticks;
};

/* What was done to wait, since the lock was opened; counted by all threads. For tests and the curious. */
struct berth_recordlock_trace {
	uint64_t try_count;   /* F_SETLK that asked for the lock */
	uint64_t block_count; /* F_SETLKW: by a process of its own */
	uint64_t nap_count;   /* pauses */
	uint64_t hint_count;  /* pauses that a hint ended */
	uint64_t lost_count;  /* holds that a foreign close had dropped */
	uint32_t way;         /* the one in use: never AUTO */
};

/* Opens the lock of the file at path (absolute, or from the working directory as it is now). options NULL = all
 * defaults. A symlink as the last component is refused with -ELOOP, a directory with -EISDIR, what else isn't a regular
 * file with -EINVAL, as are options that are not known. The file must be writable for this user: -EACCES.
 * Else what open(2) says. A lock of the same file and byte that is open in this process, by whatever path, excludes this
 * one like any other. Free with berth_recordlock_close. In a fork child it may be used: it is then a lock that the
 * child does not own. */
int berth_recordlock_open(const char *path, const struct berth_recordlock_options *options,
			  struct berth_recordlock **ret_lock);

/* Takes the lock. Waits at most timeout_ms milliseconds (0 = one try; there is no endless wait: < 0 is
 * -EINVAL). -ETIMEDOUT: somebody else has it; *ret_owner, if not NULL, tells who (zeros = unknown; also
 * written on -EDEADLK; this process itself, if another thread has it). -EDEADLK: this very thread has it, through this
 * lock or another one of the same byte. -ESTALE: the program has closed the descriptor, and the path leads to another
 * file. Else what the kernel said: -ENOLCK, -EIO, … A point of cancellation is never reached while it is half
 * taken. On a file system whose server doesn't answer, a single try may last longer than timeout_ms. */
int berth_recordlock_take(struct berth_recordlock *lock, int64_t timeout_ms,
			  struct berth_recordlock_owner *ret_owner);

/* Before each write that the lock guards; one system call. 0: held, without a break since it was taken or last
 * checked. 1: a foreign close had dropped it; it is taken again, and others may have held it in between: what was read
 * under it may be out of date. -EOWNERDEAD: it was dropped and somebody else has it; the hold is over and must
 * not be given back. -EPERM: not held through this lock by this process. Else it can't be told (-ESTALE, -EIO, …): don't
 * write; the hold is still to be given back. Callable by any thread of the owner's process. Where the file
 * system can't say who has a lock (some FUSE), it always takes it again and returns 1. */
int berth_recordlock_check(struct berth_recordlock *lock);

/* Gives it back; it need not be the thread that took it. -EPERM: not held through this lock by this process; nothing
 * was done. 0 also if a foreign close had dropped it. Another error (of a server's): the hold is over for this
 * process, and the kernel frees the lock when the file is closed. */
int berth_recordlock_give(struct berth_recordlock *lock);

/* NULL is fine. A hold through this lock is given back first, others of the same file stay. No other thread may use
 * the lock any more. */
void berth_recordlock_close(struct berth_recordlock *lock);

void berth_recordlock_trace(const struct berth_recordlock *lock,
			    struct berth_recordlock_trace *ret_trace);

#ifdef __cplusplus
}
#endif

#endif
