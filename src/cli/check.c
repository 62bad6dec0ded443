/* SPDX-License-Identifier: Apache-2.0
 *
 * berth check: walks a share's file and says what it finds, what that means and who repairs it. With
 * --repair it does now what the next program in need would do: it empties the seats of the dead. Nothing
 * depends on that; what can't be repaired is only told.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/share.h"
#include "region/directory.h"
#include "region/seat.h"

enum { OPT_REPAIR, OPT_JSON };

static const struct berth_option check_options[] = {
	[OPT_REPAIR] = { "repair", 0, NULL,
			 "empty the seats of the dead and remove left-over files" },
	[OPT_JSON] = { "json", 'j', NULL, "print JSON" },
	{ NULL, 0, NULL, NULL },
};

/* By enum berth_finding_kind: for scripts; what follows from it. */
static const struct kind {
	const char *word;
	const char *remedy;
} kinds[] = {
	[BERTH_FINDING_BROKEN] = { "broken",
				   "nothing repairs this while programs sit there, and figures may "
				   "be "
				   "wrong: end the share's programs, then remove its file" },
	[BERTH_FINDING_DEAD] = { "dead",
				 "its bytes count nowhere, and the next program that needs the "
				 "place or the room empties it; --repair does it now" },
	[BERTH_FINDING_OVER] = { "over", "nothing to repair: free memory, or raise the limit "
					 "(berth limit)" },
	[BERTH_FINDING_FOREIGN] = { "foreign",
				    "nothing to repair: end it, or start it with berth run" },
	[BERTH_FINDING_CLAMPED] = { "clamped",
				    "nothing to repair: the share counted less for it than "
				    "was really in use; all is right again once its programs "
				    "have ended" },
};
static const char dead_repaired[] = "emptied";
static const char file_word[] = "file";
static const char file_remedy[] =
	"its maker died before the share was there; whoever makes the next one "
	"removes it, and --repair does it now";
static const char file_repaired[] = "removed";

/* One thing that was found, as it is shown. */
struct item {
	const char *kind;
	int32_t seat;
	int32_t gpu;
	char *text;
	const char *remedy; /* or what was done */
	bool repaired;
};

struct check {
	const struct berth_command *command;
	bool repair;
	bool json;
	bool failed; /* something is broken or can't be read */
	json_t *list;

	/* The share that is being looked at. */
	struct berth_share_place place;
	struct item *items;
	size_t item_count;
	size_t broken_count;
};

static int take_option(void *arg, const struct berth_option *option, const char *value)
{
	struct check *check = arg;

	(void)value;
	check->repair |= option == &check_options[OPT_REPAIR];
	check->json |= option == &check_options[OPT_JSON];
	return 0;
}

static void items_clear(struct check *check)
{
	for (size_t i = 0; i < check->item_count; i++)
		free(check->items[i].text);
	free(check->items);
	check->items = NULL;
	check->item_count = check->broken_count = 0;
}

/* text is taken over by a copy. */
static int item_add(struct check *check, const struct item *item, const char *text)
{
	struct item *grown = realloc(check->items, (check->item_count + 1) * sizeof *check->items);

	if (!grown)
		return -ENOMEM;
	check->items = grown;
	grown[check->item_count] = *item;
	grown[check->item_count].text = strdup(text);
	if (!grown[check->item_count].text)
		return -ENOMEM;
	check->item_count++;
	return 0;
}

static int add_finding(void *arg, const struct berth_finding *finding)
{
	struct check *check = arg;
	const struct kind *kind = &kinds[finding->kind];
	const struct item item = { .kind = kind->word,
				   .seat = finding->seat,
				   .gpu = finding->gpu,
				   .remedy = kind->remedy };

	check->broken_count += finding->kind == BERTH_FINDING_BROKEN;
	return item_add(check, &item, finding->text);
}

static int add_file(void *arg, const char *name, bool removed)
{
	struct check *check = arg;
	const struct item item = { .kind = file_word,
				   .seat = -1,
				   .gpu = -1,
				   .remedy = removed ? file_repaired : file_remedy,
				   .repaired = removed };
	char shown[256 * 4], text[sizeof shown + 32];

	(void)berth_text_escape(shown, sizeof shown, name);
	(void)snprintf(text, sizeof text, "left-over file %s", shown);
	return item_add(check, &item, text);
}

/* Empties the seats that were found dead; what else was found is looked for anew afterwards, as it may
 * have been in those seats. */
static int repair(struct check *check, struct berth_region *region)
{
	size_t kept = 0;

	check->broken_count = 0;
	for (size_t i = 0; i < check->item_count; i++) {
		struct item *item = &check->items[i];
		int r = strcmp(item->kind, kinds[BERTH_FINDING_DEAD].word) == 0
				? berth_seat_reap(region, (uint32_t)item->seat)
				: 0;

		if (r < 0)
			return r;
		if (r == 0) {
			free(item->text);
			continue;
		}
		item->remedy = dead_repaired;
		item->repaired = true;
		check->items[kept++] = *item;
	}
	check->item_count = kept;
	return berth_region_inspect(region, add_finding, check);
}

static int look(struct check *check, struct berth_reason *reason)
{
	struct berth_region *region = NULL;
	int r = check->repair ? berth_region_join(check->place.path, NULL, 0, &region, NULL, reason)
			      : berth_region_view(check->place.path, &region, reason);

	if (r < 0)
		return r;
	r = berth_region_inspect(region, add_finding, check);
	if (r == 0 && check->repair)
		r = repair(check, region);
	berth_region_close(region);
	return r;
}

static void print_item(const struct check *check, const struct item *item)
{
	printf("%s: ", check->place.name);
	if (item->seat >= 0)
		printf("seat %d: ", (int)item->seat);
	if (item->gpu >= 0)
		printf("GPU %d: ", (int)item->gpu);
	printf("%s; %s\n", item->text, item->remedy);
}

static json_t *json_item(const struct item *item)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:b}", "kind", item->kind, "text", item->text,
				   "remedy", item->remedy, "repaired", (int)item->repaired);

	/* A NULL object is caught when the whole is packed. */
	if (object && item->seat >= 0)
		(void)json_object_set_new(object, "seat", json_integer(item->seat));
	if (object && item->gpu >= 0)
		(void)json_object_set_new(object, "gpu", json_integer(item->gpu));
	return object;
}

static int json_share(struct check *check, const char *error)
{
	json_t *findings = json_array();

	for (size_t i = 0; i < check->item_count; i++)
		(void)json_array_append_new(findings, json_item(&check->items[i]));
	json_t *share = json_pack("{s:s, s:b, s:o}", "name", check->place.name, "whole",
				  (int)(!error && check->broken_count == 0), "findings", findings);
	if (!share || json_array_append_new(check->list, share) < 0)
		return -ENOMEM;
	return error ? json_object_set_new(share, "error", json_string(error)) : 0;
}

/* How it stands, whatever was found. */
static void print_sum(const struct check *check)
{
	size_t left = 0;

	for (size_t i = 0; i < check->item_count; i++)
		left += !check->items[i].repaired;
	if (check->broken_count)
		printf("%s: broken in %zu place%s\n", check->place.name, check->broken_count,
		       check->broken_count == 1 ? "" : "s");
	else if (left)
		printf("%s: whole, %zu note%s\n", check->place.name, left, left == 1 ? "" : "s");
	else
		printf("%s: whole\n", check->place.name);
}

static int tell(struct check *check, const char *error)
{
	char shown[2 * BERTH_REASON_MAX];

	check->failed |= error || check->broken_count;
	if (check->json) {
		(void)berth_text_escape(shown, sizeof shown, error ? error : "");
		return json_share(check, error ? shown : NULL);
	}
	for (size_t i = 0; i < check->item_count; i++)
		print_item(check, &check->items[i]);
	if (error) {
		/* In its place among the others. */
		(void)fflush(stdout);
		berth_complain(check->command, "%s: %s", check->place.name, error);
	} else {
		print_sum(check);
	}
	return 0;
}

/* named: somebody asked for this one, so its absence is a failure. */
static int check_share(struct check *check, bool named)
{
	struct berth_reason reason = { .text = "" };
	int r = look(check, &reason);
	bool absent = r == -ENOENT && !named;
	/* Also where the region isn't there: its maker may have died before. */
	int files = berth_share_leftovers(check->place.path, check->repair, add_file, check);

	if (files < 0 && files != -ENOENT && (r == 0 || absent)) {
		r = berth_reason_set(&reason, files, "its directory can't be read: %s",
				     strerror(-files));
		absent = false;
	}
	if (r < 0 && !reason.text[0])
		(void)berth_reason_set(&reason, r, "%s", strerror(-r));
	r = absent && check->item_count == 0 ? 0
					     : tell(check, r < 0 && !absent ? reason.text : NULL);
	items_clear(check);
	return r;
}

static int check_listed(void *arg, const char *name, const char *path)
{
	struct check *check = arg;

	(void)snprintf(check->place.name, sizeof check->place.name, "%s", name);
	(void)snprintf(check->place.path, sizeof check->place.path, "%s", path);
	return check_share(check, false);
}

static int check_named(struct check *check, const char *operand)
{
	struct berth_reason reason = { .text = "" };
	int r = berth_share_locate(operand, &check->place, &reason);

	if (r == 0 && access(check->place.path, F_OK) < 0 && errno == ENOENT)
		r = berth_share_absent(&check->place, &reason);
	if (r == 0)
		return check_share(check, true);
	(void)berth_text_escape(check->place.name, sizeof check->place.name, operand);
	return tell(check, reason.text[0] ? reason.text : strerror(-r));
}

static int check_all(struct check *check, int count, char **operands, struct berth_reason *reason)
{
	int r = 0;

	if (count == 0)
		return berth_share_each(check_listed, check, reason);
	for (int i = 0; r == 0 && i < count; i++)
		r = check_named(check, operands[i]);
	return r;
}

static int check_run(const struct berth_command *command, int argc, char **argv)
{
	struct check check = { .command = command };
	struct berth_reason reason = { .text = "" };
	int operand = 0;
	int r = berth_options_parse(command, argc, argv, take_option, &check, &operand);

	if (r != 0)
		return r < 0 ? command->usage_exit : BERTH_EXIT_OK;
	check.list = json_array();
	r = check_all(&check, argc - operand, argv + operand, &reason);
	if (r == 0 && check.json) {
		(void)json_dumpf(check.list, stdout,
				 JSON_INDENT(2)); /* main reports a failed write */
		putchar('\n');
	}
	if (r < 0)
		berth_complain(command, "%s", reason.text[0] ? reason.text : strerror(-r));
	json_decref(check.list);
	return r < 0 || check.failed ? BERTH_EXIT_FAILURE : BERTH_EXIT_OK;
}

const struct berth_command berth_command_check = {
	.name = "check",
	.operands = "[SHARE]...",
	.summary = "Look whether shares are whole, and say who repairs what is not.",
	.options = check_options,
	.usage_exit = BERTH_EXIT_USAGE,
	.options_behind = true,
	.run = check_run,
};
