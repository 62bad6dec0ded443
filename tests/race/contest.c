/* SPDX-License-Identifier: Apache-2.0
 *
 * The parent makes the region, forks, opens the barrier, then plays fate. Notes lie in anonymous
 * shared memory, so what the dead noted is kept.
 */
#include "contest.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "region/ledger.h"

enum { HELD_MAX = 4, YIELD_ONE_IN = 4 };

struct arena {
	_Atomic uint32_t ready_count;
	_Atomic uint32_t open;
	struct judge_log logs[];
};

struct game {
	const struct contest *contest;
	struct arena *arena;
	size_t arena_bytes;
	uint32_t log_max;
	uint32_t log_count;
	pid_t *pids; /* by log, 0 = gone */
	uint32_t living_count;
	uint32_t random;
	struct contest_result result;
};

static uint32_t random_next(uint32_t *state)
{
	*state = *state * 1664525U + 1013904223U;
	return *state >> 8;
}

static void refund(struct berth_seat *seat, struct judge_note *note)
{
	note->refund_call_ns = berth_clock_ns();
	berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, note->bytes);
	note->refund_return_ns = berth_clock_ns();
}

static int asks_play(const struct contest *contest, struct berth_seat *seat, struct judge_log *log,
		     uint32_t random)
{
	struct judge_note *held[HELD_MAX];
	uint32_t held_count = 0;

	for (uint32_t i = 0; i < contest->asks_per_process; i++) {
		struct judge_note *note = &log->notes[i];

		note->bytes = 1 + random_next(&random) % contest->ask_max_bytes;
		note->ask_call_ns = berth_clock_ns();
		__atomic_store_n(&log->note_count, i + 1, __ATOMIC_RELEASE);
		int r = berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, note->bytes);
		uint64_t now_ns = berth_clock_ns();
		if (r == 0)
			note->granted_ns = now_ns;
		else if (r == -ENOMEM)
			note->refused_ns = now_ns;
		else
			return r;
		if (r == 0)
			held[held_count++] = note;
		/* Others run while we hold: without it, each of many processes on few processors
		 * would play alone for its whole time slice. */
		if (random_next(&random) % YIELD_ONE_IN == 0)
			(void)sched_yield(); /* always succeeds */
		while (held_count == HELD_MAX || (held_count && random_next(&random) % 2))
			refund(seat, held[--held_count]);
	}
	while (held_count)
		refund(seat, held[--held_count]);
	return 0;
}

static void __attribute__((noreturn)) process_run(struct game *game, struct judge_log *log)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	struct berth_reason reason = { "" };

	(void)prctl(PR_SET_PDEATHSIG,
		    SIGKILL); /* no process outlives a contest that was broken off */
	int r = berth_region_join(game->contest->region_path, NULL, 0, &region, NULL, &reason);

	if (r == 0)
		r = berth_seat_claim(region, 0, &seat, NULL, &reason);
	atomic_fetch_add(&game->arena->ready_count, 1);
	while (r == 0 && !atomic_load(&game->arena->open))
		berth_sleep_ns(BERTH_NS_PER_MS, UINT64_MAX);
	if (r == 0)
		r = asks_play(game->contest, seat, log, game->random);
	if (r < 0)
		(void)fprintf(stderr, "contest: %s: %s\n", strerror(-r), reason.text);
	berth_seat_leave(seat);
	berth_region_close(region);
	_exit(r < 0 ? 1 : 0);
}

static int process_start(struct game *game)
{
	struct judge_log *log = &game->arena->logs[game->log_count];

	(void)random_next(&game->random); /* each process its own sizes */
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		process_run(game, log);
	game->pids[game->log_count++] = pid;
	game->living_count++;
	return 0;
}

static int arena_make(struct game *game)
{
	const struct contest *contest = game->contest;

	game->log_max = contest->process_count + contest->kill_count;
	size_t head_bytes = sizeof *game->arena + game->log_max * sizeof(struct judge_log);
	size_t note_bytes = contest->asks_per_process * sizeof(struct judge_note);
	game->arena_bytes = head_bytes + game->log_max * note_bytes;
	game->pids = calloc(game->log_max, sizeof *game->pids);
	void *memory = mmap(NULL, game->arena_bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!game->pids || memory == MAP_FAILED) {
		free(game->pids);
		return -ENOMEM;
	}
	game->arena = memory;
	for (uint32_t i = 0; i < game->log_max; i++) {
		game->arena->logs[i].note_max = contest->asks_per_process;
		game->arena->logs[i].notes = (void *)((char *)memory + head_bytes + i * note_bytes);
	}
	return 0;
}

static void arena_free(struct game *game)
{
	(void)munmap(game->arena, game->arena_bytes);
	free(game->pids);
}

static void end_note(struct game *game, pid_t pid, int status)
{
	for (uint32_t i = 0; i < game->log_count; i++) {
		if (game->pids[i] != pid)
			continue;
		game->arena->logs[i].gone_ns = berth_clock_ns();
		game->pids[i] = 0;
		game->living_count--;
		if (WIFSIGNALED(status) && game->arena->logs[i].killed_ns)
			game->result.killed_count++;
		else if (status != 0)
			game->result.failed_count++;
	}
}

static void ends_collect(struct game *game, int options)
{
	int status = 0;
	pid_t pid = waitpid(-1, &status, options);

	while (pid > 0) {
		end_note(game, pid, status);
		pid = game->living_count ? waitpid(-1, &status, options) : 0;
	}
}

/* A living one, at random; -1 if there is none. */
static int victim_choose(struct game *game)
{
	for (uint32_t i = 0; i < 4 * game->log_count; i++) {
		uint32_t index = random_next(&game->random) % game->log_count;

		if (game->pids[index])
			return (int)index;
	}
	return -1;
}

static int kill_one(struct game *game)
{
	int victim = victim_choose(game);
	int status = 0;

	if (victim < 0)
		return 0;
	pid_t pid = game->pids[victim];
	game->arena->logs[victim].killed_ns = berth_clock_ns();
	(void)kill(pid, SIGKILL); /* it is our child, not yet waited for */
	(void)waitpid(pid, &status, 0);
	end_note(game, pid, status);
	return process_start(game);
}

static void stop_one(struct game *game)
{
	int victim = victim_choose(game);

	if (victim < 0)
		return;
	(void)kill(game->pids[victim], SIGSTOP);
	berth_sleep_ns((1 + random_next(&game->random) % 5) * BERTH_NS_PER_MS, UINT64_MAX);
	(void)kill(game->pids[victim], SIGCONT);
}

static int fate_play(struct game *game)
{
	uint32_t kills = game->contest->kill_count;
	uint32_t stops = game->contest->stop_count;
	int r = 0;

	while (r == 0 && (kills || stops) && game->living_count) {
		berth_sleep_ns(random_next(&game->random) % 2000 * BERTH_NS_PER_US, UINT64_MAX);
		if (stops && (!kills || random_next(&game->random) % 2)) {
			stop_one(game);
			stops--;
		} else {
			r = kill_one(game);
			kills--;
		}
		ends_collect(game, WNOHANG);
	}
	return r;
}

static void file_look(struct game *game, struct berth_region *region)
{
	struct berth_ledger_room room = { 0 };
	struct berth_reason reason = { "" };

	if (berth_region_check(region, &reason) < 0)
		memcpy(game->result.broken, reason.text, sizeof reason.text);
	if (berth_ledger_room(region, 0, &room) < 0)
		room.charged_bytes = UINT64_MAX;
	game->result.left_charged_bytes = room.charged_bytes;
}

static int game_play(struct game *game, struct berth_region *region)
{
	const struct contest *contest = game->contest;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < contest->process_count; i++)
		r = process_start(game);
	while (r == 0 && atomic_load(&game->arena->ready_count) < contest->process_count)
		berth_sleep_ns(BERTH_NS_PER_MS, UINT64_MAX);
	uint64_t start_ns = berth_clock_ns();
	atomic_store(&game->arena->open, 1);
	if (r == 0)
		r = fate_play(game);
	ends_collect(game, 0);
	game->result.elapsed_ns = berth_clock_ns() - start_ns;
	file_look(game, region);
	if (r == 0)
		r = judge_decide(game->arena->logs, game->log_count, contest->limit_bytes,
				 &game->result.verdict);
	return r;
}

int contest_run(const struct contest *contest, struct contest_result *ret_result)
{
	struct berth_region_spec spec = { .share_name = "contest", .gpu_count = 1, .priority = 1 };
	struct game game = { .contest = contest, .random = contest->seed };
	struct berth_region *region = NULL;
	struct berth_reason reason = { "" };

	memcpy(spec.gpus[0].uuid, "GPU-contest", sizeof "GPU-contest");
	spec.gpus[0].memory_limit_bytes = contest->limit_bytes;
	int r = berth_region_join(contest->region_path, &spec, 0, &region, NULL, &reason);
	if (r < 0) {
		(void)fprintf(stderr, "contest: %s\n", reason.text);
		return r;
	}
	r = arena_make(&game);
	if (r == 0) {
		r = game_play(&game, region);
		arena_free(&game);
	}
	berth_region_close(region);
	(void)unlink(contest->region_path); /* made above */
	if (r == 0)
		*ret_result = game.result;
	return r;
}
