/* SPDX-License-Identifier: Apache-2.0
 *
 * See service.h. epoll reports a number: a client's place (agent/clients.h), or what follows here.
 */
#include "agent/service.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/clients.h"
#include "agent/supervisor.h"
#include "base/fd.h"
#include "base/log.h"

#define EVENTS_AT_ONCE 64
/* Standard streams, epoll, signals, sockets and their directories, and one being accepted. */
#define OTHER_FDS      (3 + 2 + 2 * BERTH_SERVICE_LISTENERS_MAX + 8)
#define FEWEST_CLIENTS 8

#define LISTENER_FIRST ((uint64_t)BERTH_CLIENTS_MAX)
#define SIGNALS        (LISTENER_FIRST + BERTH_SERVICE_LISTENERS_MAX)

static struct berth_clients clients;

int berth_service_begin(struct berth_service *service, struct berth_reason *reason)
{
	static const int ending[] = { SIGTERM, SIGINT, SIGHUP };
	sigset_t set;

	service->epoll_fd = -1;
	service->listener_count = 0;
	(void)sigemptyset(&set);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ending); i++) {
		/* One that is ignored, as whoever started us may have wished, never arrives. */
		(void)signal(ending[i], SIG_DFL);
		(void)sigaddset(&set, ending[i]);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	service->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (service->signal_fd >= 0)
		service->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return service->epoll_fd < 0
		       ? berth_reason_set(reason, -errno, "no event queue: %s", strerror(errno))
		       : 0;
}

/* As many clients as there may be descriptors for. */
static int clients_max(void)
{
	struct rlimit limit = { 0 };
	rlim_t wanted = BERTH_CLIENTS_MAX + OTHER_FDS;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return FEWEST_CLIENTS;
	if (limit.rlim_cur < wanted) {
		limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
		(void)getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur >= wanted)
		return BERTH_CLIENTS_MAX;
	return limit.rlim_cur > OTHER_FDS + FEWEST_CLIENTS ? (int)(limit.rlim_cur - OTHER_FDS)
							   : FEWEST_CLIENTS;
}

static int watch(const struct berth_service *service, int fd, uint64_t number)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = number };

	return epoll_ctl(service->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int watch_all(const struct berth_service *service)
{
	int err = watch(service, service->signal_fd, SIGNALS);

	for (int i = 0; i < service->listener_count && !err; i++)
		err = watch(service, service->listeners[i].fd, LISTENER_FIRST + (uint64_t)i);
	return err;
}

/* true: a signal says that it is enough. */
static bool handle(const struct berth_service *service, uint64_t number)
{
	struct signalfd_siginfo info = { 0 };

	if (number == SIGNALS) {
		if (read(service->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
			return false;
		berth_info("ends: %s from pid %u", strsignal((int)info.ssi_signo), info.ssi_pid);
		return true;
	}
	if (number >= LISTENER_FIRST)
		berth_clients_accept(&clients, service->listeners[number - LISTENER_FIRST].fd);
	else
		berth_clients_hear(&clients, number);
	return false;
}

static int serve(const struct berth_service *service)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	bool enough = false;

	while (!enough) {
		int wait_ms = berth_clients_expire(&clients);
		int count = epoll_wait(service->epoll_fd, events, EVENTS_AT_ONCE, wait_ms);

		if (count < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < count && !enough; i++)
			enough = handle(service, events[i].data.u64);
	}
	return 0;
}

int berth_service_run(struct berth_service *service, struct berth_reason *reason)
{
	int err;

	berth_clients_init(&clients, service->epoll_fd, clients_max());
	err = watch_all(service);
	if (!err) {
		berth_supervisor_tell("READY=1\nSTATUS=Answers containers' processes\n");
		err = serve(service);
	}
	berth_supervisor_tell("STOPPING=1\n");
	berth_clients_done(&clients);
	return err < 0 ? berth_reason_set(reason, err, "clients can't be waited for: %s",
					  strerror(-err))
		       : 0;
}

void berth_service_done(struct berth_service *service)
{
	for (int i = 0; i < service->listener_count; i++)
		berth_listener_close(&service->listeners[i]);
	service->listener_count = 0;
	berth_fd_close(&service->signal_fd);
	berth_fd_close(&service->epoll_fd);
}
