/* SPDX-License-Identifier: Apache-2.0
 *
 * One write(2) with O_APPEND a line, so that lines of several writers don't mix. A line that a full disk
 * or a kill cut short is closed by the next writer, who begins a new one.
 */
#include "cli/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/state_dir.h"

/* A path whose every byte is escaped, and the rest. */
enum { VALUE_MAX = 4 * PATH_MAX, LINE_MAX_BYTES = VALUE_MAX + 4096 };

static int log_path(bool make, char ret_path[PATH_MAX], struct berth_reason *reason)
{
	char state[BERTH_STATE_DIR_MAX];
	int r = make ? berth_state_dir_make(NULL, state, sizeof state, reason)
		     : berth_state_dir(state, sizeof state, reason);

	if (r < 0)
		return r;
	(void)snprintf(ret_path, PATH_MAX, "%s/audit.log", state); /* there is room left for it */
	return 0;
}

/* One name for one region, whatever links were on the way to it, and also when it is gone: as far as the
 * path leads, it is the real one. */
static const char *region_canonical(const char *region, char buf[PATH_MAX])
{
	char head[PATH_MAX], real[PATH_MAX];
	char *slash;

	for (int n = snprintf(head, sizeof head, "%s", region); n > 0 && n < PATH_MAX;
	     n = (int)(slash - head)) {
		if (realpath(head, real)) {
			n = snprintf(buf, PATH_MAX, "%s%s", real, region + n);
			return n < PATH_MAX ? buf : region;
		}
		slash = strrchr(head, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
	return region;
}

/* A value ends at a blank, and \xNN means one thing only. So it holds nothing but visible ASCII. */
static size_t value_escape(char *dst, size_t size, const char *src)
{
	size_t n = 0;

	for (; *src && n + sizeof "\\xNN" <= size; src++) {
		if (*src > ' ' && *src <= '~' && *src != '\\')
			dst[n++] = *src;
		else
			n += (size_t)snprintf(dst + n, size - n, "\\x%02x", (unsigned char)*src);
	}
	dst[n] = '\0';
	return n;
}

static size_t value_add(char *line, size_t n, const char *key, const char *value)
{
	n += (size_t)snprintf(line + n, LINE_MAX_BYTES - n, " %s=", key);
	return n + value_escape(line + n, LINE_MAX_BYTES - n, value);
}

static size_t user_add(char *line, size_t n)
{
	const struct passwd *user = getpwuid(getuid());
	const char *sudo = getenv("SUDO_UID");

	n += (size_t)snprintf(line + n, LINE_MAX_BYTES - n, " uid=%u", (unsigned)getuid());
	n = value_add(line, n, "user", user ? user->pw_name : "?");
	n += (size_t)snprintf(line + n, LINE_MAX_BYTES - n, " pid=%d", (int)getpid());
	if (sudo && *sudo && strlen(sudo) <= 10 && sudo[strspn(sudo, "0123456789")] == '\0')
		n = value_add(line, n, "sudo_uid", sudo);
	return n;
}

static unsigned compute_shown(const struct berth_region_gpu *gpu)
{
	return gpu->compute_limit_pct >= 100 ? 0 : gpu->compute_limit_pct;
}

static size_t line_make(char line[LINE_MAX_BYTES], const struct berth_audit_change *change)
{
	char region[PATH_MAX];
	time_t now = time(NULL);
	struct tm utc = { 0 };
	size_t n;

	(void)gmtime_r(&now, &utc);
	n = strftime(line, LINE_MAX_BYTES, "time=%Y-%m-%dT%H:%M:%SZ", &utc);
	n = value_add(line, n, "by", change->by);
	n = user_add(line, n);
	n = value_add(line, n, "share", change->share);
	n = value_add(line, n, "region", region_canonical(change->region, region));
	n = value_add(line, n, "gpu", change->before->uuid);
	n += (size_t)snprintf(line + n, LINE_MAX_BYTES - n,
			      " memory_bytes=%" PRIu64 "->%" PRIu64 " compute=%u->%u\n",
			      change->before->memory_limit_bytes, change->after->memory_limit_bytes,
			      compute_shown(change->before), compute_shown(change->after));
	return n;
}

static int file_check(int fd, const char *path, struct berth_reason *reason)
{
	struct stat st;
	int r = berth_fd_stat(fd, &st);

	if (r < 0)
		return berth_reason_set(reason, r, "%s: can't be examined", path);
	if (!S_ISREG(st.st_mode))
		return berth_reason_set(reason, -EINVAL, "%s: is not a regular file; remove it",
					path);
	if (st.st_uid != geteuid() || st.st_nlink != 1)
		return berth_reason_set(reason, -EPERM, "%s: %s; remove it", path,
					st.st_nlink != 1 ? "has a second name"
							 : "belongs to another user");
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return berth_reason_set(reason, -EPERM,
					"%s: can be written by other users: chmod go-w it", path);
	return 0;
}

static int file_open(const char *path, struct berth_reason *reason)
{
	/* O_NONBLOCK: a FIFO must not hold us up. O_RDWR: to see how the last line ends. */
	int flags = O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	BERTH_FD int fd = open(path, flags | O_CREAT | O_EXCL, 0600);

	if (fd >= 0) {
		/* Whatever the umask took away. */
		if (fchmod(fd, 0600) < 0)
			return berth_reason_set(reason, -errno, "%s: %s", path, strerror(errno));
		return BERTH_TAKE_FD(fd);
	}
	if (errno == EEXIST)
		fd = open(path, flags);
	if (fd < 0)
		return berth_reason_set(reason, -errno, "%s: can't be opened: %s", path,
					errno == ELOOP ? "it is a symbolic link; remove it"
						       : strerror(errno));
	int r = file_check(fd, path, reason);
	return r < 0 ? r : BERTH_TAKE_FD(fd);
}

static bool last_line_is_open(int fd)
{
	off_t end = lseek(fd, 0, SEEK_END);
	char last = '\n';

	return end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n';
}

int berth_audit_write(const struct berth_audit_change *change, struct berth_reason *reason)
{
	char line[1 + LINE_MAX_BYTES] = "\n";
	char path[PATH_MAX];
	ssize_t written;
	int r = log_path(true, path, reason);

	if (r < 0)
		return r;
	BERTH_FD int fd = file_open(path, reason);
	if (fd < 0)
		return fd;
	size_t length = line_make(line + 1, change);
	const char *start = line + 1;
	if (last_line_is_open(fd)) {
		start--;
		length++;
	}
	do
		written = write(fd, start, length);
	while (written < 0 && errno == EINTR);
	if (written == (ssize_t)length)
		return 0;
	r = written < 0 ? -errno : -ENOSPC;
	return berth_reason_set(reason, r, "%s: can't be written: %s", path, strerror(-r));
}

int berth_audit_print(const char *region, FILE *out, struct berth_reason *reason)
{
	char field[LINE_MAX_BYTES], path[PATH_MAX], canonical[PATH_MAX], shown[LINE_MAX_BYTES];
	char *line = NULL;
	size_t room = 0, n;
	int r = log_path(false, path, reason);

	if (r < 0)
		return r;
	n = value_add(field, 0, "region", region_canonical(region, canonical));
	(void)snprintf(field + n, sizeof field - n, " ");
	BERTH_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return berth_reason_set(reason, -errno, "%s: can't be opened: %s", path,
					strerror(errno));
	FILE *file = fdopen(fd, "r");
	if (!file)
		return -ENOMEM;
	(void)BERTH_TAKE_FD(fd); /* the stream's now */
	while (getline(&line, &room, file) > 0) {
		if (!strstr(line, field)) /* values hold no blank: nothing else looks so */
			continue;
		line[strcspn(line, "\n")] = '\0';
		(void)berth_text_escape(shown, sizeof shown, line);
		fprintf(out, "%s\n", shown);
	}
	r = ferror(file) ? -EIO : 0;
	free(line);
	(void)fclose(file); /* it was only read */
	return r < 0 ? berth_reason_set(reason, r, "%s: can't be read", path) : 0;
}
