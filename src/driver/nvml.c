/* SPDX-License-Identifier: Apache-2.0
 *
 * libnvidia-ml as a library of symbols.def.
 */
#include "driver/nvml.h"

#include <assert.h>
#include <stddef.h>

#include "driver/loader.h"
#include "driver/walk.h"

static const char *const names[] = {
#define NVML_SYMBOL(symbol, kind) #symbol,
#include "driver/symbols.def"
};

static_assert(offsetof(struct berth_nvml, object) == sizeof(names),
	      "a pointer for each name, and nothing else, stands before the object");

static struct berth_library library = {
	.soname = BERTH_NVML_SONAME,
	.names = names,
	.name_count = BERTH_ARRAY_LEN(names),
	.object_offset = offsetof(struct berth_nvml, object),
	.size = sizeof(struct berth_nvml),
};

const struct berth_nvml *berth_nvml_loaded(void)
{
	return berth_library_loaded(&library);
}

const struct berth_nvml *berth_nvml(void)
{
	static const struct berth_nvml none;
	const struct berth_nvml *nvml = berth_library_published(&library);

	if (nvml == NULL)
		nvml = berth_library_get(&library);
	return nvml != NULL ? nvml : &none;
}

int berth_nvml_open(const char *path, struct berth_reason *reason)
{
	return berth_library_open(&library, path, reason);
}

bool berth_nvml_contains(const void *address)
{
	return berth_library_contains(&library, address);
}

nvmlReturn_t berth_nvml_start(void)
{
	const struct berth_nvml *nvml = berth_nvml();
	nvmlReturn_t result = NVML_ERROR_FUNCTION_NOT_FOUND;

	if (nvml->nvmlInit_v2 == NULL || nvml->nvmlShutdown == NULL)
		return result;
	result = nvml->nvmlInit_v2();
	if (result == NVML_SUCCESS)
		berth_walk_before_others();
	return result;
}

void berth_nvml_stop(void)
{
	(void)berth_nvml()->nvmlShutdown(); /* takes our start back; nothing depends on it */
}
