/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the process table: claiming one, and finding those whose owner is dead.
 *
 * Alive = the row's byte of the state file is locked. The lock belongs to an open file description
 * of its own; a mapping that fork doesn't copy keeps the description, and the descriptor is closed,
 * so that neither a foreign close nor a child of the process decides over its life. Where a mapping
 * doesn't pin the description (overlayfs) that is noticed right after, under the state lock, and the
 * descriptor is kept instead.
 *
 * A pid would not do: the processes of a node live in several pid namespaces. host_pid is only what
 * NVML prints.
 */
#include "sim/node/node_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIN_BYTES 4096

static int row_lock(int fd, int command, short type, int row, struct flock *ret_lock)
{
	*ret_lock = (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = SIM_LOCK_ROWS + row, .l_len = 1
	};
	return fcntl(fd, command, ret_lock) < 0 ? -errno : 0;
}

bool sim_row_is_alive_locked(int row)
{
	struct flock lock;

	/* An error of the question itself must not free a living process's memory. */
	if (row_lock(sim_node_handle.state_fd, F_OFD_GETLK, F_WRLCK, row, &lock) < 0)
		return true;
	return lock.l_type != F_UNLCK;
}

bool sim_node_anyone_alive_locked(void)
{
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = SIM_LOCK_ROWS,
		.l_len = SIM_PROCESS_MAX,
	};

	if (fcntl(sim_node_handle.state_fd, F_OFD_GETLK, &lock) < 0)
		return true;
	return lock.l_type != F_UNLCK;
}

void sim_node_sweep_locked(void)
{
	struct sim_node *node = sim_node();
	int count = (int)node->row_high_water;

	for (int row = 0; row < count; row++) {
		struct sim_process *process = &node->processes[row];

		if (!process->is_claimed || row == sim_node_handle.row ||
		    sim_row_is_alive_locked(row))
			continue;
		sim_charge_forget_locked(row);
		process->is_claimed = 0;
	}
}

void sim_node_sweep(void)
{
	sim_node_lock();
	sim_node_sweep_locked();
	sim_node_unlock();
}

/* ---- claiming ---- */

static uint32_t read_host_pid(void)
{
	char path[sizeof(sim_config()->proc_path) + 8];
	char text[32];
	ssize_t length;

	snprintf(path, sizeof(path), "%s/self", sim_config()->proc_path);
	length = readlink(path, text, sizeof(text) - 1);
	if (length <= 0)
		return (uint32_t)getpid();
	text[length] = '\0';
	return (uint32_t)strtoul(text, NULL, 10);
}

static ssize_t read_proc_self(const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	length = read(fd, text, size - 1);
	close(fd);
	if (length < 0)
		return -EIO;
	text[length] = '\0';
	return length;
}

static uint64_t read_start_ticks(void)
{
	char text[1024];
	char *cursor;

	if (read_proc_self("stat", text, sizeof(text)) <= 0)
		return 0;
	/* A program may be called ") R 1 (": the fields begin after the last parenthesis. */
	cursor = strrchr(text, ')');
	for (int field = 2; cursor && field < 22; field++)
		cursor = strchr(cursor + 1, ' ');
	return cursor ? strtoull(cursor + 1, NULL, 10) : 0;
}

static void row_fill(int row)
{
	struct sim_node *node = sim_node();
	struct sim_process *process = &node->processes[row];
	char name[512];

	process->host_pid = read_host_pid();
	process->start_ticks = read_start_ticks();
	process->generation = atomic_fetch_add(&node->generation_cursor, 1) + 1;
	if (read_proc_self("cmdline", name, sizeof(name)) <= 0)
		strcpy(name, "?");
	snprintf(process->name, sizeof(process->name), "%.*s", SIM_PROCESS_NAME_MAX - 1, name);
	for (unsigned gpu = 0; gpu < SIM_GPU_MAX; gpu++)
		process->usage[gpu].context_count = 0;
	if (node->row_high_water < (uint32_t)row + 1)
		node->row_high_water = (uint32_t)row + 1;
	process->is_claimed = 1;
}

/* Another description of the very file we have mapped. */
static int reopen_state_file(int *ret_fd)
{
	struct stat mine;
	struct stat theirs;
	int fd;

	fd = open(sim_config()->state_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (fstat(sim_node_handle.state_fd, &mine) < 0 || fstat(fd, &theirs) < 0 ||
	    mine.st_ino != theirs.st_ino || mine.st_dev != theirs.st_dev) {
		close(fd);
		sim_complain("%s: was replaced while in use", sim_config()->state_path);
		return -ESTALE;
	}
	*ret_fd = fd;
	return 0;
}

static int row_pick(int fd, int *ret_row)
{
	struct flock lock;

	for (int row = 0; row < SIM_PROCESS_MAX; row++) {
		if (sim_node()->processes[row].is_claimed)
			continue;
		if (row_lock(fd, F_OFD_SETLK, F_WRLCK, row, &lock) == 0) {
			*ret_row = row;
			return 0;
		}
	}
	return -EUSERS;
}

/* Trades the descriptor for a mapping that pins its lock, if it does. */
static int row_pin(int row, int *fd)
{
	struct sim_node_handle *handle = &sim_node_handle;
	struct flock lock;
	void *pin;
	int err;

	pin = mmap(NULL, PIN_BYTES, PROT_READ, MAP_SHARED, *fd, 0);
	if (pin == MAP_FAILED || madvise(pin, PIN_BYTES, MADV_DONTFORK) < 0)
		return -errno;
	close(*fd);
	*fd = -1;
	handle->row_pin = pin;
	if (sim_row_is_alive_locked(row))
		return 0;
	munmap(pin, PIN_BYTES);
	handle->row_pin = NULL;
	err = reopen_state_file(fd);
	if (!err)
		err = row_lock(*fd, F_OFD_SETLK, F_WRLCK, row, &lock);
	if (!err) {
		handle->row_fd = *fd;
		*fd = -1;
	}
	return err;
}

static int row_claim_locked(void)
{
	int fd = -1;
	int row;
	int err;

	if (sim_node_handle.row >= 0)
		return 0;
	sim_node_sweep_locked();
	err = reopen_state_file(&fd);
	if (err)
		return err;
	err = row_pick(fd, &row);
	if (!err)
		err = row_pin(row, &fd);
	if (fd >= 0)
		close(fd);
	if (err)
		return err;
	row_fill(row);
	sim_node_handle.row = row;
	return 0;
}

int sim_node_claim(void)
{
	int err;

	sim_node_lock();
	err = row_claim_locked();
	sim_node_unlock();
	if (err == -EUSERS)
		sim_complain("%d processes use the node: no row is free", SIM_PROCESS_MAX);
	return err;
}

uint32_t sim_node_own_host_pid(void)
{
	return read_host_pid();
}

int sim_node_row(void)
{
	return sim_node_handle.row;
}

void sim_node_row_drop_in_child(void)
{
	struct sim_node_handle *handle = &sim_node_handle;

	/* The pin was never copied; a kept descriptor was, and would keep the parent's row alive. */
	if (handle->row_fd >= 0)
		close(handle->row_fd);
	handle->row_fd = -1;
	handle->row_pin = NULL;
	handle->row = -1;
}

/* ---- who uses a GPU ---- */

size_t sim_node_processes(unsigned gpu, struct sim_process_view *ret_list, size_t max)
{
	struct sim_node *node = sim_node();
	size_t count = 0;

	sim_node_lock();
	sim_node_sweep_locked();
	for (uint32_t row = 0; row < node->row_high_water; row++) {
		struct sim_process *process = &node->processes[row];
		struct sim_usage *usage = &process->usage[gpu];

		if (!process->is_claimed || (!usage->used_bytes && !usage->context_count))
			continue;
		if (count < max) {
			struct sim_process_view *view = &ret_list[count];

			view->row = row;
			view->host_pid = process->host_pid;
			view->context_count = usage->context_count;
			view->context_since_ns = usage->context_since_ns;
			view->used_bytes = usage->used_bytes;
			view->generation = process->generation;
			memcpy(view->name, process->name, sizeof(view->name));
		}
		count++;
	}
	sim_node_unlock();
	return count;
}
