/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded retry, clocks and sleeps. The delays are taken down by a stand-in for the sleep, so no test
 * here depends on how fast the machine is.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/retry.h"

#define CALLS_MAX 16

struct scene {
	int results[CALLS_MAX]; /* of each call */
	unsigned stop_after;    /* stop() says yes after that many calls; 0 = never */
	unsigned call_count;
	unsigned stop_count;
	unsigned sleep_count;
	uint64_t delays_ns[CALLS_MAX];
};

static int scene_call(void *arg)
{
	struct scene *scene = arg;

	assert_true(scene->call_count < CALLS_MAX);
	return scene->results[scene->call_count++];
}

static bool scene_stop(void *arg)
{
	struct scene *scene = arg;

	/* Asked once after each call, before its sleep. */
	assert_int_equal(++scene->stop_count, scene->call_count);
	assert_int_equal(scene->sleep_count, scene->call_count - 1);
	return scene->stop_after != 0 && scene->call_count >= scene->stop_after;
}

static void scene_sleep(uint64_t ns, void *arg)
{
	struct scene *scene = arg;

	scene->delays_ns[scene->sleep_count++] = ns;
}

static int scene_run(struct scene *scene, uint64_t first_delay_ns, uint64_t max_delay_ns)
{
	const struct berth_retry retry = {
		.first_delay_ns = first_delay_ns,
		.max_delay_ns = max_delay_ns,
		.call = scene_call,
		.stop = scene_stop,
		.sleep = scene_sleep,
		.arg = scene,
	};

	return berth_retry_run(&retry);
}

static void test_success_at_once(void **state)
{
	struct scene scene = { .results = { 0 } };

	(void)state;
	assert_int_equal(scene_run(&scene, 0, 0), 0);
	assert_int_equal(scene.call_count, 1);
	assert_int_equal(scene.stop_count, 0);
	assert_int_equal(scene.sleep_count, 0);
}

static void test_success_later(void **state)
{
	struct scene scene = { .results = { -EBUSY, -EAGAIN, -EBUSY, 0 } };

	(void)state;
	assert_int_equal(scene_run(&scene, 0, 0), 0);
	assert_int_equal(scene.call_count, 4);
	assert_int_equal(scene.sleep_count, 3);
}

static void test_error_before_the_last(void **state)
{
	struct scene scene = { .results = { -EBUSY, -EPERM, -ETIMEDOUT }, .stop_after = 3 };

	(void)state;
	assert_int_equal(scene_run(&scene, 0, 0), -EPERM);
	assert_int_equal(scene.call_count, 3);
	assert_int_equal(scene.sleep_count, 2);
}

static void test_only_error(void **state)
{
	struct scene scene = { .results = { -ETIMEDOUT }, .stop_after = 1 };
	const struct berth_retry retry = { .call = scene_call, .arg = &scene };

	(void)state;
	assert_int_equal(scene_run(&scene, 0, 0), -ETIMEDOUT);
	assert_int_equal(scene.sleep_count, 0);

	/* Without a stop there is no second call. */
	scene = (struct scene){ .results = { -EIO, 0 } };
	assert_int_equal(berth_retry_run(&retry), -EIO);
	assert_int_equal(scene.call_count, 1);
}

static void delays_check(uint64_t first_ns, uint64_t max_ns, const uint64_t *expected,
			 unsigned count)
{
	struct scene scene = { .stop_after = count + 1 };

	for (unsigned i = 0; i <= count; i++)
		scene.results[i] = -EBUSY;
	assert_int_equal(scene_run(&scene, first_ns, max_ns), -EBUSY);
	assert_int_equal(scene.sleep_count, count);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(scene.delays_ns[i], expected[i]);
}

static void test_delays(void **state)
{
	static const uint64_t fixed[] = { 50000000, 50000000, 50000000, 50000000 };
	static const uint64_t own[] = { 7, 7, 7 };
	static const uint64_t doubled[] = { 10, 20, 40, 50, 50, 50 };
	static const uint64_t from_default[] = { 50000000, 100000000, 120000000, 120000000 };
	static const uint64_t exact[] = { 10, 20, 40, 80, 80 };
	static const uint64_t huge[] = { UINT64_MAX / 2 + 9, UINT64_MAX, UINT64_MAX };

	(void)state;
	delays_check(0, 0, fixed, 4);
	delays_check(7, 0, own, 3);
	delays_check(10, 50, doubled, 6);
	delays_check(0, 120000000, from_default, 4);
	delays_check(10, 80, exact, 5);
	delays_check(UINT64_MAX / 2 + 9, UINT64_MAX, huge, 3);
	/* A maximum below the first delay can't shorten it. */
	delays_check(7, 3, own, 3);
}

static bool never_stop(void *arg)
{
	(void)arg;
	return false;
}

/* Without a sleep of the caller's the helper really waits between the calls. */
static void test_real_sleep(void **state)
{
	struct scene scene = { .results = { -EBUSY, -EBUSY, 0 } };
	const struct berth_retry retry = {
		.first_delay_ns = 2 * BERTH_NS_PER_MS,
		.call = scene_call,
		.stop = never_stop,
		.arg = &scene,
	};
	uint64_t start_ns = berth_clock_ns();

	(void)state;
	assert_int_equal(berth_retry_run(&retry), 0);
	assert_int_equal(scene.call_count, 3);
	assert_true(berth_clock_ns() - start_ns >= 4 * BERTH_NS_PER_MS);
}

static void test_deadlines(void **state)
{
	uint64_t now_ns = berth_clock_ns();

	(void)state;
	assert_true(berth_deadline_passed(BERTH_DEADLINE_NOW));
	assert_int_equal(berth_deadline_left_ns(BERTH_DEADLINE_NOW), 0);
	assert_int_equal(berth_deadline_after(UINT64_MAX), UINT64_MAX);
	assert_false(berth_deadline_passed(UINT64_MAX));
	assert_false(berth_deadline_passed(berth_deadline_after(3600 * BERTH_NS_PER_S)));
	assert_true(berth_deadline_left_ns(berth_deadline_after(3600 * BERTH_NS_PER_S)) <=
		    3600 * BERTH_NS_PER_S);
	/* It counts suspended time too. */
	assert_true(berth_clock_boot_ns() >= now_ns);
}

static volatile sig_atomic_t alarm_count;

static void on_alarm(int signal)
{
	(void)signal;
	alarm_count++;
}

static void test_sleep_outlasts_signals(void **state)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct sigaction before;
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	uint64_t start_ns = berth_clock_ns();

	(void)state;
	alarm_count = 0;
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	errno = ENOTTY;
	berth_sleep_ns(100 * BERTH_NS_PER_MS, UINT64_MAX);
	assert_int_equal(errno, ENOTTY);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	assert_true(berth_clock_ns() - start_ns >= 100 * BERTH_NS_PER_MS);
	assert_true(alarm_count > 0);
}

static void test_sleep_ends_at_the_deadline(void **state)
{
	uint64_t start_ns = berth_clock_ns();

	(void)state;
	berth_sleep_ns(3600 * BERTH_NS_PER_S, start_ns + 5 * BERTH_NS_PER_MS);
	assert_true(berth_clock_ns() - start_ns >= 5 * BERTH_NS_PER_MS);
	/* A passed one: no sleep (the watchdog would tell). */
	berth_sleep_ns(3600 * BERTH_NS_PER_S, BERTH_DEADLINE_NOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_success_at_once),
		cmocka_unit_test(test_success_later),
		cmocka_unit_test(test_error_before_the_last),
		cmocka_unit_test(test_only_error),
		cmocka_unit_test(test_delays),
		cmocka_unit_test(test_real_sleep),
		cmocka_unit_test(test_deadlines),
		cmocka_unit_test(test_sleep_outlasts_signals),
		cmocka_unit_test(test_sleep_ends_at_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
