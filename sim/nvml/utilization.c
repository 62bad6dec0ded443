/* SPDX-License-Identifier: Apache-2.0
 *
 * How busy a card was over the last second of device time, as a whole and by process. NVML's own
 * figures lag by a sampling period, too.
 */
#include <stdlib.h>
#include <time.h>

#include "sim/node/device_time.h"
#include "sim/node/node.h"
#include "sim/node/timeline.h"
#include "sim/nvml/handle.h"
#include "sim/nvml/quirk.h"
#include "sim/nvml/utilization.h"

#define SAMPLING_PERIOD_US 167000U

nvmlReturn_t sim_nvml_use_pct(nvmlDevice_t device, unsigned int *ret_pct)
{
	unsigned gpu;
	nvmlReturn_t result = sim_nvml_gpu(device, &gpu);

	if (result != NVML_SUCCESS)
		return result;
	if (sim_nvml_has_quirk(SIM_QUIRK_NO_UTILIZATION))
		return NVML_ERROR_NOT_SUPPORTED;
	if (sim_time_open() != 0)
		return NVML_ERROR_UNKNOWN;
	*ret_pct = sim_time_use_pct(gpu, SIM_TIMELINE_WINDOW_NS);
	if (sim_nvml_has_quirk(SIM_QUIRK_OVER_100))
		*ret_pct += 110;
	return NVML_SUCCESS;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
							   nvmlUtilization_t *utilization)
{
	unsigned int pct;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetUtilizationRates);
	if (!utilization)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	result = sim_nvml_use_pct(device, &pct);
	if (result == NVML_SUCCESS)
		*utilization = (nvmlUtilization_t){ .gpu = pct, .memory = pct / 2 };
	return SIM_NVML_LEAVE(result);
}

/* Nothing encodes or decodes. */
static nvmlReturn_t idle_engine(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
	nvmlReturn_t result;

	if (!period_us)
		return NVML_ERROR_INVALID_ARGUMENT;
	result = sim_nvml_number(device, 0, percent);
	if (result == NVML_SUCCESS)
		*period_us = SAMPLING_PERIOD_US;
	return result;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device,
							     unsigned int *percent,
							     unsigned int *period_us)
{
	SIM_NVML_ENTER(nvmlDeviceGetEncoderUtilization);
	return SIM_NVML_LEAVE(idle_engine(device, percent, period_us));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device,
							     unsigned int *percent,
							     unsigned int *period_us)
{
	SIM_NVML_ENTER(nvmlDeviceGetDecoderUtilization);
	return SIM_NVML_LEAVE(idle_engine(device, percent, period_us));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessions,
						       unsigned int *fps, unsigned int *latency_us)
{
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetEncoderStats);
	if (!fps || !latency_us)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	result = sim_nvml_number(device, 0, sessions);
	if (result == NVML_SUCCESS)
		*fps = *latency_us = 0;
	return SIM_NVML_LEAVE(result);
}

struct sample {
	uint32_t pid;
	uint32_t pct;
};

/* Who used the card at all in the window. */
static nvmlReturn_t read_samples(nvmlDevice_t device, struct sample *ret, unsigned int *ret_count)
{
	struct sim_process_view *views;
	unsigned gpu;
	size_t found;
	nvmlReturn_t result = sim_nvml_gpu(device, &gpu);

	if (result != NVML_SUCCESS)
		return result;
	if (sim_nvml_has_quirk(SIM_QUIRK_NO_UTILIZATION))
		return NVML_ERROR_NOT_SUPPORTED;
	if (sim_time_open() != 0)
		return NVML_ERROR_UNKNOWN;
	views = calloc(SIM_PROCESS_MAX, sizeof(*views));
	if (!views)
		return NVML_ERROR_MEMORY;
	found = sim_node_processes(gpu, views, SIM_PROCESS_MAX);
	*ret_count = 0;
	for (size_t i = 0; i < found && i < SIM_PROCESS_MAX; i++) {
		uint32_t pct = sim_time_process_use_pct(gpu, views[i].row, SIM_TIMELINE_WINDOW_NS);

		if (pct > 0)
			ret[(*ret_count)++] = (struct sample){ views[i].host_pid, pct };
	}
	free(views);
	return NVML_SUCCESS;
}

static unsigned long long now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (unsigned long long)ts.tv_sec * 1000000ULL + (unsigned long long)ts.tv_nsec / 1000;
}

/* The samples are of this moment, so a caller that has seen later ones gets none. */
static nvmlReturn_t recent_samples(nvmlDevice_t device, unsigned long long since_us,
				   struct sample *ret, unsigned int *ret_count,
				   unsigned long long *ret_at_us)
{
	nvmlReturn_t result = read_samples(device, ret, ret_count);

	*ret_at_us = now_us();
	if (result == NVML_SUCCESS && (*ret_count == 0 || *ret_at_us <= since_us))
		result = NVML_ERROR_NOT_FOUND;
	return result;
}

static nvmlReturn_t process_utilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *ret,
					unsigned int *count, unsigned long long since_us)
{
	struct sample samples[SIM_PROCESS_MAX];
	unsigned long long at_us;
	unsigned int found, room = *count;
	nvmlReturn_t result = recent_samples(device, since_us, samples, &found, &at_us);

	if (result != NVML_SUCCESS)
		return result;
	*count = found;
	if (!ret || room < found)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < found; i++)
		ret[i] = (nvmlProcessUtilizationSample_t){
			.pid = samples[i].pid,
			.timeStamp = at_us,
			.smUtil = samples[i].pct,
			.memUtil = samples[i].pct / 2,
		};
	return NVML_SUCCESS;
}

SIM_NVML_EXPORT nvmlReturn_t
nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
				unsigned int *count, unsigned long long since_us)
{
	SIM_NVML_ENTER(nvmlDeviceGetProcessUtilization);
	if (!count)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	return SIM_NVML_LEAVE(process_utilization(device, samples, count, since_us));
}

static nvmlReturn_t processes_utilization(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
	struct sample samples[SIM_PROCESS_MAX];
	unsigned long long at_us;
	unsigned int found, room = info->processSamplesCount;
	nvmlReturn_t result =
		recent_samples(device, info->lastSeenTimeStamp, samples, &found, &at_us);

	if (result != NVML_SUCCESS)
		return result;
	info->processSamplesCount = found;
	if (!info->procUtilArray || room < found)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < found; i++)
		info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
			.timeStamp = at_us,
			.pid = samples[i].pid,
			.smUtil = samples[i].pct,
			.memUtil = samples[i].pct / 2,
		};
	return NVML_SUCCESS;
}

SIM_NVML_EXPORT nvmlReturn_t
nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
	SIM_NVML_ENTER(nvmlDeviceGetProcessesUtilizationInfo);
	if (!info)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	if (info->version != nvmlProcessesUtilizationInfo_v1)
		return SIM_NVML_LEAVE(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	return SIM_NVML_LEAVE(processes_utilization(device, info));
}

/* Fields are asked for by the dozen, each with an answer of its own: this card has none of them. */
SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
						      nvmlFieldValue_t *values)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetFieldValues);
	result = sim_nvml_gpu(device, &gpu);
	if (result == NVML_SUCCESS && (count <= 0 || !values))
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	for (int i = 0; i < count; i++) {
		values[i].timestamp = (long long)now_us();
		values[i].latencyUsec = 0;
		values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
	}
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}
