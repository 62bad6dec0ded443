/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody else's library between a program and the driver: linked to the driver, exports one of its
 * names and one of libc's, looks for the next one, and wraps a cu* name that no driver has.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *shim_next(const char *name);
EXPORT void *shim_linked(void);
EXPORT int cudnnCreate(void);
EXPORT pid_t getppid(void);
EXPORT int shim_cudnn_alias(void) __attribute__((alias("cudnnCreate")));
EXPORT int cuGetProcAddress_v2(const char *base, void **function, int version, uint64_t flags,
			       int *status);
extern int cuGetProcAddress(void);

void *shim_next(const char *name)
{
	/* The result is used after the call, so that it is not one in tail position. */
	void *next = dlsym(RTLD_NEXT, name);

	__asm__ volatile("" : "+r"(next));
	return next;
}

void *shim_linked(void)
{
	return (void *)cuGetProcAddress;
}

pid_t getppid(void)
{
	return -1;
}

int cudnnCreate(void)
{
	return 1;
}

int cuGetProcAddress_v2(const char *base, void **function, int version, uint64_t flags, int *status)
{
	int (*next)(const char *, void **, int, uint64_t, int *);

	*(void **)&next = shim_next("cuGetProcAddress_v2");
	return next(base, function, version, flags, status);
}
