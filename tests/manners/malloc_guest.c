/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with a malloc of its own (fork_malloc.c) that uses the GPU and forks: children that do
 * nothing, children that attach themselves, children of children, and one after a look at the GPU's memory
 * without a context. Ends with 0 when all of them have ended well; who hangs is seen by the test's
 * watchdog. Nothing may be freed in the handler.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/cuda_functions.h"
#include "driver/nvml_functions.h"

enum { GENERATIONS = 5 };

static int await(pid_t pid)
{
	int status = 0;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : 1;
}

static int idle_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return await(pid);
}

/* Each child goes to cuInit, which makes it a seat of its own; the driver then refuses it, as a real one does in
 * the child of a process that has it initialised. */
static int generation(int left)
{
	if (idle_child() != 0)
		return 3;
	if (left == 0)
		return 0;
	pid_t pid = fork();
	if (pid == 0) {
		(void)cuInit(0);
		_exit(generation(left - 1));
	}
	return await(pid);
}

static int use(void)
{
	CUdeviceptr block = 0;
	CUcontext context = NULL;

	if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS ||
	    cuMemAlloc_v2(&block, 1 << 20) != CUDA_SUCCESS)
		return 2;
	return generation(GENERATIONS);
}

/* A monitor: no cuInit, so no seat, but a view of the region. */
static int look(void)
{
	nvmlDevice_t device;
	nvmlMemory_t memory;

	if (nvmlInit_v2() != NVML_SUCCESS ||
	    nvmlDeviceGetHandleByIndex_v2(0, &device) != NVML_SUCCESS ||
	    nvmlDeviceGetMemoryInfo(device, &memory) != NVML_SUCCESS)
		return 4;
	return idle_child();
}

int main(void)
{
	pid_t pid = fork();
	int result;

	if (pid == 0)
		_exit(look());
	result = await(pid);
	if (result == 0)
		result = use();
	(void)printf(result == 0 ? "ok\n" : "failed: %d\n", result);
	return result;
}
