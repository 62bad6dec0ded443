/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of the program may be cancelled (pthread_cancel), and open, close, write and the like are
 * where that happens. The driver's calls are no such places, so ours must not make them so: a
 * thread that ended in the middle would leave a mutex locked for ever.
 *
 *	BERTH_UNCANCELLED;	until the end of the block, a cancellation waits
 */
#ifndef BERTH_BASE_CANCEL_H
#define BERTH_BASE_CANCEL_H

#include <pthread.h>

#include "base/attributes.h"

static inline int berth_cancel_hold(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
				     &before); /* fails for bad states only */
	return before;
}

static inline void berth_cancel_restore(const int *before)
{
	(void)pthread_setcancelstate(*before, NULL); /* as above */
}

#define BERTH_UNCANCELLED                   \
	BERTH_CLEANUP(berth_cancel_restore) \
	BERTH_UNUSED const int cancel_before_ = berth_cancel_hold()

#endif
