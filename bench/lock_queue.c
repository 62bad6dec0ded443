/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue is a crowd whose first step opens the lock and whose every other step is one visit.
 */
#include "lock_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/process.h"

#define SEEN_NS (60 * BERTH_NS_PER_S)
#define LOOK_NS (BERTH_NS_PER_MS / 5)

enum { STEP_OPEN = 1 };

static void visit_make(struct lock_user *user, struct lock_visit *visit, uint64_t hold_ns)
{
	atomic_store(&visit->asked_ns, berth_clock_ns());
	visit->err = user->way->take(user, LOCK_QUEUE_TIMEOUT_MS);
	if (visit->err < 0)
		return;
	visit->taken_ns = berth_clock_ns();
	if (hold_ns)
		berth_sleep_ns(hold_ns, UINT64_MAX);
	visit->giving_ns = berth_clock_ns();
	visit->err = user->way->give(user);
	visit->given_ns = berth_clock_ns();
}

static int act(void *arg, unsigned step, struct crowd_member *self)
{
	static struct lock_user user;
	const struct lock_queue *queue = arg;

	if (step == STEP_OPEN) {
		int r = queue->way->open(queue->way, queue->path, &user);

		return r < 0 ? berth_reason_set(&self->reason, r, "%s", queue->path) : 0;
	}
	visit_make(&user, &queue->visits[self - queue->crowd.members], queue->hold_ns);
	return 0;
}

static size_t visits_size(const struct lock_queue *queue)
{
	return queue->count * sizeof *queue->visits;
}

int lock_queue_open(struct lock_queue *queue, struct berth_reason *reason)
{
	void *memory = mmap(NULL, visits_size(queue), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		return berth_reason_set(reason, -errno, "no shared memory");
	queue->visits = memory;
	int r = crowd_gather(&queue->crowd, queue->count, act, queue);
	if (r < 0)
		return berth_reason_set(reason, r, "%" PRIu32 " processes can't be started",
					queue->count);
	return crowd_step(&queue->crowd, reason);
}

void lock_queue_begin(struct lock_queue *queue)
{
	for (uint32_t i = 0; i < queue->count; i++)
		atomic_store(&queue->visits[i].asked_ns, 0);
	crowd_step_begin(&queue->crowd);
}

/* Lines like "7: -> POSIX  ADVISORY  WRITE 612 fe:00:1311 1073741824 1073741824": who waits for it, with as
 * many blanks before the arrow as others wait before it. The device is left out: it isn't st_dev's everywhere. */
static uint32_t queued_count(ino_t inode)
{
	FILE *file = fopen("/proc/locks", "re");
	char *line = NULL;
	size_t room = 0;
	uint32_t count = 0;

	while (file && getline(&line, &room, file) > 0) {
		uintmax_t line_inode = 0;

		if (sscanf(line, "%*u: -> POSIX %*s %*s %*d %*x:%*x:%ju", &line_inode) == 1 &&
		    line_inode == inode)
			count++;
	}
	free(line);
	if (file)
		(void)fclose(file); /* it was only read */
	return count;
}

static uint32_t asleep_count(const struct lock_queue *queue)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < queue->count; i++) {
		struct berth_process_stat stat = { 0 };

		count += atomic_load(&queue->visits[i].asked_ns) != 0 &&
			 berth_process_stat_read(queue->crowd.pids[i], &stat) == 0 &&
			 stat.state == 'S';
	}
	return count;
}

int lock_queue_await(struct lock_queue *queue, struct berth_reason *reason)
{
	uint64_t deadline_ns = berth_deadline_after(SEEN_NS);
	struct stat st;

	if (stat(queue->path, &st) < 0)
		return berth_reason_set(reason, -errno, "%s", queue->path);
	for (;;) {
		uint32_t count =
			queue->way->is_queue ? queued_count(st.st_ino) : asleep_count(queue);

		if (count >= queue->count)
			return 0;
		if (berth_deadline_passed(deadline_ns))
			return berth_reason_set(reason, -ETIMEDOUT,
						"%s: only %" PRIu32 " of %" PRIu32 " seen waiting",
						queue->way->name, count, queue->count);
		berth_sleep_ns(LOOK_NS, UINT64_MAX);
	}
}

int lock_queue_end(struct lock_queue *queue, struct berth_reason *reason)
{
	return crowd_step_end(&queue->crowd, reason);
}

int lock_queue_last(const struct lock_queue *queue, uint64_t *ret_ns, struct berth_reason *reason)
{
	uint64_t last_ns = 0;

	for (uint32_t i = 0; i < queue->count; i++) {
		const struct lock_visit *visit = &queue->visits[i];

		if (visit->err < 0)
			return berth_reason_set(reason, visit->err, "%s: process %" PRIu32,
						queue->way->name, i);
		if (visit->given_ns > last_ns)
			last_ns = visit->given_ns;
	}
	*ret_ns = last_ns;
	return 0;
}

void lock_queue_close(struct lock_queue *queue)
{
	(void)crowd_end(&queue->crowd, CROWD_GOES); /* when they end doesn't matter */
	if (queue->visits)
		(void)munmap(queue->visits, visits_size(queue)); /* can't fail: we mapped it */
	queue->visits = NULL;
}
