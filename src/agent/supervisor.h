/* SPDX-License-Identifier: Apache-2.0
 *
 * What systemd (or anything that does as it does) says to a daemon and wants to hear: sockets handed over
 * (sd_listen_fds(3)) and news (sd_notify(3)), without its library.
 */
#ifndef BERTH_AGENT_SUPERVISOR_H
#define BERTH_AGENT_SUPERVISOR_H

#include "base/attributes.h"
#include "base/reason.h"

#define BERTH_SUPERVISOR_FIRST_FD 3

/* How many descriptors were handed over to this very process, from BERTH_SUPERVISOR_FIRST_FD on; 0 = none.
 * Takes the variables out of the environment. -EINVAL: they say nothing sensible. */
BERTH_MUST_CHECK int berth_supervisor_fds(int max_count, struct berth_reason *reason);

/* Tells it, if there is one that listens; never waits. */
void berth_supervisor_tell(const char *news);

#endif
