/* SPDX-License-Identifier: Apache-2.0
 *
 * What the environment asks for: HAMi's variables, as its device plugin sets them, and Berth's own.
 * Pure: variables come from a function, nothing is opened. Anything that can't be understood is
 * refused with the variable's name; it never becomes "no limit" in silence. The same variables may
 * stand in a container's override file (policy/override.h), which wins.
 *
 *   CUDA_DEVICE_MEMORY_LIMIT      size, every GPU; 0 (HAMi writes 0m) = none
 *   CUDA_DEVICE_MEMORY_LIMIT_<i>  size, GPU i of NVML's order, 0..15
 *   CUDA_DEVICE_SM_LIMIT[_<i>]    percent 1..100; 0 and 100 = none
 *   BERTH_MEMORY_LIMITS           by UUID: GPU-<uuid>=2G,GPU-<uuid>=4G
 *   BERTH_SM_LIMITS               by UUID: GPU-<uuid>=30,GPU-<uuid>=50
 *   CUDA_DEVICE_MEMORY_SHARED_CACHE  absolute path of the region: joined, created if it is absent
 *   BERTH_REGION                  absolute path of the region: joined, never created; wins
 *   BERTH_LIMITS_STAMP            when `berth run` ordered what the lists by UUID say; not in the file
 *   BERTH_SHARE                   the share's name (base/name.h)
 *   CUDA_TASK_PRIORITY            whole number from 0; 1 = default
 *   LIBVGPU_HOSTPID_BROKER        1: HAMi's broker of host pids is asked, too
 *   GPU_CORE_UTILIZATION_POLICY, CUDA_OVERSUBSCRIBE  accepted, without effect
 *
 * A GPU's limit is the one by its UUID, else the one by its index, else the general one. A zero says
 * nothing: the next in this row holds (as in HAMi), so "none" never undoes a limit. A list by UUID in
 * one variable, rather than a variable per UUID, because it can be read, and checked for UUIDs that no
 * GPU has, before the GPUs are known.
 *
 * A variable that is set to nothing is refused too: "" is what a script writes whose own variable was
 * missing.
 */
#ifndef BERTH_POLICY_CONFIG_H
#define BERTH_POLICY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/name.h"
#include "base/reason.h"

/* The limits' names: of all GPUs (with _<i> of one), and by UUID. */
#define BERTH_CONFIG_MEMORY       "CUDA_DEVICE_MEMORY_LIMIT"
#define BERTH_CONFIG_MEMORY_LIST  "BERTH_MEMORY_LIMITS"
#define BERTH_CONFIG_COMPUTE      "CUDA_DEVICE_SM_LIMIT"
#define BERTH_CONFIG_COMPUTE_LIST "BERTH_SM_LIMITS"

#define BERTH_CONFIG_GPU_MAX  16
#define BERTH_CONFIG_UUID_MAX 96 /* with the terminating zero, as in the region */
#define BERTH_CONFIG_NAME_MAX BERTH_NAME_MAX
#define BERTH_CONFIG_PATH_MAX 4096 /* with the terminating zero */

#define BERTH_CONFIG_DEFAULT_SHARE    "default"
#define BERTH_CONFIG_DEFAULT_PRIORITY 1

struct berth_override;

/* Limits of one GPU. */
struct berth_config_limit {
	uint64_t memory_limit_bytes; /* 0 = none */
	uint32_t compute_limit_pct;  /* 0 = none, else 1..99 */
	bool memory_set;             /* the variable was there, be it only with a zero */
	bool compute_set;
};

struct berth_config_uuid_limit {
	char uuid[BERTH_CONFIG_UUID_MAX];
	struct berth_config_limit limit;
};

struct berth_config_limits {
	struct berth_config_limit general;
	struct berth_config_limit by_index[BERTH_CONFIG_GPU_MAX];
	uint32_t by_uuid_count;
	struct berth_config_uuid_limit by_uuid[BERTH_CONFIG_GPU_MAX];
};

struct berth_config {
	/* A limit (zeros included), a region or a share was named. If not: this program is not in a
	 * share, and all else here is empty. */
	bool active;
	/* "" = none named: then the share's own in the state directory of this user. Not HAMi's
	 * default, /tmp/cudevshr.cache: that is one file for all users of a machine, and whoever
	 * comes first owns everybody's limits. */
	char region_path[BERTH_CONFIG_PATH_MAX];
	bool join_only;                         /* from BERTH_REGION: never create it */
	char share_name[BERTH_CONFIG_NAME_MAX]; /* BERTH_SHARE or "default" */
	bool share_set;                         /* BERTH_SHARE was there */
	int32_t priority;
	bool hami_broker; /* LIBVGPU_HOSTPID_BROKER=1 */
	uint64_t
		limits_stamp; /* of the environment's limits by UUID: berth_region_stamp; 0 = none */

	struct berth_config_limits limits; /* of the override file and the environment together */
	/* Of the file alone: what the environment adds under other names can only lower them. */
	struct berth_config_limits file_limits;
};

/* What a name is to us. */
enum berth_config_word {
	BERTH_CONFIG_FOREIGN,   /* nothing */
	BERTH_CONFIG_VARIABLE,  /* one of the variables above */
	BERTH_CONFIG_LOOKALIKE, /* begins as a limit does, but isn't one */
};
enum berth_config_word berth_config_word(const char *name);

/* Reads everything through get (NULL = not set), and before it from the file, if there is one. 0, or
 * -EINVAL/-ERANGE/-ENAMETOOLONG/-E2BIG with a reason that names the variable (and the file and line),
 * quotes its value and says what would be right. */
BERTH_MUST_CHECK int berth_config_parse(const char *(*get)(void *arg, const char *name), void *arg,
					const struct berth_override *file,
					struct berth_config *ret_config,
					struct berth_reason *reason);

/* The same from this process's environment. In a set-user-ID program that is its caller's: limits are
 * believed (they can only take away), but a path that it names is only joined, never created there. */
BERTH_MUST_CHECK int berth_config_from_environment(const struct berth_override *file,
						   struct berth_config *ret_config,
						   struct berth_reason *reason);

/* The limits of each of the machine's GPUs, by NVML index: ret_limits[i] belongs to uuids[i] (NULL =
 * unknown). -ENODEV, with the reason, if a limit was set for a GPU that isn't there: a typing error in
 * a UUID or an index must not leave the GPU that was meant without a limit. */
BERTH_MUST_CHECK int berth_config_resolve(const struct berth_config *config,
					  const char *const uuids[], uint32_t gpu_count,
					  struct berth_config_limit ret_limits[],
					  struct berth_reason *reason);

/* The same for one GPU, before the GPUs are known: no check. */
struct berth_config_limit berth_config_gpu(const struct berth_config *config, const char *uuid,
					   uint32_t index);

/* For a share that is there already: of all that the environment says of a GPU the smallest, by the
 * share's order: ret_limits[i] belongs to uuids[i]. A share may have fewer GPUs than the machine, so what
 * is said of others is no error. outdated: the share's limits were changed by order since limits_stamp, so
 * what the environment says by UUID is left out: it was said before. */
void berth_config_smallest(const struct berth_config *config, bool outdated,
			   const char *const uuids[], uint32_t gpu_count,
			   struct berth_config_limit ret_limits[]);

#endif
