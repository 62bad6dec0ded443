/* SPDX-License-Identifier: Apache-2.0
 *
 * berth limit: shows the limits of a share, or changes them while its programs run. What is said of a
 * change beforehand goes into the audit log first; without a line there, nothing is changed.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "cli/audit.h"
#include "cli/command.h"
#include "cli/share.h"
#include "cli/table.h"

enum { OPT_MEMORY, OPT_COMPUTE, OPT_GPU, OPT_UNLIMITED, OPT_LOG, OPT_JSON, OPT_QUIET };

static const struct berth_option limit_options[] = {
	[OPT_MEMORY] = { "memory", 'm', "SIZE",
			 "GPU memory the share may use, on each of its GPUs" },
	[OPT_COMPUTE] = { "compute", 'c', "PERCENT",
			  "part of a GPU's time the share may use (100: all of it)" },
	[OPT_GPU] = { "gpu", 'g', "INDEX|UUID", "of this GPU only (default: all of the share)" },
	[OPT_UNLIMITED] = { "unlimited", 0, NULL,
			    "no memory limit: its programs may fill the whole GPU" },
	[OPT_LOG] = { "log", 0, NULL, "print who changed the share's limits, and when" },
	[OPT_JSON] = { "json", 'j', NULL, "print JSON: bytes, nothing rounded" },
	[OPT_QUIET] = { "quiet", 'q', NULL, "a change says nothing but errors" },
	{ NULL, 0, NULL, NULL },
};

static const struct berth_column limit_columns[] = {
	{ "SHARE", false }, { "GPU", false }, { "CHARGED", true },
	{ "LIMIT", true },  { "USED", true }, { "COMPUTE", true },
};

struct limit {
	const struct berth_command *command;
	struct berth_region_change change;
	const char *gpu; /* NULL = all */
	bool unlimited;
	bool log;
	bool json;
	bool quiet;
	struct berth_share_place place;
};

/* A record of a change that is about to be made. */
struct record {
	const struct berth_region *region;
	const char *share;
	struct berth_reason *reason;
};

static int take_memory(struct limit *limit, const char *value)
{
	int r = berth_size_parse(value, &limit->change.memory_limit_bytes);

	limit->change.memory_set = true;
	if (r == 0 && limit->change.memory_limit_bytes > 0)
		return 0;
	berth_complain(limit->command, "--memory %s: not %s%s", value, berth_size_hint,
		       r == 0 ? "; to lift the memory limit, say --unlimited" : "");
	return -EINVAL;
}

static int take_compute(struct limit *limit, const char *value)
{
	limit->change.compute_set = true;
	if (berth_percent_parse(value, &limit->change.compute_limit_pct) == 0)
		return 0;
	berth_complain(limit->command,
		       "--compute %s: not %s; 100 is no compute limit, and --unlimited lifts the "
		       "memory limit",
		       value, berth_percent_hint);
	return -EINVAL;
}

static int take_option(void *arg, const struct berth_option *option, const char *value)
{
	struct limit *limit = arg;

	switch (option - limit_options) {
	case OPT_MEMORY:
		return take_memory(limit, value);
	case OPT_COMPUTE:
		return take_compute(limit, value);
	case OPT_GPU:
		limit->gpu = value;
		return 0;
	case OPT_UNLIMITED:
		limit->unlimited = true;
		return 0;
	case OPT_LOG:
		limit->log = true;
		return 0;
	case OPT_JSON:
		limit->json = true;
		return 0;
	default:
		limit->quiet = true;
		return 0;
	}
}

static bool changes(const struct limit *limit)
{
	return limit->change.memory_set || limit->change.compute_set || limit->unlimited;
}

static const char *usage_fault(const struct limit *limit, int operand_count)
{
	if (operand_count != 1)
		return operand_count ? "one share at a time"
				     : "which share? 'berth ps --all' lists them";
	if (limit->unlimited && limit->change.memory_set)
		return "--memory and --unlimited exclude each other";
	if (limit->log && (changes(limit) || limit->gpu || limit->json))
		return "--log prints what was changed; it takes no other option";
	return NULL;
}

static bool gpu_is_wanted(const struct berth_region_gpu *gpu, uint32_t index, const char *wanted)
{
	char *end;
	unsigned long number = strtoul(wanted, &end, 10);

	if (*wanted >= '0' && *wanted <= '9' && *end == '\0')
		return number == index;
	return strlen(wanted) > 4 && strncmp(gpu->uuid, wanted, strlen(wanted)) == 0;
}

/* The GPUs that are meant, by the share's order. */
static int gpus_choose(const struct limit *limit, const struct berth_snapshot *s,
		       uint32_t *ret_mask, struct berth_reason *reason)
{
	char names[BERTH_REASON_MAX / 2] = "", label[32];
	uint32_t mask = 0;
	size_t n = 0;

	for (uint32_t g = 0; g < s->gpu_count; g++) {
		if (!limit->gpu || gpu_is_wanted(&s->gpus[g].gpu, g, limit->gpu))
			mask |= 1U << g;
		if (n < sizeof names)
			n += (size_t)snprintf(
				names + n, sizeof names - n, "%s%s", g ? ", " : "",
				berth_share_gpu_label(g, &s->gpus[g].gpu, label, sizeof label));
	}
	if (mask == 0 || (limit->gpu && (mask & (mask - 1)) != 0))
		return berth_reason_set(
			reason, -ENODEV, "--gpu %.100s: %s; the share has %s",
			limit->gpu ? limit->gpu : "",
			mask ? "more than one GPU begins so" : "the share has no such GPU", names);
	*ret_mask = mask;
	return 0;
}

static int row_add(struct berth_table *t, const struct limit *limit, uint32_t g,
		   const struct berth_snapshot_gpu *gpu)
{
	char label[32], charged[BERTH_SIZE_TEXT_MAX], bound[BERTH_SIZE_TEXT_MAX], used[32];
	uint32_t pct = gpu->gpu.compute_limit_pct;
	int r = berth_table_add(t, "%s", limit->place.name);

	if (r == 0)
		r = berth_table_add(t, "%s",
				    berth_share_gpu_label(g, &gpu->gpu, label, sizeof label));
	if (r == 0)
		r = berth_table_add(t, "%s", berth_size_format(gpu->charged_bytes, charged));
	if (r == 0)
		r = berth_table_add(t, "%s",
				    gpu->gpu.memory_limit_bytes
					    ? berth_size_format(gpu->gpu.memory_limit_bytes, bound)
					    : "none");
	if (r == 0)
		r = berth_table_add(t, "%s", berth_share_used(gpu, used, sizeof used));
	if (r == 0)
		r = pct && pct < 100 ? berth_table_add(t, "%u %%", pct)
				     : berth_table_add(t, "none");
	return r;
}

static int print_table(const struct limit *limit, const struct berth_snapshot *s, uint32_t mask)
{
	struct berth_table *t = NULL;
	int r = berth_table_new(limit_columns, BERTH_ARRAY_LEN(limit_columns), &t);

	for (uint32_t g = 0; r == 0 && g < s->gpu_count; g++) {
		if (mask & (1U << g))
			r = row_add(t, limit, g, &s->gpus[g]);
	}
	if (r == 0)
		berth_table_print(t, stdout, isatty(STDOUT_FILENO));
	berth_table_free(t);
	return r;
}

static json_t *json_gpu(uint32_t g, const struct berth_snapshot_gpu *gpu)
{
	return json_pack("{s:i, s:s, s:I, s:i, s:I, s:I}", "index", (int)g, "uuid", gpu->gpu.uuid,
			 "memory_limit_bytes", berth_share_figure(gpu->gpu.memory_limit_bytes),
			 "compute_limit_percent", (int)gpu->gpu.compute_limit_pct, "charged_bytes",
			 berth_share_figure(gpu->charged_bytes), "over_bytes",
			 berth_share_figure(berth_share_over_bytes(gpu)));
}

static int print_json(const struct limit *limit, const struct berth_snapshot *s, uint32_t mask)
{
	json_t *gpus = json_array();

	for (uint32_t g = 0; g < s->gpu_count; g++) {
		/* A NULL is caught when the whole is packed. */
		if (mask & (1U << g))
			(void)json_array_append_new(gpus, json_gpu(g, &s->gpus[g]));
	}
	json_t *share = json_pack("{s:s, s:o}", "name", limit->place.name, "gpus", gpus);
	if (!share)
		return -ENOMEM;
	(void)json_dumpf(share, stdout, JSON_INDENT(2)); /* main reports a failed write */
	putchar('\n');
	json_decref(share);
	return 0;
}

static int show(const struct limit *limit, const struct berth_snapshot *s, uint32_t mask)
{
	if (limit->json)
		return print_json(limit, s, mask);
	return changes(limit) && limit->quiet ? 0 : print_table(limit, s, mask);
}

/* What the change means, as far as the figures don't say it. */
static void tell(const struct limit *limit, const struct berth_snapshot *s, uint32_t mask)
{
	char label[32], over[BERTH_SIZE_TEXT_MAX], note[128];

	if (limit->quiet)
		return;
	if (limit->unlimited)
		berth_complain(limit->command,
			       "share '%s' has no memory limit any more%s: its programs may fill "
			       "the whole GPU, and others on it then find no room",
			       limit->place.name, limit->gpu ? " on this GPU" : "");
	if (limit->change.compute_set &&
	    berth_share_compute_note(limit->change.compute_limit_pct, note, sizeof note))
		berth_complain(limit->command, "%s", note);
	for (uint32_t g = 0; g < s->gpu_count; g++) {
		uint64_t over_bytes = berth_share_over_bytes(&s->gpus[g]);

		if (!(mask & (1U << g)) || over_bytes == 0)
			continue;
		berth_complain(limit->command,
			       "GPU %s: %s more are charged than the limit allows; asks are "
			       "refused until it fits",
			       berth_share_gpu_label(g, &s->gpus[g].gpu, label, sizeof label),
			       berth_size_format(over_bytes, over));
	}
}

static int record_change(void *arg, uint32_t gpu, const struct berth_region_gpu *before,
			 const struct berth_region_gpu *after)
{
	const struct record *record = arg;
	struct berth_audit_change change = {
		.by = "limit",
		.share = record->share,
		.region = berth_region_path(record->region),
		.before = before,
		.after = after,
	};
	struct berth_reason why = { .text = "" };

	(void)gpu;
	int r = berth_audit_write(&change, &why);
	return r < 0 ? berth_reason_set(record->reason, r,
					"nothing was changed, because the audit log can't take all "
					"of it: %s",
					why.text[0] ? why.text : strerror(-r))
		     : 0;
}

static int make_change(struct limit *limit, uint32_t mask, struct berth_reason *reason)
{
	struct berth_region *region = NULL;
	int r = berth_region_join(limit->place.path, NULL, 0, &region, NULL, reason);

	if (r < 0)
		return r;
	/* A named one is called as its directory, whose name was checked. */
	struct record record = { .region = region,
				 .share = limit->place.name[0] == '/'
						  ? berth_region_share_name(region)
						  : limit->place.name,
				 .reason = reason };
	limit->change.gpu_mask = mask;
	limit->change.memory_set |= limit->unlimited; /* the limit stayed 0 */
	r = berth_region_change(region, &limit->change, record_change, &record, reason);
	berth_region_close(region);
	return r;
}

static int find_gpus(const struct limit *limit, uint32_t *ret_mask, struct berth_reason *reason)
{
	struct berth_snapshot *snapshot = NULL;
	int r = berth_share_snapshot(&limit->place, &snapshot, reason);

	if (r < 0)
		return r == -ENOENT ? berth_share_absent(&limit->place, reason) : r;
	r = gpus_choose(limit, snapshot, ret_mask, reason);
	berth_snapshot_free(snapshot);
	return r;
}

static int change_and_show(struct limit *limit, struct berth_reason *reason)
{
	struct berth_snapshot *snapshot = NULL;
	uint32_t mask = 0;
	int r = find_gpus(limit, &mask, reason);

	if (r == 0 && changes(limit))
		r = make_change(limit, mask, reason);
	if (r < 0)
		return r;
	r = berth_share_snapshot(&limit->place, &snapshot, reason);
	if (r < 0)
		return r;
	if (changes(limit))
		tell(limit, snapshot, mask);
	r = show(limit, snapshot, mask);
	berth_snapshot_free(snapshot);
	return r;
}

static int limit_run(const struct berth_command *command, int argc, char **argv)
{
	struct limit limit = { .command = command };
	struct berth_reason reason = { .text = "" };
	int operand = 0;
	int r = berth_options_parse(command, argc, argv, take_option, &limit, &operand);

	if (r != 0)
		return r < 0 ? command->usage_exit : BERTH_EXIT_OK;
	const char *fault = usage_fault(&limit, argc - operand);
	if (fault) {
		berth_complain(command, "%s", fault);
		return command->usage_exit;
	}
	r = berth_share_locate(argv[operand], &limit.place, &reason);
	if (r == 0)
		r = limit.log ? berth_audit_print(limit.place.path, stdout, &reason)
			      : change_and_show(&limit, &reason);
	if (r < 0)
		berth_complain(command, "%s", reason.text[0] ? reason.text : strerror(-r));
	return r < 0 ? BERTH_EXIT_FAILURE : BERTH_EXIT_OK;
}

const struct berth_command berth_command_limit = {
	.name = "limit",
	.operands = "SHARE",
	.summary = "Show the limits of a share, or change them while its programs run.",
	.options = limit_options,
	.usage_exit = BERTH_EXIT_USAGE,
	.options_behind = true,
	.run = limit_run,
};
