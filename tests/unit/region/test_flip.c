/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining a region while somebody who may write it changes what was checked a moment ago: what a joiner
 * goes by is what it has checked.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "region/snapshot.h"
#include "scratch.h"

enum { JOINS = 4000, GPU_COUNT_AT = 56 };

static int flip(void *arg)
{
	const struct scratch *scratch = arg;
	int fd = open(scratch->path, O_RDWR | O_CLOEXEC);
	char *head = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	_Atomic uint64_t *gpu_count = (void *)(head + GPU_COUNT_AT);

	if (fd < 0 || head == MAP_FAILED || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return 1;
	for (uint32_t i = 0;; i++)
		atomic_store(gpu_count, i % 40 < 20 ? 1 : INT32_MAX);
}

/* In a child, which dies where it would go by the second value. */
static int join_often(void *arg)
{
	const struct scratch *scratch = arg;
	uint32_t joined = 0;

	for (int i = 0; i < JOINS; i++) {
		struct berth_region *region = NULL;
		struct berth_snapshot *snapshot = NULL;

		if (berth_region_join(scratch->path, NULL, 0, &region, NULL, NULL) < 0)
			continue;
		joined++;
		if (berth_region_gpu_count(region) > BERTH_GPU_MAX)
			return 1;
		if (berth_snapshot_take(region, 0, &snapshot) < 0)
			return 2;
		berth_snapshot_free(snapshot);
		berth_region_close(region);
	}
	return joined > 0 ? 0 : 3;
}

static void test_what_is_checked_is_used(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);

	berth_region_close(join_or_fail(scratch->path, &spec));
	pid_t flipper = child_start(flip, scratch);
	assert_int_equal(child_end(child_start(join_often, scratch)), 0);
	assert_int_equal(kill(flipper, SIGKILL), 0);
	assert_int_equal(child_end(flipper), -SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_checked_is_used, scratch_setup,
						scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
