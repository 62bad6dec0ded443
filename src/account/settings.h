/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process was told: its configuration, read from the environment and the container's
 * override file once a process (a fork child reads again: its program may have set another
 * environment before its first cuInit).
 *
 * The override file is /overrideEnv and nothing else: a variable that names another one would let
 * every program choose its own limits. It is believed if it is a regular file of root's (seen from
 * here) that nobody else may write, reached through no link. Anything else in its place stops the
 * program's use of the GPU: it is there so that limits hold, and only root can have put it there. In a
 * user namespace that does not map the host's root, root's file is nobody's: refused, too.
 */
#ifndef BERTH_ACCOUNT_SETTINGS_H
#define BERTH_ACCOUNT_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "base/reason.h"
#include "policy/config.h"

/* 0, or what berth_config_parse said. The configuration is valid memory either way, and inactive
 * after a failure. */
BERTH_MUST_CHECK int berth_settings_get(const struct berth_config **ret_config,
					struct berth_reason *reason);

/* The file's text, checked as said above: its length, with a zero behind it. -ENOENT (no reason given) if
 * there is none. For berth_settings_get, and for tests with another path. */
BERTH_MUST_CHECK ssize_t berth_settings_override_read(const char *path, char *buf, size_t size,
						      struct berth_reason *reason);

/* The region's file: the one named, else the one of the share's name in the state directory, whose
 * directory is made if make is true. */
BERTH_MUST_CHECK int berth_settings_region_path(const struct berth_config *config, bool make,
						char ret_path[PATH_MAX],
						struct berth_reason *reason);

/* In a fork child. */
void berth_settings_forget(void);

#endif
