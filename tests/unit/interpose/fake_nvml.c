/* SPDX-License-Identifier: Apache-2.0
 *
 * A libnvidia-ml for the look-up tests: the names of symbols.def, each doing nothing.
 */
#define NVML_SYMBOL(symbol, kind)                                \
	__attribute__((visibility("default"))) int symbol(void); \
	int symbol(void)                                         \
	{                                                        \
		return 3;                                        \
	}
#include "driver/symbols.def"
