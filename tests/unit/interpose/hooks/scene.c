/* SPDX-License-Identifier: Apache-2.0
 *
 * See scene.h.
 */
#include "scene.h"

#include <dlfcn.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "region/ledger.h"

struct scene_cuda cuda;

static char directory[64];

const char *scene_path(const char *name)
{
	static char path[4][128];
	static unsigned turn;
	char *out = path[turn++ % 4];

	(void)snprintf(out, sizeof(path[0]), "%s/%s", directory, name);
	return out;
}

const char *scene_region(void)
{
	return scene_path("share.cache");
}

static int set(const char *name, const char *value)
{
	return value ? setenv(name, value, 1) : unsetenv(name);
}

static int scene_body(void *arg)
{
	const struct scene *scene = arg;

	CHILD_CHECK(!set("BERTH_STATE_DIR", directory));
	CHILD_CHECK(!set("BERTH_SIM_GPUS", scene->gpus ? scene->gpus : "1x8G"));
	CHILD_CHECK(
		!set("BERTH_SIM_CONTEXT_BYTES", scene->context_bytes ? scene->context_bytes : "0"));
	CHILD_CHECK(!set("BERTH_SIM_FAULTS", scene->faults));
	CHILD_CHECK(!set("BERTH_LOG_LEVEL", scene->log_level));
	CHILD_CHECK(!set("CUDA_VISIBLE_DEVICES", scene->visible));
	CHILD_CHECK(!set("CUDA_DEVICE_MEMORY_LIMIT", scene->limit));
	CHILD_CHECK(!set("CUDA_DEVICE_MEMORY_SHARED_CACHE", scene->limit ? scene_region() : NULL));
	return scene->body();
}

static int erase(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void scene_run(const struct scene *scene)
{
	struct child_result result;

	strcpy(directory, "/tmp/berth-hooks-XXXXXX");
	assert_non_null(mkdtemp(directory));
	child_run(scene_body, (void *)(uintptr_t)scene, &result);
	assert_int_equal(nftw(directory, erase, 8, FTW_DEPTH | FTW_PHYS), 0);
	if (result.status)
		print_error("%s\n", result.error);
	assert_int_equal(result.status, 0);
	if (scene->ret_error)
		strcpy(scene->ret_error, result.error);
}

int scene_load(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	CHILD_CHECK(driver);
#define SCENE_LOOK_UP(name)                                      \
	cuda.name = (__typeof__(cuda.name))dlsym(driver, #name); \
	CHILD_CHECK(cuda.name);
	SCENE_CALLS(SCENE_LOOK_UP)
#undef SCENE_LOOK_UP
	/* A test of hooks that are not in the way would pass for nothing. */
	CHILD_CHECK((void *)cuda.cuMemAlloc_v2 != (void *)berth_driver()->cuMemAlloc_v2);
	return 0;
}

int scene_start(void)
{
	CUcontext context = NULL;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
	return 0;
}

uint64_t scene_booked(int gpu)
{
	struct berth_region *region = NULL;
	struct berth_ledger_room room = { 0 };
	struct berth_reason reason = { 0 };

	if (berth_region_view(scene_region(), &region, &reason) ||
	    berth_ledger_room(region, (uint32_t)gpu, &room)) {
		dprintf(2, "the region can't be read: %s\n", reason.text);
		abort();
	}
	berth_region_close(region);
	return room.charged_bytes;
}

int scene_log(void)
{
	return setenv("BERTH_SIM_LOG", scene_path("calls.log"), 1);
}

int scene_logged(const char *symbol)
{
	char command[512];
	char line[128];
	int count = 0;
	FILE *reader;

	(void)snprintf(command, sizeof(command), "LD_PRELOAD= %s --names --pid %d %s",
		       SIM_LOG_READER, (int)getpid(), scene_path("calls.log"));
	reader = popen(command, "re");
	if (!reader)
		abort();
	while (fgets(line, sizeof(line), reader)) {
		line[strcspn(line, "\n")] = '\0';
		count += !strcmp(line, symbol);
	}
	if (pclose(reader))
		abort();
	return count;
}
