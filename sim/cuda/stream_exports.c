/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported functions of streams, but for capture; see stream.h.
 */
#include <string.h>

#include "sim/cuda/capture.h"
#include "sim/cuda/event.h"
#include "sim/cuda/host_work.h"
#include "sim/cuda/stream_state.h"

static CUresult stream_create(CUstream *ret_stream, unsigned flags, int priority)
{
	struct sim_context *context;
	struct sim_stream *stream;
	CUresult err = sim_context_current(&context);

	if (err != CUDA_SUCCESS)
		return err;
	if (!ret_stream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	/* Out of range is not an error: the nearest is taken. */
	if (priority > SIM_PRIORITY_LEAST)
		priority = SIM_PRIORITY_LEAST;
	if (priority < SIM_PRIORITY_GREATEST)
		priority = SIM_PRIORITY_GREATEST;
	err = sim_stream_make(context, flags, priority, &stream);
	if (err == CUDA_SUCCESS)
		*ret_stream = (CUstream)stream;
	return err;
}

/* What was queued goes on; only the name is gone. */
static CUresult stream_destroy(CUstream handle)
{
	struct sim_stream *stream;
	CUresult err;

	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	err = sim_stream_get(handle, SIM_FORM_plain, &stream);
	if (err != CUDA_SUCCESS)
		return err;
	sim_stream_end_life(stream);
	return CUDA_SUCCESS;
}

static CUresult stream_synchronize(CUstream handle, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err != CUDA_SUCCESS)
		return err;
	if (sim_stream_is_capturing(stream))
		return sim_capture_refuse(stream);
	err = sim_capture_forbid();
	if (err == CUDA_SUCCESS)
		err = sim_stream_drain(stream);
	sim_events_settle(stream->gpu);
	sim_pool_synchronized();
	return err;
}

static CUresult stream_query(CUstream handle, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err != CUDA_SUCCESS)
		return err;
	if (sim_stream_is_capturing(stream))
		return sim_capture_refuse(stream);
	err = sim_capture_forbid();
	if (err != CUDA_SUCCESS)
		return err;
	if (!sim_position_reached(stream->gpu, sim_stream_own_position(stream)))
		return CUDA_ERROR_NOT_READY;
	return CUDA_SUCCESS;
}

static CUresult context_synchronize(CUcontext handle)
{
	struct sim_context *context;
	CUresult err = sim_context_get(handle, true, &context);

	if (err == CUDA_SUCCESS)
		err = sim_capture_forbid();
	if (err == CUDA_SUCCESS)
		err = sim_stream_drain_context(context);
	if (err == CUDA_SUCCESS) {
		sim_events_settle(context->gpu);
		sim_pool_synchronized();
	}
	return err;
}

static CUresult host_function(CUstream handle, const struct sim_host_work *work, enum sim_form form)
{
	struct sim_stream *stream;
	struct sim_position position;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err != CUDA_SUCCESS)
		return err;
	if (!work->function && !work->callback)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_stream_is_capturing(stream)) {
		CUDA_HOST_NODE_PARAMS host = { work->function, work->data };

		return work->function ? sim_capture_host(stream, &host)
				      : sim_capture_refuse(stream);
	}
	position = sim_stream_position(stream);
	err = sim_host_work_add(stream->gpu, position, work, &position.gate);
	if (err == CUDA_SUCCESS)
		sim_stream_follow(stream, position);
	return err;
}

static CUresult add_callback(CUstream handle, CUstreamCallback callback, void *data, unsigned flags,
			     enum sim_form form)
{
	struct sim_host_work work = { .callback = callback, .stream = handle, .data = data };

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	return host_function(handle, &work, form);
}

static CUresult launch_host(CUstream handle, CUhostFn function, void *data, enum sim_form form)
{
	struct sim_host_work work = { .function = function, .data = data };

	return host_function(handle, &work, form);
}

enum fact {
	FACT_FLAGS,
	FACT_PRIORITY,
	FACT_ID,
	FACT_CONTEXT,
	FACT_DEVICE,
};

static CUresult stream_fact(CUstream handle, enum fact fact, void *ret_fact, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err != CUDA_SUCCESS)
		return err;
	if (!ret_fact)
		return CUDA_ERROR_INVALID_VALUE;
	switch (fact) {
	case FACT_FLAGS:
		*(unsigned *)ret_fact = stream->flags;
		break;
	case FACT_PRIORITY:
		*(int *)ret_fact = stream->priority;
		break;
	case FACT_ID:
		*(unsigned long long *)ret_fact = stream->id;
		break;
	case FACT_CONTEXT:
		*(CUcontext *)ret_fact = (CUcontext)stream->context;
		break;
	case FACT_DEVICE:
		*(CUdevice *)ret_fact = stream->context->device;
		break;
	}
	return CUDA_SUCCESS;
}

static CUresult stream_context_v2(CUstream handle, CUcontext *ret_context, CUgreenCtx *ret_green,
				  enum sim_form form)
{
	CUresult err = stream_fact(handle, FACT_CONTEXT, ret_context, form);

	if (err == CUDA_SUCCESS && ret_green)
		*ret_green = NULL;
	return err;
}

static bool is_stream_attribute(CUstreamAttrID id)
{
	return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
	       id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
	       id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
	       id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
	       id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

static CUresult attribute_get(CUstream handle, CUstreamAttrID id, CUstreamAttrValue *ret_value,
			      enum sim_form form)
{
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err != CUDA_SUCCESS)
		return err;
	if (!ret_value || !is_stream_attribute(id))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_value = stream->attributes[id];
	if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		ret_value->priority = stream->priority;
	return CUDA_SUCCESS;
}

static CUresult attribute_set(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue *value,
			      enum sim_form form)
{
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err != CUDA_SUCCESS)
		return err;
	if (!value || !is_stream_attribute(id) || id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		return CUDA_ERROR_INVALID_VALUE;
	stream->attributes[id] = *value;
	return CUDA_SUCCESS;
}

static CUresult attributes_copy(CUstream to_handle, CUstream from_handle, enum sim_form form)
{
	struct sim_stream *to, *from;
	CUresult err = sim_stream_get(to_handle, form, &to);

	if (err == CUDA_SUCCESS)
		err = sim_stream_get(from_handle, form, &from);
	if (err == CUDA_SUCCESS)
		memcpy(to->attributes, from->attributes, sizeof(to->attributes));
	return err;
}

static CUresult context_record(CUcontext context_handle, CUevent event_handle)
{
	struct sim_context *context;
	struct sim_streams *streams;
	struct sim_event *event;
	CUresult err = sim_context_get(context_handle, true, &context);

	if (err == CUDA_SUCCESS)
		err = sim_event_get(event_handle, &event);
	if (err == CUDA_SUCCESS)
		err = sim_streams_of(context, &streams);
	if (err != CUDA_SUCCESS)
		return err;
	pthread_mutex_lock(&streams->lock);
	streams->joined = sim_position_max(streams->joined, streams->everything);
	pthread_mutex_unlock(&streams->lock);
	return sim_event_record(event, streams->legacy);
}

/* All streams of the context go on only after the event; those made later have nothing before. */
static CUresult context_wait(CUcontext context_handle, CUevent event_handle)
{
	struct sim_context *context;
	struct sim_streams *streams;
	struct sim_event *event;
	CUresult err = sim_context_get(context_handle, true, &context);

	if (err == CUDA_SUCCESS)
		err = sim_event_get(event_handle, &event);
	if (err == CUDA_SUCCESS)
		err = sim_streams_of(context, &streams);
	if (err != CUDA_SUCCESS)
		return err;
	for (struct sim_stream *stream = streams->all; stream && err == CUDA_SUCCESS;
	     stream = stream->next)
		err = sim_event_follow(event, stream);
	return err;
}

/* Which stream managed memory belongs to has no effect here, but it must be managed memory. */
static CUresult attach(CUstream handle, CUdeviceptr pointer, size_t length, unsigned flags,
		       enum sim_form form)
{
	struct sim_memory_info info;
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err != CUDA_SUCCESS)
		return err;
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	    flags != CU_MEM_ATTACH_SINGLE)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_memory_find(pointer, &info);
	if (err == CUDA_SUCCESS &&
	    (info.kind != SIM_MEMORY_MANAGED || (length && length != info.size_bytes)))
		err = CUDA_ERROR_INVALID_VALUE;
	return err;
}

SIM_FUNCTION(cuStreamCreate, (CUstream * stream, unsigned int flags),
	     stream_create(stream, flags, SIM_PRIORITY_LEAST))
SIM_FUNCTION(cuStreamCreateWithPriority, (CUstream * stream, unsigned int flags, int priority),
	     stream_create(stream, flags, priority))
SIM_FUNCTION(cuStreamDestroy, (CUstream stream), stream_destroy(stream))
SIM_FUNCTION(cuStreamDestroy_v2, (CUstream stream), stream_destroy(stream))
SIM_STREAM_FORMS(cuStreamSynchronize, (CUstream stream), stream_synchronize(stream, form))
SIM_STREAM_FORMS(cuStreamQuery, (CUstream stream), stream_query(stream, form))
SIM_FUNCTION(cuCtxSynchronize, (void), context_synchronize(NULL))
SIM_FUNCTION(cuCtxSynchronize_v2, (CUcontext ctx), context_synchronize(ctx))
SIM_FUNCTION(cuCtxRecordEvent, (CUcontext ctx, CUevent event), context_record(ctx, event))
SIM_STREAM_FORMS(cuStreamAddCallback,
		 (CUstream stream, CUstreamCallback callback, void *user_data, unsigned int flags),
		 add_callback(stream, callback, user_data, flags, form))
SIM_STREAM_FORMS(cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void *user_data),
		 launch_host(stream, fn, user_data, form))
SIM_STREAM_FORMS(cuStreamGetFlags, (CUstream stream, unsigned int *flags),
		 stream_fact(stream, FACT_FLAGS, flags, form))
SIM_STREAM_FORMS(cuStreamGetPriority, (CUstream stream, int *priority),
		 stream_fact(stream, FACT_PRIORITY, priority, form))
SIM_STREAM_FORMS(cuStreamGetId, (CUstream stream, unsigned long long *stream_id),
		 stream_fact(stream, FACT_ID, stream_id, form))
SIM_STREAM_FORMS(cuStreamGetCtx, (CUstream stream, CUcontext *ctx),
		 stream_fact(stream, FACT_CONTEXT, ctx, form))
SIM_STREAM_FORMS(cuStreamGetCtx_v2, (CUstream stream, CUcontext *ctx, CUgreenCtx *green_ctx),
		 stream_context_v2(stream, ctx, green_ctx, form))
SIM_STREAM_FORMS(cuStreamGetDevice, (CUstream stream, CUdevice *device),
		 stream_fact(stream, FACT_DEVICE, device, form))
SIM_STREAM_FORMS(cuStreamGetAttribute,
		 (CUstream stream, CUstreamAttrID attr, CUstreamAttrValue *value),
		 attribute_get(stream, attr, value, form))
SIM_STREAM_FORMS(cuStreamSetAttribute,
		 (CUstream stream, CUstreamAttrID attr, const CUstreamAttrValue *value),
		 attribute_set(stream, attr, value, form))
SIM_STREAM_FORMS(cuStreamCopyAttributes, (CUstream dst, CUstream src),
		 attributes_copy(dst, src, form))
SIM_FUNCTION(cuCtxWaitEvent, (CUcontext ctx, CUevent event), context_wait(ctx, event))
SIM_STREAM_FORMS(cuStreamAttachMemAsync,
		 (CUstream stream, CUdeviceptr ptr, size_t length, unsigned int flags),
		 attach(stream, ptr, length, flags, form))
