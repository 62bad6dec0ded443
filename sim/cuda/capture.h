/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream capture: what a stream is asked to do becomes nodes of a graph. stream.h has the part that
 * files with asynchronous operations need; this one is for streams, events and launches.
 */
#ifndef BERTH_SIM_CUDA_CAPTURE_H
#define BERTH_SIM_CUDA_CAPTURE_H

#include "driver/cuda_types.h"
#include "sim/cuda/stream_state.h"

struct sim_event;
struct sim_graph;
struct sim_launch;

struct sim_capture_info {
	CUstreamCaptureStatus status;
	uint64_t id;
	struct sim_graph *graph;
	const CUgraphNode *nodes; /* good until the next call on the stream */
	size_t nodes_count;
};

/* A graph of its own, or one of the program's with nodes to begin after. */
CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode,
			   struct sim_graph *graph, const CUgraphNode *nodes, size_t count);
CUresult sim_capture_end(struct sim_stream *stream, CUgraph *ret_graph);
void sim_capture_look(struct sim_stream *stream, struct sim_capture_info *ret_info);
CUresult sim_capture_set_nodes(struct sim_stream *stream, const CUgraphNode *nodes, size_t count,
			       bool add);
/* The stream ends: it leaves its capture, which ends without a graph if it began there. */
void sim_capture_abandon(struct sim_stream *stream);
/* What this thread's calls may do to captures; returns what it was. */
CUstreamCaptureMode sim_capture_exchange_mode(CUstreamCaptureMode mode);
/* Would work on the context's legacy stream wait for a capturing one? STREAM_CAPTURE_IMPLICIT. */
CUresult sim_capture_check_legacy(const struct sim_context *context);

/* The event becomes a place in the capture that other streams can join at. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event);
/* The stream joins the event's capture, or a capturing stream meets an event from outside. */
CUresult sim_capture_follow(struct sim_stream *stream, struct sim_event *event);
CUresult sim_capture_launch(struct sim_stream *stream, const struct sim_launch *launch);
CUresult sim_capture_host(struct sim_stream *stream, const CUDA_HOST_NODE_PARAMS *host);
/* Something that can't be captured was asked of a capturing stream: the capture is invalid now. */
CUresult sim_capture_refuse(struct sim_stream *stream);

#endif
