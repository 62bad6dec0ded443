/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nvml/quirk.h"

#include <stdlib.h>
#include <string.h>

#include "sim/config.h"

static const struct {
	const char *word;
	enum sim_nvml_quirk quirk;
} words_[] = {
	{ "no-memory", SIM_QUIRK_NO_MEMORY },
	{ "no-utilization", SIM_QUIRK_NO_UTILIZATION },
	{ "over-100", SIM_QUIRK_OVER_100 },
	{ "no-processes", SIM_QUIRK_NO_PROCESSES },
	{ "empty-processes", SIM_QUIRK_EMPTY_PROCESSES },
	{ "own-pid", SIM_QUIRK_OWN_PID },
	{ "na-process-memory", SIM_QUIRK_NA_PROCESS_MEMORY },
	{ "stale-memory", SIM_QUIRK_STALE_MEMORY },
};

#define LIST_LAG_MAX_MS 60000U

/* NVML is initialised and shut down by several threads */
static _Atomic unsigned int quirks_;
static _Atomic uint64_t list_lag_ns_;

static unsigned int quirk_of(const char *word, size_t length)
{
	for (size_t i = 0; i < sizeof(words_) / sizeof(words_[0]); i++) {
		if (strlen(words_[i].word) == length && strncmp(words_[i].word, word, length) == 0)
			return words_[i].quirk;
	}
	return 0;
}

static bool list_lag_read(void)
{
	const char *text = getenv("BERTH_SIM_NVML_LIST_LAG_MS");
	unsigned long ms = 0;
	char *end = NULL;

	if (text && *text)
		ms = strtoul(text, &end, 10);
	if (ms > LIST_LAG_MAX_MS || (end && (*end || text[0] < '0' || text[0] > '9'))) {
		sim_complain("BERTH_SIM_NVML_LIST_LAG_MS=%s: want milliseconds, at most %u", text,
			     LIST_LAG_MAX_MS);
		return false;
	}
	list_lag_ns_ = (uint64_t)ms * 1000000;
	return true;
}

bool sim_nvml_quirks_read(void)
{
	const char *word = getenv("BERTH_SIM_NVML_QUIRKS");
	unsigned int quirks = 0;

	while (word && *word) {
		size_t length = strcspn(word, ",");
		unsigned int quirk = quirk_of(word, length);

		if (!quirk) {
			sim_complain("BERTH_SIM_NVML_QUIRKS: unknown: %.*s", (int)length, word);
			return false;
		}
		quirks |= quirk;
		word += length;
		word += *word == ',';
	}
	quirks_ = quirks;
	return list_lag_read();
}

bool sim_nvml_has_quirk(enum sim_nvml_quirk quirk)
{
	return quirks_ & quirk;
}

uint64_t sim_nvml_list_lag_ns(void)
{
	return list_lag_ns_;
}
