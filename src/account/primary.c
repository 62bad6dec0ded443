/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the context is alive is the driver's to say (it counts the references, and what a reset
 * does to them differs between versions). Here is only whether it is charged, and how many retains
 * were booked: a release that finds the context dead gives the charge back only if no retain was
 * booked since before the release, for that one saw the context charged and counts on it.
 */
#include "account/primary.h"

#include <pthread.h>

#include "region/region.h"

static struct {
	pthread_mutex_t mutex;
	struct primary {
		uint64_t context;
		uint64_t retain_count; /* ever */
		bool charged;
	} gpus[BERTH_GPU_MAX];
} primaries = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static bool valid(int gpu)
{
	return gpu >= 0 && gpu < BERTH_GPU_MAX;
}

bool berth_primary_charged(int gpu)
{
	bool charged;

	if (!valid(gpu))
		return true;
	pthread_mutex_lock(&primaries.mutex);
	charged = primaries.gpus[gpu].charged;
	pthread_mutex_unlock(&primaries.mutex);
	return charged;
}

bool berth_primary_retained(int gpu, uint64_t context)
{
	struct primary *primary;
	bool first;

	if (!valid(gpu))
		return false;
	pthread_mutex_lock(&primaries.mutex);
	primary = &primaries.gpus[gpu];
	first = !primary->charged;
	primary->charged = true;
	primary->context = context;
	primary->retain_count++;
	pthread_mutex_unlock(&primaries.mutex);
	return first;
}

uint64_t berth_primary_token(int gpu)
{
	uint64_t token;

	if (!valid(gpu))
		return 0;
	pthread_mutex_lock(&primaries.mutex);
	token = primaries.gpus[gpu].retain_count;
	pthread_mutex_unlock(&primaries.mutex);
	return token;
}

bool berth_primary_gone(int gpu, uint64_t token, uint64_t *ret_context)
{
	struct primary *primary;
	bool gone;

	if (!valid(gpu))
		return false;
	pthread_mutex_lock(&primaries.mutex);
	primary = &primaries.gpus[gpu];
	gone = primary->charged && primary->retain_count == token;
	if (gone) {
		primary->charged = false;
		*ret_context = primary->context;
	}
	pthread_mutex_unlock(&primaries.mutex);
	return gone;
}

void berth_primary_forget(void)
{
	primaries.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (int gpu = 0; gpu < BERTH_GPU_MAX; gpu++)
		primaries.gpus[gpu] = (struct primary){ 0 };
}
