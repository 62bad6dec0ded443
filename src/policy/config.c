/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment and the override file, parsed. Each reader below takes one variable; the refusals
 * all go through refuse(), so that each one names its variable, shows what it found there and says
 * what would be right.
 */
#include "policy/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/name.h"
#include "base/process.h"
#include "base/size.h"
#include "policy/override.h"

/* Indices beyond the last GPU are looked for too: a limit nobody can apply is a mistake. */
#define INDEX_PROBE_MAX (2 * BERTH_CONFIG_GPU_MAX)
/* Longest item of a list by UUID: a UUID, '=' and a size. */
#define ITEM_MAX  192
#define SHOWN_MAX 64

static const char region_name[] = "BERTH_REGION";
static const char stamp_name[] = "BERTH_LIMITS_STAMP";
static const char share_name[] = "BERTH_SHARE";
static const char cache_name[] = "CUDA_DEVICE_MEMORY_SHARED_CACHE";
static const char priority_name[] = "CUDA_TASK_PRIORITY";
static const char broker_name[] = "LIBVGPU_HOSTPID_BROKER";
static const char *const plain_names[] = { region_name, share_name, cache_name, priority_name,
					   broker_name };
/* HAMi's that nothing follows from here: no reason to refuse a container. */
static const char *const accepted_names[] = { "GPU_CORE_UTILIZATION_POLICY", "CUDA_OVERSUBSCRIBE" };

struct reader {
	const char *(*get)(void *arg, const char *name);
	void *arg;
	const struct berth_override *file; /* NULL = none */
	struct berth_reason *reason;
};

static const char *find(const struct reader *reader, const char *name)
{
	const struct berth_override_entry *entry = berth_override_find(reader->file, name);

	return entry ? entry->value : reader->get(reader->arg, name);
}

static int refuse(const struct reader *reader, int err, const char *name, const char *value,
		  const char *right)
{
	char shown[SHOWN_MAX];
	char longer[SHOWN_MAX + 8];
	const struct berth_override_entry *entry = berth_override_find(reader->file, name);
	size_t length = berth_text_escape(shown, sizeof(shown) - 3, value);

	/* Escaped text is cut between characters of at most four bytes. */
	if (berth_text_escape(longer, sizeof(longer), value) > length)
		memcpy(shown + length, "...", 4);
	if (entry)
		return berth_reason_set(reader->reason, err,
					"%s, line %u: %s=\"%s\" is not valid: give %s",
					reader->file->path, entry->line, name, shown, right);
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
	{ BERTH_CONFIG_MEMORY, BERTH_CONFIG_MEMORY_LIST, memory_parse, berth_size_hint,
	  "UUID=size pairs such as GPU-<uuid>=2G,GPU-<uuid>=4G, each GPU once" },
	{ BERTH_CONFIG_COMPUTE, BERTH_CONFIG_COMPUTE_LIST, compute_parse,
	  "a percentage from 1 to 100, or 0 for none",
	  "UUID=percentage pairs such as GPU-<uuid>=30,GPU-<uuid>=50, each GPU once" },
};

/* Parses what the reader says under this name. *ret_said: it says something other than zero. */
static int limit_said(const struct reader *reader, const struct limit_kind *kind, const char *name,
		      struct berth_config_limit *limit, bool *ret_said)
{
	const char *value = find(reader, name);
	struct berth_config_limit said = { 0 };

	*ret_said = false;
	if (value == NULL)
		return 0;
	int err = kind->parse(value, &said);
	if (err < 0)
		return refuse(reader, err, name, value, kind->hint);
	/* The other kind may be there already: only this one is written. */
	(void)kind->parse(value, limit);
	*ret_said = said.memory_limit_bytes != 0 || said.compute_limit_pct != 0;
	return 0;
}

/* A zero in the file says nothing, there as elsewhere: the environment's holds then. */
static int limit_read(const struct reader *reader, const struct limit_kind *kind, const char *name,
		      struct berth_config_limit *limit)
{
	const struct reader environment = { .get = reader->get,
					    .arg = reader->arg,
					    .reason = reader->reason };
	bool said;
	int err = limit_said(reader, kind, name, limit, &said);

	if (err < 0 || said || !berth_override_find(reader->file, name))
		return err;
	return limit_said(&environment, kind, name, limit, &said);
}

static int limits_by_index_read(const struct reader *reader, const struct limit_kind *kind,
				struct berth_config_limits *limits)
{
	for (int i = 0; i < INDEX_PROBE_MAX; i++) {
		char name[64];
		const char *value;
		int err;

		(void)snprintf(name, sizeof(name), "%s_%d", kind->name, i);
		if (i < BERTH_CONFIG_GPU_MAX) {
			err = limit_read(reader, kind, name, &limits->by_index[i]);
			if (err < 0)
				return err;
			continue;
		}
		value = find(reader, name);
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
static struct berth_config_limit *uuid_entry(struct berth_config_limits *limits, const char *uuid)
{
	struct berth_config_uuid_limit *entry = limits->by_uuid;

	for (uint32_t i = 0; i < limits->by_uuid_count; i++, entry++) {
		if (strcmp(entry->uuid, uuid) == 0)
			return &entry->limit;
	}
	if (limits->by_uuid_count == BERTH_CONFIG_GPU_MAX)
		return NULL;
	limits->by_uuid_count++;
	memcpy(entry->uuid, uuid, strlen(uuid) + 1);
	return &entry->limit;
}

/* UUID=LIMIT, in place. */
static int uuid_item_parse(const struct limit_kind *kind, char *item,
			   struct berth_config_limits *limits)
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
	entry = uuid_entry(limits, item);
	if (entry == NULL)
		return -E2BIG;
	if ((limit.memory_set && entry->memory_set) || (limit.compute_set && entry->compute_set))
		return -EINVAL;
	/* The other kind may be there already: only this one is written. */
	(void)kind->parse(value, entry);
	return 0;
}

static int limits_by_uuid_read(const struct reader *reader, const struct limit_kind *kind,
			       struct berth_config_limits *limits)
{
	const char *value = find(reader, kind->list_name);

	while (value != NULL) {
		char item[ITEM_MAX];
		char shown[ITEM_MAX];
		size_t length = strcspn(value, ",");
		int err = -EINVAL;

		(void)snprintf(item, sizeof(item), "%.*s",
			       (int)(length < ITEM_MAX ? length : ITEM_MAX), value);
		memcpy(shown, item, sizeof(shown));
		if (length < ITEM_MAX)
			err = uuid_item_parse(kind, item, limits);
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
	const char *value = find(reader, name);
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
	int err = path_read(reader, cache_name, config->region_path, &found);

	if (err < 0)
		return err;
	return path_read(reader, region_name, config->region_path, &config->join_only);
}

static int share_read(const struct reader *reader, struct berth_config *config)
{
	const char *value = find(reader, share_name);

	config->share_set = value != NULL;
	if (value == NULL)
		value = BERTH_CONFIG_DEFAULT_SHARE;
	if (!berth_name_valid(value))
		return refuse(reader, -EINVAL, share_name, value, berth_name_hint);
	memcpy(config->share_name, value, strlen(value) + 1);
	return 0;
}

/* Not a limit: what isn't HAMi's "yes" is a no. */
static void broker_read(const struct reader *reader, struct berth_config *config)
{
	const char *value = find(reader, broker_name);

	config->hami_broker = value != NULL && strcmp(value, "1") == 0;
}

static int priority_read(const struct reader *reader, struct berth_config *config)
{
	const char *value = find(reader, priority_name);
	int64_t priority = 0;

	config->priority = BERTH_CONFIG_DEFAULT_PRIORITY;
	if (value == NULL)
		return 0;
	for (const char *c = value; *c != '\0'; c++) {
		if (*c < '0' || *c > '9' || priority > INT32_MAX)
			return refuse(reader, -EINVAL, priority_name, value,
				      "a whole number from 0");
		priority = priority * 10 + (*c - '0');
	}
	if (value[0] == '\0' || priority > INT32_MAX)
		return refuse(reader, -EINVAL, priority_name, value, "a whole number from 0");
	config->priority = (int32_t)priority;
	return 0;
}

/* From the environment only: the file's limits were ordered by nobody. */
static int stamp_read(const struct reader *reader, struct berth_config *config)
{
	const char *value = reader->get(reader->arg, stamp_name);
	uint64_t stamp = 0;
	bool wrong = value != NULL && *value == '\0';

	for (const char *c = value; c != NULL && *c != '\0' && !wrong; c++)
		wrong = *c < '0' || *c > '9' || __builtin_mul_overflow(stamp, 10, &stamp) ||
			__builtin_add_overflow(stamp, (uint64_t)(*c - '0'), &stamp);
	if (wrong || (value != NULL && stamp == 0))
		return refuse(reader, -EINVAL, stamp_name, value,
			      "the whole number that `berth run` set, or unset it");
	config->limits_stamp = stamp;
	return 0;
}

static const char *nothing_get(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return NULL;
}

/* Where the file says which region or share, the environment has no say in it. A share that `berth run`
 * made beside it is refused: the limit is on all programs of the container together, and those of
 * two regions together could hold it twice. */
static int place_read(const struct reader *reader, struct berth_config *config)
{
	const struct reader file = { .get = nothing_get,
				     .file = reader->file,
				     .reason = reader->reason };
	bool of_file = berth_override_find(reader->file, cache_name) ||
		       berth_override_find(reader->file, region_name) ||
		       berth_override_find(reader->file, share_name);
	const char *other = of_file ? reader->get(reader->arg, region_name) : NULL;
	int err = region_read(of_file ? &file : reader, config);

	if (err == 0)
		err = share_read(of_file ? &file : reader, config);
	if (err == 0 && other != NULL && strcmp(other, config->region_path) != 0)
		return berth_reason_set(
			reader->reason, -EPERM,
			"%s names the share of all programs here, so this one can't "
			"be in one of its own: start it without `berth run` (and "
			"without %s)",
			reader->file->path, region_name);
	return err;
}

static int limits_read(const struct reader *reader, struct berth_config_limits *limits)
{
	int err = 0;

	for (size_t i = 0; err == 0 && i < BERTH_ARRAY_LEN(limit_kinds); i++) {
		err = limit_read(reader, &limit_kinds[i], limit_kinds[i].name, &limits->general);
		if (err == 0)
			err = limits_by_index_read(reader, &limit_kinds[i], limits);
		if (err == 0)
			err = limits_by_uuid_read(reader, &limit_kinds[i], limits);
	}
	return err;
}

struct said {
	bool memory;
	bool compute;
};

static struct said limits_said(const struct berth_config_limits *limits)
{
	struct said said = { limits->general.memory_set, limits->general.compute_set };

	for (uint32_t i = 0; i < BERTH_CONFIG_GPU_MAX; i++) {
		said.memory |= limits->by_index[i].memory_set;
		said.compute |= limits->by_index[i].compute_set;
	}
	for (uint32_t i = 0; i < limits->by_uuid_count; i++) {
		said.memory |= limits->by_uuid[i].limit.memory_set;
		said.compute |= limits->by_uuid[i].limit.compute_set;
	}
	return said;
}

static void accepted_note(const struct reader *reader)
{
	for (size_t i = 0; i < BERTH_ARRAY_LEN(accepted_names); i++) {
		const char *value = find(reader, accepted_names[i]);

		if (value != NULL)
			berth_debug("%s=%s is accepted, without effect", accepted_names[i], value);
	}
}

static int config_read(const struct reader *reader, struct berth_config *config)
{
	const struct reader file = { .get = nothing_get,
				     .file = reader->file,
				     .reason = reader->reason };
	struct said said;
	int err = place_read(reader, config);

	if (err == 0)
		err = limits_read(reader, &config->limits);
	if (err == 0 && reader->file != NULL)
		err = limits_read(&file, &config->file_limits);
	if (err == 0)
		err = priority_read(reader, config);
	if (!err)
		broker_read(reader, config);
	if (err == 0)
		err = stamp_read(reader, config);
	if (err < 0)
		return err;
	accepted_note(reader);
	said = limits_said(&config->limits);
	config->active =
		config->region_path[0] != '\0' || config->share_set || said.memory || said.compute;
	if (reader->file != NULL && !said.memory && !config->join_only)
		return berth_reason_set(
			reader->reason, -EINVAL,
			"%s gives no memory limit, nor does the environment: was it "
			"cut short? Where none is meant, write %s=0 there",
			reader->file->path, limit_kinds[0].name);
	return 0;
}

int berth_config_parse(const char *(*get)(void *arg, const char *name), void *arg,
		       const struct berth_override *file, struct berth_config *ret_config,
		       struct berth_reason *reason)
{
	const struct reader reader = { .get = get, .arg = arg, .file = file, .reason = reason };
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

int berth_config_from_environment(const struct berth_override *file,
				  struct berth_config *ret_config, struct berth_reason *reason)
{
	int err = berth_config_parse(environment_get, NULL, file, ret_config, reason);

	if (err == 0 && berth_process_is_secure() && ret_config->region_path[0] != '\0' &&
	    !berth_override_find(file, cache_name))
		ret_config->join_only = true;
	return err;
}

static bool name_in(const char *name, const char *const names[], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return false;
}

/* "", or "_<i>" as limits_by_index_read writes it: no leading zero. */
static bool index_suffix(const char *suffix)
{
	char text[8];

	for (int i = 0; i < INDEX_PROBE_MAX; i++) {
		(void)snprintf(text, sizeof(text), "_%d", i);
		if (strcmp(suffix, text) == 0)
			return true;
	}
	return suffix[0] == '\0';
}

enum berth_config_word berth_config_word(const char *name)
{
	if (name_in(name, plain_names, BERTH_ARRAY_LEN(plain_names)) ||
	    name_in(name, accepted_names, BERTH_ARRAY_LEN(accepted_names)))
		return BERTH_CONFIG_VARIABLE;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(limit_kinds); i++) {
		const char *prefix = limit_kinds[i].name;
		size_t length = strlen(prefix);

		if (strcmp(name, limit_kinds[i].list_name) == 0 ||
		    (strncmp(name, prefix, length) == 0 && index_suffix(name + length)))
			return BERTH_CONFIG_VARIABLE;
		/* Without its last letter, the plural's: the singular looks like it as well. */
		if (strncasecmp(name, prefix, length) == 0 ||
		    strncasecmp(name, limit_kinds[i].list_name,
				strlen(limit_kinds[i].list_name) - 1) == 0)
			return BERTH_CONFIG_LOOKALIKE;
	}
	return BERTH_CONFIG_FOREIGN;
}
