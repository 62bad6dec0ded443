/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that is linked to the driver, alone or with shim.c before it: whose functions its calls,
 * and searches from the program and from the shim, end at.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "fake_cuda.h"
#include "routes_client.h"

extern void *shim_next(const char *name) __attribute__((weak));

int main(void)
{
	void *found = NULL;
	int status = -1;
	int result = cuGetProcAddress_v2("cuGetProcAddress", &found, 12000, 0, &status);

	printf("%d %d %s ", result, status, owner_of(found));
	printf("%s ", owner_of((void *)cuGetProcAddress_v2));
	printf("%s ", owner_of(dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2")));
	printf("%s ", owner_of(dlsym(RTLD_NEXT, "cuGetProcAddress_v2")));
	printf("%s ", shim_next != NULL ? owner_of(shim_next("cuGetProcAddress_v2")) : "-");
	/* A name that is none of ours: what matters is that the real dlsym still sees its caller. */
	printf("%s\n", shim_next != NULL ? owner_of(shim_next("getppid")) : "-");
	return 0;
}
