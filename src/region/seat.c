/* SPDX-License-Identifier: Apache-2.0
 *
 * Seats. Invariant: a seat's byte is locked exactly as long as the memory of its owner's process
 * exists; a seat never moves.
 *
 * Which open file carries the lock: not the one that joining mapped, whose descriptor is long
 * closed. A claim opens the file once more, locks the seat's byte through that, maps a page of it
 * without access rights (the pin) and closes the descriptor. The pin keeps the open file, hence the
 * lock, until the process's memory goes: exit, signal, SIGKILL, exec. MADV_DONTFORK keeps it out
 * of children. Found by experiment on tmpfs and ext4; overlayfs maps the file below instead, so
 * there (and on file systems that nobody has tried) the open file is pinned otherwise (pin.h). Where
 * the kernel refuses that, the descriptor stays: the child closes its copy in berth_seat_forget, and
 * a program that closes every descriptor loses its seat.
 * Rejected: a POSIX record lock (gone at any foreign open and close of the file in the process),
 * flock (kept by children), a pid in the seat (reused, and means nothing in another namespace), a
 * robust mutex (compares thread ids of one namespace).
 *
 * Where a claim looks: first a few places that are free or whose owner is dead, from a cursor that
 * moves on with each claim, so that many who come at once don't all try the same; then a new place
 * at the high end; only when there is none, all of them. So high stays near the largest number that
 * ever sat there together, and what a joiner pays doesn't grow with the number of the dead.
 * The crash table is in recover.c.
 */
#include "region/seat.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/crash_point.h"
#include "base/fd.h"
#include "base/process.h"
#include "region/entry.h"
#include "region/limits.h"
#include "region/lockbyte.h"
#include "region/own_seat.h"
#include "region/pin.h"
#include "region/recover.h"

enum {
	PROBE_COUNT = 8, /* places tried before the high end, of either kind */
	RAISE_TRIES = 2 * BERTH_SEAT_MAX,
};

/* Steps 1 to 3 of the claim. 1 = the reap and the seat byte are ours and the seat is empty, 0 = not
 * to be had, -errno = the kernel can't lock. The seat is emptied *before* its byte is taken: a
 * claimer that were stopped in between would make a dead seat look alive with the dead one's
 * charge, and askers would be refused because of it. Under the reap byte nobody else can take the
 * seat byte. An even generation says that whoever of us emptied it got to the end, so there is nothing
 * to do but look for another implementation's figures: a claim of an empty seat then touches none of its sixteen ledger rows,
 * which lie on as many pages, and asks one lock less. */
static int place_try(struct berth_region *region, int fd, uint32_t index, uint32_t *ret_reaped)
{
	const _Atomic uint64_t *generation = &region->layout->tail.generation[index];
	int r = berth_lockbyte_try(fd, BERTH_LOCK_REAP + index);

	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	BERTH_CRASH(seat_reap_locked);
	uint32_t reaped = (uint32_t)(atomic_load(generation) & 1);
	if (reaped)
		r = berth_lockbyte_held(fd, BERTH_LOCK_SEAT + index);
	else
		r = berth_recover_foreign(region, index);
	if (r == 0) {
		if (reaped)
			berth_recover_empty(region, index);
		else
			berth_recover_leftover(region, index);
		r = berth_lockbyte_try(fd, BERTH_LOCK_SEAT + index);
	} else if (r == 1) {
		r = -EAGAIN;
	}
	if (r < 0) {
		berth_lockbyte_drop(fd, BERTH_LOCK_REAP + index);
		return r == -EAGAIN ? 0 : r;
	}
	BERTH_CRASH(seat_locked);
	*ret_reaped = reaped;
	return 1;
}

/* Of a taken place it is asked first whether its owner lives: where everybody does, as in a crowd that
 * starts in a new share, that is one lock operation a place instead of three, and each of them costs
 * more the more locks the file has. */
static int place_probe_one(struct berth_region *region, int fd, bool taken, uint32_t index,
			   uint32_t *ret_reaped)
{
	int held = taken ? berth_lockbyte_held(fd, BERTH_LOCK_SEAT + index) : 0;

	if (held != 0)
		return held < 0 ? held : 0;
	return place_try(region, fd, index, ret_reaped);
}

/* Tries at most `tries` places of [0, high) that are taken (or aren't), from the cursor on. */
static int place_probe(struct berth_region *region, int fd, bool taken, uint32_t tries,
		       struct berth_seat_claimed *claimed)
{
	struct berth_layout_tail *tail = &region->layout->tail;
	uint32_t high = berth_map_seat_high(region);
	uint64_t start = atomic_fetch_add(&tail->cursor, 1);

	for (uint32_t i = 0; i < high && tries > 0; i++) {
		uint32_t index = (uint32_t)((start + i) % high);

		if (((atomic_load(&tail->generation[index]) & 1) != 0) != taken)
			continue;
		int r = place_probe_one(region, fd, taken, index, &claimed->reaped_count);
		if (r < 0)
			return r;
		if (r == 1) {
			claimed->index = index;
			return 1;
		}
		tries--;
	}
	return 0;
}

/* A place beyond all that were ever used. seq_cst: partner is berth_map_seat_high in a collect. */
static int place_raise(struct berth_region *region, int fd, struct berth_seat_claimed *claimed)
{
	_Atomic int32_t *high = &region->layout->head.seat_high;

	for (int i = 0; i < RAISE_TRIES; i++) {
		int32_t index = atomic_load(high);

		if (index < 0 || index >= BERTH_SEAT_MAX)
			return 0;
		if (!atomic_compare_exchange_weak(high, &index, index + 1))
			continue;
		BERTH_CRASH(seat_high_raised);
		int r = place_try(region, fd, (uint32_t)index, &claimed->reaped_count);
		if (r < 0)
			return r;
		if (r == 1) {
			claimed->index = (uint32_t)index;
			return 1;
		}
	}
	return 0;
}

static int place_find(struct berth_region *region, int fd, struct berth_seat_claimed *claimed)
{
	int r = place_probe(region, fd, false, PROBE_COUNT, claimed);

	if (r == 0)
		r = place_probe(region, fd, true, PROBE_COUNT, claimed);
	if (r == 0)
		r = place_raise(region, fd, claimed);
	if (r == 0)
		r = place_probe(region, fd, false, BERTH_SEAT_MAX, claimed);
	if (r == 0)
		r = place_probe(region, fd, true, BERTH_SEAT_MAX, claimed);
	return r == 0 ? -EUSERS : r < 0 ? r : 0;
}

/* Steps 4 to 6 of the claim. */
static void seat_publish(struct berth_region *region, uint32_t index, int32_t host_pid)
{
	struct berth_layout_seat *seat = &region->layout->head.seats[index];
	struct berth_layout_tail *tail = &region->layout->tail;
	struct berth_layout_identity *identity = &tail->identity[index];
	struct berth_process_id self = { .pid = getpid() };

	atomic_fetch_add(&tail->generation[index], 1); /* 4 */
	BERTH_CRASH(seat_taken);
	if (berth_process_self(&self) < 0) /* no /proc: the pid has to do, for people */
		self.pid = getpid();
	atomic_store(&identity->start_ticks, self.start_ticks); /* 5 */
	atomic_store(&identity->pid_namespace, self.pid_namespace);
	atomic_store(&identity->boot_id, berth_boot_id());
	atomic_store(&identity->claimed_unix_s, (uint64_t)time(NULL));
	atomic_store(&identity->host_pid_note, 0);
	atomic_store(&seat->host_pid, host_pid);
	atomic_store(&seat->pid, self.pid);
	BERTH_CRASH(seat_named);
	atomic_store(&seat->status, BERTH_STATUS_RUNNING); /* 6 */
	BERTH_CRASH(seat_published);
	atomic_fetch_add(&tail->change_count, 1);
}

/* A program may have closed its standard streams, and what takes their numbers gets its output. */
static int seat_fd_keep(int *fd)
{
	int high_fd = *fd > STDERR_FILENO ? -1 : fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (high_fd < 0)
		return BERTH_TAKE_FD(*fd);
	berth_fd_close(fd);
	return high_fd;
}

/* Makes the lock last as long as this process's memory. */
static int seat_pin(struct berth_seat *seat, int *fd)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *pin = mmap(NULL, size, PROT_NONE, MAP_SHARED, *fd, 0);

	if (pin == MAP_FAILED)
		return -errno;
	if (madvise(pin, size, MADV_DONTFORK) < 0) {
		int err = -errno;

		(void)munmap(pin, size); /* can't fail: we mapped it */
		return err;
	}
	seat->pin = pin;
	if (seat->region->fs_class == BERTH_FS_LOCAL || berth_pin_hold(*fd, &seat->queue_pin) == 0)
		berth_fd_close(fd);
	else
		seat->kept_fd = seat_fd_keep(fd);
	BERTH_CRASH(seat_pinned);
	return 0;
}

/* Unless the program has closed it and the number is another file's by now. In a child: a copy of the
 * parent's descriptor, whose lock stays the parent's. */
static void kept_fd_close(struct berth_seat *seat)
{
	if (seat->kept_fd >= 0 && berth_lockbyte_leads_here(seat->region, seat->kept_fd))
		berth_fd_close(&seat->kept_fd);
	seat->kept_fd = -1;
}

/* Drops the lock, and with it the seat. */
static void seat_unpin(struct berth_seat *seat)
{
	if (seat->pin)
		(void)munmap(seat->pin, (size_t)sysconf(_SC_PAGESIZE)); /* can't fail */
	seat->pin = NULL;
	berth_pin_drop(seat->queue_pin);
	seat->queue_pin = 0;
	kept_fd_close(seat);
}

static int claim_in_window(struct berth_seat *seat, int32_t host_pid,
			   struct berth_seat_claimed *claimed)
{
	struct berth_region *region = seat->region;
	BERTH_FD int fd = berth_lockbyte_open(region, true);
	int r = fd < 0 ? fd : place_find(region, fd, claimed); /* 1, 2, 3 */

	if (r < 0)
		return r;
	seat->index = claimed->index;
	seat_publish(region, seat->index, host_pid);
	berth_lockbyte_drop(fd, BERTH_LOCK_REAP + seat->index); /* 7 */
	BERTH_CRASH(seat_reap_dropped);
	berth_limits_settle(region, fd);
	r = seat_pin(seat, &fd);
	if (r < 0)
		berth_recover_empty(region, seat->index);
	return r;
}

static int claim_failed(const struct berth_region *region, int err, struct berth_reason *reason)
{
	if (err == -EUSERS)
		return berth_reason_set(reason, err,
					"%s: all %d seats are taken by living processes; end some "
					"of them or use another share",
					region->path, BERTH_SEAT_MAX);
	if (err == -EBUSY)
		return berth_reason_set(reason, err, "%s: this process already has a seat",
					region->path);
	if (err == -EMFILE || err == -ENFILE)
		return berth_map_no_descriptor(region->path, err, reason);
	return berth_reason_set(reason, err,
				"%s: no seat can be locked: %s; the file must stay where it is, "
				"on a file system with locks",
				region->path, strerror(-err));
}

/* In a mapping of its own, as a region is (map.c): a fork handler can't call free. */
static struct berth_seat *seat_new(struct berth_region *region)
{
	struct berth_seat *seat = mmap(NULL, sizeof *seat, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (seat == MAP_FAILED)
		return NULL;
	seat->region = region;
	seat->kept_fd = -1;
	pthread_mutex_init(&seat->mutex, NULL);
	return seat;
}

int berth_seat_claim(struct berth_region *region, int32_t host_pid, struct berth_seat **ret_seat,
		     struct berth_seat_claimed *ret_claimed, struct berth_reason *reason)
{
	struct berth_seat_claimed claimed = { 0 };
	int32_t none = -1;

	if (!berth_map_ours(region))
		return -ECHILD;
	if (!region->writable)
		return claim_failed(region, -EROFS, reason);
	struct berth_seat *seat = seat_new(region);
	if (!seat)
		return claim_failed(region, -ENOMEM, reason);
	/* BERTH_SEAT_MAX: being claimed by a thread of ours. */
	if (!atomic_compare_exchange_strong(&region->own_seat, &none, BERTH_SEAT_MAX)) {
		berth_seat_forget(seat);
		return claim_failed(region, -EBUSY, reason);
	}
	berth_lockbyte_enter();
	int r = claim_in_window(seat, host_pid, &claimed);
	berth_lockbyte_leave();
	atomic_store(&region->own_seat, r < 0 ? -1 : (int32_t)seat->index);
	if (r < 0) {
		berth_seat_forget(seat);
		return claim_failed(region, r, reason);
	}
	*ret_seat = seat;
	if (ret_claimed)
		*ret_claimed = claimed;
	return 0;
}

void berth_seat_leave(struct berth_seat *seat)
{
	if (!seat)
		return;
	struct berth_region *region = seat->region;

	if (berth_map_ours(region)) {
		/* The seat byte is ours, so no reap byte is needed: reapers and claimers both stop
		 * at the seat byte. The mutex waits for a thread that is in the middle of an
		 * ask. */
		pthread_mutex_lock(&seat->mutex);
		berth_recover_empty(region, seat->index);
		BERTH_CRASH(seat_left);
		atomic_store(&region->own_seat, -1);
		seat_unpin(seat);
		atomic_fetch_add(&region->layout->tail.change_count, 1);
		pthread_mutex_unlock(&seat->mutex);
	}
	berth_seat_forget(seat);
}

void berth_seat_forget(struct berth_seat *seat)
{
	if (!seat)
		return;
	kept_fd_close(seat);
	(void)munmap(seat, sizeof *seat); /* can't fail: we mapped it */
}

uint32_t berth_seat_index(const struct berth_seat *seat)
{
	return seat->index;
}

void berth_seat_set_host_pid(struct berth_seat *seat, int32_t host_pid,
			     struct berth_host_pid_note note)
{
	struct berth_layout *layout = seat->region->layout;

	if (!berth_map_ours(seat->region))
		return;
	atomic_store(&layout->head.seats[seat->index].host_pid, host_pid);
	atomic_store(&layout->tail.identity[seat->index].host_pid_note,
		     berth_host_pid_note_pack(note));
}

void berth_seat_set_passing(struct berth_seat *seat, uint32_t gpu, uint64_t bytes)
{
	struct berth_layout_identity *identity = &seat->region->layout->tail.identity[seat->index];

	if (!berth_map_ours(seat->region))
		return;
	atomic_store(&identity->passing_gpu, gpu);
	atomic_store(&identity->passing_bytes, bytes);
}

uint64_t berth_region_passing(const struct berth_region *region, uint32_t gpu)
{
	const struct berth_layout_tail *tail = &region->layout->tail;
	uint32_t high = berth_map_seat_high(region);
	uint64_t sum_bytes = 0;

	for (uint32_t i = 0; i < high; i++) {
		uint64_t bytes = atomic_load(&tail->identity[i].passing_bytes);

		if (bytes && atomic_load(&tail->identity[i].passing_gpu) == gpu)
			sum_bytes = berth_bytes_add(sum_bytes, bytes);
	}
	return sum_bytes;
}

int berth_seat_alive(const struct berth_region *region, uint32_t index)
{
	if (index >= BERTH_SEAT_MAX)
		return -EINVAL;
	if (!berth_map_ours(region))
		return -ECHILD;
	BERTH_FD int fd = berth_lockbyte_open(region, false);
	return fd < 0 ? fd : berth_lockbyte_held(fd, BERTH_LOCK_SEAT + index);
}
