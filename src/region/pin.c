/* SPDX-License-Identifier: Apache-2.0
 *
 * See pin.h. The sockets are of datagrams: there the end of the sender is no event for the receiver.
 */
#include "region/pin.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

/* Puts the open file into the queue of the socket at the other end. */
static int file_send(int socket_fd, int fd)
{
	union {
		struct cmsghdr header; /* for its alignment */
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec data = { .iov_base = &byte, .iov_len = sizeof byte };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control,
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	return sendmsg(socket_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* One poll for what a socket of this kind never has. */
static int poll_submit(aio_context_t context, int fd)
{
	struct iocb request = {
		.aio_lio_opcode = IOCB_CMD_POLL,
		.aio_fildes = (__u32)fd,
		.aio_buf = POLLPRI,
	};
	struct iocb *requests[] = { &request };
	struct timespec no_time = { 0 };
	struct io_event event;

	if (syscall(SYS_io_submit, context, 1L, requests) != 1)
		return -errno;
	/* Over already: it holds nothing. */
	return syscall(SYS_io_getevents, context, 0L, 1L, &event, &no_time) == 0 ? 0 : -EINVAL;
}

int berth_pin_hold(int fd, unsigned long *ret_pin)
{
	aio_context_t context = 0;
	int ends[2] = { -1, -1 };

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	BERTH_FD int sender = ends[0];
	BERTH_FD int receiver = ends[1];
	int r = file_send(sender, fd);
	if (r < 0)
		return r;
	if (syscall(SYS_io_setup, 1L, &context) < 0)
		return -errno;
	r = poll_submit(context, receiver);
	if (r < 0) {
		berth_pin_drop(context);
		return r;
	}
	*ret_pin = context;
	return 0;
}

void berth_pin_drop(unsigned long pin)
{
	if (pin != 0)
		(void)syscall(SYS_io_destroy, pin); /* fails only for one that isn't ours */
}
