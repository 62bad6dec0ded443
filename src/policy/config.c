/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment, parsed. Each reader below takes one variable; the refusals all go through refuse(),
 * so that each one names its variable, shows what it found there and says what would be right.
 */
#include "policy/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/name.h"
#include "base/process.h"
#include "base/size.h"

/* Indices beyond the last GPU are looked for too: a limit nobody can apply is a mistake. */
#define INDEX_PROBE_MAX (2 * BERTH_CONFIG_GPU_MAX)
/* Longest item of a list by UUID: a UUID, '=' and a size. */
#define ITEM_MAX  192
#define SHOWN_MAX 64

struct reader {
	const char *(*get)(void *arg, const char *name);
	void *arg;
	struct berth_reason *reason;
};

static int refuse(const struct reader *reader, int err, const char *name, const char *value,
		  const char *right)
{
	char shown[SHOWN_MAX];
	char longer[SHOWN_MAX + 8];
	size_t length = berth_text_escape(shown, sizeof(shown) - 3, value);

	/* Escaped text is cut between characters of at most four bytes. */
	if (berth_text_escape(longer, sizeof(longer), value) > length)
		memcpy(shown + length, "...", 4);
	return berth_reason_set(reader->reason, err, "%s=\"%s\" is not valid: give %s", name, shown,
				right);
}

static int memory_parse(const char *text, struct berth_config_limit *limit)
{
	int err = berth_size_parse(text, &limit->memory_limit_bytes);

	if (err == 0)
		limit->memory_set = true;
	return err;
}

static int compute_parse(const char *text, struct berth_config_limit *limit)
{
	uint32_t pct = 0;
	int err = berth_percent_parse(text, &pct);

	/* -ERANGE: a whole number that isn't 1 to 100. Zero is one without any other figure. */
	if (err == -ERANGE && strpbrk(text, "123456789") == NULL)
		err = 0;
	if (err < 0)
		return err;
	limit->compute_limit_pct = pct == 100 ? 0 : pct;
	limit->compute_set = true;
	return 0;
}

/* The two kinds of limit, alike but for what they measure. */
static const struct limit_kind {
	const char *name;      /* of all GPUs; with _<i> of one */
	const char *list_name; /* by UUID */
	int (*parse)(const char *text, struct berth_config_limit *limit);
	const char *hint;
	const char *list_hint;
} limit_kinds[] = {
	{ "CUDA_DEVICE_MEMORY_LIMIT", "BERTH_MEMORY_LIMITS", memory_parse, berth_size_hint,
	  "UUID=size pairs such as GPU-<uuid>=2G,GPU-<uuid>=4G, each GPU once" },
	{ "CUDA_DEVICE_SM_LIMIT", "BERTH_SM_LIMITS", compute_parse,
	  "a percentage from 1 to 100, or 0 for none",
	  "UUID=percentage pairs such as GPU-<uuid>=30,GPU-<uuid>=50, each GPU once" },
};

static int limit_read(const struct reader *reader, const struct limit_kind *kind, const char *name,
		      struct berth_config_limit *limit)
{
	const char *value = reader->get(reader->arg, name);
	int err;

	if (value == NULL)
		return 0;
	err = kind->parse(value, limit);
	return err < 0 ? refuse(reader, err, name, value, kind->hint) : 0;
}

static int limits_by_index_read(const struct reader *reader, const struct limit_kind *kind,
				struct berth_config *config)
{
	for (int i = 0; i < INDEX_PROBE_MAX; i++) {
		char name[64];
		const char *value;
		int err;

		(void)snprintf(name, sizeof(name), "%s_%d", kind->name, i);
		if (i < BERTH_CONFIG_GPU_MAX) {
			err = limit_read(reader, kind, name, &config->by_index[i]);
			if (err < 0)
				return err;
			continue;
		}
		value = reader->get(reader->arg, name);
		if (value != NULL)
			return refuse(reader, -EINVAL, name, value, "limits for GPUs 0 to 15 only");
	}
	return 0;
}

static bool uuid_valid(const char *uuid)
{
	static const char allowed[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ-/";

	return (strncmp(uuid, "GPU-", 4) == 0 || strncmp(uuid, "MIG-", 4) == 0) &&
	       uuid[4] != '\0' && uuid[strspn(uuid, allowed)] == '\0' &&
	       strlen(uuid) < BERTH_CONFIG_UUID_MAX;
}

/* The entry for uuid, a new one if there is none; NULL if there is no room. */
static struct berth_config_limit *uuid_entry(struct berth_config *config, const char *uuid)
{
	struct berth_config_uuid_limit *entry = config->by_uuid;

	for (uint32_t i = 0; i < config->by_uuid_count; i++, entry++) {
		if (strcmp(entry->uuid, uuid) == 0)
			return &entry->limit;
	}
	if (config->by_uuid_count == BERTH_CONFIG_GPU_MAX)
		return NULL;
	config->by_uuid_count++;
	memcpy(entry->uuid, uuid, strlen(uuid) + 1);
	return &entry->limit;
}

/* UUID=LIMIT, in place. */
static int uuid_item_parse(const struct limit_kind *kind, char *item, struct berth_config *config)
{
	struct berth_config_limit *entry = NULL;
	struct berth_config_limit limit = { 0 };
	char *value = strchr(item, '=');
	char *end = NULL;
	int err;

	if (value == NULL)
		return -EINVAL;
	*value++ = '\0';
	item += strspn(item, " \t");
	end = item + strcspn(item, " \t");
	if (end[strspn(end, " \t")] != '\0')
		return -EINVAL;
	*end = '\0';
	if (!uuid_valid(item))
		return -EINVAL;
	err = kind->parse(value, &limit);
	if (err < 0)
		return err;
	entry = uuid_entry(config, item);
	if (entry == NULL)
		return -E2BIG;
	if ((limit.memory_set && entry->memory_set) || (limit.compute_set && entry->compute_set))
		return -EINVAL;
	/* The other kind may be there already: only this one is written. */
	(void)kind->parse(value, entry);
	return 0;
}

static int limits_by_uuid_read(const struct reader *reader, const struct limit_kind *kind,
			       struct berth_config *config)
{
	const char *value = reader->get(reader->arg, kind->list_name);

	while (value != NULL) {
		char item[ITEM_MAX];
		char shown[ITEM_MAX];
		size_t length = strcspn(value, ",");
		int err = -EINVAL;

		(void)snprintf(item, sizeof(item), "%.*s",
			       (int)(length < ITEM_MAX ? length : ITEM_MAX), value);
		memcpy(shown, item, sizeof(shown));
		if (length < ITEM_MAX)
			err = uuid_item_parse(kind, item, config);
		if (err == -E2BIG)
			return refuse(reader, err, kind->list_name, shown,
				      "limits for 16 GPUs only");
		if (err < 0)
			return refuse(reader, err, kind->list_name, shown, kind->list_hint);
		value = value[length] == ',' ? value + length + 1 : NULL;
	}
	return 0;
}

static int path_read(const struct reader *reader, const char *name, char *path, bool *ret_found)
{
	const char *value = reader->get(reader->arg, name);
	size_t length;

	*ret_found = value != NULL;
	if (value == NULL)
		return 0;
	length = strlen(value);
	if (value[0] != '/' || value[length - 1] == '/')
		return refuse(reader, -EINVAL, name, value, "the absolute path of a region file");
	if (length >= BERTH_CONFIG_PATH_MAX)
		return refuse(reader, -ENAMETOOLONG, name, value, "a path below 4096 bytes");
	memcpy(path, value, length + 1);
	return 0;
}

/* Both are checked, whichever wins: a broken one is a mistake that somebody should hear of. */
static int region_read(const struct reader *reader, struct berth_config *config)
{
	bool found = false;
	int err = path_read(reader, "CUDA_DEVICE_MEMORY_SHARED_CACHE", config->region_path, &found);

	if (err < 0)
		return err;
	return path_read(reader, "BERTH_REGION", config->region_path, &config->join_only);
}

static int share_read(const struct reader *reader, struct berth_config *config)
{
	const char *value = reader->get(reader->arg, "BERTH_SHARE");

	config->share_set = value != NULL;
	if (value == NULL)
		value = BERTH_CONFIG_DEFAULT_SHARE;
	if (!berth_name_valid(value))
		return refuse(reader, -EINVAL, "BERTH_SHARE", value, berth_name_hint);
	memcpy(config->share_name, value, strlen(value) + 1);
	return 0;
}

static int priority_read(const struct reader *reader, struct berth_config *config)
{
	static const char name[] = "CUDA_TASK_PRIORITY";
	const char *value = reader->get(reader->arg, name);
	int64_t priority = 0;

	config->priority = BERTH_CONFIG_DEFAULT_PRIORITY;
	if (value == NULL)
		return 0;
	for (const char *c = value; *c != '\0'; c++) {
		if (*c < '0' || *c > '9' || priority > INT32_MAX)
			return refuse(reader, -EINVAL, name, value, "a whole number from 0");
		priority = priority * 10 + (*c - '0');
	}
	if (value[0] == '\0' || priority > INT32_MAX)
		return refuse(reader, -EINVAL, name, value, "a whole number from 0");
	config->priority = (int32_t)priority;
	return 0;
}

static bool limit_set(const struct berth_config_limit *limit)
{
	return limit->memory_set || limit->compute_set;
}

static bool config_active(const struct berth_config *config)
{
	if (config->region_path[0] != '\0' || config->share_set || limit_set(&config->general) ||
	    config->by_uuid_count > 0)
		return true;
	for (int i = 0; i < BERTH_CONFIG_GPU_MAX; i++) {
		if (limit_set(&config->by_index[i]))
			return true;
	}
	return false;
}

static int config_read(const struct reader *reader, struct berth_config *config)
{
	int err = region_read(reader, config);

	for (size_t i = 0; err == 0 && i < BERTH_ARRAY_LEN(limit_kinds); i++) {
		err = limit_read(reader, &limit_kinds[i], limit_kinds[i].name, &config->general);
		if (err == 0)
			err = limits_by_index_read(reader, &limit_kinds[i], config);
		if (err == 0)
			err = limits_by_uuid_read(reader, &limit_kinds[i], config);
	}
	if (err == 0)
		err = share_read(reader, config);
	if (err == 0)
		err = priority_read(reader, config);
	config->active = config_active(config);
	return err;
}

int berth_config_parse(const char *(*get)(void *arg, const char *name), void *arg,
		       struct berth_config *ret_config, struct berth_reason *reason)
{
	const struct reader reader = { .get = get, .arg = arg, .reason = reason };
	struct berth_config config = { 0 };
	int err = config_read(&reader, &config);

	if (err == 0)
		*ret_config = config;
	return err;
}

static const char *environment_get(void *arg, const char *name)
{
	(void)arg;
	return getenv(name);
}

int berth_config_from_environment(struct berth_config *ret_config, struct berth_reason *reason)
{
	int err = berth_config_parse(environment_get, NULL, ret_config, reason);

	if (err == 0 && berth_process_is_secure() && ret_config->region_path[0] != '\0')
		ret_config->join_only = true;
	return err;
}

static int uuid_find(const char *uuid, const char *const uuids[], uint32_t gpu_count)
{
	for (uint32_t i = 0; i < gpu_count; i++) {
		if (uuids[i] != NULL && strcmp(uuids[i], uuid) == 0)
			return (int)i;
	}
	return -ENODEV;
}

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

/* Every limit that was set must have its GPU. */
static int limits_have_gpus(const struct berth_config *config, const char *const uuids[],
			    uint32_t gpu_count, struct berth_reason *reason)
{
	for (uint32_t i = gpu_count; i < BERTH_CONFIG_GPU_MAX; i++) {
		const struct berth_config_limit *limit = &config->by_index[i];

		if (limit_nonzero(limit))
			return berth_reason_set(reason, -ENODEV,
						"%s_%u is set, but there are only %u GPUs (counted "
						"from 0)",
						limit->memory_limit_bytes != 0
							? limit_kinds[0].name
							: limit_kinds[1].name,
						i, gpu_count);
	}
	for (uint32_t i = 0; i < config->by_uuid_count; i++) {
		const struct berth_config_uuid_limit *entry = &config->by_uuid[i];

		if (limit_nonzero(&entry->limit) && uuid_find(entry->uuid, uuids, gpu_count) < 0)
			return berth_reason_set(
				reason, -ENODEV, "%s names %s, but no GPU has that UUID",
				entry->limit.memory_limit_bytes != 0 ? limit_kinds[0].list_name
								     : limit_kinds[1].list_name,
				entry->uuid);
	}
	return 0;
}

int berth_config_resolve(const struct berth_config *config, const char *const uuids[],
			 uint32_t gpu_count, struct berth_config_limit ret_limits[],
			 struct berth_reason *reason)
{
	int err = limits_have_gpus(config, uuids, gpu_count, reason);

	if (err < 0)
		return err;
	for (uint32_t i = 0; i < gpu_count; i++) {
		ret_limits[i] = config->general;
		if (i < BERTH_CONFIG_GPU_MAX)
			limit_overlay(&ret_limits[i], &config->by_index[i]);
	}
	for (uint32_t i = 0; i < config->by_uuid_count; i++) {
		int gpu = uuid_find(config->by_uuid[i].uuid, uuids, gpu_count);

		if (gpu >= 0)
			limit_overlay(&ret_limits[gpu], &config->by_uuid[i].limit);
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

void berth_config_smallest(const struct berth_config *config, const char *const uuids[],
			   uint32_t gpu_count, struct berth_config_limit ret_limits[])
{
	for (uint32_t i = 0; i < gpu_count; i++) {
		ret_limits[i] = config->general;
		if (i < BERTH_CONFIG_GPU_MAX)
			limit_shrink(&ret_limits[i], &config->by_index[i]);
	}
	for (uint32_t i = 0; i < config->by_uuid_count; i++) {
		int gpu = uuid_find(config->by_uuid[i].uuid, uuids, gpu_count);

		if (gpu >= 0)
			limit_shrink(&ret_limits[gpu], &config->by_uuid[i].limit);
	}
}
