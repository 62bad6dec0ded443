/* SPDX-License-Identifier: Apache-2.0
 *
 * The cradle is shared by the benchmark, which writes an order into it, the nursery, and its child.
 */
#include "lock_nursery.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { OWNER_TIMEOUT_MS = 10 * 1000 };

struct lock_cradle {
	const struct lock_way *way; /* NULL: none is wanted any more */
	char path[PATH_MAX + 64];
	size_t resident_bytes;
	pid_t pid;
	int err;
	_Atomic bool holds;
};

static int memory_fill(size_t bytes)
{
	if (bytes == 0)
		return 0;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	(void)madvise(memory, bytes, MADV_NOHUGEPAGE); /* a kernel without them has none */
	memset(memory, 1, bytes);
	return 0;
}

static void __attribute__((noreturn)) owner_live(struct lock_cradle *cradle)
{
	struct lock_user user = { 0 };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* can't fail */
	int r = memory_fill(cradle->resident_bytes);
	if (r == 0)
		r = cradle->way->open(cradle->way, cradle->path, &user);
	if (r == 0)
		r = cradle->way->take(&user, OWNER_TIMEOUT_MS);
	cradle->err = r;
	if (r < 0)
		_exit(1);
	atomic_store(&cradle->holds, true);
	for (;;)
		(void)pause(); /* until it is killed */
}

static int act(void *arg, unsigned step, struct crowd_member *self)
{
	struct lock_cradle *cradle = ((struct lock_nursery *)arg)->cradle;
	static pid_t owner;

	(void)step;
	if (owner > 0)
		(void)waitpid(owner, NULL, 0); /* it was killed */
	owner = 0;
	if (!cradle->way)
		return 0;
	atomic_store(&cradle->holds, false);
	owner = fork();
	if (owner < 0)
		return berth_reason_set(&self->reason, -errno, "no process can be forked");
	if (owner == 0)
		owner_live(cradle);
	while (!atomic_load(&cradle->holds)) {
		if (waitpid(owner, NULL, WNOHANG) != 0)
			return berth_reason_set(
				&self->reason, cradle->err < 0 ? cradle->err : -ECHILD,
				"%s: the owner can't take the lock", cradle->way->name);
		berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
	}
	cradle->pid = owner;
	return 0;
}

int lock_nursery_open(struct lock_nursery *nursery, struct berth_reason *reason)
{
	void *memory = mmap(NULL, sizeof *nursery->cradle, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	*nursery = (struct lock_nursery){ 0 };
	if (memory == MAP_FAILED)
		return berth_reason_set(reason, -errno, "no shared memory");
	nursery->cradle = memory;
	int r = crowd_gather(&nursery->crowd, 1, act, nursery);
	return r < 0 ? berth_reason_set(reason, r, "no process can be started") : 0;
}

int lock_nursery_owner(struct lock_nursery *nursery, const struct lock_way *way, const char *path,
		       size_t resident_bytes, pid_t *ret_pid, struct berth_reason *reason)
{
	struct lock_cradle *cradle = nursery->cradle;

	cradle->way = way;
	cradle->resident_bytes = resident_bytes;
	cradle->err = 0;
	(void)snprintf(cradle->path, sizeof cradle->path, "%s", path);
	int r = crowd_step(&nursery->crowd, reason);
	if (r == 0)
		*ret_pid = cradle->pid;
	return r;
}

int lock_nursery_close(struct lock_nursery *nursery, struct berth_reason *reason)
{
	nursery->cradle->way = NULL;
	int r = crowd_step(&nursery->crowd, reason);
	(void)crowd_end(&nursery->crowd, CROWD_GOES);           /* when it ends doesn't matter */
	(void)munmap(nursery->cradle, sizeof *nursery->cradle); /* can't fail: we mapped it */
	nursery->cradle = NULL;
	return r;
}
