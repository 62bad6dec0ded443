/* SPDX-License-Identifier: Apache-2.0
 *
 * Root's rights, given up for good.
 */
#ifndef BERTH_AGENT_PRIVILEGES_H
#define BERTH_AGENT_PRIVILEGES_H

#include <sys/types.h>

#include "base/attributes.h"
#include "base/reason.h"

struct berth_user {
	uid_t uid;
	gid_t gid;
};

/* By name, or by a number with or without an account (the group is then the same number). -EINVAL: there is no
 * such user, or it is root. */
BERTH_MUST_CHECK int berth_user_find(const char *name, struct berth_user *ret_user,
				     struct berth_reason *reason);

/* Root becomes user, without groups; anybody else stays who he is. Then there are no capabilities and no
 * way to get any: checked, not assumed. Any error leaves the process in between: end it. */
BERTH_MUST_CHECK int berth_privileges_drop(const struct berth_user *user,
					   struct berth_reason *reason);

#endif
