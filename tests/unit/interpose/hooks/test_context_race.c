/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts made and ended by 64 threads at once: each is charged exactly once, and nothing is left.
 * ROUNDS=1000 in the environment for the long form (100 by default).
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "scene.h"

enum { THREADS = 64 };

static pthread_barrier_t barrier;
static _Atomic unsigned wrong_count;

/* What each thread does in a round: three steps, with a look at the books after each. */
struct play {
	void (*steps[3])(unsigned thread);
	uint64_t booked_bytes[3];
};

static const struct play *play;
static unsigned round_count;

static void meet(void)
{
	(void)pthread_barrier_wait(&barrier);
}

static void check_booked(unsigned round, unsigned step)
{
	uint64_t booked = scene_booked(0);

	if (booked == play->booked_bytes[step])
		return;
	wrong_count++;
	dprintf(2, "round %u, step %u: %llu bytes are booked\n", round, step,
		(unsigned long long)booked);
}

static void *player(void *arg)
{
	unsigned thread = (unsigned)(uintptr_t)arg;

	for (unsigned round = 0; round < round_count && !wrong_count; round++) {
		for (unsigned step = 0; step < 3; step++) {
			meet();
			play->steps[step](thread);
			meet();
			if (thread == 0)
				check_booked(round, step);
		}
		meet();
	}
	return NULL;
}

static void must(CUresult res)
{
	if (res != CUDA_SUCCESS && !wrong_count++)
		dprintf(2, "a call failed: %d\n", (int)res);
}

static int run_play(const struct play *of)
{
	pthread_t threads[THREADS];

	play = of;
	CHILD_CHECK(!pthread_barrier_init(&barrier, NULL, THREADS));
	for (unsigned i = 0; i < THREADS; i++)
		CHILD_CHECK(!pthread_create(&threads[i], NULL, player, (void *)(uintptr_t)i));
	for (unsigned i = 0; i < THREADS; i++)
		CHILD_CHECK(!pthread_join(threads[i], NULL));
	CHILD_CHECK(!wrong_count);
	return 0;
}

static int play_scene(const struct play *of)
{
	CHILD_CHECK(!scene_load());
	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS);
	return run_play(of);
}

static _Thread_local CUcontext context;
static _Thread_local CUdeviceptr block;

static void nothing(unsigned thread)
{
	(void)thread;
}

static void retain(unsigned thread)
{
	(void)thread;
	must(cuda.cuDevicePrimaryCtxRetain(&context, 0));
}

static void release(unsigned thread)
{
	(void)thread;
	must(cuda.cuDevicePrimaryCtxRelease_v2(0));
}

static int retain_body(void)
{
	static const struct play retains = { { retain, release, nothing }, { 100 * MIB, 0, 0 } };

	return play_scene(&retains);
}

/* A19 */
static void threads_that_retain_at_once_charge_once(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G",
				   .context_bytes = "100M",
				   .faults = "cuDevicePrimaryCtxRetain:linger=2ms",
				   .body = retain_body });
}

/* A library's lazy start in every thread: no step waits for the others. */
static void lazy_alloc(unsigned thread)
{
	must(cuda.cuInit(0));
	retain(thread);
	must(cuda.cuCtxSetCurrent(context));
	must(cuda.cuMemAlloc_v2(&block, MIB));
}

static void free_block(unsigned thread)
{
	(void)thread;
	must(cuda.cuMemFree_v2(block));
}

static int lazy_body(void)
{
	static const struct play lazy = { { lazy_alloc, free_block, release },
					  { 164 * MIB, 100 * MIB, 0 } };

	CHILD_CHECK(!scene_load());
	return run_play(&lazy);
}

static void a_lazy_start_in_each_thread_charges_one_context_and_each_block(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G",
				   .context_bytes = "100M",
				   .faults = "cuDevicePrimaryCtxRetain:linger=2ms",
				   .body = lazy_body });
}

static void create(unsigned thread)
{
	(void)thread;
	must(cuda.cuCtxCreate_v2(&context, 0, 0));
}

static void destroy(unsigned thread)
{
	(void)thread;
	must(cuda.cuCtxDestroy_v2(context));
}

static void destroy_half(unsigned thread)
{
	if (thread % 2)
		destroy(thread);
}

static void destroy_rest(unsigned thread)
{
	if (thread % 2 == 0)
		destroy(thread);
}

static int create_body(void)
{
	static const struct play creates = { { create, destroy_half, destroy_rest },
					     { 640 * MIB, 320 * MIB, 0 } };

	return play_scene(&creates);
}

static void contexts_that_are_made_at_once_are_each_charged_what_they_take(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G",
				   .context_bytes = "10M",
				   .faults = "cuCtxCreate_v2:linger=50us",
				   .body = create_body });
}

/* What one releases may be what the other is about to retain. */
static void retain_release_retain(unsigned thread)
{
	for (int i = 0; i < 3; i++) {
		retain(thread);
		release(thread);
	}
	if (thread == 0)
		retain(thread);
}

static void release_one(unsigned thread)
{
	if (thread == 0)
		release(thread);
}

static int ping_pong_body(void)
{
	static const struct play ping_pong = { { retain_release_retain, release_one, nothing },
					       { 100 * MIB, 0, 0 } };

	return play_scene(&ping_pong);
}

static void releases_among_retains_leave_the_charge_of_the_one_that_lives(void **state)
{
	(void)state;
	scene_run(
		&(struct scene){ .limit = "1G", .context_bytes = "100M", .body = ping_pong_body });
}

/* One in eight resets what the others hold or are about to make: at the end nobody has anything. */
static void retain_or_reset(unsigned thread)
{
	if (thread % 8 == 0)
		must(cuda.cuDevicePrimaryCtxReset_v2(0));
	else
		retain(thread);
}

static void reset(unsigned thread)
{
	if (thread == 0)
		must(cuda.cuDevicePrimaryCtxReset_v2(0));
}

static void retain_one(unsigned thread)
{
	if (thread == 0)
		retain(thread);
}

static void release_all(unsigned thread)
{
	if (thread == 0) {
		while (cuda.cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS)
			;
	}
}

static void reset_among(unsigned thread)
{
	retain_or_reset(thread);
	meet();
	release_all(thread);
	meet();
	reset(thread);
}

static int reset_body(void)
{
	static const struct play resets = { { reset_among, retain_one, release_all },
					    { 0, 100 * MIB, 0 } };

	return play_scene(&resets);
}

static void after_resets_among_retains_nothing_is_left_and_the_next_is_charged(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .context_bytes = "100M", .body = reset_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_that_retain_at_once_charge_once),
		cmocka_unit_test(a_lazy_start_in_each_thread_charges_one_context_and_each_block),
		cmocka_unit_test(contexts_that_are_made_at_once_are_each_charged_what_they_take),
		cmocka_unit_test(releases_among_retains_leave_the_charge_of_the_one_that_lives),
		cmocka_unit_test(
			after_resets_among_retains_nothing_is_left_and_the_next_is_charged),
	};

	round_count = getenv("ROUNDS") ? (unsigned)strtoul(getenv("ROUNDS"), NULL, 10) : 100;
	return cmocka_run_group_tests_name("hooks: contexts of many threads", tests, NULL, NULL);
}
