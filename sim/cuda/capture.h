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
struct sim_function;
struct sim_launch;

/* The event becomes a place in the capture that other streams can join at. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event);
/* The stream joins the event's capture, or a capturing stream meets an event from outside. */
CUresult sim_capture_follow(struct sim_stream *stream, struct sim_event *event);
CUresult sim_capture_launch(struct sim_stream *stream, const struct sim_launch *launch);
CUresult sim_capture_host(struct sim_stream *stream, const CUDA_HOST_NODE_PARAMS *host);
/* Something that can't be captured was asked of a capturing stream: the capture is invalid now. */
CUresult sim_capture_refuse(struct sim_stream *stream);

#endif
