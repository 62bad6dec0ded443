/* SPDX-License-Identifier: Apache-2.0
 *
 * See fake_broker.h.
 */
#include "fake_broker.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const unsigned char request[] = { 'H', 'P', 'I', 'D', 0, 1, 0, 1 };

int fake_request_read(int fd)
{
	unsigned char bytes[64];
	size_t count = 0;

	while (count < sizeof(request)) {
		ssize_t n = recv(fd, bytes + count, sizeof(bytes) - count, 0);

		if (n <= 0)
			return -1;
		count += (size_t)n;
	}
	return count == sizeof(request) && memcmp(bytes, request, count) == 0 ? 0 : -1;
}

pid_t fake_peer(int fd)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : -1;
}

void fake_send(int fd, const void *bytes, size_t size)
{
	(void)!send(fd, bytes, size, MSG_NOSIGNAL);
}

int fake_wait_end(int fd)
{
	int verdict = 0;
	char byte;

	while (recv(fd, &byte, 1, 0) > 0)
		verdict = -1;
	return verdict;
}

struct fake_reply fake_reply_of(const char *magic, unsigned version, unsigned status, uint32_t pid)
{
	struct fake_reply reply = { .size = 12 };
	const unsigned char rest[] = {
		(unsigned char)(version >> 8), (unsigned char)version,
		(unsigned char)(status >> 8),  (unsigned char)status,
		(unsigned char)(pid >> 24),    (unsigned char)(pid >> 16),
		(unsigned char)(pid >> 8),     (unsigned char)pid,
	};

	memcpy(reply.bytes, magic, 4);
	memcpy(reply.bytes + 4, rest, sizeof(rest));
	return reply;
}

int fake_serve_reply(int fd, void *arg)
{
	const struct fake_reply *reply = arg;

	if (fake_request_read(fd) < 0)
		return -1;
	for (size_t i = 0; i < reply->size && reply->pause_ms > 0; i++) {
		fake_send(fd, reply->bytes + i, 1);
		usleep(reply->pause_ms * 1000U);
	}
	if (reply->pause_ms == 0)
		fake_send(fd, reply->bytes, reply->size);
	return reply->stays ? fake_wait_end(fd) : 0;
}

int fake_serve_peer(int fd, void *arg)
{
	struct fake_reply reply = fake_reply_of("HPID", 1, 0, (uint32_t)fake_peer(fd));

	(void)arg;
	return fake_serve_reply(fd, &reply);
}

int fake_serve_nothing(int fd, void *arg)
{
	(void)arg;
	return fake_wait_end(fd);
}

static int socket_bound(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *slash = strrchr(path, '/');
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char dir[512];
	char before[512];

	assert_true(fd >= 0 && slash != NULL && strlen(path) < sizeof(dir));
	/* By the name alone: the path may be longer than an address. */
	memcpy(dir, path, (size_t)(slash - path));
	dir[slash - path] = '\0';
	assert_true(strlen(slash + 1) < sizeof(address.sun_path));
	memcpy(address.sun_path, slash + 1, strlen(slash + 1) + 1);
	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(dir), 0);
	(void)unlink(slash + 1);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(chmod(slash + 1, 0666), 0);
	assert_int_equal(chdir(before), 0);
	return fd;
}

static void listen_and_serve(int fd, int verdict_fd, fake_serve *serve, void *arg,
			     const struct fake_options *options)
{
	char ready = 'r';

	if (options->listener_uid != 0 &&
	    setresuid(options->listener_uid, options->listener_uid, options->listener_uid) != 0)
		_exit(1);
	/* Which changing the user took away. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (listen(fd, options->backlog ? options->backlog : 128) != 0 ||
	    write(verdict_fd, &ready, 1) != 1)
		_exit(1);
	usleep(options->delay_ms * 1000U);
	for (;;) {
		int client = options->accept_not ? -1 : accept(fd, NULL, NULL);
		char verdict = '-';

		if (client < 0) {
			pause();
			continue;
		}
		verdict = serve(client, arg) == 0 ? '+' : '-';
		close(client);
		(void)!write(verdict_fd, &verdict, 1);
	}
}

void fake_broker_start(struct fake_broker *broker, const char *path, fake_serve *serve, void *arg,
		       const struct fake_options *options)
{
	static const struct fake_options none;
	int fd = socket_bound(path);
	int verdicts[2];

	assert_int_equal(pipe(verdicts), 0);
	fflush(NULL);
	broker->pid = fork();
	assert_true(broker->pid >= 0);
	if (broker->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(verdicts[0]);
		listen_and_serve(fd, verdicts[1], serve, arg, options ? options : &none);
		_exit(1);
	}
	close(fd);
	close(verdicts[1]);
	broker->verdict_fd = verdicts[0];
	assert_int_equal(fake_broker_verdict(broker), 'r');
}

void fake_broker_stop(struct fake_broker *broker)
{
	kill(broker->pid, SIGKILL);
	assert_int_equal(waitpid(broker->pid, NULL, 0), broker->pid);
	close(broker->verdict_fd);
}

char fake_broker_verdict(struct fake_broker *broker)
{
	char verdict = '?';

	assert_int_equal(read(broker->verdict_fd, &verdict, 1), 1);
	return verdict;
}
