/* SPDX-License-Identifier: Apache-2.0
 *
 * berth ps: which shares there are, who sits in them, what is charged. Reads; changes nothing.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "base/size.h"
#include "cli/command.h"
#include "cli/share.h"
#include "cli/table.h"
#include "region/directory.h"
#include "region/snapshot.h"

enum { OPT_JSON, OPT_ALL, OPT_SHARES };

static const struct berth_option ps_options[] = {
	[OPT_JSON] = { "json", 'j', NULL, "print JSON: bytes, nothing rounded" },
	[OPT_ALL] = { "all", 'a', NULL, "also shares that nobody sits in" },
	[OPT_SHARES] = { "shares", 's', NULL, "the shares only, not their processes" },
	{ NULL, 0, NULL, NULL },
};

static const struct berth_column share_columns[] = {
	{ "SHARE", false }, { "GPU", false }, { "PROCESSES", true }, { "CHARGED", true },
	{ "LIMIT", true },  { "USED", true }, { "REFUSALS", true },
};

static const struct berth_column process_columns[] = {
	{ "SHARE", false },  { "PID", true },      { "GPU", false },
	{ "CHARGED", true }, { "COMMAND", false },
};

struct ps {
	const struct berth_command *command;
	bool json;
	bool all;
	bool shares_only;
	bool failed; /* a share could not be read: said, the others are shown */
	struct berth_table *shares;
	struct berth_table *seats;
	FILE *notes; /* lines under the tables */
	char *notes_text;
	size_t notes_size;
	json_t *list;
	uint64_t pid_namespace; /* ours: only there a pid names a process for us */
};

static int take_option(void *arg, const struct berth_option *option, const char *value)
{
	struct ps *ps = arg;

	(void)value;
	ps->json |= option == &ps_options[OPT_JSON];
	ps->all |= option == &ps_options[OPT_ALL];
	ps->shares_only |= option == &ps_options[OPT_SHARES];
	return 0;
}

static uint32_t alive_count(const struct berth_snapshot *snapshot)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < snapshot->seat_count; i++)
		count += snapshot->seats[i].alive;
	return count;
}

/* The command of a seat's process, if it is the one we see under that pid. */
static const char *seat_command(const struct ps *ps, const struct berth_snapshot_seat *seat,
				char *buf, size_t size)
{
	struct berth_process_id id = { .pid = seat->pid,
				       .start_ticks = seat->start_ticks,
				       .pid_namespace = seat->pid_namespace };

	if (seat->foreign)
		return "(not Berth's: its memory is not limited by this share)";
	if (seat->pid_namespace != ps->pid_namespace)
		return "(in another pid namespace)";
	if (!berth_process_same(&id) || berth_process_command(seat->pid, buf, size) < 0)
		return "?";
	return buf;
}

static int table_shares(struct ps *ps, const struct berth_snapshot *s)
{
	char label[32], charged[BERTH_SIZE_TEXT_MAX], limit[BERTH_SIZE_TEXT_MAX], used[32];
	struct berth_table *t = ps->shares;

	for (uint32_t g = 0; g < s->gpu_count; g++) {
		const struct berth_snapshot_gpu *gpu = &s->gpus[g];
		uint64_t bound = gpu->gpu.memory_limit_bytes;
		int r = berth_table_add(t, "%s", s->share_name);
		if (r == 0)
			r = berth_table_add(
				t, "%s", berth_share_gpu_label(g, &gpu->gpu, label, sizeof label));
		if (r == 0)
			r = berth_table_add(t, "%u", alive_count(s));
		if (r == 0)
			r = berth_table_add(t, "%s",
					    berth_size_format(gpu->charged_bytes, charged));
		if (r == 0)
			r = berth_table_add(t, "%s",
					    bound ? berth_size_format(bound, limit) : "none");
		if (r == 0)
			r = berth_table_add(t, "%s", berth_share_used(gpu, used, sizeof used));
		if (r == 0)
			r = berth_table_add(t, "%llu", (unsigned long long)gpu->refusal_count);
		if (r < 0)
			return r;
	}
	return 0;
}

static int table_seat(struct ps *ps, const struct berth_snapshot *s,
		      const struct berth_snapshot_seat *seat)
{
	char label[32], charged[BERTH_SIZE_TEXT_MAX], command[200];
	struct berth_table *t = ps->seats;

	for (uint32_t g = 0; g < s->gpu_count; g++) {
		int r = berth_table_add(t, "%s", s->share_name);
		if (r == 0)
			r = berth_table_add(t, "%d", (int)seat->pid);
		if (r == 0)
			r = berth_table_add(
				t, "%s",
				berth_share_gpu_label(g, &s->gpus[g].gpu, label, sizeof label));
		if (r == 0)
			r = berth_table_add(t, "%s",
					    berth_size_format(seat->use[g].total_bytes, charged));
		if (r == 0)
			r = berth_table_add(t, "%s",
					    seat_command(ps, seat, command, sizeof command));
		if (r < 0)
			return r;
	}
	return 0;
}

static json_t *json_use(const struct berth_snapshot_use *use)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "charged_bytes",
			 berth_share_figure(use->total_bytes), "context_bytes",
			 berth_share_figure(use->context_bytes), "module_bytes",
			 berth_share_figure(use->module_bytes), "data_bytes",
			 berth_share_figure(use->data_bytes));
}

static json_t *json_seat(const struct ps *ps, const struct berth_snapshot *s,
			 const struct berth_snapshot_seat *seat)
{
	char command[200];
	json_t *gpus = json_array();

	for (uint32_t g = 0; g < s->gpu_count; g++) {
		json_t *use = json_use(&seat->use[g]);
		(void)json_object_set_new(use, "uuid", json_string(s->gpus[g].gpu.uuid));
		(void)json_array_append_new(gpus,
					    use); /* NULL is caught when the whole is packed */
	}
	return json_pack(
		"{s:i, s:i, s:s, s:s?, s:I, s:I, s:s, s:b, s:I, s:o}", "pid", (int)seat->pid,
		"host_pid", (int)seat->host_pid, "host_pid_source",
		seat->foreign ? "unknown" : berth_host_pid_source_name(seat->host_pid_note.source),
		"host_pid_missing", berth_host_pid_missing_text(seat->host_pid_note.missing),
		"start_ticks", berth_share_figure(seat->start_ticks), "pid_namespace",
		berth_share_figure(seat->pid_namespace), "command",
		seat_command(ps, seat, command, sizeof command), "foreign", (int)seat->foreign,
		"refusals", berth_share_figure(seat->refusal_count), "gpus", gpus);
}

static json_t *json_gpu(const struct berth_snapshot_gpu *gpu)
{
	return json_pack("{s:s, s:I, s:i, s:I, s:I, s:I}", "uuid", gpu->gpu.uuid,
			 "memory_limit_bytes", berth_share_figure(gpu->gpu.memory_limit_bytes),
			 "compute_limit_percent", (int)gpu->gpu.compute_limit_pct, "charged_bytes",
			 berth_share_figure(gpu->charged_bytes), "over_bytes",
			 berth_share_figure(berth_share_over_bytes(gpu)), "refusals",
			 berth_share_figure(gpu->refusal_count));
}

static int json_share(struct ps *ps, const struct berth_snapshot *s)
{
	json_t *gpus = json_array(), *seats = json_array(), *share;

	for (uint32_t g = 0; g < s->gpu_count; g++)
		(void)json_array_append_new(gpus, json_gpu(&s->gpus[g]));
	for (uint32_t i = 0; i < s->seat_count; i++) {
		if (s->seats[i].alive)
			(void)json_array_append_new(seats, json_seat(ps, s, &s->seats[i]));
	}
	share = json_pack("{s:s, s:I, s:o, s:o}", "name", s->share_name, "anomalies",
			  berth_share_figure(s->anomaly_count), "gpus", gpus, "processes", seats);
	return share && json_array_append_new(ps->list, share) == 0 ? 0 : -ENOMEM;
}

/* Whose host pid is unknown although it was looked for, by what was missing. */
static void note_missing(const struct ps *ps, const struct berth_snapshot *s)
{
	for (unsigned cause = BERTH_HOST_PID_NOT_YET + 1; cause < BERTH_HOST_PID_MISSING_COUNT;
	     cause++) {
		uint32_t count = 0;
		int32_t first = 0;

		for (uint32_t i = 0; i < s->seat_count; i++) {
			if (s->seats[i].alive && s->seats[i].host_pid_note.missing == cause &&
			    count++ == 0)
				first = s->seats[i].pid;
		}
		if (count > 0)
			(void)fprintf(ps->notes,
				      "share %s: host pid unknown of %u process%s (pid %d%s): %s\n",
				      s->share_name, count, count > 1 ? "es" : "", (int)first,
				      count > 1 ? ", ..." : "", berth_host_pid_missing_text(cause));
	}
}

static int show_snapshot(struct ps *ps, const struct berth_snapshot *s)
{
	if (!ps->all && alive_count(s) == 0)
		return 0;
	if (ps->json)
		return json_share(ps, s);
	int r = table_shares(ps, s);
	for (uint32_t i = 0; i < s->seat_count && r == 0; i++) {
		if (s->seats[i].alive)
			r = table_seat(ps, s, &s->seats[i]);
	}
	note_missing(ps, s);
	return r;
}

static int visit_share(void *arg, const char *name, const char *path)
{
	struct ps *ps = arg;
	struct berth_share_place place;
	struct berth_reason reason = { .text = "" };
	struct berth_snapshot *snapshot = NULL;

	(void)snprintf(place.name, sizeof place.name, "%s", name);
	(void)snprintf(place.path, sizeof place.path, "%s", path);
	int r = berth_share_snapshot(&place, &snapshot, &reason);
	if (r == -ENOENT)
		return 0; /* its directory only: just made, or just swept */
	if (r < 0) {
		berth_complain(ps->command, "share '%s': %s", name, reason.text);
		ps->failed = true;
		r = 0;
	} else {
		r = show_snapshot(ps, snapshot);
	}
	berth_snapshot_free(snapshot);
	return r;
}

static void print_all(const struct ps *ps)
{
	bool terminal = isatty(STDOUT_FILENO);

	if (ps->json) {
		(void)json_dumpf(ps->list, stdout,
				 JSON_INDENT(2)); /* main reports a failed write */
		putchar('\n');
		return;
	}
	berth_table_print(ps->shares, stdout, terminal);
	if (!ps->shares_only && berth_table_row_count(ps->seats) > 0) {
		putchar('\n');
		berth_table_print(ps->seats, stdout, terminal);
	}
	(void)fflush(ps->notes); /* into memory; short of it, notes are missing */
	if (!ps->shares_only && ps->notes_text && ps->notes_text[0] != '\0')
		printf("\n%s", ps->notes_text);
}

static int collect_and_print(struct ps *ps, struct berth_reason *reason)
{
	struct berth_process_id self;
	int r = berth_process_self(&self);

	if (r < 0)
		return r;
	ps->pid_namespace = self.pid_namespace;
	r = berth_table_new(share_columns, BERTH_ARRAY_LEN(share_columns), &ps->shares);
	if (r == 0)
		r = berth_table_new(process_columns, BERTH_ARRAY_LEN(process_columns), &ps->seats);
	ps->list = json_array();
	ps->notes = open_memstream(&ps->notes_text, &ps->notes_size);
	if (r == 0 && !ps->notes)
		r = -ENOMEM;
	if (r == 0)
		r = berth_share_each(visit_share, ps, reason);
	if (r == 0)
		print_all(ps);
	berth_table_free(ps->shares);
	berth_table_free(ps->seats);
	json_decref(ps->list);
	if (ps->notes)
		(void)fclose(ps->notes); /* memory */
	free(ps->notes_text);
	return r;
}

static int ps_run(const struct berth_command *command, int argc, char **argv)
{
	struct ps ps = { .command = command };
	struct berth_reason reason = { .text = "" };
	int operand = 0;
	int r = berth_options_parse(command, argc, argv, take_option, &ps, &operand);

	if (r != 0)
		return r < 0 ? command->usage_exit : BERTH_EXIT_OK;
	if (operand < argc) {
		berth_complain(command, "takes no operand, but '%s' was given", argv[operand]);
		return command->usage_exit;
	}
	r = collect_and_print(&ps, &reason);
	if (r < 0)
		berth_complain(command, "%s", reason.text[0] ? reason.text : strerror(-r));
	return r < 0 || ps.failed ? BERTH_EXIT_FAILURE : BERTH_EXIT_OK;
}

const struct berth_command berth_command_ps = {
	.name = "ps",
	.operands = "",
	.summary = "List the shares, their processes and what is charged to them.",
	.options = ps_options,
	.usage_exit = BERTH_EXIT_USAGE,
	.run = ps_run,
};
