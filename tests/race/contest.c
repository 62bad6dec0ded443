/* SPDX-License-Identifier: Apache-2.0
 *
 * The parent makes the region, forks, opens the barrier, then plays fate. Notes lie in anonymous
 * shared memory, so what the dead noted is kept. Each thread has a log of its own.
 */
#include "contest.h"

#include <errno.h>
#include <pthread.h>
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

enum { HELD_MAX = 4, YIELD_ONE_IN = 4, THREADS_MAX = 16 };

struct arena {
	_Atomic uint32_t ready_count;
	_Atomic uint32_t open;
	struct judge_log logs[];
};

struct game {
	const struct contest *contest;
	struct arena *arena;
	size_t arena_bytes;
	uint32_t thread_count;
	uint32_t process_max;
	uint32_t process_count; /* started so far */
	pid_t *pids;            /* by process, 0 = gone */
	uint32_t living_count;
	struct judge_limit *limits;
	uint32_t limit_count;
	uint64_t random;
	struct contest_result result;
};

/* splitmix64: each thread its own, and all 64 bits are good. */
static uint64_t random_next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ULL;
	uint64_t z = *state;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint64_t size_choose(const struct contest *contest, uint64_t *random)
{
	uint64_t max_bytes = contest->ask_max_bytes;

	if (contest->ask_any_scale) {
		unsigned magnitudes = 64 - (unsigned)__builtin_clzll(max_bytes);

		max_bytes >>= random_next(random) % magnitudes;
	}
	return 1 + random_next(random) % max_bytes;
}

static void refund(struct berth_seat *seat, struct judge_note *note)
{
	note->refund_call_ns = berth_clock_ns();
	berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, note->bytes);
	note->refund_return_ns = berth_clock_ns();
}

static int asks_play(const struct contest *contest, struct berth_seat *seat, struct judge_log *log,
		     uint64_t random)
{
	struct judge_note *held[HELD_MAX];
	uint32_t held_count = 0;

	for (uint32_t i = 0; i < contest->asks_per_thread; i++) {
		struct judge_note *note = &log->notes[i];

		note->bytes = size_choose(contest, &random);
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

struct player {
	const struct contest *contest;
	struct berth_seat *seat;
	struct judge_log *log;
	uint64_t random;
	pthread_t thread;
	int result;
};

static void *player_run(void *arg)
{
	struct player *player = arg;

	player->result = asks_play(player->contest, player->seat, player->log, player->random);
	return NULL;
}

/* The first log is the main thread's. */
static int threads_play(struct game *game, struct berth_seat *seat, struct judge_log *logs)
{
	struct player players[THREADS_MAX];
	uint32_t started = 1;
	int r = 0;

	for (uint32_t i = 0; i < game->thread_count; i++)
		players[i] = (struct player){ .contest = game->contest,
					      .seat = seat,
					      .log = &logs[i],
					      .random = random_next(&game->random) };
	for (; r == 0 && started < game->thread_count; started++)
		r = -pthread_create(&players[started].thread, NULL, player_run, &players[started]);
	if (r < 0)
		return r; /* the process ends, and its threads with it */
	(void)player_run(&players[0]);
	for (uint32_t i = 0; i < started; i++) {
		if (i > 0)
			(void)pthread_join(players[i].thread, NULL); /* it was created above */
		if (players[i].result < 0)
			r = players[i].result;
	}
	return r;
}

static void __attribute__((noreturn)) process_run(struct game *game, struct judge_log *logs)
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
		r = threads_play(game, seat, logs);
	if (r < 0)
		(void)fprintf(stderr, "contest: %s: %s\n", strerror(-r), reason.text);
	berth_seat_leave(seat);
	berth_region_close(region);
	_exit(r < 0 ? 1 : 0);
}

static struct judge_log *logs_of(struct game *game, uint32_t process)
{
	return &game->arena->logs[process * game->thread_count];
}

static int process_start(struct game *game)
{
	struct judge_log *logs = logs_of(game, game->process_count);

	(void)random_next(&game->random); /* each process its own sizes */
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		game->random ^= (uint64_t)game->process_count << 32;
		process_run(game, logs);
	}
	game->pids[game->process_count++] = pid;
	game->living_count++;
	return 0;
}

static int arena_make(struct game *game)
{
	const struct contest *contest = game->contest;

	game->thread_count = contest->thread_count ? contest->thread_count : 1;
	game->process_max = contest->process_count + contest->kill_count;
	size_t log_max = (size_t)game->process_max * game->thread_count;
	size_t head_bytes = sizeof *game->arena + log_max * sizeof(struct judge_log);
	size_t note_bytes = contest->asks_per_thread * sizeof(struct judge_note);
	game->arena_bytes = head_bytes + log_max * note_bytes;
	game->pids = calloc(game->process_max, sizeof *game->pids);
	game->limits = calloc(contest->change_count + 1, sizeof *game->limits);
	void *memory = mmap(NULL, game->arena_bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!game->pids || !game->limits || memory == MAP_FAILED ||
	    game->thread_count > THREADS_MAX) {
		free(game->pids);
		free(game->limits);
		return -ENOMEM;
	}
	game->limits[game->limit_count++].bytes = contest->limit_bytes;
	game->arena = memory;
	for (size_t i = 0; i < log_max; i++) {
		game->arena->logs[i].note_max = contest->asks_per_thread;
		game->arena->logs[i].notes = (void *)((char *)memory + head_bytes + i * note_bytes);
	}
	return 0;
}

static void arena_free(struct game *game)
{
	(void)munmap(game->arena, game->arena_bytes);
	free(game->pids);
	free(game->limits);
}

static void end_note(struct game *game, pid_t pid, int status)
{
	uint64_t now_ns = berth_clock_ns();

	for (uint32_t i = 0; i < game->process_count; i++) {
		if (game->pids[i] != pid)
			continue;
		for (uint32_t t = 0; t < game->thread_count; t++)
			logs_of(game, i)[t].gone_ns = now_ns;
		game->pids[i] = 0;
		game->living_count--;
		if (WIFSIGNALED(status) && logs_of(game, i)->killed_ns)
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
	for (uint32_t i = 0; i < 4 * game->process_count; i++) {
		uint64_t index = random_next(&game->random) % game->process_count;

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
	uint64_t now_ns = berth_clock_ns();
	for (uint32_t t = 0; t < game->thread_count; t++)
		logs_of(game, (uint32_t)victim)[t].killed_ns = now_ns;
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

/* Half of the time down, to between a sixteenth and all of it, half of the time up again. */
static int limit_change(struct game *game, struct berth_region *region)
{
	uint64_t most_bytes = game->contest->limit_bytes;
	uint64_t least_bytes = most_bytes / 16;
	struct judge_limit *limit = &game->limits[game->limit_count];
	struct berth_region_change change = { .gpu_mask = 1, .memory_set = true };
	struct berth_reason reason = { "" };

	change.memory_limit_bytes = most_bytes;
	if (random_next(&game->random) % 2)
		change.memory_limit_bytes =
			least_bytes + random_next(&game->random) % (most_bytes - least_bytes);
	limit->bytes = change.memory_limit_bytes;
	limit->call_ns = berth_clock_ns();
	int r = berth_region_change(region, &change, NULL, NULL, &reason);
	limit->return_ns = berth_clock_ns();
	game->limit_count++;
	if (r < 0)
		(void)fprintf(stderr, "contest: %s: %s\n", strerror(-r), reason.text);
	return r;
}

/* As many of each as are to be, in random order, while anybody is left. */
static int fate_play(struct game *game, struct berth_region *region)
{
	uint64_t kills = game->contest->kill_count;
	uint64_t stops = game->contest->stop_count;
	uint64_t changes = game->contest->change_count;
	int r = 0;

	while (r == 0 && kills + stops + changes && game->living_count) {
		uint64_t what = random_next(&game->random) % (kills + stops + changes);

		berth_sleep_ns(random_next(&game->random) % 2000 * BERTH_NS_PER_US, UINT64_MAX);
		if (what < changes) {
			r = limit_change(game, region);
			changes--;
		} else if (what < changes + stops) {
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
		r = fate_play(game, region);
	ends_collect(game, 0);
	game->result.elapsed_ns = berth_clock_ns() - start_ns;
	file_look(game, region);
	if (r == 0)
		r = judge_decide(game->arena->logs, game->process_count * game->thread_count,
				 &(struct judge_limits){ game->limit_count, game->limits },
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
