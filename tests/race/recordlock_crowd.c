/* SPDX-License-Identifier: Apache-2.0
 *
 * The maker's half: starts members, sees them wait, plays fate, judges.
 */
#include "recordlock_crowd.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "recordlock_hall.h"

enum { NO_NAMESPACE = 77 };

/* For what a member left behind to end. */
#define LEFT_OVER_MS 20000

static size_t hall_bytes(const struct rlcrowd *crowd)
{
	return sizeof(struct rlcrowd_hall) + (crowd->slot_max + 1) * sizeof(struct rlcrowd_member);
}

BERTH_PRINTF(3, 4)
static int fault(struct rlcrowd *crowd, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(crowd->why, sizeof crowd->why, format, args);
	va_end(args);
	return err;
}

static const char *directory(void)
{
	const char *wanted = getenv("TMPDIR");

	if (wanted && *wanted)
		return wanted;
	return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

bool rlcrowd_way_wanted(uint32_t way)
{
	static const char *const names[] = { "auto", "block", "poll", "bare" };
	const char *wanted = getenv("WAYS");

	return !wanted || strstr(wanted, names[way]);
}

int rlcrowd_make(struct rlcrowd *crowd, uint32_t slot_max)
{
	static unsigned made_count;

	*crowd = (struct rlcrowd){ .slot_max = slot_max, .proc_fd = -1 };
	(void)snprintf(crowd->path, sizeof crowd->path, "%s/berth-crowd-%ld-%u", directory(),
		       (long)getpid(), made_count++);
	(void)unlink(crowd->path); /* of an earlier process of this pid */
	crowd->processes = calloc(slot_max + 1, sizeof *crowd->processes);
	void *hall = mmap(NULL, hall_bytes(crowd), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hall != MAP_FAILED) {
		crowd->hall = hall;
		crowd->hall->maker_pid = getpid();
		crowd->members = crowd->hall->members;
	}
	crowd->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* What a member leaves behind becomes our child, and is found by rlcrowd_judge. */
	int r = crowd->proc_fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) ? -errno : 0;
	if (!crowd->processes || !crowd->hall)
		r = -ENOMEM;
	if (r < 0)
		rlcrowd_end(crowd);
	return r;
}

static struct rlcrowd_process *process_of(const struct rlcrowd *crowd, uint32_t slot)
{
	for (uint32_t i = 0; i < crowd->process_count; i++) {
		struct rlcrowd_process *process = &crowd->processes[i];

		if (slot >= process->first_slot && slot - process->first_slot < process->slot_count)
			return process;
	}
	return NULL;
}

static struct rlcrowd_process *process_add(struct rlcrowd *crowd, uint32_t slot, uint32_t count,
					   const struct rlcrowd_plan *plan)
{
	struct rlcrowd_process *process = &crowd->processes[crowd->process_count];

	*process =
		(struct rlcrowd_process){ .first_slot = slot, .slot_count = count, .plan = *plan };
	(void)fflush(NULL); /* the child must not print it again */
	return process;
}

int rlcrowd_start(struct rlcrowd *crowd, uint32_t slot, uint32_t thread_count,
		  const struct rlcrowd_plan *plan)
{
	struct rlcrowd_process *process = process_add(crowd, slot, thread_count, plan);
	pid_t pid = fork();

	if (pid == 0)
		rlcrowd_member_live(crowd, slot, thread_count, &process->plan);
	if (pid < 0)
		return fault(crowd, -errno, "fork %u: %s", slot, strerror(errno));
	process->pid = pid;
	for (uint32_t i = 0; i < thread_count; i++)
		crowd->members[slot + i].outer_pid = pid;
	crowd->process_count++;
	return 0;
}

static void own_proc_mount(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", "/proc", "proc", 0, NULL))
		_exit(NO_NAMESPACE);
}

/* Pid 1: its children's reaper, and so it sees that nothing is left. */
static _Noreturn void box_live(struct rlcrowd *crowd, struct rlcrowd_process *process,
			       bool own_proc)
{
	pid_t *pids = calloc(process->slot_count, sizeof *pids);
	int bad = !pids, status;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (own_proc)
		own_proc_mount();
	for (uint32_t i = 0; pids && i < process->slot_count; i++) {
		uint32_t slot = process->first_slot + i;

		pids[i] = fork();
		if (pids[i] == 0) {
			char name[16] = { 0 };

			if (readlinkat(crowd->proc_fd, "self", name, sizeof name - 1) < 0)
				_exit(1);
			crowd->members[slot].outer_pid = (pid_t)strtol(name, NULL, 10);
			rlcrowd_member_live(crowd, slot, 1, &process->plan);
		}
		bad |= pids[i] < 0;
	}
	for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
		for (uint32_t i = 0; pids && i < process->slot_count; i++)
			bad |= pids[i] == pid && status &&
			       !atomic_load(&crowd->members[process->first_slot + i].doomed);
	}
	_exit(bad ? 1 : 0);
}

/* A namespace's maker is not in it; its next child is. */
static _Noreturn void keeper_live(struct rlcrowd *crowd, struct rlcrowd_process *process,
				  bool own_proc)
{
	int status = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWPID))
		_exit(NO_NAMESPACE);
	pid_t pid = fork();
	if (pid == 0)
		box_live(crowd, process, own_proc);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		_exit(1);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* Looks until it is so. `what` for the complaint. */
static int await(struct rlcrowd *crowd, uint64_t deadline_ns, const char *what, uint32_t slot)
{
	const struct rlcrowd_member *member = &crowd->members[slot];

	if (member->err)
		return fault(crowd, member->err, "slot %u: %s: %s", slot, member->where,
			     strerror(-member->err));
	if (berth_deadline_passed(deadline_ns))
		return fault(crowd, -ETIMEDOUT, "slot %u was never %s (state %u)", slot, what,
			     atomic_load(&member->state));
	(void)usleep(1000);
	return 0;
}

static uint64_t watchdog_ns(void)
{
	return berth_deadline_after(RLCROWD_WATCHDOG_MS * BERTH_NS_PER_MS);
}

int rlcrowd_start_boxed(struct rlcrowd *crowd, uint32_t slot, uint32_t count, bool own_proc,
			const struct rlcrowd_plan *plan)
{
	struct rlcrowd_process *process = process_add(crowd, slot, count, plan);
	uint64_t deadline_ns = watchdog_ns();
	pid_t pid = fork();

	if (pid == 0)
		keeper_live(crowd, process, own_proc);
	if (pid < 0)
		return fault(crowd, -errno, "fork: %s", strerror(errno));
	process->pid = pid;
	process->boxed = true;
	crowd->process_count++;
	for (uint32_t i = slot; i < slot + count; i++) {
		while (atomic_load(&crowd->members[i].state) == RLCROWD_ABSENT) {
			int status, r;

			if (waitpid(pid, &status, WNOHANG) == pid) {
				process->gone = true;
				return fault(crowd, -EPERM, "no pid namespace (status %#x)",
					     (unsigned)status);
			}
			if ((r = await(crowd, deadline_ns, "born", i)))
				return r;
		}
	}
	return 0;
}

/* The slot of this range whose process it is, or its parent's; -1: neither. */
static int64_t slot_of_task(const struct rlcrowd *crowd, uint32_t slot, uint32_t count, pid_t pid)
{
	struct berth_process_stat stat = { .ppid = -1 };

	for (int generation = 0; generation < 2; generation++) {
		for (uint32_t i = slot; i < slot + count; i++) {
			if (crowd->members[i].outer_pid == pid)
				return i;
		}
		if (berth_process_stat_read(pid, &stat))
			break; /* gone meanwhile */
		pid = stat.ppid;
	}
	return -1;
}

/* Marks whose requests for the lock's byte stand in the kernel's queue. */
static int queue_look(struct rlcrowd *crowd, uint32_t slot, uint32_t count, bool *seen)
{
	FILE *f = fopen("/proc/locks", "re");
	char *line = NULL; /* long: indented by the place in the queue */
	size_t size = 0;

	if (!f)
		return fault(crowd, -errno, "/proc/locks: %s", strerror(errno));
	while (getline(&line, &size, f) > 0) {
		const char *blocked = strstr(line, "-> POSIX");
		long long first;
		int pid;

		if (!blocked ||
		    sscanf(blocked, "-> POSIX %*s WRITE %d %*s %lld", &pid, &first) != 2 ||
		    first != BERTH_RECORDLOCK_BYTE)
			continue;
		int64_t whose = slot_of_task(crowd, slot, count, pid);
		if (whose >= 0)
			seen[(uint32_t)whose - slot] = true;
	}
	free(line);
	(void)fclose(f); /* only read */
	return 0;
}

/* A poller between two tries: it is in its take and it sleeps, and nothing else in there makes it sleep. */
static bool naps(const struct rlcrowd_member *member)
{
	struct berth_process_stat stat = { 0 };

	return atomic_load(&member->state) == RLCROWD_WAITING &&
	       berth_process_stat_read(member->outer_pid, &stat) == 0 && stat.state == 'S';
}

static bool all_seen(struct rlcrowd *crowd, uint32_t slot, uint32_t count, bool *seen,
		     uint32_t *ret_missing)
{
	for (uint32_t i = 0; i < count; i++) {
		*ret_missing = slot + i;
		if (!seen[i] && process_of(crowd, slot + i)->plan.way != BERTH_RECORDLOCK_BLOCK)
			seen[i] = naps(&crowd->members[slot + i]);
		if (!seen[i])
			return false;
	}
	return true;
}

int rlcrowd_await_waiting(struct rlcrowd *crowd, uint32_t slot, uint32_t count)
{
	uint64_t deadline_ns = watchdog_ns();
	bool *seen = calloc(count, sizeof *seen);
	uint32_t missing = slot;
	int r = seen ? 0 : -ENOMEM;

	while (r == 0) {
		r = queue_look(crowd, slot, count, seen);
		if (r || all_seen(crowd, slot, count, seen, &missing))
			break;
		r = await(crowd, deadline_ns, "seen waiting", missing);
	}
	free(seen);
	return r;
}

int64_t rlcrowd_queued_count(struct rlcrowd *crowd, uint32_t slot, uint32_t count)
{
	bool *seen = calloc(count, sizeof *seen);
	int64_t queued = seen ? queue_look(crowd, slot, count, seen) : -ENOMEM;

	for (uint32_t i = 0; queued >= 0 && i < count; i++)
		queued += seen[i];
	free(seen);
	return queued;
}

int rlcrowd_await_state(struct rlcrowd *crowd, uint32_t slot, enum rlcrowd_state state)
{
	uint64_t deadline_ns = watchdog_ns();
	int r = 0;

	while (r == 0 && atomic_load(&crowd->members[slot].state) != state)
		r = await(crowd, deadline_ns, state == RLCROWD_INSIDE ? "inside" : "done", slot);
	return r;
}

int rlcrowd_await_started(struct rlcrowd *crowd, uint32_t slot)
{
	uint64_t deadline_ns = watchdog_ns();
	int r = 0;

	while (r == 0 && atomic_load(&crowd->members[slot].state) < RLCROWD_WAITING)
		r = await(crowd, deadline_ns, "on its way", slot);
	return r;
}

int rlcrowd_await_entries(struct rlcrowd *crowd, uint32_t slot, uint32_t count)
{
	uint64_t deadline_ns = watchdog_ns();
	int r = 0;

	while (r == 0 && atomic_load(&crowd->members[slot].entered_count) < count)
		r = await(crowd, deadline_ns, "inside often enough", slot);
	return r;
}

int rlcrowd_tell(struct rlcrowd *crowd, uint32_t slot, enum rlcrowd_word word)
{
	uint64_t deadline_ns = watchdog_ns();
	struct rlcrowd_member *member = &crowd->members[slot];
	int r = 0;

	if (word == RLCROWD_EXIT || word == RLCROWD_EXEC) /* and be it inside by now */
		atomic_store(&member->doomed, 1);
	atomic_store(&member->word, word);
	rlcrowd_word_wake(&member->word);
	if (word == RLCROWD_LEAVE || word == RLCROWD_EXIT || word == RLCROWD_EXEC)
		return 0;
	while (r == 0 && atomic_load(&member->word))
		r = await(crowd, deadline_ns, "done with what it was told", slot);
	return r;
}

void rlcrowd_kill(struct rlcrowd *crowd, uint32_t slot)
{
	const struct rlcrowd_process *process = process_of(crowd, slot);
	uint32_t first = process->boxed ? slot : process->first_slot;
	uint32_t count = process->boxed ? 1 : process->slot_count;

	for (uint32_t i = first; i < first + count; i++)
		atomic_store(&crowd->members[i].doomed, 1);
	rlcrowd_signal(crowd, slot, SIGKILL);
}

void rlcrowd_signal(struct rlcrowd *crowd, uint32_t slot, int signal)
{
	(void)kill(crowd->members[slot].outer_pid, signal); /* ours, and not waited for yet */
}

uint32_t rlcrowd_inside(const struct rlcrowd *crowd)
{
	return atomic_load(&crowd->hall->inside);
}

uint32_t rlcrowd_entry_count(const struct rlcrowd *crowd)
{
	return atomic_load(&crowd->hall->entry_count);
}

void rlcrowd_close(struct rlcrowd *crowd)
{
	atomic_store(&crowd->hall->closed, 1);
}

pid_t rlcrowd_kernel_owner(const struct rlcrowd *crowd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = BERTH_RECORDLOCK_BYTE, .l_len = 1 };
	BERTH_FD int fd = open(crowd->path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || fcntl(fd, F_GETLK, &lock))
		return -errno;
	return lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

static int process_judge(struct rlcrowd *crowd, struct rlcrowd_process *process, int status)
{
	process->gone = true;
	if (process->boxed || !atomic_load(&crowd->members[process->first_slot].doomed)) {
		if (status)
			return fault(crowd, -EPROTO, "slot %u: status %#x: %s: %s",
				     process->first_slot, (unsigned)status,
				     crowd->members[process->first_slot].where,
				     strerror(-crowd->members[process->first_slot].err));
	}
	for (uint32_t i = process->first_slot; i < process->first_slot + process->slot_count; i++) {
		const struct rlcrowd_member *member = &crowd->members[i];

		if (member->err)
			return fault(crowd, member->err, "slot %u: %s: %s", i, member->where,
				     strerror(-member->err));
	}
	return 0;
}

static uint32_t living_first(const struct rlcrowd *crowd, bool *ret_any)
{
	for (uint32_t i = 0; i < crowd->process_count; i++) {
		*ret_any = !crowd->processes[i].gone;
		if (*ret_any)
			return crowd->processes[i].first_slot;
	}
	return 0;
}

/* A left-over's name is its chance to be found; it is no member. */
static int reap(struct rlcrowd *crowd)
{
	uint64_t deadline_ns = watchdog_ns(), left_over_ns = UINT64_MAX;
	pid_t pid;
	int status, r = 0;

	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) >= 0 || errno == EINTR) {
		bool any = false;
		uint32_t slot = living_first(crowd, &any);

		for (uint32_t i = 0; pid > 0 && i < crowd->process_count; i++) {
			int judged = crowd->processes[i].pid == pid
					     ? process_judge(crowd, &crowd->processes[i], status)
					     : 0;

			r = r ? r : judged;
		}
		if (any)
			left_over_ns = berth_deadline_after(LEFT_OVER_MS * BERTH_NS_PER_MS);
		if (pid > 0)
			continue;
		if (!any && berth_deadline_passed(left_over_ns))
			return fault(crowd, -ECHILD, "a task was left over by somebody dead");
		if (berth_deadline_passed(deadline_ns))
			return any ? fault(crowd, -ETIMEDOUT, "slot %u never ended (state %u)",
					   slot, atomic_load(&crowd->members[slot].state))
				   : fault(crowd, -ECHILD, "a task was left over by somebody dead");
		(void)usleep(1000);
	}
	return r;
}

int rlcrowd_judge(struct rlcrowd *crowd)
{
	const struct rlcrowd_plan plan = { .way = BERTH_RECORDLOCK_BARE, .round_count = 1 };
	struct rlcrowd_member *guest = &crowd->members[crowd->slot_max];
	int r = reap(crowd);

	if (r)
		return r;
	pid_t owner = rlcrowd_kernel_owner(crowd);
	if (owner)
		return fault(crowd, -EBUSY, "afterwards the lock is still owned, by %ld",
			     (long)owner);
	r = rlcrowd_start(crowd, crowd->slot_max, 1, &plan);
	if (r == 0)
		r = reap(crowd);
	if (r == 0 && atomic_load(&guest->entered_count) != 1)
		return fault(crowd, -EBUSY, "afterwards the lock could not be taken");
	uint32_t overlap_count = atomic_load(&crowd->hall->overlap_count);
	if (r == 0 && overlap_count)
		return fault(crowd, -EPROTO, "two were inside, seen %u times", overlap_count);
	return r;
}

void rlcrowd_end(struct rlcrowd *crowd)
{
	if (crowd->slot_max == 0)
		return;
	for (uint32_t i = 0; i < crowd->process_count; i++) {
		if (!crowd->processes[i].gone)
			(void)kill(crowd->processes[i].pid, SIGKILL); /* not waited for yet */
	}
	for (uint32_t i = 0; i < crowd->process_count; i++) {
		if (!crowd->processes[i].gone)
			(void)waitpid(crowd->processes[i].pid, NULL, 0);
	}
	if (crowd->hall)
		(void)munmap(crowd->hall, hall_bytes(crowd)); /* can't fail: we mapped it */
	(void)unlink(crowd->path);                            /* it may never have been made */
	free(crowd->processes);
	berth_fd_close(&crowd->proc_fd);
	*crowd = (struct rlcrowd){ .proc_fd = -1 };
}
