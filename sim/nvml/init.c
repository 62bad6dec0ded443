/* SPDX-License-Identifier: Apache-2.0
 *
 * nvmlInit counts, nvmlShutdown counts down, and what the system as a whole is asked. The node
 * stays mapped once it was opened.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "sim/node/node.h"
#include "sim/nvml/handle.h"
#include "sim/nvml/quirk.h"

static struct {
	pthread_mutex_t lock;
	_Atomic unsigned int count;
} init_ = { .lock = PTHREAD_MUTEX_INITIALIZER };

__attribute__((constructor)) static void guard_init(void)
{
	sim_node_fork_waits_for(&init_.lock);
}

bool sim_nvml_is_initialized(void)
{
	return init_.count > 0;
}

static nvmlReturn_t initialize(unsigned int flags)
{
	nvmlReturn_t result = NVML_SUCCESS;

	if (flags & ~(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH))
		return NVML_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&init_.lock);
	/* Also for the second time: a fork child opens anew. */
	if (!sim_config() || !sim_nvml_quirks_read())
		result = NVML_ERROR_UNKNOWN;
	else if (sim_node_open() != 0)
		result = NVML_ERROR_DRIVER_NOT_LOADED;
	else
		init_.count++;
	pthread_mutex_unlock(&init_.lock);
	return result;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlInit(void)
{
	SIM_NVML_ENTER(nvmlInit);
	return SIM_NVML_LEAVE(initialize(0));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	SIM_NVML_ENTER(nvmlInit_v2);
	return SIM_NVML_LEAVE(initialize(0));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	SIM_NVML_ENTER(nvmlInitWithFlags);
	return SIM_NVML_LEAVE(initialize(flags));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t result = NVML_SUCCESS;

	SIM_NVML_ENTER(nvmlShutdown);
	pthread_mutex_lock(&init_.lock);
	if (init_.count == 0)
		result = NVML_ERROR_UNINITIALIZED; /* another thread was first */
	else
		init_.count--;
	pthread_mutex_unlock(&init_.lock);
	return SIM_NVML_LEAVE(result);
}

SIM_NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
#define NVML_RESULT(name, value, phrase) \
	case name:                       \
		return phrase;
#include "driver/nvml_results.def"
#undef NVML_RESULT
	}
	return "Unknown Error";
}

/* Of each version that is played, a driver that had it. */
static const struct {
	unsigned int cuda_version;
	const char *driver;
} releases_[] = {
	{ 13000, "580.65.06" },
	{ 12080, "570.86.10" },
	{ 12020, "535.54.03" },
	{ 11040, "470.57.02" },
};

static const char *driver_release(void)
{
	for (size_t i = 0; i < sizeof(releases_) / sizeof(releases_[0]); i++) {
		if (releases_[i].cuda_version == sim_config()->driver_version)
			return releases_[i].driver;
	}
	return releases_[0].driver;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	SIM_NVML_ENTER(nvmlSystemGetDriverVersion);
	return SIM_NVML_LEAVE(sim_nvml_copy_text(driver_release(), version, length));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	char text[40];

	SIM_NVML_ENTER(nvmlSystemGetNVMLVersion);
	snprintf(text, sizeof(text), "%u.%s", sim_config()->driver_version / 1000,
		 driver_release());
	return SIM_NVML_LEAVE(sim_nvml_copy_text(text, version, length));
}

static nvmlReturn_t cuda_version(int *version)
{
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = (int)sim_config()->driver_version;
	return NVML_SUCCESS;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	SIM_NVML_ENTER(nvmlSystemGetCudaDriverVersion);
	return SIM_NVML_LEAVE(cuda_version(version));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	SIM_NVML_ENTER(nvmlSystemGetCudaDriverVersion_v2);
	return SIM_NVML_LEAVE(cuda_version(version));
}

/* Cases with a power supply of their own: there are none. */
SIM_NVML_EXPORT nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
	SIM_NVML_ENTER(nvmlUnitGetCount);
	if (!count)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	*count = 0;
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlUnitGetHandleByIndex(unsigned int index, nvmlUnit_t *unit)
{
	SIM_NVML_ENTER(nvmlUnitGetHandleByIndex);
	(void)index;
	(void)unit;
	return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
}

/*
 * NVIDIA's own tools ask for tables of functions that are not part of the interface. None is
 * given; a tool that needs them says so.
 */
SIM_NVML_EXPORT nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *table_id)
{
	SIM_NVML_ENTER(nvmlInternalGetExportTable);
	if (!table || !table_id)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	return SIM_NVML_LEAVE(NVML_ERROR_NOT_SUPPORTED);
}
