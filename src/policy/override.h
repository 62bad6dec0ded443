/* SPDX-License-Identifier: Apache-2.0
 *
 * A container's override file: lines NAME=VALUE with the variables of policy/config.h, which HAMi's
 * device plugin mounts at /overrideEnv for processes that come without the container's environment
 * (ssh, su, cron). Pure: the text comes from the caller (account/settings.h reads it).
 *
 * What counts. A variable that stands in the file wins over the environment's; the others come from
 * the environment, and what they say under another name (by UUID instead of by index) can only lower
 * what the file gives. A zero says nothing, here as there, so the environment's holds. If the file
 * names the region or the share, all programs here are in that one and in no other. A share's name is
 * looked up in the state directory of each program's user and environment, so only a region's path
 * (CUDA_DEVICE_MEMORY_SHARED_CACHE) makes one share of all of them.
 *
 * What is understood. Blank lines and lines that begin with # are skipped, as are other variables,
 * whatever their values; blanks around name and value, CR LF, a leading "export" and a pair of quotes
 * around the value are taken off. A variable may come twice with the same value only.
 *
 * What is refused, with file and line, because a limit could hide in it: a line that isn't NAME=VALUE,
 * a name that begins like a limit's and isn't one, control characters, a quote without its partner,
 * two values for a variable, a value that the configuration refuses. A half-written file: the last
 * line must end with a newline. Accepting a cut one would be wrong even for sizes ("0.5G" cut to "0" is
 * none) and for the region's path (another region: its programs and the rest could hold the limit
 * twice). A cut between two lines can't be seen, so a file by which, together with the environment,
 * no memory limit was said at all is refused too, the empty file that is being written anew among them.
 */
#ifndef BERTH_POLICY_OVERRIDE_H
#define BERTH_POLICY_OVERRIDE_H

#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/reason.h"

/* Longest file that is read. HAMi's has a line or two for each GPU. */
#define BERTH_OVERRIDE_TEXT_MAX 65536
/* More than there are variables in policy/config.h. */
#define BERTH_OVERRIDE_ENTRY_MAX 96

struct berth_override {
	const char *path; /* for messages */
	uint32_t count;
	struct berth_override_entry {
		const char *name; /* these two in the text that was parsed */
		const char *value;
		uint32_t line;
	} entries[BERTH_OVERRIDE_ENTRY_MAX];
};

/* text has size bytes, is changed, and must outlive the result, as must path. 0, or -EINVAL/-E2BIG
 * with a reason that names the file and line. */
BERTH_MUST_CHECK int berth_override_parse(const char *path, char *text, size_t size,
					  struct berth_override *ret_override,
					  struct berth_reason *reason);

/* NULL if it isn't there; override may be NULL. */
const struct berth_override_entry *berth_override_find(const struct berth_override *override,
						       const char *name);

#endif
