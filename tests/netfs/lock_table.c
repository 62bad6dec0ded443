/* SPDX-License-Identifier: Apache-2.0 */
#include "netfs/lock_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>

static bool overlaps(const struct lock_row *a, const struct lock_row *b)
{
	return a->start <= b->end && b->start <= a->end;
}

const struct lock_row *lock_table_conflict(const struct lock_table *table,
					   const struct lock_row *wanted)
{
	for (unsigned i = 0; wanted->type != F_UNLCK && i < table->count; i++) {
		const struct lock_row *row = &table->rows[i];

		if (row->owner != wanted->owner && overlaps(row, wanted) &&
		    (row->type == F_WRLCK || wanted->type == F_WRLCK))
			return row;
	}
	return NULL;
}

int lock_table_set(struct lock_table *table, const struct lock_row *wanted)
{
	unsigned kept = 0;
	unsigned count = table->count;
	struct lock_row rest[2];
	unsigned rest_count = 0;

	/* At most two rows stick out of the new range, one at each end: the owner's don't overlap. */
	if (count + 2 > LOCK_TABLE_ROWS && (wanted->type != F_UNLCK || wanted->start > 0))
		return -ENOLCK;
	for (unsigned i = 0; i < count; i++) {
		struct lock_row row = table->rows[i];

		if (row.owner != wanted->owner || !overlaps(&row, wanted)) {
			table->rows[kept++] = row;
			continue;
		}
		if (row.start < wanted->start) {
			rest[rest_count] = row;
			rest[rest_count++].end = wanted->start - 1;
		}
		if (row.end > wanted->end) {
			rest[rest_count] = row;
			rest[rest_count++].start = wanted->end + 1;
		}
	}
	for (unsigned i = 0; i < rest_count; i++)
		table->rows[kept++] = rest[i];
	if (wanted->type != F_UNLCK)
		table->rows[kept++] = *wanted;
	table->count = kept;
	return 0;
}

unsigned lock_table_count(const struct lock_table *table)
{
	return table->count;
}
