/* SPDX-License-Identifier: Apache-2.0
 *
 * Conventions every room shares.
 *
 * Errors: 0 or a negative errno, never a bare -1. Outputs come last, are named ret_x, and are
 * written only on success. Results must be used; where one can't matter, (void) and the reason.
 * Cleanup: a variable that owns something carries a cleanup attribute and is initialised on its
 * line; ownership is handed on with BERTH_TAKE_* in the last statement.
 */
#ifndef BERTH_BASE_ATTRIBUTES_H
#define BERTH_BASE_ATTRIBUTES_H

#define BERTH_MUST_CHECK        __attribute__((warn_unused_result))
#define BERTH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define BERTH_CLEANUP(f)        __attribute__((cleanup(f)))
#define BERTH_EXPORT            __attribute__((visibility("default")))
#define BERTH_UNUSED            __attribute__((unused))

#define BERTH_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Hand a pointer on: the variable forgets it, so its cleanup does nothing. */
#define BERTH_TAKE_PTR(p)                 \
	({                                \
		__auto_type taken_ = (p); \
		(p) = NULL;               \
		taken_;                   \
	})

#endif
