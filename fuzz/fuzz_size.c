/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, percentages and durations of any text: what is accepted is in range, means the same with
 * blanks around it, and can be shown and read again.
 */
#include "fuzz.h"

#include <string.h>

#include "base/log.h"
#include "base/size.h"

#define UNTOUCHED 0x5a5a5a5a5a5a5a5aULL

static void size_check(const char *text, const char *padded)
{
	uint64_t bytes = UNTOUCHED;
	uint64_t again = UNTOUCHED;
	char shown[BERTH_SIZE_TEXT_MAX];
	int err = berth_size_parse(text, &bytes);

	FUZZ_CHECK(berth_size_parse(padded, &again) == err && again == bytes);
	if (err < 0) {
		FUZZ_CHECK(bytes == UNTOUCHED);
		return;
	}
	FUZZ_CHECK(bytes <= INT64_MAX);
	/* No sign, no percentage, no exponent ever got through. */
	FUZZ_CHECK(strpbrk(text, "-+%eE") == NULL);
	/* Zero only from a text without any other figure: never by rounding. */
	FUZZ_CHECK((bytes == 0) == (strpbrk(text, "123456789") == NULL));
	FUZZ_CHECK(strlen(berth_size_format(bytes, shown)) < sizeof(shown));
	if (bytes < 1ULL << 59)
		FUZZ_CHECK(berth_size_parse(shown, &again) == 0);
}

static void percent_check(const char *text, const char *padded)
{
	uint32_t pct = 0x5a5a5a5a;
	uint32_t again = 0x5a5a5a5a;
	int err = berth_percent_parse(text, &pct);

	FUZZ_CHECK(berth_percent_parse(padded, &again) == err && again == pct);
	FUZZ_CHECK(err < 0 ? pct == 0x5a5a5a5a : pct >= 1 && pct <= 100);
}

static void duration_check(const char *text, const char *padded)
{
	uint64_t ns = UNTOUCHED;
	uint64_t again = UNTOUCHED;
	int err = berth_duration_parse(text, &ns);

	FUZZ_CHECK(berth_duration_parse(padded, &again) == err && again == ns);
	FUZZ_CHECK(err < 0 ? ns == UNTOUCHED : ns <= INT64_MAX);
}

static void escape_check(const char *text)
{
	char escaped[64];
	size_t length = berth_text_escape(escaped, sizeof(escaped), text);

	FUZZ_CHECK(length < sizeof(escaped) && strlen(escaped) == length);
	for (size_t i = 0; i < length; i++)
		FUZZ_CHECK((unsigned char)escaped[i] >= 0x20 && escaped[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[512];
	char padded[520];

	if (size >= sizeof(text))
		size = sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	snprintf(padded, sizeof(padded), " \t%s \n", text);
	size_check(text, padded);
	percent_check(text, padded);
	duration_check(text, padded);
	escape_check(text);
	return 0;
}
