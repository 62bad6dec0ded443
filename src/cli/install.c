/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/install.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

static bool join_path(char *ret_path, const char *dir, const char *name)
{
	size_t dir_length = strlen(dir), name_size = strlen(name) + 1;

	if (dir_length + 1 + name_size > PATH_MAX)
		return false;
	memcpy(ret_path, dir, dir_length + 1);
	ret_path[dir_length] = '/';
	memcpy(ret_path + dir_length + 1, name, name_size);
	return true;
}

/* One candidate directory: true if the library is there. */
static bool try_dir(struct berth_install *install, const char *dir)
{
	char sim[PATH_MAX];

	if (!join_path(install->library, dir, "libberth-cuda.so") ||
	    access(install->library, R_OK) != 0)
		return false;
	install->simulator[0] = '\0';
	if (join_path(sim, dir, "sim/libcuda.so.1") && access(sim, R_OK) == 0)
		(void)join_path(install->simulator, dir, "sim");
	return true;
}

static bool find_beside_command(struct berth_install *install)
{
	static const char *const below[] = { "lib", "lib/berth" };
	char exe[PATH_MAX], dir[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

	if (n <= 0)
		return false;
	exe[n] = '\0';
	for (int up = 0; up < 2; up++) { /* …/bin/berth -> … */
		char *slash = strrchr(exe, '/');
		if (!slash)
			return false;
		*slash = '\0';
	}
	for (size_t i = 0; i < BERTH_ARRAY_LEN(below); i++) {
		if (join_path(dir, exe, below[i]) && try_dir(install, dir))
			return true;
	}
	return false;
}

int berth_install_find(struct berth_install *ret_install, struct berth_reason *reason)
{
	struct berth_install found = { .library = "" };
	const char *asked = berth_process_is_secure() ? NULL : getenv("BERTH_LIBDIR");

	if (asked && *asked) {
		if (!try_dir(&found, asked))
			return berth_reason_set(reason, -ENOENT,
						"BERTH_LIBDIR=%s: libberth-cuda.so is not there",
						asked);
	} else if (!find_beside_command(&found) && !try_dir(&found, BERTH_LIBDIR)) {
		return berth_reason_set(
			reason, -ENOENT,
			"libberth-cuda.so is neither beside this command nor in %s: "
			"install it, or name its directory in BERTH_LIBDIR",
			BERTH_LIBDIR);
	}
	/* The dynamic linker takes both as separators, and there is no way to quote them. */
	if (strpbrk(found.library, ": "))
		return berth_reason_set(
			reason, -EINVAL,
			"%s: LD_PRELOAD can't carry a path with a blank or a colon; "
			"install Berth elsewhere",
			found.library);
	*ret_install = found;
	return 0;
}
