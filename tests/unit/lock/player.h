/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of this room share: a directory with a lock file, and players, which are other processes that
 * do with the lock what they are told. Included after cmocka.h.
 */
#ifndef BERTH_TESTS_LOCK_PLAYER_H
#define BERTH_TESTS_LOCK_PLAYER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "berth/recordlock.h"

#define LONG_MS 60000 /* a wait that ends in time, or else the watchdog does it */

struct field {
	char dir[PATH_MAX / 2];
	char path[PATH_MAX]; /* of the lock file, there and empty */
};

/* cmocka set-up and tear-down: *state becomes a struct field. */
int field_setup(void **state);
int field_teardown(void **state);

/* Opens it, or fails the test. */
struct berth_recordlock *open_way(const char *path, uint32_t way, uint32_t flags);

struct berth_recordlock_trace trace_of(const struct berth_recordlock *lock);

/* Who has the byte, by the kernel's account, asked by another process: 0 = nobody. */
pid_t owner_of(const char *path);

/* Told by one letter, answers with a number:
 * t take (waits LONG_MS), n take (one try), g give, c check, b block count, p pauses, s give soon (answers
 * before), x exit */
struct player {
	pid_t pid;
	int tell_fd;
	int hear_fd;
};

void player_start(struct player *player, const char *path, uint32_t way);
void player_tell(const struct player *player, char what);
int player_hear(const struct player *player);
int player_ask(const struct player *player, char what);
/* Has it answered? Waits that long for it. */
bool player_answers(const struct player *player, int timeout_ms);
/* Tells it, and returns when it is seen in its wait. */
void player_wait_begin(const struct player *player, const char *path);
void player_kill(struct player *player);
/* Lets it exit by itself. */
void player_end(struct player *player);

/* Runs body in a fork child, which exits with what it returns: 0..255, or -signal. */
int in_child(int (*body)(void *arg), void *arg);

/* How many descendants, by the kernel's list, have this process for a parent (zombies too). */
int children_count(void);

void sleep_ms(int ms);

/* Waits till it is so; fails the test after ten seconds. */
#define UNTIL(condition)                                                         \
	do {                                                                     \
		const uint64_t end_ = berth_deadline_after(10 * BERTH_NS_PER_S); \
		while (!(condition)) {                                           \
			if (berth_deadline_passed(end_))                         \
				fail_msg("never came true: %s", #condition);     \
			sleep_ms(1);                                             \
		}                                                                \
	} while (0)

#endif
