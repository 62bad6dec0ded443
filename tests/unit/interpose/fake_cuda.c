/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver for the look-up tests: it computes nothing, and looks its own names up in the ways that
 * drivers do: from a constructor, inside cuInit, and from a helper thread during cuInit.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "fake_cuda.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int cuGetProcAddress(const char *base, void **function, int version, uint64_t flags)
{
	return fake_resolve(base, function, version, flags, NULL);
}

EXPORT int cuGetProcAddress_v2(const char *base, void **function, int version, uint64_t flags,
			       int *status)
{
	return fake_resolve(base, function, version, flags, status);
}

EXPORT struct fake_counts fake_counts;

/* What the driver finds when it looks for itself must be itself. */
static void look_for_myself(void)
{
	void *me = (void *)cuGetProcAddress_v2;

	if (dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2") != me)
		atomic_fetch_add(&fake_counts.lost_itself, 1);
	atomic_fetch_add(&fake_counts.looked_for_itself, 1);
}

__attribute__((constructor)) static void loaded(void)
{
	/* RTLD_DEFAULT finds it in a bare program only if it was loaded globally. */
	if (getenv("FAKE_IS_GLOBAL") != NULL)
		look_for_myself();
}

static void *helper(void *unused)
{
	(void)unused;
	if (getenv("FAKE_IS_GLOBAL") != NULL)
		look_for_myself();
	return NULL;
}

static __thread bool inside_init;

static void init_once(void)
{
	int (*found)(unsigned int);
	pthread_t thread;

	atomic_fetch_add(&fake_counts.init_bodies, 1);
	*(void **)&found = dlsym(RTLD_DEFAULT, "cuInit");
	inside_init = true;
	if (found != NULL && found(0) != 0)
		atomic_fetch_add(&fake_counts.lost_itself, 1);
	inside_init = false;
	if (pthread_create(&thread, NULL, helper, NULL) == 0)
		pthread_join(thread, NULL);
}

/* As drivers do: once, under a guard that a second entry by the same thread would never pass. */
EXPORT int cuInit(unsigned int flags);
EXPORT int cuInit(unsigned int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)flags;
	atomic_fetch_add(&fake_counts.init_calls, 1);
	if (!inside_init)
		pthread_once(&once, init_once);
	return 0;
}
