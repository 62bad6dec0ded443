/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: whose they are, how often they count, what ends with them.
 */
#include "core_fixture.h"

#include <pthread.h>
#include <setjmp.h>

#include <cmocka.h>

static void primary_body(int socket)
{
	CUcontext context;
	CUcontext again;
	unsigned flags = 77;
	int active = 77;

	(void)socket;
	core_begin(0); /* to look from */
	CHECK_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	CHECK(flags == 0 && active == 0);
	CHECK_CODE(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_CODE(cuDevicePrimaryCtxRetain(&context, 7), CUDA_ERROR_INVALID_DEVICE);
	CHECK_CODE(cuDevicePrimaryCtxRetain(NULL, 1), CUDA_ERROR_INVALID_VALUE);
	for (unsigned i = 0; i < 3; i++)
		CHECK_OK(cuDevicePrimaryCtxRetain(i ? &again : &context, 1));
	CHECK(again == context);
	CHECK_OK(cuCtxPushCurrent_v2(context));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_CODE(cuCtxDestroy_v2(context), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_OK(cuDevicePrimaryCtxRelease_v2(1));
	CHECK_OK(cuDevicePrimaryCtxRelease_v2(1));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	CHECK(active == 1);
	CHECK_OK(cuDevicePrimaryCtxRelease_v2(1));
	CHECK_CODE(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	/* Another one on that device shows that nothing is left there. */
	CHECK_OK(cuCtxCreate_v2(&again, 0, 1));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_OK(cuCtxDestroy_v2(again));
	/* It comes back under its old handle. */
	CHECK_OK(cuDevicePrimaryCtxSetFlags_v2(1, CU_CTX_SCHED_YIELD));
	CHECK_CODE(cuDevicePrimaryCtxSetFlags_v2(1, 3), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuDevicePrimaryCtxRetain(&again, 1));
	CHECK(again == context);
	CHECK_CODE(cuDevicePrimaryCtxSetFlags(1, 0), CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
	CHECK_OK(cuDevicePrimaryCtxReset_v2(1));
	CHECK_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	CHECK(active == 0 && flags == CU_CTX_SCHED_YIELD);
}

static void primary_contexts_are_counted(void **state)
{
	(void)state;
	assert_true(core_passes("2x1G", primary_body));
}

static void full_body(int socket)
{
	CUcontext context = (CUcontext)9;
	CUdeviceptr pointer;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuMemAlloc_v2(&pointer, core_free_bytes() - MiB(1)));
	CHECK_CODE(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CODE(cuCtxCreate_v2(&context, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(context == (CUcontext)9);
	CHECK(core_free_bytes() == MiB(1));
	CHECK_CODE(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_OK(cuMemFree_v2(pointer));
	CHECK_OK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(core_used_bytes() == 2 * CONTEXT_BYTES);
}

static void a_context_needs_memory(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", full_body));
}

static pthread_barrier_t barrier;

static void *retainer(void *arg)
{
	CUcontext context;

	for (unsigned i = 0; i < 200; i++) {
		pthread_barrier_wait(&barrier);
		CHECK_OK(cuDevicePrimaryCtxRetain(&context, 0));
		pthread_barrier_wait(&barrier);
		if (arg)
			CHECK(core_used_bytes() == 2 * CONTEXT_BYTES);
		pthread_barrier_wait(&barrier);
		CHECK_OK(cuDevicePrimaryCtxRelease_v2(0));
	}
	return NULL;
}

static void retain_race_body(int socket)
{
	enum { THREADS = 8 };
	pthread_t threads[THREADS];
	CUcontext looker;

	(void)socket;
	looker = core_begin(0);
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, retainer, NULL) == 0);
	CHECK_OK(cuCtxSetCurrent(looker));
	retainer(&barrier); /* one of them, who also looks */
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
}

static void threads_that_retain_at_once_share_one(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", retain_race_body));
}

static void stack_body(int socket)
{
	unsigned long long first_id;
	unsigned long long second_id;
	CUcontext first;
	CUcontext second;
	CUcontext seen = (CUcontext)9;
	CUdevice device;

	(void)socket;
	CHECK_OK(cuInit(0));
	CHECK_OK(cuCtxGetCurrent(&seen));
	CHECK(seen == NULL);
	CHECK_CODE(cuCtxPopCurrent_v2(&seen), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_OK(cuCtxCreate_v2(&first, CU_CTX_SCHED_SPIN, 0));
	CHECK_OK(cuCtxCreate_v2(&second, 0, 1));
	CHECK_OK(cuCtxGetDevice(&device));
	CHECK(device == 1);
	CHECK_OK(cuCtxGetId(first, &first_id));
	CHECK_OK(cuCtxGetId(NULL, &second_id));
	CHECK(first_id != second_id);
	CHECK_OK(cuCtxPopCurrent_v2(&seen));
	CHECK(seen == second);
	CHECK_OK(cuCtxGetCurrent(&seen));
	CHECK(seen == first);
	CHECK_OK(cuCtxPushCurrent_v2(second));
	CHECK_OK(cuCtxSetCurrent(first)); /* instead of the top */
	CHECK_OK(cuCtxPopCurrent_v2(&seen));
	CHECK(seen == first);
	CHECK_OK(cuCtxGetCurrent(&seen));
	CHECK(seen == first);
	CHECK_OK(cuCtxSetCurrent(NULL));
	CHECK_OK(cuCtxGetCurrent(&seen));
	CHECK(seen == NULL);
	CHECK_CODE(cuCtxPushCurrent_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuCtxPushCurrent_v2((CUcontext)0x1234), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_CODE(cuCtxSetCurrent((CUcontext)0x1234), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_OK(cuCtxDestroy_v2(second));
	CHECK_CODE(cuCtxSetCurrent(second), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_CODE(cuCtxDestroy_v2(second), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_CODE(cuCtxDestroy_v2(NULL), CUDA_ERROR_INVALID_VALUE);
}

static void the_stack_of_a_thread(void **state)
{
	(void)state;
	assert_true(core_passes("2x1G", stack_body));
}

static void ends_body(int socket)
{
	CUDA_ARRAY_DESCRIPTOR descriptor = { 256, 256, CU_AD_FORMAT_FLOAT, 1 };
	CUcontext doomed;
	CUdeviceptr pointer;
	CUdeviceptr managed;
	CUarray array;
	char byte;
	void *host;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuCtxCreate_v2(&doomed, 0, 0));
	CHECK_OK(cuMemAlloc_v2(&pointer, MiB(10)));
	CHECK_OK(cuMemAllocManaged(&managed, MiB(10), CU_MEM_ATTACH_GLOBAL));
	CHECK_OK(cuMemAllocHost_v2(&host, 4096));
	CHECK_OK(cuArrayCreate_v2(&array, &descriptor));
	CHECK(core_used_bytes() == 2 * CONTEXT_BYTES + MiB(20) + 262144);
	CHECK_OK(cuCtxDestroy_v2(doomed)); /* it was current: the other one is now */
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_CODE(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemFree_v2(managed), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuMemcpyDtoH_v2(&byte, pointer, 1), CUDA_ERROR_INVALID_VALUE);
}

static void what_ends_with_a_context(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", ends_body));
}

static void creation_body(int socket)
{
	CUexecAffinityParam affinity = { .type = CU_EXEC_AFFINITY_TYPE_SM_COUNT };
	CUctxCreateParams params = { 0 };
	CUcontext context = (CUcontext)9;
	size_t limit;

	(void)socket;
	CHECK_OK(cuInit(0));
	CHECK_CODE(cuCtxCreate_v2(NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuCtxCreate_v2(&context, 0, 1), CUDA_ERROR_INVALID_DEVICE);
	CHECK_CODE(cuCtxCreate_v2(&context, 0, -1), CUDA_ERROR_INVALID_DEVICE);
	CHECK_CODE(cuCtxCreate_v2(&context, 3, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuCtxCreate_v2(&context, 0x10000, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuCtxCreate_v3(&context, &affinity, 1, 0, 0),
		   CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	CHECK_CODE(cuCtxCreate_v3(&context, NULL, 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK(context == (CUcontext)9);
	CHECK_OK(cuCtxCreate_v3(&context, NULL, 0, 0, 0));
	CHECK_OK(cuCtxCreate_v4(&context, NULL, 0, 0));
	CHECK_OK(cuCtxCreate_v4(&context, &params, 0, 0));
	CHECK_OK(cuCtxCreate(&context, 0, 0));
	CHECK(core_used_bytes() == 4 * CONTEXT_BYTES);
	CHECK_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	CHECK_OK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
	CHECK(limit == 4096);
	CHECK_CODE(cuCtxGetLimit(&limit, 77), CUDA_ERROR_INVALID_VALUE);
	/* Counted by attach and detach. */
	CHECK_OK(cuCtxAttach(&context, 0));
	CHECK_OK(cuCtxDetach(context));
	CHECK(core_used_bytes() == 4 * CONTEXT_BYTES);
	CHECK_OK(cuCtxDetach(context));
	CHECK(core_used_bytes() == 3 * CONTEXT_BYTES);
}

static void every_form_of_creation(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", creation_body));
}

static void peers_body(int socket)
{
	CUcontext first;
	CUcontext second;
	int can;

	(void)socket;
	first = core_begin(0);
	second = core_begin(1);
	CHECK_OK(cuDeviceCanAccessPeer(&can, 0, 1));
	CHECK(can == 1);
	CHECK_OK(cuDeviceCanAccessPeer(&can, 0, 0));
	CHECK(can == 0);
	CHECK_CODE(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_CODE(cuCtxEnablePeerAccess(first, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	CHECK_OK(cuCtxEnablePeerAccess(first, 0));
	CHECK_CODE(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	CHECK_OK(cuCtxDisablePeerAccess(first));
}

static void peers(void **state)
{
	(void)state;
	assert_true(core_passes("2x1G", peers_body));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(primary_contexts_are_counted),
		cmocka_unit_test(a_context_needs_memory),
		cmocka_unit_test(threads_that_retain_at_once_share_one),
		cmocka_unit_test(the_stack_of_a_thread),
		cmocka_unit_test(what_ends_with_a_context),
		cmocka_unit_test(every_form_of_creation),
		cmocka_unit_test(peers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
