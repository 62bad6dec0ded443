/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures in progress. One lock guards all of them, the places of their streams and the graphs
 * while they are captured into. A capture ends with sim_capture_end, or its context; when something
 * forbidden was done meanwhile it is invalid and ends without a graph.
 *
 * Lock order: an event's lock before this one.
 */
#include "sim/cuda/capture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cuda/event.h"
#include "sim/cuda/graph.h"

struct sim_capture {
	struct sim_capture *next;
	uint64_t id;
	CUstreamCaptureMode mode;
	pid_t thread;
	struct sim_stream *origin;
	struct sim_graph *graph;
	bool is_given; /* the graph is the program's own */
	bool is_invalid;
	struct sim_stream **streams; /* all that are in it */
	size_t streams_count;
};

static struct captures {
	pthread_mutex_t lock;
	_Atomic uint32_t count; /* those in progress: 0 lets others skip the lock */
	struct sim_capture *first;
	uint64_t last_id;
} captures_ = { .lock = PTHREAD_MUTEX_INITIALIZER };

static __thread CUstreamCaptureMode thread_mode_ = CU_STREAM_CAPTURE_MODE_GLOBAL;

static struct sim_capture *capture_of(const struct sim_stream *stream)
{
	return atomic_load_explicit(&stream->capture, memory_order_acquire);
}

bool sim_stream_is_capturing(const struct sim_stream *stream)
{
	return capture_of(stream) != NULL;
}

static bool forbids(const struct sim_capture *capture)
{
	bool is_own = capture->thread == gettid();

	if (thread_mode_ == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (is_own)
		return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return thread_mode_ == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_forbid(void)
{
	CUresult err = CUDA_SUCCESS;

	if (__builtin_expect(!atomic_load_explicit(&captures_.count, memory_order_relaxed), 1))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&captures_.lock);
	for (struct sim_capture *capture = captures_.first; capture; capture = capture->next) {
		if (forbids(capture)) {
			capture->is_invalid = true;
			err = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	pthread_mutex_unlock(&captures_.lock);
	return err;
}

CUresult sim_capture_check_legacy(const struct sim_context *context)
{
	CUresult err = CUDA_SUCCESS;

	if (__builtin_expect(!atomic_load_explicit(&captures_.count, memory_order_relaxed), 1))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&captures_.lock);
	for (struct sim_capture *capture = captures_.first; capture; capture = capture->next) {
		if (capture->origin->context == context &&
		    !(capture->origin->flags & CU_STREAM_NON_BLOCKING)) {
			capture->is_invalid = true;
			err = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	}
	pthread_mutex_unlock(&captures_.lock);
	return err;
}

CUstreamCaptureMode sim_capture_exchange_mode(CUstreamCaptureMode mode)
{
	CUstreamCaptureMode old = thread_mode_;

	thread_mode_ = mode;
	return old;
}

static CUresult set_nodes_locked(struct sim_stream *stream, const CUgraphNode *nodes, size_t count)
{
	CUgraphNode *copy = malloc((count ? count : 1) * sizeof(*copy));

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (count)
		memcpy(copy, nodes, count * sizeof(*copy));
	free(stream->capture_nodes);
	stream->capture_nodes = copy;
	stream->capture_nodes_count = count;
	return CUDA_SUCCESS;
}

static CUresult add_nodes_locked(struct sim_stream *stream, const CUgraphNode *nodes, size_t count)
{
	size_t have = stream->capture_nodes_count;
	CUgraphNode *all = malloc((have + count + 1) * sizeof(*all));
	CUresult err;

	if (!all)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(all, stream->capture_nodes, have * sizeof(*all));
	for (size_t i = 0; i < count; i++) {
		bool known = false;

		for (size_t k = 0; k < have; k++)
			known = known || all[k] == nodes[i];
		if (!known)
			all[have++] = nodes[i];
	}
	err = set_nodes_locked(stream, all, have);
	free(all);
	return err;
}

static CUresult join_locked(struct sim_capture *capture, struct sim_stream *stream,
			    const CUgraphNode *nodes, size_t count)
{
	struct sim_stream **streams = realloc(
		capture->streams, (capture->streams_count + 1) * sizeof(struct sim_stream *));
	CUresult err;

	if (!streams)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->streams = streams;
	err = set_nodes_locked(stream, nodes, count);
	if (err != CUDA_SUCCESS)
		return err;
	streams[capture->streams_count++] = stream;
	atomic_store_explicit(&stream->capture, capture, memory_order_release);
	return CUDA_SUCCESS;
}

static struct sim_capture *capture_new(struct sim_stream *stream, CUstreamCaptureMode mode)
{
	struct sim_capture *capture = calloc(1, sizeof(*capture));

	if (!capture)
		return NULL;
	capture->mode = mode;
	capture->thread = gettid();
	capture->origin = stream;
	return capture;
}

static CUresult begin_locked(struct sim_capture *capture, struct sim_stream *stream,
			     const CUgraphNode *nodes, size_t count)
{
	CUresult err = join_locked(capture, stream, nodes, count);

	if (err != CUDA_SUCCESS)
		return err;
	capture->id = ++captures_.last_id;
	capture->next = captures_.first;
	captures_.first = capture;
	atomic_fetch_add(&captures_.count, 1);
	return CUDA_SUCCESS;
}

CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode,
			   struct sim_graph *graph, const CUgraphNode *nodes, size_t count)
{
	struct sim_capture *capture;
	CUresult err = CUDA_SUCCESS;

	if (stream->is_legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (sim_stream_is_capturing(stream))
		return CUDA_ERROR_ILLEGAL_STATE;
	capture = capture_new(stream, mode);
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->is_given = graph != NULL;
	capture->graph = graph;
	if (!graph)
		err = sim_graph_new(&capture->graph);
	if (err == CUDA_SUCCESS) {
		pthread_mutex_lock(&captures_.lock);
		err = begin_locked(capture, stream, nodes, count);
		pthread_mutex_unlock(&captures_.lock);
	}
	if (err != CUDA_SUCCESS) {
		if (!capture->is_given)
			sim_graph_free(capture->graph);
		free(capture->streams);
		free(capture);
	}
	return err;
}

/* Does everything that was captured lead to where the origin stands? */
static bool is_joined_locked(const struct sim_capture *capture)
{
	const struct sim_stream *origin = capture->origin;

	for (struct sim_graph_node *node = capture->graph->first; node; node = node->next) {
		bool leads = false;

		for (size_t i = 0; i < origin->capture_nodes_count; i++)
			leads = leads || (struct sim_graph_node *)origin->capture_nodes[i] == node;
		for (struct sim_graph_node *later = capture->graph->first; later && !leads;
		     later = later->next) {
			for (size_t i = 0; i < later->dependencies_count; i++)
				leads = leads || later->dependencies[i] == node;
		}
		if (!leads)
			return false;
	}
	return true;
}

/* Take it out of the list and its streams out of it. */
static void finish_locked(struct sim_capture *capture)
{
	struct sim_capture **link = &captures_.first;

	while (*link != capture)
		link = &(*link)->next;
	*link = capture->next;
	atomic_fetch_sub(&captures_.count, 1);
	for (size_t i = 0; i < capture->streams_count; i++) {
		atomic_store_explicit(&capture->streams[i]->capture, NULL, memory_order_release);
		free(capture->streams[i]->capture_nodes);
		capture->streams[i]->capture_nodes = NULL;
		capture->streams[i]->capture_nodes_count = 0;
	}
}

static CUresult check_end_locked(const struct sim_capture *capture, const struct sim_stream *stream)
{
	if (capture->origin != stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != gettid())
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	return CUDA_SUCCESS;
}

CUresult sim_capture_end(struct sim_stream *stream, CUgraph *ret_graph)
{
	struct sim_capture *capture;
	CUresult err;

	pthread_mutex_lock(&captures_.lock);
	capture = capture_of(stream);
	err = capture ? check_end_locked(capture, stream) : CUDA_ERROR_ILLEGAL_STATE;
	if (err != CUDA_SUCCESS) {
		if (capture && err == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
			capture->is_invalid = true;
		pthread_mutex_unlock(&captures_.lock);
		return err;
	}
	if (capture->is_invalid)
		err = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!is_joined_locked(capture))
		err = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	finish_locked(capture);
	pthread_mutex_unlock(&captures_.lock);

	*ret_graph = err == CUDA_SUCCESS ? (CUgraph)capture->graph : NULL;
	if (err != CUDA_SUCCESS && !capture->is_given)
		sim_graph_free(capture->graph);
	free(capture->streams);
	free(capture);
	return err;
}

static void leave_locked(struct sim_capture *capture, const struct sim_stream *stream)
{
	for (size_t i = 0; i < capture->streams_count; i++) {
		if (capture->streams[i] == stream) {
			capture->streams[i] = capture->streams[--capture->streams_count];
			break;
		}
	}
	capture->is_invalid = true; /* what it captured can't be joined any more */
}

void sim_capture_abandon(struct sim_stream *stream)
{
	struct sim_capture *capture, *ended = NULL;

	pthread_mutex_lock(&captures_.lock);
	capture = capture_of(stream);
	if (capture && capture->origin == stream) {
		finish_locked(capture);
		ended = capture;
	} else if (capture) {
		leave_locked(capture, stream);
		atomic_store_explicit(&stream->capture, NULL, memory_order_release);
	}
	pthread_mutex_unlock(&captures_.lock);
	if (!ended)
		return;
	if (!ended->is_given)
		sim_graph_free(ended->graph);
	free(ended->streams);
	free(ended);
}

void sim_capture_look(struct sim_stream *stream, struct sim_capture_info *ret_info)
{
	const struct sim_capture *capture;

	*ret_info = (struct sim_capture_info){ .status = CU_STREAM_CAPTURE_STATUS_NONE };
	pthread_mutex_lock(&captures_.lock);
	capture = capture_of(stream);
	if (capture) {
		ret_info->status = capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
						       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
		ret_info->id = capture->id;
		ret_info->graph = capture->graph;
		ret_info->nodes = stream->capture_nodes;
		ret_info->nodes_count = stream->capture_nodes_count;
	}
	pthread_mutex_unlock(&captures_.lock);
}

CUresult sim_capture_set_nodes(struct sim_stream *stream, const CUgraphNode *nodes, size_t count,
			       bool add)
{
	const struct sim_capture *capture;
	CUresult err = CUDA_ERROR_ILLEGAL_STATE;

	pthread_mutex_lock(&captures_.lock);
	capture = capture_of(stream);
	if (capture && capture->is_invalid)
		err = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (capture)
		err = add ? add_nodes_locked(stream, nodes, count)
			  : set_nodes_locked(stream, nodes, count);
	pthread_mutex_unlock(&captures_.lock);
	return err;
}

CUresult sim_capture_refuse(struct sim_stream *stream)
{
	struct sim_capture *capture;

	pthread_mutex_lock(&captures_.lock);
	capture = capture_of(stream);
	if (capture)
		capture->is_invalid = true;
	pthread_mutex_unlock(&captures_.lock);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* The work as a node where the stream stands, and the stream behind it. Takes the work over. */
static CUresult add_node(struct sim_stream *stream, struct sim_work *work)
{
	struct sim_graph_node *node;
	struct sim_capture *capture;
	CUresult err = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

	pthread_mutex_lock(&captures_.lock);
	capture = capture_of(stream);
	if (capture && !capture->is_invalid) {
		CUgraphNode handle;

		err = sim_graph_add(capture->graph, stream->capture_nodes,
				    stream->capture_nodes_count, work, &node);
		handle = (CUgraphNode)node;
		if (err == CUDA_SUCCESS)
			err = set_nodes_locked(stream, &handle, 1);
	} else {
		sim_work_done(work);
	}
	pthread_mutex_unlock(&captures_.lock);
	return err;
}

CUresult sim_capture_copy(struct sim_stream *stream, const CUDA_MEMCPY3D *copy)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_MEMCPY, .copy = *copy };

	return add_node(stream, &work);
}

CUresult sim_capture_memset(struct sim_stream *stream, const CUDA_MEMSET_NODE_PARAMS *fill)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_MEMSET, .fill = *fill };

	return add_node(stream, &work);
}

CUresult sim_capture_host(struct sim_stream *stream, const CUDA_HOST_NODE_PARAMS *host)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_HOST, .host = *host };

	return add_node(stream, &work);
}

CUresult sim_capture_launch(struct sim_stream *stream, const struct sim_launch *launch)
{
	CUDA_KERNEL_NODE_PARAMS parameters = {
		.func = (CUfunction)launch->function,
		.gridDimX = launch->grid[0],
		.gridDimY = launch->grid[1],
		.gridDimZ = launch->grid[2],
		.blockDimX = launch->block[0],
		.blockDimY = launch->block[1],
		.blockDimZ = launch->block[2],
		.sharedMemBytes = launch->shared_bytes,
		.kernelParams = launch->parameters,
	};
	size_t bytes = launch->buffer_bytes;
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)launch->buffer,
			  CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END };
	struct sim_work work;
	CUresult err;

	parameters.extra = launch->buffer ? extra : NULL;
	err = sim_work_kernel(&work, &parameters, launch->is_cooperative);
	return err == CUDA_SUCCESS ? add_node(stream, &work) : err;
}

CUresult sim_capture_alloc(struct sim_stream *stream, CUmemoryPool pool, size_t bytes,
			   CUdeviceptr *ret_pointer)
{
	CUDA_MEM_ALLOC_NODE_PARAMS parameters = {
		.poolProps = {
			.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
				      .id = stream->context->device },
		},
		.bytesize = bytes,
	};
	struct sim_work work;
	CUdeviceptr pointer;
	CUresult err = sim_work_alloc(&work, stream->context, pool, &parameters);

	if (err != CUDA_SUCCESS)
		return err;
	pointer = work.memory->pointer;
	err = add_node(stream, &work);
	if (err == CUDA_SUCCESS)
		*ret_pointer = pointer;
	return err;
}

CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr pointer)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_MEM_FREE, .pointer = pointer };

	return add_node(stream, &work);
}

CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event)
{
	const struct sim_capture *capture;
	CUresult err = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

	pthread_mutex_lock(&event->lock);
	pthread_mutex_lock(&captures_.lock);
	capture = capture_of(stream);
	if (capture && !capture->is_invalid) {
		size_t count = stream->capture_nodes_count;
		CUgraphNode *nodes = malloc((count ? count : 1) * sizeof(*nodes));

		err = nodes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		if (nodes) {
			memcpy(nodes, stream->capture_nodes, count * sizeof(*nodes));
			free(event->nodes);
			event->nodes = nodes;
			event->nodes_count = count;
			event->capture_id = capture->id;
			event->state = SIM_EVENT_CAPTURED;
		}
	}
	pthread_mutex_unlock(&captures_.lock);
	pthread_mutex_unlock(&event->lock);
	return err;
}

static struct sim_capture *find_locked(uint64_t id)
{
	struct sim_capture *capture;

	for (capture = captures_.first; capture && capture->id != id; capture = capture->next)
		continue;
	return capture;
}

/* The event was captured: the stream joins, or is in the same capture already. */
static CUresult follow_captured_locked(struct sim_stream *stream, struct sim_event *event)
{
	struct sim_capture *theirs = find_locked(event->capture_id);
	struct sim_capture *own = capture_of(stream);

	if (!theirs)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (theirs->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (own == theirs)
		return add_nodes_locked(stream, event->nodes, event->nodes_count);
	if (own) {
		own->is_invalid = true;
		theirs->is_invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (stream->is_legacy) {
		theirs->is_invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	return join_locked(theirs, stream, event->nodes, event->nodes_count);
}

CUresult sim_capture_follow(struct sim_stream *stream, struct sim_event *event)
{
	struct sim_capture *own;
	CUresult err = CUDA_SUCCESS;

	pthread_mutex_lock(&event->lock);
	pthread_mutex_lock(&captures_.lock);
	own = capture_of(stream);
	if (event->state == SIM_EVENT_CAPTURED) {
		err = follow_captured_locked(stream, event);
	} else if (own && event->state != SIM_EVENT_EMPTY) {
		own->is_invalid = true;
		err = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	pthread_mutex_unlock(&captures_.lock);
	pthread_mutex_unlock(&event->lock);
	return err;
}
