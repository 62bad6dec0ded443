/* SPDX-License-Identifier: Apache-2.0
 *
 * State of this module: the page and the epoch's number. Killed anywhere: nothing is shared with anybody.
 */
#include "lock/epoch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lock/lockfile.h"

/* All zero in a fork child. */
struct wiped_page {
	_Atomic uint32_t ours;
	_Atomic int32_t pid;
};

static struct {
	_Atomic(struct wiped_page *) page; /* NULL before the first lock; then for ever */
	_Atomic uint32_t epoch;
	_Atomic bool handler_registered;
} process;

static void become_child(struct wiped_page *page)
{
	atomic_store_explicit(&page->pid, getpid(), memory_order_relaxed);
	atomic_store_explicit(&page->ours, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&process.epoch, 1, memory_order_relaxed);
	berth_lockfile_forget_all();
}

static void fork_child(void)
{
	struct wiped_page *page = atomic_load_explicit(&process.page, memory_order_relaxed);

	if (page != NULL)
		become_child(page);
}

/* Before main, where no other thread is about to fork: a fork that has begun when a handler is
 * registered doesn't run it. */
__attribute__((constructor)) static void register_early(void)
{
	if (pthread_atfork(NULL, NULL, fork_child) == 0) /* else tried again at the first lock */
		atomic_store_explicit(&process.handler_registered, true, memory_order_relaxed);
}

int berth_lock_epoch_prepare(void)
{
	struct wiped_page *none = NULL;
	struct wiped_page *page = atomic_load_explicit(&process.page, memory_order_acquire);

	if (!atomic_load_explicit(&process.handler_registered, memory_order_relaxed))
		register_early();
	if (page != NULL) {
		(void)berth_lock_epoch();
		return 0;
	}
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (page == MAP_FAILED)
		return -ENOMEM;
	/* Refused by kernels before 4.14: then the fork handler alone does it. */
	(void)madvise(page, sizeof(*page), MADV_WIPEONFORK);
	atomic_store_explicit(&page->pid, getpid(), memory_order_relaxed);
	atomic_store_explicit(&page->ours, 1, memory_order_relaxed);
	/* Without a mutex, which a child forked meanwhile would find locked for ever. Release pairs with
	 * the acquires of page. */
	if (!atomic_compare_exchange_strong_explicit(&process.page, &none, page,
						     memory_order_acq_rel, memory_order_acquire))
		(void)munmap(page, sizeof(*page)); /* can't fail: we mapped it */
	return 0;
}

uint32_t berth_lock_epoch(void)
{
	struct wiped_page *page = atomic_load_explicit(&process.page, memory_order_acquire);

	/* A bare clone's child: it has one thread here. */
	if (atomic_load_explicit(&page->ours, memory_order_relaxed) == 0)
		become_child(page);
	return atomic_load_explicit(&process.epoch, memory_order_relaxed);
}

pid_t berth_lock_pid(void)
{
	struct wiped_page *page = atomic_load_explicit(&process.page, memory_order_acquire);

	return atomic_load_explicit(&page->pid, memory_order_relaxed);
}
