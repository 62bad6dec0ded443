/* SPDX-License-Identifier: Apache-2.0
 *
 * A region's bytes are its users': what is shown of them must not steer the terminal, nor be text that
 * JSON can't carry.
 */
#include "cli/share.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "region/directory.h"

/* One name for one region, whatever the way to it was: the directory's real path. The file itself may
 * be a link, which joining refuses, or be absent. */
static int path_absolute(const char *operand, char ret_path[PATH_MAX], struct berth_reason *reason)
{
	char dir[PATH_MAX], real[PATH_MAX];
	const char *slash = strrchr(operand, '/');
	size_t length = slash == operand ? 1 : (size_t)(slash - operand);

	if (length >= sizeof dir)
		return berth_reason_set(reason, -ENAMETOOLONG, "the path is too long");
	memcpy(dir, operand, length);
	dir[length] = '\0';
	/* Its directory may be gone: the record of its changes isn't. */
	if (!realpath(dir, real) && errno == ENOENT && operand[0] == '/') {
		(void)snprintf(ret_path, PATH_MAX, "%.*s", PATH_MAX - 1, operand);
		return 0;
	}
	if (!realpath(dir, real))
		return berth_reason_set(reason, -errno, "%s: there is no such region: %s", operand,
					strerror(errno));
	int n = snprintf(ret_path, PATH_MAX, "%s%s", strcmp(real, "/") == 0 ? "" : real, slash);
	return n < PATH_MAX ? 0 : berth_reason_set(reason, -ENAMETOOLONG, "the path is too long");
}

int berth_share_locate(const char *operand, struct berth_share_place *ret_place,
		       struct berth_reason *reason)
{
	struct berth_share_place place = { .name = "" };
	int r = strchr(operand, '/') ? path_absolute(operand, place.path, reason)
				     : berth_share_path(operand, false, place.path, reason);

	if (r < 0)
		return r;
	(void)berth_text_escape(place.name, sizeof place.name,
				strchr(operand, '/') ? place.path : operand);
	*ret_place = place;
	return 0;
}

struct name_list {
	char text[BERTH_REASON_MAX / 2];
	size_t length;
};

static int name_add(void *arg, const char *name, const char *path)
{
	struct name_list *names = arg;
	size_t room = sizeof names->text - names->length;
	const char *comma = names->length ? ", " : "";

	if (access(path, F_OK) < 0)
		return 0; /* its directory only */
	if (strlen(name) + sizeof ", ..." + 2 > room) {
		(void)snprintf(names->text + names->length, room, "%s...", comma);
		return 1;
	}
	names->length += (size_t)snprintf(names->text + names->length, room, "%s%s", comma, name);
	return 0;
}

int berth_share_absent(const struct berth_share_place *place, struct berth_reason *reason)
{
	struct name_list names = { .text = "" };

	if (berth_share_each(name_add, &names, NULL) < 0)
		names.text[0] = '\0'; /* then they can't be named */
	return berth_reason_set(reason, -ENOENT, "there is no share '%.200s'; %s%s", place->name,
				names.text[0] ? "there are (berth ps --all): "
					      : "there are none of this user",
				names.text);
}

static void make_presentable(struct berth_snapshot *s, const char *name)
{
	(void)snprintf(s->share_name, sizeof s->share_name, "%.63s", name); /* as much as fits */
	for (uint32_t g = 0; g < s->gpu_count; g++) {
		for (char *c = s->gpus[g].gpu.uuid; *c; c++) {
			if (*c <= ' ' || *c > '~')
				*c = '?';
		}
	}
}

int berth_share_snapshot(const struct berth_share_place *place,
			 struct berth_snapshot **ret_snapshot, struct berth_reason *reason)
{
	struct berth_reason refusal = { .text = "" };
	struct berth_region *region = NULL;
	int r = berth_region_view(place->path, &region, &refusal);

	if (r == -ENOENT)
		return r;
	if (r < 0)
		return berth_reason_set(reason, r, "%s",
					refusal.text[0] ? refusal.text : strerror(-r));
	r = berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, ret_snapshot);
	berth_region_close(region);
	if (r < 0)
		return berth_reason_set(reason, r, "%s", strerror(-r));
	make_presentable(*ret_snapshot, place->name);
	return 0;
}

/* The first 8 characters behind "GPU-" tell cards apart, and fit. */
const char *berth_share_gpu_label(uint32_t index, const struct berth_region_gpu *gpu, char *buf,
				  size_t size)
{
	const char *uuid = strncmp(gpu->uuid, "GPU-", 4) == 0 ? gpu->uuid + 4 : gpu->uuid;

	(void)snprintf(buf, size, "%" PRIu32 ":%.8s", index, uuid);
	return buf;
}

uint64_t berth_share_over_bytes(const struct berth_snapshot_gpu *gpu)
{
	uint64_t limit_bytes = gpu->gpu.memory_limit_bytes;

	return limit_bytes && gpu->charged_bytes > limit_bytes ? gpu->charged_bytes - limit_bytes
							       : 0;
}

const char *berth_share_used(const struct berth_snapshot_gpu *gpu, char *buf, size_t size)
{
	uint64_t limit_bytes = gpu->gpu.memory_limit_bytes;

	if (limit_bytes)
		(void)snprintf(buf, size, "%.0f %%%s",
			       100.0 * (double)gpu->charged_bytes / (double)limit_bytes,
			       berth_share_over_bytes(gpu) ? " over" : "");
	else
		(void)snprintf(buf, size, "-");
	return buf;
}

const char *berth_share_compute_note(uint32_t compute_pct, char *buf, size_t size)
{
	if (compute_pct == 0 || compute_pct >= 100)
		return NULL;
	(void)snprintf(buf, size,
		       "the compute limit of %" PRIu32
		       " %% is recorded; this version holds memory limits only",
		       compute_pct);
	return buf;
}
