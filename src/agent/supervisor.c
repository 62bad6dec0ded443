/* SPDX-License-Identifier: Apache-2.0
 *
 * See supervisor.h.
 */
#include "agent/supervisor.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"

/* -1: no number, or beyond max. */
static long number(const char *text, long max)
{
	char *end = NULL;
	long value;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	value = strtol(text, &end, 10);
	return errno != 0 || *end != '\0' || value > max ? -1 : value;
}

int berth_supervisor_fds(int max_count, struct berth_reason *reason)
{
	const char *pid_text = getenv("LISTEN_PID");
	const char *count_text = getenv("LISTEN_FDS");
	/* Not ours: meant for whoever started us. */
	bool ours = pid_text && count_text && number(pid_text, INT32_MAX) == (long)getpid();
	long count = ours ? number(count_text, max_count) : 0;

	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_FDS");
	(void)unsetenv("LISTEN_FDNAMES");
	if (count < 0)
		return berth_reason_set(reason, -EINVAL,
					"LISTEN_FDS: at most %d sockets can be handed over",
					max_count);
	return (int)count;
}

void berth_supervisor_tell(const char *news)
{
	const char *path = getenv("NOTIFY_SOCKET");
	BERTH_FD int fd = -1;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = path ? strlen(path) : 0;

	if (length < 2 || length >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(address.sun_path, path, length);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* One that doesn't listen is no reason not to serve. */
	(void)!sendto(fd, news, strlen(news), MSG_NOSIGNAL | MSG_DONTWAIT,
		      (const struct sockaddr *)&address,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
}
