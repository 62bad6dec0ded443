/* SPDX-License-Identifier: Apache-2.0
 *
 * The reading side. The region is opened for reading once and kept: threads may be reading it, so it
 * is never closed. Without a lock: threads that come at once each open it and one is published.
 */
#include "account/room.h"

#include <errno.h>
#include <stdatomic.h>

#include "account/account.h"
#include "account/settings.h"
#include "base/cancel.h"

static _Atomic(struct berth_region *) viewed;

static int view(const struct berth_config *config, const struct berth_region **ret_region)
{
	struct berth_region *region = atomic_load_explicit(&viewed, memory_order_acquire);
	struct berth_region *first = NULL;
	char path[PATH_MAX];
	int err = 0;

	if (region)
		goto out;
	err = berth_settings_region_path(config, false, path, NULL);
	if (!err)
		err = berth_region_view(path, &region, NULL);
	if (err)
		return err;
	if (!atomic_compare_exchange_strong_explicit(&viewed, &first, region, memory_order_acq_rel,
						     memory_order_acquire)) {
		berth_region_close(region);
		region = first;
	}
out:
	*ret_region = region;
	return 0;
}

static int room_without_seat(const char *uuid, uint32_t nvml_index,
			     const struct berth_region **ret_region,
			     struct berth_ledger_room *ret_room)
{
	const struct berth_config *config;
	int err = berth_settings_get(&config, NULL);

	if (err || !config->active)
		return err;
	err = view(config, ret_region);
	if (err != -ENOENT || config->join_only)
		return err;
	ret_room->limit_bytes = berth_config_gpu(config, uuid, nvml_index).memory_limit_bytes;
	return 0;
}

int berth_account_room(const char *uuid, uint32_t nvml_index, struct berth_ledger_room *ret_room)
{
	BERTH_UNCANCELLED;
	const struct berth_region *region = berth_account_region();
	struct berth_ledger_room room = { 0 };
	int saved_errno = errno;
	int err = 0;
	int gpu;

	if (!region && berth_account_state() == BERTH_ACCOUNT_REFUSED)
		return berth_account_error();
	if (!region)
		err = room_without_seat(uuid, nvml_index, &region, &room);
	if (!err && region) {
		gpu = berth_region_gpu_find(region, uuid);
		if (gpu >= 0)
			err = berth_ledger_room(region, (uint32_t)gpu, &room);
	}
	errno = saved_errno;
	if (!err)
		*ret_room = room;
	return err;
}

void berth_account_room_forget(void)
{
	struct berth_region *region = atomic_load_explicit(&viewed, memory_order_relaxed);

	atomic_store_explicit(&viewed, NULL, memory_order_relaxed);
	if (region)
		berth_region_forget(region);
}
