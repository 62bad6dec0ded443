/* SPDX-License-Identifier: Apache-2.0
 *
 * Making, finding and locking the node's state file.
 *
 * Killed after step n of making -> what others see -> who repairs
 *   open(O_CREAT)    an empty file             -> the next one makes it
 *   ftruncate        zeros, no magic           -> likewise
 *   any field        no magic                  -> likewise, from zeros
 *   magic            a complete node           -> nobody needs to
 * All of that is under the state lock, an open-file-description lock that its holder's death ends.
 *
 * A node whose processes are all gone is made anew when the environment asks for other GPUs or the
 * file is another build's; while somebody lives, that is an error.
 */
#include "sim/node/node_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODE_MAGIC 0x65646f6e2d6d6973ULL /* "sim-node" */

_Static_assert(sizeof(struct sim_node) < SIM_LOCK_STATE, "lock bytes lie beyond the mapping");

struct sim_node_handle sim_node_handle = { .state_fd = -1, .row = -1, .row_fd = -1 };

/* Threads are excluded by this, processes by the file lock: one description serves all threads. */
static pthread_mutex_t state_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;

static uint64_t node_format(void)
{
	uint64_t format = 1;
	size_t parts[] = {
		sizeof(struct sim_node),         sizeof(struct sim_gpu),
		sizeof(struct sim_process),      sizeof(struct sim_usage),
		sizeof(struct sim_gpu_config),   offsetof(struct sim_node, gpus),
		offsetof(struct sim_gpu, total), offsetof(struct sim_process, usage),
	};

	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		format = format * 1000003 + parts[i];
	return format;
}

static void file_lock(int fd, short type)
{
	struct flock lock = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = SIM_LOCK_STATE, .l_len = 1
	};

	while (fcntl(fd, F_OFD_SETLKW, &lock) < 0 && errno == EINTR)
		;
}

void sim_node_lock(void)
{
	pthread_mutex_lock(&state_mutex);
	file_lock(sim_node_handle.state_fd, F_WRLCK);
}

void sim_node_unlock(void)
{
	file_lock(sim_node_handle.state_fd, F_UNLCK);
	pthread_mutex_unlock(&state_mutex);
}

/* ---- fork: the child owns nothing of the node and opens anew ---- */

/* Of the library that this is a part of; taken before ours. */
static pthread_mutex_t *init_mutex;

void sim_node_fork_waits_for(pthread_mutex_t *mutex)
{
	init_mutex = mutex;
}

static void before_fork(void)
{
	if (init_mutex)
		pthread_mutex_lock(init_mutex);
	pthread_mutex_lock(&open_mutex);
	pthread_mutex_lock(&state_mutex);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&state_mutex);
	pthread_mutex_unlock(&open_mutex);
	if (init_mutex)
		pthread_mutex_unlock(init_mutex);
}

static void after_fork_child(void)
{
	struct sim_node_handle *handle = &sim_node_handle;

	pthread_mutex_init(&state_mutex, NULL);
	pthread_mutex_init(&open_mutex, NULL);
	if (init_mutex)
		pthread_mutex_init(init_mutex, NULL);
	sim_node_row_drop_in_child();
	if (handle->state_fd >= 0)
		close(handle->state_fd);
	handle->state_fd = -1;
	if (handle->node)
		munmap(handle->node, sizeof(*handle->node));
	handle->node = NULL;
}

/* When the library is loaded: a fork that is under way when handlers are registered doesn't run them. */
__attribute__((constructor)) static void register_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* ---- the file ---- */

/* mkdir -p of everything before the last slash. The directory itself must be ours: it may lie in a
 * world-writable one. */
static int make_directories(const char *path)
{
	char copy[4096];
	struct stat st;
	char *slash;

	snprintf(copy, sizeof(copy), "%s", path);
	for (slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	slash = strrchr(copy, '/');
	*(slash == copy ? slash + 1 : slash) = '\0';
	if (stat(copy, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

static int open_state_file(const char *path, int *ret_fd)
{
	struct stat st;
	int err;
	int fd;

	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT) {
		err = make_directories(path);
		if (err)
			return err;
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	}
	if (fd < 0)
		return -errno;
	err = fstat(fd, &st) < 0 ? -errno : 0;
	if (!err && !S_ISREG(st.st_mode))
		err = -EINVAL;
	if (!err && st.st_uid != geteuid() && geteuid() != 0)
		err = -EPERM;
	if (err) {
		close(fd);
		return err;
	}
	*ret_fd = fd;
	return 0;
}

static void node_fill(struct sim_node *node, const struct sim_config *config)
{
	uint64_t incarnation = node->magic == NODE_MAGIC ? node->incarnation + 1 : 1;

	node->magic = 0;
	atomic_thread_fence(memory_order_seq_cst);
	/* A hole reads as zeros and spares the pages; where the file system has none, write them. */
	if (fallocate(sim_node_handle.state_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		      sizeof(*node)) < 0)
		memset(node, 0, sizeof(*node));
	node->format = node_format();
	node->incarnation = incarnation;
	node->gpu_count = config->gpu_count;
	for (unsigned i = 0; i < config->gpu_count; i++) {
		node->gpus[i].config = config->gpus[i];
		node->gpus[i].capacity_bytes = config->gpus[i].memory_bytes;
	}
	atomic_thread_fence(memory_order_seq_cst);
	node->magic = NODE_MAGIC;
}

static bool node_is_good(const struct sim_node *node)
{
	return node->magic == NODE_MAGIC && node->format == node_format() && node->gpu_count > 0 &&
	       node->gpu_count <= SIM_GPU_MAX;
}

static bool node_agrees(const struct sim_node *node, const struct sim_config *config)
{
	if (!config->gpus_are_explicit)
		return true;
	if (node->gpu_count != config->gpu_count)
		return false;
	for (unsigned i = 0; i < config->gpu_count; i++)
		if (!sim_gpu_config_same(&node->gpus[i].config, &config->gpus[i]))
			return false;
	return true;
}

static int node_make_or_check_locked(struct sim_node *node, const struct sim_config *config)
{
	bool good = node_is_good(node);

	if (good && node_agrees(node, config))
		return 0;
	if (sim_node_anyone_alive_locked()) {
		sim_complain(good ? "%s: processes are running on other GPUs than the environment "
				    "asks for"
				  : "%s: used by another version of the simulator",
			     config->state_path);
		return -EBUSY;
	}
	node_fill(node, config);
	return 0;
}

static int node_map(int fd, struct sim_node **ret_node)
{
	struct stat st;
	void *map;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < (off_t)sizeof(struct sim_node) &&
	    ftruncate(fd, sizeof(struct sim_node)) < 0)
		return -errno;
	map = mmap(NULL, sizeof(struct sim_node), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	*ret_node = map;
	return 0;
}

static int node_open_locked(const struct sim_config *config)
{
	struct sim_node_handle *handle = &sim_node_handle;
	struct sim_node *node = NULL;
	int err;

	err = open_state_file(config->state_path, &handle->state_fd);
	if (err) {
		sim_complain("%s: %s", config->state_path, strerror(-err));
		return err;
	}
	sim_node_lock();
	err = node_map(handle->state_fd, &node);
	if (err)
		sim_complain("%s: %s", config->state_path, strerror(-err));
	else
		err = node_make_or_check_locked(node, config);
	sim_node_unlock();
	if (err) {
		if (node)
			munmap(node, sizeof(*node));
		close(handle->state_fd);
		handle->state_fd = -1;
		return err;
	}
	handle->node = node;
	return 0;
}

int sim_node_open(void)
{
	const struct sim_config *config = sim_config();
	int err = 0;

	if (!config)
		return -EINVAL;
	pthread_mutex_lock(&open_mutex);
	if (!sim_node_handle.node)
		err = node_open_locked(config);
	pthread_mutex_unlock(&open_mutex);
	return err;
}

struct sim_node *sim_node(void)
{
	return sim_node_handle.node;
}

/* ---- what everybody reads ---- */

unsigned sim_node_gpu_count(void)
{
	return sim_node()->gpu_count;
}

const struct sim_gpu_config *sim_node_gpu(unsigned gpu)
{
	return &sim_node()->gpus[gpu].config;
}

uint64_t sim_node_capacity_bytes(unsigned gpu)
{
	return sim_node()->gpus[gpu].capacity_bytes;
}

void sim_node_set_capacity(unsigned gpu, uint64_t bytes)
{
	uint64_t physical = sim_node()->gpus[gpu].config.memory_bytes;

	sim_node()->gpus[gpu].capacity_bytes = bytes < physical ? bytes : physical;
}
