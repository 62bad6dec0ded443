/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks, heat, power and modes: plausible figures that follow how busy the card is.
 */
#include "sim/node/node.h"
#include "sim/nvml/handle.h"
#include "sim/nvml/utilization.h"

#define IDLE_MHZ         300U
#define MEMORY_MHZ       5001U
#define IDLE_CELSIUS     35U
#define IDLE_MILLIWATTS  20000U
#define LIMIT_MILLIWATTS 250000U
#define LEAST_LIMIT_MW   100000U
#define REASON_IDLE      0x1ULL

/* 0 to 100; 0 also where utilisation can't be told. */
static nvmlReturn_t busy_pct(nvmlDevice_t device, unsigned int *ret_pct)
{
	unsigned gpu;
	nvmlReturn_t result = sim_nvml_gpu(device, &gpu);

	if (result != NVML_SUCCESS)
		return result;
	if (sim_nvml_use_pct(device, ret_pct) != NVML_SUCCESS)
		*ret_pct = 0;
	if (*ret_pct > 100)
		*ret_pct = 100;
	return NVML_SUCCESS;
}

static nvmlReturn_t clock_of(nvmlDevice_t device, nvmlClockType_t type, bool at_most,
			     unsigned int *ret_mhz)
{
	unsigned int pct, mhz;
	unsigned gpu = 0;
	nvmlReturn_t result = busy_pct(device, &pct);

	if (result == NVML_SUCCESS && (!ret_mhz || type > NVML_CLOCK_VIDEO))
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		result = sim_nvml_gpu(device, &gpu);
	if (result != NVML_SUCCESS)
		return result;
	mhz = type == NVML_CLOCK_MEM ? MEMORY_MHZ : sim_node_gpu(gpu)->clock_mhz;
	*ret_mhz = at_most || pct > 0 || mhz < IDLE_MHZ ? mhz : IDLE_MHZ;
	return NVML_SUCCESS;
}

#define CLOCK(symbol, at_most)                                                         \
	SIM_NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, nvmlClockType_t type, \
					    unsigned int *mhz)                         \
	{                                                                              \
		SIM_NVML_ENTER(symbol);                                                \
		return SIM_NVML_LEAVE(clock_of(device, type, at_most, mhz));           \
	}

CLOCK(nvmlDeviceGetClockInfo, false)
CLOCK(nvmlDeviceGetMaxClockInfo, true)
CLOCK(nvmlDeviceGetMaxCustomerBoostClock, true)
CLOCK(nvmlDeviceGetApplicationsClock, true)
CLOCK(nvmlDeviceGetDefaultApplicationsClock, true)

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type,
						nvmlClockId_t id, unsigned int *mhz)
{
	SIM_NVML_ENTER(nvmlDeviceGetClock);
	if (id > NVML_CLOCK_ID_CUSTOMER_BOOST_MAX)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	return SIM_NVML_LEAVE(clock_of(device, type, id != NVML_CLOCK_ID_CURRENT, mhz));
}

/* One clock each; NULL asks how many there are. */
static nvmlReturn_t one_clock(nvmlDevice_t device, nvmlClockType_t type, unsigned int *count,
			      unsigned int *ret_mhz)
{
	unsigned int mhz, room;
	nvmlReturn_t result = clock_of(device, type, true, &mhz);

	if (result == NVML_SUCCESS && !count)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result != NVML_SUCCESS)
		return result;
	room = *count;
	*count = 1;
	if (!ret_mhz || room < 1)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	ret_mhz[0] = mhz;
	return NVML_SUCCESS;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device,
								unsigned int *count,
								unsigned int *mhz)
{
	SIM_NVML_ENTER(nvmlDeviceGetSupportedMemoryClocks);
	return SIM_NVML_LEAVE(one_clock(device, NVML_CLOCK_MEM, count, mhz));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device,
								  unsigned int memory_mhz,
								  unsigned int *count,
								  unsigned int *mhz)
{
	SIM_NVML_ENTER(nvmlDeviceGetSupportedGraphicsClocks);
	if (memory_mhz != MEMORY_MHZ)
		return SIM_NVML_LEAVE(NVML_ERROR_NOT_FOUND);
	return SIM_NVML_LEAVE(one_clock(device, NVML_CLOCK_GRAPHICS, count, mhz));
}

static nvmlReturn_t slow_reasons(nvmlDevice_t device, bool supported, unsigned long long *ret)
{
	unsigned int pct;
	nvmlReturn_t result = busy_pct(device, &pct);

	if (result == NVML_SUCCESS && !ret)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*ret = supported || pct == 0 ? REASON_IDLE : 0;
	return result;
}

#define REASONS(symbol, supported)                                                            \
	SIM_NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned long long *reasons) \
	{                                                                                     \
		SIM_NVML_ENTER(symbol);                                                       \
		return SIM_NVML_LEAVE(slow_reasons(device, supported, reasons));              \
	}

REASONS(nvmlDeviceGetCurrentClocksThrottleReasons, false)
REASONS(nvmlDeviceGetCurrentClocksEventReasons, false)
REASONS(nvmlDeviceGetSupportedClocksThrottleReasons, true)
REASONS(nvmlDeviceGetSupportedClocksEventReasons, true)

static nvmlReturn_t temperature_of(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
				   unsigned int *ret_celsius)
{
	unsigned int pct;
	nvmlReturn_t result = busy_pct(device, &pct);

	if (result == NVML_SUCCESS && (!ret_celsius || sensor != NVML_TEMPERATURE_GPU))
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*ret_celsius = IDLE_CELSIUS + pct * 4 / 10;
	return result;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device,
						      nvmlTemperatureSensors_t sensor,
						      unsigned int *celsius)
{
	SIM_NVML_ENTER(nvmlDeviceGetTemperature);
	return SIM_NVML_LEAVE(temperature_of(device, sensor, celsius));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device,
						       nvmlTemperature_t *temperature)
{
	unsigned int celsius;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetTemperatureV);
	if (!temperature)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	if (temperature->version != nvmlTemperature_v1)
		return SIM_NVML_LEAVE(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	result = temperature_of(device, temperature->sensorType, &celsius);
	if (result == NVML_SUCCESS)
		temperature->temperature = (int)celsius;
	return SIM_NVML_LEAVE(result);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(
	nvmlDevice_t device, nvmlTemperatureThresholds_t threshold, unsigned int *celsius)
{
	static const unsigned int limits[] = {
		[NVML_TEMPERATURE_THRESHOLD_SHUTDOWN] = 98,
		[NVML_TEMPERATURE_THRESHOLD_SLOWDOWN] = 95,
		[NVML_TEMPERATURE_THRESHOLD_MEM_MAX] = 95,
		[NVML_TEMPERATURE_THRESHOLD_GPU_MAX] = 90,
	};

	SIM_NVML_ENTER(nvmlDeviceGetTemperatureThreshold);
	if (threshold > NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	if (threshold > NVML_TEMPERATURE_THRESHOLD_GPU_MAX)
		return SIM_NVML_LEAVE(NVML_ERROR_NOT_SUPPORTED);
	return SIM_NVML_LEAVE(sim_nvml_number(device, limits[threshold], celsius));
}

static nvmlReturn_t power_of(nvmlDevice_t device, unsigned int *ret_milliwatts)
{
	unsigned int pct;
	nvmlReturn_t result = busy_pct(device, &pct);

	if (result == NVML_SUCCESS && !ret_milliwatts)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*ret_milliwatts =
			IDLE_MILLIWATTS + (LIMIT_MILLIWATTS - IDLE_MILLIWATTS) / 100 * pct;
	return result;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts)
{
	SIM_NVML_ENTER(nvmlDeviceGetPowerUsage);
	return SIM_NVML_LEAVE(power_of(device, milliwatts));
}

#define NUMBER(symbol, out, value)                                                  \
	SIM_NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *out) \
	{                                                                           \
		SIM_NVML_ENTER(symbol);                                             \
		return SIM_NVML_LEAVE(sim_nvml_number(device, value, out));         \
	}

NUMBER(nvmlDeviceGetPowerManagementLimit, milliwatts, LIMIT_MILLIWATTS)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, milliwatts, LIMIT_MILLIWATTS)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, milliwatts, LIMIT_MILLIWATTS)
NUMBER(nvmlDeviceGetNumFans, count, 0)

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(
	nvmlDevice_t device, unsigned int *min_milliwatts, unsigned int *max_milliwatts)
{
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetPowerManagementLimitConstraints);
	if (!max_milliwatts)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	result = sim_nvml_number(device, LEAST_LIMIT_MW, min_milliwatts);
	if (result == NVML_SUCCESS)
		*max_milliwatts = LIMIT_MILLIWATTS;
	return SIM_NVML_LEAVE(result);
}

static nvmlReturn_t performance_state(nvmlDevice_t device, nvmlPstates_t *ret_state)
{
	unsigned int pct;
	nvmlReturn_t result = busy_pct(device, &pct);

	if (result == NVML_SUCCESS && !ret_state)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*ret_state = pct > 0 ? NVML_PSTATE_0 : NVML_PSTATE_8;
	return result;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device,
							   nvmlPstates_t *state)
{
	SIM_NVML_ENTER(nvmlDeviceGetPerformanceState);
	return SIM_NVML_LEAVE(performance_state(device, state));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, nvmlPstates_t *state)
{
	SIM_NVML_ENTER(nvmlDeviceGetPowerState);
	return SIM_NVML_LEAVE(performance_state(device, state));
}

static nvmlReturn_t mode_of(nvmlDevice_t device, nvmlEnableState_t value, nvmlEnableState_t *ret)
{
	unsigned gpu;
	nvmlReturn_t result = sim_nvml_gpu(device, &gpu);

	if (result == NVML_SUCCESS && !ret)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*ret = value;
	return result;
}

#define MODE(symbol, out, value)                                                         \
	SIM_NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, nvmlEnableState_t *out) \
	{                                                                                \
		SIM_NVML_ENTER(symbol);                                                  \
		return SIM_NVML_LEAVE(mode_of(device, value, out));                      \
	}

MODE(nvmlDeviceGetPowerManagementMode, mode, NVML_FEATURE_ENABLED)
MODE(nvmlDeviceGetPersistenceMode, mode, NVML_FEATURE_ENABLED)
MODE(nvmlDeviceGetDisplayMode, mode, NVML_FEATURE_DISABLED)
MODE(nvmlDeviceGetDisplayActive, active, NVML_FEATURE_DISABLED)

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetComputeMode);
	result = mode ? sim_nvml_gpu(device, &gpu) : NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*mode = NVML_COMPUTEMODE_DEFAULT;
	return SIM_NVML_LEAVE(result);
}
