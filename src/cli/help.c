/* SPDX-License-Identifier: Apache-2.0
 *
 * berth help [COMMAND]; and the tables for scripts: --commands, --options COMMAND, --completion bash.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "region/directory.h"

static const struct berth_option help_options[] = {
	{ "commands", 0, NULL, "print the names of the commands, for scripts" },
	{ "options", 0, "COMMAND", "print the options of a command, for scripts" },
	{ "shares", 0, NULL, "print the names of the shares, for scripts" },
	{ "completion", 0, "SHELL", "print the completion script (bash)" },
	{ NULL, 0, NULL, NULL },
};

static void print_commands(void)
{
	for (size_t i = 0; berth_commands[i]; i++)
		printf("%s\n", berth_commands[i]->name);
}

static void print_options(const struct berth_command *command, const char *separator)
{
	for (const struct berth_option *o = command->options; o && o->long_name; o++) {
		printf("--%s%s", o->long_name, separator);
		if (o->short_name)
			printf("-%c%s", o->short_name, separator);
	}
}

static int print_share(void *arg, const char *name, const char *path)
{
	(void)arg;
	if (access(path, F_OK) == 0) /* else a directory only */
		puts(name);
	return 0;
}

static bool print_shares(void)
{
	struct berth_reason reason = { .text = "" };
	bool done = berth_share_each(print_share, NULL, &reason) == 0;

	if (!done)
		berth_complain(&berth_command_help_row, "%s", reason.text);
	return done;
}

/* Where the names of shares belong: behind an option that takes one, and as operands. */
static void print_share_cases(void)
{
	for (size_t i = 0; berth_commands[i]; i++) {
		const struct berth_command *command = berth_commands[i];

		for (const struct berth_option *o = command->options; o && o->long_name; o++) {
			if (!o->argument || strcmp(o->argument, "NAME") != 0)
				continue;
			printf("\t%s:--%s:*", command->name, o->long_name);
			if (o->short_name)
				printf(" | %s:-%c:*", command->name, o->short_name);
			puts(") shares=yes ;;");
		}
		if (strstr(command->operands, "SHARE"))
			printf("\t%s:*:-*) ;;\n\t%s:*) shares=yes ;;\n", command->name,
			       command->name);
	}
}

static void print_bash_completion(void)
{
	puts("# bash completion for berth(1), written by 'berth help --completion bash'\n"
	     "_berth()\n"
	     "{\n"
	     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} i shares=\n"
	     "\tCOMPREPLY=()\n"
	     "\tif [ \"$COMP_CWORD\" = 1 ]; then");
	fputs("\t\tmapfile -t COMPREPLY < <(compgen -W \"", stdout);
	for (size_t i = 0; berth_commands[i]; i++)
		printf("%s ", berth_commands[i]->name);
	puts("\" -- \"$cur\")\n\t\treturn\n\tfi\n"
	     "\t# behind -- (or the program's name) the words are the program's\n"
	     "\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	     "\t\tif [ \"$command\" = run ] && [ \"${COMP_WORDS[i]}\" = -- ]; then\n"
	     "\t\t\tif declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); fi\n"
	     "\t\t\treturn\n\t\tfi\n\tdone\n"
	     "\tcase $command:${COMP_WORDS[COMP_CWORD - 1]}:$cur in");
	print_share_cases();
	puts("\tesac\n"
	     "\tif [ -n \"$shares\" ]; then\n"
	     "\t\tmapfile -t COMPREPLY < <(compgen -W \"$(berth help --shares 2>/dev/null)\" -- "
	     "\"$cur\")\n"
	     "\t\treturn\n\tfi\n"
	     "\tcase $command in");
	for (size_t i = 0; berth_commands[i]; i++) {
		printf("\t%s) mapfile -t COMPREPLY < <(compgen -W \"", berth_commands[i]->name);
		print_options(berth_commands[i], " ");
		puts("--help\" -- \"$cur\") ;;");
	}
	puts("\tesac\n}\ncomplete -F _berth berth");
}

struct answer {
	bool given;
	bool failed;
};

static int take(void *arg, const struct berth_option *option, const char *value)
{
	struct answer *answer = arg;

	answer->given = true;
	if (option == &help_options[0]) {
		print_commands();
	} else if (option == &help_options[1]) {
		const struct berth_command *asked = berth_command_find(value);
		if (!asked) {
			berth_complain(&berth_command_help_row, "'%s' is not a command", value);
			return -EINVAL;
		}
		print_options(asked, "\n");
	} else if (option == &help_options[2]) {
		answer->failed = !print_shares();
	} else if (strcmp(value, "bash") == 0) {
		print_bash_completion();
	} else {
		berth_complain(&berth_command_help_row, "no completion for '%s': only bash", value);
		return -EINVAL;
	}
	return 0;
}

static void print_overview(void)
{
	puts("usage: berth COMMAND [OPTIONS] ...\n\n"
	     "Share the GPUs of this host: every program in its limits.\n");
	for (size_t i = 0; berth_commands[i]; i++)
		printf("  %-10s  %s\n", berth_commands[i]->name, berth_commands[i]->summary);
	puts("\n'berth COMMAND --help' tells of a command's options; man berth tells the whole "
	     "story.");
}

static int help_run(const struct berth_command *command, int argc, char **argv)
{
	struct answer answer = { .given = false };
	int operand = 0;
	int r = berth_options_parse(command, argc, argv, take, &answer, &operand);

	if (r != 0)
		return r < 0 ? command->usage_exit : BERTH_EXIT_OK;
	if (answer.given)
		return answer.failed ? BERTH_EXIT_FAILURE : BERTH_EXIT_OK;
	if (operand >= argc || argv[operand][0] == '-') {
		print_overview();
		return BERTH_EXIT_OK;
	}
	const struct berth_command *asked = berth_command_find(argv[operand]);
	if (!asked) {
		berth_complain(command, "'%s' is not a command; 'berth help' lists them",
			       argv[operand]);
		return command->usage_exit;
	}
	berth_command_help(asked);
	return BERTH_EXIT_OK;
}

const struct berth_command berth_command_help_row = {
	.name = "help",
	.operands = "[COMMAND]",
	.summary = "List the commands, or tell of one.",
	.options = help_options,
	.usage_exit = BERTH_EXIT_USAGE,
	.run = help_run,
};
