/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of the node-wide probe lock (base/node_dir.h). Programs only use it; here it is made.
 */
#ifndef BERTH_AGENT_PROBE_LOCK_H
#define BERTH_AGENT_PROBE_LOCK_H

#include "base/attributes.h"
#include "base/reason.h"

/* In the directory dir, if that is there: an empty file of root's, mode 0600. One that is there already stays,
 * with its locks. -ENOENT: no such directory. -EPERM: dir or what is in the file's place isn't root's alone. */
BERTH_MUST_CHECK int berth_probe_lock_make(const char *dir, struct berth_reason *reason);

#endif
