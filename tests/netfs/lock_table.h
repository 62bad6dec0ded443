/* SPDX-License-Identifier: Apache-2.0
 *
 * The POSIX record locks of one file: rows of (owner, range, kind). Locks of one owner never overlap each
 * other and never conflict; a new one replaces what it covers of the owner's, and splits what it cuts.
 */
#ifndef BERTH_TESTS_NETFS_LOCK_TABLE_H
#define BERTH_TESTS_NETFS_LOCK_TABLE_H

#include <stdint.h>
#include <sys/types.h>

#define LOCK_TABLE_ROWS 4096

struct lock_row {
	uint64_t owner;
	pid_t pid;
	int16_t type; /* F_RDLCK or F_WRLCK; F_UNLCK for a request to unlock */
	int64_t start;
	int64_t end; /* the last byte; INT64_MAX = whatever comes */
};

struct lock_table {
	unsigned count;
	struct lock_row rows[LOCK_TABLE_ROWS];
};

/* A lock of another owner that stands in the way, or NULL. Nothing stands in an unlock's way. */
const struct lock_row *lock_table_conflict(const struct lock_table *table,
					   const struct lock_row *wanted);

/* Takes or (F_UNLCK) gives back; conflicts are the caller's to look for. -ENOLCK: no room, nothing changed. */
int lock_table_set(struct lock_table *table, const struct lock_row *wanted);

unsigned lock_table_count(const struct lock_table *table);

#endif
