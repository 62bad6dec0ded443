/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose function is it?
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "routes_client.h"

const char *owner_of(const void *function)
{
	Dl_info info;
	const char *file;

	if (function == NULL)
		return "null";
	if (dladdr(function, &info) == 0)
		return "nobody";
	file = strrchr(info.dli_fname, '/');
	file = file != NULL ? file + 1 : info.dli_fname;
	if (strcmp(file, "libberth-cuda.so") == 0)
		return "ours";
	if (strncmp(file, "libcuda.so", 10) == 0 || strncmp(file, "libnvidia-ml.so", 15) == 0)
		return "driver";
	return file;
}

void *open_or_die(const char *path, int flags)
{
	void *handle = dlopen(path, flags);

	if (handle == NULL) {
		printf("%s\n", dlerror());
		exit(1);
	}
	return handle;
}
