/* SPDX-License-Identifier: Apache-2.0
 *
 * Events: positions of streams that were written down, with the device time when they were reached.
 */
#ifndef BERTH_SIM_CUDA_EVENT_H
#define BERTH_SIM_CUDA_EVENT_H

#include <pthread.h>

#include "driver/cuda_types.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/stream_state.h"

enum sim_event_state {
	SIM_EVENT_EMPTY = 0, /* never recorded: counts as done, but has no time */
	SIM_EVENT_RECORDED,
	SIM_EVENT_DONE,     /* recorded and reached: when_ns is known */
	SIM_EVENT_CAPTURED, /* last recorded in a capturing stream */
};

struct sim_event {
	struct sim_handle handle;
	struct sim_context *context;
	uint64_t incarnation; /* of the context */
	unsigned flags;
	pthread_mutex_t lock; /* guards what follows */
	enum sim_event_state state;
	unsigned gpu;
	struct sim_position position;
	uint64_t recorded_ns; /* device time of the call */
	uint64_t when_ns;
	/* captured: where in which capture (its number; it may have ended since) */
	uint64_t capture_id;
	CUgraphNode *nodes;
	size_t nodes_count;
};

/* INVALID_HANDLE, CONTEXT_IS_DESTROYED */
CUresult sim_event_get(CUevent handle, struct sim_event **ret_event);
CUresult sim_event_record(struct sim_event *event, struct sim_stream *stream);
/* The stream goes on only after what the event last recorded; at once if it recorded nothing. */
CUresult sim_event_follow(struct sim_event *event, struct sim_stream *stream);

/* A GPU's timeline remembers only so much of its past: note the times of events reached since. */
void sim_events_settle(unsigned gpu);

#endif
