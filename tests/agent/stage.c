/* SPDX-License-Identifier: Apache-2.0
 *
 * See stage.h.
 */
#include "stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/pid_broker.h"

#define OPTIONS_MAX 24

char stage_dir[] = "/tmp/berth-test-agent-XXXXXX";
char stage_node[128];
char stage_socket[160];

static const char *program;
static char log_path[128];
static char notify_path[128];
static int notify_fd = -1;
static int guard_fd = -1;

int stage_begin(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	program = argv[1];
	if (geteuid() == 0)
		return 0;
	puts("skipped: berthd opens its sockets as root");
	return 77;
}

/* Berthds outlive a test that fails: changing to another user takes the signal at the parent's death away. So
 * a process that ends with the test, however that ends, ends them: it is told of each (+pid, -pid). */
static void guard(int fd)
{
	pid_t pids[16] = { 0 };
	pid_t pid;

	while (read(fd, &pid, sizeof(pid)) == (ssize_t)sizeof(pid)) {
		int at = 0;

		while (at < 15 && pids[at] != (pid > 0 ? 0 : -pid))
			at++;
		pids[at] = pid > 0 ? pid : 0;
	}
	for (int i = 0; i < 16; i++) {
		if (pids[i] != 0)
			(void)kill(pids[i], SIGKILL);
	}
	_exit(0);
}

static void guard_tell(pid_t pid)
{
	(void)!write(guard_fd, &pid, sizeof(pid));
}

static int guard_start(void)
{
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) != 0)
		return -1;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(pair[1]);
		close(STDOUT_FILENO);
		guard(pair[0]);
	}
	close(pair[0]);
	guard_fd = pair[1];
	return pid < 0 ? -1 : 0;
}

int stage_group_setup(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval watchdog = { .tv_sec = 60 };

	(void)state;
	if (guard_start() != 0)
		return -1;
	if (mkdtemp(stage_dir) == NULL || chmod(stage_dir, 0755) != 0 || chdir(stage_dir) != 0)
		return -1;
	snprintf(stage_node, sizeof(stage_node), "%s/node", stage_dir);
	snprintf(stage_socket, sizeof(stage_socket), "%s/broker.sock", stage_node);
	snprintf(log_path, sizeof(log_path), "%s/log", stage_dir);
	snprintf(notify_path, sizeof(notify_path), "%s/notify", stage_dir);
	memcpy(address.sun_path, notify_path, strlen(notify_path));
	notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (notify_fd < 0 ||
	    bind(notify_fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
	    setsockopt(notify_fd, SOL_SOCKET, SO_RCVTIMEO, &watchdog, sizeof(watchdog)) != 0)
		return -1;
	return chmod(notify_path, 0666);
}

int stage_group_teardown(void **state)
{
	char command[128];

	(void)state;
	close(guard_fd);
	close(notify_fd);
	snprintf(command, sizeof(command), "rm -rf %s", stage_dir);
	return system(command);
}

static void become(const char *const *options, const struct stage_before *before)
{
	const char *argv[OPTIONS_MAX + 3] = { program, "--any-namespace" };
	int count = 2;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int log_fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* In the way of a test's own pid namespace. */
	if (options && options[0] && strcmp(options[0], "(bare)") == 0) {
		count = 1;
		options++;
	}
	for (int i = 0; options && options[i] && i < OPTIONS_MAX; i++)
		argv[count++] = options[i];
	argv[count] = NULL;
	dup2(log_fd, STDERR_FILENO);
	dup2(null_fd, STDIN_FILENO);
	dup2(null_fd, STDOUT_FILENO);
	setenv("BERTH_NODE_DIR", stage_node, 1);
	setenv("NOTIFY_SOCKET", notify_path, 1);
	unsetenv("BERTH_LOG_LEVEL");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	/* A descriptor that berthd inherits would be counted as a leak of its own. */
	for (int fd = 3; fd < 64; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (before)
		before->call(before->arg);
	execv(program, (char *const *)(uintptr_t)argv);
	_exit(126);
}

static pid_t launch(const char *const *options, const struct stage_before *before)
{
	char news[256];
	pid_t pid;

	/* What an earlier one told is of no interest. */
	while (recv(notify_fd, news, sizeof(news), MSG_DONTWAIT) > 0)
		;
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		become(options, before);
	guard_tell(pid);
	return pid;
}

bool stage_told(const char *news)
{
	char told[256] = "";

	return recv(notify_fd, told, sizeof(told) - 1, 0) > 0 &&
	       strncmp(told, news, strlen(news)) == 0;
}

void stage_start(struct stage_daemon *daemon, const char *const *options,
		 const struct stage_before *before)
{
	daemon->pid = launch(options, before);
	if (!stage_told("READY=1")) {
		(void)stage_log_has("");
		fail_msg("berthd isn't ready");
	}
}

int stage_wait(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	guard_tell(-pid);
	if (!WIFEXITED(status))
		fail_msg("it ended with status 0x%x", (unsigned)status);
	return WEXITSTATUS(status);
}

int stage_run(const char *const *options, const struct stage_before *before)
{
	uint64_t deadline_ns = berth_deadline_after(STAGE_WATCHDOG_NS);
	pid_t pid = launch(options, before);
	siginfo_t info = { 0 };

	while (info.si_pid == 0 && !berth_deadline_passed(deadline_ns)) {
		usleep(1000);
		assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	}
	if (info.si_pid != 0)
		return stage_wait(pid);
	/* It serves, instead. */
	kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	guard_tell(-pid);
	return STAGE_STUCK;
}

void stage_stop(struct stage_daemon *daemon)
{
	assert_int_equal(kill(daemon->pid, SIGTERM), 0);
	assert_int_equal(stage_wait(daemon->pid), 0);
}

void stage_kill(struct stage_daemon *daemon)
{
	assert_int_equal(kill(daemon->pid, SIGKILL), 0);
	assert_int_equal(waitpid(daemon->pid, NULL, 0), daemon->pid);
	guard_tell(-daemon->pid);
}

static size_t log_read(char *text, size_t size)
{
	int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, size - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

bool stage_log_has(const char *word)
{
	char text[16384];

	log_read(text, sizeof(text));
	if (word[0] != '\0' && strstr(text, word) != NULL)
		return true;
	print_message("no '%s' in the log:\n%s", word, text);
	return false;
}

int stage_log_lines(void)
{
	char text[16384];
	size_t size = log_read(text, sizeof(text));
	int count = 0;

	for (size_t i = 0; i < size; i++)
		count += text[i] == '\n';
	return count;
}

int stage_fd_count(pid_t pid)
{
	char path[64];
	char state[32] = "";
	int count = 0;
	DIR *dir;

	for (int i = 0; i < 200 && state[0] != 'S'; i++) {
		usleep(1000);
		stage_status(pid, "State", state, sizeof(state));
	}
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

void stage_status(pid_t pid, const char *name, char *ret_value, size_t size)
{
	char path[64];
	char line[512];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	assert_non_null(file);
	ret_value[0] = '\0';
	while (fgets(line, sizeof(line), file) != NULL) {
		size_t length = strlen(name);

		if (strncmp(line, name, length) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		length += strspn(line + length, ": \t");
		snprintf(ret_value, size, "%s", line + length);
	}
	(void)fclose(file);
}

long stage_rss_kb(pid_t pid)
{
	char value[64];

	stage_status(pid, "VmRSS", value, sizeof(value));
	return strtol(value, NULL, 10);
}

int stage_connect(const char *path, bool wait)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0);

	if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, path, strlen(path));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

pid_t stage_ask(const char *path)
{
	struct berth_reason reason = { "" };
	pid_t pid = 0;
	int err =
		berth_pid_broker_ask(path, berth_deadline_after(STAGE_WATCHDOG_NS), &pid, &reason);

	if (err < 0)
		dprintf(2, "asking failed: %s\n", reason.text);
	return err < 0 ? err : pid;
}

int stage_asks_right(const char *path)
{
	return stage_ask(path) == getpid() ? 0 : 1;
}

pid_t stage_fork(int (*body)(void *arg), void *arg)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(body(arg));
	}
	return pid;
}
