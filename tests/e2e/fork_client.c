/* SPDX-License-Identifier: Apache-2.0
 *
 * A program whose fork children have other limits in their environments: order.sh's.
 *
 *   fork_client LIMIT...
 *
 * For each LIMIT ("-" = none) one fork child. (This process looks at the GPU by NVML only: a driver that is
 * initialised is of no use after a fork.) A child sets CUDA_DEVICE_MEMORY_LIMIT, uses the GPU by two threads,
 * prints "PID TOTAL RESULT" (what it sees, what an allocation of one byte more gives) and stays. Each starts
 * with a line of standard input; the end of it ends all.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "driver/cuda_functions.h"
#include "driver/nvml_functions.h"

static void *call(const char *soname, const char *name)
{
	void *library = dlopen(soname, RTLD_NOW);
	void *address = library ? dlsym(library, name) : NULL;

	if (!address) {
		fprintf(stderr, "fork_client: no %s\n", name);
		exit(1);
	}
	return address;
}

#define CALL(name, ...) ((__typeof__(name) *)call("libcuda.so.1", #name))(__VA_ARGS__)
#define NVML(name, ...) ((__typeof__(name) *)call("libnvidia-ml.so.1", #name))(__VA_ARGS__)

static void *ask(void *ret_text)
{
	CUcontext context = NULL;
	CUdeviceptr block;
	size_t free_bytes = 0;
	size_t total_bytes = 0;
	CUresult result = CALL(cuInit, 0);

	if (result == CUDA_SUCCESS)
		result = CALL(cuDevicePrimaryCtxRetain, &context, 0);
	if (result == CUDA_SUCCESS)
		result = CALL(cuCtxSetCurrent, context);
	if (result == CUDA_SUCCESS)
		result = CALL(cuMemGetInfo_v2, &free_bytes, &total_bytes);
	if (result == CUDA_SUCCESS)
		result = CALL(cuMemAlloc_v2, &block, total_bytes + 1);
	(void)snprintf(ret_text, 64, "%zu %d", total_bytes, (int)result);
	return NULL;
}

static void member(const char *limit)
{
	char text[2][64] = { "", "" };
	pthread_t thread;

	if (strcmp(limit, "-") == 0)
		unsetenv("CUDA_DEVICE_MEMORY_LIMIT");
	else
		setenv("CUDA_DEVICE_MEMORY_LIMIT", limit, 1);
	if (pthread_create(&thread, NULL, ask, text[1]) != 0)
		exit(1);
	ask(text[0]);
	pthread_join(thread, NULL);
	printf("%d %s\n", (int)getpid(), strcmp(text[0], text[1]) == 0 ? text[0] : "differ");
	fflush(stdout);
}

static int look(void)
{
	nvmlDevice_t device;
	nvmlMemory_t memory;

	return NVML(nvmlInit_v2) || NVML(nvmlDeviceGetHandleByIndex_v2, 0, &device) ||
	       NVML(nvmlDeviceGetMemoryInfo, device, &memory);
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc < 2 || look() != 0)
		return 2;
	for (int i = 1; i < argc && read(STDIN_FILENO, line, sizeof(line)) > 0; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid > 0)
			continue;
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
			return 1;
		member(argv[i]);
		for (;;)
			pause();
	}
	while (read(STDIN_FILENO, line, sizeof(line)) > 0)
		;
	return 0;
}
