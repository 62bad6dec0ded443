/* SPDX-License-Identifier: Apache-2.0
 *
 * berth: finds the sub-command and hands over.
 */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "help";

	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
		name = "version";

	const struct berth_command *command = berth_command_find(name);
	if (!command) {
		berth_complain(NULL, "'%s' is not a command; 'berth help' lists them", name);
		return BERTH_EXIT_USAGE;
	}
	int status = command->run(command, argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
	/* A full disk behind the pipe is a failure, not a success with half an answer. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && status == BERTH_EXIT_OK) {
		perror("berth: standard output");
		return BERTH_EXIT_FAILURE;
	}
	return status;
}
