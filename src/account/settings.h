/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process was told: its configuration, read from the environment once a process (a fork
 * child reads again: its program may have set another environment before its first cuInit).
 */
#ifndef BERTH_ACCOUNT_SETTINGS_H
#define BERTH_ACCOUNT_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"
#include "base/reason.h"
#include "policy/config.h"

/* 0, or what berth_config_parse said. The configuration is valid memory either way, and inactive
 * after a failure. */
BERTH_MUST_CHECK int berth_settings_get(const struct berth_config **ret_config,
					struct berth_reason *reason);

/* The region's file: the one named, else the one of the share's name in the state directory, whose
 * directory is made if make is true. */
BERTH_MUST_CHECK int berth_settings_region_path(const struct berth_config *config, bool make,
						char ret_path[PATH_MAX],
						struct berth_reason *reason);

/* In a fork child. */
void berth_settings_forget(void);

#endif
