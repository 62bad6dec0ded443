/* SPDX-License-Identifier: Apache-2.0
 *
 * See place.h.
 */
#include "place.h"

#include <errno.h>
#include <ftw.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int build_find(struct place *place)
{
	ssize_t length = readlink("/proc/self/exe", place->build, sizeof(place->build) - 1);

	if (length < 0)
		return -errno;
	place->build[length] = '\0';
	(void)dirname(dirname(place->build)); /* shortens in place */
	return 0;
}

int place_open(struct place *place)
{
	const char *dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	(void)snprintf(place->scratch, sizeof(place->scratch), "%s/berth-bench-XXXXXX",
		       dir); /* always fits */
	return mkdtemp(place->scratch) ? build_find(place) : -errno;
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

int place_erase(const char *dir)
{
	return nftw(dir, entry_remove, 8, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -errno;
}

void place_close(const struct place *place)
{
	(void)place_erase(place->scratch); /* a left-over does no harm */
}
