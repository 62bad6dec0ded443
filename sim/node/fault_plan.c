/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser of fault plans; fault.h has the grammar. It takes nothing on trust: a number with
 * anything behind it, a second value for one option, a rule without an effect are all refused.
 */
#include "sim/node/fault_plan.h"
#include "sim/node/fault.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A part of the text, blanks at both ends cut off. */
struct span {
	const char *at;
	size_t len;
};

static struct span trim(const char *at, size_t len)
{
	while (len && isspace((unsigned char)*at)) {
		at++;
		len--;
	}
	while (len && isspace((unsigned char)at[len - 1]))
		len--;
	return (struct span){ at, len };
}

static bool span_is(struct span s, const char *word)
{
	return s.len == strlen(word) && memcmp(s.at, word, s.len) == 0;
}

/* Digits only; *ret_rest is what follows them. */
static int parse_number(struct span s, uint64_t *ret_value, struct span *ret_rest)
{
	uint64_t value = 0;
	size_t i;

	for (i = 0; i < s.len && isdigit((unsigned char)s.at[i]); i++) {
		if (__builtin_mul_overflow(value, 10U, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(s.at[i] - '0'), &value))
			return -ERANGE;
	}
	if (i == 0)
		return -EINVAL;
	*ret_value = value;
	*ret_rest = (struct span){ s.at + i, s.len - i };
	return 0;
}

static int parse_count(struct span s, uint64_t *ret_value)
{
	struct span rest;
	uint64_t value;

	if (parse_number(s, &value, &rest) || rest.len || value == 0)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

static int parse_code(struct span s, int *ret_code)
{
	struct span rest;
	uint64_t value;

	if (parse_number(s, &value, &rest) || rest.len || value == 0 || value > 9999)
		return -EINVAL;
	*ret_code = (int)value;
	return 0;
}

static int parse_time(struct span s, uint64_t *ret_ns)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
	struct span rest;
	uint64_t value;

	if (parse_number(s, &value, &rest))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!span_is(rest, units[i].unit))
			continue;
		return __builtin_mul_overflow(value, units[i].ns, ret_ns) ? -ERANGE : 0;
	}
	return -EINVAL;
}

static int parse_kill(struct sim_fault_rule *rule, struct span value)
{
	if (span_is(value, "before"))
		rule->kills_before = true;
	else if (span_is(value, "after"))
		rule->kills_after = true;
	else
		return -EINVAL;
	return 0;
}

static int parse_nth(struct sim_fault_rule *rule, struct span value)
{
	int err = parse_count(value, &rule->from);

	if (!err)
		rule->count = 1;
	return err;
}

static int parse_fail(struct sim_fault_rule *rule, struct span value)
{
	rule->fails = true;
	return parse_code(value, &rule->code);
}

static int parse_option(struct sim_fault_rule *rule, struct span option)
{
	const char *equals = memchr(option.at, '=', option.len);
	struct span key = option;
	struct span value = { option.at + option.len, 0 };

	if (equals) {
		size_t key_len = (size_t)(equals - option.at);

		key = trim(option.at, key_len);
		value = trim(equals + 1, option.len - key_len - 1);
	}
	if (span_is(key, "block") && !equals) {
		rule->blocks = true;
		return 0;
	}
	if (span_is(key, "fail"))
		return parse_fail(rule, value);
	if (span_is(key, "sleep"))
		return parse_time(value, &rule->sleep_ns);
	if (span_is(key, "linger"))
		return parse_time(value, &rule->linger_ns);
	if (span_is(key, "kill"))
		return parse_kill(rule, value);
	if (span_is(key, "nth"))
		return parse_nth(rule, value);
	if (span_is(key, "from"))
		return parse_count(value, &rule->from);
	if (span_is(key, "count"))
		return parse_count(value, &rule->count);
	return -EINVAL;
}

static int parse_name(struct sim_fault_rule *rule, struct span name, sim_fault_knows knows)
{
	if (name.len == 0 || name.len >= sizeof(rule->pattern))
		return -EINVAL;
	memcpy(rule->pattern, name.at, name.len);
	rule->pattern[name.len] = '\0';
	return knows(rule->pattern) ? 0 : -EINVAL;
}

static int parse_rule(struct sim_fault_rule *rule, struct span text, sim_fault_knows knows)
{
	bool named = false;

	*rule = (struct sim_fault_rule){ .from = 1, .count = UINT64_MAX };
	while (text.len) {
		const char *colon = memchr(text.at, ':', text.len);
		size_t len = colon ? (size_t)(colon - text.at) : text.len;
		struct span part = trim(text.at, len);
		int err = named ? parse_option(rule, part) : parse_name(rule, part, knows);

		if (err)
			return err;
		named = true;
		len += colon ? 1 : 0;
		text = (struct span){ text.at + len, text.len - len };
	}
	if (rule->fails || rule->blocks || rule->kills_before || rule->kills_after ||
	    rule->sleep_ns || rule->linger_ns)
		return 0;
	return -EINVAL;
}

int sim_fault_parse(const char *text, sim_fault_knows knows, struct sim_fault_plan **ret_plan,
		    const char **ret_bad)
{
	struct sim_fault_plan *plan = calloc(1, sizeof(*plan));
	int err = 0;

	if (!plan)
		return -ENOMEM;
	while (*text && !err) {
		struct span rule;
		size_t len;

		if (*text == '#') {
			text += strcspn(text, "\n");
			continue;
		}
		len = strcspn(text, ";\n#");
		rule = trim(text, len);
		if (rule.len) {
			*ret_bad = rule.at;
			err = plan->rules_count < SIM_FAULT_RULES
				      ? parse_rule(&plan->rules[plan->rules_count++], rule, knows)
				      : -E2BIG;
		}
		text += len;
		if (*text == ';' || *text == '\n')
			text++;
	}
	if (err) {
		free(plan);
		return -EINVAL;
	}
	*ret_plan = plan;
	return 0;
}

void sim_fault_free(struct sim_fault_plan *plan)
{
	free(plan);
}
