/* SPDX-License-Identifier: Apache-2.0
 *
 * A region's file with any bytes in it. It is mapped by whoever can read it, so its content is foreign:
 * viewing, checking, snapshots, joining, sitting down and asking answer with an error or a clean result.
 *
 * The input begins with a mode byte.
 * Bit 0 clear: what follows are changes to a good region with a dead seat and a living one in it, each of 7
 * bytes: an offset (4), a byte that says from where (an area below) and how wide (1, 4 or 8 bytes), a value
 * (2, sign-extended). Bit 1: before them, 3 bytes of by how much the file is longer or shorter, so that
 * what is cut off or added is reached too. Bit 2: the changes are made while the region is mapped, as a
 * neighbour would that has lost its mind; what was checked at opening has changed since. Bit 3: the living
 * one is dead too.
 * Bit 0 set: what follows is the whole file.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <stdbool.h>
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
	struct berth_region_spec spec;
	uint8_t *good; /* the file of a good region */
	int fd;
	int seat_fd; /* holds seat 1's lock byte, or not: whether its process lives */
} fuzz;

static void scratch_remove(void)
{
	(void)unlink(fuzz.path);
}

static void spec_fill(struct berth_region_spec *spec)
{
	*spec = (struct berth_region_spec){ .share_name = "fuzz", .gpu_count = 2, .priority = 1 };
	strcpy(spec->gpus[0].uuid, "GPU-00000000-0000-0000-0000-000000000000");
	strcpy(spec->gpus[1].uuid, "GPU-00000000-0000-0000-0000-000000000001");
	spec->gpus[0].memory_limit_bytes = 1 << 20;
	spec->gpus[1].compute_limit_pct = 30;
}

/* A region with two seats that hold something, as one that is in use looks. */
static void good_make(void)
{
	struct berth_region *regions[2] = { NULL, NULL };
	struct berth_seat *seats[2] = { NULL, NULL };

	spec_fill(&fuzz.spec);
	snprintf(fuzz.path, sizeof(fuzz.path), "/dev/shm/berth-fuzz-%d.cache", (int)getpid());
	(void)unlink(fuzz.path);
	for (int i = 0; i < 2; i++) {
		FUZZ_CHECK(berth_region_join(fuzz.path, &fuzz.spec, 0, &regions[i], NULL, NULL) ==
			   0);
		FUZZ_CHECK(berth_seat_claim(regions[i], 0, &seats[i], NULL, NULL) == 0);
		FUZZ_CHECK(berth_ledger_ask(seats[i], 0, BERTH_CHARGE_DATA, 4096) == 0);
	}
	FUZZ_CHECK(atexit(scratch_remove) == 0);
	fuzz.fd = open(fuzz.path, O_RDWR | O_CLOEXEC);
	fuzz.good = malloc(BERTH_LAYOUT_SIZE);
	FUZZ_CHECK(fuzz.fd >= 0 && fuzz.good != NULL);
	FUZZ_CHECK(pread(fuzz.fd, fuzz.good, BERTH_LAYOUT_SIZE, 0) == (ssize_t)BERTH_LAYOUT_SIZE);
	/* Their bytes stay in the good file. */
	for (int i = 0; i < 2; i++) {
		berth_seat_leave(seats[i]);
		berth_region_close(regions[i]);
	}
	fuzz.seat_fd = open(fuzz.path, O_RDWR | O_CLOEXEC);
	FUZZ_CHECK(fuzz.seat_fd >= 0);
}

/* Seat 0 is always dead. */
static void second_seat_live(bool alive)
{
	struct flock lock = {
		.l_type = alive ? F_WRLCK : F_UNLCK,
		.l_start = BERTH_LOCK_SEAT + 1,
		.l_len = 1,
	};

	FUZZ_CHECK(fcntl(fuzz.seat_fd, F_OFD_SETLK, &lock) == 0);
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

static void good_write(void)
{
	FUZZ_CHECK(pwrite(fuzz.fd, fuzz.good, BERTH_LAYOUT_SIZE, 0) == (ssize_t)BERTH_LAYOUT_SIZE);
	FUZZ_CHECK(ftruncate(fuzz.fd, (off_t)BERTH_LAYOUT_SIZE) == 0);
}

/* Changes a file that has at least its good size (or the change makes it so). */
static void changes_write(const uint8_t *data, size_t size)
{
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

/* By how much the file is longer or shorter: 24 bits, signed. */
static void size_change(const uint8_t *data)
{
	int32_t bytes = (int32_t)((uint32_t)data[0] << 8 | (uint32_t)data[1] << 16 |
				  (uint32_t)data[2] << 24) /
			256;
	off_t size = (off_t)BERTH_LAYOUT_SIZE + bytes;

	FUZZ_CHECK(ftruncate(fuzz.fd, size < 0 ? 0 : size) == 0);
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

static int finding_check(void *arg, const struct berth_finding *finding)
{
	uint32_t *count = arg;

	FUZZ_CHECK(finding->text != NULL && finding->text[0] != '\0');
	FUZZ_CHECK(finding->kind <= BERTH_FINDING_CLAMPED);
	FUZZ_CHECK(finding->seat >= -1 && finding->seat < BERTH_SEAT_MAX);
	FUZZ_CHECK(finding->gpu >= -1 && finding->gpu < BERTH_GPU_MAX);
	/* Per seat at most one of each kind and GPU, and as much for the whole. */
	FUZZ_CHECK(++*count <= 5 * (BERTH_SEAT_MAX + 1) * (BERTH_GPU_MAX + 1));
	for (const char *c = finding->text; *c != '\0'; c++)
		FUZZ_CHECK(*c >= ' ' && *c <= '~');
	return 0;
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
	uint32_t found_count = 0;
	(void)!berth_region_inspect(region, finding_check, &found_count);
	if (berth_region_check(region, &reason) < 0)
		FUZZ_CHECK(reason.text[0] != '\0');
	for (uint32_t i = 0; i < 4; i++)
		(void)!berth_seat_alive(region, i);
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
		berth_ledger_charge(seat, i, BERTH_CHARGE_CONTEXT, UINT64_MAX);
		berth_ledger_refund(seat, i, BERTH_CHARGE_CONTEXT, UINT64_MAX);
	}
	(void)!berth_seat_reap_all(region);
	berth_seat_leave(seat);
}

static void peek(void)
{
	char uuids[BERTH_GPU_MAX][BERTH_UUID_SIZE];
	struct berth_reason reason = { "" };
	uint32_t gpu_count = 0;

	if (berth_region_peek(fuzz.path, &gpu_count, uuids, &reason) < 0) {
		FUZZ_CHECK(reason.text[0] != '\0');
		return;
	}
	FUZZ_CHECK(gpu_count <= BERTH_GPU_MAX);
	for (uint32_t i = 0; i < BERTH_GPU_MAX; i++)
		FUZZ_CHECK(memchr(uuids[i], 0, BERTH_UUID_SIZE) != NULL);
}

/* Opens it in each way and does all that one can do. late: bytes of changes made after opening. */
static void use(const uint8_t *late, size_t late_size)
{
	static const struct {
		bool view, spec;
		unsigned flags;
	} ways[] = {
		{ true, false, 0 },
		{ false, false, 0 },
		{ false, true, 0 },
		{ false, true, BERTH_REGION_RENEW },
	};

	peek();
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		struct berth_reason reason = { "" };
		struct berth_region *region = NULL;
		int r = ways[i].view
				? berth_region_view(fuzz.path, &region, &reason)
				: berth_region_join(fuzz.path, ways[i].spec ? &fuzz.spec : NULL,
						    ways[i].flags, &region, NULL, &reason);
		if (r < 0) {
			FUZZ_CHECK(reason.text[0] != '\0');
			FUZZ_CHECK(region == NULL);
			continue;
		}
		changes_write(late, late_size);
		if (!ways[i].view)
			sit_and_ask(region);
		plain_questions(region);
		berth_region_close(region);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (fuzz.good == NULL)
		good_make();
	if (size == 0)
		return 0;
	uint8_t mode = *data++;
	size--;
	second_seat_live((mode & 8) == 0);
	if (mode & 1) {
		whole_write(data, size);
		use(NULL, 0);
		return 0;
	}
	good_write();
	if ((mode & 2) && size >= 3) {
		/* Then a change to what was cut off makes it longer again: with a hole. */
		size_change(data);
		data += 3;
		size -= 3;
	}
	if (mode & 4) {
		use(data, size);
	} else {
		changes_write(data, size);
		use(NULL, 0);
	}
	return 0;
}
