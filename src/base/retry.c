/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded retry.
 */
#include "base/retry.h"

#include <stddef.h>

#include "base/clock.h"

#define FIRST_DELAY_NS (50 * BERTH_NS_PER_MS)

static void retry_sleep(const struct berth_retry *retry, uint64_t delay_ns)
{
	if (retry->sleep != NULL)
		retry->sleep(delay_ns, retry->arg);
	else
		berth_sleep_ns(delay_ns, UINT64_MAX);
}

int berth_retry_run(const struct berth_retry *retry)
{
	uint64_t delay_ns = retry->first_delay_ns != 0 ? retry->first_delay_ns : FIRST_DELAY_NS;
	uint64_t max_ns = retry->max_delay_ns > delay_ns ? retry->max_delay_ns : delay_ns;
	int earlier = 0;

	for (;;) {
		int err = retry->call(retry->arg);

		if (err == 0)
			return 0;
		if (retry->stop == NULL || retry->stop(retry->arg))
			return earlier != 0 ? earlier : err;
		earlier = err;
		retry_sleep(retry, delay_ns);
		delay_ns = delay_ns > max_ns / 2 ? max_ns : delay_ns * 2;
	}
}
