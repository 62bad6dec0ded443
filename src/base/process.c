/* SPDX-License-Identifier: Apache-2.0
 *
 * Process identity from /proc. "There is no such process" is only said when the kernel says so: a
 * /proc that is missing or hides others (hidepid) gives -EACCES, never a death.
 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

#define STAT_TEXT_MAX         2048
#define STAT_FIELD_STARTTIME  22
#define INITIAL_PID_NAMESPACE 0xEFFFFFFCU
#define COMMAND_READ_MAX      4096

/* Takes " NUMBER" off *text. */
static int field_take(const char **text, int64_t *ret_value)
{
	const char *figures = *text + 1;
	uint64_t value = 0;
	bool negative = false;

	if (**text != ' ')
		return -EBADMSG;
	if (*figures == '-') {
		negative = true;
		figures++;
	}
	if (*figures < '0' || *figures > '9')
		return -EBADMSG;
	for (; *figures >= '0' && *figures <= '9'; figures++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*figures - '0'), &value))
			return -EBADMSG;
	}
	/* Signal masks and addresses may use all 64 bits: they are skipped, not interpreted. */
	*ret_value = (int64_t)(negative ? 0 - value : value);
	*text = figures;
	return 0;
}

int berth_process_stat_parse(const char *text, struct berth_process_stat *ret_stat)
{
	struct berth_process_stat stat = { 0 };
	size_t pid_length = strspn(text, "0123456789");
	const char *comm = text + pid_length + 2;
	const char *end = strrchr(text, ')');
	size_t comm_length;
	int64_t value = 0;

	if (pid_length == 0 || strncmp(text + pid_length, " (", 2) != 0 || end == NULL ||
	    end < comm)
		return -EBADMSG;
	comm_length = (size_t)(end - comm);
	if (comm_length >= sizeof(stat.comm))
		return -EBADMSG;
	memcpy(stat.comm, comm, comm_length);

	/* Behind the last ')' stand the state and numbers only. */
	text = end + 1;
	if (text[0] != ' ' || text[1] == '\0' || text[1] == ' ')
		return -EBADMSG;
	stat.state = text[1];
	text += 2;
	for (int field = 4; field <= STAT_FIELD_STARTTIME; field++) {
		if (field_take(&text, &value) < 0)
			return -EBADMSG;
		if (field == 4) {
			if (value < 0 || value > INT32_MAX)
				return -EBADMSG;
			stat.ppid = (pid_t)value;
		}
	}
	if (*text != ' ' && *text != '\n' && *text != '\0')
		return -EBADMSG;
	stat.start_ticks = (uint64_t)value;
	*ret_stat = stat;
	return 0;
}

static int stat_read(const char *path, struct berth_process_stat *ret_stat)
{
	char text[STAT_TEXT_MAX];
	ssize_t length = berth_file_read(AT_FDCWD, path, text, sizeof(text));

	if (length < 0)
		return (int)length;
	return berth_process_stat_parse(text, ret_stat);
}

/* What an unreadable /proc entry means: kill(2) asks the kernel itself. */
static int process_missing(pid_t pid)
{
	int saved_errno = errno;
	bool there = kill(pid, 0) == 0 || errno == EPERM;

	errno = saved_errno;
	return there ? -EACCES : -ESRCH;
}

int berth_process_stat_read(pid_t pid, struct berth_process_stat *ret_stat)
{
	char path[64];
	int err;

	if (pid <= 0)
		return -ESRCH;
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	err = stat_read(path, ret_stat);
	/* ESRCH: it went between open and read. */
	return err == -ENOENT || err == -ESRCH ? process_missing(pid) : err;
}

/* 0 = unknown. The link says "pid:[4026531836]". */
static uint64_t pid_namespace_self(void)
{
	static const char prefix[] = "pid:[";
	int saved_errno = errno;
	char text[64];
	ssize_t length = readlink("/proc/self/ns/pid", text, sizeof(text) - 1);

	errno = saved_errno;
	if (length < 0)
		return 0;
	text[length] = '\0';
	if (strncmp(text, prefix, sizeof(prefix) - 1) != 0)
		return 0;
	return strtoull(text + sizeof(prefix) - 1, NULL, 10);
}

int berth_process_self(struct berth_process_id *ret_id)
{
	struct berth_process_stat stat;
	/* By "self": where /proc belongs to another pid namespace, our number is somebody else's. */
	int err = stat_read("/proc/self/stat", &stat);

	if (err < 0)
		return err;
	ret_id->pid = getpid();
	ret_id->start_ticks = stat.start_ticks;
	ret_id->pid_namespace = pid_namespace_self();
	return 0;
}

bool berth_process_same(const struct berth_process_id *id)
{
	struct berth_process_stat stat;
	uint64_t own = pid_namespace_self();
	int err;

	if (id->pid_namespace != 0 && own != 0 && id->pid_namespace != own)
		return false;
	err = berth_process_stat_read(id->pid, &stat);
	if (err < 0)
		return err != -ESRCH;
	return stat.start_ticks == id->start_ticks && stat.state != 'Z' && stat.state != 'X';
}

ssize_t berth_process_command(pid_t pid, char *buf, size_t size)
{
	char path[64];
	char text[COMMAND_READ_MAX];
	struct berth_process_stat stat;
	ssize_t length;
	int err;

	if (size == 0)
		return -EINVAL;
	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	length = berth_file_read_head(AT_FDCWD, path, text, sizeof(text));
	while (length > 0 && text[length - 1] == '\0')
		length--;
	if (length > 0) {
		for (ssize_t i = 0; i < length; i++) {
			if (text[i] == '\0')
				text[i] = ' ';
		}
		text[length] = '\0';
		return (ssize_t)berth_text_escape(buf, size, text);
	}
	/* Kernel threads and zombies have none. */
	err = berth_process_stat_read(pid, &stat);
	if (err < 0)
		return err;
	(void)snprintf(text, sizeof(text), "[%s]", stat.comm);
	return (ssize_t)berth_text_escape(buf, size, text);
}

bool berth_process_in_initial_pid_namespace(void)
{
	return pid_namespace_self() == INITIAL_PID_NAMESPACE;
}

uint64_t berth_boot_id(void)
{
	char text[64];
	uint64_t id = 0;
	int figures = 0;

	if (berth_file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof(text)) < 0)
		return 0;
	for (const char *c = text; *c != '\0' && figures < 16; c++) {
		static const char hex[] = "0123456789abcdef";
		const char *digit = memchr(hex, *c, sizeof(hex) - 1);

		if (*c == '-')
			continue;
		if (digit == NULL)
			return 0;
		id = id << 4 | (uint64_t)(digit - hex);
		figures++;
	}
	return figures == 16 ? id : 0;
}

bool berth_process_is_secure(void)
{
	return getauxval(AT_SECURE) != 0;
}
