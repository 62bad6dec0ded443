/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop: clients are accepted and answered until a signal ends it.
 */
#ifndef BERTH_AGENT_SERVICE_H
#define BERTH_AGENT_SERVICE_H

#include "agent/listener.h"
#include "base/attributes.h"
#include "base/reason.h"

#define BERTH_SERVICE_LISTENERS_MAX 16

struct berth_service {
	struct berth_listener listeners[BERTH_SERVICE_LISTENERS_MAX];
	int listener_count;
	int signal_fd;
	int epoll_fd;
};

/* The signals that end it (SIGTERM, SIGINT, SIGHUP) are from now on held for it. */
BERTH_MUST_CHECK int berth_service_begin(struct berth_service *service,
					 struct berth_reason *reason);
/* What it has to do before privileges are dropped is done. 0 when a signal came. */
BERTH_MUST_CHECK int berth_service_run(struct berth_service *service, struct berth_reason *reason);
void berth_service_done(struct berth_service *service);

#endif
