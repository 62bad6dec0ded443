/* SPDX-License-Identifier: Apache-2.0
 *
 * Run set-user-ID by test_state_dir: prints whether the kernel calls it secure, which state directory
 * it would use, and logs a line.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/process.h"
#include "base/state_dir.h"

int main(void)
{
	struct berth_reason reason = { "" };
	char path[BERTH_STATE_DIR_MAX];

	if (berth_state_dir(path, sizeof(path), &reason) < 0)
		return 1;
	printf("secure=%d dir=%s\n", berth_process_is_secure(), path);
	berth_error("a line");
	return 0;
}
