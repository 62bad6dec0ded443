/* SPDX-License-Identifier: Apache-2.0
 *
 * /proc/PID/stat: any bytes as the whole text, and any bytes as a process's name, which must come back
 * as they are and change nothing else.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/process.h"

static void text_check(const char *text)
{
	struct berth_process_stat stat;
	int err;

	memset(&stat, 0x5a, sizeof(stat));
	err = berth_process_stat_parse(text, &stat);
	if (err < 0) {
		FUZZ_CHECK(err == -EBADMSG && stat.state == 0x5a);
		return;
	}
	FUZZ_CHECK(memchr(stat.comm, '\0', sizeof(stat.comm)) != NULL);
	FUZZ_CHECK(stat.state != '\0' && stat.state != ' ' && stat.ppid >= 0);
}

static void name_check(const char *name)
{
	struct berth_process_stat stat;
	char text[4096];

	snprintf(text, sizeof(text),
		 "42 (%s) S 7 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 19\n", name);
	if (strlen(name) >= sizeof(stat.comm)) {
		FUZZ_CHECK(berth_process_stat_parse(text, &stat) == -EBADMSG);
		return;
	}
	FUZZ_CHECK(berth_process_stat_parse(text, &stat) == 0);
	FUZZ_CHECK(strcmp(stat.comm, name) == 0);
	FUZZ_CHECK(stat.state == 'S' && stat.ppid == 7 && stat.start_ticks == 987654);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[2048];

	if (size >= sizeof(text))
		size = sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	text_check(text);
	name_check(text);
	/* Short enough to be a name: the kernel's are 15 bytes. */
	text[size < 15 ? size : 15] = '\0';
	name_check(text);
	return 0;
}
