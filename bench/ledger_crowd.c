/* SPDX-License-Identifier: Apache-2.0
 *
 * See ledger_crowd.h. The baseline does what the older design did, on slots of the same size and
 * place, and nothing else: no liveness, no recovery, no other figures. What it can't do is left out
 * of its cost.
 */
#include "ledger_crowd.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "region/layout.h"
#include "region/ledger.h"

enum { HELD_MAX = 4, ASKS_PER_LOOK = 16 };

struct place {
	_Alignas(64) uint64_t asked_count;
	uint64_t granted_count;
	int32_t error;
};

struct hall {
	_Atomic uint32_t ready_count;
	_Alignas(64) _Atomic bool open;
	_Atomic bool closed;
	struct place places[CROWD_MAX];
	/* The baseline's. */
	_Alignas(64) sem_t semaphore;
	uint64_t limit_bytes;
	uint32_t slot_count;
	struct berth_layout_seat slots[CROWD_MAX];
};

/* One process on its way. */
struct player {
	const struct crowd *crowd;
	struct hall *hall;
	struct berth_region *region;
	struct berth_seat *seat;
	_Atomic uint64_t *used; /* the baseline's own figure */
};

/* ---- the baseline ---- */

static uint64_t slots_sum(const struct hall *hall)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < hall->slot_count; i++) {
		const struct berth_layout_seat *slot = &hall->slots[i];

		if (atomic_load_explicit(&slot->status, memory_order_relaxed) != BERTH_STATUS_FREE)
			bytes += atomic_load_explicit(&slot->use[0].total_bytes,
						      memory_order_relaxed);
	}
	return bytes;
}

static void used_add(struct player *player, uint64_t bytes)
{
	uint64_t used = atomic_load_explicit(player->used, memory_order_relaxed);

	atomic_store_explicit(player->used, used + bytes, memory_order_relaxed);
}

static int semaphore_ask(struct player *player, uint64_t bytes)
{
	struct hall *hall = player->hall;
	int r = 0;

	while (sem_wait(&hall->semaphore) < 0)
		;
	if (slots_sum(hall) + bytes <= hall->limit_bytes)
		used_add(player, bytes);
	else
		r = -ENOMEM;
	(void)sem_post(&hall->semaphore); /* it was taken above */
	return r;
}

static void semaphore_refund(struct player *player, uint64_t bytes)
{
	while (sem_wait(&player->hall->semaphore) < 0)
		;
	used_add(player, 0 - bytes);
	(void)sem_post(&player->hall->semaphore); /* it was taken above */
}

/* ---- either ---- */

static int ask(struct player *player, uint64_t bytes)
{
	return player->seat ? berth_ledger_ask(player->seat, 0, BERTH_CHARGE_DATA, bytes)
			    : semaphore_ask(player, bytes);
}

static void refund(struct player *player, uint64_t bytes)
{
	if (player->seat)
		berth_ledger_refund(player->seat, 0, BERTH_CHARGE_DATA, bytes);
	else
		semaphore_refund(player, bytes);
}

static int enter(struct player *player, uint32_t index)
{
	if (player->crowd->strategy == CROWD_SEMAPHORE) {
		player->used = &player->hall->slots[index].use[0].total_bytes;
		return 0;
	}
	int r = berth_region_join(player->crowd->region_path, NULL, 0, &player->region, NULL, NULL);
	return r < 0 ? r : berth_seat_claim(player->region, 0, &player->seat, NULL, NULL);
}

static int play(struct player *player, struct place *place)
{
	uint64_t bytes = player->crowd->ask_bytes;
	uint32_t held = 0;
	uint64_t asked = 0;
	uint64_t granted = 0;

	while (!atomic_load_explicit(&player->hall->closed, memory_order_relaxed)) {
		for (int i = 0; i < ASKS_PER_LOOK; i++) {
			int r = ask(player, bytes);

			if (r < 0 && r != -ENOMEM)
				return r;
			asked++;
			granted += r == 0;
			held += r == 0;
			/* A refusal makes room too, as a program does that is out of memory. */
			if (held > player->crowd->held_count || (r < 0 && held)) {
				refund(player, bytes);
				held--;
			}
		}
	}
	while (held--)
		refund(player, bytes);
	place->asked_count = asked;
	place->granted_count = granted;
	return 0;
}

static void __attribute__((noreturn))
player_run(const struct crowd *crowd, struct hall *hall, uint32_t index)
{
	struct player player = { .crowd = crowd, .hall = hall };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives a bench that was broken off */
	int r = enter(&player, index);
	atomic_fetch_add(&hall->ready_count, 1);
	while (r == 0 && !atomic_load(&hall->open))
		berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
	if (r == 0)
		r = play(&player, &hall->places[index]);
	hall->places[index].error = r;
	berth_seat_leave(player.seat);
	berth_region_close(player.region);
	_exit(0);
}

static int hall_play(const struct crowd *crowd, struct hall *hall, struct crowd_result *ret_result)
{
	uint64_t asked = 0;
	uint64_t granted = 0;
	uint32_t started = 0;
	int r = 0;

	for (; r == 0 && started < crowd->process_count; started++) {
		pid_t pid = fork();

		if (pid == 0)
			player_run(crowd, hall, started);
		if (pid < 0)
			r = -errno;
	}
	while (r == 0 && atomic_load(&hall->ready_count) < crowd->process_count)
		berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
	uint64_t start_ns = berth_clock_ns();
	atomic_store(&hall->open, true);
	berth_sleep_ns(crowd->duration_ns, UINT64_MAX);
	atomic_store(&hall->closed, true);
	uint64_t elapsed_ns = berth_clock_ns() - start_ns;
	while (wait(NULL) > 0)
		;
	for (uint32_t i = 0; r == 0 && i < started; i++) {
		asked += hall->places[i].asked_count;
		granted += hall->places[i].granted_count;
		r = hall->places[i].error;
	}
	if (r == 0) {
		ret_result->asks_per_s =
			(double)asked * (double)BERTH_NS_PER_S / (double)elapsed_ns;
		ret_result->granted_pct = asked ? 100.0 * (double)granted / (double)asked : 0;
	}
	return r;
}

static int region_play(const struct crowd *crowd, struct hall *hall,
		       struct crowd_result *ret_result)
{
	struct berth_region_spec spec = { .share_name = "bench", .gpu_count = 1, .priority = 1 };
	struct berth_region *region = NULL;

	spec.gpus[0].memory_limit_bytes = crowd->limit_bytes;
	int r = berth_region_join(crowd->region_path, &spec, 0, &region, NULL, NULL);

	if (r < 0)
		return r;
	r = hall_play(crowd, hall, ret_result);
	berth_region_close(region);
	(void)unlink(crowd->region_path); /* made above */
	return r;
}

int crowd_run(const struct crowd *crowd, struct crowd_result *ret_result)
{
	void *memory = mmap(NULL, sizeof(struct hall), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	struct hall *hall = memory;
	hall->limit_bytes = crowd->limit_bytes;
	hall->slot_count = crowd->process_count;
	for (uint32_t i = 0; i < crowd->process_count; i++)
		atomic_init(&hall->slots[i].status, BERTH_STATUS_RUNNING);
	int r = sem_init(&hall->semaphore, 1, 1) < 0 ? -errno : 0;
	if (r == 0)
		r = crowd->strategy == CROWD_LEDGER ? region_play(crowd, hall, ret_result)
						    : hall_play(crowd, hall, ret_result);
	(void)munmap(memory, sizeof *hall);
	return r;
}
