/* SPDX-License-Identifier: Apache-2.0
 *
 * Why something was refused, in words.
 */
#include "base/reason.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int berth_reason_set(struct berth_reason *reason, int err, const char *fmt, ...)
{
	int saved_errno = errno;
	va_list args;

	if (reason == NULL || reason->text[0] != '\0')
		return err;
	va_start(args, fmt);
	if (vsnprintf(reason->text, sizeof(reason->text), fmt, args) < 0)
		reason->text[0] = '\0';
	va_end(args);
	errno = saved_errno;
	return err;
}
