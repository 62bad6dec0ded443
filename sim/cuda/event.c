/* SPDX-License-Identifier: Apache-2.0
 *
 * See event.h. Locks: an event's own, taken alone or before the list of unsettled events.
 */
#include "sim/cuda/event.h"

#include <stdlib.h>

#include "sim/cuda/capture.h"
#include "sim/cuda/host_work.h"
#include "sim/node/device_time.h"
#include "sim/node/node.h"

#define EVENT_FLAGS \
	((unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS))
#define UNSETTLED 256U

/* Recorded, not yet seen done, by GPU in the order of their marks. A full ring forgets the oldest:
 * its time is then told from what the timeline remembers. */
struct unsettled {
	pthread_mutex_t lock;
	_Atomic uint64_t first;
	uint64_t end;
	struct {
		struct sim_event *event;
		struct sim_position position;
		uint64_t recorded_ns;
	} ring[UNSETTLED];
};

static struct unsettled unsettled_[SIM_GPU_MAX] = {
	[0 ... SIM_GPU_MAX - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER },
};

CUresult sim_event_get(CUevent handle, struct sim_event **ret_event)
{
	struct sim_event *event = sim_handle_get(SIM_HANDLE_EVENT, handle);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!sim_context_is_alive(event->context) ||
	    atomic_load(&event->context->incarnation) != event->incarnation)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_event = event;
	return CUDA_SUCCESS;
}

/* Done now? Its time is noted at the first sight. The event's lock is held. */
static bool look_locked(struct sim_event *event)
{
	uint64_t when = 0;

	if (event->state != SIM_EVENT_RECORDED)
		return true;
	if (!sim_host_work_done(event->position.gate))
		return false;
	if (event->position.mark && !sim_time_done(event->gpu, event->position.mark, &when))
		return false;
	event->when_ns = when > event->recorded_ns ? when : event->recorded_ns;
	event->state = SIM_EVENT_DONE;
	return true;
}

static void unsettled_add(struct sim_event *event)
{
	struct unsettled *list = &unsettled_[event->gpu];

	pthread_mutex_lock(&list->lock);
	list->ring[list->end % UNSETTLED].event = event;
	list->ring[list->end % UNSETTLED].position = event->position;
	list->ring[list->end % UNSETTLED].recorded_ns = event->recorded_ns;
	list->end++;
	if (list->end - atomic_load(&list->first) > UNSETTLED)
		atomic_fetch_add(&list->first, 1);
	pthread_mutex_unlock(&list->lock);
}

static bool is_recorded_at(const struct sim_event *event, struct sim_position position,
			   uint64_t recorded_ns)
{
	return event->state == SIM_EVENT_RECORDED && event->position.mark == position.mark &&
	       event->position.gate == position.gate && event->recorded_ns == recorded_ns;
}

/* The oldest one; false when there is none or it isn't done. */
static bool settle_one(struct unsettled *list)
{
	struct sim_event *event;
	struct sim_position position;
	uint64_t first, recorded_ns;
	bool done = true;

	pthread_mutex_lock(&list->lock);
	first = atomic_load(&list->first);
	if (first == list->end) {
		pthread_mutex_unlock(&list->lock);
		return false;
	}
	event = list->ring[first % UNSETTLED].event;
	position = list->ring[first % UNSETTLED].position;
	recorded_ns = list->ring[first % UNSETTLED].recorded_ns;
	pthread_mutex_unlock(&list->lock);

	/* Events are never given back to the allocator, but may be others by now. */
	pthread_mutex_lock(&event->lock);
	if (is_recorded_at(event, position, recorded_ns))
		done = look_locked(event);
	pthread_mutex_unlock(&event->lock);
	if (done)
		atomic_compare_exchange_strong(&list->first, &first, first + 1);
	return done;
}

void sim_events_settle(unsigned gpu)
{
	struct unsettled *list = &unsettled_[gpu];

	if (atomic_load_explicit(&list->first, memory_order_relaxed) ==
	    __atomic_load_n(&list->end, __ATOMIC_RELAXED))
		return;
	while (settle_one(list))
		continue;
}

CUresult sim_event_record(struct sim_event *event, struct sim_stream *stream)
{
	if (event->context != sim_stream_context(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (sim_stream_is_capturing(stream))
		return sim_capture_record(stream, event);
	sim_events_settle(stream->gpu);
	pthread_mutex_lock(&event->lock);
	event->gpu = stream->gpu;
	event->position = sim_stream_position(stream);
	event->recorded_ns = sim_time_now(stream->gpu);
	event->state = SIM_EVENT_RECORDED;
	if (!look_locked(event) && !(event->flags & CU_EVENT_DISABLE_TIMING))
		unsettled_add(event);
	pthread_mutex_unlock(&event->lock);
	sim_stream_follow(stream, event->position);
	return CUDA_SUCCESS;
}

static CUresult follow_locked(struct sim_event *event, struct sim_stream *stream)
{
	if (look_locked(event))
		return CUDA_SUCCESS;
	if (event->gpu == stream->gpu) {
		sim_stream_follow(stream, event->position);
		return CUDA_SUCCESS;
	}
	/* Another GPU's marks mean nothing on this one's timeline: wait for it here and now. */
	return sim_position_wait(event->gpu, event->position);
}

CUresult sim_event_follow(struct sim_event *event, struct sim_stream *stream)
{
	CUresult err;

	if (event->state == SIM_EVENT_CAPTURED || sim_stream_is_capturing(stream))
		return sim_capture_follow(stream, event);
	pthread_mutex_lock(&event->lock);
	err = follow_locked(event, stream);
	pthread_mutex_unlock(&event->lock);
	return err;
}

static CUresult event_create(CUevent *ret_event, unsigned flags)
{
	struct sim_context *context;
	struct sim_streams *streams;
	struct sim_event *event;
	CUresult err = sim_context_current(&context);

	if (err != CUDA_SUCCESS)
		return err;
	if (!ret_event || (flags & ~EVENT_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_streams_of(context, &streams);
	if (err != CUDA_SUCCESS)
		return err;
	event = sim_handle_new(SIM_HANDLE_EVENT, sizeof(*event));
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&event->lock, NULL);
	event->context = context;
	event->incarnation = atomic_load(&context->incarnation);
	event->flags = flags;
	*ret_event = (CUevent)event;
	return CUDA_SUCCESS;
}

/* Also after the end of its context: the handle is the program's to give back. */
static CUresult event_destroy(CUevent handle)
{
	struct sim_event *event = sim_handle_get(SIM_HANDLE_EVENT, handle);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&event->lock);
	free(event->nodes);
	event->nodes = NULL;
	event->state = SIM_EVENT_EMPTY;
	pthread_mutex_unlock(&event->lock);
	sim_handle_free(event);
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event_handle, CUstream stream_handle, unsigned flags,
			     enum sim_form form)
{
	struct sim_event *event;
	struct sim_stream *stream;
	CUresult err = sim_stream_get(stream_handle, form, &stream);

	if (err != CUDA_SUCCESS)
		return err;
	err = sim_event_get(event_handle, &event);
	if (err != CUDA_SUCCESS)
		return err;
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags && !sim_stream_is_capturing(stream))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_event_record(event, stream);
}

static CUresult wait_event(CUstream stream_handle, CUevent event_handle, unsigned flags,
			   enum sim_form form)
{
	struct sim_event *event;
	struct sim_stream *stream;
	CUresult err = sim_stream_get(stream_handle, form, &stream);

	if (err != CUDA_SUCCESS)
		return err;
	err = sim_event_get(event_handle, &event);
	if (err != CUDA_SUCCESS)
		return err;
	if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_event_follow(event, stream);
}

static CUresult event_query(CUevent handle)
{
	struct sim_event *event;
	CUresult err = sim_event_get(handle, &event);

	if (err != CUDA_SUCCESS)
		return err;
	err = sim_capture_forbid();
	if (err != CUDA_SUCCESS)
		return err;
	pthread_mutex_lock(&event->lock);
	if (event->state == SIM_EVENT_CAPTURED)
		err = CUDA_ERROR_CAPTURED_EVENT;
	else if (!look_locked(event))
		err = CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&event->lock);
	return err;
}

static CUresult event_synchronize(CUevent handle)
{
	struct sim_event *event;
	struct sim_position position;
	enum sim_event_state state;
	CUresult err = sim_event_get(handle, &event);

	if (err != CUDA_SUCCESS)
		return err;
	err = sim_capture_forbid();
	if (err != CUDA_SUCCESS)
		return err;
	pthread_mutex_lock(&event->lock);
	state = event->state;
	position = event->position;
	pthread_mutex_unlock(&event->lock);
	if (state == SIM_EVENT_CAPTURED)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (state == SIM_EVENT_RECORDED) {
		err = sim_position_wait(event->gpu, position);
		sim_events_settle(event->gpu);
	}
	return err;
}

/* NOT_READY, or INVALID_HANDLE for an event that has no time. */
static CUresult event_time(struct sim_event *event, uint64_t *ret_ns)
{
	CUresult err = CUDA_SUCCESS;

	pthread_mutex_lock(&event->lock);
	if (event->state == SIM_EVENT_EMPTY || (event->flags & CU_EVENT_DISABLE_TIMING))
		err = CUDA_ERROR_INVALID_HANDLE;
	else if (event->state == SIM_EVENT_CAPTURED)
		err = CUDA_ERROR_CAPTURED_EVENT;
	else if (!look_locked(event))
		err = CUDA_ERROR_NOT_READY;
	else
		*ret_ns = event->when_ns;
	pthread_mutex_unlock(&event->lock);
	return err;
}

static CUresult elapsed_time(float *ret_ms, CUevent start_handle, CUevent end_handle)
{
	struct sim_event *start, *end;
	uint64_t start_ns, end_ns;
	CUresult err;

	if (!ret_ms)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_event_get(start_handle, &start);
	if (err == CUDA_SUCCESS)
		err = sim_event_get(end_handle, &end);
	if (err == CUDA_SUCCESS && start->context != end->context)
		err = CUDA_ERROR_INVALID_HANDLE;
	if (err == CUDA_SUCCESS)
		err = event_time(start, &start_ns);
	if (err == CUDA_SUCCESS)
		err = event_time(end, &end_ns);
	if (err != CUDA_SUCCESS)
		return err;
	*ret_ms = (float)((double)((int64_t)(end_ns - start_ns)) / 1e6);
	return CUDA_SUCCESS;
}

SIM_FUNCTION(cuEventCreate, (CUevent * event, unsigned int flags), event_create(event, flags))
SIM_FUNCTION(cuEventDestroy, (CUevent event), event_destroy(event))
SIM_FUNCTION(cuEventDestroy_v2, (CUevent event), event_destroy(event))
SIM_FUNCTION(cuEventQuery, (CUevent event), event_query(event))
SIM_FUNCTION(cuEventSynchronize, (CUevent event), event_synchronize(event))
SIM_FUNCTION(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end),
	     elapsed_time(milliseconds, start, end))
SIM_FUNCTION(cuEventElapsedTime_v2, (float *milliseconds, CUevent start, CUevent end),
	     elapsed_time(milliseconds, start, end))
SIM_STREAM_FORMS(cuEventRecord, (CUevent event, CUstream stream),
		 event_record(event, stream, 0, form))
SIM_STREAM_FORMS(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned int flags),
		 event_record(event, stream, flags, form))
SIM_STREAM_FORMS(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags),
		 wait_event(stream, event, flags, form))
