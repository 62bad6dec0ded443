/* SPDX-License-Identifier: Apache-2.0
 *
 * A region's file with any bytes in it. It is mapped by whoever can read it, so its content is foreign:
 * viewing, checking, snapshots, joining, sitting down and asking answer with an error or a clean result.
 *
 * The input begins with a mode byte. Even: what follows are changes to a good region with a dead seat in
 * it, each of 7 bytes: an offset (4), a byte that says from where (an area below) and how wide (1, 4 or 8
 * bytes), a value (2, sign-extended). Odd: what follows is the whole file.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "region/layout.h"
#include "region/ledger.h"
#include "region/seat.h"
#include "region/snapshot.h"

static struct {
	char path[128];
	uint8_t *good; /* the file of a good region */
	int fd;
} fuzz;

static void scratch_remove(void)
{
	(void)unlink(fuzz.path);
}

/* A region with two seats that hold something, as one that is in use looks. */
static void good_make(void)
{
	struct berth_region_spec spec = { .share_name = "fuzz", .gpu_count = 2, .priority = 1 };
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	strcpy(spec.gpus[0].uuid, "GPU-00000000-0000-0000-0000-000000000000");
	strcpy(spec.gpus[1].uuid, "GPU-00000000-0000-0000-0000-000000000001");
	spec.gpus[0].memory_limit_bytes = 1 << 20;
	spec.gpus[1].compute_limit_pct = 30;
	snprintf(fuzz.path, sizeof(fuzz.path), "/dev/shm/berth-fuzz-%d.cache", (int)getpid());
	(void)unlink(fuzz.path);
	FUZZ_CHECK(berth_region_join(fuzz.path, &spec, 0, &region, NULL, NULL) == 0);
	FUZZ_CHECK(atexit(scratch_remove) == 0);
	FUZZ_CHECK(berth_seat_claim(region, 0, &seat, NULL, NULL) == 0);
	FUZZ_CHECK(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 4096) == 0);
	fuzz.fd = open(fuzz.path, O_RDWR | O_CLOEXEC);
	fuzz.good = malloc(BERTH_LAYOUT_SIZE);
	FUZZ_CHECK(fuzz.fd >= 0 && fuzz.good != NULL);
	FUZZ_CHECK(pread(fuzz.fd, fuzz.good, BERTH_LAYOUT_SIZE, 0) == (ssize_t)BERTH_LAYOUT_SIZE);
	berth_seat_forget(seat);
	berth_region_close(region);
}

/* Where changes go: anywhere is mostly empty places, so each kind of field has a turn. */
static const struct {
	size_t start;
	size_t size;
} areas[] = {
	{ 0, BERTH_LAYOUT_SIZE - 8 },
	{ 0, offsetof(struct berth_layout_head, seats) },
	{ offsetof(struct berth_layout_head, seats), 2 * sizeof(struct berth_layout_seat) },
	{ offsetof(struct berth_layout_head, seat_high), 56 },
	{ BERTH_TAIL_OFFSET, offsetof(struct berth_layout_tail, gpus) },
	{ BERTH_TAIL_OFFSET + offsetof(struct berth_layout_tail, generation), 32 },
	{ BERTH_TAIL_OFFSET + offsetof(struct berth_layout_tail, identity), 128 },
	{ BERTH_TAIL_OFFSET + offsetof(struct berth_layout_tail, ledger), 64 },
};

/* Writes the good bytes, then the changes. */
static void changes_write(const uint8_t *data, size_t size)
{
	FUZZ_CHECK(pwrite(fuzz.fd, fuzz.good, BERTH_LAYOUT_SIZE, 0) == (ssize_t)BERTH_LAYOUT_SIZE);
	FUZZ_CHECK(ftruncate(fuzz.fd, (off_t)BERTH_LAYOUT_SIZE) == 0);
	for (; size >= 7; data += 7, size -= 7) {
		static const size_t widths[] = { 1, 4, 8, 8 };
		size_t area = data[4] / 4 % BERTH_ARRAY_LEN(areas);
		uint32_t offset;
		int16_t low;
		int64_t value;

		memcpy(&offset, data, 4);
		memcpy(&low, data + 5, 2);
		value = low;
		FUZZ_CHECK(pwrite(fuzz.fd, &value, widths[data[4] % 4],
				  (off_t)(areas[area].start + offset % areas[area].size)) > 0);
	}
}

static void whole_write(const uint8_t *data, size_t size)
{
	FUZZ_CHECK(ftruncate(fuzz.fd, 0) == 0);
	FUZZ_CHECK(pwrite(fuzz.fd, data, size, 0) == (ssize_t)size);
}

static void text_check(const char *text, size_t size)
{
	FUZZ_CHECK(memchr(text, '\0', size) != NULL);
}

static void snapshot_check(const struct berth_region *region, unsigned flags)
{
	struct berth_snapshot *snapshot = NULL;

	if (berth_snapshot_take(region, flags, &snapshot) < 0)
		return;
	text_check(snapshot->share_name, sizeof(snapshot->share_name));
	FUZZ_CHECK(snapshot->gpu_count <= BERTH_GPU_MAX);
	FUZZ_CHECK(snapshot->seat_count <= BERTH_SEAT_MAX);
	for (uint32_t i = 0; i < snapshot->gpu_count; i++)
		text_check(snapshot->gpus[i].gpu.uuid, BERTH_UUID_SIZE);
	for (uint32_t i = 0; i < snapshot->seat_count; i++)
		FUZZ_CHECK(snapshot->seats[i].index < BERTH_SEAT_MAX);
	berth_snapshot_free(snapshot);
}

static void plain_questions(struct berth_region *region)
{
	struct berth_reason reason = { "" };
	struct berth_region_gpu gpu;
	struct berth_ledger_room room;
	uint32_t count = berth_region_gpu_count(region);

	FUZZ_CHECK(count <= BERTH_GPU_MAX);
	FUZZ_CHECK(strlen(berth_region_share_name(region)) < BERTH_SHARE_NAME_MAX);
	for (uint32_t i = 0; i < count; i++) {
		berth_region_gpu(region, i, &gpu);
		text_check(gpu.uuid, sizeof(gpu.uuid));
		(void)!berth_ledger_room(region, i, &room);
		(void)!berth_region_gpu_find(region, gpu.uuid);
	}
	if (berth_region_check(region, &reason) < 0)
		FUZZ_CHECK(reason.text[0] != '\0');
	snapshot_check(region, 0);
	snapshot_check(region, BERTH_SNAPSHOT_LIVENESS);
}

static void sit_and_ask(struct berth_region *region)
{
	struct berth_reason reason = { "" };
	struct berth_seat_claimed claimed;
	struct berth_seat *seat = NULL;
	uint32_t count = berth_region_gpu_count(region);

	if (berth_seat_claim(region, 0, &seat, &claimed, &reason) < 0) {
		FUZZ_CHECK(reason.text[0] != '\0');
		return;
	}
	FUZZ_CHECK(claimed.index < BERTH_SEAT_MAX);
	for (uint32_t i = 0; i < count + 1 && i < BERTH_GPU_MAX; i++) {
		if (berth_ledger_ask(seat, i, BERTH_CHARGE_DATA, 4096) == 0)
			berth_ledger_refund(seat, i, BERTH_CHARGE_DATA, 4096);
	}
	(void)!berth_seat_reap_all(region);
	berth_seat_leave(seat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct berth_reason reason = { "" };
	struct berth_region *region = NULL;

	if (fuzz.good == NULL)
		good_make();
	if (size == 0)
		return 0;
	if (data[0] & 1)
		whole_write(data + 1, size - 1);
	else
		changes_write(data + 1, size - 1);

	if (berth_region_view(fuzz.path, &region, &reason) == 0) {
		plain_questions(region);
		berth_region_close(region);
	} else {
		FUZZ_CHECK(reason.text[0] != '\0');
	}
	region = NULL;
	reason.text[0] = '\0';
	if (berth_region_join(fuzz.path, NULL, 0, &region, NULL, &reason) == 0) {
		sit_and_ask(region);
		plain_questions(region);
		berth_region_close(region);
	} else {
		FUZZ_CHECK(reason.text[0] != '\0');
	}
	return 0;
}
