/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel costs and what it computes.
 *
 *	BERTH_SIM_KERNEL_COST   NAME=TIME{,NAME=TIME}: device time of each wave of blocks; NAME may hold
 *	                        * and ?, the first that fits counts; TIME is a number and ns, us, ms or s
 *	BERTH_SIM_KERNELS       a library of host functions, see kernel_plugin.h
 */
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim/config.h"
#include "sim/cuda/module.h"

#define WAVE_NS   1000U
#define RULES     64U
#define NAME_MAX_ 128U

static struct kernel_costs {
	pthread_once_t once;
	int err; /* of the variables */
	size_t rules_count;
	struct {
		char pattern[NAME_MAX_];
		uint64_t wave_ns;
	} rules[RULES];
	void *plugin;
} costs_ = { .once = PTHREAD_ONCE_INIT };

static int parse_time(const char *text, size_t length, uint64_t *ret_ns)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
	char *end;
	uint64_t number;

	if (!length || *text < '0' || *text > '9')
		return -EINVAL;
	number = strtoull(text, &end, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t unit_length = strlen(units[i].unit);

		if ((size_t)(text + length - end) == unit_length &&
		    memcmp(end, units[i].unit, unit_length) == 0)
			return __builtin_mul_overflow(number, units[i].ns, ret_ns) ? -ERANGE : 0;
	}
	return -EINVAL;
}

static int parse_rule(const char *text, size_t length)
{
	const char *equals = memchr(text, '=', length);
	size_t name_length = equals ? (size_t)(equals - text) : 0;

	if (!name_length || name_length >= NAME_MAX_ || costs_.rules_count == RULES)
		return -EINVAL;
	memcpy(costs_.rules[costs_.rules_count].pattern, text, name_length);
	if (parse_time(equals + 1, length - name_length - 1,
		       &costs_.rules[costs_.rules_count].wave_ns) != 0)
		return -EINVAL;
	costs_.rules_count++;
	return 0;
}

static int parse_rules(const char *text)
{
	while (*text) {
		size_t length = strcspn(text, ",");

		if (parse_rule(text, length) != 0) {
			sim_complain("BERTH_SIM_KERNEL_COST: %.*s: want NAME=TIME", (int)length,
				     text);
			return -EINVAL;
		}
		text += length + (text[length] == ',' ? 1 : 0);
	}
	return 0;
}

static void read_environment(void)
{
	const char *rules = getenv("BERTH_SIM_KERNEL_COST");
	const char *plugin = getenv("BERTH_SIM_KERNELS");

	if (rules)
		costs_.err = parse_rules(rules);
	if (!plugin || !*plugin)
		return;
	costs_.plugin = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
	if (!costs_.plugin) {
		sim_complain("BERTH_SIM_KERNELS: %s", dlerror());
		costs_.err = -ENOENT;
	}
}

int sim_kernel_wave_ns(const struct sim_kernel_info *info, uint64_t *ret_ns)
{
	pthread_once(&costs_.once, read_environment);
	if (costs_.err)
		return costs_.err;
	*ret_ns = info->cost_ns ? info->cost_ns : WAVE_NS;
	for (size_t i = 0; i < costs_.rules_count; i++) {
		if (fnmatch(costs_.rules[i].pattern, info->name, 0) == 0) {
			*ret_ns = costs_.rules[i].wave_ns;
			break;
		}
	}
	return 0;
}

void (*sim_kernel_host_function(const char *name))(void)
{
	void (*function)(void) = NULL;
	void *symbol;

	pthread_once(&costs_.once, read_environment);
	symbol = costs_.plugin ? dlsym(costs_.plugin, name) : NULL;
	memcpy(&function, &symbol, sizeof(function));
	return function;
}
