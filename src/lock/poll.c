/* SPDX-License-Identifier: Apache-2.0
 *
 * See poll.h. Pauses of 10 ms that double to 50 ms (1 s for the patient), +-20 %, so that waiters don't come
 * in step. Whatever hints come, a waiter makes at most 20 tries in any second; while the owner's death would
 * be told, pauses leave six of them to the hints. A hint costs a question (F_GETLK), and a try only if
 * the byte then seems free.
 *
 * All waiters get a hint in the same instant. Were they all to ask at once, all would find the byte free, all
 * try, and all but one spend a try on it. So, as stations on one wire do, each waits a random time
 * before it asks; the span doubles when somebody else was faster.
 *
 * Killed anywhere: the waiter has nothing that others could miss.
 */
#include "lock/poll.h"

#include <errno.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "lock/epoch.h"
#include "lock/hint.h"

#define PAUSE_FIRST_NS   (10 * BERTH_NS_PER_MS)
#define PAUSE_MAX_NS     (50 * BERTH_NS_PER_MS)
#define PAUSE_PATIENT_NS BERTH_NS_PER_S
#define DYING_FIRST_NS   (BERTH_NS_PER_MS / 2)
#define SPREAD_FIRST_NS  (2 * BERTH_NS_PER_MS)
#define SPREAD_MAX_NS    (16 * BERTH_NS_PER_MS)

enum {
	TRIES_A_SECOND = 20,
	TRIES_FOR_HINTS = 6,
	LOOKS_A_PAUSE = 20,
};

/* The times of the last tries, the oldest first from next on. */
struct budget {
	uint64_t at_ns[TRIES_A_SECOND];
	unsigned next;
};

static void budget_spend(struct budget *budget)
{
	budget->at_ns[budget->next] = berth_clock_ns();
	budget->next = (budget->next + 1) % TRIES_A_SECOND;
}

/* When the next try may come if of the 20 so many are to be left over. */
static uint64_t budget_from_ns(const struct budget *budget, unsigned left_over)
{
	uint64_t at_ns = budget->at_ns[(budget->next + left_over) % TRIES_A_SECOND];

	return at_ns == 0 ? 0 : at_ns + BERTH_NS_PER_S;
}

/* xorshift64 */
static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t jittered(uint64_t pause_ns, uint64_t *random)
{
	return pause_ns * (80 + random_next(random) % 41) / 100;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* One wait. */
struct waiting {
	struct berth_poll *poll;
	struct berth_hints *hints;
	struct budget budget;
	uint64_t random;
	uint64_t spread_ns; /* of the time between a hint and the question */
	bool hinted;        /* a hint ended the last pause */
};

static void spread_more(struct waiting *waiting)
{
	waiting->spread_ns = earlier(later(waiting->spread_ns * 2, SPREAD_FIRST_NS), SPREAD_MAX_NS);
}

/* After a hint. Is a try worth it? An error is: the try tells it. */
static bool look(struct waiting *waiting, uint64_t until_ns)
{
	const struct berth_poll *poll = waiting->poll;
	uint64_t wait_ns = random_next(&waiting->random) % (waiting->spread_ns + 1);

	berth_sleep_ns(wait_ns, until_ns);
	if (berth_hints_look(waiting->hints, poll->descriptor, poll->byte) != 0)
		return true;
	spread_more(waiting);
	return false;
}

/* Waits till until_ns, or till a hint and then a look say that a try may be worth it. */
static void nap(struct waiting *waiting, uint64_t until_ns)
{
	struct berth_hints *hints = waiting->hints;
	uint64_t dying_ns = DYING_FIRST_NS;
	unsigned look_count = 0;

	waiting->hinted = false;
	berth_lock_count(&waiting->poll->counts->nap_count);
	while (look_count < LOOKS_A_PAUSE && !berth_deadline_passed(until_ns)) {
		uint64_t step_ns = until_ns;

		/* A dead owner's lock is freed after his memory: look again soon. */
		if (hints->dying) {
			step_ns =
				earlier(until_ns,
					berth_deadline_after(jittered(dying_ns, &waiting->random)));
			dying_ns *= 2;
		}
		if (!berth_hints_wait(hints, step_ns) && !hints->dying)
			return;
		look_count++;
		if (!look(waiting, until_ns))
			continue;
		waiting->hinted = !berth_deadline_passed(until_ns);
		if (waiting->hinted)
			berth_lock_count(&waiting->poll->counts->hint_count);
		berth_sleep_ns(UINT64_MAX, earlier(budget_from_ns(&waiting->budget, 0), until_ns));
		return;
	}
	berth_sleep_ns(UINT64_MAX, until_ns);
}

static int try_once(struct waiting *waiting)
{
	struct berth_poll *poll = waiting->poll;

	budget_spend(&waiting->budget);
	berth_lock_count(&poll->counts->try_count);
	return berth_descriptor_set(poll->descriptor, F_SETLK, F_WRLCK, poll->byte);
}

static uint64_t next_try_ns(struct waiting *waiting, uint64_t pause_ns)
{
	unsigned left_over = waiting->hints->owner_fd >= 0 ? TRIES_FOR_HINTS : 0;
	uint64_t at_ns = berth_deadline_after(jittered(pause_ns, &waiting->random));

	return earlier(waiting->poll->deadline_ns,
		       later(at_ns, budget_from_ns(&waiting->budget, left_over)));
}

static int wait_on(struct waiting *waiting)
{
	const struct berth_poll *poll = waiting->poll;
	const uint64_t pause_max_ns = poll->patient ? PAUSE_PATIENT_NS : PAUSE_MAX_NS;
	uint64_t pause_ns = PAUSE_FIRST_NS;
	int r = -EAGAIN;

	while (r == -EAGAIN) {
		BERTH_CRASH(lock_polling);
		if (berth_deadline_passed(poll->deadline_ns))
			return -ETIMEDOUT;
		nap(waiting, next_try_ns(waiting, pause_ns));
		pause_ns = earlier(pause_ns * 2, pause_max_ns);
		/* The deadline came first: the last try is only made if the budget has one. */
		if (berth_deadline_passed(poll->deadline_ns) &&
		    !berth_deadline_passed(budget_from_ns(&waiting->budget, 0)))
			return -ETIMEDOUT;
		r = try_once(waiting);
		if (r == -EAGAIN && waiting->hinted)
			spread_more(waiting);
	}
	return r;
}

int berth_poll_wait(struct berth_poll *poll)
{
	BERTH_HINTS(hints);
	struct waiting waiting = {
		.poll = poll,
		.hints = &hints,
		.random = (berth_clock_ns() ^ ((uint64_t)berth_lock_pid() << 32)) | 1,
	};

	budget_spend(&waiting.budget); /* the caller has tried */
	if (poll->watch != NULL) {
		berth_hints_watch_file(&hints, poll->watch, poll->descriptor);
		/* Given back before we watched, or an error: no pause. */
		if (berth_hints_look(&hints, poll->descriptor, poll->byte) != 0) {
			int r = try_once(&waiting);

			if (r != -EAGAIN)
				return r;
		}
	}
	return wait_on(&waiting);
}
