/* SPDX-License-Identifier: Apache-2.0
 *
 * A test's child process: it runs one function, its standard error is caught. What is read once in a
 * process's life (levels, armed crash points) gets a fresh process each time.
 */
#ifndef BERTH_TESTS_CHILD_H
#define BERTH_TESTS_CHILD_H

#include <stdbool.h>
#include <stddef.h>

struct child_result {
	int status;         /* as of waitpid */
	char error[8192];   /* what it wrote to standard error */
	size_t error_bytes; /* its length */
};

/* Runs body(arg) in a fork child, which then ends with body's value as its exit status. */
void child_run(int (*body)(void *arg), void *arg, struct child_result *ret_result);

/* The same, and fails the test unless it ended with status 0. Status 77: says why it was skipped (what
 * the child wrote) and skips the test. */
void child_run_ok(int (*body)(void *arg), void *arg, struct child_result *ret_result);

/* In a child: a check that doesn't need cmocka's state. */
#define CHILD_CHECK(condition)                                                     \
	do {                                                                       \
		if (!(condition)) {                                                \
			dprintf(2, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			return 1;                                                  \
		}                                                                  \
	} while (0)

/* In a child: says why the machine doesn't allow this test. */
#define CHILD_SKIP(why)                  \
	do {                             \
		dprintf(2, "%s\n", why); \
		return 77;               \
	} while (0)

#endif
