/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs without a seat are shown.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "account/room.h"
#include "share.h"

static int unconfigured_body(void *arg)
{
	struct berth_ledger_room room = { .limit_bytes = 5 };

	(void)arg;
	CHILD_CHECK(!berth_account_room(share_uuid0, 0, &room));
	CHILD_CHECK(room.limit_bytes == 0 && room.charged_bytes == 0);
	CHILD_CHECK(berth_account_state() == BERTH_ACCOUNT_UNDECIDED);
	return 0;
}

static void in_no_share_there_is_no_limit(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(unconfigured_body, NULL, &result);
}

static int before_body(void *arg)
{
	struct berth_ledger_room room = { 0 };
	char uuids[128];

	(void)arg;
	(void)snprintf(uuids, sizeof(uuids), "%s=5M", share_uuid1);
	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT", "1G", 1));
	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "64M", 1));
	CHILD_CHECK(!setenv("BERTH_MEMORY_LIMITS", uuids, 1));
	CHILD_CHECK(!berth_account_room(share_uuid0, 0, &room) && room.limit_bytes == 64 * MIB);
	CHILD_CHECK(!berth_account_room(share_uuid1, 1, &room) && room.limit_bytes == 5 * MIB);
	CHILD_CHECK(!berth_account_room("GPU-other", 2, &room) && room.limit_bytes == 1024 * MIB);
	CHILD_CHECK(berth_account_state() == BERTH_ACCOUNT_UNDECIDED);
	return 0;
}

static void before_the_region_is_there_the_configured_limits_are_shown(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(before_body, NULL, &result);
	assert_int_equal(result.error_bytes, 0);
}

static int bad_body(void *arg)
{
	struct berth_ledger_room room = { .limit_bytes = 5 };

	(void)arg;
	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT", "50%", 1));
	errno = 9;
	CHILD_CHECK(berth_account_room(share_uuid0, 0, &room) == -EINVAL);
	CHILD_CHECK(errno == 9 && room.limit_bytes == 5);
	return 0;
}

static void a_limit_that_cannot_be_read_is_an_error_not_unlimited(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(bad_body, NULL, &result);
}

static int watcher_body(void *arg)
{
	struct berth_ledger_room room = { 0 };

	(void)arg;
	if (setenv("CUDA_DEVICE_MEMORY_LIMIT", "1G", 1) ||
	    berth_account_room(share_uuid1, 1, &room))
		return 1;
	return room.limit_bytes != 1024 * MIB || room.charged_bytes != 300 * MIB ||
	       berth_account_state() != BERTH_ACCOUNT_UNDECIDED;
}

static int watched_body(void)
{
	struct berth_ledger_room room = { 0 };
	struct child_result result;

	CHILD_CHECK(!berth_account_ask(1, BERTH_CHARGE_DATA, 300 * MIB));
	CHILD_CHECK(!berth_account_room(share_uuid1, 1, &room));
	CHILD_CHECK(room.charged_bytes == 300 * MIB);
	CHILD_CHECK(!berth_account_room("GPU-nobody", 1, &room) && room.limit_bytes == 0);
	child_run(watcher_body, NULL, &result);
	CHILD_CHECK(result.status == 0);
	return 0;
}

static void a_watcher_sees_what_the_share_is_charged_and_takes_no_seat(void **state)
{
	(void)state;
	share_run("1G", watched_body);
}

/* Of a parent that only looked, a launcher that counts GPUs by NVML say: its children have what they were told. */
static int told_later(void)
{
	struct berth_ledger_room room = { 0 };

	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT", "1G", 1));
	CHILD_CHECK(!berth_account_room(share_uuid0, 0, &room) && room.limit_bytes == 1024 * MIB);
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_ATTACHED);
	CHILD_CHECK(!berth_account_room(share_uuid0, 0, &room) && room.limit_bytes == 1024 * MIB);
	return 0;
}

static int parent_body(void *arg)
{
	const bool *bare = arg;
	struct berth_ledger_room room = { .limit_bytes = 5 };
	int status = 1;
	pid_t pid;

	CHILD_CHECK(!berth_account_room(share_uuid0, 0, &room) && room.limit_bytes == 0);
	pid = *bare ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	CHILD_CHECK(pid >= 0);
	if (pid == 0)
		_exit(told_later());
	CHILD_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

static void a_fork_child_has_its_own_configuration(void **state)
{
	struct child_result result;
	bool bare = false;

	(void)state;
	child_run_ok(parent_body, &bare, &result);
}

static void so_has_one_of_a_bare_clone(void **state)
{
	struct child_result result;
	bool bare = true;

	(void)state;
	child_run_ok(parent_body, &bare, &result);
}

static int maker_body(void *arg)
{
	(void)arg;
	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT", "1G", 1));
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_ATTACHED);
	return 0;
}

static int viewer_body(void *arg)
{
	struct berth_ledger_room room = { 0 };

	(void)arg;
	CHILD_CHECK(!setenv("BERTH_SHARE", "default", 1));
	CHILD_CHECK(!berth_account_room(share_uuid1, 1, &room) && room.limit_bytes == 1024 * MIB);
	return 0;
}

static int viewers_parent_body(void *arg)
{
	struct child_result result;

	child_run(maker_body, arg, &result);
	CHILD_CHECK(result.status == 0 && !viewer_body(arg));
	child_run(viewer_body, arg, &result);
	if (result.status)
		dprintf(2, "%s", result.error);
	return result.status != 0;
}

/* The parent's view of the region is not mapped in its child. */
static void a_viewers_child_sees_the_same(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(viewers_parent_body, NULL, &result);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, share_setup, share_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(in_no_share_there_is_no_limit),
		CASE(before_the_region_is_there_the_configured_limits_are_shown),
		CASE(a_limit_that_cannot_be_read_is_an_error_not_unlimited),
		CASE(a_watcher_sees_what_the_share_is_charged_and_takes_no_seat),
		CASE(a_fork_child_has_its_own_configuration),
		CASE(so_has_one_of_a_bare_clone),
		CASE(a_viewers_child_sees_the_same),
	};

	return cmocka_run_group_tests_name("account: room", tests, NULL, NULL);
}
