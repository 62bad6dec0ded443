/* SPDX-License-Identifier: Apache-2.0
 *
 * The override file: what counts beside the environment, what is understood, and that whatever can't
 * be understood is refused with file and line instead of becoming "no limit".
 */
#include "policy/override.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/config.h"

#define GI   (1ULL << 30)
#define MI   (1ULL << 20)
#define UUID "GPU-00000000-0000-0000-0000-00000000000a"

static const char path[] = "/overrideEnv";

/* An environment: name, value, name, value, NULL. */
static const char *get(void *arg, const char *name)
{
	const char *const *env = arg;

	for (; *env != NULL; env += 2) {
		if (strcmp(env[0], name) == 0)
			return env[1];
	}
	return NULL;
}

#define ENV(...) ((void *)(uintptr_t)(const char *const[]){ __VA_ARGS__, NULL })
#define NONE     ((void *)(uintptr_t)(const char *const[]){ NULL })

/* The text is kept until the next one. */
static int read_file(const char *text, size_t size, void *env, struct berth_config *ret_config,
		     struct berth_reason *reason)
{
	static char *copy;
	struct berth_override file;
	int err;

	free(copy);
	copy = malloc(size + 1);
	assert_non_null(copy);
	memcpy(copy, text, size);
	copy[size] = 'X'; /* nobody reads on */
	err = berth_override_parse(path, copy, size, &file, reason);
	return err ? err : berth_config_parse(get, env, &file, ret_config, reason);
}

static struct berth_config both(const char *text, void *env)
{
	struct berth_config config;
	struct berth_reason reason = { "" };

	if (read_file(text, strlen(text), env, &config, &reason) != 0)
		fail_msg("refused: %s", reason.text);
	assert_string_equal(reason.text, "");
	return config;
}

static void refused_bytes(const char *text, size_t size, void *env, const char *word)
{
	struct berth_config config;
	struct berth_reason reason = { "" };

	if (read_file(text, size, env, &config, &reason) == 0)
		fail_msg("accepted: %s", text);
	if (strncmp(reason.text, path, strlen(path)) != 0 || strstr(reason.text, word) == NULL)
		fail_msg("\"%s\": %s", text, reason.text);
}

static void refused(const char *text, void *env, const char *word)
{
	refused_bytes(text, strlen(text), env, word);
}

static uint64_t memory(const char *text, void *env)
{
	static const char *const uuids[] = { UUID };
	struct berth_config config = both(text, env);
	struct berth_config_limit limit;

	assert_int_equal(berth_config_resolve(&config, uuids, 1, &limit, NULL), 0);
	return limit.memory_limit_bytes;
}

static void test_file_alone(void **state)
{
	struct berth_config config = both("CUDA_DEVICE_MEMORY_LIMIT_0=2048m\n"
					  "CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/vgpu/x.cache\n"
					  "CUDA_DEVICE_SM_LIMIT=50\n"
					  "CUDA_TASK_PRIORITY=0\n"
					  "GPU_CORE_UTILIZATION_POLICY=force\n"
					  "CUDA_OVERSUBSCRIBE=true\n"
					  "LIBVGPU_HOSTPID_BROKER=1\n",
					  NONE);

	(void)state;
	assert_true(config.active && !config.join_only);
	assert_true(config.limits.by_index[0].memory_limit_bytes == 2048 * MI);
	assert_int_equal(config.limits.general.compute_limit_pct, 50);
	assert_int_equal(config.priority, 0);
	assert_string_equal(config.region_path, "/tmp/vgpu/x.cache");
}

static void test_file_wins(void **state)
{
	struct berth_config config;

	(void)state;
	config = both("CUDA_DEVICE_MEMORY_LIMIT_0=2048m\n"
		      "CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/file.cache\n",
		      ENV("CUDA_DEVICE_MEMORY_LIMIT_0", "512m", "CUDA_DEVICE_SM_LIMIT", "30",
			  "CUDA_DEVICE_MEMORY_SHARED_CACHE", "/tmp/env.cache", "BERTH_SHARE", "x"));
	assert_true(config.limits.by_index[0].memory_limit_bytes == 2048 * MI);
	assert_int_equal(config.limits.general.compute_limit_pct, 30);
	assert_string_equal(config.region_path, "/tmp/file.cache");
	assert_false(config.share_set);
	/* Garbage that is overridden harms nobody. */
	assert_true(memory("CUDA_DEVICE_MEMORY_LIMIT=1G\n",
			   ENV("CUDA_DEVICE_MEMORY_LIMIT", "lots")) == GI);
}

/* Under another name the environment can lower, not lift, what the file gives. */
static void test_other_names_lower_only(void **state)
{
	(void)state;
	assert_true(memory("CUDA_DEVICE_MEMORY_LIMIT=2G\n",
			   ENV("CUDA_DEVICE_MEMORY_LIMIT_0", "80G")) == 2 * GI);
	assert_true(memory("CUDA_DEVICE_MEMORY_LIMIT_0=2G\n",
			   ENV("BERTH_MEMORY_LIMITS", UUID "=80G")) == 2 * GI);
	assert_true(memory("CUDA_DEVICE_MEMORY_LIMIT_0=2G\n",
			   ENV("BERTH_MEMORY_LIMITS", UUID "=1G")) == GI);
	assert_true(memory("CUDA_DEVICE_MEMORY_LIMIT=2G\n",
			   ENV("CUDA_DEVICE_MEMORY_LIMIT_0", "1G")) == GI);
	/* Within the file the more exact name holds, as in the environment. */
	assert_true(memory("CUDA_DEVICE_MEMORY_LIMIT=2G\nCUDA_DEVICE_MEMORY_LIMIT_0=4G\n",
			   ENV("CUDA_DEVICE_MEMORY_LIMIT_0", "1G")) == 4 * GI);
}

static void test_zero_lifts_nothing(void **state)
{
	(void)state;
	assert_true(memory("CUDA_DEVICE_MEMORY_LIMIT=0m\n",
			   ENV("CUDA_DEVICE_MEMORY_LIMIT", "1G")) == GI);
	assert_true(memory("CUDA_DEVICE_MEMORY_LIMIT_0=0\n",
			   ENV("CUDA_DEVICE_MEMORY_LIMIT", "1G")) == GI);
	/* Said in words: none is meant. */
	assert_true(memory("CUDA_DEVICE_MEMORY_LIMIT=0m\n", NONE) == 0);
}

static void test_one_region_for_all(void **state)
{
	struct berth_config config;

	(void)state;
	refused("CUDA_DEVICE_MEMORY_LIMIT=1G\nCUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/x.cache\n",
		ENV("BERTH_REGION", "/tmp/mine.cache"), "berth run");
	refused("CUDA_DEVICE_MEMORY_LIMIT=1G\nBERTH_SHARE=box\n",
		ENV("BERTH_REGION", "/tmp/mine.cache"), "berth run");
	config = both("CUDA_DEVICE_MEMORY_LIMIT=1G\nCUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/x.cache\n",
		      ENV("BERTH_REGION", "/tmp/x.cache"));
	assert_string_equal(config.region_path, "/tmp/x.cache");
	/* A file that names no region: a share of `berth run` is joined, and the smallest counts. */
	config = both("CUDA_DEVICE_MEMORY_LIMIT=1G\n", ENV("BERTH_REGION", "/tmp/mine.cache"));
	assert_true(config.join_only);
	assert_string_equal(config.region_path, "/tmp/mine.cache");
	config = both("BERTH_SHARE=box\nCUDA_DEVICE_MEMORY_LIMIT=1G\n",
		      ENV("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/tmp/env.cache"));
	assert_string_equal(config.share_name, "box");
	assert_string_equal(config.region_path, "");
}

static void test_how_it_may_be_written(void **state)
{
	static const char *const texts[] = {
		"CUDA_DEVICE_MEMORY_LIMIT=2G\n",
		"CUDA_DEVICE_MEMORY_LIMIT=2G\r\n",
		"\r\n\n# CUDA_DEVICE_MEMORY_LIMIT=80G\n\t #x\nCUDA_DEVICE_MEMORY_LIMIT=2G\n",
		" \tCUDA_DEVICE_MEMORY_LIMIT = 2 G \t\r\n",
		"export CUDA_DEVICE_MEMORY_LIMIT=\"2G\"\n",
		"export\tCUDA_DEVICE_MEMORY_LIMIT='2G' \n",
		"CUDA_DEVICE_MEMORY_LIMIT=2G\nCUDA_DEVICE_MEMORY_LIMIT='2G'\n",
		"PATH=/bin=x\nLS_COLORS=\"a\nCUDA_DEVICE_MEMORY_LIMIT=2G\nTZ=\nHOME=1\nHOME=2\n",
		"exportX=1\nexport Y=2\nCUDA_DEVICE_MEMORY_LIMIT=2G\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (memory(texts[i], NONE) != 2 * GI)
			fail_msg("%zu: %s", i, texts[i]);
	}
}

static void test_what_is_refused(void **state)
{
	static const struct {
		const char *text;
		const char *word;
	} cases[] = {
		{ "CUDA_DEVICE_MEMORY_LIMIT\n", "line 1: not NAME=VALUE" },
		{ "CUDA_DEVICE_MEMORY_LIMIT: 2G\n", "line 1: not NAME=VALUE" },
		{ "\nset CUDA_DEVICE_MEMORY_LIMIT=2G\n", "line 2: this is no variable's name" },
		{ "=2G\n", "line 1" },
		{ "\xc3\xa4=1\nCUDA_DEVICE_MEMORY_LIMIT=2G\n", "line 1" },
		{ "\xef\xbb\xbf"
		  "CUDA_DEVICE_MEMORY_LIMIT=2G\n",
		  "line 1" },
		{ "CUDA_DEVICE_MEMORY_LIMIT_GPU0=2G\n", "line 1: no limit goes by the name" },
		{ "cuda_device_memory_limit=2G\n", "line 1: no limit goes by the name" },
		{ "CUDA_DEVICE_MEMORY_LIMIT_00=2G\n", "line 1: no limit goes by the name" },
		{ "CUDA_DEVICE_SM_LIMITS=20\n", "line 1: no limit goes by the name" },
		{ "BERTH_MEMORY_LIMIT=1G\n",
		  "line 1: no limit goes by the name BERTH_MEMORY_LIMIT" },
		{ "BERTH_MEMORY_LIMITS_0=1G\n", "line 1: no limit goes by the name" },
		{ "BERTH_SM_LIMIT=30\n", "line 1: no limit goes by the name" },
		{ "CUDA_DEVICE_MEMORY_LIMIT_16=2G\n", "line 1: CUDA_DEVICE_MEMORY_LIMIT_16" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=\"2G\n", "line 1: a quote" },
		{ "CUDA_DEVICE_MEMORY_LIMIT='2G'x\n", "line 1: a quote" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=2G'\n", "line 1: CUDA_DEVICE_MEMORY_LIMIT=\"2G'\"" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=2G # gigs\n", "line 1: CUDA_DEVICE_MEMORY_LIMIT=" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=\n", "line 1: CUDA_DEVICE_MEMORY_LIMIT=\"\"" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=-1\n", "line 1: CUDA_DEVICE_MEMORY_LIMIT=\"-1\"" },
		{ "\n\nCUDA_DEVICE_SM_LIMIT=150\n", "line 3: CUDA_DEVICE_SM_LIMIT=\"150\"" },
		{ "A=b\rCUDA_DEVICE_MEMORY_LIMIT=2G\n", "line 1: a control" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=2G\r\r\n", "line 1: a control" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=2G\nCUDA_DEVICE_MEMORY_LIMIT=4G\n",
		  "line 2: CUDA_DEVICE_MEMORY_LIMIT has another value than in line 1" },
		{ "CUDA_DEVICE_MEMORY_LIMIT=2G\nCUDA_DEVICE_MEMORY_SHARED_CACHE=x\n", "line 2" },
	};
	static const char nul[] = "A=b\0\nCUDA_DEVICE_MEMORY_LIMIT=2G\n";

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refused(cases[i].text, NONE, cases[i].word);
	refused_bytes(nul, sizeof(nul) - 1, NONE, "line 1: a NUL byte");
}

/* Cut anywhere, a good file is refused, or its limit holds. */
static void test_half_written(void **state)
{
	static const char limit_last[] = "CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/vgpu/x.cache\n"
					 "CUDA_DEVICE_SM_LIMIT_0=50\n"
					 "CUDA_DEVICE_MEMORY_LIMIT_0=0.5G\n";
	static const char limit_first[] = "CUDA_DEVICE_MEMORY_LIMIT_0=0.5G\n"
					  "CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/vgpu/x.cache\n";
	struct berth_config config;

	(void)state;
	for (size_t size = 0; size < sizeof(limit_last) - 1; size++)
		refused_bytes(limit_last, size, NONE, size ? "" : "no memory limit");
	for (size_t size = 0; size < sizeof(limit_first) - 1; size++) {
		struct berth_reason reason = { "" };

		if (read_file(limit_first, size, NONE, &config, &reason) == 0)
			assert_true(config.limits.by_index[0].memory_limit_bytes == 512 * MI);
	}
	/* With the limit in the environment an empty file takes nothing away. */
	assert_true(memory("", ENV("CUDA_DEVICE_MEMORY_LIMIT", "1G")) == GI);
	assert_true(memory("A=b\n", ENV("BERTH_MEMORY_LIMITS", UUID "=1G")) == GI);
	refused("A=b\n", NONE, "no memory limit");
	refused("CUDA_DEVICE_SM_LIMIT=50\n", NONE, "no memory limit");
	/* In a share that is there the limits are the share's. */
	config = both("", ENV("BERTH_REGION", "/tmp/x.cache"));
	assert_true(config.join_only);
}

static void test_long_lines(void **state)
{
	static char text[BERTH_OVERRIDE_TEXT_MAX];

	(void)state;
	memset(text, 'x', sizeof(text));
	refused_bytes(text, sizeof(text), NONE, "line 1: no newline");
	memcpy(text, "CUDA_DEVICE_MEMORY_LIMIT=", 25);
	text[sizeof(text) - 1] = '\n';
	refused_bytes(text, sizeof(text), NONE, "line 1: CUDA_DEVICE_MEMORY_LIMIT=");
	memcpy(text, "A=\nCUDA_DEVICE_MEMORY_SHARED_CACHE=/", 36);
	refused_bytes(text, sizeof(text), NONE, "line 2: CUDA_DEVICE_MEMORY_SHARED_CACHE=");
}

/* All that there are find room. */
static void test_every_variable(void **state)
{
	static const char *const kinds[] = { BERTH_CONFIG_MEMORY, BERTH_CONFIG_COMPUTE };
	static char text[16384];
	char name[64];
	size_t length = 0;
	struct berth_override file;

	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		for (int i = -1; i < 100; i++) {
			(void)snprintf(name, sizeof(name), i < 0 ? "%s" : "%s_%d", kinds[kind], i);
			if (berth_config_word(name) != BERTH_CONFIG_VARIABLE)
				continue;
			length += (size_t)snprintf(text + length, sizeof(text) - length, "%s=1\n",
						   name);
		}
	}
	length += (size_t)snprintf(text + length, sizeof(text) - length,
				   "BERTH_MEMORY_LIMITS=1\nBERTH_SM_LIMITS=1\nBERTH_REGION=1\n"
				   "BERTH_SHARE=1\nCUDA_DEVICE_MEMORY_SHARED_CACHE=1\n"
				   "CUDA_TASK_PRIORITY=1\nGPU_CORE_UTILIZATION_POLICY=1\n"
				   "CUDA_OVERSUBSCRIBE=1\nLIBVGPU_HOSTPID_BROKER=1\n");
	assert_int_equal(berth_override_parse(path, text, length, &file, NULL), 0);
	assert_int_equal(file.count, 2 * 33 + 9);
	assert_int_equal(berth_override_find(&file, "LIBVGPU_HOSTPID_BROKER")->line, file.count);
	assert_null(berth_override_find(&file, "PATH"));
	assert_null(berth_override_find(NULL, "BERTH_SHARE"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_alone),
		cmocka_unit_test(test_file_wins),
		cmocka_unit_test(test_other_names_lower_only),
		cmocka_unit_test(test_zero_lifts_nothing),
		cmocka_unit_test(test_one_region_for_all),
		cmocka_unit_test(test_how_it_may_be_written),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_half_written),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_every_variable),
	};

	return cmocka_run_group_tests_name("policy: the override file", tests, NULL, NULL);
}
