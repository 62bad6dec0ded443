/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is on a card: those with a context there, by host pid, in the three layouts that the calls
 * have. Nobody draws pictures here, and nobody shares a context through MPS.
 *
 * A list too short for all: INSUFFICIENT_SIZE with the number there are, nothing written. Asking
 * for nobody (room for 0) when somebody is there is answered so too; a NULL list is good then.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/node/node.h"
#include "sim/nvml/handle.h"
#include "sim/nvml/quirk.h"

#define NO_INSTANCE   0xffffffffU
#define NOT_AVAILABLE UINT64_MAX
#define STALE_NS      1000000000ULL

struct list {
	struct sim_process_view entries[SIM_PROCESS_MAX];
	unsigned int count;
};

static uint32_t pid_as_told(const struct sim_process_view *view)
{
	/* Not by the row: that is libcuda's, of which we know nothing. */
	if (sim_nvml_has_quirk(SIM_QUIRK_OWN_PID) && view->host_pid == sim_node_own_host_pid())
		return (uint32_t)getpid();
	return view->host_pid;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What was told last, for a while. Threads of one process may tell each other's. */
static uint64_t stale_bytes(unsigned gpu, const struct sim_process_view *view)
{
	static struct {
		_Atomic uint64_t generation, told_ns, bytes;
	} told[SIM_PROCESS_MAX][SIM_GPU_MAX];
	__auto_type last = &told[view->row][gpu];

	if (last->generation != view->generation || now_ns() - last->told_ns >= STALE_NS) {
		last->generation = view->generation;
		last->bytes = view->used_bytes;
		last->told_ns = now_ns();
	}
	return last->bytes;
}

static uint64_t bytes_as_told(unsigned gpu, const struct sim_process_view *view)
{
	if (sim_nvml_has_quirk(SIM_QUIRK_NA_PROCESS_MEMORY))
		return NOT_AVAILABLE;
	return sim_nvml_has_quirk(SIM_QUIRK_STALE_MEMORY) ? stale_bytes(gpu, view)
							  : view->used_bytes;
}

static bool is_listed(const struct sim_process_view *view)
{
	return view->context_count > 0 &&
	       now_ns() - view->context_since_ns >= sim_nvml_list_lag_ns();
}

static nvmlReturn_t read_list(nvmlDevice_t device, struct list *ret_list)
{
	unsigned gpu;
	size_t found;
	nvmlReturn_t result = sim_nvml_gpu(device, &gpu);

	if (result != NVML_SUCCESS)
		return result;
	if (sim_nvml_has_quirk(SIM_QUIRK_NO_PROCESSES))
		return NVML_ERROR_NOT_SUPPORTED;
	found = sim_node_processes(gpu, ret_list->entries, SIM_PROCESS_MAX);
	ret_list->count = 0;
	if (sim_nvml_has_quirk(SIM_QUIRK_EMPTY_PROCESSES))
		return NVML_SUCCESS;
	for (size_t i = 0; i < found && i < SIM_PROCESS_MAX; i++) {
		struct sim_process_view *view = &ret_list->entries[ret_list->count];

		if (!is_listed(&ret_list->entries[i]))
			continue;
		*view = ret_list->entries[i];
		view->used_bytes = bytes_as_told(gpu, view);
		ret_list->count++;
	}
	return NVML_SUCCESS;
}

/* Both later layouts are one; the first one's entries are shorter. */
static void write_entry(void *to, bool is_first, unsigned int at,
			const struct sim_process_view *view)
{
	if (is_first)
		((nvmlProcessInfo_v1_t *)to)[at] = (nvmlProcessInfo_v1_t){
			.pid = pid_as_told(view),
			.usedGpuMemory = view->used_bytes,
		};
	else
		((nvmlProcessInfo_t *)to)[at] = (nvmlProcessInfo_t){
			.pid = pid_as_told(view),
			.usedGpuMemory = view->used_bytes,
			.gpuInstanceId = NO_INSTANCE,
			.computeInstanceId = NO_INSTANCE,
		};
}

static nvmlReturn_t fill_list(nvmlDevice_t device, struct list *list, unsigned int *count,
			      void *processes, bool is_first)
{
	unsigned int room = *count;
	nvmlReturn_t result = read_list(device, list);

	if (result != NVML_SUCCESS)
		return result;
	*count = list->count;
	if (room < list->count)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < list->count; i++)
		write_entry(processes, is_first, i, &list->entries[i]);
	return NVML_SUCCESS;
}

static nvmlReturn_t compute_list(nvmlDevice_t device, unsigned int *count, void *processes,
				 bool is_first)
{
	struct list *list;
	nvmlReturn_t result;

	if (!count || (*count > 0 && !processes))
		return NVML_ERROR_INVALID_ARGUMENT;
	list = malloc(sizeof(*list));
	if (!list)
		return NVML_ERROR_MEMORY;
	result = fill_list(device, list, count, processes, is_first);
	free(list);
	return result;
}

static nvmlReturn_t nobody(nvmlDevice_t device, unsigned int *count, const void *processes)
{
	unsigned gpu;
	nvmlReturn_t result;

	if (!count || (*count > 0 && !processes))
		return NVML_ERROR_INVALID_ARGUMENT;
	result = sim_nvml_gpu(device, &gpu);
	if (result == NVML_SUCCESS)
		*count = 0;
	return result;
}

#define LIST(symbol, type, answer)                                                    \
	SIM_NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *count, \
					    __typeof__(type) *processes)              \
	{                                                                             \
		SIM_NVML_ENTER(symbol);                                               \
		return SIM_NVML_LEAVE(answer);                                        \
	}

LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t,
     compute_list(device, count, processes, true))
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t,
     compute_list(device, count, processes, false))
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t,
     compute_list(device, count, processes, false))
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, nobody(device, count, processes))
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t,
     nobody(device, count, processes))
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, nobody(device, count, processes))
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t,
     nobody(device, count, processes))
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t,
     nobody(device, count, processes))
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t,
     nobody(device, count, processes))

static nvmlReturn_t fill_details(nvmlDevice_t device, struct list *list,
				 nvmlProcessDetailList_t *ret)
{
	unsigned int room = ret->numProcArrayEntries;
	nvmlReturn_t result = read_list(device, list);

	if (result != NVML_SUCCESS)
		return result;
	if (ret->mode != NVML_PROCESS_MODE_COMPUTE)
		list->count = 0;
	ret->numProcArrayEntries = list->count;
	if (room < list->count)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < list->count; i++)
		ret->procArray[i] = (nvmlProcessDetail_v1_t){
			.pid = pid_as_told(&list->entries[i]),
			.usedGpuMemory = list->entries[i].used_bytes,
			.gpuInstanceId = NO_INSTANCE,
			.computeInstanceId = NO_INSTANCE,
		};
	return NVML_SUCCESS;
}

static nvmlReturn_t detail_list(nvmlDevice_t device, nvmlProcessDetailList_t *ret)
{
	struct list *list = malloc(sizeof(*list));
	nvmlReturn_t result = NVML_ERROR_MEMORY;

	if (list)
		result = fill_details(device, list, ret);
	free(list);
	return result;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
								   nvmlProcessDetailList_t *list)
{
	SIM_NVML_ENTER(nvmlDeviceGetRunningProcessDetailList);
	if (!list || list->mode > NVML_PROCESS_MODE_MPS ||
	    (list->numProcArrayEntries > 0 && !list->procArray))
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	if (list->version != nvmlProcessDetailList_v1)
		return SIM_NVML_LEAVE(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	return SIM_NVML_LEAVE(detail_list(device, list));
}

/* The command line of a host pid: the outer /proc's, since pids are the host's. */
static nvmlReturn_t process_name(unsigned int pid, char *name, unsigned int length)
{
	char path[sizeof(sim_config()->proc_path) + 40];
	char text[1024];
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "%s/%u/cmdline", sim_config()->proc_path, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_NOT_FOUND;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return NVML_ERROR_NOT_FOUND;
	text[bytes] = '\0';
	return sim_nvml_copy_text(text, name, length);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name,
						      unsigned int length)
{
	SIM_NVML_ENTER(nvmlSystemGetProcessName);
	if (!name || length == 0)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	return SIM_NVML_LEAVE(process_name(pid, name, length));
}
