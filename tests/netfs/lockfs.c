/* SPDX-License-Identifier: Apache-2.0
 *
 * lockfs [-o OPTION[,OPTION...]] MOUNTPOINT: a file system that answers lock requests itself, well or
 * badly, on purpose. It stays in the foreground, says "ready" once it is mounted, and ends on SIGTERM.
 *
 *	lock	an ordinary file in memory; its POSIX locks are kept here, per lock owner
 *	counts	text: how many lock requests of which kind came, so that nobody's word has to be taken for it
 *
 *	delay_ms=N         a blocking request that could be granted is granted N ms later; -1 = never
 *	ignore_interrupts  a blocking request goes on when its caller is interrupted, or killed
 *	workers=N          as many blocking requests may wait; with N waiting, nothing else is answered, like a
 *	                   daemon whose N threads all sit in its lock handler (10, libfuse's default); 0 = any
 *	lock_error=ERRNO   every lock request fails with that number
 *	no_locks           says that it has no locks of its own: the kernel keeps them
 *
 * One thread does everything, so a request that waits is a row of a list, never a thread.
 */
#define FUSE_USE_VERSION 34
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "netfs/lock_table.h"

#define INO_LOCK   2
#define INO_COUNTS 3
#define DATA_MAX   65536

struct waiting {
	struct waiting *next;
	fuse_req_t req;
	struct lock_row lock;
	uint64_t due_ns; /* when it is granted; 0 = it can't be yet */
};

static struct {
	int delay_ms, ignore_interrupts, workers, lock_error, no_locks;
	struct lock_table table;
	struct waiting *waiting;
	unsigned waiting_count;
	unsigned long try_count, block_count, unlock_count, look_count, interrupt_count;
	size_t size;
	char data[DATA_MAX];
} fs = { .workers = 10 };

static const struct fuse_opt fs_options[] = {
	{ "delay_ms=%d", offsetof(__typeof__(fs), delay_ms), 0 },
	{ "ignore_interrupts", offsetof(__typeof__(fs), ignore_interrupts), 1 },
	{ "workers=%d", offsetof(__typeof__(fs), workers), 0 },
	{ "lock_error=%d", offsetof(__typeof__(fs), lock_error), 0 },
	{ "no_locks", offsetof(__typeof__(fs), no_locks), 1 },
	FUSE_OPT_END,
};

static size_t counts_text(char *text, size_t size)
{
	int length = snprintf(text, size,
			      "try\t%lu\nblock\t%lu\nunlock\t%lu\nlook\t%lu\ninterrupt\t%lu\n"
			      "waiting\t%u\nheld\t%u\n",
			      fs.try_count, fs.block_count, fs.unlock_count, fs.look_count,
			      fs.interrupt_count, fs.waiting_count, lock_table_count(&fs.table));

	return length < 0 ? 0 : (size_t)length;
}

static struct stat ino_stat(fuse_ino_t ino)
{
	struct stat st = { .st_ino = ino, .st_nlink = 1, .st_uid = getuid(), .st_gid = getgid() };

	if (ino == FUSE_ROOT_ID) {
		st.st_mode = S_IFDIR | 0755;
		st.st_nlink = 2;
	} else {
		st.st_mode = S_IFREG | (ino == INO_LOCK ? 0600 : 0444);
		st.st_size = ino == INO_LOCK ? (off_t)fs.size : 0;
	}
	return st;
}

static void fs_init(void *arg, struct fuse_conn_info *conn)
{
	(void)arg;
	if (fs.no_locks)
		conn->want &= ~(unsigned)FUSE_CAP_POSIX_LOCKS;
	else if ((conn->capable & FUSE_CAP_POSIX_LOCKS) != 0)
		conn->want |= FUSE_CAP_POSIX_LOCKS;
}

static void fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = { .attr_timeout = 0, .entry_timeout = 60 };

	if (parent == FUSE_ROOT_ID && strcmp(name, "lock") == 0)
		entry.ino = INO_LOCK;
	else if (parent == FUSE_ROOT_ID && strcmp(name, "counts") == 0)
		entry.ino = INO_COUNTS;
	if (entry.ino == 0) {
		(void)fuse_reply_err(req, ENOENT);
		return;
	}
	entry.attr = ino_stat(entry.ino);
	(void)fuse_reply_entry(req, &entry);
}

static void fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st = ino_stat(ino);

	(void)fi;
	(void)fuse_reply_attr(req, &st, 0);
}

static void fs_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	if (ino == INO_LOCK && (to_set & FUSE_SET_ATTR_SIZE) != 0) {
		if (attr->st_size < 0 || attr->st_size > DATA_MAX) {
			(void)fuse_reply_err(req, EFBIG);
			return;
		}
		if ((size_t)attr->st_size > fs.size)
			memset(fs.data + fs.size, 0, (size_t)attr->st_size - fs.size);
		fs.size = (size_t)attr->st_size;
	}
	fs_getattr(req, ino, fi);
}

static void fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fi->direct_io = ino == INO_COUNTS;
	(void)fuse_reply_open(req, fi);
}

static void fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,
		    struct fuse_file_info *fi)
{
	char text[256];
	const char *from = fs.data;
	size_t length = fs.size;

	(void)fi;
	if (ino == INO_COUNTS) {
		from = text;
		length = counts_text(text, sizeof(text));
	}
	if (at < 0 || (size_t)at >= length)
		size = 0;
	else if (size > length - (size_t)at)
		size = length - (size_t)at;
	(void)fuse_reply_buf(req, size == 0 ? from : from + at, size);
}

static void fs_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t at,
		     struct fuse_file_info *fi)
{
	(void)fi;
	if (ino != INO_LOCK || at < 0 || at > DATA_MAX || size > DATA_MAX - (size_t)at) {
		(void)fuse_reply_err(req, ino == INO_LOCK ? EFBIG : EACCES);
		return;
	}
	if ((size_t)at > fs.size)
		memset(fs.data + fs.size, 0, (size_t)at - fs.size);
	memcpy(fs.data + at, buf, size);
	if ((size_t)at + size > fs.size)
		fs.size = (size_t)at + size;
	(void)fuse_reply_write(req, size);
}

static struct lock_row row_of(const struct flock *lock, uint64_t owner)
{
	return (struct lock_row){ .owner = owner,
				  .pid = lock->l_pid,
				  .type = lock->l_type,
				  .start = lock->l_start,
				  .end = lock->l_len == 0 ? INT64_MAX
							  : lock->l_start + lock->l_len - 1 };
}

static void waiting_end(struct waiting *waiting, int err)
{
	struct waiting **link = &fs.waiting;

	while (*link != waiting)
		link = &(*link)->next;
	*link = waiting->next;
	fs.waiting_count--;
	(void)fuse_reply_err(waiting->req, err);
	free(waiting);
}

/* Grants what is due, first come, first served; says when the next one is (0: none). */
static uint64_t waiting_look(void)
{
	uint64_t now_ns = berth_clock_ns();
	uint64_t next_ns = 0;
	struct waiting *next;

	for (struct waiting *at = fs.waiting; at != NULL; at = next) {
		next = at->next;
		if (fs.delay_ms < 0 || lock_table_conflict(&fs.table, &at->lock) != NULL) {
			at->due_ns = 0;
			continue;
		}
		if (at->due_ns == 0)
			at->due_ns = now_ns + (unsigned)fs.delay_ms * BERTH_NS_PER_MS;
		if (at->due_ns <= now_ns)
			waiting_end(at, lock_table_set(&fs.table, &at->lock) == 0 ? 0 : ENOLCK);
		else if (next_ns == 0 || at->due_ns < next_ns)
			next_ns = at->due_ns;
	}
	return next_ns;
}

static void fs_interrupt(fuse_req_t req, void *arg)
{
	(void)req;
	fs.interrupt_count++;
	if (!fs.ignore_interrupts)
		waiting_end(arg, EINTR);
}

static void waiting_add(fuse_req_t req, const struct lock_row *lock)
{
	struct waiting *waiting = calloc(1, sizeof(*waiting));
	struct waiting **link = &fs.waiting;

	if (waiting == NULL) {
		(void)fuse_reply_err(req, ENOLCK);
		return;
	}
	waiting->req = req;
	waiting->lock = *lock;
	while (*link != NULL)
		link = &(*link)->next;
	*link = waiting;
	fs.waiting_count++;
	/* Ends it at once if the interrupt was faster than the request. */
	fuse_req_interrupt_func(req, fs_interrupt, waiting);
}

static void fs_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock,
		     int sleep)
{
	struct lock_row row = row_of(lock, fi->lock_owner);

	(void)ino;
	if (lock->l_type == F_UNLCK)
		fs.unlock_count++;
	else if (sleep != 0)
		fs.block_count++;
	else
		fs.try_count++;
	if (fs.lock_error != 0) {
		(void)fuse_reply_err(req, fs.lock_error);
	} else if (lock->l_type != F_UNLCK && sleep != 0) {
		waiting_add(req, &row);
	} else if (lock_table_conflict(&fs.table, &row) != NULL) {
		(void)fuse_reply_err(req, EAGAIN);
	} else {
		(void)fuse_reply_err(req, lock_table_set(&fs.table, &row) == 0 ? 0 : ENOLCK);
	}
}

static void fs_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock)
{
	struct lock_row row = row_of(lock, fi->lock_owner);
	const struct lock_row *other = lock_table_conflict(&fs.table, &row);
	struct flock answer = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	(void)ino;
	fs.look_count++;
	if (fs.lock_error != 0) {
		(void)fuse_reply_err(req, fs.lock_error);
		return;
	}
	if (other != NULL) {
		answer.l_type = other->type;
		answer.l_start = other->start;
		answer.l_len = other->end == INT64_MAX ? 0 : other->end - other->start + 1;
		answer.l_pid = other->pid;
	}
	(void)fuse_reply_lock(req, &answer);
}

/* Any close of the file in a process drops that process's locks; so does its death. */
static void fs_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct lock_row all = { .owner = fi->lock_owner, .type = F_UNLCK, .end = INT64_MAX };

	if (ino == INO_LOCK)
		(void)lock_table_set(&fs.table, &all); /* a whole unlock needs no memory */
	(void)fuse_reply_err(req, 0);
}

static const struct fuse_lowlevel_ops fs_ops = {
	.init = fs_init,
	.lookup = fs_lookup,
	.getattr = fs_getattr,
	.setattr = fs_setattr,
	.open = fs_open,
	.read = fs_read,
	.write = fs_write,
	.flush = fs_flush,
	.getlk = fs_getlk,
	.setlk = fs_setlk,
};

static int loop(struct fuse_session *session)
{
	struct fuse_buf buf = { 0 };
	int received = 0;

	while (!fuse_session_exited(session)) {
		struct pollfd device = { .fd = fuse_session_fd(session), .events = POLLIN };
		uint64_t next_ns = waiting_look();
		uint64_t now_ns = berth_clock_ns();
		int wait_ms = -1;

		if (next_ns != 0)
			wait_ms = next_ns <= now_ns ? 0 : (int)((next_ns - now_ns) / 1000000 + 1);
		if (fs.workers != 0 && fs.waiting_count >= (unsigned)fs.workers)
			device.fd = -1; /* every worker sits in the lock handler */
		if (poll(&device, 1, wait_ms) <= 0)
			continue;
		received = fuse_session_receive_buf(session, &buf);
		if (received > 0)
			fuse_session_process_buf(session, &buf);
		else if (received != -EINTR)
			break;
	}
	free(buf.mem);
	return received == 0 || received == -EINTR || received > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct fuse_cmdline_opts options = { 0 };
	struct fuse_session *session = NULL;
	int status = 1;

	if (fuse_opt_parse(&args, &fs, fs_options, NULL) != 0 ||
	    fuse_parse_cmdline(&args, &options) != 0 || options.mountpoint == NULL) {
		(void)fprintf(stderr, "usage: lockfs [-o OPTION,...] MOUNTPOINT\n");
		return 2;
	}
	session = fuse_session_new(&args, &fs_ops, sizeof(fs_ops), NULL);
	if (session != NULL && fuse_set_signal_handlers(session) == 0) {
		if (fuse_session_mount(session, options.mountpoint) == 0) {
			(void)puts("ready");
			(void)fflush(stdout);
			status = loop(session);
			fuse_session_unmount(session);
		}
		fuse_remove_signal_handlers(session);
	}
	if (session != NULL)
		fuse_session_destroy(session);
	free(options.mountpoint);
	fuse_opt_free_args(&args);
	return status;
}
