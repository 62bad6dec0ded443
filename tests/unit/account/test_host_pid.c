/* SPDX-License-Identifier: Apache-2.0
 *
 * The host pid's states: initial, told by a broker, looked for, found, refuted; what the seat says of
 * it, what is said aloud, and how often it is looked for again. What needs a pid namespace needs root.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "account/host_pid.h"
#include "base/node_dir.h"
#include "base/process.h"
#include "region/snapshot.h"
#include "share.h"

#define TOLD_PID 424242

static char node[256];

static int node_make(void)
{
	(void)snprintf(node, sizeof(node), "%s/node", getenv("BERTH_STATE_DIR"));
	CHILD_CHECK(mkdir(getenv("BERTH_STATE_DIR"), 0700) == 0 || errno == EEXIST);
	CHILD_CHECK(mkdir(node, 0755) == 0);
	CHILD_CHECK(setenv("BERTH_NODE_DIR", node, 1) == 0);
	return 0;
}

static void answer(int fd, uint32_t pid)
{
	uint32_t number = htonl(pid);
	uint8_t reply[12] = { 'H', 'P', 'I', 'D', 0, 1, 0, 0 };
	uint8_t request[8];

	memcpy(reply + 8, &number, sizeof(number));
	if (read(fd, request, sizeof(request)) == sizeof(request))
		(void)!write(fd, reply, sizeof(reply)); /* the asker may be gone */
}

/* A broker that answers everybody with this pid; ends with its parent. */
static int broker_start(const char *name, uint32_t pid)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHILD_CHECK(fd >= 0);
	CHILD_CHECK(snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", node, name) <
		    (int)sizeof(address.sun_path));
	CHILD_CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHILD_CHECK(listen(fd, 8) == 0);
	pid_t broker = fork();
	CHILD_CHECK(broker >= 0);
	if (broker == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* else it would outlive a failed test */
		for (;;) {
			int peer = accept(fd, NULL, NULL);

			answer(peer, pid);
			(void)close(peer); /* a socket */
		}
	}
	(void)close(fd); /* the broker has it */
	return 0;
}

/* body in a new pid namespace, as its first process. */
static int contained(int (*body)(void))
{
	int status = 0;

	if (geteuid() != 0 || unshare(CLONE_NEWPID) != 0)
		CHILD_SKIP("no pid namespace: not root, or not allowed here");
	pid_t pid = fork();
	CHILD_CHECK(pid >= 0);
	if (pid == 0)
		_exit(body());
	CHILD_CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int attach(void)
{
	CHILD_CHECK(setenv("CUDA_DEVICE_MEMORY_LIMIT", "1G", 1) == 0);
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_ATTACHED);
	return 0;
}

/* What the seat says, as `berth ps` would read it. */
static int seat_says(int32_t pid, enum berth_host_pid_source source,
		     enum berth_host_pid_missing missing)
{
	struct berth_snapshot *snapshot = NULL;

	CHILD_CHECK(berth_snapshot_take(berth_account_region(), BERTH_SNAPSHOT_LIVENESS,
					&snapshot) == 0);
	CHILD_CHECK(snapshot->seat_count == 1);
	CHILD_CHECK(snapshot->seats[0].host_pid == pid);
	CHILD_CHECK(snapshot->seats[0].host_pid_note.source == source);
	CHILD_CHECK(snapshot->seats[0].host_pid_note.missing == missing);
	berth_snapshot_free(snapshot);
	return 0;
}

static int initial_body(void *arg)
{
	(void)arg;
	if (geteuid() == 0)
		CHILD_CHECK(node_make() == 0 && broker_start("broker.sock", TOLD_PID) == 0);
	CHILD_CHECK(attach() == 0);
	CHILD_CHECK(berth_host_pid() == getpid());
	CHILD_CHECK(!berth_host_pid_try(true) && !berth_host_pid_try(false));
	return seat_says(getpid(), BERTH_HOST_PID_INITIAL, BERTH_HOST_PID_NOTHING);
}

static void in_the_initial_namespace_it_is_the_pid(void **state)
{
	struct child_result result;

	(void)state;
	if (!berth_process_in_initial_pid_namespace())
		skip(); /* and there is no way back into it */
	child_run_ok(initial_body, NULL, &result);
	assert_int_equal(result.error_bytes, 0);
}

static int told_inside(void)
{
	CHILD_CHECK(attach() == 0);
	CHILD_CHECK(berth_host_pid() == TOLD_PID);
	CHILD_CHECK(!berth_host_pid_try(true) && !berth_host_pid_try(false));
	CHILD_CHECK(seat_says(TOLD_PID, BERTH_HOST_PID_BROKER, BERTH_HOST_PID_NOTHING) == 0);

	/* Somebody else's after all: looked for, and that broker isn't asked again. */
	berth_host_pid_refute();
	CHILD_CHECK(berth_host_pid() == 0);
	CHILD_CHECK(berth_host_pid_try(false));
	CHILD_CHECK(!berth_host_pid_ask_again());
	berth_host_pid_found(77, BERTH_HOST_PID_PROBE);
	return seat_says(77, BERTH_HOST_PID_PROBE, BERTH_HOST_PID_NOTHING);
}

static int told_body(void *arg)
{
	(void)arg;
	CHILD_CHECK(geteuid() != 0 ||
		    (node_make() == 0 && broker_start("broker.sock", TOLD_PID) == 0));
	return contained(told_inside);
}

static void a_broker_tells_it(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(told_body, NULL, &result);
}

static int hami_inside(void)
{
	CHILD_CHECK(attach() == 0);
	CHILD_CHECK(berth_host_pid() == 0);
	return 0;
}

static int hami_asked_inside(void)
{
	CHILD_CHECK(setenv("LIBVGPU_HOSTPID_BROKER", "1", 1) == 0);
	CHILD_CHECK(attach() == 0);
	CHILD_CHECK(berth_host_pid() == TOLD_PID);
	return 0;
}

static int hami_start(void)
{
	char dir[300];

	CHILD_CHECK(node_make() == 0);
	(void)snprintf(dir, sizeof(dir), "%s/hostpid", node);
	CHILD_CHECK(mkdir(dir, 0755) == 0);
	return broker_start(BERTH_NODE_BROKER_HAMI, TOLD_PID);
}

static int hami_body(void *arg)
{
	CHILD_CHECK(geteuid() != 0 || hami_start() == 0);
	return contained(arg ? hami_asked_inside : hami_inside);
}

static void hamis_broker_is_asked_when_hami_says_so(void **state)
{
	struct child_result result;
	int asked = 1;

	(void)state;
	child_run_ok(hami_body, NULL, &result);
	assert_int_equal(share_teardown(state), 0);
	assert_int_equal(share_setup(state), 0);
	child_run_ok(hami_body, &asked, &result);
}

static int sought_inside(void)
{
	CHILD_CHECK(setenv("BERTH_LOG_LEVEL", "warning", 1) == 0);
	CHILD_CHECK(attach() == 0);
	CHILD_CHECK(seat_says(0, BERTH_HOST_PID_UNKNOWN, BERTH_HOST_PID_NOT_YET) == 0);
	errno = 77;
	/* One at a time. */
	CHILD_CHECK(berth_host_pid_try(false));
	CHILD_CHECK(!berth_host_pid_try(false) && !berth_host_pid_try(true));
	CHILD_CHECK(!berth_host_pid_ask_again());
	berth_host_pid_lacks(BERTH_HOST_PID_BUSY, "process %d held it", 99);
	CHILD_CHECK(errno == 77);
	CHILD_CHECK(seat_says(0, BERTH_HOST_PID_UNKNOWN, BERTH_HOST_PID_BUSY) == 0);
	/* Not with each allocation, but with the next context. */
	CHILD_CHECK(!berth_host_pid_try(false));
	CHILD_CHECK(berth_host_pid_try(true));
	berth_host_pid_lacks(BERTH_HOST_PID_BUSY, "process %d held it again", 99);
	/* A broker that came up meanwhile. */
	CHILD_CHECK(broker_start("broker.sock", TOLD_PID) == 0);
	CHILD_CHECK(berth_host_pid_try(true));
	CHILD_CHECK(berth_host_pid_ask_again());
	CHILD_CHECK(!berth_host_pid_try(true));
	return seat_says(TOLD_PID, BERTH_HOST_PID_BROKER, BERTH_HOST_PID_NOTHING);
}

static int sought_body(void *arg)
{
	(void)arg;
	CHILD_CHECK(geteuid() != 0 || node_make() == 0);
	return contained(sought_inside);
}

static void it_is_looked_for_again_and_said_once(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(sought_body, NULL, &result);
	assert_non_null(strstr(result.error, "process 99 held it;"));
	assert_null(strstr(result.error, "held it again"));
}

/* Looked for soon, then ever more rarely: the fourth time isn't due when the first would be. */
static int rarer_inside(void)
{
	CHILD_CHECK(attach() == 0);
	for (int i = 0; i < 3; i++) {
		CHILD_CHECK(berth_host_pid_try(true));
		berth_host_pid_lacks(BERTH_HOST_PID_UNDECIDED, "nobody");
	}
	(void)usleep(1100 * 1000); /* longer than the first pause; the third one is 4 s */
	CHILD_CHECK(!berth_host_pid_try(false));
	return 0;
}

static int rarer_body(void *arg)
{
	(void)arg;
	CHILD_CHECK(geteuid() != 0 || node_make() == 0);
	return contained(rarer_inside);
}

static void it_is_looked_for_ever_more_rarely(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(rarer_body, NULL, &result);
}

static int child_inside(void)
{
	int status = 0;

	CHILD_CHECK(attach() == 0);
	CHILD_CHECK(berth_host_pid() == TOLD_PID);
	pid_t pid = fork();
	CHILD_CHECK(pid >= 0);
	if (pid == 0)
		_exit(berth_host_pid() == 0 && !berth_host_pid_try(true) &&
				      berth_host_pid_note().source == BERTH_HOST_PID_UNKNOWN
			      ? 0
			      : 1);
	CHILD_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return seat_says(TOLD_PID, BERTH_HOST_PID_BROKER, BERTH_HOST_PID_NOTHING);
}

static int child_body(void *arg)
{
	(void)arg;
	CHILD_CHECK(geteuid() != 0 ||
		    (node_make() == 0 && broker_start("broker.sock", TOLD_PID) == 0));
	return contained(child_inside);
}

static void a_fork_child_has_another_one(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(child_body, NULL, &result);
}

static void notes_are_kept_whole(void **state)
{
	(void)state;
	for (unsigned source = 0; source < BERTH_HOST_PID_SOURCE_COUNT; source++) {
		for (unsigned missing = 0; missing < BERTH_HOST_PID_MISSING_COUNT; missing++) {
			struct berth_host_pid_note note = berth_host_pid_note_unpack(
				berth_host_pid_note_pack((struct berth_host_pid_note){
					.source = (enum berth_host_pid_source)source,
					.missing = (enum berth_host_pid_missing)missing }));

			assert_int_equal(note.source, source);
			assert_int_equal(note.missing, missing);
		}
	}
	/* Another version's, or rubbish. */
	assert_int_equal(berth_host_pid_note_unpack(UINT64_MAX).source, BERTH_HOST_PID_UNKNOWN);
	assert_int_equal(berth_host_pid_note_unpack(UINT64_MAX).missing, BERTH_HOST_PID_NOTHING);
	assert_string_equal(berth_host_pid_source_name((enum berth_host_pid_source)99), "unknown");
	assert_null(berth_host_pid_missing_text((enum berth_host_pid_missing)99));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(in_the_initial_namespace_it_is_the_pid, share_setup,
						share_teardown),
		cmocka_unit_test_setup_teardown(a_broker_tells_it, share_setup, share_teardown),
		cmocka_unit_test_setup_teardown(hamis_broker_is_asked_when_hami_says_so,
						share_setup, share_teardown),
		cmocka_unit_test_setup_teardown(it_is_looked_for_again_and_said_once, share_setup,
						share_teardown),
		cmocka_unit_test_setup_teardown(it_is_looked_for_ever_more_rarely, share_setup,
						share_teardown),
		cmocka_unit_test_setup_teardown(a_fork_child_has_another_one, share_setup,
						share_teardown),
		cmocka_unit_test(notes_are_kept_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
