/* SPDX-License-Identifier: Apache-2.0
 *
 * The node directory: the one place that all containers of a node share, with the broker's socket and
 * the probe lock in it. In this order:
 *   BERTH_NODE_DIR   if set; an absolute path
 *   /run/berth       if something is mounted there: a container's own /run/berth is nobody else's
 *   /tmp/vgpulock    which HAMi mounts into each of its containers
 * It is only used, never made, here. It must be root's and, unless it is sticky, writable by nobody else: else
 * any tenant could put his own broker or lock in the place of the node's. Set-user-ID programs ignore
 * the environment.
 */
#ifndef BERTH_BASE_NODE_DIR_H
#define BERTH_BASE_NODE_DIR_H

#include <stddef.h>

#include "base/attributes.h"
#include "base/reason.h"

#define BERTH_NODE_DIR_DEFAULT "/run/berth"
#define BERTH_NODE_DIR_HAMI    "/tmp/vgpulock"
#define BERTH_NODE_DIR_MAX     3072 /* leaves room for a file's name below PATH_MAX */

/* In the node directory. */
#define BERTH_NODE_BROKER      "broker.sock"
#define BERTH_NODE_BROKER_HAMI "hostpid/broker.sock"
#define BERTH_NODE_PROBE_LOCK  "probe.lock"

/* -ENOENT: there is none. -EPERM: there is one that others than root can change. -EINVAL, -ENAMETOOLONG: the
 * variable. Each with the reason. */
BERTH_MUST_CHECK int berth_node_dir(char *ret_path, size_t size, struct berth_reason *reason);

/* Where HAMi's broker is looked for: in BERTH_NODE_DIR if set, else in HAMi's own. Not checked: who asks a
 * broker checks its directory (base/pid_broker.h). */
const char *berth_node_dir_of_hami(void);

/* Path of a file in it. -ENAMETOOLONG. */
BERTH_MUST_CHECK int berth_node_dir_file(const char *dir, const char *name, char *ret_path,
					 size_t size);

#endif
