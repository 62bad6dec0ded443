/* SPDX-License-Identifier: Apache-2.0
 *
 * A share's region: the file, mapped. It appears complete or not at all (birth.c), so joining never
 * waits. Bytes are in layout.h; nobody else knows them.
 */
#ifndef BERTH_REGION_REGION_H
#define BERTH_REGION_REGION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "base/reason.h"

#define BERTH_GPU_MAX        16
#define BERTH_SEAT_MAX       1024
#define BERTH_UUID_SIZE      96 /* "GPU-…", zero-padded */
#define BERTH_SHARE_NAME_MAX 64 /* with the terminating zero */

struct berth_region_gpu {
	char uuid[BERTH_UUID_SIZE];
	uint64_t memory_limit_bytes; /* 0 = none */
	uint32_t compute_limit_pct;  /* 0 or >= 100 = none */
};

/* What a region is made from, and what a joiner believes its limits to be. */
struct berth_region_spec {
	char share_name[BERTH_SHARE_NAME_MAX];
	uint32_t gpu_count; /* by NVML index */
	struct berth_region_gpu gpus[BERTH_GPU_MAX];
	int32_t priority; /* CUDA_TASK_PRIORITY, 1 = default */
	mode_t mode;      /* of a new file, set whatever the umask is; 0 = 0600 */
	/* 0: these limits always count. Else berth_region_stamp when they were ordered: once somebody has
	 * changed the share's limits since (berth_region_change), they don't any more. */
	uint64_t stamp;
};

enum berth_region_flags {
	/* Nobody living sits in it: take the spec's limits as they are, also larger ones. */
	BERTH_REGION_RENEW = 1U << 0,
};

/* What joining did. Bit i of a mask = GPU i of the region. */
struct berth_region_joined {
	bool created;
	bool renewed;
	uint32_t lowered_mask; /* the joiner's limit was smaller and is now in force */
	uint32_t kept_mask; /* the joiner's limit was larger or none: the region's stays in force */
};

struct berth_region;

/* Joins the region at path. With a spec: creates it if it is absent, and where limits differ the
 * smaller one is in force ("none" never wins). Without (NULL): -ENOENT if it is absent.
 * Refused, with the reason: not a regular file, a symlink, owned by a third user in a sticky
 * directory (-EPERM), a foreign or half-written content (-EBADMSG), another format signature
 * (-EPROTONOSUPPORT), a spec GPU that the region does not have (-ENODEV), no space (-ENOSPC), the
 * directory not writable. The mapping is MADV_DONTFORK. Free with berth_region_close. Thread-safe;
 * in a fork child the object may only be passed to berth_region_forget. */
BERTH_MUST_CHECK int berth_region_join(const char *path, const struct berth_region_spec *spec,
				       unsigned flags, struct berth_region **ret_region,
				       struct berth_region_joined *ret_joined,
				       struct berth_reason *reason);

/* A joiner's limits for a region that it joined without a spec: where they are smaller they are in
 * force from now on. Nothing else of the spec is used. -ENODEV, with the reason, for a GPU that the
 * region does not have. -ESTALE: the limits were changed since spec->stamp; nothing was done. */
BERTH_MUST_CHECK int berth_region_limit(struct berth_region *region,
					const struct berth_region_spec *spec,
					struct berth_region_joined *ret_joined,
					struct berth_reason *reason);

/* The GPUs of an existing region, for whoever must know them before it can join: reads these bytes
 * of the file and maps nothing. Refusals as berth_region_view's. */
BERTH_MUST_CHECK int berth_region_peek(const char *path, uint32_t *ret_gpu_count,
				       char ret_uuids[BERTH_GPU_MAX][BERTH_UUID_SIZE],
				       struct berth_reason *reason);

/* Maps an existing region read-only, for ps and the like. */
BERTH_MUST_CHECK int berth_region_view(const char *path, struct berth_region **ret_region,
				       struct berth_reason *reason);

void berth_region_close(struct berth_region *region);
/* In a fork child, where the mapping is gone: frees this process's memory of it, closes its
 * descriptor copy, touches nothing else. */
void berth_region_forget(struct berth_region *region);

const char *berth_region_path(const struct berth_region *region);
const char *berth_region_share_name(const struct berth_region *region);
uint32_t berth_region_gpu_count(const struct berth_region *region);
/* The limits in force now. */
void berth_region_gpu(const struct berth_region *region, uint32_t gpu,
		      struct berth_region_gpu *ret_gpu);
/* Index of a GPU by UUID ("GPU-…"), or -ENODEV. */
BERTH_MUST_CHECK int berth_region_gpu_find(const struct berth_region *region, const char *uuid);

/* Never 0. What limits that are ordered now are stamped with; another one after each change. */
uint64_t berth_region_stamp(const struct berth_region *region);

/* A change of a share's limits while it is in use. */
struct berth_region_change {
	uint32_t gpu_mask; /* bit i = GPU i of the region */
	bool memory_set;
	bool compute_set;
	uint64_t memory_limit_bytes; /* 0 = none */
	uint32_t compute_limit_pct;  /* 0 or >= 100 = none */
};

/* Called once a GPU before anything is changed, to leave a record of it; not 0 = don't change
 * anything. The record may be of a change that a death then prevents, never the other way round. */
typedef int (*berth_region_change_fn)(void *arg, uint32_t gpu,
				      const struct berth_region_gpu *before,
				      const struct berth_region_gpu *after);

/* Changes the limits in force, up or down, whoever sits there. Below what is charged: asks are
 * refused until it fits. Limits that were ordered before (stamp) and haven't been brought yet don't
 * count any more. -EBUSY, with the reason: another change is under way and hasn't ended for 1 s.
 * -EINVAL: a GPU that the region does not have. -EROFS: the region was only viewed. Else what
 * `record` returned. Thread-safe. */
BERTH_MUST_CHECK int berth_region_change(struct berth_region *region,
					 const struct berth_region_change *change,
					 berth_region_change_fn record, void *arg,
					 struct berth_reason *reason);

enum berth_finding_kind {
	BERTH_FINDING_BROKEN, /* an invariant: nothing here repairs it, figures may be wrong */
	BERTH_FINDING_DEAD, /* a dead process's seat; counts nowhere; berth_seat_reap_all empties it */
	BERTH_FINDING_OVER,    /* more is charged than the limit; asks are refused until it fits */
	BERTH_FINDING_FOREIGN, /* a seat of another implementation: it is not limited by this share */
	BERTH_FINDING_CLAMPED, /* figures had to be clamped: some program freed what it didn't have */
};

struct berth_finding {
	enum berth_finding_kind kind;
	int32_t seat;     /* -1 = none */
	int32_t gpu;      /* -1 = none */
	const char *text; /* without the file's name; plain ASCII */
};

/* Walks the file while others work and tells each finding. 0, or what `found` returned when it isn't
 * 0, or -errno if the file can't be asked. Changes nothing. */
BERTH_MUST_CHECK int
berth_region_inspect(struct berth_region *region,
		     int (*found)(void *arg, const struct berth_finding *finding), void *arg);

/* Walks every invariant of the file; 0, or -EUCLEAN with the first broken one in words. */
BERTH_MUST_CHECK int berth_region_check(struct berth_region *region, struct berth_reason *reason);

#endif
