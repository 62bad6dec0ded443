/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events: order, device time, arguments, host functions.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine_fixture.h"

#define BAD_STREAM ((CUstream)0x123456)
#define BAD_EVENT  ((CUevent)0x123456)

static void before_init(int socket)
{
	CUstream stream = BAD_STREAM;
	CUevent event = BAD_EVENT;

	(void)socket;
	CHECK_CODE(cuStreamCreate(&stream, 0), CUDA_ERROR_NOT_INITIALIZED);
	CHECK_CODE(cuEventCreate(&event, 0), CUDA_ERROR_NOT_INITIALIZED);
	CHECK_CODE(cuStreamSynchronize(NULL), CUDA_ERROR_NOT_INITIALIZED);
	CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	CHECK(stream == BAD_STREAM && event == BAD_EVENT);
	CHECK_OK(cuInit(0));
	CHECK_CODE(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_CODE(cuEventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_CODE(cuStreamSynchronize(NULL), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_CODE(cuStreamQuery_ptsz(NULL), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	CHECK(stream == BAD_STREAM && event == BAD_EVENT);
}

static void arguments(int socket)
{
	CUstream stream = BAD_STREAM;
	CUevent event = BAD_EVENT;
	float ms = 5;

	(void)socket;
	engine_begin();
	CHECK_CODE(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuEventCreate(&event, 8), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
	CHECK(stream == BAD_STREAM && event == BAD_EVENT);
	CHECK_CODE(cuStreamSynchronize(BAD_STREAM), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuStreamDestroy_v2(BAD_STREAM), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuEventRecord(BAD_EVENT, NULL), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuEventQuery(BAD_EVENT), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuEventDestroy_v2(BAD_EVENT), CUDA_ERROR_INVALID_HANDLE);
	CHECK_OK(cuEventCreate(&event, 0));
	CHECK_CODE(cuEventRecord(event, BAD_STREAM), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuStreamWaitEvent(NULL, event, 2), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuEventElapsedTime(NULL, event, event), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuEventElapsedTime(&ms, event, event), CUDA_ERROR_INVALID_HANDLE);
	CHECK(ms == 5);
	/* Never recorded: done, and nothing to wait for. */
	CHECK_OK(cuEventQuery(event));
	CHECK_OK(cuEventSynchronize(event));
	CHECK_OK(cuStreamWaitEvent(NULL, event, 0));
	CHECK_OK(cuEventDestroy_v2(event));
	CHECK_CODE(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuEventDestroy_v2(event), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuStreamAddCallback(NULL, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuLaunchHostFunc(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void facts(int socket)
{
	CUstream stream, other;
	CUcontext context, found;
	unsigned long long id, other_id;
	unsigned flags = 9;
	int priority = 9;
	CUdevice device = 9;
	CUstreamAttrValue value = { .syncPolicy = CU_SYNC_POLICY_YIELD };

	(void)socket;
	engine_begin();
	CHECK_OK(cuCtxGetCurrent(&context));
	CHECK_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -99));
	CHECK_OK(cuStreamCreate(&other, 0));
	CHECK_OK(cuStreamGetFlags(stream, &flags));
	CHECK(flags == CU_STREAM_NON_BLOCKING);
	CHECK_OK(cuStreamGetPriority(stream, &priority));
	CHECK(priority == -5);
	CHECK_OK(cuStreamGetCtx(stream, &found));
	CHECK(found == context);
	CHECK_OK(cuStreamGetDevice(stream, &device));
	CHECK(device == 0);
	CHECK_OK(cuStreamGetId(stream, &id));
	CHECK_OK(cuStreamGetId(other, &other_id));
	CHECK(id != other_id);
	CHECK_OK(cuStreamGetId_ptsz(NULL, &id));
	CHECK_OK(cuStreamGetId(CU_STREAM_PER_THREAD, &other_id));
	CHECK(id == other_id);
	CHECK_OK(cuStreamGetId(NULL, &id));
	CHECK(id != other_id);
	CHECK_OK(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	CHECK_OK(cuStreamCopyAttributes(other, stream));
	memset(&value, 0, sizeof(value));
	CHECK_OK(cuStreamGetAttribute(other, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	CHECK(value.syncPolicy == CU_SYNC_POLICY_YIELD);
	CHECK_CODE(cuStreamGetFlags(stream, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuStreamDestroy_v2(stream));
	CHECK_CODE(cuStreamGetFlags(stream, &flags), CUDA_ERROR_INVALID_HANDLE);
}

static void work_takes_device_time(int socket)
{
	CUevent start, middle, end;
	float first, second, all;
	double real;

	(void)socket;
	engine_begin();
	CHECK_OK(cuEventCreate(&start, 0));
	CHECK_OK(cuEventCreate(&middle, 0));
	CHECK_OK(cuEventCreate(&end, 0));
	real = engine_seconds();
	CHECK_OK(cuEventRecord(start, NULL));
	engine_run_slow(NULL, 10);
	CHECK_OK(cuEventRecord(middle, NULL));
	engine_run_slow(NULL, 20);
	CHECK_OK(cuEventRecord(end, NULL));
	CHECK_CODE(cuEventQuery(end), CUDA_ERROR_NOT_READY);
	CHECK_CODE(cuEventElapsedTime(&all, start, end), CUDA_ERROR_NOT_READY);
	CHECK_CODE(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	CHECK_OK(cuEventSynchronize(middle));
	CHECK(engine_seconds() - real >= 0.020);
	CHECK_OK(cuStreamSynchronize(NULL));
	CHECK(engine_seconds() - real >= 0.060);
	CHECK_OK(cuStreamQuery(NULL));
	CHECK_OK(cuEventQuery(end));
	CHECK_OK(cuEventElapsedTime(&first, start, middle));
	CHECK_OK(cuEventElapsedTime(&second, middle, end));
	CHECK_OK(cuEventElapsedTime_v2(&all, start, end));
	/* Between start and the first launch some time may pass; between the others none. */
	CHECK(first >= 20.0F);
	CHECK(second > 39.99F && second < 40.01F);
	CHECK(all - (first + second) < 0.01F && (first + second) - all < 0.01F);
	CHECK_OK(cuEventElapsedTime(&second, end, middle));
	CHECK(second < -39.99F);
}

static void untimed_events_have_no_time(int socket)
{
	CUevent timed, untimed;
	float ms;

	(void)socket;
	engine_begin();
	CHECK_OK(cuEventCreate(&timed, 0));
	CHECK_OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	CHECK_OK(cuEventRecord(timed, NULL));
	CHECK_OK(cuEventRecord(untimed, NULL));
	CHECK_OK(cuCtxSynchronize());
	CHECK_CODE(cuEventElapsedTime(&ms, timed, untimed), CUDA_ERROR_INVALID_HANDLE);
	CHECK_OK(cuEventElapsedTime(&ms, timed, timed));
	CHECK(ms == 0);
}

static void event_times_outlive_the_timeline_s_memory(int socket)
{
	CUevent start, end;
	float ms;

	(void)socket;
	engine_begin();
	CHECK_OK(cuEventCreate(&start, 0));
	CHECK_OK(cuEventCreate(&end, 0));
	engine_run_slow(NULL, 1);
	CHECK_OK(cuEventRecord(start, NULL));
	for (int i = 0; i < 60; i++) {
		engine_run_quick(NULL);
		CHECK_OK(cuStreamSynchronize(NULL));
	}
	CHECK_OK(cuEventRecord(end, NULL));
	CHECK_OK(cuEventSynchronize(end));
	CHECK_OK(cuEventElapsedTime(&ms, start, end));
	CHECK(ms >= 0.6F);
}

static void streams_wait_for_events(int socket)
{
	CUstream first, second;
	CUevent event;

	(void)socket;
	engine_begin();
	CHECK_OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	CHECK_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	CHECK_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	engine_run_slow(first, 200);
	CHECK_OK(cuEventRecord(event, first));
	/* The other stream has nothing to wait for, until it is told to. */
	CHECK_OK(cuStreamQuery(second));
	CHECK_OK(cuStreamWaitEvent(second, event, 0));
	CHECK_CODE(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	CHECK_OK(cuStreamSynchronize(second));
	CHECK_OK(cuStreamQuery(first));
	CHECK_OK(cuEventQuery(event));
}

static void the_legacy_stream_joins_blocking_ones(int socket)
{
	CUstream blocking, free_running;

	(void)socket;
	engine_begin();
	CHECK_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	CHECK_OK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
	engine_run_slow(blocking, 200);
	CHECK_CODE(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	CHECK_OK(cuStreamQuery(free_running));
	CHECK_OK(cuStreamQuery_ptsz(NULL));
	CHECK_OK(cuCtxSynchronize());
	CHECK_OK(cuStreamQuery(NULL));
}

static void synchronising_a_context_waits_for_all(int socket)
{
	CUstream stream;
	CUcontext context;

	(void)socket;
	engine_begin();
	CHECK_OK(cuCtxGetCurrent(&context));
	CHECK_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	engine_run_slow(stream, 20);
	CHECK_OK(cuStreamDestroy_v2(stream)); /* its work goes on */
	CHECK_OK(cuCtxSynchronize_v2(context));
	CHECK_CODE(cuCtxSynchronize_v2((CUcontext)0x77), CUDA_ERROR_INVALID_CONTEXT);
}

static void contexts_wait_and_record(int socket)
{
	CUstream first, second;
	CUdeviceptr managed, plain;
	CUevent event, all;

	(void)socket;
	engine_begin();
	CHECK_OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	CHECK_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	CHECK_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK_OK(cuEventCreate(&all, CU_EVENT_DISABLE_TIMING));
	engine_run_slow(first, 200);
	CHECK_OK(cuCtxRecordEvent(NULL, all));
	CHECK_CODE(cuEventQuery(all), CUDA_ERROR_NOT_READY);
	CHECK_OK(cuEventRecord(event, first));
	CHECK_OK(cuStreamQuery(second));
	CHECK_OK(cuCtxWaitEvent(NULL, event));
	CHECK_CODE(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	CHECK_OK(cuEventSynchronize(all));
	CHECK_OK(cuStreamQuery(first));
	CHECK_OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	CHECK_OK(cuMemAlloc_v2(&plain, 4096));
	CHECK_OK(cuStreamAttachMemAsync(first, managed, 0, CU_MEM_ATTACH_SINGLE));
	CHECK_CODE(cuStreamAttachMemAsync(first, managed, 0, 3), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuStreamAttachMemAsync(first, plain, 0, CU_MEM_ATTACH_SINGLE),
		   CUDA_ERROR_INVALID_VALUE);
}

static _Atomic int steps_;

static void step(void *data)
{
	usleep(20000);
	CHECK(atomic_fetch_add(&steps_, 1) == *(int *)data);
	/* A host function must not use the driver. */
	CHECK_CODE(cuStreamSynchronize(NULL), CUDA_ERROR_NOT_PERMITTED);
}

static void step_back(CUstream stream, CUresult status, void *data)
{
	CHECK(stream == NULL && status == CUDA_SUCCESS);
	CHECK(atomic_fetch_add(&steps_, 1) == *(int *)data);
}

static void host_functions_run_in_order(int socket)
{
	static int numbers[] = { 0, 1, 2 };
	CUevent event;

	(void)socket;
	engine_begin();
	CHECK_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	engine_run_slow(NULL, 5);
	CHECK_OK(cuLaunchHostFunc(NULL, step, &numbers[0]));
	CHECK_OK(cuEventRecord(event, NULL));
	CHECK(atomic_load(&steps_) == 0);
	CHECK_CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	CHECK_OK(cuLaunchHostFunc(NULL, step, &numbers[1]));
	CHECK_OK(cuStreamAddCallback(NULL, step_back, &numbers[2], 0));
	CHECK_OK(cuStreamSynchronize(NULL));
	CHECK(atomic_load(&steps_) == 3);
	CHECK_OK(cuEventQuery(event));
}

static void fill_host(void *data)
{
	usleep(30000);
	memset(data, 0x5a, 4096);
}

/* What a host function wrote is there for the copy behind it on the stream. */
static void copies_follow_host_functions(int socket)
{
	static unsigned char from[4096], to[4096];
	CUdeviceptr pointer;
	CUstream stream;

	(void)socket;
	engine_begin();
	CHECK_OK(cuStreamCreate(&stream, 0));
	CHECK_OK(cuMemAlloc_v2(&pointer, sizeof(from)));
	CHECK_OK(cuLaunchHostFunc(stream, fill_host, from));
	CHECK_OK(cuMemcpyHtoDAsync_v2(pointer, from, sizeof(from), stream));
	CHECK_OK(cuMemcpyDtoHAsync_v2(to, pointer, sizeof(to), stream));
	CHECK_OK(cuStreamSynchronize(stream));
	CHECK(to[0] == 0x5a && to[4095] == 0x5a);
}

static void *own_stream_id(void *context)
{
	static unsigned long long id;

	CHECK_OK(cuCtxSetCurrent(context));
	CHECK_OK(cuStreamGetId_ptsz(NULL, &id));
	return &id;
}

static void each_thread_has_its_default_stream(int socket)
{
	unsigned long long mine;
	CUcontext context;
	pthread_t thread;
	void *theirs;

	(void)socket;
	engine_begin();
	CHECK_OK(cuCtxGetCurrent(&context));
	CHECK_OK(cuStreamGetId_ptsz(NULL, &mine));
	CHECK(pthread_create(&thread, NULL, own_stream_id, context) == 0);
	CHECK(pthread_join(thread, &theirs) == 0);
	CHECK(*(unsigned long long *)theirs != mine);
}

static void handles_end_with_their_context(int socket)
{
	CUcontext old, new;
	CUstream stream;
	CUevent event;

	(void)socket;
	engine_begin();
	CHECK_OK(cuCtxGetCurrent(&old));
	CHECK_OK(cuStreamCreate(&stream, 0));
	CHECK_OK(cuEventCreate(&event, 0));
	CHECK_OK(cuCtxCreate_v2(&new, 0, 0));
	CHECK_CODE(cuEventRecord(event, NULL), CUDA_ERROR_INVALID_HANDLE);
	CHECK_OK(cuCtxDestroy_v2(old));
	CHECK_CODE(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuEventQuery(event), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	CHECK_OK(cuEventDestroy_v2(event));
}

static void a_full_stream_blocks(int socket)
{
	double start;

	(void)socket;
	engine_begin();
	start = engine_seconds();
	for (int i = 0; i < 1024 + 50; i++)
		engine_run_quick(NULL);
	/* 50 works of 10 us were done before the last could be added. */
	CHECK(engine_seconds() - start >= 50 * 10e-6);
	CHECK_OK(cuCtxSynchronize());
	CHECK(engine_seconds() - start >= 1074 * 10e-6);
}

static void scaled_to_nothing(int socket)
{
	CUevent start, end;
	double real;
	float ms;

	(void)socket;
	setenv("BERTH_SIM_TIME_SCALE", "0", 1);
	engine_begin();
	CHECK_OK(cuEventCreate(&start, 0));
	CHECK_OK(cuEventCreate(&end, 0));
	real = engine_seconds();
	CHECK_OK(cuEventRecord(start, NULL));
	engine_run_slow(NULL, 50000);
	CHECK_OK(cuEventRecord(end, NULL));
	CHECK_OK(cuStreamSynchronize(NULL));
	CHECK(engine_seconds() - real < 50);
	CHECK_OK(cuEventElapsedTime(&ms, start, end));
	CHECK(ms >= 100000.0F);
}

static void scaled_up(int socket)
{
	double real;

	(void)socket;
	setenv("BERTH_SIM_TIME_SCALE", "5", 1);
	engine_begin();
	real = engine_seconds();
	engine_run_slow(NULL, 5);
	CHECK_OK(cuStreamSynchronize(NULL));
	CHECK(engine_seconds() - real >= 0.05);
}

static void bad_scale(int socket)
{
	(void)socket;
	setenv("BERTH_SIM_TIME_SCALE", "fast", 1);
	CHECK(freopen("/dev/null", "w", stderr));
	core_begin(0);
	CHECK_CODE(cuStreamSynchronize(NULL), CUDA_ERROR_SYSTEM_NOT_READY);
}

static void passes(void **state)
{
	assert_true(core_passes("1x1G", *(void (**)(int)) * state));
}

#define PASSES(body)                                        \
	{                                                   \
#body, passes, NULL, NULL, &(void (*)(int)) \
		{                                           \
			body                                \
		}                                           \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PASSES(before_init),
		PASSES(arguments),
		PASSES(facts),
		PASSES(work_takes_device_time),
		PASSES(untimed_events_have_no_time),
		PASSES(event_times_outlive_the_timeline_s_memory),
		PASSES(streams_wait_for_events),
		PASSES(the_legacy_stream_joins_blocking_ones),
		PASSES(synchronising_a_context_waits_for_all),
		PASSES(contexts_wait_and_record),
		PASSES(host_functions_run_in_order),
		PASSES(copies_follow_host_functions),
		PASSES(each_thread_has_its_default_stream),
		PASSES(handles_end_with_their_context),
		PASSES(a_full_stream_blocks),
		PASSES(scaled_to_nothing),
		PASSES(scaled_up),
		PASSES(bad_scale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
