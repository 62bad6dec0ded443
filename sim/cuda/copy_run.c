/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills in time: at once, or on a stream. stream.h explains the steps.
 */
#include "sim/cuda/copy_run.h"

#include "sim/cuda/stream.h"

/* The form's default stream, empty, for something that the caller waits for. */
static CUresult begin_now(enum sim_form form, struct sim_stream **ret_stream)
{
	struct sim_stream *stream;
	CUresult result;

	result = sim_stream_get(NULL, form, &stream);
	if (result == CUDA_SUCCESS)
		result = sim_capture_forbid();
	if (result == CUDA_SUCCESS)
		result = sim_stream_drain(stream);
	if (result == CUDA_SUCCESS)
		*ret_stream = stream;
	return result;
}

static CUresult end_now(struct sim_stream *stream, CUresult result, size_t bytes)
{
	if (result != CUDA_SUCCESS)
		return result;
	sim_stream_end(stream, sim_stream_copy_ns(bytes));
	return sim_stream_drain(stream);
}

CUresult sim_copy_now(CUDA_MEMCPY3D copy, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult result;

	result = begin_now(form, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	return end_now(stream, sim_copy_move(&copy), sim_copy_bytes(&copy));
}

CUresult sim_copy_on_stream(CUDA_MEMCPY3D copy, CUstream handle, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult result;

	result = sim_stream_get(handle, form, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (sim_stream_is_capturing(stream)) {
		result = sim_copy_check(&copy);
		return result == CUDA_SUCCESS ? sim_capture_copy(stream, &copy) : result;
	}
	result = sim_stream_begin(stream);
	if (result == CUDA_SUCCESS)
		result = sim_copy_move(&copy);
	if (result == CUDA_SUCCESS)
		sim_stream_end(stream, sim_stream_copy_ns(sim_copy_bytes(&copy)));
	return result;
}

CUresult sim_fill_now(CUDA_MEMSET_NODE_PARAMS fill, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult result;

	result = begin_now(form, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	return end_now(stream, sim_fill_move(&fill), sim_fill_bytes(&fill));
}

CUresult sim_fill_on_stream(CUDA_MEMSET_NODE_PARAMS fill, CUstream handle, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult result;

	result = sim_stream_get(handle, form, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (sim_stream_is_capturing(stream)) {
		result = sim_fill_check(&fill);
		return result == CUDA_SUCCESS ? sim_capture_memset(stream, &fill) : result;
	}
	result = sim_stream_begin(stream);
	if (result == CUDA_SUCCESS)
		result = sim_fill_move(&fill);
	if (result == CUDA_SUCCESS)
		sim_stream_end(stream, sim_stream_copy_ns(sim_fill_bytes(&fill)));
	return result;
}
