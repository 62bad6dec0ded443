/* SPDX-License-Identifier: Apache-2.0
 *
 * Attach: each outcome, threads that come at once, and children by fork, vfork and bare clone.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "region/snapshot.h"
#include "share.h"

static void run(int (*body)(void *), struct child_result *ret_result)
{
	child_run_ok(body, NULL, ret_result);
}

static int passive_body(void *arg)
{
	(void)arg;
	CHILD_CHECK(berth_account_state() == BERTH_ACCOUNT_UNDECIDED);
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_PASSIVE);
	CHILD_CHECK(berth_account_state() == BERTH_ACCOUNT_PASSIVE);
	CHILD_CHECK(!berth_account_region());
	CHILD_CHECK(share_list_count == 0);
	return 0;
}

static void without_configuration_it_is_passive_and_asks_nothing(void **state)
{
	struct child_result result;

	(void)state;
	run(passive_body, &result);
	assert_int_equal(result.error_bytes, 0);
}

static int attached_body(void)
{
	CHILD_CHECK(berth_account_gpu_find(share_uuid0) == 0);
	CHILD_CHECK(berth_account_gpu_find(share_uuid1) == 1);
	CHILD_CHECK(berth_account_gpu_find("GPU-nobody") == -ENODEV);
	CHILD_CHECK(berth_account_gpu_limited(0) && berth_account_gpu_limited(1));
	CHILD_CHECK(!berth_account_gpu_limited(-ENODEV));
	CHILD_CHECK(!berth_account_ask(0, BERTH_CHARGE_DATA, 600 * MIB));
	errno = 77;
	CHILD_CHECK(berth_account_ask(0, BERTH_CHARGE_DATA, 600 * MIB) == -ENOMEM);
	CHILD_CHECK(errno == 77);
	CHILD_CHECK(!berth_account_ask(1, BERTH_CHARGE_DATA, 1024 * MIB));
	CHILD_CHECK(berth_account_ask(-ENODEV, BERTH_CHARGE_DATA, 1) == -ENODEV);
	CHILD_CHECK(share_charged(0) == 600 * MIB && share_charged(1) == 1024 * MIB);
	berth_account_refund(0, BERTH_CHARGE_DATA, 600 * MIB);
	CHILD_CHECK(share_charged(0) == 0);
	return 0;
}

static void with_a_limit_it_attaches_and_the_limit_holds_per_gpu(void **state)
{
	(void)state;
	share_run("1G", attached_body);
}

static int bad_limit_body(void *arg)
{
	(void)arg;
	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT", "-1", 1));
	errno = 42;
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_REFUSED);
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_REFUSED);
	CHILD_CHECK(errno == 42);
	CHILD_CHECK(berth_account_error() == -EINVAL);
	CHILD_CHECK(!berth_account_region());
	return 0;
}

static void an_unreadable_limit_is_refused_once_in_one_line_by_name(void **state)
{
	struct child_result result;

	(void)state;
	run(bad_limit_body, &result);
	assert_non_null(strstr(result.error, "CUDA_DEVICE_MEMORY_LIMIT"));
	assert_ptr_equal(strchr(result.error, '\n'), result.error + result.error_bytes - 1);
}

static int absent_region_body(void *arg)
{
	(void)arg;
	CHILD_CHECK(!setenv("BERTH_REGION", "/tmp/berth-there-is-no-such-region.cache", 1));
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_REFUSED);
	CHILD_CHECK(access("/tmp/berth-there-is-no-such-region.cache", F_OK));
	CHILD_CHECK(share_list_count == 0);
	return 0;
}

static void a_region_to_join_is_never_created_and_needs_no_list(void **state)
{
	struct child_result result;

	(void)state;
	run(absent_region_body, &result);
	assert_non_null(strstr(result.error, "/tmp/berth-there-is-no-such-region.cache"));
}

/* The environment that `berth run -m 1G` gives, in a share whose limits were changed since or not. */
struct ordered {
	uint64_t changed_bytes; /* 0 = they weren't */
	const char *plain;      /* another limit, that nobody stamped; NULL = none */
	uint64_t in_force_bytes;
};

static struct berth_region *ordered_region(const struct ordered *ordered, const char *path)
{
	struct berth_region_spec spec = { .share_name = "x", .gpu_count = 2, .priority = 1 };
	struct berth_region_change change = { .gpu_mask = 3,
					      .memory_set = true,
					      .memory_limit_bytes = ordered->changed_bytes };
	struct berth_region *region = NULL;
	struct berth_reason reason = { 0 };
	char text[192];

	strcpy(spec.gpus[0].uuid, share_uuid0);
	strcpy(spec.gpus[1].uuid, share_uuid1);
	spec.gpus[0].memory_limit_bytes = spec.gpus[1].memory_limit_bytes = 1024 * MIB;
	if (berth_region_join(path, &spec, 0, &region, NULL, &reason))
		return NULL;
	(void)snprintf(text, sizeof text, "%llu", (unsigned long long)berth_region_stamp(region));
	if (setenv("BERTH_LIMITS_STAMP", text, 1))
		return NULL;
	(void)snprintf(text, sizeof text, "%s=1G,%s=1G", share_uuid0, share_uuid1);
	if (setenv("BERTH_REGION", path, 1) || setenv("BERTH_MEMORY_LIMITS", text, 1) ||
	    (ordered->plain && setenv("CUDA_DEVICE_MEMORY_LIMIT", ordered->plain, 1)))
		return NULL;
	if (ordered->changed_bytes && berth_region_change(region, &change, NULL, NULL, &reason))
		return NULL;
	return region;
}

static int ordered_body(void *arg)
{
	const struct ordered *ordered = arg;
	struct berth_region_gpu gpu;
	char path[128];

	(void)snprintf(path, sizeof path, "%s/x.cache", getenv("BERTH_STATE_DIR"));
	struct berth_region *region = ordered_region(ordered, path);
	CHILD_CHECK(region);
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_ATTACHED);
	for (uint32_t i = 0; i < 2; i++) {
		berth_region_gpu(region, i, &gpu);
		CHILD_CHECK(gpu.memory_limit_bytes == ordered->in_force_bytes);
	}
	CHILD_CHECK(!berth_account_ask(1, BERTH_CHARGE_DATA, ordered->in_force_bytes));
	CHILD_CHECK(berth_account_ask(1, BERTH_CHARGE_DATA, 1) == -ENOMEM);
	return 0;
}

static void an_order_counts_until_the_limits_are_changed(void **state)
{
	static const struct ordered cases[] = {
		{ 0, NULL, 1024 * MIB },
		{ 0, "512M", 512 * MIB },
		{ 3072 * MIB, NULL, 3072 * MIB },
		{ 512 * MIB, NULL, 512 * MIB },
		/* Nobody stamped it, so it isn't outdated. */
		{ 3072 * MIB, "2G", 2048 * MIB },
		{ 3072 * MIB, "4G", 3072 * MIB },
	};

	for (size_t i = 0; i < BERTH_ARRAY_LEN(cases); i++) {
		struct ordered ordered = cases[i];
		struct child_result result;

		child_run_ok(ordered_body, &ordered, &result);
		assert_int_equal(share_teardown(state), 0);
		assert_int_equal(share_setup(state), 0);
	}
}

static int no_gpus(struct berth_account_gpus *ret_gpus, struct berth_reason *reason)
{
	(void)ret_gpus;
	return berth_reason_set(reason, -ENODEV, "made-up trouble");
}

static int no_gpus_body(void *arg)
{
	(void)arg;
	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT", "1G", 1));
	CHILD_CHECK(berth_account_attach(no_gpus) == BERTH_ACCOUNT_REFUSED);
	CHILD_CHECK(berth_account_error() == -ENODEV);
	return 0;
}

static void gpus_that_cannot_be_listed_are_a_refusal(void **state)
{
	struct child_result result;

	(void)state;
	run(no_gpus_body, &result);
	assert_non_null(strstr(result.error, "made-up trouble"));
}

static uint32_t seats_alive(void)
{
	struct berth_snapshot *snapshot = NULL;
	uint32_t count = 0;

	if (berth_snapshot_take(berth_account_region(), BERTH_SNAPSHOT_LIVENESS, &snapshot))
		abort();
	for (uint32_t i = 0; i < snapshot->seat_count; i++)
		count += snapshot->seats[i].alive;
	berth_snapshot_free(snapshot);
	return count;
}

static void *attach_one(void *arg)
{
	pthread_barrier_wait(arg);
	return (void *)(uintptr_t)berth_account_attach(share_list);
}

static int threads_body(void *arg)
{
	pthread_barrier_t barrier;
	pthread_t threads[16];

	(void)arg;
	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT", "1G", 1));
	CHILD_CHECK(!pthread_barrier_init(&barrier, NULL, 16));
	for (int i = 0; i < 16; i++)
		CHILD_CHECK(!pthread_create(&threads[i], NULL, attach_one, &barrier));
	for (int i = 0; i < 16; i++) {
		void *answer = NULL;

		CHILD_CHECK(!pthread_join(threads[i], &answer));
		CHILD_CHECK((uintptr_t)answer == BERTH_ACCOUNT_ATTACHED);
	}
	CHILD_CHECK(seats_alive() == 1);
	return 0;
}

static void sixteen_threads_get_one_answer_and_one_seat(void **state)
{
	struct child_result result;

	(void)state;
	run(threads_body, &result);
}

static int wait_for(pid_t pid)
{
	int status = 0;

	CHILD_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHILD_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}

static int hook_count;

static void count_hook(void)
{
	hook_count++;
}

static int as_a_child(void)
{
	CHILD_CHECK(berth_account_state() == BERTH_ACCOUNT_UNDECIDED);
	CHILD_CHECK(!berth_account_region());
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_ATTACHED);
	CHILD_CHECK(hook_count == 1);
	CHILD_CHECK(seats_alive() == 2);
	CHILD_CHECK(!berth_account_ask(0, BERTH_CHARGE_DATA, 100 * MIB));
	CHILD_CHECK(share_charged(0) == 400 * MIB);
	return 0;
}

static int fork_body(void)
{
	pid_t pid;

	berth_account_on_child(count_hook);
	CHILD_CHECK(!berth_account_ask(0, BERTH_CHARGE_DATA, 300 * MIB));
	pid = fork();
	if (!pid)
		exit(as_a_child()); /* exit handlers and all */
	CHILD_CHECK(!wait_for(pid));
	CHILD_CHECK(share_charged(0) == 300 * MIB);
	CHILD_CHECK(seats_alive() == 1);
	/* A second child that never comes to its GPU leaves nothing. */
	pid = fork();
	if (!pid)
		exit(0);
	CHILD_CHECK(!wait_for(pid));
	CHILD_CHECK(share_charged(0) == 300 * MIB && seats_alive() == 1);
	CHILD_CHECK(hook_count == 0);
	return 0;
}

static void a_fork_child_is_undecided_and_gets_its_own_seat(void **state)
{
	(void)state;
	share_run("1G", fork_body);
}

static int bare_clone_body(void)
{
	pid_t pid;

	berth_account_on_child(count_hook);
	CHILD_CHECK(!berth_account_ask(0, BERTH_CHARGE_DATA, 300 * MIB));
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid)
		_exit(as_a_child());
	CHILD_CHECK(!wait_for(pid));
	CHILD_CHECK(share_charged(0) == 300 * MIB && seats_alive() == 1);
	return 0;
}

static void a_bare_clone_child_does_not_touch_its_parents_seat(void **state)
{
	(void)state;
	share_run("1G", bare_clone_body);
}

static int vfork_body(void)
{
	pid_t pid;

	CHILD_CHECK(!berth_account_ask(0, BERTH_CHARGE_DATA, 300 * MIB));
	pid = vfork();
	if (!pid) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	CHILD_CHECK(!wait_for(pid));
	CHILD_CHECK(berth_account_state() == BERTH_ACCOUNT_ATTACHED);
	CHILD_CHECK(share_charged(0) == 300 * MIB && seats_alive() == 1);
	return 0;
}

static void vfork_and_exec_leave_the_parent_as_it_was(void **state)
{
	(void)state;
	share_run("1G", vfork_body);
}

/* A thread is inside the ledger and the guard's neighbourhood while others fork. */
static void *ask_and_refund(void *arg)
{
	while (!__atomic_load_n((int *)arg, __ATOMIC_RELAXED)) {
		if (!berth_account_ask(0, BERTH_CHARGE_DATA, MIB))
			berth_account_refund(0, BERTH_CHARGE_DATA, MIB);
	}
	return NULL;
}

static int busy_fork_body(void)
{
	pthread_t thread;
	int stop = 0;

	CHILD_CHECK(!pthread_create(&thread, NULL, ask_and_refund, &stop));
	for (int round = 0; round < 50; round++) {
		pid_t pid = fork();

		if (!pid) {
			alarm(20); /* a watchdog: a copied lock would hang it */
			_exit(berth_account_attach(share_list) != BERTH_ACCOUNT_ATTACHED ||
			      berth_account_ask(0, BERTH_CHARGE_DATA, MIB));
		}
		CHILD_CHECK(!wait_for(pid));
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	CHILD_CHECK(!pthread_join(thread, NULL));
	CHILD_CHECK(share_charged(0) == 0);
	return 0;
}

static void forks_beside_a_busy_thread_all_attach(void **state)
{
	(void)state;
	share_run("1G", busy_fork_body);
}

static int debug_body(void *arg)
{
	(void)arg;
	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT", "1G", 1));
	CHILD_CHECK(!setenv("BERTH_LOG_LEVEL", "debug", 1));
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_ATTACHED);
	return 0;
}

static void the_debug_level_tells_the_start_in_one_line(void **state)
{
	struct child_result result;

	(void)state;
	run(debug_body, &result);
	assert_non_null(strstr(result.error, "start: region "));
	assert_non_null(strstr(result.error, " created, seat 0, "));
	assert_non_null(strstr(result.error, " us, 0 dead seats reaped, host-pid tier "));
	run(debug_body, &result);
	assert_non_null(strstr(result.error, " joined, seat "));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, share_setup, share_teardown)

/* Another process of the share that takes memory for a moment; gives it back at a word, if it gets one. */
static int taker(int word, int ready)
{
	char byte;

	if (berth_account_attach(share_list) != BERTH_ACCOUNT_ATTACHED)
		return 1;
	berth_account_set_passing(0, 300 * MIB);
	if (berth_account_ask_passing(0, 300 * MIB) || write(ready, "", 1) != 1 ||
	    read(word, &byte, 1) != 1)
		return 1;
	(void)usleep(20 * 1000); /* the asker is refused meanwhile, and waits */
	berth_account_refund(0, BERTH_CHARGE_DATA, 300 * MIB);
	berth_account_set_passing(0, 0);
	(void)pause(); /* alive, and in nobody's way */
	return 0;
}

static pid_t taker_start(int *ret_word)
{
	int word[2], ready[2];
	char byte;

	if (pipe(word) || pipe(ready))
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(taker(word[0], ready[1]));
	}
	*ret_word = word[1];
	return read(ready[0], &byte, 1) == 1 ? pid : -1;
}

static int passing_body(void *arg)
{
	int word = -1;
	pid_t pid;

	(void)arg;
	CHILD_CHECK(setenv("CUDA_DEVICE_MEMORY_LIMIT", "1G", 1) == 0);
	pid = taker_start(&word);
	CHILD_CHECK(pid > 0);
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_ATTACHED);
	/* Beside it: what would not fit without it either is refused, what fits is granted. */
	CHILD_CHECK(berth_account_ask(0, BERTH_CHARGE_DATA, 1025 * MIB) == -ENOMEM);
	CHILD_CHECK(!berth_account_ask(0, BERTH_CHARGE_DATA, 700 * MIB));
	berth_account_refund(0, BERTH_CHARGE_DATA, 700 * MIB);
	/* Stopped in that moment: refused, in bounded time, never over. */
	CHILD_CHECK(kill(pid, SIGSTOP) == 0);
	CHILD_CHECK(berth_account_ask(0, BERTH_CHARGE_DATA, 1000 * MIB) == -ENOMEM);
	CHILD_CHECK(kill(pid, SIGCONT) == 0);
	CHILD_CHECK(write(word, "", 1) == 1);
	CHILD_CHECK(!berth_account_ask(0, BERTH_CHARGE_DATA, 1000 * MIB));
	berth_account_refund(0, BERTH_CHARGE_DATA, 1000 * MIB);
	CHILD_CHECK(berth_region_passing(berth_account_region(), 0) == 0);
	CHILD_CHECK(kill(pid, SIGKILL) == 0);
	return 0;
}

static void memory_that_passes_refuses_nobody(void **state)
{
	struct child_result result;

	(void)state;
	run(passing_body, &result);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(without_configuration_it_is_passive_and_asks_nothing),
		CASE(with_a_limit_it_attaches_and_the_limit_holds_per_gpu),
		CASE(an_unreadable_limit_is_refused_once_in_one_line_by_name),
		CASE(a_region_to_join_is_never_created_and_needs_no_list),
		CASE(an_order_counts_until_the_limits_are_changed),
		CASE(gpus_that_cannot_be_listed_are_a_refusal),
		CASE(sixteen_threads_get_one_answer_and_one_seat),
		CASE(a_fork_child_is_undecided_and_gets_its_own_seat),
		CASE(a_bare_clone_child_does_not_touch_its_parents_seat),
		CASE(vfork_and_exec_leave_the_parent_as_it_was),
		CASE(forks_beside_a_busy_thread_all_attach),
		CASE(the_debug_level_tells_the_start_in_one_line),
		CASE(memory_that_passes_refuses_nobody),
	};

	return cmocka_run_group_tests_name("account: attach", tests, NULL, NULL);
}
