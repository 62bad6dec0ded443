/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, percentages and durations as people write them. Pure; thread-safe; no locale.
 */
#ifndef BERTH_BASE_SIZE_H
#define BERTH_BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"

/* "512M", "8G", "8GiB", "4GB", "4Gi", "0.5G", "08G" (decimal), plain bytes ("17", "17B"). K M G T and P
 * are powers of 1024 whatever stands behind them (i, B, iB), upper or lower case; blanks around are
 * allowed, also between figure and unit. A fraction is exact to the byte or rounded down. Refused:
 * empty, a sign, %, other words, more than one point, "1e", a fraction of plain bytes: -EINVAL; above
 * 2^63-1, or not zero but less than a byte: -ERANGE. Zero is accepted: the caller says what 0 means. */
BERTH_MUST_CHECK int berth_size_parse(const char *text, uint64_t *ret_bytes);

/* "30" or "30%": 1..100, else -EINVAL or -ERANGE. */
BERTH_MUST_CHECK int berth_percent_parse(const char *text, uint32_t *ret_pct);

/* "30s", "500ms", "50us", "2m", "1h", plain seconds, fractions: nanoseconds. Blanks and ranges as for
 * sizes. */
BERTH_MUST_CHECK int berth_duration_parse(const char *text, uint64_t *ret_ns);

/* What would have been right, for messages: "a size such as 512M, 8G, 8GiB, 0.5G or plain bytes". */
extern const char berth_size_hint[];
extern const char berth_percent_hint[];
extern const char berth_duration_hint[];

#define BERTH_SIZE_TEXT_MAX 16
/* "1.5 GiB", "600 MiB", "17 B": three significant figures at most, rounded, for people. buf holds
 * BERTH_SIZE_TEXT_MAX bytes and is returned. */
const char *berth_size_format(uint64_t bytes, char *buf);

#endif
