/* SPDX-License-Identifier: Apache-2.0
 *
 * A table for people: columns as wide as their widest cell, bold heads on a terminal, plain text in a
 * pipe. Cells are copied; text of other processes is escaped by whoever adds it.
 */
#ifndef BERTH_CLI_TABLE_H
#define BERTH_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/attributes.h"

enum { BERTH_TABLE_COLUMNS_MAX = 16 };

struct berth_column {
	const char *head;
	bool right; /* aligned to the right: figures */
};

struct berth_table;

BERTH_MUST_CHECK int berth_table_new(const struct berth_column *columns, size_t column_count,
				     struct berth_table **ret_table);
void berth_table_free(struct berth_table *table);
/* One cell after the other, row by row. */
BERTH_MUST_CHECK int berth_table_add(struct berth_table *table, const char *fmt, ...)
	BERTH_PRINTF(2, 3);
size_t berth_table_row_count(const struct berth_table *table);
void berth_table_print(const struct berth_table *table, FILE *out, bool terminal);

#endif
