/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the context is alive is the driver's to say (it counts the references, and what a reset
 * does to them differs between versions). Here is only whether it is charged, and how many retains
 * were booked: a release that finds the context dead gives the charge back only if no retain was
 * booked since before the release, for that one saw the context charged and counts on it.
 *
 * A retain that found the context charged didn't look what it took. If, by the time it is booked, a
 * release has given the charge back, the context it holds is another one, made unmeasured: it is charged
 * what the last one was.
 */
#include "account/primary.h"

#include <pthread.h>

#include "account/account.h"
#include "account/books.h"

static struct {
	pthread_mutex_t mutex;
	struct primary {
		uint64_t context;
		uint64_t retain_count; /* ever */
		uint64_t charged_bytes;
		uint64_t last_bytes; /* of the last one that was measured */
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

void berth_primary_retained(int gpu, uint64_t context, uint64_t grown_bytes)
{
	struct primary *primary;

	if (!valid(gpu))
		return;
	pthread_mutex_lock(&primaries.mutex);
	primary = &primaries.gpus[gpu];
	if (grown_bytes)
		primary->last_bytes = grown_bytes;
	else if (!primary->charged)
		grown_bytes = primary->last_bytes;
	primary->charged = true;
	primary->context = context;
	primary->retain_count++;
	if (grown_bytes && !primary->charged_bytes) {
		primary->charged_bytes = grown_bytes;
		berth_account_charge(gpu, BERTH_CHARGE_CONTEXT, grown_bytes);
	}
	pthread_mutex_unlock(&primaries.mutex);
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
		/* Before another retain can be booked: the next context may have the same handle. */
		berth_books_context_gone(primary->context);
		if (primary->charged_bytes)
			berth_account_refund(gpu, BERTH_CHARGE_CONTEXT, primary->charged_bytes);
		primary->charged_bytes = 0;
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
