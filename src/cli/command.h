/* SPDX-License-Identifier: Apache-2.0
 *
 * A sub-command is a row: its name, its options, its function. Parser, --help, shell completion and
 * the check of the man pages all come from these tables.
 */
#ifndef BERTH_CLI_COMMAND_H
#define BERTH_CLI_COMMAND_H

#include <stdbool.h>

#include "base/attributes.h"

/* Exit codes: documented API (man berth, EXIT STATUS). */
enum berth_exit {
	BERTH_EXIT_OK = 0,
	BERTH_EXIT_FAILURE = 1,
	BERTH_EXIT_USAGE = 2,
	/* berth run, as env(1), nice(1) and timeout(1) do: */
	BERTH_EXIT_RUN_FAILED =
		125, /* berth itself failed or refused; the program was not started */
	BERTH_EXIT_RUN_CANNOT = 126,    /* the program is there but can't be started */
	BERTH_EXIT_RUN_NOT_FOUND = 127, /* there is no such program */
};

struct berth_option {
	const char *long_name;
	char short_name;      /* 0 = none */
	const char *argument; /* how help names it; NULL = a flag */
	const char *help;
};

struct berth_command {
	const char *name;
	const char *operands; /* how usage names them, "" = none */
	const char *summary;
	const struct berth_option *options; /* ends with long_name NULL; NULL = none */
	int usage_exit;                     /* status of a wrong command line */
	bool options_behind;                /* options may also stand behind the operands */
	int (*run)(const struct berth_command *command, int argc, char **argv);
};

/* Ends with NULL. */
extern const struct berth_command *const berth_commands[];
/* NULL if there is none. */
const struct berth_command *berth_command_find(const char *name);

/* Calls take for each option in argv[1..]; *ret_operand is the index of the first operand ("--" is
 * skipped). take returns 0 or -errno after saying what is wrong. -EINVAL, said on standard error,
 * for unknown options and missing arguments; 1 if --help was given and answered. */
BERTH_MUST_CHECK int berth_options_parse(const struct berth_command *command, int argc, char **argv,
					 int (*take)(void *arg, const struct berth_option *option,
						     const char *value),
					 void *arg, int *ret_operand);

/* "berth run: " + text + newline on standard error, escaped: texts quote what others named. The one
 * place where the command line complains. */
void berth_complain(const struct berth_command *command, const char *fmt, ...) BERTH_PRINTF(2, 3);

void berth_command_help(const struct berth_command *command);

extern const struct berth_command berth_command_run;
extern const struct berth_command berth_command_ps;
extern const struct berth_command berth_command_limit;
extern const struct berth_command berth_command_check;
extern const struct berth_command berth_command_version;
extern const struct berth_command berth_command_help_row;

#endif
