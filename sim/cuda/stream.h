/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: order and device time. Bytes are moved, and host functions of kernels run, by the
 * thread that makes the call, so a stream's work is done in the order of the calls; what the
 * stream adds is device time, which says when the program may *see* it done. The one thing that
 * runs later is a host function (cuLaunchHostFunc, callbacks): work that follows it on the stream
 * waits in the call until it has run.
 *
 * An asynchronous operation of any file:
 *
 *	err = sim_stream_get(handle, SIM_FORM_ptsz, &stream);
 *	if (err == CUDA_SUCCESS && sim_stream_is_capturing(stream))
 *		return sim_capture_copy(stream, &copy);
 *	if (err == CUDA_SUCCESS)
 *		err = sim_stream_begin(stream);         (earlier host functions have run now)
 *	if (err == CUDA_SUCCESS)
 *		... move the bytes ...
 *		sim_stream_end(stream, sim_stream_copy_ns(bytes));
 *
 * A synchronous one: sim_capture_forbid(), then sim_stream_get(NULL, form, &stream),
 * sim_stream_drain(stream), the bytes, sim_stream_end, sim_stream_drain.
 */
#ifndef BERTH_SIM_CUDA_STREAM_H
#define BERTH_SIM_CUDA_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/cuda_types.h"
#include "sim/cuda/entry.h"

struct sim_context;
struct sim_stream;

/* The stream a handle names in a call of this form. NULL and CU_STREAM_LEGACY, _PER_THREAD belong
 * to the current context; an object to its own. INVALID_CONTEXT, CONTEXT_IS_DESTROYED,
 * INVALID_HANDLE; NOT_PERMITTED in a host function. The pointer is never given back to the
 * allocator. */
CUresult sim_stream_get(CUstream handle, enum sim_form form, struct sim_stream **ret_stream);
struct sim_context *sim_stream_context(const struct sim_stream *stream);

/* Earlier host functions of the stream have run when it returns. */
CUresult sim_stream_begin(struct sim_stream *stream);
/* Queue cost_ns of device time (0 is good); blocks while too much is queued, as a driver does. */
void sim_stream_end(struct sim_stream *stream, uint64_t cost_ns);
/* Until all that was queued before is done. */
CUresult sim_stream_drain(struct sim_stream *stream);
/* All streams of the context. */
CUresult sim_stream_drain_context(struct sim_context *context);
/* Device time of a copy or a fill of so many bytes: by BERTH_SIM_COPY_GBPS; by default 0, since
 * moving the bytes takes its real time already. */
uint64_t sim_stream_copy_ns(size_t bytes);

/* ---- capture (capture.c) ---- */

bool sim_stream_is_capturing(const struct sim_stream *stream);
/* For calls that a capture by this thread (or a global one by any) forbids: cuMemAlloc, synchronous
 * copies and waits... CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid from then
 * on. CUDA_SUCCESS where nothing captures: one load. */
CUresult sim_capture_forbid(void);

/* What the stream was asked to do becomes a node of its capture's graph. */
CUresult sim_capture_copy(struct sim_stream *stream, const CUDA_MEMCPY3D *copy);
CUresult sim_capture_memset(struct sim_stream *stream, const CUDA_MEMSET_NODE_PARAMS *fill);
CUresult sim_capture_alloc(struct sim_stream *stream, CUmemoryPool pool, size_t bytes,
			   CUdeviceptr *ret_pointer);
CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr pointer);

#endif
