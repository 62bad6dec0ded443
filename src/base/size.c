/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, percentages and durations as people write them. A text is first split into figures,
 * fraction and unit; only then does anything become a number, so that a wrong word is told from a
 * number that is too large. Whole-number arithmetic all the way: no rounding but down, no locale.
 */
#include "base/size.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

const char berth_size_hint[] = "a size such as 512M, 8G, 8GiB, 0.5G or plain bytes";
const char berth_percent_hint[] = "a percentage from 1 to 100, such as 30 or 30%";
const char berth_duration_hint[] = "a duration such as 500ms, 30s, 2m, 1h or plain seconds";

/* A text in its parts; none is terminated. */
struct number {
	const char *whole;
	size_t whole_length; /* >= 1 */
	const char *fraction;
	size_t fraction_length; /* 0 = no point */
	const char *unit;
	size_t unit_length;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t figures_length(const char *text)
{
	return strspn(text, "0123456789");
}

/* [blanks] figures [. figures] [blanks] [unit] [blanks] */
static int number_split(const char *text, struct number *ret_number)
{
	struct number n = { 0 };

	while (is_blank(*text))
		text++;
	n.whole = text;
	n.whole_length = figures_length(text);
	if (n.whole_length == 0)
		return -EINVAL;
	text += n.whole_length;
	if (*text == '.') {
		n.fraction = ++text;
		n.fraction_length = figures_length(text);
		if (n.fraction_length == 0)
			return -EINVAL;
		text += n.fraction_length;
	}
	while (is_blank(*text))
		text++;
	n.unit = text;
	n.unit_length = strlen(text);
	while (n.unit_length > 0 && is_blank(n.unit[n.unit_length - 1]))
		n.unit_length--;
	*ret_number = n;
	return 0;
}

static bool number_is_zero(const struct number *n)
{
	for (size_t i = 0; i < n->whole_length; i++) {
		if (n->whole[i] != '0')
			return false;
	}
	for (size_t i = 0; i < n->fraction_length; i++) {
		if (n->fraction[i] != '0')
			return false;
	}
	return true;
}

/* The number times factor (at most 2^60), rounded down, exactly however many figures there are.
 * -ERANGE above 2^63-1, and for a number that isn't zero but would round to it: zero often means
 * "no limit", and nobody gets that by asking for little. */
static int number_scale(const struct number *n, uint64_t factor, uint64_t *ret_value)
{
	uint64_t value = 0;
	uint64_t carry = 0;

	for (size_t i = 0; i < n->whole_length; i++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(n->whole[i] - '0'), &value))
			return -ERANGE;
	}
	/* The fraction by long multiplication, last figure first: what is carried out of the first
	 * one is the whole part of fraction * factor. */
	for (size_t i = n->fraction_length; i > 0; i--)
		carry = (carry + (uint64_t)(n->fraction[i - 1] - '0') * factor) / 10;
	if (__builtin_mul_overflow(value, factor, &value) ||
	    __builtin_add_overflow(value, carry, &value) || value > INT64_MAX)
		return -ERANGE;
	if (value == 0 && !number_is_zero(n))
		return -ERANGE;
	*ret_value = value;
	return 0;
}

/* "", "B", or a letter with nothing, i, B or iB behind it; 0 if it is none of these. */
static uint64_t size_factor(const struct number *n)
{
	static const char letters[] = "KkMmGgTtPp";
	static const char *const tails[] = { "", "i", "B", "iB" };
	const char *letter = NULL;

	if (n->unit_length == 0 || (n->unit_length == 1 && strncasecmp(n->unit, "B", 1) == 0))
		return 1;
	letter = memchr(letters, n->unit[0], sizeof(letters) - 1);
	if (letter == NULL)
		return 0;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(tails); i++) {
		if (strlen(tails[i]) == n->unit_length - 1 &&
		    strncasecmp(tails[i], n->unit + 1, n->unit_length - 1) == 0)
			return 1ULL << (10 * ((letter - letters) / 2 + 1));
	}
	return 0;
}

int berth_size_parse(const char *text, uint64_t *ret_bytes)
{
	struct number n;
	uint64_t factor = 0;
	int err = number_split(text, &n);

	if (err < 0)
		return err;
	factor = size_factor(&n);
	/* A fraction of a byte is a forgotten unit. */
	if (factor == 0 || (factor == 1 && n.fraction_length > 0))
		return -EINVAL;
	return number_scale(&n, factor, ret_bytes);
}

int berth_percent_parse(const char *text, uint32_t *ret_pct)
{
	struct number n;
	uint64_t pct = 0;
	int err = number_split(text, &n);

	if (err < 0)
		return err;
	if (n.fraction_length > 0 ||
	    !(n.unit_length == 0 || (n.unit_length == 1 && n.unit[0] == '%')))
		return -EINVAL;
	err = number_scale(&n, 1, &pct);
	if (err < 0)
		return err;
	if (pct < 1 || pct > 100)
		return -ERANGE;
	*ret_pct = (uint32_t)pct;
	return 0;
}

int berth_duration_parse(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		uint64_t factor_ns;
	} units[] = {
		{ "", BERTH_NS_PER_S },       { "s", BERTH_NS_PER_S },
		{ "ms", BERTH_NS_PER_MS },    { "us", BERTH_NS_PER_US },
		{ "m", 60 * BERTH_NS_PER_S }, { "h", 3600 * BERTH_NS_PER_S },
	};
	struct number n;
	int err = number_split(text, &n);

	if (err < 0)
		return err;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(units); i++) {
		if (strlen(units[i].name) == n.unit_length &&
		    memcmp(units[i].name, n.unit, n.unit_length) == 0)
			return number_scale(&n, units[i].factor_ns, ret_ns);
	}
	return -EINVAL;
}

const char *berth_size_format(uint64_t bytes, char *buf)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned __int128 one = 1; /* of the unit, in bytes */
	unsigned __int128 scale = 1;
	size_t unit = 0;
	int decimals = 0;
	unsigned scaled;
	unsigned fraction;
	char text[64] = "";

	/* Up to the unit in which three figures suffice: 999 MiB, but 0.98 GiB for 1000 MiB. */
	while (unit + 1 < BERTH_ARRAY_LEN(units) && bytes + one / 2 >= 1000 * one) {
		one <<= 10;
		unit++;
	}
	while (decimals < 2 && unit > 0 && bytes * scale * 10 < 1000 * one) {
		scale *= 10;
		decimals++;
	}
	scaled = (unsigned)((bytes * scale + one / 2) / one);
	fraction = scaled % (unsigned)scale;
	/* No zeros at the end: 1.5, not 1.50. */
	while (decimals > 0 && fraction % 10 == 0) {
		fraction /= 10;
		decimals--;
	}
	if (decimals > 0)
		(void)snprintf(text, sizeof(text), "%u.%0*u %s", scaled / (unsigned)scale, decimals,
			       fraction, units[unit]);
	else
		(void)snprintf(text, sizeof(text), "%u %s", scaled / (unsigned)scale, units[unit]);
	/* At most "0.98 KiB": it fits. */
	memcpy(buf, text, BERTH_SIZE_TEXT_MAX);
	return buf;
}
