/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of this room's tests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scratch.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/ledger.h"

int scratch_setup(void **state)
{
	struct scratch *scratch = calloc(1, sizeof *scratch);
	const char *base = getenv("TMPDIR");

	if (!scratch)
		return -1;
	(void)snprintf(scratch->dir, sizeof scratch->dir, "%s/berth-region-XXXXXX",
		       base ? base : "/tmp");
	if (!mkdtemp(scratch->dir)) {
		free(scratch);
		return -1;
	}
	(void)snprintf(scratch->path, sizeof scratch->path, "%s/region.cache", scratch->dir);
	*state = scratch;
	return 0;
}

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
	(void)st;
	(void)kind;
	(void)walk;
	return remove(path);
}

int scratch_teardown(void **state)
{
	struct scratch *scratch = *state;
	int r = nftw(scratch->dir, entry_remove, 8, FTW_DEPTH | FTW_PHYS);

	free(scratch);
	return r;
}

struct berth_region_spec spec_of(uint64_t limit_bytes)
{
	struct berth_region_spec spec = { .share_name = "test", .gpu_count = 1, .priority = 1 };

	memcpy(spec.gpus[0].uuid, GPU_A, sizeof GPU_A);
	spec.gpus[0].memory_limit_bytes = limit_bytes;
	return spec;
}

struct berth_region *join_or_fail(const char *path, const struct berth_region_spec *spec)
{
	struct berth_region *region = NULL;
	struct berth_reason reason = { "" };

	if (berth_region_join(path, spec, 0, &region, NULL, &reason) < 0)
		fail_msg("%s", reason.text);
	return region;
}

struct berth_seat *claim_or_fail(struct berth_region *region)
{
	struct berth_seat *seat = NULL;
	struct berth_reason reason = { "" };

	if (berth_seat_claim(region, 0, &seat, NULL, &reason) < 0)
		fail_msg("%s", reason.text);
	return seat;
}

uint64_t charged_bytes(const struct berth_region *region, uint32_t gpu)
{
	struct berth_ledger_room room = { 0 };

	assert_int_equal(berth_ledger_room(region, gpu, &room), 0);
	return room.charged_bytes;
}

void check_or_fail(struct berth_region *region)
{
	struct berth_reason reason = { "" };

	if (berth_region_check(region, &reason) < 0)
		fail_msg("%s", reason.text);
}

pid_t child_start(int (*body)(void *arg), void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no child outlives a test that failed */
		_exit(body(arg) & 0xff);
	}
	return pid;
}

int child_end(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		return -1000;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
