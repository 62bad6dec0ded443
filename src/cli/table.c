/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct berth_table {
	const struct berth_column *columns;
	size_t column_count;
	char **cells;
	size_t cell_count;
	size_t cell_room;
};

int berth_table_new(const struct berth_column *columns, size_t column_count,
		    struct berth_table **ret_table)
{
	if (column_count == 0 || column_count > BERTH_TABLE_COLUMNS_MAX)
		return -EINVAL;
	struct berth_table *table = calloc(1, sizeof *table);
	if (!table)
		return -ENOMEM;
	table->columns = columns;
	table->column_count = column_count;
	*ret_table = table;
	return 0;
}

void berth_table_free(struct berth_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->cell_count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

int berth_table_add(struct berth_table *table, const char *fmt, ...)
{
	va_list args;
	char *text = NULL;

	if (table->cell_count == table->cell_room) {
		size_t room = table->cell_room ? 2 * table->cell_room : 64;
		char **grown = realloc(table->cells, room * sizeof *grown);
		if (!grown)
			return -ENOMEM;
		table->cells = grown;
		table->cell_room = room;
	}
	va_start(args, fmt);
	int n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0)
		return -ENOMEM;
	table->cells[table->cell_count++] = text;
	return 0;
}

static size_t column_width(const struct berth_table *table, size_t column)
{
	size_t width = strlen(table->columns[column].head);

	for (size_t i = column; i < table->cell_count; i += table->column_count) {
		size_t n = strlen(table->cells[i]);
		if (n > width)
			width = n;
	}
	return width;
}

static void print_cell(const struct berth_column *column, size_t width, bool last, const char *text,
		       FILE *out)
{
	if (column->right)
		fprintf(out, "%*s", (int)width, text);
	else if (last)
		fputs(text, out); /* no blanks at the end of a line */
	else
		fprintf(out, "%-*s", (int)width, text);
	fputs(last ? "\n" : "  ", out);
}

size_t berth_table_row_count(const struct berth_table *table)
{
	return table->cell_count / table->column_count;
}

void berth_table_print(const struct berth_table *table, FILE *out, bool terminal)
{
	size_t widths[BERTH_TABLE_COLUMNS_MAX];
	size_t count = table->column_count;

	if (count == 0 || count > BERTH_TABLE_COLUMNS_MAX)
		return; /* berth_table_new made none like it */
	for (size_t c = 0; c < count; c++)
		widths[c] = column_width(table, c);
	if (terminal)
		fputs("\033[1m", out);
	for (size_t c = 0; c < count; c++)
		print_cell(&table->columns[c], widths[c], c + 1 == count, table->columns[c].head,
			   out);
	if (terminal)
		fputs("\033[0m", out);
	for (size_t i = 0; i < table->cell_count; i++) {
		size_t c = i % count;
		print_cell(&table->columns[c], widths[c], c + 1 == count, table->cells[i], out);
	}
}
