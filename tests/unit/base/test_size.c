/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, percentages and durations: tables of texts and exact results.
 */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/size.h"

#define KI (1ULL << 10)
#define MI (1ULL << 20)
#define GI (1ULL << 30)
#define TI (1ULL << 40)
#define PI (1ULL << 50)

#define UNTOUCHED 0x5a5a5a5aU

struct row {
	const char *text;
	int err;
	uint64_t value;
};

static const struct row sizes[] = {
	{ "512M", 0, 512 * MI },
	{ "8G", 0, 8 * GI },
	{ "8GiB", 0, 8 * GI },
	{ "0.5G", 0, 512 * MI },
	{ "08G", 0, 8 * GI },
	{ "010", 0, 10 },
	{ "1048576", 0, MI },
	{ "4Gi", 0, 4 * GI },
	{ "4GB", 0, 4 * GI },
	{ "4G ", 0, 4 * GI },
	{ " 4 G\n", 0, 4 * GI },
	{ "\t4g\r\n", 0, 4 * GI },
	{ "4gib", 0, 4 * GI },
	{ "4Gb", 0, 4 * GI },
	{ "1K", 0, KI },
	{ "1k", 0, KI },
	{ "3T", 0, 3 * TI },
	{ "2P", 0, 2 * PI },
	{ "17B", 0, 17 },
	{ "0", 0, 0 },
	{ "0m", 0, 0 },
	{ "0.0G", 0, 0 },
	{ "1.5K", 0, 1536 },
	/* Rounded down: 0.1 * 1024 = 102.4. */
	{ "0.1K", 0, 102 },
	{ "0.999999999999999999999999999999K", 0, 1023 },
	/* 1/1024 exactly, and the smallest step below it that ten figures can write. */
	{ "1.0009765625K", 0, 1025 },
	{ "1.0009765624K", 0, 1024 },
	/* 50 figures: one PiB less one byte, and one byte more than half of it. */
	{ "0.99999999999999911182158029987476766109466552734375P", 0, PI - 1 },
	{ "9223372036854775807", 0, INT64_MAX },
	{ "8191.9P", 0, 9223259446864091545ULL },

	{ "", -EINVAL, 0 },
	{ " ", -EINVAL, 0 },
	{ "-1", -EINVAL, 0 },
	{ "+1", -EINVAL, 0 },
	{ "- 1G", -EINVAL, 0 },
	{ "50%", -EINVAL, 0 },
	{ "abc", -EINVAL, 0 },
	{ "1e", -EINVAL, 0 },
	{ "1e9", -EINVAL, 0 },
	{ "1E", -EINVAL, 0 },
	{ "0x10", -EINVAL, 0 },
	{ "G", -EINVAL, 0 },
	{ ".5G", -EINVAL, 0 },
	{ "5.G", -EINVAL, 0 },
	{ "1.2.3G", -EINVAL, 0 },
	{ "1,5G", -EINVAL, 0 },
	{ "1.5", -EINVAL, 0 },
	{ "0.5B", -EINVAL, 0 },
	{ "8GG", -EINVAL, 0 },
	{ "8GiBx", -EINVAL, 0 },
	{ "8Bi", -EINVAL, 0 },
	{ "8i", -EINVAL, 0 },
	{ "8 G i", -EINVAL, 0 },
	{ "8G 2", -EINVAL, 0 },
	{ "8\xc2\xa0G", -EINVAL, 0 },
	{ "inf", -EINVAL, 0 },
	{ "nan", -EINVAL, 0 },
	{ "none", -EINVAL, 0 },
	{ "99999999999999999999999999z", -EINVAL, 0 },

	{ "99999999999999G", -ERANGE, 0 },
	{ "9223372036854775808", -ERANGE, 0 },
	{ "18446744073709551616", -ERANGE, 0 },
	{ "18446744073709551615", -ERANGE, 0 },
	{ "8192P", -ERANGE, 0 },
	/* Would wrap to 2 GiB. */
	{ "17179869186G", -ERANGE, 0 },
	/* Less than a byte must not become "none". */
	{ "0.0001K", -ERANGE, 0 },
	{ "0.00000000001G", -ERANGE, 0 },
};

static void test_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(sizes); i++) {
		uint64_t bytes = UNTOUCHED;
		int err = berth_size_parse(sizes[i].text, &bytes);
		uint64_t expected = sizes[i].err == 0 ? sizes[i].value : UNTOUCHED;

		if (err != sizes[i].err || bytes != expected)
			fail_msg("\"%s\": %d, %" PRIu64 "; expected %d, %" PRIu64, sizes[i].text,
				 err, bytes, sizes[i].err, expected);
	}
}

static void test_sizes_in_a_locale_with_commas(void **state)
{
	uint64_t bytes = 0;

	(void)state;
	if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL)
		print_message("no German locale here: the C locale stands in\n");
	assert_int_equal(berth_size_parse("0.5G", &bytes), 0);
	assert_int_equal(bytes, 512 * MI);
	assert_int_equal(berth_size_parse("0,5G", &bytes), -EINVAL);
	setlocale(LC_ALL, "C");
}

/* Every whole number of a unit, against plain multiplication. */
static void test_sizes_of_whole_numbers(void **state)
{
	static const char *const units[] = { "", "K", "M", "G", "T", "P" };
	char text[64];

	(void)state;
	for (unsigned unit = 0; unit < BERTH_ARRAY_LEN(units); unit++) {
		for (uint64_t n = 1; n < 8192; n += 37) {
			uint64_t bytes = 0;

			snprintf(text, sizeof(text), "%" PRIu64 "%s", n, units[unit]);
			assert_int_equal(berth_size_parse(text, &bytes), 0);
			assert_true(bytes == n << (10 * unit));
		}
	}
}

static const struct row percents[] = {
	{ "30", 0, 30 },
	{ "30%", 0, 30 },
	{ " 30 % ", 0, 30 },
	{ "1", 0, 1 },
	{ "100", 0, 100 },
	{ "007", 0, 7 },
	{ "0", -ERANGE, 0 },
	{ "101", -ERANGE, 0 },
	{ "99999999999999999999", -ERANGE, 0 },
	{ "4294967297", -ERANGE, 0 },
	{ "", -EINVAL, 0 },
	{ "-1", -EINVAL, 0 },
	{ "1.5", -EINVAL, 0 },
	{ "30%%", -EINVAL, 0 },
	{ "%", -EINVAL, 0 },
	{ "30 percent", -EINVAL, 0 },
	{ "30G", -EINVAL, 0 },
	{ "half", -EINVAL, 0 },
};

static void test_percents(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(percents); i++) {
		uint32_t pct = UNTOUCHED;
		int err = berth_percent_parse(percents[i].text, &pct);
		uint64_t expected = percents[i].err == 0 ? percents[i].value : UNTOUCHED;

		if (err != percents[i].err || pct != expected)
			fail_msg("\"%s\": %d, %u", percents[i].text, err, pct);
	}
}

static const struct row durations[] = {
	{ "30s", 0, 30 * BERTH_NS_PER_S },
	{ "30", 0, 30 * BERTH_NS_PER_S },
	{ "500ms", 0, 500 * BERTH_NS_PER_MS },
	{ "50us", 0, 50 * BERTH_NS_PER_US },
	{ "2m", 0, 120 * BERTH_NS_PER_S },
	{ "1h", 0, 3600 * BERTH_NS_PER_S },
	{ "1.5h", 0, 5400 * BERTH_NS_PER_S },
	{ "0.1", 0, 100 * BERTH_NS_PER_MS },
	{ " 2 s ", 0, 2 * BERTH_NS_PER_S },
	{ "0", 0, 0 },
	{ "0.0000000001s", -ERANGE, 0 },
	{ "9223372037s", -ERANGE, 0 },
	{ "9223372036s", 0, 9223372036 * BERTH_NS_PER_S },
	{ "", -EINVAL, 0 },
	{ "-1s", -EINVAL, 0 },
	{ "1S", -EINVAL, 0 },
	{ "1M", -EINVAL, 0 },
	{ "5 min", -EINVAL, 0 },
	{ "1m30s", -EINVAL, 0 },
	{ "forever", -EINVAL, 0 },
};

static void test_durations(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(durations); i++) {
		uint64_t ns = UNTOUCHED;
		int err = berth_duration_parse(durations[i].text, &ns);
		uint64_t expected = durations[i].err == 0 ? durations[i].value : UNTOUCHED;

		if (err != durations[i].err || ns != expected)
			fail_msg("\"%s\": %d, %" PRIu64, durations[i].text, err, ns);
	}
}

static void test_format(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} rows[] = {
		{ 0, "0 B" },
		{ 17, "17 B" },
		{ 999, "999 B" },
		{ 1000, "0.98 KiB" },
		{ 1023, "1 KiB" },
		{ KI, "1 KiB" },
		{ 1536, "1.5 KiB" },
		{ 1034, "1.01 KiB" },
		{ 600 * MI, "600 MiB" },
		{ 999 * MI, "999 MiB" },
		{ 1000 * MI, "0.98 GiB" },
		{ 3 * GI / 2, "1.5 GiB" },
		{ 8 * GI, "8 GiB" },
		{ 8 * GI - 1, "8 GiB" },
		{ 10 * GI + GI / 4, "10.3 GiB" },
		{ 123 * TI + TI / 2, "124 TiB" },
		{ INT64_MAX, "8 EiB" },
		{ UINT64_MAX, "16 EiB" },
	};

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		char buf[BERTH_SIZE_TEXT_MAX];

		assert_ptr_equal(berth_size_format(rows[i].bytes, buf), buf);
		assert_string_equal(buf, rows[i].text);
	}
}

/* What is shown can be typed in again, and is within half of the third figure. */
static void test_format_reads_back(void **state)
{
	(void)state;
	for (uint64_t bytes = 1; bytes < INT64_MAX / 8; bytes += bytes / 7 + 1) {
		char buf[BERTH_SIZE_TEXT_MAX];
		uint64_t back = 0;

		assert_int_equal(berth_size_parse(berth_size_format(bytes, buf), &back), 0);
		if ((back > bytes ? back - bytes : bytes - back) > bytes / 190)
			fail_msg("%" PRIu64 " shown as %s", bytes, buf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_sizes_in_a_locale_with_commas),
		cmocka_unit_test(test_sizes_of_whole_numbers),
		cmocka_unit_test(test_percents),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_format_reads_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
