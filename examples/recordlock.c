/* SPDX-License-Identifier: Apache-2.0 */
/* Adds one to the number in a file. Many may do it at once: none of the steps is lost.
 *	recordlock LOCKFILE NUMBERFILE
 */
#include <berth/recordlock.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_one(struct berth_recordlock *lock, const char *path)
{
	long number = 0;
	FILE *file;
	int r;

	do {
		char line[32] = "";

		file = fopen(path, "r");
		if (file != NULL) {
			(void)!fgets(line, sizeof(line), file);
			(void)fclose(file);
		}
		number = strtol(line, NULL, 10);
		r = berth_recordlock_check(lock);
	} while (r == 1); /* it was lost for a while: read again */
	if (r < 0)
		return r;
	file = fopen(path, "w");
	if (file == NULL)
		return -errno;
	(void)fprintf(file, "%ld\n", number + 1);
	return fclose(file) == 0 ? 0 : -errno;
}

int main(int argc, char **argv)
{
	const struct berth_recordlock_options options = {
		.size = sizeof(options),
		.flags = BERTH_RECORDLOCK_CREATE,
	};
	struct berth_recordlock *lock = NULL;
	struct berth_recordlock_owner owner = { 0 };
	int r;

	if (argc != 3)
		return 2;
	r = berth_recordlock_open(argv[1], &options, &lock);
	if (r == 0)
		r = berth_recordlock_take(lock, 2000, &owner);
	if (r == 0) {
		r = add_one(lock, argv[2]);
		(void)berth_recordlock_give(lock);
	} else if (r == -ETIMEDOUT) {
		(void)fprintf(stderr, "process %d has it\n", (int)owner.pid);
	}
	if (r < 0)
		(void)fprintf(stderr, "%s: %s\n", argv[1], strerror(-r));
	berth_recordlock_close(lock);
	return r < 0;
}
