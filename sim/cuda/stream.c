/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams as the other files use them; stream_state.h says how order is kept. A context's
 * struct sim_streams stays allocated after the context's end: a thread that is just in a call on
 * one of its streams must find a dead stream, not freed memory.
 */
#include "sim/cuda/stream.h"

#include <errno.h>
#include <stdlib.h>

#include "sim/cuda/capture.h"
#include "sim/cuda/event.h"
#include "sim/cuda/host_work.h"
#include "sim/cuda/stream_state.h"
#include "sim/node/device_time.h"

/* A thread's own default stream in one context. */
struct own_stream {
	struct own_stream *next;
	struct sim_stream *stream;
	struct sim_context *context;
	uint64_t incarnation;
};

static __thread struct own_stream *own_streams_;
static _Atomic uint64_t last_id_;
static _Atomic uint64_t copy_bytes_per_us_ = UINT64_MAX; /* not read from the environment yet */

static uint64_t incarnation_of(const struct sim_context *context)
{
	return atomic_load_explicit(&context->incarnation, memory_order_relaxed);
}

static struct sim_streams *streams_of(const struct sim_stream *stream)
{
	return atomic_load_explicit(&stream->context->parts[SIM_PART_STREAM], memory_order_acquire);
}

static void streams_link(struct sim_streams *streams, struct sim_stream *stream)
{
	pthread_mutex_lock(&streams->lock);
	stream->next = streams->all;
	streams->all = stream;
	pthread_mutex_unlock(&streams->lock);
}

static struct sim_stream *stream_new(struct sim_context *context, unsigned flags, int priority)
{
	struct sim_stream *stream = sim_handle_new(SIM_HANDLE_STREAM, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->context = context;
	stream->incarnation = incarnation_of(context);
	stream->gpu = context->gpu;
	stream->flags = flags;
	stream->priority = priority;
	stream->id = atomic_fetch_add(&last_id_, 1) + 1;
	return stream;
}

static struct sim_streams *streams_new(struct sim_context *context)
{
	struct sim_streams *streams = calloc(1, sizeof(*streams));

	if (!streams)
		return NULL;
	pthread_mutex_init(&streams->lock, NULL);
	streams->legacy = stream_new(context, CU_STREAM_DEFAULT, SIM_PRIORITY_LEAST);
	if (!streams->legacy) {
		free(streams);
		return NULL;
	}
	streams->legacy->is_legacy = true;
	streams->all = streams->legacy;
	return streams;
}

CUresult sim_streams_of(struct sim_context *context, struct sim_streams **ret_streams)
{
	_Atomic(void *) *part = &context->parts[SIM_PART_STREAM];
	struct sim_streams *streams = atomic_load_explicit(part, memory_order_acquire);
	void *none = NULL;

	if (!streams) {
		if (sim_time_open() != 0)
			return CUDA_ERROR_SYSTEM_NOT_READY;
		streams = streams_new(context);
		if (!streams)
			return CUDA_ERROR_OUT_OF_MEMORY;
		if (!atomic_compare_exchange_strong(part, &none, streams)) {
			sim_handle_free(streams->legacy);
			free(streams);
			streams = none;
		}
	}
	*ret_streams = streams;
	return CUDA_SUCCESS;
}

CUresult sim_stream_make(struct sim_context *context, unsigned flags, int priority,
			 struct sim_stream **ret_stream)
{
	struct sim_streams *streams;
	struct sim_stream *stream;
	CUresult err = sim_streams_of(context, &streams);

	if (err != CUDA_SUCCESS)
		return err;
	stream = stream_new(context, flags, priority);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	streams_link(streams, stream);
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

void sim_stream_end_life(struct sim_stream *stream)
{
	struct sim_streams *streams = streams_of(stream);
	struct sim_stream **link;

	sim_capture_abandon(stream);
	pthread_mutex_lock(&streams->lock);
	for (link = &streams->all; *link && *link != stream; link = &(*link)->next)
		continue;
	if (*link)
		*link = stream->next;
	free(stream->depth);
	free(stream->capture_nodes);
	stream->depth = NULL;
	stream->capture_nodes = NULL;
	pthread_mutex_unlock(&streams->lock);
	sim_handle_free(stream);
}

static CUresult own_stream(struct sim_context *context, struct sim_stream **ret_stream)
{
	struct own_stream *own;
	CUresult err;

	for (own = own_streams_; own; own = own->next) {
		if (own->context == context && own->incarnation == incarnation_of(context)) {
			*ret_stream = own->stream;
			return CUDA_SUCCESS;
		}
	}
	own = calloc(1, sizeof(*own));
	if (!own)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = sim_stream_make(context, CU_STREAM_DEFAULT, SIM_PRIORITY_LEAST, &own->stream);
	if (err != CUDA_SUCCESS) {
		free(own);
		return err;
	}
	own->context = context;
	own->incarnation = incarnation_of(context);
	own->next = own_streams_;
	own_streams_ = own;
	*ret_stream = own->stream;
	return CUDA_SUCCESS;
}

CUresult sim_stream_get(CUstream handle, enum sim_form form, struct sim_stream **ret_stream)
{
	struct sim_context *context;
	struct sim_streams *streams;
	struct sim_stream *stream;
	CUresult err;

	if (sim_host_work_is_here())
		return CUDA_ERROR_NOT_PERMITTED;
	err = sim_context_current(&context);
	if (err != CUDA_SUCCESS)
		return err;
	if (!handle)
		handle = form == SIM_FORM_plain ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
	if (handle == CU_STREAM_PER_THREAD)
		return own_stream(context, ret_stream);
	if (handle == CU_STREAM_LEGACY) {
		err = sim_streams_of(context, &streams);
		if (err == CUDA_SUCCESS)
			*ret_stream = streams->legacy;
		return err;
	}
	stream = sim_handle_get(SIM_HANDLE_STREAM, handle);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!sim_context_is_alive(stream->context) ||
	    incarnation_of(stream->context) != stream->incarnation)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

struct sim_context *sim_stream_context(const struct sim_stream *stream)
{
	return stream->context;
}

static bool is_joining(const struct sim_stream *stream)
{
	return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

static struct sim_position position_locked(const struct sim_streams *streams,
					   const struct sim_stream *stream)
{
	if (stream->is_legacy)
		return sim_position_max(stream->at, streams->joined);
	if (is_joining(stream))
		return sim_position_max(stream->at, streams->legacy->at);
	return stream->at;
}

static void move_locked(struct sim_streams *streams, struct sim_stream *stream,
			struct sim_position position)
{
	stream->at = sim_position_max(position_locked(streams, stream), position);
	if (is_joining(stream))
		streams->joined = sim_position_max(streams->joined, stream->at);
	streams->everything = sim_position_max(streams->everything, stream->at);
}

struct sim_position sim_stream_position(struct sim_stream *stream)
{
	struct sim_streams *streams = streams_of(stream);
	struct sim_position position;

	pthread_mutex_lock(&streams->lock);
	position = position_locked(streams, stream);
	pthread_mutex_unlock(&streams->lock);
	return position;
}

void sim_stream_follow(struct sim_stream *stream, struct sim_position position)
{
	struct sim_streams *streams = streams_of(stream);

	pthread_mutex_lock(&streams->lock);
	move_locked(streams, stream, position);
	pthread_mutex_unlock(&streams->lock);
}

CUresult sim_position_wait(unsigned gpu, struct sim_position position)
{
	CUresult err = sim_host_work_wait(position.gate);

	if (err == CUDA_SUCCESS && position.mark)
		sim_time_wait(gpu, position.mark);
	return err;
}

bool sim_position_reached(unsigned gpu, struct sim_position position)
{
	uint64_t when;

	return sim_host_work_done(position.gate) &&
	       (!position.mark || sim_time_done(gpu, position.mark, &when));
}

CUresult sim_stream_begin(struct sim_stream *stream)
{
	CUresult err = CUDA_SUCCESS;

	if (stream->is_legacy)
		err = sim_capture_check_legacy(stream->context);
	if (err == CUDA_SUCCESS)
		err = sim_host_work_wait(sim_stream_position(stream).gate);
	return err;
}

/* Remember the mark; the one that was added SIM_STREAM_DEPTH works ago, or 0. */
static uint64_t depth_push_locked(struct sim_stream *stream, uint64_t mark)
{
	uint64_t *slot;
	uint64_t old;

	if (!stream->depth)
		stream->depth = calloc(SIM_STREAM_DEPTH, sizeof(*stream->depth));
	if (!stream->depth)
		return mark; /* without memory for a queue there is none */
	slot = &stream->depth[stream->depth_count++ % SIM_STREAM_DEPTH];
	old = *slot;
	*slot = mark;
	return old;
}

void sim_stream_end(struct sim_stream *stream, uint64_t cost_ns)
{
	struct sim_streams *streams = streams_of(stream);
	struct sim_position position = { 0, 0 };
	uint64_t full_mark = 0;
	uint64_t now;

	if (cost_ns)
		position.mark = sim_time_submit(stream->gpu, cost_ns, &now);
	pthread_mutex_lock(&streams->lock);
	move_locked(streams, stream, position);
	if (cost_ns)
		full_mark = depth_push_locked(stream, position.mark);
	pthread_mutex_unlock(&streams->lock);
	if (full_mark)
		sim_time_wait(stream->gpu, full_mark);
	if (cost_ns)
		sim_events_settle(stream->gpu);
}

struct sim_position sim_stream_own_position(struct sim_stream *stream)
{
	struct sim_streams *streams = streams_of(stream);
	struct sim_position position;

	pthread_mutex_lock(&streams->lock);
	position = stream->is_legacy ? position_locked(streams, stream) : stream->at;
	pthread_mutex_unlock(&streams->lock);
	return position;
}

CUresult sim_stream_drain(struct sim_stream *stream)
{
	if (sim_host_work_is_here())
		return CUDA_ERROR_NOT_PERMITTED;
	return sim_position_wait(stream->gpu, sim_stream_own_position(stream));
}

CUresult sim_stream_drain_context(struct sim_context *context)
{
	struct sim_streams *streams =
		atomic_load_explicit(&context->parts[SIM_PART_STREAM], memory_order_acquire);
	struct sim_position position;

	if (sim_host_work_is_here())
		return CUDA_ERROR_NOT_PERMITTED;
	if (!streams)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&streams->lock);
	position = streams->everything;
	pthread_mutex_unlock(&streams->lock);
	return sim_position_wait(context->gpu, position);
}

uint64_t sim_stream_copy_ns(size_t bytes)
{
	uint64_t rate = atomic_load_explicit(&copy_bytes_per_us_, memory_order_relaxed);

	if (rate == UINT64_MAX) {
		const char *text = getenv("BERTH_SIM_COPY_GBPS");

		/* GB/s is 1000 bytes per us */
		rate = text ? strtoull(text, NULL, 10) * 1000U : 0;
		atomic_store_explicit(&copy_bytes_per_us_, rate, memory_order_relaxed);
	}
	return rate ? (uint64_t)bytes * 1000U / rate : 0;
}

static void end_context(struct sim_context *context)
{
	struct sim_streams *streams =
		atomic_load_explicit(&context->parts[SIM_PART_STREAM], memory_order_acquire);

	if (!streams)
		return;
	/* In a host function nothing can be waited for: what is queued stays queued. */
	(void)sim_stream_drain_context(context);
	while (streams->all)
		sim_stream_end_life(streams->all);
	atomic_store(&context->parts[SIM_PART_STREAM], NULL);
}

__attribute__((constructor)) static void watch_contexts(void)
{
	sim_context_on_end(SIM_PART_STREAM, end_context);
}
