/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ledger is compared with: one table of {pid, bytes} under one lock for all processes, in
 * which an asker that finds no room looks for dead pids by kill(pid, 0).
 *
 * semaphore: the strategy that it replaces. The owner writes its pid beside a process-shared
 * semaphore; who has waited in vain looks whether that process lives, and takes over from a dead
 * one. Who was killed before it wrote its pid is given up after three waits. The wait is 10 s in
 * the original and a hundredth of that here, so its figures are to be read a hundred times as long.
 *
 * robust: a robust process-shared mutex, where the kernel tells the next one that the owner died.
 * It holds within one pid namespace and not, as a share has to, across containers; and a stopped
 * owner stops everybody.
 */
#include "recover.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SLOT_COUNT = 64, WAITS_FOR_NOBODY = 3 };

static struct table {
	pthread_mutex_t mutex;
	sem_t semaphore;
	_Atomic int32_t owner;
	struct {
		int32_t pid;
		uint64_t bytes;
	} slots[SLOT_COUNT];
} * table;

static int own_slot;

static int table_make(void)
{
	table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	return table == MAP_FAILED ? -errno : 0;
}

static void table_unmake(void)
{
	(void)munmap(table, sizeof *table); /* can't fail: we mapped it */
}

static bool dead(int32_t pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

static uint64_t charged_bytes(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < SLOT_COUNT; i++)
		sum += table->slots[i].bytes;
	return sum;
}

static void dead_clean(void)
{
	for (int i = 0; i < SLOT_COUNT; i++) {
		if (table->slots[i].pid != 0 && dead(table->slots[i].pid))
			memset(&table->slots[i], 0, sizeof table->slots[i]);
	}
}

static int enter_locked(void)
{
	dead_clean();
	for (int i = 0; i < SLOT_COUNT; i++) {
		if (table->slots[i].pid == 0) {
			table->slots[i].pid = (int32_t)getpid();
			own_slot = i;
			return 0;
		}
	}
	return -EUSERS;
}

static int ask_locked(uint64_t bytes)
{
	if (charged_bytes() + bytes > LIMIT_BYTES)
		dead_clean();
	if (charged_bytes() + bytes > LIMIT_BYTES)
		return -ENOMEM;
	table->slots[own_slot].bytes += bytes;
	return 0;
}

static int robust_prepare(void)
{
	pthread_mutexattr_t attributes;
	int r = table_make();

	if (r < 0)
		return r;
	(void)pthread_mutexattr_init(&attributes); /* these can't fail in the GNU C library */
	(void)pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	(void)pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	return -pthread_mutex_init(&table->mutex, &attributes);
}

static void robust_lock(void)
{
	if (pthread_mutex_lock(&table->mutex) == EOWNERDEAD)
		(void)pthread_mutex_consistent(&table->mutex); /* it is ours and inconsistent */
}

static void robust_unlock(void)
{
	(void)pthread_mutex_unlock(&table->mutex); /* it is ours */
}

static int robust_enter(void)
{
	robust_lock();
	int r = enter_locked();
	robust_unlock();
	return r;
}

static int robust_ask(uint64_t bytes)
{
	robust_lock();
	int r = ask_locked(bytes);
	robust_unlock();
	return r;
}

static void robust_refund(uint64_t bytes)
{
	robust_lock();
	table->slots[own_slot].bytes -= bytes;
	robust_unlock();
}

static void robust_leave(void)
{
	robust_lock();
	memset(&table->slots[own_slot], 0, sizeof table->slots[own_slot]);
	robust_unlock();
}

const struct recover_way recover_robust = {
	.prefix = "recover.robust",
	.prepare = robust_prepare,
	.enter = robust_enter,
	.ask = robust_ask,
	.refund = robust_refund,
	.leave = robust_leave,
	.finish = table_unmake,
};

static int semaphore_prepare(void)
{
	int r = table_make();

	return r < 0 ? r : sem_init(&table->semaphore, 1, 1) < 0 ? -errno : 0;
}

static bool semaphore_wait(void)
{
	struct timespec until;
	int r;

	(void)clock_gettime(CLOCK_REALTIME, &until); /* can't fail */
	until.tv_nsec += RECOVER_SEMAPHORE_WAIT_MS * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	do
		r = sem_timedwait(&table->semaphore, &until);
	while (r < 0 && errno == EINTR);
	return r == 0;
}

static void semaphore_lock(void)
{
	int32_t self = (int32_t)getpid();
	int nobody_count = 0;

	while (!semaphore_wait()) {
		int32_t owner = atomic_load(&table->owner);

		nobody_count = owner == 0 ? nobody_count + 1 : 0;
		if (owner == 0 ? nobody_count < WAITS_FOR_NOBODY : !dead(owner))
			continue;
		if (atomic_compare_exchange_strong(&table->owner, &owner, self))
			return;
	}
	atomic_store(&table->owner, self);
}

static void semaphore_unlock(void)
{
	atomic_store(&table->owner, 0);
	(void)sem_post(&table->semaphore); /* can't overflow: it was 0 */
}

static int semaphore_enter(void)
{
	semaphore_lock();
	int r = enter_locked();
	semaphore_unlock();
	return r;
}

static int semaphore_ask(uint64_t bytes)
{
	semaphore_lock();
	int r = ask_locked(bytes);
	semaphore_unlock();
	return r;
}

static void semaphore_refund(uint64_t bytes)
{
	semaphore_lock();
	table->slots[own_slot].bytes -= bytes;
	semaphore_unlock();
}

static void semaphore_leave(void)
{
	semaphore_lock();
	memset(&table->slots[own_slot], 0, sizeof table->slots[own_slot]);
	semaphore_unlock();
}

const struct recover_way recover_semaphore = {
	.prefix = "recover.semaphore",
	.prepare = semaphore_prepare,
	.enter = semaphore_enter,
	.ask = semaphore_ask,
	.refund = semaphore_refund,
	.leave = semaphore_leave,
	.finish = table_unmake,
};
