/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a region as HAMi's readers see them. This reader knows the published offsets as
 * plain numbers and nothing of layout.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <semaphore.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region/ledger.h"
#include "scratch.h"

static int file;

static uint64_t number_at(off_t offset, size_t size)
{
	uint64_t value = 0;

	assert_int_equal(pread(file, &value, size, offset), (ssize_t)size);
	return value;
}

static uint64_t u32_at(off_t offset)
{
	return number_at(offset, 4);
}

static uint64_t u64_at(off_t offset)
{
	return number_at(offset, 8);
}

static struct berth_region_spec two_gpus(void)
{
	struct berth_region_spec spec = spec_of(1024 * MIB);

	spec.gpu_count = 2;
	memcpy(spec.gpus[1].uuid, GPU_B, sizeof GPU_B);
	spec.gpus[1].compute_limit_pct = 30;
	spec.priority = 0;
	return spec;
}

static void test_fresh_region(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = two_gpus();
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	char uuid[96];

	file = open(scratch->path, O_RDONLY | O_CLOEXEC);
	assert_true(file >= 0);
	assert_int_equal(u32_at(0), 19920718);
	assert_int_equal(u32_at(4), 1);
	assert_int_equal(u32_at(8), 2);
	assert_int_equal(u32_at(12), 0);
	assert_int_equal(u64_at(16), 0);
	assert_int_equal(u64_at(56), 2);
	assert_int_equal(pread(file, uuid, sizeof uuid, 64 + 96), 96);
	assert_string_equal(uuid, GPU_B);
	for (size_t i = strlen(GPU_B); i < sizeof uuid; i++)
		assert_int_equal(uuid[i], 0);
	assert_int_equal(u64_at(1600), 1024 * MIB);
	assert_int_equal(u64_at(1600 + 8), 0);
	assert_int_equal(u64_at(1728), 0);
	assert_int_equal(u64_at(1728 + 8), 30);
	assert_int_equal(u32_at(2008896), 0);
	assert_int_equal(u32_at(2008900), 1);
	assert_int_equal(u32_at(2008904), 0);
	assert_int_equal(u32_at(2008908), 0);
	assert_int_equal(u64_at(2008912), 0);
	assert_int_equal(close(file), 0);
	berth_region_close(region);
}

/* What glibc itself makes of a process-shared semaphore of value 1. */
static void test_semaphores(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(0);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	sem_t expected;
	char bytes[32];

	memset(&expected, 0, sizeof expected);
	assert_int_equal(sizeof expected, 32);
	assert_int_equal(sem_init(&expected, 1, 1), 0);
	file = open(scratch->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(file, bytes, 32, 24), 32);
	assert_memory_equal(bytes, &expected, 32);
	assert_int_equal(pread(file, bytes, 32, 2008920), 32);
	assert_memory_equal(bytes, &expected, 32);
	assert_int_equal(close(file), 0);
	berth_region_close(region);
}

static void test_seat_bytes(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = two_gpus();
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *seat = claim_or_fail(region);
	off_t base = 1856 + 1960 * (off_t)berth_seat_index(seat);

	file = open(scratch->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(berth_ledger_ask(seat, 1, BERTH_CHARGE_DATA, 5 * MIB), 0);
	berth_ledger_charge(seat, 1, BERTH_CHARGE_CONTEXT, 3 * MIB);
	berth_ledger_charge(seat, 1, BERTH_CHARGE_MODULE, 2 * MIB);
	berth_seat_set_host_pid(seat, 4711,
				(struct berth_host_pid_note){ .source = BERTH_HOST_PID_BROKER });
	assert_int_equal(u32_at(base + 0), (uint64_t)getpid());
	assert_int_equal(u32_at(base + 4), 4711);
	assert_int_equal(u64_at(base + 8 + 64 + 0), 3 * MIB);
	assert_int_equal(u64_at(base + 8 + 64 + 8), 2 * MIB);
	assert_int_equal(u64_at(base + 8 + 64 + 16), 5 * MIB);
	assert_int_equal(u64_at(base + 8 + 64 + 24), 0);
	assert_int_equal(u64_at(base + 8 + 64 + 32), 10 * MIB);
	assert_int_equal(u64_at(base + 8 + 32), 0); /* GPU 0 */
	assert_int_equal(u32_at(base + 1928), 1);
	assert_int_equal(u64_at(base + 1936) & 1, 0);
	assert_int_equal(u32_at(2008896), berth_seat_index(seat) + 1);

	berth_seat_leave(seat);
	assert_int_equal(u32_at(base + 0), 0);
	assert_int_equal(u32_at(base + 1928), 0);
	assert_int_equal(u64_at(base + 8 + 64 + 32), 0);
	assert_int_equal(u64_at(base + 1936) & 1, 0);
	assert_int_equal(close(file), 0);
	berth_region_close(region);
}

static void test_size_and_tail(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(0);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct stat st;
	char magic[9] = "";

	assert_int_equal(stat(scratch->path, &st), 0);
	assert_true(st.st_size >= 2008952);
	assert_true(st.st_size < 0x40000000); /* lock bytes lie beyond */
	assert_int_equal(st.st_size % 65536, 0);
	assert_true(st.st_blocks * 512 >= st.st_size); /* really there */
	file = open(scratch->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(file, magic, 8, 2031616), 8);
	assert_string_equal(magic, "erthtail");
	assert_int_equal(close(file), 0);
	berth_region_close(region);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fresh_region, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_semaphores, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_seat_bytes, scratch_setup, scratch_teardown),
		cmocka_unit_test_setup_teardown(test_size_and_tail, scratch_setup,
						scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
