/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment: lines of "NUMBER VALUE", the number being that of a variable below. Whatever the
 * values are: a limit that is set is either in force or the whole is refused by name.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "policy/config.h"

#define GPU_COUNT 2

static const char *const names[] = {
	"CUDA_DEVICE_MEMORY_LIMIT",
	"CUDA_DEVICE_MEMORY_LIMIT_0",
	"CUDA_DEVICE_MEMORY_LIMIT_1",
	"CUDA_DEVICE_SM_LIMIT",
	"CUDA_DEVICE_SM_LIMIT_1",
	"BERTH_MEMORY_LIMITS",
	"BERTH_SM_LIMITS",
	"BERTH_SHARE",
	"BERTH_REGION",
	"CUDA_TASK_PRIORITY",
	"CUDA_DEVICE_MEMORY_SHARED_CACHE",
	"BERTH_LIMITS_STAMP",
};

#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

struct environment {
	const char *values[NAME_COUNT];
};

static const char *get(void *arg, const char *name)
{
	const struct environment *environment = arg;

	for (size_t i = 0; i < NAME_COUNT; i++) {
		if (strcmp(names[i], name) == 0)
			return environment->values[i];
	}
	return NULL;
}

/* Cuts text into lines, in place. */
static void environment_split(char *text, struct environment *environment)
{
	while (text != NULL) {
		char *line = strsep(&text, "\n");
		unsigned index = 0;
		int used = 0;

		if (sscanf(line, "%2u %n", &index, &used) == 1 && index < NAME_COUNT)
			environment->values[index] = line + used;
	}
}

static bool reason_names_a_variable(const char *text)
{
	for (size_t i = 0; i < NAME_COUNT; i++) {
		size_t length = strlen(names[i]);

		if (strncmp(text, names[i], length) == 0 && text[length] == '=')
			return true;
	}
	return false;
}

static void limit_check(const struct berth_config_limit *limit)
{
	FUZZ_CHECK(limit->memory_limit_bytes <= INT64_MAX && limit->compute_limit_pct < 100);
	FUZZ_CHECK(limit->memory_set || limit->memory_limit_bytes == 0);
	FUZZ_CHECK(limit->compute_set || limit->compute_limit_pct == 0);
}

static void config_check(const struct berth_config *config, const struct environment *environment)
{
	static const char *const uuids[GPU_COUNT] = { "GPU-a", "GPU-b" };
	struct berth_config_limit limits[GPU_COUNT];

	FUZZ_CHECK(config->active || config->region_path[0] == '\0');
	FUZZ_CHECK(config->region_path[0] == '\0' || config->region_path[0] == '/');
	FUZZ_CHECK(!config->join_only || config->region_path[0] == '/');
	FUZZ_CHECK(berth_name_valid(config->share_name));
	FUZZ_CHECK(config->priority >= 0);
	FUZZ_CHECK(config->limits.by_uuid_count <= BERTH_CONFIG_GPU_MAX);
	FUZZ_CHECK(config->limits.general.memory_set == (environment->values[0] != NULL));
	FUZZ_CHECK(config->limits.by_index[0].memory_set == (environment->values[1] != NULL));
	FUZZ_CHECK(config->limits.by_index[1].compute_set == (environment->values[4] != NULL));
	if (berth_config_resolve(config, uuids, GPU_COUNT, limits, NULL) < 0)
		return;
	for (int i = 0; i < GPU_COUNT; i++) {
		limit_check(&limits[i]);
		/* A general limit is never lost. */
		FUZZ_CHECK(config->limits.general.memory_limit_bytes == 0 ||
			   limits[i].memory_limit_bytes != 0);
		FUZZ_CHECK(config->limits.general.compute_limit_pct == 0 ||
			   limits[i].compute_limit_pct != 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct environment environment = { 0 };
	struct berth_reason reason = { "" };
	struct berth_config config;
	char text[FUZZ_INPUT_MAX + 1];

	if (size >= sizeof(text))
		size = sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	environment_split(text, &environment);
	if (berth_config_parse(get, &environment, NULL, &config, &reason) == 0) {
		FUZZ_CHECK(reason.text[0] == '\0');
		config_check(&config, &environment);
		return 0;
	}
	FUZZ_CHECK(reason_names_a_variable(reason.text));
	for (const char *c = reason.text; *c != '\0'; c++)
		FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
	return 0;
}
