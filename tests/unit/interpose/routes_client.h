/* SPDX-License-Identifier: Apache-2.0
 *
 * The routes that go through cuGetProcAddress, and what all routes use.
 */
#ifndef BERTH_TESTS_ROUTES_CLIENT_H
#define BERTH_TESTS_ROUTES_CLIENT_H

/* "ours", "driver", "null", or the file that the function lies in. */
const char *owner_of(const void *function);
void *open_or_die(const char *path, int flags);

int resolver_first(void);
int resolver_forms(void);
int resolver_errors(void);

#endif
