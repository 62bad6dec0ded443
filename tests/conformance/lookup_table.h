/* SPDX-License-Identifier: Apache-2.0
 *
 * The two tables of the look-up client, read from tests/data. A file that can't be read, or a
 * line that isn't a row, ends the program with status 2: half a table would prove nothing.
 */
#ifndef BERTH_TESTS_CONFORMANCE_LOOKUP_TABLE_H
#define BERTH_TESTS_CONFORMANCE_LOOKUP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOKUP_NAME_MAX 96

/* From since on, base means symbol; in the per-thread forms under the flag for them. */
struct lookup_symbol {
	char symbol[LOOKUP_NAME_MAX];
	char base[LOOKUP_NAME_MAX];
	int since;
	bool per_thread;
};

/* One question that a runtime asks. */
struct lookup_request {
	char base[LOOKUP_NAME_MAX];
	int version;
	uint64_t flags;
};

struct lookup_table {
	struct lookup_symbol symbols[1024];
	size_t symbols_count;
	struct lookup_request requests[1024];
	size_t requests_count;
};

extern struct lookup_table lookup_table;

void lookup_table_read_symbols(const char *path);
void lookup_table_read_requests(const char *path);

#endif
