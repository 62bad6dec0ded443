/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted when a percentile is asked for.
 */
#include "samples.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int samples_add(struct samples *samples, uint64_t ns)
{
	if (samples->count == samples->room) {
		size_t room = samples->room ? 2 * samples->room : 64;
		uint64_t *more = reallocarray(samples->ns, room, sizeof *more);

		if (!more)
			return -ENOMEM;
		samples->ns = more;
		samples->room = room;
	}
	samples->ns[samples->count++] = ns;
	return 0;
}

void samples_done(struct samples *samples)
{
	free(samples->ns);
	*samples = (struct samples){ 0 };
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;

	return (*x > *y) - (*x < *y);
}

uint64_t samples_percentile(struct samples *samples, unsigned percent)
{
	if (samples->count == 0)
		return 0;
	qsort(samples->ns, samples->count, sizeof *samples->ns, compare);
	size_t rank = (samples->count * percent + 99) / 100;
	return samples->ns[rank > 0 ? rank - 1 : 0];
}

int samples_log(const struct samples *samples, const char *series)
{
	const char *path = getenv("BENCH_SAMPLES");

	if (!path)
		return 0;
	FILE *file = fopen(path, "ae");
	if (!file)
		return -errno;
	if (ftell(file) == 0)
		(void)fputs("series,us\n", file); /* what can't be written shows below */
	for (size_t i = 0; i < samples->count; i++)
		(void)fprintf(file, "%s,%.3f\n", series, (double)samples->ns[i] / 1000.0);
	bool failed = ferror(file) != 0;
	return (fclose(file) != 0 || failed) ? -EIO : 0;
}
