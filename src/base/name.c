/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that become file names.
 */
#include "base/name.h"

#include <string.h>

const char berth_name_hint[] = "1 to 63 letters, figures and . _ - @ +, not starting with a dot";

bool berth_name_valid(const char *name)
{
	static const char allowed[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ._-@+";
	size_t length = strlen(name);

	return length > 0 && length < BERTH_NAME_MAX && name[0] != '.' &&
	       strspn(name, allowed) == length;
}
