/* SPDX-License-Identifier: Apache-2.0
 *
 * See device_time.h. Lock order: this process's mutex of the GPU, then the shared word. The node's
 * state lock is never taken with the word held, only while waiting for it.
 */
#include "sim/node/device_time.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "sim/node/node.h"
#include "sim/node/timeline.h"

#define SPINS             64U
#define LOOK_AT_HOLDER_NS 2000000U
#define SWEEP_NS          20000000U
#define SLEEP_AT_LEAST_NS 80000U
#define PPM               1000000U

static struct device_time {
	pthread_mutex_t lock[SIM_GPU_MAX];
	_Atomic uint64_t generation; /* of this process; 0: not open */
	uint64_t scale_ppm;
} time_ = {
	.lock = { [0 ... SIM_GPU_MAX - 1] = PTHREAD_MUTEX_INITIALIZER },
	.scale_ppm = PPM,
};

static uint64_t real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec left = {
		.tv_sec = (time_t)(ns / 1000000000U),
		.tv_nsec = (long)(ns % 1000000000U),
	};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &left, NULL);
}

/* A fork child is another process: it has no row yet, and no other thread holds a mutex in it. */
static void forked(void)
{
	for (unsigned gpu = 0; gpu < SIM_GPU_MAX; gpu++)
		pthread_mutex_init(&time_.lock[gpu], NULL);
	atomic_store(&time_.generation, 0);
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, forked);
}

int sim_time_parse_scale(const char *text, uint64_t *ret_ppm)
{
	uint64_t ppm = 0;
	uint64_t unit = PPM;
	bool point = false;
	bool digits = false;

	for (; *text; text++) {
		if (*text == '.' && !point) {
			point = true;
			continue;
		}
		if (*text < '0' || *text > '9')
			return -EINVAL;
		digits = true;
		if (point) {
			unit /= 10;
			ppm += unit * (uint64_t)(*text - '0');
		} else {
			ppm = ppm * 10 + PPM * (uint64_t)(*text - '0');
		}
		if (ppm > 1000ULL * PPM)
			return -EINVAL;
	}
	if (!digits)
		return -EINVAL;
	*ret_ppm = ppm;
	return 0;
}

int sim_time_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *scale = getenv("BERTH_SIM_TIME_SCALE");
	int err;

	if (atomic_load(&time_.generation))
		return 0;
	if (scale && *scale && sim_time_parse_scale(scale, &time_.scale_ppm) != 0) {
		sim_complain("BERTH_SIM_TIME_SCALE=%s: must be a decimal from 0 to 1000", scale);
		return -EINVAL;
	}
	err = sim_node_claim();
	if (err)
		return err;
	pthread_once(&once, register_fork);
	atomic_store(&time_.generation,
		     atomic_load(&sim_node()->processes[sim_node_row()].generation));
	return 0;
}

static bool is_row_alive(unsigned row, uint64_t generation)
{
	const struct sim_process *process = &sim_node()->processes[row];

	return atomic_load(&process->is_claimed) && atomic_load(&process->generation) == generation;
}

static bool is_alive(uint64_t generation)
{
	unsigned rows;

	sim_node_sweep();
	rows = atomic_load(&sim_node()->row_high_water);
	for (unsigned row = 0; row < rows; row++) {
		if (is_row_alive(row, generation))
			return true;
	}
	return false;
}

static bool try_lock(struct sim_timeline *line, uint64_t from, uint64_t mine)
{
	/* acquire: pairs with the release in unlock */
	return atomic_compare_exchange_strong_explicit(&line->clock.holder, &from, mine,
						       memory_order_acquire, memory_order_relaxed);
}

/* Somebody else holds it: mostly for less than a microsecond, sometimes off the processor. */
static void lock_slowly(struct sim_timeline *line, uint64_t mine)
{
	uint64_t look_ns = real_ns() + LOOK_AT_HOLDER_NS;

	for (unsigned spins = 0; !try_lock(line, 0, mine); spins++) {
		uint64_t holder;

		if (spins < SPINS)
			continue;
		sched_yield();
		if (real_ns() < look_ns)
			continue;
		holder = atomic_load(&line->clock.holder);
		if (holder && !is_alive(holder) && try_lock(line, holder, mine)) {
			sim_timeline_repair(line);
			return;
		}
		look_ns = real_ns() + LOOK_AT_HOLDER_NS;
	}
}

static uint64_t device_now(struct sim_timeline *line)
{
	struct sim_timeline_clock *clock = &line->clock;
	uint64_t real = real_ns();
	__extension__ unsigned __int128 passed;

	if (!clock->epoch_ns) {
		clock->scale_ppm = time_.scale_ppm;
		clock->epoch_ns = real;
	}
	/* With a scale of 0 idle time still passes, one for one. */
	passed = real > clock->epoch_ns ? real - clock->epoch_ns : 0;
	passed = passed * PPM / (clock->scale_ppm ? clock->scale_ppm : PPM);
	return (uint64_t)passed + clock->skew_ns;
}

/* What the dead had queued is gone, and its slices go to the others. */
static void drop_the_dead(struct sim_timeline *line)
{
	uint32_t i = 0;

	while (i < line->active_count) {
		uint16_t row = line->active[i];

		if (is_row_alive(row, line->seats[row].generation))
			i++;
		else
			sim_timeline_seat_reset(line, row);
	}
}

/* The timeline, locked and worked out up to now. */
static struct sim_timeline *lock(unsigned gpu)
{
	struct sim_timeline *line = sim_node_timeline(gpu);
	uint64_t mine = atomic_load_explicit(&time_.generation, memory_order_relaxed);

	pthread_mutex_lock(&time_.lock[gpu]);
	if (!try_lock(line, 0, mine))
		lock_slowly(line, mine);
	drop_the_dead(line);
	sim_timeline_advance(line, device_now(line));
	return line;
}

static void unlock(unsigned gpu, struct sim_timeline *line)
{
	atomic_store_explicit(&line->clock.holder, 0, memory_order_release);
	pthread_mutex_unlock(&time_.lock[gpu]);
}

/* This process's seat; its predecessor's is emptied first. */
static uint32_t own_seat_locked(struct sim_timeline *line)
{
	uint32_t row = (uint32_t)sim_node_row();
	uint64_t mine = atomic_load_explicit(&time_.generation, memory_order_relaxed);

	if (line->seats[row].generation != mine) {
		sim_timeline_seat_reset(line, row);
		line->seats[row].generation = mine;
	}
	return row;
}

uint64_t sim_time_now(unsigned gpu)
{
	struct sim_timeline *line = lock(gpu);
	uint64_t now = line->now_ns;

	unlock(gpu, line);
	return now;
}

uint64_t sim_time_submit(unsigned gpu, uint64_t cost_ns, uint64_t *ret_now)
{
	struct sim_timeline *line = lock(gpu);
	uint32_t seat = own_seat_locked(line);
	uint64_t mark = sim_timeline_submit(line, seat, cost_ns);

	*ret_now = line->now_ns;
	if (line->clock.scale_ppm == 0) {
		sim_timeline_run_to(line, seat, mark);
		line->clock.skew_ns += line->now_ns - *ret_now;
	}
	unlock(gpu, line);
	return mark;
}

bool sim_time_done(unsigned gpu, uint64_t mark, uint64_t *ret_when)
{
	struct sim_timeline *line = lock(gpu);
	uint32_t seat = own_seat_locked(line);
	bool done = sim_timeline_done(line, seat, mark);

	if (done)
		*ret_when = sim_timeline_when(line, seat, mark);
	unlock(gpu, line);
	return done;
}

/* How long it pays to sleep: until done if nobody else wanted the GPU any more. */
static uint64_t real_wait(unsigned gpu, uint64_t mark, bool *ret_is_shared)
{
	struct sim_timeline *line = lock(gpu);
	__extension__ unsigned __int128 wait =
		sim_timeline_least_wait(line, own_seat_locked(line), mark);

	wait = wait * line->clock.scale_ppm / PPM;
	*ret_is_shared = line->active_count > 1;
	unlock(gpu, line);
	return (uint64_t)wait;
}

uint64_t sim_time_wait(unsigned gpu, uint64_t mark)
{
	uint64_t sweep_ns = real_ns() + SWEEP_NS;
	uint64_t when;

	while (!sim_time_done(gpu, mark, &when)) {
		bool is_shared;
		uint64_t wait_ns = real_wait(gpu, mark, &is_shared);

		if (is_shared && wait_ns > SWEEP_NS)
			wait_ns = SWEEP_NS;
		if (wait_ns > SLEEP_AT_LEAST_NS)
			sleep_ns(wait_ns - SLEEP_AT_LEAST_NS / 2);
		else
			sched_yield();
		if (is_shared && real_ns() > sweep_ns) {
			sim_node_sweep();
			sweep_ns = real_ns() + SWEEP_NS;
		}
	}
	return when;
}

/* A monitor that looks at a GPU nobody used yet must not fix the scale for those who will. */
static bool is_started(unsigned gpu)
{
	return __atomic_load_n(&sim_node_timeline(gpu)->clock.epoch_ns, __ATOMIC_RELAXED) != 0;
}

uint32_t sim_time_use_pct(unsigned gpu, uint64_t window_ns)
{
	struct sim_timeline *line;
	uint32_t pct;

	if (!is_started(gpu))
		return 0;
	sim_node_sweep();
	line = lock(gpu);
	pct = sim_timeline_use_pct(line, window_ns);
	unlock(gpu, line);
	return pct;
}

uint32_t sim_time_process_use_pct(unsigned gpu, unsigned row, uint64_t window_ns)
{
	struct sim_timeline *line;
	uint32_t pct = 0;

	if (!is_started(gpu))
		return 0;
	sim_node_sweep();
	line = lock(gpu);
	if (is_row_alive(row, line->seats[row].generation))
		pct = sim_timeline_seat_use_pct(line, row, window_ns);
	unlock(gpu, line);
	return pct;
}
