/* SPDX-License-Identifier: Apache-2.0
 *
 * Is any stream of this process being captured into a graph? Then the hooks make no call of their
 * own that could spoil the capture.
 */
#ifndef BERTH_INTERPOSE_CAPTURE_H
#define BERTH_INTERPOSE_CAPTURE_H

#include <stdbool.h>

bool berth_capture_running(void);

/* In a fork child. */
void berth_capture_forget(void);

#endif
