/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client says, as far as it has said it. Pure: bytes in, verdict out, however they are cut into
 * pieces. The format stands in base/pid_broker.h.
 */
#ifndef BERTH_AGENT_REQUEST_H
#define BERTH_AGENT_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/pid_broker.h"

enum berth_request_verdict {
	BERTH_REQUEST_MORE = 0,    /* right so far */
	BERTH_REQUEST_PID,         /* whole: wants its pid */
	BERTH_REQUEST_UNSUPPORTED, /* whole, in another version or with another command */
	BERTH_REQUEST_WRONG,       /* no request: from the first wrong byte, or one too many, on */
};

/* All zero: nothing was said. */
struct berth_request {
	uint8_t bytes[BERTH_PID_BROKER_REQUEST_BYTES];
	uint8_t count;
	enum berth_request_verdict verdict;
};

BERTH_MUST_CHECK enum berth_request_verdict berth_request_feed(struct berth_request *request,
							       const uint8_t *bytes, size_t count);

#endif
