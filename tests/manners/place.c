/* SPDX-License-Identifier: Apache-2.0
 *
 * See place.h.
 */
#include "place.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

const char *place_name(enum place_kind kind)
{
	static const char *const names[PLACE_COUNT] = {
		[PLACE_DISK] = "the disk",
		[PLACE_TMPFS] = "a tmpfs",
		[PLACE_OVERLAY] = "an overlay",
	};

	return names[kind];
}

int place_own_mounts(void)
{
	if (unshare(CLONE_NEWNS) < 0)
		return -1;
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int overlay_on(const char *dir, char ret_place[PATH_MAX])
{
	static const char *const names[] = { "lower", "upper", "work", "merged" };
	char path[4][PATH_MAX];
	char options[3 * PATH_MAX + 64];

	for (int i = 0; i < 4; i++) {
		int n = snprintf(path[i], PATH_MAX, "%s/%s", dir, names[i]);

		if (n >= PATH_MAX || mkdir(path[i], 0755) < 0)
			return -1;
	}
	(void)snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s", path[0],
		       path[1], path[2]);
	if (mount("overlay", path[3], "overlay", 0, options) < 0)
		return -1;
	memcpy(ret_place, path[3], PATH_MAX);
	return 0;
}

int place_make(enum place_kind kind, const char *dir, char ret_place[PATH_MAX])
{
	if (kind == PLACE_DISK) {
		(void)snprintf(ret_place, PATH_MAX, "%s", dir);
		return 0;
	}
	if (place_own_mounts() < 0 || mount("tmpfs", dir, "tmpfs", 0, "mode=0755") < 0)
		return -1;
	if (kind == PLACE_OVERLAY)
		return overlay_on(dir, ret_place);
	(void)snprintf(ret_place, PATH_MAX, "%s", dir);
	return 0;
}
