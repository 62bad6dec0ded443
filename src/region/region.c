/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining and viewing, and the plain questions about a region.
 */
#include "region/region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "region/birth.h"
#include "region/limits.h"
#include "region/map.h"

/* A name may come and go between our open and our linkat; each round means that somebody else
 * made or removed the file. */
enum { JOIN_TRIES = 100 };

static int open_or_make(const char *path, const struct berth_region_spec *spec, bool *ret_created,
			struct berth_reason *reason)
{
	bool created = false;

	for (int i = 0; i < JOIN_TRIES; i++) {
		struct berth_reason why = { "" };
		BERTH_FD int fd = berth_map_open(path, true, &why);

		if (fd >= 0) {
			*ret_created = created;
			return BERTH_TAKE_FD(fd);
		}
		if (fd != -ENOENT || !spec)
			return berth_reason_set(reason, fd, "%s", why.text);
		int r = berth_birth_make(path, spec, false, reason);
		if (r < 0 && r != -EEXIST)
			return r;
		created = r == 0;
	}
	return berth_reason_set(reason, -EBUSY,
				"%s: other programs keep making and removing it; stop them or "
				"choose another path",
				path);
}

static int limits_join(struct berth_region *region, const struct berth_region_spec *spec,
		       unsigned flags, struct berth_region_joined *joined,
		       struct berth_reason *reason)
{
	int r = berth_limits_want(region, spec, reason);

	if (r < 0)
		return r;
	if ((flags & BERTH_REGION_RENEW) && !joined->created) {
		r = berth_limits_renew(region);
		if (r < 0)
			return berth_reason_set(reason, r,
						"%s: can't tell whether somebody uses it: %s",
						region->path, strerror(-r));
		joined->renewed = r == 1;
	}
	berth_limits_merge(region, joined);
	return 0;
}

int berth_region_join(const char *path, const struct berth_region_spec *spec, unsigned flags,
		      struct berth_region **ret_region, struct berth_region_joined *ret_joined,
		      struct berth_reason *reason)
{
	struct berth_region_joined joined = { 0 };
	struct berth_region *region = NULL;
	BERTH_FD int fd = open_or_make(path, spec, &joined.created, reason);

	if (fd < 0)
		return fd;
	int r = berth_map_make(fd, path, true, &region, reason);
	if (r < 0)
		return r;
	if (spec)
		r = limits_join(region, spec, flags, &joined, reason);
	if (r < 0) {
		berth_region_close(region);
		return r;
	}
	*ret_region = region;
	if (ret_joined)
		*ret_joined = joined;
	return 0;
}

int berth_region_limit(struct berth_region *region, const struct berth_region_spec *spec,
		       struct berth_region_joined *ret_joined, struct berth_reason *reason)
{
	struct berth_region_joined joined = { 0 };

	if (!berth_map_ours(region))
		return -ECHILD;
	int r = berth_limits_want(region, spec, reason);
	if (r < 0)
		return r;
	if (berth_limits_stale(region))
		return berth_reason_set(reason, -ESTALE,
					"%s: its limits were changed since these were ordered",
					region->path);
	berth_limits_merge(region, &joined);
	if (ret_joined)
		*ret_joined = joined;
	return 0;
}

uint64_t berth_region_stamp(const struct berth_region *region)
{
	return berth_map_ours(region) ? atomic_load(&region->layout->tail.limit_change_count) + 1
				      : 1;
}

int berth_region_change(struct berth_region *region, const struct berth_region_change *change,
			berth_region_change_fn record, void *arg, struct berth_reason *reason)
{
	if (!berth_map_ours(region))
		return -ECHILD;
	if (!region->writable)
		return berth_reason_set(reason, -EROFS, "%s: is only being looked at",
					region->path);
	if (change->gpu_mask >> region->gpu_count)
		return berth_reason_set(reason, -EINVAL, "%s: the share has %u GPUs", region->path,
					region->gpu_count);
	int r = berth_limits_change(region, change, record, arg);
	if (r == -EBUSY)
		return berth_reason_set(reason, r,
					"%s: another change of its limits is under way; if that "
					"doesn't end, a stopped berth limit is in the way",
					region->path);
	if (r == -ESTALE)
		return berth_reason_set(reason, r, "%s: was removed or replaced meanwhile",
					region->path);
	return r;
}

int berth_region_view(const char *path, struct berth_region **ret_region,
		      struct berth_reason *reason)
{
	BERTH_FD int fd = berth_map_open(path, false, reason);

	return fd < 0 ? fd : berth_map_make(fd, path, false, ret_region, reason);
}

const char *berth_region_path(const struct berth_region *region)
{
	return region->path;
}

const char *berth_region_share_name(const struct berth_region *region)
{
	return region->share_name;
}

uint32_t berth_region_gpu_count(const struct berth_region *region)
{
	return region->gpu_count;
}

void berth_region_gpu(const struct berth_region *region, uint32_t gpu,
		      struct berth_region_gpu *ret_gpu)
{
	struct berth_region_gpu found = { 0 };

	if (gpu < region->gpu_count && berth_map_ours(region)) {
		const struct berth_layout_head *head = &region->layout->head;
		uint64_t pct = atomic_load(&head->compute_limit_pct[gpu]);

		memcpy(found.uuid, head->uuids[gpu], sizeof found.uuid - 1);
		found.memory_limit_bytes = atomic_load(&head->limit_bytes[gpu]);
		found.compute_limit_pct = pct > 100 ? 100 : (uint32_t)pct;
	}
	*ret_gpu = found;
}

int berth_region_gpu_find(const struct berth_region *region, const char *uuid)
{
	if (!berth_map_ours(region))
		return -ECHILD;
	for (uint32_t i = 0; i < region->gpu_count; i++) {
		if (strncmp(region->layout->head.uuids[i], uuid, BERTH_UUID_SIZE) == 0)
			return (int)i;
	}
	return -ENODEV;
}
