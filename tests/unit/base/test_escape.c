/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of other processes, made harmless for a terminal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"

static void test_escape(void **state)
{
	static const struct {
		const char *src;
		const char *dst;
	} rows[] = {
		{ "", "" },
		{ "plain text, 100 %\\", "plain text, 100 %\\" },
		{ "\x01\x1f\x7f\t\n", "\\x01\\x1f\\x7f\\x09\\x0a" },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
		/* C1 controls, cut sequences, overlong forms, surrogates, beyond Unicode. */
		{ "\xc2\x9b"
		  "1m",
		  "\\xc2\\x9b1m" },
		{ "\xc2\xa0", "\xc2\xa0" },
		{ "\x9b", "\\x9b" },
		{ "\xc3", "\\xc3" },
		{ "\xc3z", "\\xc3z" },
		{ "\xe2\x82", "\\xe2\\x82" },
		{ "\xc0\xaf", "\\xc0\\xaf" },
		{ "\xe0\x80\xaf", "\\xe0\\x80\\xaf" },
		{ "\xf0\x80\x80\xaf", "\\xf0\\x80\\x80\\xaf" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },
		{ "\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80" },
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },
		{ "\xff\xfe", "\\xff\\xfe" },
	};
	char dst[128];

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		assert_int_equal(berth_text_escape(dst, sizeof(dst), rows[i].src),
				 strlen(rows[i].dst));
		assert_string_equal(dst, rows[i].dst);
	}
}

static void test_escape_cuts_between_characters(void **state)
{
	static const char src[] = "a\xc3\xa9\x01\xe2\x82\xac";
	/* For sizes from 1: what fits whole. */
	static const char *const expected[] = {
		"",
		"a",
		"a",
		"a\xc3\xa9",
		"a\xc3\xa9",
		"a\xc3\xa9",
		"a\xc3\xa9",
		"a\xc3\xa9\\x01",
		"a\xc3\xa9\\x01",
		"a\xc3\xa9\\x01",
		"a\xc3\xa9\\x01\xe2\x82\xac",
	};

	(void)state;
	for (size_t size = 1; size <= BERTH_ARRAY_LEN(expected); size++) {
		char dst[32];

		memset(dst, '#', sizeof(dst));
		assert_int_equal(berth_text_escape(dst, size, src), strlen(expected[size - 1]));
		assert_string_equal(dst, expected[size - 1]);
		assert_int_equal(dst[size], '#');
	}
	assert_int_equal(berth_text_escape(NULL, 0, src), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_escape_cuts_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
