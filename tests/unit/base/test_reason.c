/* SPDX-License-Identifier: Apache-2.0
 *
 * Reasons: the first one stays, long ones are cut, errno is kept.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/reason.h"

static void test_first_one_stays(void **state)
{
	struct berth_reason reason = { "" };

	(void)state;
	errno = ENOTTY;
	assert_int_equal(berth_reason_set(&reason, -EPERM, "%s: %d", "the cause", 7), -EPERM);
	assert_string_equal(reason.text, "the cause: 7");
	assert_int_equal(berth_reason_set(&reason, -EIO, "what followed"), -EIO);
	assert_string_equal(reason.text, "the cause: 7");
	assert_int_equal(errno, ENOTTY);
}

static void test_nobody_is_interested(void **state)
{
	(void)state;
	assert_int_equal(berth_reason_set(NULL, -EIO, "text"), -EIO);
}

static void test_long_ones_are_cut(void **state)
{
	struct berth_reason reason = { "" };
	char text[2 * BERTH_REASON_MAX];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(berth_reason_set(&reason, -EIO, "%s", text), -EIO);
	assert_int_equal(strlen(reason.text), BERTH_REASON_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_one_stays),
		cmocka_unit_test(test_nobody_is_interested),
		cmocka_unit_test(test_long_ones_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
