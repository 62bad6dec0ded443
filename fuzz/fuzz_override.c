/* SPDX-License-Identifier: Apache-2.0
 *
 * The override file: a first line "NAME=VALUE" is the environment, the rest is the file. Whatever it is:
 * a variable that was taken stands there, one that stands there unmistakably was taken, and if the
 * whole is accepted a limit was said.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "policy/config.h"
#include "policy/override.h"

static const char path[] = "/overrideEnv";
static const char limit_line[] = "\nCUDA_DEVICE_MEMORY_LIMIT=1G\n";

struct variable {
	char *name;
	char *value;
};

static const char *get(void *arg, const char *name)
{
	const struct variable *variable = arg;

	return variable->name && strcmp(variable->name, name) == 0 ? variable->value : NULL;
}

/* The first line, in place; text goes on behind it. */
static struct variable variable_take(char **text, size_t *size)
{
	char *end = memchr(*text, '\n', *size);
	struct variable variable = { NULL, NULL };

	if (end == NULL)
		return variable;
	*end = '\0';
	variable.name = *text;
	variable.value = strchr(*text, '=');
	if (variable.value != NULL)
		*variable.value++ = '\0';
	else
		variable.name = NULL;
	*size -= (size_t)(end + 1 - *text);
	*text = end + 1;
	return variable;
}

static void entries_check(const struct berth_override *file, const char *text, size_t size)
{
	for (uint32_t i = 0; i < file->count; i++) {
		const struct berth_override_entry *entry = &file->entries[i];

		FUZZ_CHECK(berth_config_word(entry->name) == BERTH_CONFIG_VARIABLE);
		FUZZ_CHECK(berth_override_find(file, entry->name) == entry);
		FUZZ_CHECK(memmem(text, size, entry->name, strlen(entry->name)) != NULL);
		FUZZ_CHECK(memmem(text, size, entry->value, strlen(entry->value)) != NULL);
	}
}

static void config_check(struct variable *variable, const struct berth_override *file)
{
	static const char *const uuids[] = { "GPU-a" };
	struct berth_reason reason = { "" };
	struct berth_config config;
	struct berth_config_limit limit;
	const struct berth_override_entry *general = berth_override_find(file, BERTH_CONFIG_MEMORY);
	uint64_t file_bytes = 0;

	if (berth_config_parse(get, variable, file, &config, &reason) < 0) {
		FUZZ_CHECK(reason.text[0] != '\0');
		return;
	}
	FUZZ_CHECK(config.active);
	FUZZ_CHECK((general == NULL) || config.limits.general.memory_set);
	if (berth_config_resolve(&config, uuids, 1, &limit, NULL) < 0)
		return;
	file_bytes = config.file_limits.general.memory_limit_bytes;
	FUZZ_CHECK(file_bytes == 0 || limit.memory_limit_bytes != 0);
	file_bytes = config.file_limits.by_index[0].memory_limit_bytes;
	FUZZ_CHECK(file_bytes == 0 || config.file_limits.by_uuid_count != 0 ||
		   (limit.memory_limit_bytes != 0 && limit.memory_limit_bytes <= file_bytes));
}

/* A plain line with a limit, behind anything that was accepted: it counts, or there were two values. */
static void limit_never_lost(const char *text, size_t size)
{
	static char longer[FUZZ_INPUT_MAX + sizeof(limit_line)];
	struct berth_reason reason = { "" };
	struct berth_override file;

	memcpy(longer, text, size);
	memcpy(longer + size, limit_line, sizeof(limit_line) - 1);
	if (berth_override_parse(path, longer, size + sizeof(limit_line) - 1, &file, &reason) < 0)
		FUZZ_CHECK(strstr(reason.text, "has another value") != NULL);
	else
		FUZZ_CHECK(berth_override_find(&file, BERTH_CONFIG_MEMORY) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char input[FUZZ_INPUT_MAX + 1];
	static char kept[FUZZ_INPUT_MAX];
	struct berth_reason reason = { "" };
	struct berth_override file;
	struct variable variable;
	char *text = input;

	if (size > FUZZ_INPUT_MAX)
		size = FUZZ_INPUT_MAX;
	memcpy(input, data, size);
	input[size] = '\0';
	variable = variable_take(&text, &size);
	memcpy(kept, text, size);
	if (berth_override_parse(path, text, size, &file, &reason) == 0) {
		FUZZ_CHECK(reason.text[0] == '\0');
		FUZZ_CHECK(size == 0 || kept[size - 1] == '\n');
		entries_check(&file, kept, size);
		config_check(&variable, &file);
		limit_never_lost(kept, size);
		return 0;
	}
	FUZZ_CHECK(strncmp(reason.text, "/overrideEnv, line ", 19) == 0);
	for (const char *c = reason.text; *c != '\0'; c++)
		FUZZ_CHECK((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f);
	return 0;
}
