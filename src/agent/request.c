/* SPDX-License-Identifier: Apache-2.0
 *
 * See request.h.
 */
#include "agent/request.h"

#include <string.h>

/* The same in every version: a client with another one is told so, anything else isn't answered. */
#define MAGIC_BYTES 4

static enum berth_request_verdict take(struct berth_request *request, uint8_t byte)
{
	uint8_t expected[BERTH_PID_BROKER_REQUEST_BYTES];

	if (request->count == sizeof(request->bytes))
		return BERTH_REQUEST_WRONG;
	berth_pid_broker_request_encode(expected);
	if (request->count < MAGIC_BYTES && byte != expected[request->count])
		return BERTH_REQUEST_WRONG;
	request->bytes[request->count++] = byte;
	if (request->count < sizeof(request->bytes))
		return BERTH_REQUEST_MORE;
	return memcmp(request->bytes, expected, sizeof(expected)) == 0 ? BERTH_REQUEST_PID
								       : BERTH_REQUEST_UNSUPPORTED;
}

enum berth_request_verdict berth_request_feed(struct berth_request *request, const uint8_t *bytes,
					      size_t count)
{
	for (size_t i = 0; i < count && request->verdict != BERTH_REQUEST_WRONG; i++)
		request->verdict = take(request, bytes[i]);
	return request->verdict;
}
