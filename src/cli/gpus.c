/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gpus.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "driver/elf.h"
#include "driver/nvml.h"

bool berth_gpus_real_driver(const char *simulator)
{
	char path[BERTH_ELF_PATH_MAX], found[PATH_MAX], simulated[PATH_MAX];
	struct berth_elf elf;

	if (berth_driver_open(BERTH_DRIVER_SONAME, NULL) < 0)
		return false;
	if (berth_elf_find_soname(BERTH_DRIVER_SONAME, &elf, path) < 0 || !realpath(path, found))
		return true; /* it is loaded, wherever from */
	(void)snprintf(path, sizeof path, "%s/%s", simulator, BERTH_DRIVER_SONAME);
	return !realpath(path, simulated) || strcmp(found, simulated) != 0;
}

int berth_gpus_read(const char *directory, struct berth_gpus *ret_gpus, struct berth_reason *reason)
{
	char path[PATH_MAX];
	int r = 0;

	if (directory) {
		(void)snprintf(path, sizeof path, "%s/%s", directory, BERTH_NVML_SONAME);
		r = berth_nvml_open(path, reason);
		(void)snprintf(path, sizeof path, "%s/%s", directory, BERTH_DRIVER_SONAME);
		if (r == 0)
			r = berth_driver_open(path, reason);
	}
	if (r < 0)
		return r;
	return berth_gpu_list(ret_gpus->list, BERTH_GPU_MAX, &ret_gpus->count, reason);
}

static bool is_wanted(const struct berth_gpu *gpu, const char *wanted)
{
	char *end;
	unsigned long index = strtoul(wanted, &end, 10);

	if (*wanted >= '0' && *wanted <= '9' && *end == '\0')
		return index == gpu->index;
	return strlen(wanted) > 4 && strncmp(gpu->uuid, wanted, strlen(wanted)) == 0;
}

static void names_of(const struct berth_gpus *gpus, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (uint32_t i = 0; i < gpus->count && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%u (%s)", i ? ", " : "",
				      gpus->list[i].index, gpus->list[i].uuid);
}

int berth_gpus_select(struct berth_gpus *gpus, const char *wanted, struct berth_reason *reason)
{
	char names[BERTH_REASON_MAX / 2];
	uint32_t found = 0, count = 0;

	for (uint32_t i = 0; i < gpus->count; i++) {
		if (!is_wanted(&gpus->list[i], wanted))
			continue;
		found = i;
		count++;
	}
	if (count != 1) {
		names_of(gpus, names, sizeof names);
		return berth_reason_set(
			reason, -ENODEV, "--gpu %s: %s; there are %s", wanted,
			count ? "more than one GPU begins so" : "there is no such GPU", names);
	}
	gpus->list[0] = gpus->list[found];
	gpus->count = 1;
	return 0;
}
