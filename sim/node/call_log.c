/* SPDX-License-Identifier: Apache-2.0
 *
 * See call_log.h. The mapping is shared and is kept for the life of the process: a record stays
 * valid for a call that is under way while another thread exits.
 */
#include "sim/node/call_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct sim_log {
	struct sim_log_header *header;
	struct sim_log_record *records;
	_Atomic uint32_t forks; /* bumped in a child: its threads have other ids */
} log_;

static __thread struct {
	uint32_t forks;
	uint32_t pid;
	uint32_t tid;
} self_;

static void forked(void)
{
	atomic_fetch_add_explicit(&log_.forks, 1, memory_order_relaxed);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static size_t file_bytes(uint64_t capacity)
{
	return sizeof(struct sim_log_header) + (size_t)capacity * sizeof(struct sim_log_record);
}

/* The caller holds the file's lock: only one process finds it empty. */
static int birth_locked(int fd)
{
	struct sim_log_header header = {
		.magic = SIM_LOG_MAGIC,
		.record_bytes = sizeof(struct sim_log_record),
		.capacity = SIM_LOG_CAPACITY,
	};

	if (ftruncate(fd, (off_t)file_bytes(header.capacity)) != 0)
		return -errno;
	if (pwrite(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return errno ? -errno : -EIO;
	return 0;
}

static int map_log(int fd)
{
	struct sim_log_header header;
	struct stat st;
	void *map;

	if (flock(fd, LOCK_EX) != 0 || fstat(fd, &st) != 0)
		return -errno;
	if (st.st_size == 0) {
		int err = birth_locked(fd);

		if (err)
			return err;
	}
	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    memcmp(header.magic, SIM_LOG_MAGIC, sizeof(header.magic)) != 0 ||
	    header.record_bytes != sizeof(struct sim_log_record))
		return -EINVAL;
	if (fstat(fd, &st) != 0 || (size_t)st.st_size != file_bytes(header.capacity))
		return -EINVAL;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	log_.records = (struct sim_log_record *)((char *)map + sizeof(header));
	log_.header = map;
	return 0;
}

int sim_log_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int err;

	if (fd < 0)
		return -errno;
	err = map_log(fd);
	/* The mapping keeps the open file, and with it a lock that is not given up by name. */
	(void)flock(fd, LOCK_UN);
	close(fd);
	if (!err)
		pthread_atfork(NULL, NULL, forked);
	return err;
}

static void know_self(void)
{
	uint32_t forks = atomic_load_explicit(&log_.forks, memory_order_relaxed);

	if (self_.tid && self_.forks == forks)
		return;
	self_.pid = (uint32_t)getpid();
	self_.tid = (uint32_t)gettid();
	self_.forks = forks;
}

struct sim_log_record *sim_log_enter(uint32_t id)
{
	struct sim_log_record *record;
	uint64_t slot;

	if (!log_.header)
		return NULL;
	slot = atomic_fetch_add_explicit(&log_.header->claimed, 1, memory_order_relaxed);
	if (slot >= log_.header->capacity)
		return NULL;
	know_self();
	record = &log_.records[slot];
	record->id = id;
	record->pid = self_.pid;
	record->tid = self_.tid;
	record->begin_ns = now_ns();
	/* pairs with the reader's acquire: an entered record has its id and times */
	atomic_store_explicit(&record->state, SIM_LOG_ENTERED, memory_order_release);
	return record;
}

void sim_log_leave(struct sim_log_record *record, int32_t result)
{
	if (!record)
		return;
	record->result = result;
	record->end_ns = now_ns();
	atomic_store_explicit(&record->state, SIM_LOG_LEFT, memory_order_release);
}
