/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment as HAMi's plugin and Berth set it: what is accepted gives exact figures, all else is
 * refused with the variable's name.
 */
#include "policy/config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GI     (1ULL << 30)
#define MI     (1ULL << 20)
#define UUID_A "GPU-00000000-0000-0000-0000-00000000000a"
#define UUID_B "GPU-00000000-0000-0000-0000-00000000000b"

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

static struct berth_config parse(void *env)
{
	struct berth_config config;
	struct berth_reason reason = { "" };
	int err = berth_config_parse(get, env, NULL, &config, &reason);

	if (err != 0)
		fail_msg("refused: %d, %s", err, reason.text);
	assert_string_equal(reason.text, "");
	return config;
}

/* Fails with err, names the variable, leaves the result alone. */
static void refused(void *env, int err, const char *name, const char *shown)
{
	struct berth_config config;
	struct berth_config before;
	struct berth_reason reason = { "" };
	int result;

	memset(&config, 0x5a, sizeof(config));
	memset(&before, 0x5a, sizeof(before));
	result = berth_config_parse(get, env, NULL, &config, &reason);
	if (result != err || strstr(reason.text, name) != reason.text ||
	    strstr(reason.text, shown) == NULL || strstr(reason.text, "give ") == NULL)
		fail_msg("%s: %d, \"%s\"", name, result, reason.text);
	assert_memory_equal(&config, &before, sizeof(config));
	/* Nobody need ask why. */
	assert_int_equal(berth_config_parse(get, env, NULL, &config, NULL), err);
}

static void test_nothing(void **state)
{
	struct berth_config config = parse(ENV(NULL));

	(void)state;
	assert_false(config.active);
	assert_string_equal(config.region_path, "");
	assert_false(config.join_only);
	assert_string_equal(config.share_name, "default");
	assert_false(config.share_set);
	assert_int_equal(config.priority, 1);
	assert_false(config.limits.general.memory_set || config.limits.general.compute_set);
	/* Names that only look alike. */
	config = parse(ENV("CUDA_DEVICE_MEMORY_LIMITS", "1G", "CUDA_DEVICE_MEMORY_LIMIT_", "1G",
			   "cuda_device_memory_limit", "1G", "CUDA_TASK_PRIORITY", "1"));
	assert_false(config.active);
}

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} rows[] = {
		{ "512M", 512 * MI },
		{ "8G", 8 * GI },
		{ "8GiB", 8 * GI },
		{ "0.5G", 512 * MI },
		{ "08G", 8 * GI },
		{ "1073741824", GI },
		{ "4Gi", 4 * GI },
		{ "4GB", 4 * GI },
		{ "4GiB", 4 * GI },
		{ "4G ", 4 * GI },
		{ "3000m", 3000 * MI },
		{ "1024m", GI },
		{ "0", 0 },
		{ "0m", 0 },
	};

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		struct berth_config config = parse(ENV("CUDA_DEVICE_MEMORY_LIMIT", rows[i].text));

		assert_true(config.active);
		assert_true(config.limits.general.memory_set);
		assert_true(config.limits.general.memory_limit_bytes == rows[i].bytes);
		assert_false(config.limits.general.compute_set);
		config = parse(ENV("CUDA_DEVICE_MEMORY_LIMIT_15", rows[i].text));
		assert_true(config.active);
		assert_true(config.limits.by_index[15].memory_set);
		assert_true(config.limits.by_index[15].memory_limit_bytes == rows[i].bytes);
		assert_false(config.limits.general.memory_set);
	}
}

static void test_bad_sizes(void **state)
{
	static const struct {
		const char *text;
		int err;
	} rows[] = {
		{ "-1", -EINVAL },
		{ "50%", -EINVAL },
		{ "", -EINVAL },
		{ "abc", -EINVAL },
		{ "1e", -EINVAL },
		{ "unlimited", -EINVAL },
		{ "1.5", -EINVAL },
		{ "99999999999999G", -ERANGE },
		{ "0.0000000001G", -ERANGE },
	};
	static const char *const names[] = { "CUDA_DEVICE_MEMORY_LIMIT",
					     "CUDA_DEVICE_MEMORY_LIMIT_0",
					     "CUDA_DEVICE_MEMORY_LIMIT_15" };

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		for (size_t j = 0; j < BERTH_ARRAY_LEN(names); j++) {
			char shown[64];

			snprintf(shown, sizeof(shown), "%s=\"%s\"", names[j], rows[i].text);
			/* A good one beside it doesn't help. */
			refused(ENV("CUDA_DEVICE_MEMORY_LIMIT_7", "1G", names[j], rows[i].text),
				rows[i].err, names[j], shown);
		}
	}
}

static void test_percents(void **state)
{
	static const struct {
		const char *text;
		uint32_t pct;
	} rows[] = { { "30", 30 },  { "30%", 30 }, { "1", 1 },  { "99", 99 }, { "100", 0 },
		     { "100%", 0 }, { "0", 0 },    { "00", 0 }, { "0%", 0 } };
	static const struct {
		const char *text;
		int err;
	} bad[] = { { "", -EINVAL },    { "-1", -EINVAL },   { "1.5", -EINVAL },
		    { "101", -ERANGE }, { "1000", -ERANGE }, { "half", -EINVAL },
		    { "30G", -EINVAL }, { "0x1e", -EINVAL }, { "99999999999999999999", -ERANGE } };

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		struct berth_config config = parse(ENV("CUDA_DEVICE_SM_LIMIT_3", rows[i].text));

		assert_true(config.active);
		assert_true(config.limits.by_index[3].compute_set);
		assert_int_equal(config.limits.by_index[3].compute_limit_pct, rows[i].pct);
		config = parse(ENV("CUDA_DEVICE_SM_LIMIT", rows[i].text));
		assert_int_equal(config.limits.general.compute_limit_pct, rows[i].pct);
	}
	for (size_t i = 0; i < BERTH_ARRAY_LEN(bad); i++) {
		refused(ENV("CUDA_DEVICE_SM_LIMIT", bad[i].text), bad[i].err,
			"CUDA_DEVICE_SM_LIMIT", "percentage");
		refused(ENV("CUDA_DEVICE_SM_LIMIT_9", bad[i].text), bad[i].err,
			"CUDA_DEVICE_SM_LIMIT_9", "percentage");
	}
}

static void test_index_out_of_range(void **state)
{
	(void)state;
	refused(ENV("CUDA_DEVICE_MEMORY_LIMIT_16", "1G"), -EINVAL, "CUDA_DEVICE_MEMORY_LIMIT_16",
		"0 to 15");
	refused(ENV("CUDA_DEVICE_SM_LIMIT_31", "10"), -EINVAL, "CUDA_DEVICE_SM_LIMIT_31",
		"0 to 15");
}

/* What other people wrote is shown harmlessly, and shortened. */
static void test_values_are_escaped(void **state)
{
	char longer[400];

	(void)state;
	refused(ENV("CUDA_DEVICE_MEMORY_LIMIT", "\x1b[2J\n"), -EINVAL, "CUDA_DEVICE_MEMORY_LIMIT",
		"=\"\\x1b[2J\\x0a\"");
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	refused(ENV("CUDA_DEVICE_MEMORY_LIMIT", longer), -EINVAL, "CUDA_DEVICE_MEMORY_LIMIT",
		"xxx...\"");
	memset(longer, 1, 40);
	longer[40] = '\0';
	refused(ENV("CUDA_DEVICE_MEMORY_LIMIT", longer), -EINVAL, "CUDA_DEVICE_MEMORY_LIMIT",
		"\\x01...\"");
}

static void test_by_uuid(void **state)
{
	struct berth_config config =
		parse(ENV("BERTH_MEMORY_LIMITS", UUID_A "=2G, " UUID_B " = 4 G", "BERTH_SM_LIMITS",
			  UUID_B "=30%"));

	(void)state;
	assert_true(config.active);
	assert_int_equal(config.limits.by_uuid_count, 2);
	assert_string_equal(config.limits.by_uuid[0].uuid, UUID_A);
	assert_true(config.limits.by_uuid[0].limit.memory_limit_bytes == 2 * GI);
	assert_false(config.limits.by_uuid[0].limit.compute_set);
	assert_string_equal(config.limits.by_uuid[1].uuid, UUID_B);
	assert_true(config.limits.by_uuid[1].limit.memory_limit_bytes == 4 * GI);
	assert_int_equal(config.limits.by_uuid[1].limit.compute_limit_pct, 30);
	/* A MIG slice of the old naming. */
	config = parse(ENV("BERTH_MEMORY_LIMITS", "MIG-" UUID_A "/1/0=1G"));
	assert_string_equal(config.limits.by_uuid[0].uuid, "MIG-" UUID_A "/1/0");
}

static void test_bad_uuid_lists(void **state)
{
	static const char *const rows[] = {
		"",
		"2G",
		UUID_A,
		UUID_A "=",
		UUID_A "=-1",
		UUID_A "=2G," UUID_A "=3G",
		UUID_A "=2G,",
		"," UUID_A "=2G",
		UUID_A "=2G;" UUID_B "=2G",
		UUID_A "=2G=3G",
		"0=2G",
		"GPU-=2G",
		"GPU-a b=2G",
		"GPU-a\x1b=2G",
		"gpu-a=2G",
		("GPU-0123456789012345678901234567890123456789012345678901234567890123456789012345"
		 "6789012345678901234567890=2G"),
	};
	char many[2048] = "";
	char longer[400];

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++)
		refused(ENV("BERTH_MEMORY_LIMITS", rows[i]), -EINVAL, "BERTH_MEMORY_LIMITS",
			"UUID=size");
	refused(ENV("BERTH_SM_LIMITS", UUID_A "=2G"), -EINVAL, "BERTH_SM_LIMITS",
		"UUID=percentage");
	refused(ENV("BERTH_SM_LIMITS", UUID_A "=101"), -ERANGE, "BERTH_SM_LIMITS", "101");
	memset(longer, ' ', sizeof(longer));
	memcpy(longer, UUID_A "=2G", sizeof(UUID_A "=2G") - 1);
	longer[sizeof(longer) - 1] = '\0';
	refused(ENV("BERTH_MEMORY_LIMITS", longer), -EINVAL, "BERTH_MEMORY_LIMITS", "UUID=size");

	for (int i = 0; i < 16; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), "%sGPU-%d=1G",
			 i == 0 ? "" : ",", i);
	assert_int_equal(parse(ENV("BERTH_MEMORY_LIMITS", many)).limits.by_uuid_count, 16);
	strcat(many, ",GPU-16=1G");
	refused(ENV("BERTH_MEMORY_LIMITS", many), -E2BIG, "BERTH_MEMORY_LIMITS", "16 GPUs");
}

static void test_paths(void **state)
{
	struct berth_config config;

	(void)state;
	config = parse(ENV("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/usr/local/vgpu/a.cache"));
	assert_true(config.active);
	assert_false(config.join_only);
	assert_string_equal(config.region_path, "/usr/local/vgpu/a.cache");
	config = parse(ENV("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/usr/local/vgpu/a.cache",
			   "BERTH_REGION", "/run/berth/shares/b.cache"));
	assert_true(config.join_only);
	assert_string_equal(config.region_path, "/run/berth/shares/b.cache");

	config = parse(ENV("BERTH_SHARE", "team-a"));
	assert_true(config.active && config.share_set && !config.join_only);
	assert_string_equal(config.region_path, "");
}

static void test_bad_paths(void **state)
{
	static const char *const names[] = { "CUDA_DEVICE_MEMORY_SHARED_CACHE", "BERTH_REGION" };
	static char longer[BERTH_CONFIG_PATH_MAX + 1];

	(void)state;
	memset(longer, 'x', sizeof(longer));
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	for (size_t i = 0; i < BERTH_ARRAY_LEN(names); i++) {
		refused(ENV(names[i], ""), -EINVAL, names[i], "absolute");
		refused(ENV(names[i], "relative"), -EINVAL, names[i], "absolute");
		refused(ENV(names[i], "/"), -EINVAL, names[i], "absolute");
		refused(ENV(names[i], "/directory/"), -EINVAL, names[i], "absolute");
		refused(ENV(names[i], longer), -ENAMETOOLONG, names[i], "4096");
	}
	/* The one that loses is checked too. */
	refused(ENV("BERTH_REGION", "/good", "CUDA_DEVICE_MEMORY_SHARED_CACHE", "bad"), -EINVAL,
		"CUDA_DEVICE_MEMORY_SHARED_CACHE", "absolute");
	longer[sizeof(longer) - 2] = '\0';
	assert_string_equal(parse(ENV("BERTH_REGION", longer)).region_path, longer);
}

static void test_share_names(void **state)
{
	static const char *const good[] = { "a", "team-a", "A.b_c-9", "python3@4711", "c++" };
	static const char *const bad[] = { "", ".hidden", "a/b", "a b", "a\n" };

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(good); i++)
		assert_string_equal(parse(ENV("BERTH_SHARE", good[i])).share_name, good[i]);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(bad); i++)
		refused(ENV("BERTH_SHARE", bad[i]), -EINVAL, "BERTH_SHARE", "letters, figures");
}

static void test_priority(void **state)
{
	static const char *const bad[] = { "",   "-1", "high",       "1.0",
					   "1 ", "+1", "2147483648", "99999999999999999999999999" };

	(void)state;
	assert_int_equal(parse(ENV("CUDA_TASK_PRIORITY", "0")).priority, 0);
	assert_int_equal(parse(ENV("CUDA_TASK_PRIORITY", "2147483647")).priority, 2147483647);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(bad); i++)
		refused(ENV("CUDA_TASK_PRIORITY", bad[i]), -EINVAL, "CUDA_TASK_PRIORITY",
			"whole number");
}

static const char *const two_gpus[] = { UUID_A, UUID_B };

static void test_which_limit_holds(void **state)
{
	struct berth_config config =
		parse(ENV("CUDA_DEVICE_MEMORY_LIMIT", "1G", "CUDA_DEVICE_MEMORY_LIMIT_1", "2G",
			  "CUDA_DEVICE_SM_LIMIT_0", "20", "BERTH_MEMORY_LIMITS", UUID_B "=3G"));
	struct berth_config_limit limits[2];

	(void)state;
	/* General for 0; by UUID before by index for 1; each kind by itself. */
	assert_int_equal(berth_config_resolve(&config, two_gpus, 2, limits, NULL), 0);
	assert_true(limits[0].memory_limit_bytes == GI);
	assert_int_equal(limits[0].compute_limit_pct, 20);
	assert_true(limits[1].memory_limit_bytes == 3 * GI);
	assert_int_equal(limits[1].compute_limit_pct, 0);
	assert_false(limits[1].compute_set);

	/* The index is the larger one: per GPU wins all the same. */
	config = parse(ENV("CUDA_DEVICE_MEMORY_LIMIT", "1G", "CUDA_DEVICE_MEMORY_LIMIT_0", "5G"));
	assert_int_equal(berth_config_resolve(&config, two_gpus, 2, limits, NULL), 0);
	assert_true(limits[0].memory_limit_bytes == 5 * GI);
	assert_true(limits[1].memory_limit_bytes == GI);
}

/* A zero is said, but undoes nothing. */
static void test_zero_undoes_nothing(void **state)
{
	struct berth_config config = parse(
		ENV("CUDA_DEVICE_MEMORY_LIMIT", "1G", "CUDA_DEVICE_MEMORY_LIMIT_0", "0m",
		    "CUDA_DEVICE_SM_LIMIT", "40", "BERTH_SM_LIMITS", UUID_A "=0," UUID_B "=100"));
	struct berth_config_limit limits[2];

	(void)state;
	assert_int_equal(berth_config_resolve(&config, two_gpus, 2, limits, NULL), 0);
	assert_true(limits[0].memory_limit_bytes == GI);
	assert_int_equal(limits[0].compute_limit_pct, 40);
	assert_int_equal(limits[1].compute_limit_pct, 40);

	config = parse(ENV("CUDA_DEVICE_MEMORY_LIMIT_0", "0m"));
	assert_true(config.active);
	assert_int_equal(berth_config_resolve(&config, two_gpus, 2, limits, NULL), 0);
	assert_true(limits[0].memory_set && limits[0].memory_limit_bytes == 0);
	assert_false(limits[1].memory_set);
}

static void no_such_gpu(void *env, const char *word)
{
	struct berth_config config = parse(env);
	struct berth_config_limit limits[2] = { { .memory_limit_bytes = 77 } };
	struct berth_reason reason = { "" };

	assert_int_equal(berth_config_resolve(&config, two_gpus, 2, limits, &reason), -ENODEV);
	assert_true(limits[0].memory_limit_bytes == 77);
	if (strstr(reason.text, word) == NULL)
		fail_msg("%s", reason.text);
}

static void test_limits_without_a_gpu(void **state)
{
	static const char *const unknown[] = { NULL, UUID_B };
	struct berth_config config;
	struct berth_config_limit limits[2];

	(void)state;
	no_such_gpu(ENV("CUDA_DEVICE_MEMORY_LIMIT_2", "1G"), "CUDA_DEVICE_MEMORY_LIMIT_2");
	no_such_gpu(ENV("CUDA_DEVICE_SM_LIMIT_15", "10"), "CUDA_DEVICE_SM_LIMIT_15");
	no_such_gpu(ENV("BERTH_MEMORY_LIMITS", "GPU-other=1G"),
		    "BERTH_MEMORY_LIMITS names GPU-other");
	no_such_gpu(ENV("BERTH_SM_LIMITS", UUID_A "0=10"), "BERTH_SM_LIMITS");
	/* "None" for one that isn't there harms nobody. */
	config = parse(ENV("CUDA_DEVICE_MEMORY_LIMIT_2", "0m", "CUDA_DEVICE_SM_LIMIT_2", "100"));
	assert_int_equal(berth_config_resolve(&config, two_gpus, 2, limits, NULL), 0);
	/* A GPU whose UUID isn't known can't be found by it. */
	config = parse(ENV("BERTH_MEMORY_LIMITS", UUID_A "=1G"));
	assert_int_equal(berth_config_resolve(&config, unknown, 2, limits, NULL), -ENODEV);
}

static void test_stamp(void **state)
{
	static const char *const bad[] = { "",
					   "0",
					   "000",
					   "-1",
					   "+1",
					   "one",
					   "1 ",
					   "0x1",
					   "1.0",
					   "18446744073709551616",
					   "18446744073709551617" };

	(void)state;
	assert_true(parse(ENV("BERTH_SHARE", "a")).limits_stamp == 0);
	assert_true(parse(ENV("BERTH_LIMITS_STAMP", "7")).limits_stamp == 7);
	assert_true(parse(ENV("BERTH_LIMITS_STAMP", "18446744073709551615")).limits_stamp ==
		    UINT64_MAX);
	/* It asks for nothing by itself. */
	assert_false(parse(ENV("BERTH_LIMITS_STAMP", "7")).active);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(bad); i++)
		refused(ENV("BERTH_LIMITS_STAMP", bad[i]), -EINVAL, "BERTH_LIMITS_STAMP",
			"whole number");
}

/* In a share that is there already the smallest counts, and outdated orders don't. */
static void test_smallest(void **state)
{
	struct berth_config config = parse(
		ENV("CUDA_DEVICE_MEMORY_LIMIT", "4G", "CUDA_DEVICE_MEMORY_LIMIT_1", "3G",
		    "CUDA_DEVICE_SM_LIMIT", "80", "BERTH_MEMORY_LIMITS", UUID_A "=1G," UUID_B "=5G",
		    "BERTH_SM_LIMITS", UUID_A "=20", "BERTH_LIMITS_STAMP", "3"));
	struct berth_config_limit limits[2];

	(void)state;
	berth_config_smallest(&config, false, two_gpus, 2, limits);
	assert_true(limits[0].memory_limit_bytes == GI);
	assert_int_equal(limits[0].compute_limit_pct, 20);
	assert_true(limits[1].memory_limit_bytes == 3 * GI);
	assert_int_equal(limits[1].compute_limit_pct, 80);

	berth_config_smallest(&config, true, two_gpus, 2, limits);
	assert_true(limits[0].memory_limit_bytes == 4 * GI);
	assert_int_equal(limits[0].compute_limit_pct, 80);
	assert_true(limits[1].memory_limit_bytes == 3 * GI);

	/* The override file's limits are nobody's order. */
	config.file_limits = config.limits;
	berth_config_smallest(&config, true, two_gpus, 2, limits);
	assert_true(limits[0].memory_limit_bytes == GI);
	assert_int_equal(limits[0].compute_limit_pct, 20);

	/* Only what berth run ordered: then nothing is left of it. */
	config = parse(ENV("BERTH_MEMORY_LIMITS", UUID_A "=1G"));
	berth_config_smallest(&config, true, two_gpus, 2, limits);
	assert_true(limits[0].memory_limit_bytes == 0);
}

static void test_own_environment(void **state)
{
	struct berth_config config;
	struct berth_reason reason = { "" };

	(void)state;
	setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "3000m", 1);
	setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/tmp/x.cache", 1);
	assert_int_equal(berth_config_from_environment(NULL, &config, &reason), 0);
	assert_true(config.limits.by_index[0].memory_limit_bytes == 3000 * MI);
	assert_string_equal(config.region_path, "/tmp/x.cache");
	assert_false(config.join_only);
	setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "lots", 1);
	assert_int_equal(berth_config_from_environment(NULL, &config, &reason), -EINVAL);
	assert_non_null(strstr(reason.text, "CUDA_DEVICE_MEMORY_LIMIT_0=\"lots\""));
	unsetenv("CUDA_DEVICE_MEMORY_LIMIT_0");
	unsetenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_bad_sizes),
		cmocka_unit_test(test_percents),
		cmocka_unit_test(test_index_out_of_range),
		cmocka_unit_test(test_values_are_escaped),
		cmocka_unit_test(test_by_uuid),
		cmocka_unit_test(test_bad_uuid_lists),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_bad_paths),
		cmocka_unit_test(test_share_names),
		cmocka_unit_test(test_priority),
		cmocka_unit_test(test_which_limit_holds),
		cmocka_unit_test(test_zero_undoes_nothing),
		cmocka_unit_test(test_limits_without_a_gpu),
		cmocka_unit_test(test_stamp),
		cmocka_unit_test(test_smallest),
		cmocka_unit_test(test_own_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
