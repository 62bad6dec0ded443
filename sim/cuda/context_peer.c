/* SPDX-License-Identifier: Apache-2.0
 *
 * Access of a context to another device's memory. Every pair of different GPUs can have it.
 */
#include <pthread.h>

#include "sim/cuda/context_internal.h"
#include "sim/cuda/entry.h"

#define PEERS_MAX (sizeof(((struct sim_context *)0)->peers) / sizeof(struct sim_context *))

static pthread_mutex_t peers_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Index, or -1. Peers that ended are forgotten on the way. */
static int peer_find_locked(struct sim_context *context, const struct sim_context *peer)
{
	int found = -1;

	for (unsigned i = 0; i < context->peer_count; i++) {
		if (!sim_context_is_alive(context->peers[i]))
			context->peers[i--] = context->peers[--context->peer_count];
		else if (context->peers[i] == peer)
			found = (int)i;
	}
	return found;
}

static CUresult peers_of_call(CUcontext handle, struct sim_context **ret_current,
			      struct sim_context **ret_peer)
{
	CUresult result;

	result = sim_context_current(ret_current);
	if (result == CUDA_SUCCESS)
		result = sim_context_get(handle, false, ret_peer);
	return result == CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult peer_enable(CUcontext handle, unsigned flags)
{
	struct sim_context *context;
	struct sim_context *peer;
	CUresult result;

	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = peers_of_call(handle, &context, &peer);
	if (result != CUDA_SUCCESS)
		return result;
	if (context == peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context->gpu == peer->gpu)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	pthread_mutex_lock(&peers_mutex);
	if (peer_find_locked(context, peer) >= 0)
		result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	else if (context->peer_count == PEERS_MAX)
		result = CUDA_ERROR_TOO_MANY_PEERS;
	else
		context->peers[context->peer_count++] = peer;
	pthread_mutex_unlock(&peers_mutex);
	return result;
}

SIM_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer_context, unsigned int flags)
{
	SIM_ENTER(cuCtxEnablePeerAccess);
	return SIM_LEAVE(peer_enable(peer_context, flags));
}

static CUresult peer_disable(CUcontext handle)
{
	struct sim_context *context;
	struct sim_context *peer;
	CUresult result;
	int index;

	result = peers_of_call(handle, &context, &peer);
	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&peers_mutex);
	index = peer_find_locked(context, peer);
	if (index >= 0)
		context->peers[index] = context->peers[--context->peer_count];
	pthread_mutex_unlock(&peers_mutex);
	return index >= 0 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

SIM_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer_context)
{
	SIM_ENTER(cuCtxDisablePeerAccess);
	return SIM_LEAVE(peer_disable(peer_context));
}
