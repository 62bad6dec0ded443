/* SPDX-License-Identifier: Apache-2.0
 *
 * The log. What it must not do to the program it is in: allocate, take stdio's locks, keep a
 * descriptor (the program may close it and get the number back for a file of its own, which our
 * lines would then spoil: the log file is opened for each line instead), wait for a reader, or die
 * of SIGPIPE.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"

#define LINE_MAX_BYTES 1000
#define PATH_MAX_BYTES 1024
#define WRITE_WAIT_MS  100
#define LEVEL_UNREAD   (-1)

enum path_state { PATH_UNREAD = 0, PATH_BUSY, PATH_NONE, PATH_SET };

/* All of the log's state. path is written once, between PATH_BUSY and PATH_SET (release; readers
 * acquire); a copy, as the program may change its environment under us. */
static struct {
	_Atomic int level;
	_Atomic int fd; /* -1: the default */
	_Atomic int path_state;
	char path[PATH_MAX_BYTES];
} log_state = { .level = LEVEL_UNREAD, .fd = -1 };

/* Set while this thread is inside berth_log. Initial-exec: other models may allocate on first use. */
static __thread bool log_busy __attribute__((tls_model("initial-exec")));

static const char *const level_names[] = {
	[BERTH_LOG_ERROR] = "error", [BERTH_LOG_WARNING] = "warning", [BERTH_LOG_INFO] = "info",
	[BERTH_LOG_DEBUG] = "debug", [BERTH_LOG_TRACE] = "trace",
};

/* A whole number, cut to the range, or a name; -1 if it is neither. */
static int level_parse(const char *text, int max)
{
	if (*text >= '0' && *text <= '9' && text[strspn(text, "0123456789")] == '\0')
		return text[1] != '\0' || *text - '0' > max ? max : *text - '0';
	for (int i = 0; i < (int)BERTH_ARRAY_LEN(level_names); i++) {
		if (strcmp(text, level_names[i]) == 0)
			return i;
	}
	return -1;
}

static int level_read(void)
{
	const char *own = getenv("BERTH_LOG_LEVEL");
	const char *hami = getenv("LIBCUDA_LOG_LEVEL");
	int level = own != NULL ? level_parse(own, BERTH_LOG_TRACE) : -1;

	if (level < 0 && hami != NULL)
		level = level_parse(hami, BERTH_LOG_DEBUG);
	return level < 0 ? BERTH_LOG_ERROR : level;
}

enum berth_log_level berth_log_level(void)
{
	int level = atomic_load_explicit(&log_state.level, memory_order_relaxed);

	if (level == LEVEL_UNREAD) {
		int read_level = level_read();

		if (atomic_compare_exchange_strong_explicit(&log_state.level, &level, read_level,
							    memory_order_relaxed,
							    memory_order_relaxed))
			level = read_level;
	}
	return (enum berth_log_level)level;
}

void berth_log_set_level(enum berth_log_level level)
{
	atomic_store_explicit(&log_state.level, (int)level, memory_order_relaxed);
}

void berth_log_set_fd(int fd)
{
	atomic_store_explicit(&log_state.fd, fd, memory_order_relaxed);
}

/* NULL if no file is wanted. While another thread is copying the name: NULL too, so nobody waits. */
static const char *log_path(void)
{
	int state = atomic_load_explicit(&log_state.path_state, memory_order_acquire);
	const char *path = NULL;

	if (state == PATH_UNREAD &&
	    atomic_compare_exchange_strong_explicit(&log_state.path_state, &state, PATH_BUSY,
						    memory_order_acquire, memory_order_acquire)) {
		path = berth_process_is_secure() ? NULL : getenv("BERTH_LOG_FILE");
		state = PATH_NONE;
		if (path != NULL && path[0] == '/' && strlen(path) < sizeof(log_state.path)) {
			memcpy(log_state.path, path, strlen(path) + 1);
			state = PATH_SET;
		}
		atomic_store_explicit(&log_state.path_state, state, memory_order_release);
	}
	return state == PATH_SET ? log_state.path : NULL;
}

/* One write(2) that neither waits long nor raises SIGPIPE in the program. */
static void line_write(int fd, const char *line, size_t length)
{
	BERTH_UNCANCELLED;
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	const struct timespec no_time = { 0 };
	sigset_t pipe_only;
	sigset_t pending;
	sigset_t before;
	bool was_pending;

	/* A pipe is ready when it has room for PIPE_BUF bytes: more than a line. */
	if (poll(&ready, 1, WRITE_WAIT_MS) == 0)
		return;
	(void)sigemptyset(&pipe_only);
	(void)sigaddset(&pipe_only, SIGPIPE);
	(void)sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) == 1;
	(void)sigprocmask(SIG_BLOCK, &pipe_only, &before);
	if (write(fd, line, length) < 0 && errno == EPIPE && !was_pending)
		(void)sigtimedwait(&pipe_only, NULL, &no_time);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
}

static void line_put(enum berth_log_level level, const char *line, size_t length)
{
	BERTH_UNCANCELLED;
	int chosen = atomic_load_explicit(&log_state.fd, memory_order_relaxed);
	const char *path = chosen < 0 ? log_path() : NULL;
	BERTH_FD int file = -1;

	if (path != NULL) {
		file = open(path,
			    O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY |
				    O_NONBLOCK,
			    0600);
		/* A refusal to work must be seen; the rest was not asked for on standard error. */
		if (file < 0 && level != BERTH_LOG_ERROR)
			return;
		chosen = file;
	}
	line_write(chosen >= 0 ? chosen : STDERR_FILENO, line, length);
}

void berth_log(enum berth_log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	char text[LINE_MAX_BYTES];
	char line[LINE_MAX_BYTES];
	size_t length;
	va_list args;

	if (log_busy || !berth_log_on(level))
		return;
	log_busy = true;
	va_start(args, fmt);
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		text[0] = '\0';
	va_end(args);
	(void)snprintf(line, sizeof(line), "berth[%d]: %s: ", (int)getpid(), level_names[level]);
	length = strlen(line);
	/* One byte is kept for the newline, in the place of the terminating zero. */
	length += berth_text_escape(line + length, sizeof(line) - length, text);
	line[length++] = '\n';
	line_put(level, line, length);
	log_busy = false;
	errno = saved_errno;
}

bool berth_log_allow(struct berth_log_limit *limit, uint32_t burst, uint64_t period_ns,
		     uint32_t *ret_dropped)
{
	uint64_t now_ns = berth_clock_ns();
	uint64_t start_ns = __atomic_load_n(&limit->window_start_ns, __ATOMIC_RELAXED);

	/* Whoever moves the window opens it. Others may still count in the old one: a message more
	 * or less at the turn, which is all that relaxed order costs. */
	if ((start_ns == 0 || now_ns - start_ns >= period_ns) &&
	    __atomic_compare_exchange_n(&limit->window_start_ns, &start_ns, now_ns, false,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		__atomic_store_n(&limit->used_count, 0, __ATOMIC_RELAXED);
	if (__atomic_load_n(&limit->used_count, __ATOMIC_RELAXED) >= burst ||
	    __atomic_fetch_add(&limit->used_count, 1, __ATOMIC_RELAXED) >= burst) {
		(void)__atomic_fetch_add(&limit->dropped_count, 1, __ATOMIC_RELAXED);
		return false;
	}
	if (ret_dropped != NULL)
		*ret_dropped = __atomic_exchange_n(&limit->dropped_count, 0, __ATOMIC_RELAXED);
	return true;
}

/* Length of the valid, printable UTF-8 character at s (1..4), or 0. C1 controls count as invalid:
 * terminals obey them. */
static size_t character_length(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length;
	uint32_t code;

	if (s[0] < 0x80)
		return s[0] >= 0x20 && s[0] != 0x7f ? 1 : 0;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	code = s[0] & (0x7fU >> length);
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ||
	    code < 0xa0)
		return 0;
	return length;
}

size_t berth_text_escape(char *dst, size_t size, const char *src)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *s = (const unsigned char *)src;
	size_t out = 0;

	if (size == 0)
		return 0;
	while (*s != '\0') {
		size_t length = character_length(s);
		char escaped[4] = { '\\', 'x', hex[*s >> 4], hex[*s & 15] };
		const char *piece = length > 0 ? (const char *)s : escaped;
		size_t piece_length = length > 0 ? length : sizeof(escaped);

		/* Cut between characters, never inside one. */
		if (out + piece_length >= size)
			break;
		memcpy(dst + out, piece, piece_length);
		out += piece_length;
		s += length > 0 ? length : 1;
	}
	dst[out] = '\0';
	return out;
}
