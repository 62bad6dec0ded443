/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of streams, events, launches, capture and graphs share; others use stream.h.
 *
 * A stream's position is a pair: the mark of its last work in the GPU's timeline (device_time.h),
 * and the number of the last host function in it (host_work.h; "gate"). Work is done when both are
 * reached. Since a process's work on one GPU is served in the order it came, order between streams
 * needs no queue: waiting for another stream's event is taking the greater of the two positions.
 *
 * The legacy stream and the blocking streams of a context follow each other: joined is the
 * position after all blocking streams, legacy that of the legacy stream.
 */
#ifndef BERTH_SIM_CUDA_STREAM_STATE_H
#define BERTH_SIM_CUDA_STREAM_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/cuda/context.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/stream.h"

/* How much work a stream takes before the call that adds more blocks. */
#define SIM_STREAM_DEPTH      1024U
#define SIM_PRIORITY_LEAST    0
#define SIM_PRIORITY_GREATEST (-5)

struct sim_capture; /* capture.h */

struct sim_position {
	uint64_t mark;
	uint64_t gate;
};

struct sim_stream {
	struct sim_handle handle;
	struct sim_context *context;
	uint64_t incarnation; /* of the context */
	unsigned gpu;
	unsigned flags;
	int priority;
	uint64_t id;
	bool is_legacy;
	struct sim_stream *next; /* in its context's list */
	CUstreamAttrValue attributes[16];
	_Atomic(struct sim_capture *) capture;
	/* where the stream stands in its capture; guarded by the captures' lock */
	CUgraphNode *capture_nodes;
	size_t capture_nodes_count;
	/* guarded by the context's streams' lock */
	struct sim_position at;
	uint64_t depth_count;
	uint64_t *depth; /* marks of the last SIM_STREAM_DEPTH works that took time */
};

/* parts[SIM_PART_STREAM] of a context. */
struct sim_streams {
	pthread_mutex_t lock;
	struct sim_stream *legacy;
	struct sim_stream *all;
	struct sim_position joined; /* all blocking streams and the legacy one */
	struct sim_position everything;
};

static inline struct sim_position sim_position_max(struct sim_position a, struct sim_position b)
{
	return (struct sim_position){
		.mark = a.mark > b.mark ? a.mark : b.mark,
		.gate = a.gate > b.gate ? a.gate : b.gate,
	};
}

CUresult sim_streams_of(struct sim_context *context, struct sim_streams **ret_streams);
/* A new one in the context's list; flags and priority are good. */
CUresult sim_stream_make(struct sim_context *context, unsigned flags, int priority,
			 struct sim_stream **ret_stream);
void sim_stream_end_life(struct sim_stream *stream);

/* Where work added to the stream now would stand (after what it has to follow). */
struct sim_position sim_stream_position(struct sim_stream *stream);
/* Where the work it has stands. */
struct sim_position sim_stream_own_position(struct sim_stream *stream);
/* The stream goes on only after that position. */
void sim_stream_follow(struct sim_stream *stream, struct sim_position position);
/* Wait for a position; the calling thread must not be a host function's. */
CUresult sim_position_wait(unsigned gpu, struct sim_position position);
bool sim_position_reached(unsigned gpu, struct sim_position position);

/* Both forms of an export whose NULL stream differs; `form` is known in the expression. */
#define SIM_STREAM_FORMS(name, params, expression)         \
	SIM_EXPORT CUresult name params                    \
	{                                                  \
		const enum sim_form form = SIM_FORM_plain; \
		SIM_ENTER(name);                           \
		return SIM_LEAVE(expression);              \
	}                                                  \
	SIM_EXPORT CUresult name##_ptsz params             \
	{                                                  \
		const enum sim_form form = SIM_FORM_ptsz;  \
		SIM_ENTER(name##_ptsz);                    \
		return SIM_LEAVE(expression);              \
	}

/* An export without forms. */
#define SIM_FUNCTION(name, params, expression) \
	SIM_EXPORT CUresult name params        \
	{                                      \
		SIM_ENTER(name);               \
		return SIM_LEAVE(expression);  \
	}

#endif
