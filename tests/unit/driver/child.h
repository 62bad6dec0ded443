/* SPDX-License-Identifier: Apache-2.0
 *
 * A process has one driver for ever, so each case runs in a child of its own: a failed check there is
 * its exit status. Included after cmocka.h.
 */
#ifndef BERTH_TESTS_DRIVER_CHILD_H
#define BERTH_TESTS_DRIVER_CHILD_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* cmocka's assertions would jump back to the parent's test; a child only says where it failed. */
#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)

static inline void in_child(void (*test)(void))
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0) {
		test();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#endif
