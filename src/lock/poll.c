/* SPDX-License-Identifier: Apache-2.0
 *
 * See poll.h. Pauses of 10 ms that double to 50 ms (1 s for the patient), +-20 %, so that waiters don't come
 * in step. Whatever hints come, a waiter makes at most 20 tries in any second; while the owner's death would
 * be told, pauses leave four of them to the hints. A hint costs a question (F_GETLK), and a try only if
 * the byte then seems free.
 *
 * Killed anywhere: the waiter has nothing that others could miss.
 */
#include "lock/poll.h"

#include <errno.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "lock/epoch.h"
#include "lock/hint.h"

#define PAUSE_FIRST_NS   (10 * BERTH_NS_PER_MS)
#define PAUSE_MAX_NS     (50 * BERTH_NS_PER_MS)
#define PAUSE_PATIENT_NS BERTH_NS_PER_S
#define DYING_FIRST_NS   (BERTH_NS_PER_MS / 2)

enum {
	TRIES_A_SECOND = 20,
	TRIES_FOR_HINTS = 4,
	HINTS_A_PAUSE = 20,
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

/* Waits till until_ns, or till a hint and then a look say that a try may be worth it. */
static void nap(struct berth_poll *poll, struct berth_hints *hints, const struct budget *budget,
		uint64_t until_ns)
{
	uint64_t dying_ns = DYING_FIRST_NS;
	unsigned hint_count = 0;

	poll->nap_count++;
	while (hint_count < HINTS_A_PAUSE && !berth_deadline_passed(until_ns)) {
		uint64_t step_ns = until_ns;

		/* A dead owner's lock is freed after his memory: look again soon. */
		if (hints->dying) {
			step_ns = earlier(until_ns, berth_deadline_after(dying_ns));
			dying_ns *= 2;
		}
		if (!berth_hints_wait(hints, step_ns) && !hints->dying)
			return;
		hint_count++;
		if (berth_hints_look(hints, poll->descriptor, poll->byte) == 0)
			continue;
		/* Free, or an error that the try will tell. */
		if (!berth_deadline_passed(until_ns))
			poll->hint_count++;
		berth_sleep_ns(UINT64_MAX, earlier(budget_from_ns(budget, 0), until_ns));
		return;
	}
	berth_sleep_ns(UINT64_MAX, until_ns);
}

static int poll_try(struct berth_poll *poll, struct budget *budget)
{
	budget_spend(budget);
	poll->try_count++;
	return berth_descriptor_set(poll->descriptor, F_SETLK, F_WRLCK, poll->byte);
}

static uint64_t next_try_ns(const struct berth_poll *poll, const struct berth_hints *hints,
			    const struct budget *budget, uint64_t pause_ns)
{
	unsigned left_over = hints->owner_fd >= 0 ? TRIES_FOR_HINTS : 0;

	return earlier(poll->deadline_ns,
		       later(berth_deadline_after(pause_ns), budget_from_ns(budget, left_over)));
}

int berth_poll_wait(struct berth_poll *poll)
{
	const uint64_t pause_max_ns = poll->patient ? PAUSE_PATIENT_NS : PAUSE_MAX_NS;
	uint64_t random = berth_clock_ns() ^ ((uint64_t)berth_lock_pid() << 32);
	uint64_t pause_ns = PAUSE_FIRST_NS;
	struct budget budget = { 0 };
	BERTH_HINTS(hints);
	int r = 0;

	/* The caller has tried. */
	budget_spend(&budget);
	if (random == 0)
		random = 1;
	if (poll->hinted) {
		berth_hints_watch_file(&hints, poll->descriptor);
		r = berth_hints_look(&hints, poll->descriptor, poll->byte);
	}
	/* Given back before we watched, or an error: no pause. */
	if (r != 0)
		r = poll_try(poll, &budget);
	else
		r = -EAGAIN;
	while (r == -EAGAIN) {
		BERTH_CRASH(lock_polling);
		if (berth_deadline_passed(poll->deadline_ns))
			return -ETIMEDOUT;
		nap(poll, &hints, &budget,
		    next_try_ns(poll, &hints, &budget, jittered(pause_ns, &random)));
		pause_ns = earlier(pause_ns * 2, pause_max_ns);
		/* The deadline came first: the last try is only made if the budget has one. */
		if (berth_deadline_passed(poll->deadline_ns) &&
		    !berth_deadline_passed(budget_from_ns(&budget, 0)))
			return -ETIMEDOUT;
		r = poll_try(poll, &budget);
	}
	return r;
}
