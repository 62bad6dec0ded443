/* SPDX-License-Identifier: Apache-2.0
 *
 * The older strategy: one process-shared semaphore for everything. A joiner opens and maps the
 * file, waits for the semaphore, goes through all slots from the first one, frees those whose pid
 * is no process any more, takes a free one, and posts. It is modelled at its best: nobody dies
 * inside (there a wait is 10 to 330 s, or for ever), no lock is taken around the file's making, and
 * a process is asked for by kill(pid, 0), which can't tell a pid that was given out anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "crowd.h"
#include "join.h"

enum { SLOT_MAX = 1024 };

/* As large as a region's slots are. */
struct slot {
	pid_t pid;
	char figures[1956];
};

struct table {
	sem_t semaphore;
	uint32_t slot_count;
	struct slot slots[SLOT_MAX];
};

static int table_map(const char *path, int flags, struct table **ret_table)
{
	BERTH_FD int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 || (flags & O_CREAT && ftruncate(fd, sizeof(struct table)) < 0))
		return -errno;
	void *table = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (table == MAP_FAILED)
		return -errno;
	*ret_table = table;
	return 0;
}

static int slot_take(struct table *table)
{
	uint32_t found = SLOT_MAX;

	for (uint32_t i = 0; i < table->slot_count; i++) {
		struct slot *slot = &table->slots[i];

		if (slot->pid != 0 && kill(slot->pid, 0) < 0 && errno == ESRCH)
			*slot = (struct slot){ 0 };
		if (slot->pid == 0 && found == SLOT_MAX)
			found = i;
	}
	if (found == SLOT_MAX && table->slot_count < SLOT_MAX)
		found = table->slot_count++;
	if (found == SLOT_MAX)
		return -EUSERS;
	table->slots[found].pid = getpid();
	return 0;
}

static int act(void *arg, unsigned step, struct crowd_member *self)
{
	struct table *table = NULL;
	int r = table_map(arg, 0, &table);

	(void)step;
	(void)self;
	if (r < 0)
		return r;
	while (sem_wait(&table->semaphore) < 0)
		;
	r = slot_take(table);
	(void)sem_post(&table->semaphore); /* fails only above INT_MAX */
	return r;
}

static int round_run(char *path, uint32_t count, struct samples *wall, struct berth_reason *reason)
{
	struct crowd crowd;
	int r = crowd_gather(&crowd, count, act, path);

	if (r < 0)
		return berth_reason_set(reason, r, "%u processes can't be started", count);
	r = crowd_step(&crowd, reason);
	for (uint32_t i = 0; wall && r == 0 && i < count; i++)
		r = samples_add(wall, crowd.members[i].wall_ns);
	(void)crowd_end(&crowd, CROWD_KILLED); /* none is inside: all have reported */
	return r;
}

int semaphore_measure(const char *path, uint32_t count, unsigned rounds, struct samples *wall,
		      struct berth_reason *reason)
{
	char own_path[4096];
	struct table *table = NULL;

	(void)snprintf(own_path, sizeof own_path, "%s", path);
	int r = table_map(own_path, O_CREAT | O_TRUNC, &table);
	if (r < 0)
		return berth_reason_set(reason, r, "%s can't be made", path);
	if (sem_init(&table->semaphore, 1, 1) < 0)
		r = -errno;
	if (r == 0)
		r = round_run(own_path, count, NULL, reason);
	for (unsigned i = 0; r == 0 && i < rounds; i++)
		r = round_run(own_path, count, wall, reason);
	(void)munmap(table, sizeof *table); /* can't fail: we mapped it */
	(void)unlink(path);                 /* made above */
	return r;
}
