/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host-pid broker may answer: only one whole, well-formed "ok" with a pid is taken, and it is the pid
 * that stands there; anything else leaves the output alone and says why.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/pid_broker.h"

#define UNTOUCHED (-77)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t head[] = { 'H', 'P', 'I', 'D', 0, 1, 0, 0 };
	struct berth_reason reason = { "" };
	pid_t pid = UNTOUCHED;
	uint8_t again[BERTH_PID_BROKER_REPLY_BYTES];
	int err = berth_pid_broker_reply_decode(data, size, "broker", &pid, &reason);

	if (err == 0) {
		FUZZ_CHECK(size == sizeof(again) && memcmp(data, head, sizeof(head)) == 0);
		FUZZ_CHECK(pid > 0 && reason.text[0] == '\0');
		berth_pid_broker_reply_encode(BERTH_PID_BROKER_OK, pid, again);
		FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
		return 0;
	}
	FUZZ_CHECK(err == -EPROTO && pid == UNTOUCHED);
	FUZZ_CHECK(strncmp(reason.text, "broker: ", 8) == 0);
	for (const char *c = reason.text; *c != '\0'; c++)
		FUZZ_CHECK((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f);
	/* Nothing that should have been taken was not. */
	FUZZ_CHECK(size != sizeof(again) || memcmp(data, head, sizeof(head)) != 0 ||
		   (data[8] & 0x80) != 0 || memcmp(data + 8, "\0\0\0", 4) == 0);
	return 0;
}
