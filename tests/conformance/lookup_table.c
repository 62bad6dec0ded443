/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the tables of the look-up client: tab-separated, # begins a comment line, "-" is the
 * empty string.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lookup_table.h"

struct lookup_table lookup_table;

static void read_lines(const char *path, bool (*take)(const char *line))
{
	char line[512];
	FILE *file = fopen(path, "re");

	if (!file) {
		perror(path);
		exit(2);
	}
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (!take(line)) {
			fprintf(stderr, "%s: not a row: %s", path, line);
			exit(2);
		}
	}
	fclose(file);
}

static bool take_symbol(const char *line)
{
	struct lookup_symbol *row = &lookup_table.symbols[lookup_table.symbols_count];
	char form[8];

	if (lookup_table.symbols_count ==
		    sizeof(lookup_table.symbols) / sizeof(lookup_table.symbols[0]) ||
	    sscanf(line, "%95s %95s %d %7s", row->symbol, row->base, &row->since, form) != 4)
		return false;
	row->per_thread = strcmp(form, "plain") != 0;
	lookup_table.symbols_count++;
	return true;
}

static bool take_request(const char *line)
{
	struct lookup_request *row = &lookup_table.requests[lookup_table.requests_count];

	if (lookup_table.requests_count ==
		    sizeof(lookup_table.requests) / sizeof(lookup_table.requests[0]) ||
	    sscanf(line, "%95s %d %" SCNu64, row->base, &row->version, &row->flags) != 3)
		return false;
	if (strcmp(row->base, "-") == 0)
		row->base[0] = '\0';
	lookup_table.requests_count++;
	return true;
}

void lookup_table_read_symbols(const char *path)
{
	read_lines(path, take_symbol);
}

void lookup_table_read_requests(const char *path)
{
	read_lines(path, take_request);
}
