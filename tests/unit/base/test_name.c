/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that become file names.
 */
#include "base/name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/attributes.h"

static void test_names(void **state)
{
	static const char *const good[] = { "a",  "team-a", "A.b_c-9",      "0",
					    "_x", "a..b",   "python3@4711", "c++" };
	static const char *const bad[] = { "",     ".",   "..",  ".hidden", "a/b",   "/",
					   "../x", "a b", "a\n", "a\\",     "a\x7f", "\xc3\xa9",
					   "a:b",  "a,b", "a=b", "a%b",     "a*",    "$a" };

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(good); i++)
		assert_true(berth_name_valid(good[i]));
	for (size_t i = 0; i < BERTH_ARRAY_LEN(bad); i++)
		assert_false(berth_name_valid(bad[i]));
}

static void test_length(void **state)
{
	char name[BERTH_NAME_MAX + 1];

	(void)state;
	memset(name, 'n', sizeof(name));
	name[BERTH_NAME_MAX] = '\0';
	assert_false(berth_name_valid(name));
	name[BERTH_NAME_MAX - 1] = '\0';
	assert_true(berth_name_valid(name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
