/* SPDX-License-Identifier: Apache-2.0
 *
 * Options from tables, by getopt_long; help from the same tables.
 */
#include "cli/command.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { MAX_OPTIONS = 32, LONG_BASE = 256, COMPLAINT_MAX = 8192 };

static const struct berth_option help_option = { "help", 'h', NULL, "say this" };

const struct berth_command *const berth_commands[] = {
	&berth_command_run,
	&berth_command_ps,
	&berth_command_limit,
	&berth_command_check,
	&berth_command_version,
	&berth_command_help_row,
	NULL,
};

const struct berth_command *berth_command_find(const char *name)
{
	for (size_t i = 0; berth_commands[i]; i++) {
		if (strcmp(berth_commands[i]->name, name) == 0)
			return berth_commands[i];
	}
	return NULL;
}

void berth_complain(const struct berth_command *command, const char *fmt, ...)
{
	char text[COMPLAINT_MAX], shown[COMPLAINT_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	(void)berth_text_escape(shown, sizeof shown, text);
	if (command)
		fprintf(stderr, "berth %s: %s\n", command->name, shown);
	else
		fprintf(stderr, "berth: %s\n", shown);
}

static void option_help(const struct berth_option *option)
{
	char left[64];
	char head[6] = "    ";

	if (option->short_name)
		(void)snprintf(head, sizeof head, "-%c, ", option->short_name);
	(void)snprintf(left, sizeof left, "%s--%s%s%s", head, option->long_name,
		       option->argument ? " " : "", option->argument ? option->argument : "");
	printf("  %-26s  %s\n", left, option->help);
}

void berth_command_help(const struct berth_command *command)
{
	printf("usage: berth %s [OPTIONS]%s%s\n\n%s\n\n", command->name,
	       *command->operands ? " " : "", command->operands, command->summary);
	for (const struct berth_option *o = command->options; o && o->long_name; o++)
		option_help(o);
	option_help(&help_option);
}

/* The tables getopt_long wants, from ours. */
struct getopt_tables {
	struct option longs[MAX_OPTIONS + 2];
	char shorts[2 * MAX_OPTIONS + 8];
};

static void tables_add(struct getopt_tables *t, size_t i, const struct berth_option *option)
{
	size_t n = strlen(t->shorts);

	t->longs[i] = (struct option){
		.name = option->long_name,
		.has_arg = option->argument ? required_argument : no_argument,
		.val = LONG_BASE + (int)i,
	};
	if (!option->short_name)
		return;
	t->shorts[n] = option->short_name;
	if (option->argument)
		t->shorts[n + 1] = ':';
}

static size_t tables_fill(struct getopt_tables *t, const struct berth_command *command)
{
	size_t count = 0;

	memset(t, 0, sizeof *t);
	/* '+': stop at the first operand, the rest is the program's; ':': tell a missing argument. */
	strcpy(t->shorts, command->options_behind ? ":" : "+:");
	for (const struct berth_option *o = command->options; o && o->long_name; o++)
		tables_add(t, count++, o);
	tables_add(t, count, &help_option);
	return count;
}

static const struct berth_option *option_of(const struct berth_command *command, size_t count,
					    int code)
{
	if (code >= LONG_BASE) {
		size_t i = (size_t)(code - LONG_BASE);
		return i == count ? &help_option : &command->options[i];
	}
	for (const struct berth_option *o = command->options; o && o->long_name; o++) {
		if (o->short_name == code)
			return o;
	}
	return code == help_option.short_name ? &help_option : NULL;
}

int berth_options_parse(const struct berth_command *command, int argc, char **argv,
			int (*take)(void *arg, const struct berth_option *option,
				    const char *value),
			void *arg, int *ret_operand)
{
	struct getopt_tables tables;
	size_t count = tables_fill(&tables, command);
	int code;

	/* It would end the options at the first operand. No program is started from here that could
	 * miss it. */
	if (command->options_behind)
		(void)unsetenv("POSIXLY_CORRECT"); /* fails only for names that aren't any */
	optind = 1;
	opterr = 0;
	while ((code = getopt_long(argc, argv, tables.shorts, tables.longs, NULL)) != -1) {
		if (code == '?' || code == ':') {
			const char letter[] = { '-', (char)optopt, '\0' };
			bool is_short = optopt > 0 && optopt < LONG_BASE;

			berth_complain(command, "%s %s; 'berth %s --help' lists the options",
				       code == '?' ? "unknown option"
						   : "an argument is missing after",
				       is_short ? letter : argv[optind - 1], command->name);
			return -EINVAL;
		}
		const struct berth_option *option = option_of(command, count, code);
		if (option == &help_option) {
			berth_command_help(command);
			return 1;
		}
		int r = take(arg, option, optarg);
		if (r < 0)
			return r;
	}
	*ret_operand = optind;
	return 0;
}
