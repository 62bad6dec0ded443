/* SPDX-License-Identifier: Apache-2.0
 *
 * See player.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "player.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/process.h"

static struct field field;

int field_setup(void **state)
{
	const char *base = getenv("BERTH_TEST_DIR");
	int fd;

	(void)snprintf(field.dir, sizeof(field.dir), "%s/berth-lock-XXXXXX", base ? base : "/tmp");
	if (mkdtemp(field.dir) == NULL)
		return -1;
	(void)snprintf(field.path, sizeof(field.path), "%s/a.lock", field.dir);
	fd = open(field.path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return -1;
	(void)close(fd);
	*state = &field;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int field_teardown(void **state)
{
	(void)state;
	return nftw(field.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

struct berth_recordlock *open_way(const char *path, uint32_t way, uint32_t flags)
{
	const struct berth_recordlock_options options = {
		.size = sizeof(options),
		.way = way,
		.flags = flags,
	};
	struct berth_recordlock *lock = NULL;

	assert_int_equal(berth_recordlock_open(path, &options, &lock), 0);
	return lock;
}

struct berth_recordlock_trace trace_of(const struct berth_recordlock *lock)
{
	struct berth_recordlock_trace trace;

	berth_recordlock_trace(lock, &trace);
	return trace;
}

void sleep_ms(int ms)
{
	berth_sleep_ns((unsigned long long)ms * BERTH_NS_PER_MS, UINT64_MAX);
}

pid_t owner_of(const char *path)
{
	int ends[2];
	pid_t owner = 0;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct flock lock = { .l_type = F_WRLCK,
				      .l_start = BERTH_RECORDLOCK_BYTE,
				      .l_len = 1 };
		int fd = open(path, O_RDWR | O_CLOEXEC);

		if (fd < 0 || fcntl(fd, F_GETLK, &lock) != 0)
			_exit(1);
		owner = lock.l_type == F_UNLCK ? 0 : lock.l_pid;
		_exit(write(ends[1], &owner, sizeof(owner)) != (ssize_t)sizeof(owner));
	}
	(void)close(ends[1]);
	assert_int_equal(read(ends[0], &owner, sizeof(owner)), sizeof(owner));
	(void)close(ends[0]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	return owner;
}

static int play(struct berth_recordlock *lock, char what)
{
	switch (what) {
	case 't':
		return berth_recordlock_take(lock, LONG_MS, NULL);
	case 'n':
		return berth_recordlock_take(lock, 0, NULL);
	case 'g':
		return berth_recordlock_give(lock);
	case 'c':
		return berth_recordlock_check(lock);
	case 'b':
		return (int)trace_of(lock).block_count;
	case 'p':
		return (int)trace_of(lock).nap_count;
	default:
		_exit(what == 'x' ? 0 : 3);
	}
}

/* Answers first, so that whoever asked can begin to wait. */
static void give_soon(const struct player *player, struct berth_recordlock *lock)
{
	int answer = 0;

	if (write(player->hear_fd, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
		_exit(2);
	sleep_ms(40);
	(void)berth_recordlock_give(lock);
}

static void player_run(const struct player *player, const char *path, uint32_t way)
{
	struct berth_recordlock *lock = open_way(path, way, 0);
	char what;

	while (read(player->tell_fd, &what, 1) == 1) {
		int answer;

		if (what == 's') {
			give_soon(player, lock);
			continue;
		}
		answer = play(lock, what);
		if (write(player->hear_fd, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
			_exit(2);
	}
	_exit(0);
}

void player_start(struct player *player, const char *path, uint32_t way)
{
	int tell[2];
	int hear[2];
	pid_t parent = getpid();

	assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
	assert_int_equal(pipe2(hear, O_CLOEXEC), 0);
	player->pid = fork();
	assert_true(player->pid >= 0);
	if (player->pid == 0) {
		const struct player own = { .tell_fd = tell[0], .hear_fd = hear[1] };

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(4);
		(void)close(tell[1]);
		(void)close(hear[0]);
		player_run(&own, path, way);
	}
	(void)close(tell[0]);
	(void)close(hear[1]);
	player->tell_fd = tell[1];
	player->hear_fd = hear[0];
}

void player_tell(const struct player *player, char what)
{
	assert_int_equal(write(player->tell_fd, &what, 1), 1);
}

int player_hear(const struct player *player)
{
	int answer = 0;

	assert_int_equal(read(player->hear_fd, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

int player_ask(const struct player *player, char what)
{
	player_tell(player, what);
	return player_hear(player);
}

bool player_answers(const struct player *player, int timeout_ms)
{
	struct pollfd fd = { .fd = player->hear_fd, .events = POLLIN };

	return poll(&fd, 1, timeout_ms) == 1;
}

/* In the kernel's queue by a task whose parent it is, or in a pause: ppoll(2) or nanosleep. */
static bool player_waits(const struct player *player, const char *path)
{
	char text[64];
	char line[256];
	bool waits = false;
	FILE *file;

	(void)path;
	file = fopen("/proc/locks", "re");
	if (file == NULL)
		return true;
	while (!waits && fgets(line, sizeof(line), file) != NULL) {
		const char *blocked = strstr(line, "-> POSIX");
		struct berth_process_stat stat;
		int pid = 0;

		if (blocked != NULL && sscanf(blocked, "-> POSIX %*s %*s %d", &pid) == 1 &&
		    berth_process_stat_read(pid, &stat) == 0 && stat.ppid == player->pid)
			waits = true;
	}
	(void)fclose(file);
	if (waits)
		return true;
	(void)snprintf(text, sizeof(text), "/proc/%d/syscall", (int)player->pid);
	file = fopen(text, "re");
	if (file == NULL) { /* not shown here: give it time */
		sleep_ms(50);
		return true;
	}
	/* ppoll and clock_nanosleep of x86-64 and aarch64. */
	if (fgets(line, sizeof(line), file) != NULL)
		waits = strncmp(line, "271 ", 4) == 0 || strncmp(line, "73 ", 3) == 0 ||
			strncmp(line, "230 ", 4) == 0 || strncmp(line, "115 ", 4) == 0;
	(void)fclose(file);
	return waits;
}

void player_wait_begin(const struct player *player, const char *path)
{
	player_tell(player, 't');
	UNTIL(player_waits(player, path));
}

static void player_close(struct player *player)
{
	(void)close(player->tell_fd);
	(void)close(player->hear_fd);
}

void player_kill(struct player *player)
{
	assert_int_equal(kill(player->pid, SIGKILL), 0);
	assert_int_equal(waitpid(player->pid, NULL, 0), player->pid);
	player_close(player);
}

void player_end(struct player *player)
{
	int status = 0;

	player_tell(player, 'x');
	assert_int_equal(waitpid(player->pid, &status, 0), player->pid);
	assert_int_equal(status, 0);
	player_close(player);
}

int in_child(int (*body)(void *arg), void *arg)
{
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0)
		_exit(body(arg));
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int children_count(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int count = 0;

	assert_non_null(proc);
	while ((entry = readdir(proc)) != NULL) {
		struct berth_process_stat stat;
		int pid = atoi(entry->d_name);

		if (pid > 0 && berth_process_stat_read(pid, &stat) == 0 && stat.ppid == getpid())
			count++;
	}
	(void)closedir(proc);
	return count;
}
