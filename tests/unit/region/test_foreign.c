/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign files where a region belongs, one table of them. Each is refused at once, by joining (with
 * a description and without) and by viewing, in words that say what it is and what to do, and is
 * afterwards what it was to the byte: contents, size, rights, times. A region whose figures are mad
 * but mean something is used within bounds. (What a program is told: tests/contract/foreign.sh.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "region/layout.h"
#include "region/ledger.h"
#include "region/snapshot.h"
#include "scratch.h"

enum {
	HAMI_SIZE = 2008952,
	SEAT_HIGH_AT = 2008896,
	TAIL_AT = 2031616,
	KEPT_BYTES = 4 << 20, /* compared of each file; the rest of the larger ones is a hole */
};

enum base { BASE_NONE, BASE_ZEROS, BASE_RANDOM, BASE_HAMI, BASE_OURS };

struct poke {
	off_t at;
	size_t size; /* 0 = none */
	uint64_t value;
};

struct foreign {
	const char *name;
	enum base base;
	off_t size; /* 0 of ours or HAMi's: as it is made */
	struct poke poke;
	int err;
	const char *words;
};

#define OURS_SIZE ((off_t)BERTH_LAYOUT_SIZE)
#define OLDER     "older format, or was cut short; end its programs, then remove it"
#define NO_REGION "not a region"
#define OTHER     "another implementation (or was cut short)"

static const struct foreign files[] = {
	{ "empty", BASE_NONE, 0, { 0 }, -EBADMSG, NO_REGION },
	{ "one byte", BASE_ZEROS, 1, { 0 }, -EBADMSG, NO_REGION },
	{ "a page of zeros", BASE_ZEROS, 4096, { 0 }, -EBADMSG, NO_REGION },
	{ "zeros, HAMi's size", BASE_ZEROS, HAMI_SIZE, { 0 }, -EBADMSG, "never completed" },
	{ "zeros, our size", BASE_ZEROS, OURS_SIZE, { 0 }, -EBADMSG, "never completed" },
	{ "zeros, huge", BASE_ZEROS, (off_t)1 << 40, { 0 }, -EBADMSG, "never completed" },
	{ "noise, a little", BASE_RANDOM, 100, { 0 }, -EBADMSG, NO_REGION },
	{ "noise, HAMi's size", BASE_RANDOM, HAMI_SIZE, { 0 }, -EBADMSG, NO_REGION },
	{ "noise, our size", BASE_RANDOM, OURS_SIZE, { 0 }, -EBADMSG, NO_REGION },

	{ "HAMi's mark alone", BASE_HAMI, 4, { 0 }, -EBADMSG, OLDER },
	{ "HAMi 0.x, small", BASE_HAMI, 197768, { 4, 8, 1ULL << 32 }, -EBADMSG, OLDER },
	{ "HAMi 0.x, a seat less", BASE_HAMI, HAMI_SIZE - 1960, { 0 }, -EBADMSG, OLDER },
	{ "HAMi, a byte less", BASE_HAMI, HAMI_SIZE - 1, { 0 }, -EBADMSG, OLDER },
	{ "HAMi's own", BASE_HAMI, HAMI_SIZE, { 0 }, -EPROTONOSUPPORT, OTHER },
	{ "HAMi's own and a byte", BASE_HAMI, HAMI_SIZE + 1, { 0 }, -EPROTONOSUPPORT, OTHER },
	{ "HAMi's, our size", BASE_HAMI, OURS_SIZE, { 0 }, -EPROTONOSUPPORT, OTHER },
	{ "HAMi's, without a mark",
	  BASE_HAMI,
	  HAMI_SIZE,
	  { 0, 4, 0 },
	  -EBADMSG,
	  "never completed" },
	{ "HAMi 1.1", BASE_HAMI, HAMI_SIZE, { 8, 4, 1 }, -EPROTONOSUPPORT, "format 1.1, this" },
	{ "HAMi 1.3", BASE_HAMI, HAMI_SIZE, { 8, 4, 3 }, -EPROTONOSUPPORT, "format 1.3, this" },

	{ "ours, 1.1", BASE_OURS, 0, { 8, 4, 1 }, -EPROTONOSUPPORT, "format 1.1, this" },
	{ "ours, 1.3", BASE_OURS, 0, { 8, 4, 3 }, -EPROTONOSUPPORT, "knows 1.2; end" },
	{ "ours, 0.2", BASE_OURS, 0, { 4, 4, 0 }, -EPROTONOSUPPORT, "format 0.2, this" },
	{ "ours, 2.2", BASE_OURS, 0, { 4, 4, 2 }, -EPROTONOSUPPORT, "format 2.2, this" },
	{ "ours, no mark", BASE_OURS, 0, { 0, 4, 0 }, -EBADMSG, "never completed" },
	{ "ours, no tail's mark", BASE_OURS, 0, { TAIL_AT, 8, 0 }, -EPROTONOSUPPORT, OTHER },
	{ "ours, another build's",
	  BASE_OURS,
	  0,
	  { TAIL_AT + 8, 8, 7 },
	  -EPROTONOSUPPORT,
	  "version" },
	{ "ours, 17 GPUs", BASE_OURS, 0, { 56, 8, 17 }, -EBADMSG, "damaged: it claims 17 GPUs" },
	{ "ours, 2^63 GPUs", BASE_OURS, 0, { 56, 8, 1ULL << 63 }, -EBADMSG, "damaged: it claims" },

	{ "ours, cut in the head", BASE_OURS, 1 << 20, { 0 }, -EBADMSG, OLDER },
	{ "ours, cut before HAMi's end", BASE_OURS, HAMI_SIZE - 8, { 0 }, -EBADMSG, OLDER },
	{ "ours, cut at HAMi's end", BASE_OURS, HAMI_SIZE, { 0 }, -EPROTONOSUPPORT, OTHER },
	{ "ours, cut in the gap", BASE_OURS, HAMI_SIZE + 4096, { 0 }, -EPROTONOSUPPORT, OTHER },
	{ "ours, cut at the tail", BASE_OURS, TAIL_AT, { 0 }, -EPROTONOSUPPORT, OTHER },
	{ "ours, cut in the signature", BASE_OURS, TAIL_AT + 15, { 0 }, -EPROTONOSUPPORT, OTHER },
	{ "ours, cut behind it",
	  BASE_OURS,
	  TAIL_AT + 16,
	  { 0 },
	  -EPROTONOSUPPORT,
	  "cut short, to" },
	{ "ours, cut in the ledger",
	  BASE_OURS,
	  OURS_SIZE / 2 + TAIL_AT / 2,
	  { 0 },
	  -EPROTONOSUPPORT,
	  "cut short, to" },
	{ "ours, a page less",
	  BASE_OURS,
	  OURS_SIZE - 4096,
	  { 0 },
	  -EPROTONOSUPPORT,
	  "cut short, to" },
	{ "ours, a byte less", BASE_OURS, OURS_SIZE - 1, { 0 }, -EPROTONOSUPPORT, "cut short, to" },
	{ "ours, a byte more",
	  BASE_OURS,
	  OURS_SIZE + 1,
	  { 0 },
	  -EPROTONOSUPPORT,
	  "made longer, to" },
	{ "ours, 64 KiB more",
	  BASE_OURS,
	  OURS_SIZE + 65536,
	  { 0 },
	  -EPROTONOSUPPORT,
	  "made longer" },
	{ "ours, huge", BASE_OURS, (off_t)1 << 40, { 0 }, -EPROTONOSUPPORT, "made longer, to" },
};

static void poke(const char *path, const struct poke *poke)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	if (poke->size)
		assert_int_equal(pwrite(fd, &poke->value, poke->size, poke->at),
				 (ssize_t)poke->size);
	assert_int_equal(close(fd), 0);
}

/* The same noise in each run. No mark is among its first bytes. */
static void noise_write(int fd, off_t size)
{
	static unsigned char bytes[65536];
	uint32_t random = 1;

	for (off_t at = 0; at < size; at += (off_t)sizeof bytes) {
		size_t n = size - at < (off_t)sizeof bytes ? (size_t)(size - at) : sizeof bytes;

		for (size_t i = 0; i < n; i++) {
			random = random * 1103515245 + 12345;
			bytes[i] = (unsigned char)(random >> 16);
		}
		assert_int_equal(pwrite(fd, bytes, n, at), (ssize_t)n);
	}
}

static void base_make(const char *path, const struct foreign *foreign)
{
	static const int32_t hami_marks[3] = { 19920718, 1, 2 };
	struct berth_region_spec spec = spec_of(MIB);

	if (foreign->base == BASE_OURS) {
		berth_region_close(join_or_fail(path, &spec));
	} else {
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);

		assert_true(fd >= 0);
		if (foreign->base == BASE_RANDOM)
			noise_write(fd, foreign->size);
		if (foreign->base == BASE_HAMI)
			assert_int_equal(pwrite(fd, hami_marks, sizeof hami_marks, 0),
					 sizeof hami_marks);
		assert_int_equal(close(fd), 0);
	}
	poke(path, &foreign->poke);
	if (foreign->size || foreign->base != BASE_OURS)
		assert_int_equal(truncate(path, foreign->size), 0);
}

struct look {
	struct stat st;
	size_t size;
	unsigned char *bytes;
};

/* What can be told of a file without changing it. */
static struct look look_at(const char *path)
{
	struct look look = { .bytes = malloc(KEPT_BYTES) };

	assert_non_null(look.bytes);
	assert_int_equal(lstat(path, &look.st), 0);
	if (S_ISREG(look.st.st_mode)) {
		int fd = open(path, O_RDONLY | O_NOATIME | O_CLOEXEC);
		ssize_t n = pread(fd, look.bytes, KEPT_BYTES, 0);

		assert_true(n >= 0);
		look.size = (size_t)n;
		assert_int_equal(close(fd), 0);
	}
	return look;
}

static void assert_untouched(const char *path, struct look *before)
{
	struct look now = look_at(path);

	assert_int_equal(now.st.st_ino, before->st.st_ino);
	assert_int_equal(now.st.st_mode, before->st.st_mode);
	assert_int_equal(now.st.st_uid, before->st.st_uid);
	assert_int_equal(now.st.st_size, before->st.st_size);
	assert_int_equal(now.st.st_blocks, before->st.st_blocks);
	assert_int_equal(now.st.st_nlink, before->st.st_nlink);
	assert_memory_equal(&now.st.st_mtim, &before->st.st_mtim, sizeof now.st.st_mtim);
	assert_memory_equal(&now.st.st_ctim, &before->st.st_ctim, sizeof now.st.st_ctim);
	assert_int_equal(now.size, before->size);
	assert_int_equal(memcmp(now.bytes, before->bytes, now.size), 0);
	free(now.bytes);
	free(before->bytes);
}

static void assert_told(const char *name, const char *path, const struct berth_reason *reason,
			const char *words)
{
	if (strstr(reason->text, path) && strstr(reason->text, words) &&
	    (strstr(reason->text, "remove it") || strstr(reason->text, "choose another path") ||
	     strstr(reason->text, "; name ")))
		return;
	fail_msg("%s: it said: %s", name, reason->text);
}

static void assert_refused(const char *name, const char *path, int err, const char *words)
{
	struct berth_region_spec spec = spec_of(MIB);
	struct berth_region *region = NULL;

	for (int i = 0; i < 3; i++) {
		struct berth_reason reason = { "" };
		int r = i == 2 ? berth_region_view(path, &region, &reason)
			       : berth_region_join(path, i ? NULL : &spec,
						   i ? 0 : BERTH_REGION_RENEW, &region, NULL,
						   &reason);

		if (r != err)
			fail_msg("%s: %s, not %s", name, strerror(-r), strerror(-err));
		assert_null(region);
		assert_told(name, path, &reason, words);
	}
}

static void test_files(void **state)
{
	struct scratch *scratch = *state;

	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		const struct foreign *foreign = &files[i];

		base_make(scratch->path, foreign);
		struct look before = look_at(scratch->path);
		assert_refused(foreign->name, scratch->path, foreign->err, foreign->words);
		assert_untouched(scratch->path, &before);
		assert_int_equal(unlink(scratch->path), 0);
	}
}

static int make_directory(const char *path)
{
	return mkdir(path, 0750);
}

static int make_fifo(const char *path)
{
	return mkfifo(path, 0640);
}

/* Nobody listens there, as after its server has died. */
static int make_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof address.sun_path)
		return -1;
	memcpy(address.sun_path, path, strlen(path));
	int r = bind(fd, (const struct sockaddr *)&address, sizeof address);
	return close(fd) < 0 ? -1 : r;
}

static int make_device(const char *path)
{
	return mknod(path, S_IFCHR | 0600,
		     makedev(1, 5)); /* as /dev/zero: endless, if it is read */
}

/* There is no such device: opening it would say so, looking at it says what it is. */
static int make_absent_device(const char *path)
{
	return mknod(path, S_IFBLK | 0600, makedev(511, 99999));
}

static int make_dangling_link(const char *path)
{
	return symlink("nowhere/at/all", path);
}

static int make_looped_link(const char *path)
{
	return symlink(path, path);
}

static int make_link_to_device(const char *path)
{
	return symlink("/dev/zero", path);
}

static void test_no_files(void **state)
{
	static const struct {
		const char *name;
		int (*make)(const char *path);
		int err;
		const char *words;
	} kinds[] = {
		{ "directory", make_directory, -EISDIR, "is a directory" },
		{ "FIFO", make_fifo, -EINVAL, "is a FIFO, not a regular file" },
		{ "socket", make_socket, -EINVAL, "is a socket, not a regular file" },
		{ "device", make_device, -EINVAL, "is a device, not a regular file" },
		{ "absent device", make_absent_device, -EINVAL, "is a device, not" },
		{ "dangling link", make_dangling_link, -ELOOP, "is a symbolic link" },
		{ "looped link", make_looped_link, -ELOOP, "is a symbolic link" },
		{ "link to a device", make_link_to_device, -ELOOP, "is a symbolic link" },
	};
	struct scratch *scratch = *state;

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (kinds[i].make(scratch->path) < 0) {
			print_message("%s: can't be made here: left out\n", kinds[i].name);
			continue;
		}
		struct look before = look_at(scratch->path);
		assert_refused(kinds[i].name, scratch->path, kinds[i].err, kinds[i].words);
		assert_untouched(scratch->path, &before);
		assert_int_equal(remove(scratch->path), 0);
	}
}

/* Joins, takes a seat, asks, looks and leaves: everything ends, within the file's bounds. */
static void assert_usable(const char *path, int ask_result)
{
	struct berth_region *region = join_or_fail(path, NULL);
	struct berth_seat *seat = claim_or_fail(region);
	struct berth_snapshot *taken = NULL;
	struct berth_reason reason = { "" };

	assert_true(berth_seat_index(seat) < BERTH_SEAT_MAX);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, MIB), ask_result);
	assert_int_equal(berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken), 0);
	assert_true(taken->seat_count >= 1 && taken->seat_count <= BERTH_SEAT_MAX);
	assert_non_null(memchr(taken->share_name, '\0', sizeof taken->share_name));
	assert_non_null(memchr(taken->gpus[0].gpu.uuid, '\0', BERTH_UUID_SIZE));
	assert_true(taken->gpus[0].gpu.compute_limit_pct <= 100);
	berth_snapshot_free(taken);
	(void)!berth_region_check(region, &reason); /* whatever it finds, it ends */
	berth_seat_leave(seat);
	berth_region_close(region);
}

static void test_mad_figures(void **state)
{
	static const struct {
		const char *name;
		struct poke poke;
		int ask_result;
	} mad[] = {
		{ "no GPU", { 56, 8, 0 }, -EINVAL },
		{ "limit of 1 byte", { 1600, 8, 1 }, -ENOMEM },
		{ "limit of 2^64 - 1", { 1600, 8, UINT64_MAX }, 0 },
		{ "compute limit of 2^64 - 1", { 1728, 8, UINT64_MAX }, 0 },
		{ "cursor of 2^64 - 1",
		  { TAIL_AT + offsetof(struct berth_layout_tail, cursor), 8, UINT64_MAX },
		  0 },
		{ "change counter at its end",
		  { TAIL_AT + offsetof(struct berth_layout_tail, limit_change_count), 8,
		    UINT64_MAX },
		  0 },
		{ "a dead seat's generation at its end",
		  { TAIL_AT + offsetof(struct berth_layout_tail, generation), 8, UINT64_MAX },
		  0 },
	};
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);

	for (size_t i = 0; i < sizeof mad / sizeof mad[0]; i++) {
		berth_region_close(join_or_fail(scratch->path, &spec));
		poke(scratch->path, &mad[i].poke);
		if (mad[i].poke.at == 56) {
			/* Nothing to ask for or to see: only that it ends. */
			struct berth_region *region = join_or_fail(scratch->path, NULL);
			struct berth_seat *seat = claim_or_fail(region);

			assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, MIB),
					 -EINVAL);
			berth_seat_leave(seat);
			berth_region_close(region);
		} else {
			assert_usable(scratch->path, mad[i].ask_result);
		}
		assert_int_equal(unlink(scratch->path), 0);
	}
}

/* Mad seats: refused to who would sit down, shown to who looks, and left as they are by both. */
static void test_mad_seats(void **state)
{
	static const uint32_t highs[] = { UINT32_MAX, 0x80000000, BERTH_SEAT_MAX + 1, 2000,
					  0x7fffffff };
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);

	berth_region_close(join_or_fail(scratch->path, &spec));
	for (size_t i = 0; i < sizeof highs / sizeof highs[0]; i++) {
		struct berth_region *region = NULL;
		struct berth_snapshot *taken = NULL;
		struct berth_reason reason = { "" };

		poke(scratch->path, &(struct poke){ SEAT_HIGH_AT, 4, highs[i] });
		struct look before = look_at(scratch->path);
		assert_int_equal(berth_region_join(scratch->path, &spec, 0, &region, NULL, &reason),
				 -EBADMSG);
		assert_told("mad seats", scratch->path, &reason, "damaged: it claims");
		assert_int_equal(berth_region_view(scratch->path, &region, NULL), 0);
		assert_int_equal(berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken), 0);
		assert_int_equal(taken->seat_count, 0);
		assert_int_equal(berth_region_check(region, &reason), -EUCLEAN);
		berth_snapshot_free(taken);
		berth_region_close(region);
		assert_untouched(scratch->path, &before);
	}
}

/* Texts without an end, up to the last byte of their field. */
static void test_endless_texts(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	static char text[16 * 96];

	memset(text, 'x', sizeof text);
	berth_region_close(join_or_fail(scratch->path, &spec));
	int fd = open(scratch->path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(fd, text, sizeof text, 64), sizeof text);
	assert_int_equal(pwrite(fd, text, BERTH_SHARE_NAME_MAX,
				TAIL_AT + (off_t)offsetof(struct berth_layout_tail, share_name)),
			 BERTH_SHARE_NAME_MAX);
	assert_int_equal(close(fd), 0);
	assert_usable(scratch->path, 0);
	struct berth_region *region = join_or_fail(scratch->path, NULL);
	assert_int_equal(strlen(berth_region_share_name(region)), BERTH_SHARE_NAME_MAX - 1);
	assert_int_equal(berth_region_gpu_find(region, GPU_A), -ENODEV);
	berth_region_close(region);
	/* Who brings limits for a GPU that isn't there is refused, with its name. */
	struct berth_reason reason = { "" };
	assert_int_equal(berth_region_join(scratch->path, &spec, 0, &region, NULL, &reason),
			 -ENODEV);
	assert_told("endless texts", scratch->path, &reason, GPU_A);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_files),     TEST(test_no_files),      TEST(test_mad_figures),
		TEST(test_mad_seats), TEST(test_endless_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
