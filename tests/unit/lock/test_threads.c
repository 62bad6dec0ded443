/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of one process: they never overlap, in none of the ways, alone or beside other processes; a
 * lock may be given back by another thread than took it, and is then nobody's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "player.h"

enum { THREADS = 8 };

/* Shared by processes. The plain counter loses steps if two are inside at once. */
struct ground {
	_Atomic int inside;
	_Atomic int overlap_count;
	_Atomic int error_count;
	unsigned long step_count;
};

static struct ground *ground;

struct crew {
	struct berth_recordlock *lock;
	int rounds;
};

static void *work(void *arg)
{
	const struct crew *crew = arg;

	for (int i = 0; i < crew->rounds; i++) {
		if (berth_recordlock_take(crew->lock, LONG_MS, NULL) != 0) {
			ground->error_count++;
			continue;
		}
		if (ground->inside++ != 0)
			ground->overlap_count++;
		/* Volatile: read and written as it stands, with a gap for others to fall into. */
		unsigned long step = *(volatile unsigned long *)&ground->step_count;

		for (volatile int gap = 0; gap < 50; gap = gap + 1)
			;
		*(volatile unsigned long *)&ground->step_count = step + 1;
		ground->inside--;
		if (berth_recordlock_give(crew->lock) != 0)
			ground->error_count++;
	}
	return NULL;
}

static void crew_run(const char *path, uint32_t way, int rounds)
{
	struct berth_recordlock *locks[2] = { open_way(path, way, 0), open_way(path, way, 0) };
	struct crew crews[2] = { { locks[0], rounds }, { locks[1], rounds } };
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &crews[i % 2]), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	berth_recordlock_close(locks[0]);
	berth_recordlock_close(locks[1]);
}

static void ground_clear(void)
{
	*ground = (struct ground){ 0 };
}

static void ground_check(unsigned long steps)
{
	assert_int_equal(ground->error_count, 0);
	assert_int_equal(ground->overlap_count, 0);
	assert_int_equal(ground->step_count, steps);
}

static void test_threads(void **state)
{
	const struct field *field = *state;

	for (uint32_t way = BERTH_RECORDLOCK_BLOCK; way <= BERTH_RECORDLOCK_BARE; way++) {
		ground_clear();
		crew_run(field->path, way, 2000);
		ground_check(2000 * THREADS);
	}
}

static void test_threads_and_processes(void **state)
{
	static const uint32_t ways[] = { BERTH_RECORDLOCK_BLOCK, BERTH_RECORDLOCK_BLOCK,
					 BERTH_RECORDLOCK_POLL };
	const struct field *field = *state;
	pid_t children[3];

	ground_clear();
	for (int i = 0; i < 3; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0) {
			/* A poller gets in but 20 times a second where the others leave no gap. */
			crew_run(field->path, ways[i], i == 2 ? 1 : 200);
			_exit(0);
		}
	}
	for (int i = 0; i < 3; i++) {
		int status = 0;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	ground_check(2 * 200 * THREADS + THREADS);
}

struct other {
	struct berth_recordlock *lock;
	int timeout_ms;
	int result;
	struct berth_recordlock_owner owner;
};

static void *other_take(void *arg)
{
	struct other *other = arg;

	other->result = berth_recordlock_take(other->lock, other->timeout_ms, &other->owner);
	return NULL;
}

static void *other_give(void *arg)
{
	struct other *other = arg;

	other->result = berth_recordlock_give(other->lock);
	return NULL;
}

static int in_thread(void *(*body)(void *), struct other *other)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, body, other), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return other->result;
}

static void test_guard(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = open_way(field->path, 0, 0);
	struct other other = { .lock = lock, .timeout_ms = 60 };
	uint64_t before_ns;

	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
	assert_int_equal(berth_recordlock_take(lock, LONG_MS, NULL), -EDEADLK);
	before_ns = berth_clock_ns();
	assert_int_equal(in_thread(other_take, &other), -ETIMEDOUT);
	assert_true(berth_clock_ns() - before_ns >= 60 * BERTH_NS_PER_MS);
	assert_int_equal(other.owner.pid, getpid());
	assert_true(other.owner.start_ticks != 0);
	assert_int_equal(in_thread(other_give, &other), 0);
	assert_int_equal(owner_of(field->path), 0);
	/* Taken by a thread that ends: the next one, on the same stack, is another one. */
	assert_int_equal(in_thread(other_take, &other), 0);
	assert_int_equal(in_thread(other_take, &other), -ETIMEDOUT);
	assert_int_equal(owner_of(field->path), getpid());
	assert_int_equal(berth_recordlock_check(lock), 0);
	assert_int_equal(berth_recordlock_give(lock), 0);
	berth_recordlock_close(lock);
}

/* A thread that waits for its process's own hold is woken by the give. */
static void test_handed_on(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = open_way(field->path, 0, 0);
	struct other other = { .lock = lock, .timeout_ms = LONG_MS };
	pthread_t thread;

	for (int i = 0; i < 100; i++) {
		assert_int_equal(berth_recordlock_take(lock, LONG_MS, NULL), 0);
		assert_int_equal(pthread_create(&thread, NULL, other_take, &other), 0);
		if (i % 2)
			sleep_ms(1);
		assert_int_equal(berth_recordlock_give(lock), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(other.result, 0);
		assert_int_equal(berth_recordlock_give(lock), 0);
	}
	berth_recordlock_close(lock);
}

static void *checker(void *arg)
{
	struct other *other = arg;

	while (ground->inside == 0) {
		int r = berth_recordlock_check(other->lock);

		if (r != 0 && r != 1 && r != -EPERM)
			ground->error_count++;
	}
	return NULL;
}

/* Checks and gives at once: what was given back is not taken again by a check that found it lost. An
 * open-file lock is in the way of this process's record lock, too, so it can be asked about from here. */
static void test_check_beside_give(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = open_way(field->path, 0, 0);
	struct other other = { .lock = lock };
	int fd = open(field->path, O_RDWR | O_CLOEXEC);
	pthread_t threads[2];

	ground_clear();
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, checker, &other), 0);
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(berth_recordlock_take(lock, LONG_MS, NULL), 0);
		(void)close(
			open(field->path, O_RDONLY | O_CLOEXEC)); /* the checkers find it lost */
		assert_int_equal(berth_recordlock_give(lock), 0);
		for (int look = 0; look < 10; look++) {
			struct flock asked = { .l_type = F_WRLCK,
					       .l_start = BERTH_RECORDLOCK_BYTE,
					       .l_len = 1 };

			assert_int_equal(fcntl(fd, F_OFD_GETLK, &asked), 0);
			assert_int_equal(asked.l_type, F_UNLCK);
		}
	}
	ground->inside = 1;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(ground->error_count, 0);
	berth_recordlock_close(lock);
	(void)close(fd);
}

/* Opened and closed by many at once: a surplus descriptor's close would drop the lock that is held. */
static void *opener(void *arg)
{
	for (int i = 0; i < 300; i++) {
		struct berth_recordlock *lock = NULL;

		if (berth_recordlock_open(arg, NULL, &lock) != 0 ||
		    berth_recordlock_take(lock, LONG_MS, NULL) != 0 ||
		    berth_recordlock_check(lock) != 0 || berth_recordlock_give(lock) != 0)
			ground->error_count++;
		berth_recordlock_close(lock);
	}
	return NULL;
}

static void test_opened_at_once(void **state)
{
	struct field *field = *state;
	pthread_t threads[THREADS];

	ground_clear();
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, opener, field->path), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(ground->error_count, 0);
}

/* Cancelled while it waits: the take ends first, and the lock is not lost. */
static void *take_and_end(void *arg)
{
	struct other *other = arg;

	other->result = berth_recordlock_take(other->lock, LONG_MS, NULL);
	pthread_testcancel();
	return NULL;
}

static void test_cancelled(void **state)
{
	const struct field *field = *state;

	for (uint32_t way = BERTH_RECORDLOCK_BLOCK; way <= BERTH_RECORDLOCK_BARE; way++) {
		struct other other = { .lock = open_way(field->path, way, 0), .result = 1 };
		struct player owner;
		pthread_t thread;
		void *ended = NULL;

		player_start(&owner, field->path, way);
		assert_int_equal(player_ask(&owner, 't'), 0);
		assert_int_equal(pthread_create(&thread, NULL, take_and_end, &other), 0);
		sleep_ms(30);
		assert_int_equal(pthread_cancel(thread), 0);
		sleep_ms(30);
		assert_int_equal(player_ask(&owner, 'g'), 0);
		assert_int_equal(pthread_join(thread, &ended), 0);
		assert_ptr_equal(ended, PTHREAD_CANCELED);
		assert_int_equal(other.result, 0);
		assert_int_equal(owner_of(field->path), getpid());
		assert_int_equal(berth_recordlock_give(other.lock), 0);
		player_end(&owner);
		berth_recordlock_close(other.lock);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_threads, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_threads_and_processes, field_setup,
						field_teardown),
		cmocka_unit_test_setup_teardown(test_guard, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_handed_on, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_check_beside_give, field_setup,
						field_teardown),
		cmocka_unit_test_setup_teardown(test_opened_at_once, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_cancelled, field_setup, field_teardown),
	};

	ground = mmap(NULL, sizeof(*ground), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (ground == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
