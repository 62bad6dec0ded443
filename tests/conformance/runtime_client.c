/* SPDX-License-Identifier: Apache-2.0
 *
 * berth-runtime-client PATH-OF-LIBCUDART: the first call of a program on the CUDA runtime, which
 * makes the runtime look up all that it needs. Prints the runtime's answer; 77 without a library.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *runtime = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*get_count)(int *);
	int count = -1;

	if (!runtime) {
		printf("skipped: %s\n", argc == 2 ? dlerror() : "no library named");
		return 77;
	}
	get_count = (int (*)(int *))dlsym(runtime, "cudaGetDeviceCount");
	if (!get_count) {
		puts("skipped: no CUDA runtime");
		return 77;
	}
	printf("cudaGetDeviceCount %d\n", get_count(&count));
	return 0;
}
