/* SPDX-License-Identifier: Apache-2.0
 *
 * See core_fixture.h.
 */
#include "core_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

static pid_t owner; /* of the node's files: children must leave them alone */

static void node_remove(void)
{
	char path[256];
	char *slash;

	if (getpid() != owner || !getenv("BERTH_SIM_STATE"))
		return;
	snprintf(path, sizeof(path), "%s", getenv("BERTH_SIM_STATE"));
	(void)unlink(path); /* whatever is left, the next node has another name */
	slash = strrchr(path, '/');
	*slash = '\0';
	(void)rmdir(path);
}

void core_node_new(const char *gpus)
{
	static unsigned count;
	char path[256];

	if (owner == 0) {
		owner = getpid();
		atexit(node_remove);
	} else {
		node_remove();
	}

	snprintf(path, sizeof(path), "%s/berth-sim-core-%d-%u/node",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid(), count++);
	setenv("BERTH_SIM_STATE", path, 1);
	setenv("BERTH_SIM_GPUS", gpus, 1);
	unsetenv("BERTH_SIM_CONFIG");
	unsetenv("BERTH_SIM_CONTEXT_BYTES");
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
}

struct core_child core_start(void (*body)(int socket))
{
	struct core_child child;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		abort();
	child.pid = fork();
	if (child.pid < 0)
		abort();
	if (child.pid == 0) {
		close(pair[0]);
		body(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	child.socket = pair[0];
	return child;
}

static int reap(struct core_child *child)
{
	int status = -1;

	while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
		;
	close(child->socket);
	return status;
}

bool core_succeeded(struct core_child *child)
{
	int status = reap(child);

	if (WIFSIGNALED(status))
		fprintf(stderr, "child ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void core_kill(struct core_child *child)
{
	kill(child->pid, SIGKILL);
	reap(child);
}

bool core_passes(const char *gpus, void (*body)(int socket))
{
	struct core_child child;

	core_node_new(gpus);
	child = core_start(body);
	return core_succeeded(&child);
}

void core_send(int socket, const void *data, size_t bytes)
{
	CHECK(send(socket, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
}

void core_receive(int socket, void *data, size_t bytes)
{
	CHECK(recv(socket, data, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

void core_tell(int socket)
{
	core_send(socket, "!", 1);
}

void core_wait(int socket)
{
	char byte;

	core_receive(socket, &byte, 1);
}

void core_send_fd(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec data = { .iov_base = (char[]){ '!' }, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	CHECK(sendmsg(socket, &message, MSG_NOSIGNAL) == 1);
}

int core_receive_fd(int socket)
{
	char control[CMSG_SPACE(sizeof(int))];
	char byte;
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int fd;

	CHECK(recvmsg(socket, &message, 0) == 1);
	CHECK(CMSG_FIRSTHDR(&message) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

CUcontext core_begin(CUdevice device)
{
	CUcontext context;

	CHECK_OK(cuInit(0));
	CHECK_OK(cuCtxCreate_v2(&context, 0, device));
	return context;
}

size_t core_free_bytes(void)
{
	size_t total;
	size_t left;

	CHECK_OK(cuMemGetInfo_v2(&left, &total));
	return left;
}

size_t core_used_bytes(void)
{
	size_t total;
	size_t left;

	CHECK_OK(cuMemGetInfo_v2(&left, &total));
	return total - left;
}
