/* SPDX-License-Identifier: Apache-2.0
 *
 * From what was said by name to each GPU's limits (policy/config.h).
 */
#include <errno.h>
#include <string.h>

#include "policy/config.h"

static bool limit_nonzero(const struct berth_config_limit *limit)
{
	return limit->memory_limit_bytes != 0 || limit->compute_limit_pct != 0;
}

/* What `more` says goes before what was there; its zeros say nothing. */
static void limit_overlay(struct berth_config_limit *limit, const struct berth_config_limit *more)
{
	if (more->memory_limit_bytes != 0)
		limit->memory_limit_bytes = more->memory_limit_bytes;
	if (more->compute_limit_pct != 0)
		limit->compute_limit_pct = more->compute_limit_pct;
	limit->memory_set |= more->memory_set;
	limit->compute_set |= more->compute_set;
}

static int uuid_find(const char *uuid, const char *const uuids[], uint32_t gpu_count)
{
	for (uint32_t i = 0; i < gpu_count; i++) {
		if (uuids[i] != NULL && strcmp(uuids[i], uuid) == 0)
			return (int)i;
	}
	return -ENODEV;
}

/* Every limit that was set must have its GPU. */
static int limits_have_gpus(const struct berth_config_limits *limits, const char *const uuids[],
			    uint32_t gpu_count, struct berth_reason *reason)
{
	for (uint32_t i = gpu_count; i < BERTH_CONFIG_GPU_MAX; i++) {
		const struct berth_config_limit *limit = &limits->by_index[i];

		if (limit_nonzero(limit))
			return berth_reason_set(reason, -ENODEV,
						"%s_%u is set, but there are only %u GPUs (counted "
						"from 0)",
						limit->memory_limit_bytes != 0
							? BERTH_CONFIG_MEMORY
							: BERTH_CONFIG_COMPUTE,
						i, gpu_count);
	}
	for (uint32_t i = 0; i < limits->by_uuid_count; i++) {
		const struct berth_config_uuid_limit *entry = &limits->by_uuid[i];

		if (limit_nonzero(&entry->limit) && uuid_find(entry->uuid, uuids, gpu_count) < 0)
			return berth_reason_set(
				reason, -ENODEV, "%s names %s, but no GPU has that UUID",
				entry->limit.memory_limit_bytes != 0 ? BERTH_CONFIG_MEMORY_LIST
								     : BERTH_CONFIG_COMPUTE_LIST,
				entry->uuid);
	}
	return 0;
}

/* The smaller one of each that says anything. */
static void limit_shrink(struct berth_config_limit *limit, const struct berth_config_limit *other)
{
	if (other->memory_limit_bytes &&
	    (!limit->memory_limit_bytes || other->memory_limit_bytes < limit->memory_limit_bytes))
		limit->memory_limit_bytes = other->memory_limit_bytes;
	if (other->compute_limit_pct &&
	    (!limit->compute_limit_pct || other->compute_limit_pct < limit->compute_limit_pct))
		limit->compute_limit_pct = other->compute_limit_pct;
}

/* What they say of one GPU, put together by `put`, from the general one to the one by UUID. */
static struct berth_config_limit
limits_of_gpu(const struct berth_config_limits *limits, const char *uuid, uint32_t index,
	      void (*put)(struct berth_config_limit *limit, const struct berth_config_limit *more))
{
	struct berth_config_limit limit = limits->general;

	if (index < BERTH_CONFIG_GPU_MAX)
		put(&limit, &limits->by_index[index]);
	for (uint32_t i = 0; uuid != NULL && i < limits->by_uuid_count; i++) {
		if (strcmp(limits->by_uuid[i].uuid, uuid) == 0)
			put(&limit, &limits->by_uuid[i].limit);
	}
	return limit;
}

struct berth_config_limit berth_config_gpu(const struct berth_config *config, const char *uuid,
					   uint32_t index)
{
	struct berth_config_limit limit =
		limits_of_gpu(&config->limits, uuid, index, limit_overlay);
	struct berth_config_limit file =
		limits_of_gpu(&config->file_limits, uuid, index, limit_overlay);

	limit_shrink(&limit, &file);
	return limit;
}

int berth_config_resolve(const struct berth_config *config, const char *const uuids[],
			 uint32_t gpu_count, struct berth_config_limit ret_limits[],
			 struct berth_reason *reason)
{
	int err = limits_have_gpus(&config->limits, uuids, gpu_count, reason);

	for (uint32_t i = 0; err == 0 && i < gpu_count; i++)
		ret_limits[i] = berth_config_gpu(config, uuids[i], i);
	return err;
}

void berth_config_smallest(const struct berth_config *config, bool outdated,
			   const char *const uuids[], uint32_t gpu_count,
			   struct berth_config_limit ret_limits[])
{
	struct berth_config_limits said = config->limits;

	if (outdated)
		said.by_uuid_count = 0;
	for (uint32_t i = 0; i < gpu_count; i++) {
		/* Nobody orders what the file says: it counts in any case, also by UUID. */
		struct berth_config_limit file =
			limits_of_gpu(&config->file_limits, uuids[i], i, limit_shrink);

		ret_limits[i] = limits_of_gpu(&said, uuids[i], i, limit_shrink);
		limit_shrink(&ret_limits[i], &file);
	}
}
