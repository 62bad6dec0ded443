/* SPDX-License-Identifier: Apache-2.0
 *
 * The state directory: where shares' regions and the like live. In this order:
 *   BERTH_STATE_DIR           if set; an absolute path
 *   /run/berth                for root
 *   $XDG_RUNTIME_DIR/berth    if set; an absolute path
 *   /tmp/berth-UID            else
 * It is made with mode 0700 when first needed; /run/berth, which is the node directory too (node_dir.h), with
 * 0755 and what is in it with 0700. One that belongs to another user, is a symlink, or is
 * writable by others is refused: whoever can write there can lift limits. Set-user-ID programs ignore
 * the environment.
 */
#ifndef BERTH_BASE_STATE_DIR_H
#define BERTH_BASE_STATE_DIR_H

#include <stddef.h>

#include "base/attributes.h"
#include "base/reason.h"

#define BERTH_STATE_DIR_MAX 3072 /* leaves room for a file's name below PATH_MAX */

/* The path, whether or not it is there. -EINVAL (a relative path), -ENAMETOOLONG. */
BERTH_MUST_CHECK int berth_state_dir(char *ret_path, size_t size, struct berth_reason *reason);

/* Makes the directory and, unless subdir is NULL or "", "subdir" (one or more components) in it; checks
 * both; gives the path of the innermost. -EPERM for a foreign one, -ENOTDIR or -ELOOP for what isn't a
 * directory, else what the kernel said. */
BERTH_MUST_CHECK int berth_state_dir_make(const char *subdir, char *ret_path, size_t size,
					  struct berth_reason *reason);

#endif
