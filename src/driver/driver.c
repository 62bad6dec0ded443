/* SPDX-License-Identifier: Apache-2.0
 *
 * libcuda as a library of symbols.def.
 */
#include "driver/driver.h"

#include <assert.h>
#include <stddef.h>

#include "driver/loader.h"

static const char *const names[] = {
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) #symbol,
#include "driver/symbols.def"
};

static_assert(offsetof(struct berth_driver, object) == sizeof(names),
	      "a pointer for each name, and nothing else, stands before the object");

static struct berth_library library = {
	.soname = BERTH_DRIVER_SONAME,
	.names = names,
	.name_count = BERTH_ARRAY_LEN(names),
	.object_offset = offsetof(struct berth_driver, object),
	.size = sizeof(struct berth_driver),
};

const struct berth_driver *berth_driver_loaded(void)
{
	return berth_library_loaded(&library);
}

const struct berth_driver *berth_driver(void)
{
	static const struct berth_driver none;
	const struct berth_driver *driver = berth_library_published(&library);

	if (driver == NULL)
		driver = berth_library_get(&library);
	return driver != NULL ? driver : &none;
}

int berth_driver_open(const char *path, struct berth_reason *reason)
{
	return berth_library_open(&library, path, reason);
}

bool berth_driver_contains(const void *address)
{
	return berth_library_contains(&library, address);
}
