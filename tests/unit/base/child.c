/* SPDX-License-Identifier: Apache-2.0
 *
 * A test's child process.
 */
#include "child.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

void child_run(int (*body)(void *arg), void *arg, struct child_result *ret_result)
{
	int error_pipe[2];
	pid_t pid;
	ssize_t n;

	memset(ret_result, 0, sizeof(*ret_result));
	assert_int_equal(pipe(error_pipe), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(error_pipe[1], STDERR_FILENO);
		close(error_pipe[0]);
		close(error_pipe[1]);
		_exit(body(arg));
	}
	close(error_pipe[1]);
	for (;;) {
		size_t room = sizeof(ret_result->error) - 1 - ret_result->error_bytes;

		n = read(error_pipe[0], ret_result->error + ret_result->error_bytes, room);
		if (n > 0)
			ret_result->error_bytes += (size_t)n;
		else if (n == 0 || errno != EINTR)
			break;
	}
	close(error_pipe[0]);
	assert_int_equal(waitpid(pid, &ret_result->status, 0), pid);
}

void child_run_ok(int (*body)(void *arg), void *arg, struct child_result *ret_result)
{
	child_run(body, arg, ret_result);
	if (WIFEXITED(ret_result->status) && WEXITSTATUS(ret_result->status) == 77) {
		print_message("skipped: %s", ret_result->error);
		skip();
	}
	if (ret_result->status != 0)
		print_message("status 0x%x, standard error: %s\n", (unsigned)ret_result->status,
			      ret_result->error);
	assert_int_equal(ret_result->status, 0);
}
