/* SPDX-License-Identifier: Apache-2.0
 *
 * berthd: options, and the order of what is done: sockets by root, then never again anything by root.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/privileges.h"
#include "agent/probe_lock.h"
#include "agent/service.h"
#include "agent/supervisor.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/node_dir.h"
#include "base/process.h"

#define DEFAULT_USER "nobody"

/* Documented in berthd(8). */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_OTHER_SERVES = 3,
};

struct options {
	const char *paths[BERTH_SERVICE_LISTENERS_MAX];
	int path_count;
	const char *user;
	bool any_namespace;
	bool done; /* the answer was printed: exit with status */
	enum exit_code status;
};

enum option_value { OPTION_SOCKET = 1, OPTION_USER, OPTION_ANY_NAMESPACE, OPTION_VERSION };

static const struct option option_table[] = {
	{ "socket", required_argument, NULL, OPTION_SOCKET },
	{ "user", required_argument, NULL, OPTION_USER },
	{ "any-namespace", no_argument, NULL, OPTION_ANY_NAMESPACE },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char help_text[] =
	"usage: berthd [--socket PATH]... [--user NAME] [--any-namespace]\n"
	"\n"
	"Tells each process that connects under which pid this host knows it.\n"
	"\n"
	"  --socket PATH    answer at PATH; may be given several times\n"
	"                   (default: broker.sock in BERTH_NODE_DIR or " BERTH_NODE_DIR_DEFAULT
	")\n"
	"  --user NAME      become NAME once the sockets are there (default: " DEFAULT_USER ")\n"
	"  --any-namespace  serve outside the host's own pid namespace: the pids are then\n"
	"                   this namespace's\n"
	"  --version, --help\n"
	"\n"
	"It stays in the foreground and logs to standard error; SIGTERM ends it. See berthd(8).\n";

static void stop(struct options *options, enum exit_code status)
{
	options->done = true;
	options->status = status;
}

static void option_take(struct options *options, int value)
{
	switch (value) {
	case OPTION_SOCKET:
		if (options->path_count == BERTH_SERVICE_LISTENERS_MAX) {
			fprintf(stderr, "berthd: --socket: at most %d\n",
				BERTH_SERVICE_LISTENERS_MAX);
			stop(options, EXIT_USAGE);
			return;
		}
		options->paths[options->path_count++] = optarg;
		return;
	case OPTION_USER:
		options->user = optarg;
		return;
	case OPTION_ANY_NAMESPACE:
		options->any_namespace = true;
		return;
	case OPTION_VERSION:
		printf("berthd %s\n", BERTH_VERSION);
		stop(options, EXIT_OK);
		return;
	case 'h':
		fputs(help_text, stdout);
		stop(options, EXIT_OK);
		return;
	default: /* getopt has said it */
		fputs("berthd: see berthd --help\n", stderr);
		stop(options, EXIT_USAGE);
	}
}

static struct options options_read(int argc, char **argv)
{
	struct options options = { .user = DEFAULT_USER };
	int value;

	while (!options.done && (value = getopt_long(argc, argv, "h", option_table, NULL)) != -1)
		option_take(&options, value);
	if (!options.done && optind < argc) {
		fprintf(stderr, "berthd: '%s': no operand is wanted; see berthd --help\n",
			argv[optind]);
		stop(&options, EXIT_USAGE);
	}
	if (options.done && options.status == EXIT_OK && fflush(stdout) != 0)
		options.status = EXIT_FAILED;
	return options;
}

/* A socket must not get the number of a standard stream that was closed. */
static bool streams_open(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return false;
	berth_fd_close(&fd);
	return true;
}

/* "" if BERTH_NODE_DIR is no absolute path. */
static const char *node_dir(void)
{
	const char *given = getenv("BERTH_NODE_DIR");

	if (!given || given[0] == '\0')
		return BERTH_NODE_DIR_DEFAULT;
	return given[0] == '/' && strlen(given) < BERTH_NODE_DIR_MAX ? given : "";
}

static int sockets_adopt(struct berth_service *service, int count, struct berth_reason *reason)
{
	for (int i = 0; i < count; i++) {
		bool believed = false;
		int err = berth_listener_adopt(BERTH_SUPERVISOR_FIRST_FD + i,
					       &service->listeners[service->listener_count],
					       &believed, reason);

		if (err < 0)
			return err;
		service->listener_count++;
		if (!believed)
			berth_warning("socket %d was not opened by root: clients won't believe "
				      "what is answered there",
				      BERTH_SUPERVISOR_FIRST_FD + i);
	}
	return 0;
}

static int socket_open(struct berth_service *service, const char *path, struct berth_reason *reason)
{
	struct berth_listener *listener = &service->listeners[service->listener_count];
	int err;

	if (service->listener_count == BERTH_SERVICE_LISTENERS_MAX)
		return berth_reason_set(reason, -EINVAL, "more than %d sockets",
					BERTH_SERVICE_LISTENERS_MAX);
	if (geteuid() != 0)
		return berth_reason_set(reason, -EPERM,
					"%s: only root can open a socket that clients believe; or "
					"let systemd hand it over (berthd.socket)",
					path);
	err = berth_listener_open(path, listener, reason);
	if (!err)
		service->listener_count++;
	return err;
}

/* Those handed over, and those named; if there are neither, the one where clients look. */
static int sockets_open(struct berth_service *service, const struct options *options,
			struct berth_reason *reason)
{
	static char standard[BERTH_NODE_DIR_MAX + sizeof(BERTH_NODE_BROKER) + 1];
	int handed_over = berth_supervisor_fds(BERTH_SERVICE_LISTENERS_MAX, reason);
	int err = handed_over < 0 ? handed_over : sockets_adopt(service, handed_over, reason);

	for (int i = 0; i < options->path_count && !err; i++)
		err = socket_open(service, options->paths[i], reason);
	if (err < 0 || service->listener_count > 0)
		return err;
	if (node_dir()[0] == '\0')
		return berth_reason_set(reason, -EINVAL, "BERTH_NODE_DIR: give an absolute path");
	err = berth_node_dir_file(node_dir(), BERTH_NODE_BROKER, standard, sizeof(standard));
	return err < 0 ? berth_reason_set(reason, err, "BERTH_NODE_DIR is too long")
		       : socket_open(service, standard, reason);
}

/* The broker does without it, so an error is only said. */
static void probe_lock_make(void)
{
	struct berth_reason reason = { "" };
	int err;

	if (geteuid() != 0 || node_dir()[0] == '\0')
		return;
	err = berth_probe_lock_make(node_dir(), &reason);
	if (err < 0 && err != -ENOENT)
		berth_warning("without the file of the probe lock: %s", reason.text);
}

static void listeners_remove(const struct berth_service *service)
{
	for (int i = 0; i < service->listener_count; i++)
		berth_listener_remove(&service->listeners[i]);
}

static int begin(struct berth_service *service, const struct options *options,
		 struct berth_reason *reason)
{
	struct berth_user user = { 0 };
	int err;

	if (!options->any_namespace && !berth_process_in_initial_pid_namespace())
		return berth_reason_set(reason, -EPERM,
					"this isn't the host's own pid namespace, so these pids "
					"are nobody's: run it on the host (in a container: with "
					"the host's pid namespace)");
	err = geteuid() == 0 ? berth_user_find(options->user, &user, reason) : 0;
	if (!err)
		err = sockets_open(service, options, reason);
	if (!err) {
		probe_lock_make();
		err = berth_privileges_drop(&user, reason);
	}
	/* Nobody is to wait at a socket that won't be served. */
	if (err < 0)
		listeners_remove(service);
	return err;
}

static void begun_say(const struct berth_service *service)
{
	for (int i = 0; i < service->listener_count; i++) {
		const struct berth_listener *listener = &service->listeners[i];

		berth_info("answers at %s",
			   listener->path ? listener->path : "a socket that was handed over");
	}
	berth_info("runs as user %u, group %u, without privileges", (unsigned)getuid(),
		   (unsigned)getgid());
}

static int serve(const struct options *options, struct berth_reason *reason)
{
	struct berth_service service;
	int err = berth_service_begin(&service, reason);

	if (!err)
		err = begin(&service, options, reason);
	if (!err) {
		begun_say(&service);
		err = berth_service_run(&service, reason);
	}
	berth_service_done(&service);
	return err;
}

int main(int argc, char **argv)
{
	struct berth_reason reason = { "" };
	struct options options;
	int err;

	if (!streams_open())
		return EXIT_FAILED;
	options = options_read(argc, argv);
	if (options.done)
		return (int)options.status;
	berth_log_set_fd(STDERR_FILENO);
	if (!getenv("BERTH_LOG_LEVEL"))
		berth_log_set_level(BERTH_LOG_INFO);
	/* Each thing made has its mode said; this one is bind's, which can't be told. */
	(void)umask(0111);
	err = serve(&options, &reason);
	if (!err)
		return EXIT_OK;
	berth_error("%s", reason.text[0] ? reason.text : strerror(-err));
	return err == -EADDRINUSE ? EXIT_OTHER_SERVES : EXIT_FAILED;
}
