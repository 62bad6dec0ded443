/* SPDX-License-Identifier: Apache-2.0
 *
 * Named crash points. What is armed is one atomic word, so that threads and signal handlers need no
 * lock and a fork child inherits the rest of the count.
 */
#include "base/crash_point.h"

#include "base/attributes.h"

const char *const berth_crash_point_names[BERTH_CRASH_COUNT] = {
#define CRASH_POINT(name, where) [BERTH_CRASH_##name] = #name,
#include "base/crash_points.def"
#undef CRASH_POINT
};

#ifdef BERTH_CRASH_POINTS

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

/* The word: bit 63 = the environment was read (or overruled), then the point (16 bits), the action
 * (8 bits) and how many times the point may still be reached before it acts (32 bits). */
#define ARMED_READ         (1ULL << 63)
#define ARMED_POINT(word)  ((unsigned)((word) >> 40 & 0xffff))
#define ARMED_ACTION(word) ((enum berth_crash_action)((word) >> 32 & 0xff))
#define ARMED_LEFT(word)   ((uint32_t)(word))

static _Atomic uint64_t armed;

static uint64_t armed_word(unsigned point, enum berth_crash_action action, uint32_t nth)
{
	return ARMED_READ | (uint64_t)point << 40 | (uint64_t)action << 32 | nth;
}

static int point_find(const char *name, size_t length)
{
	for (int i = 0; i < BERTH_CRASH_COUNT; i++) {
		if (strlen(berth_crash_point_names[i]) == length &&
		    memcmp(berth_crash_point_names[i], name, length) == 0)
			return i;
	}
	return -1;
}

/* NAME[:kill|:stop[:NTH]]; a word that arms nothing if it is anything else. */
static uint64_t armed_parse(const char *text)
{
	enum berth_crash_action action = BERTH_CRASH_KILL;
	size_t length = strcspn(text, ":");
	int point = point_find(text, length);
	const char *rest = text + length;
	unsigned long nth = 1;

	if (point < 0)
		return 0;
	if (*rest == ':') {
		length = strcspn(++rest, ":");
		if (length == 4 && memcmp(rest, "stop", 4) == 0)
			action = BERTH_CRASH_STOP;
		else if (length != 4 || memcmp(rest, "kill", 4) != 0)
			return 0;
		rest += length;
	}
	if (*rest == ':') {
		char *end = NULL;

		nth = strtoul(++rest, &end, 10);
		if (*rest < '1' || *rest > '9' || nth > UINT32_MAX)
			return 0;
		rest = end;
	}
	return *rest == '\0' ? armed_word((unsigned)point, action, (uint32_t)nth) : 0;
}

static uint64_t armed_read(void)
{
	uint64_t word = atomic_load_explicit(&armed, memory_order_relaxed);
	uint64_t expected = 0;
	const char *text = NULL;

	if (word != 0)
		return word;
	text = getenv("BERTH_CRASH_AT");
	word = text != NULL ? armed_parse(text) : ARMED_READ;
	if (word == 0) {
		/* A test that asks for a crash which can't come must not pass in silence. */
		berth_error("BERTH_CRASH_AT=%s: no such crash point or action", text);
		word = ARMED_READ;
	}
	if (!atomic_compare_exchange_strong_explicit(&armed, &expected, word, memory_order_relaxed,
						     memory_order_relaxed))
		word = expected;
	return word;
}

void berth_crash_arm(enum berth_crash_point point, enum berth_crash_action action, unsigned nth)
{
	uint64_t word = action == BERTH_CRASH_NONE || nth == 0 ? ARMED_READ
							       : armed_word(point, action, nth);

	atomic_store_explicit(&armed, word, memory_order_relaxed);
}

static void crash_act(enum berth_crash_action action)
{
	int saved_errno = errno;
	int signal = action == BERTH_CRASH_STOP ? SIGSTOP : SIGKILL;

	/* Straight to the kernel, and the process rather than the thread: whatever the program or a
	 * sanitizer put around kill(), and in a child of a raw clone too. */
	(void)syscall(SYS_kill, syscall(SYS_getpid), signal);
	errno = saved_errno;
}

void berth_crash_reached(enum berth_crash_point point)
{
	uint64_t word = armed_read();

	for (;;) {
		uint64_t next = word - 1;

		if (ARMED_LEFT(word) == 0 || ARMED_POINT(word) != (unsigned)point)
			return;
		if (atomic_compare_exchange_weak_explicit(&armed, &word, next, memory_order_relaxed,
							  memory_order_relaxed))
			break;
	}
	if (ARMED_LEFT(word) == 1)
		crash_act(ARMED_ACTION(word));
}

#endif
