/* SPDX-License-Identifier: Apache-2.0
 *
 * See actor.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "region/ledger.h"

#define PATIENCE_NS (60 * BERTH_NS_PER_S)

struct actor *actors_make(void)
{
	struct actor *actors = mmap(NULL, ACTOR_MAX * sizeof(*actors), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(actors != MAP_FAILED);
	return actors;
}

void actors_free(struct actor *actors)
{
	assert_int_equal(munmap(actors, ACTOR_MAX * sizeof(*actors)), 0);
}

static int64_t charged_of(const struct berth_region *region)
{
	struct berth_ledger_room room = { 0 };
	int r = berth_ledger_room(region, 0, &room);

	return r < 0 ? r : (int64_t)room.charged_bytes;
}

static int64_t obey(struct actor *actor, int command, struct berth_region *region,
		    struct berth_seat *seat)
{
	switch (command) {
	case ACTOR_ASK:
		return berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, actor->argument);
	case ACTOR_REFUND:
		berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, actor->argument);
		return 0;
	case ACTOR_ALIVE:
		return berth_seat_alive(region, (uint32_t)actor->argument);
	case ACTOR_REAP:
		return berth_seat_reap_all(region);
	case ACTOR_CHARGED:
		return charged_of(region);
	default:
		/* Also from pid 1 of a namespace, whose own signals to itself are ignored. */
		(void)kill(getpid(), SIGKILL);
		_exit(9);
	}
}

int actor_obey(struct actor *actor, const char *path)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	struct berth_reason reason = { "" };
	uint64_t deadline_ns = berth_deadline_after(PATIENCE_NS);
	int r = berth_region_join(path, NULL, 0, &region, NULL, &reason);

	if (r == 0)
		r = berth_seat_claim(region, 0, &seat, NULL, &reason);
	if (r < 0) {
		dprintf(2, "%s\n", reason.text);
		actor->ready = r;
		return 1;
	}
	actor->seat = berth_seat_index(seat);
	actor->ready = 1;
	while (!berth_deadline_passed(deadline_ns)) {
		int command = actor->command;

		if (command == ACTOR_NONE) {
			(void)usleep(200);
			continue;
		}
		actor->result = obey(actor, command, region, seat);
		actor->command = ACTOR_NONE;
	}
	return 2;
}

void actor_await(struct actor *actor)
{
	uint64_t deadline_ns = berth_deadline_after(PATIENCE_NS);

	while (actor->ready == 0 && !berth_deadline_passed(deadline_ns))
		(void)usleep(200);
	assert_int_equal(actor->ready, 1);
}

int64_t actor_do(struct actor *actor, enum actor_command command, uint64_t argument)
{
	uint64_t deadline_ns = berth_deadline_after(PATIENCE_NS);

	actor->argument = argument;
	actor->command = command;
	while (actor->command != ACTOR_NONE && !berth_deadline_passed(deadline_ns))
		(void)usleep(200);
	assert_int_equal(actor->command, ACTOR_NONE);
	return actor->result;
}

void actor_die(struct actor *actor)
{
	actor->command = ACTOR_DIE;
}
