/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/command.h"
#include "cli/install.h"

static int no_options(void *arg, const struct berth_option *option, const char *value)
{
	(void)arg;
	(void)option;
	(void)value;
	return 0;
}

static int version_run(const struct berth_command *command, int argc, char **argv)
{
	struct berth_install install;
	int operand = 0;
	int r = berth_options_parse(command, argc, argv, no_options, NULL, &operand);

	if (r != 0)
		return r < 0 ? command->usage_exit : BERTH_EXIT_OK;
	if (operand < argc) {
		berth_complain(command, "takes no operand, but '%s' was given", argv[operand]);
		return command->usage_exit;
	}
	printf("berth %s\n", BERTH_VERSION);
	if (berth_install_find(&install, NULL) == 0)
		printf("library    %s\nsimulator  %s\n", install.library,
		       install.simulator[0] ? install.simulator : "not installed");
	return BERTH_EXIT_OK;
}

const struct berth_command berth_command_version = {
	.name = "version",
	.operands = "",
	.summary = "Say which version this is, and which library it would preload.",
	.usage_exit = BERTH_EXIT_USAGE,
	.run = version_run,
};
