/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of a guest. Off but for errors by default; one line a message, by one write(2) to a
 * descriptor; never allocates, never waits long for a reader; usable before main and from inside itself (a
 * message caused by writing a message is dropped); keeps errno. Text of other processes is escaped.
 * Thread-safe; after fork the child logs on.
 */
#ifndef BERTH_BASE_LOG_H
#define BERTH_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"

enum berth_log_level {
	BERTH_LOG_ERROR = 0, /* a refusal to work: the only level on by default */
	BERTH_LOG_WARNING = 1,
	BERTH_LOG_INFO = 2,
	BERTH_LOG_DEBUG = 3,
	BERTH_LOG_TRACE = 4,
};

/* The level in force: BERTH_LOG_LEVEL (a number or error|warning|info|debug|trace), else HAMi's
 * LIBCUDA_LOG_LEVEL (0 error, 1 warning, 2 info, 3 and more debug), else error. Read once. */
enum berth_log_level berth_log_level(void);
void berth_log_set_level(enum berth_log_level level);

/* Where lines go: standard error by default, BERTH_LOG_FILE (an absolute path, opened for each line
 * with O_APPEND|O_NOFOLLOW, 0600; if that fails errors go to standard error and the rest nowhere) if
 * set and this process is not set-user-ID. A descriptor set here wins; -1 restores the default. */
void berth_log_set_fd(int fd);

/* One line "berth[PID]: LEVEL: text\n", cut at 1000 bytes, control bytes escaped as \xNN. */
void berth_log(enum berth_log_level level, const char *fmt, ...) BERTH_PRINTF(2, 3);

#define berth_log_on(level) ((level) <= berth_log_level())
#define berth_error(...)    berth_log(BERTH_LOG_ERROR, __VA_ARGS__)
#define berth_warning(...)  berth_log(BERTH_LOG_WARNING, __VA_ARGS__)
#define berth_info(...)     berth_log(BERTH_LOG_INFO, __VA_ARGS__)
#define berth_debug(...) \
	(berth_log_on(BERTH_LOG_DEBUG) ? berth_log(BERTH_LOG_DEBUG, __VA_ARGS__) : (void)0)

/* At most `burst` messages per `period_ns` from one place: true if this one may be printed;
 * *ret_dropped tells how many were held back since the last one that was printed. */
struct berth_log_limit {
	uint64_t window_start_ns;
	uint32_t used_count;
	uint32_t dropped_count;
};
bool berth_log_allow(struct berth_log_limit *limit, uint32_t burst, uint64_t period_ns,
		     uint32_t *ret_dropped);

/* Says the message once in this process's life (a static flag at the place of the call). */
#define berth_log_once(level, ...)                                              \
	do {                                                                    \
		static _Atomic int said_;                                       \
		if (!atomic_exchange_explicit(&said_, 1, memory_order_relaxed)) \
			berth_log(level, __VA_ARGS__);                          \
	} while (0)

/* Escapes bytes < 0x20, 0x7f, the C1 controls (terminals obey them) and invalid UTF-8 of src as \xNN into dst (always terminated).
 * Returns the length written. For names and commands that other processes chose. */
size_t berth_text_escape(char *dst, size_t size, const char *src);

#endif
