/* SPDX-License-Identifier: Apache-2.0
 *
 * See share.h.
 */
#include "share.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char share_uuid0[] = "GPU-00000000-0000-0000-0000-000000000000";
const char share_uuid1[] = "GPU-11111111-1111-1111-1111-111111111111";
int share_list_count;

static char directory[64];

int share_list(struct berth_account_gpus *ret_gpus, struct berth_reason *reason)
{
	(void)reason;
	__atomic_fetch_add(&share_list_count, 1, __ATOMIC_RELAXED);
	ret_gpus->count = 2;
	memcpy(ret_gpus->uuids[0], share_uuid0, sizeof(share_uuid0));
	memcpy(ret_gpus->uuids[1], share_uuid1, sizeof(share_uuid1));
	return 0;
}

int share_setup(void **state)
{
	static const char *const names[] = {
		"CUDA_DEVICE_MEMORY_LIMIT",
		"CUDA_DEVICE_SM_LIMIT",
		"BERTH_REGION",
		"CUDA_DEVICE_MEMORY_SHARED_CACHE",
		"BERTH_MEMORY_LIMITS",
		"BERTH_SHARE",
		"CUDA_DEVICE_MEMORY_LIMIT_0",
		"CUDA_DEVICE_MEMORY_LIMIT_1",
		"BERTH_LIMITS_STAMP",
	};

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(names); i++)
		unsetenv(names[i]);
	strcpy(directory, "/tmp/berth-account-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	return setenv("BERTH_STATE_DIR", directory, 1);
}

static int erase(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

int share_teardown(void **state)
{
	(void)state;
	return nftw(directory, erase, 8, FTW_DEPTH | FTW_PHYS);
}

struct run {
	const char *limit;
	int (*body)(void);
};

static int attached_body(void *arg)
{
	const struct run *run = arg;

	if (run->limit[0])
		CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_LIMIT", run->limit, 1));
	else
		CHILD_CHECK(!setenv("BERTH_SHARE", "unlimited", 1));
	CHILD_CHECK(berth_account_attach(share_list) == BERTH_ACCOUNT_ATTACHED);
	return run->body();
}

void share_run(const char *limit, int (*body)(void))
{
	struct run run = { limit, body };
	struct child_result result;

	child_run_ok(attached_body, &run, &result);
}

uint64_t share_charged(int gpu)
{
	struct berth_ledger_room room = { 0 };

	if (berth_ledger_room(berth_account_region(), (uint32_t)gpu, &room))
		abort();
	return room.charged_bytes;
}
