/* SPDX-License-Identifier: Apache-2.0
 *
 * cuInit: take a seat, then initialise the driver. Nothing is held while the driver runs: it may
 * start threads that call cuInit again, and look itself up.
 */
#include "interpose/init.h"

#include <string.h>

#include "account/settings.h"
#include "driver/gpu_list.h"
#include "interpose/capture.h"
#include "interpose/errors.h"
#include "interpose/gpu.h"
#include "interpose/pool.h"
#include "interpose/probe.h"
#include "interpose/real.h"
#include "interpose/turn.h"

_Static_assert(BERTH_GPU_UUID_SIZE == BERTH_UUID_SIZE, "a UUID is copied whole");

static int list_gpus(struct berth_account_gpus *ret_gpus, struct berth_reason *reason)
{
	struct berth_gpu gpus[BERTH_GPU_MAX];
	uint32_t count = 0;
	int err = berth_gpu_list(gpus, BERTH_GPU_MAX, &count, reason);

	if (err)
		return err;
	ret_gpus->count = count;
	for (uint32_t i = 0; i < count; i++)
		memcpy(ret_gpus->uuids[i], gpus[i].uuid, BERTH_UUID_SIZE);
	return 0;
}

/* In a fork child: what the hooks remember is the parent's. */
static void forget(void)
{
	berth_capture_forget();
	berth_turn_forget();
	berth_place_forget();
	berth_pools_forget();
	berth_probe_forget();
}

enum berth_account_state berth_attach(void)
{
	berth_account_on_child(forget);
	return berth_account_attach(list_gpus);
}

enum berth_log_level berth_unlimited_level(void)
{
	const struct berth_config *config;

	return berth_settings_get(&config, NULL) == 0 && !config->active ? BERTH_LOG_WARNING
									 : BERTH_LOG_ERROR;
}

BERTH_EXPORT CUresult cuInit(unsigned int flags)
{
	if (berth_attach() == BERTH_ACCOUNT_REFUSED)
		return berth_error_to_cuda(berth_account_error());
	return REAL(cuInit, flags);
}
