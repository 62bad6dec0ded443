/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of the pipe comes when no process of the benchmark is left, so nobody makes a file again
 * that the janitor has removed.
 */
#include "lock_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "place.h"

enum { LEAVING_S = 10 };

static void __attribute__((noreturn)) janitor_live(const char *dir, int pipe_end)
{
	char byte;

	(void)setsid();             /* a child of its parent's group: can't fail */
	(void)close(STDOUT_FILENO); /* who reads the figures must not wait for us */
	while (read(pipe_end, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(place_erase(dir) == 0 ? 0 : 1);
}

static const char *memory_dir(void)
{
	const char *dir = getenv("TMPDIR");

	if (dir)
		return dir;
	return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

int lock_stage_open(struct lock_stage *stage, const char *base, struct berth_reason *reason)
{
	int ends[2];

	if (!base)
		base = memory_dir();
	if (snprintf(stage->dir, sizeof stage->dir, "%s/berth-bench-XXXXXX", base) >= PATH_MAX)
		return berth_reason_set(reason, -ENAMETOOLONG, "%s: too long", base);
	if (!mkdtemp(stage->dir))
		return berth_reason_set(reason, -errno, "%s: no directory can be made in it", base);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return berth_reason_set(reason, -errno, "no pipe can be made");
	(void)fflush(NULL); /* the janitor must not print it again */
	stage->janitor = fork();
	if (stage->janitor < 0)
		return berth_reason_set(reason, -errno, "no process can be forked");
	if (stage->janitor == 0) {
		(void)close(ends[1]); /* the others' end */
		janitor_live(stage->dir, ends[0]);
	}
	(void)close(ends[0]); /* the janitor's end */
	stage->lifeline = ends[1];
	return 0;
}

struct lock_path lock_stage_path(const struct lock_stage *stage, const char *name)
{
	struct lock_path path;

	(void)snprintf(path.text, sizeof path.text, "%s/%s", stage->dir, name);
	return path;
}

int lock_stage_close(struct lock_stage *stage, struct berth_reason *reason)
{
	uint64_t deadline_ns = berth_deadline_after(LEAVING_S * BERTH_NS_PER_S);
	int status = 0;
	pid_t ended = 0;

	berth_fd_close(&stage->lifeline);
	for (;;) {
		ended = waitpid(stage->janitor, &status, WNOHANG);
		if (ended != 0 || berth_deadline_passed(deadline_ns))
			break;
		berth_sleep_ns(BERTH_NS_PER_MS, UINT64_MAX);
	}
	if (ended == 0)
		return berth_reason_set(reason, -EBUSY, "%s: processes that use it are left",
					stage->dir);
	return status == 0 ? 0 : berth_reason_set(reason, -EIO, "%s: can't be removed", stage->dir);
}

int lock_bench_main(int argc, char **argv, lock_bench_fn run)
{
	bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
	struct berth_reason reason = { 0 };

	if (argc > 2 || (argc == 2 && !quick)) {
		(void)fprintf(stderr, "usage: %s [--quick]\n", program_invocation_short_name);
		return 2;
	}
	int r = run(quick, &reason);
	if (r < 0)
		(void)fprintf(stderr, "%s: %s (%s)\n", program_invocation_short_name, reason.text,
			      strerror(-r));
	return r < 0 ? 1 : 0;
}
