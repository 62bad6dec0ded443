/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs made by hand and by capture, and what capture forbids.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "core_fixture.h"
#include "engine_ptx.h"

static CUfunction quick_, scale_;
static CUstream stream_;
static CUcontext context_;

static void begin(void)
{
	CUmodule module;

	context_ = core_begin(0);
	CHECK_OK(cuModuleLoadData(&module, ENGINE_PTX));
	CHECK_OK(cuModuleGetFunction(&quick_, module, "quick"));
	CHECK_OK(cuModuleGetFunction(&scale_, module, "scale"));
	CHECK_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
}

static size_t count_nodes(CUgraph graph)
{
	size_t count = 0;

	CHECK_OK(cuGraphGetNodes(graph, NULL, &count));
	return count;
}

static CUgraph end_capture(CUstream stream)
{
	CUgraph graph = NULL;

	CHECK_OK(cuStreamEndCapture(stream, &graph));
	CHECK(graph);
	return graph;
}

static void captured_work_runs_at_launch(int socket)
{
	static unsigned char from[64], to[64];
	CUdeviceptr pointer;
	CUgraphExec exec;
	CUgraph graph;

	(void)socket;
	begin();
	CHECK_OK(cuMemAlloc_v2(&pointer, 64));
	CHECK_OK(cuMemsetD8_v2(pointer, 0, 64));
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK_OK(cuMemcpyHtoDAsync_v2(pointer, from, 64, stream_));
	CHECK_OK(cuMemsetD8Async(pointer, 9, 32, stream_));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL));
	CHECK_OK(cuMemcpyDtoHAsync_v2(to, pointer, 64, stream_));
	graph = end_capture(stream_);
	CHECK(count_nodes(graph) == 4);
	memset(from, 7, sizeof(from));
	CHECK(to[0] == 0 && to[63] == 0);
	CHECK_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK_OK(cuGraphDestroy(graph));
	CHECK_OK(cuGraphLaunch(exec, stream_));
	CHECK_OK(cuStreamSynchronize(stream_));
	CHECK(to[0] == 9 && to[31] == 9 && to[32] == 7 && to[63] == 7);
	memset(from, 8, sizeof(from));
	CHECK_OK(cuGraphLaunch_ptsz(exec, stream_));
	CHECK_OK(cuStreamSynchronize(stream_));
	CHECK(to[63] == 8);
	CHECK_OK(cuGraphExecDestroy(exec));
	CHECK_CODE(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_VALUE);
}

static void captured_parameters_are_copies(int socket)
{
	float data = 3, factor = 2;
	unsigned char more[16] = { 0 };
	CUdeviceptr pointer;
	unsigned count = 1;
	void *parameters[] = { &pointer, &count, &factor, more };
	CUgraphExec exec;
	CUgraph graph;

	(void)socket;
	setenv("BERTH_SIM_KERNELS", getenv("BERTH_TEST_KERNELS"), 1);
	begin();
	CHECK_OK(cuMemAlloc_v2(&pointer, sizeof(data)));
	CHECK_OK(cuMemcpyHtoD_v2(pointer, &data, sizeof(data)));
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK_OK(cuLaunchKernel(scale_, 1, 1, 1, 32, 1, 1, 0, stream_, parameters, NULL));
	graph = end_capture(stream_);
	factor = 100;
	CHECK_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK_OK(cuGraphLaunch(exec, stream_));
	CHECK_OK(cuGraphLaunch(exec, stream_));
	CHECK_OK(cuStreamSynchronize(stream_));
	CHECK_OK(cuMemcpyDtoH_v2(&data, pointer, sizeof(data)));
	CHECK(data == 12);
}

static void status_is_told(int socket)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	const CUgraphNode *nodes;
	CUgraph graph;
	uint64_t id = 0;
	size_t count = 9;

	(void)socket;
	begin();
	CHECK_OK(cuStreamIsCapturing(stream_, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
	CHECK_CODE(cuStreamIsCapturing(stream_, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuStreamBeginCapture_v2(stream_, (CUstreamCaptureMode)5),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
		   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_CODE(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_ILLEGAL_STATE);
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK_CODE(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL),
		   CUDA_ERROR_ILLEGAL_STATE);
	CHECK_OK(cuStreamGetCaptureInfo_v2(stream_, &status, &id, &graph, &nodes, &count));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0 && count == 0);
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL));
	CHECK_OK(cuStreamGetCaptureInfo_v3(stream_, &status, &id, &graph, &nodes, NULL, &count));
	CHECK(count == 1);
	CHECK(count_nodes(graph) == 1);
	end_capture(stream_);
	CHECK_OK(cuStreamIsCapturing(stream_, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Each of these during a capture is an error and spoils it. */
static void forbidden_calls_spoil_it(int socket)
{
	CUdeviceptr pointer;
	CUgraph graph = (CUgraph)0x77;
	CUstreamCaptureStatus status;
	int what;

	(void)socket;
	begin();
	for (what = 0; what < 4; what++) {
		CUresult code = CUDA_SUCCESS;

		CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
		CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL));
		if (what == 0)
			code = cuStreamSynchronize(stream_);
		else if (what == 1)
			code = cuStreamQuery(stream_);
		else if (what == 2)
			code = cuCtxSynchronize();
		else
			code = cuMemAlloc_v2(&pointer, 512);
		CHECK_CODE(code, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		CHECK_OK(cuStreamIsCapturing(stream_, &status));
		CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
		CHECK_CODE(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL),
			   CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		CHECK_CODE(cuStreamEndCapture(stream_, &graph),
			   CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		CHECK(graph == NULL);
	}
	/* Afterwards all is as before. */
	CHECK_OK(cuMemAlloc_v2(&pointer, 512));
	CHECK_OK(cuStreamSynchronize(stream_));
}

static void modes_decide_what_is_forbidden(int socket)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr pointer;

	(void)socket;
	begin();
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK_OK(cuMemAlloc_v2(&pointer, 512));
	end_capture(stream_);
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	CHECK_OK(cuMemAlloc_v2(&pointer, 512));
	CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
	end_capture(stream_);
	mode = (CUstreamCaptureMode)9;
	CHECK_CODE(cuThreadExchangeStreamCaptureMode(&mode), CUDA_ERROR_INVALID_VALUE);
}

static CUresult others_answer_;

static void *allocate_elsewhere(void *unused)
{
	CUdeviceptr pointer;

	(void)unused;
	CHECK_OK(cuCtxSetCurrent(context_));
	others_answer_ = cuMemAlloc_v2(&pointer, 512);
	return NULL;
}

static void elsewhere(void)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, allocate_elsewhere, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void other_threads_mind_global_captures(int socket)
{
	CUgraph graph;

	(void)socket;
	begin();
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	elsewhere();
	CHECK_CODE(others_answer_, CUDA_SUCCESS);
	end_capture(stream_);
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
	elsewhere();
	CHECK_CODE(others_answer_, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_CODE(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void the_legacy_stream_may_not_wait_for_it(int socket)
{
	CUdeviceptr pointer;
	CUstream blocking;
	CUgraph graph;

	(void)socket;
	begin();
	CHECK_OK(cuMemAlloc_v2(&pointer, 64));
	CHECK_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	CHECK_OK(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK_CODE(cuMemsetD8Async(pointer, 0, 64, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	CHECK_CODE(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* A stream that doesn't block has nothing to do with the legacy one. */
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK_OK(cuMemsetD8Async(pointer, 0, 64, NULL));
	end_capture(stream_);
}

static void other_streams_fork_and_join(int socket)
{
	CUevent fork_event, join_event, outside;
	CUstream side;
	CUgraph graph;
	CUgraphEdgeData data[4] = { [3] = { .type = 7 } };
	CUgraphNode from[4], to[4];
	size_t edges = 0, roots = 0;

	(void)socket;
	begin();
	CHECK_OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
	CHECK_OK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
	CHECK_OK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
	CHECK_OK(cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL));
	CHECK_OK(cuEventRecord(fork_event, stream_));
	CHECK_OK(cuStreamWaitEvent(side, fork_event, 0));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, side, NULL, NULL));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL));
	CHECK_OK(cuEventRecord(join_event, side));
	CHECK_OK(cuStreamWaitEvent(stream_, join_event, 0));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL));
	CHECK_CODE(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	CHECK_CODE(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL));
	CHECK_OK(cuEventRecord(fork_event, stream_));
	CHECK_OK(cuStreamWaitEvent(side, fork_event, 0));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, side, NULL, NULL));
	CHECK_CODE(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);

	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL));
	CHECK_OK(cuEventRecord(fork_event, stream_));
	CHECK_OK(cuStreamWaitEvent(side, fork_event, 0));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, side, NULL, NULL));
	CHECK_OK(cuEventRecord(join_event, side));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL));
	CHECK_OK(cuStreamWaitEvent(stream_, join_event, 0));
	CHECK_OK(cuLaunchKernel(quick_, 1, 1, 1, 32, 1, 1, 0, stream_, NULL, NULL));
	graph = end_capture(stream_);
	CHECK(count_nodes(graph) == 4);
	CHECK_OK(cuGraphGetEdges(graph, NULL, NULL, &edges));
	CHECK(edges == 4);
	CHECK_OK(cuGraphGetEdges_v2(graph, from, to, data, &edges));
	CHECK(edges == 4 && from[0] && to[0] && data[3].type == 0);
	CHECK_OK(cuGraphGetRootNodes(graph, NULL, &roots));
	CHECK(roots == 1);
	CHECK_CODE(cuEventQuery(fork_event), CUDA_ERROR_CAPTURED_EVENT);

	CHECK_OK(cuEventRecord(outside, side));
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK_CODE(cuStreamWaitEvent(stream_, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	CHECK_CODE(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static CUgraphNode add_fill(CUgraph graph, const CUgraphNode *after, size_t count,
			    CUdeviceptr pointer, unsigned value)
{
	CUDA_MEMSET_NODE_PARAMS fill = { pointer, 0, value, 1, 64, 1 };
	CUgraphNode node = NULL;

	CHECK_OK(cuGraphAddMemsetNode(&node, graph, after, count, &fill, context_));
	CHECK(node);
	return node;
}

static unsigned char first_byte(CUdeviceptr pointer)
{
	unsigned char byte;

	CHECK_OK(cuMemcpyDtoH_v2(&byte, pointer, 1));
	return byte;
}

static void nodes_run_after_their_dependencies(int socket)
{
	CUgraphNode first, second, late[1];
	CUgraphExec exec;
	CUdeviceptr pointer;
	CUgraph graph;

	(void)socket;
	begin();
	CHECK_OK(cuMemAlloc_v2(&pointer, 64));
	CHECK_OK(cuGraphCreate(&graph, 0));
	/* Added first, made to depend on the second afterwards. */
	first = add_fill(graph, NULL, 0, pointer, 1);
	second = add_fill(graph, NULL, 0, pointer, 2);
	CHECK_OK(cuGraphAddDependencies(graph, &second, &first, 1));
	CHECK_CODE(cuGraphAddDependencies(graph, &second, &first, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK_OK(cuGraphLaunch(exec, stream_));
	CHECK_OK(cuStreamSynchronize(stream_));
	CHECK(first_byte(pointer) == 1);
	CHECK_OK(cuGraphExecDestroy(exec));
	/* A circle can't run. */
	CHECK_OK(cuGraphAddDependencies(graph, &first, &second, 1));
	exec = NULL;
	CHECK_CODE(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK(!exec);
	CHECK_OK(cuGraphRemoveDependencies(graph, &first, &second, 1));
	late[0] = first;
	add_fill(graph, late, 1, pointer, 3);
	CHECK_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK_OK(cuGraphLaunch(exec, stream_));
	CHECK_OK(cuStreamSynchronize(stream_));
	CHECK(first_byte(pointer) == 3);
	CHECK_OK(cuGraphDestroyNode(first));
	CHECK(count_nodes(graph) == 2);
	CHECK_CODE(cuGraphDestroyNode(first), CUDA_ERROR_INVALID_VALUE);
}

static void execs_can_be_changed(int socket)
{
	CUDA_MEMSET_NODE_PARAMS fill = { 0, 0, 5, 1, 64, 1 };
	CUgraphExecUpdateResultInfo result;
	CUgraphExec exec;
	CUgraph graph, other;
	CUdeviceptr pointer;
	CUgraphNode node;
	unsigned enabled = 9;

	(void)socket;
	begin();
	CHECK_OK(cuMemAlloc_v2(&pointer, 64));
	fill.dst = pointer;
	CHECK_OK(cuGraphCreate(&graph, 0));
	node = add_fill(graph, NULL, 0, pointer, 1);
	CHECK_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK_OK(cuGraphExecMemsetNodeSetParams(exec, node, &fill, context_));
	CHECK_OK(cuGraphLaunch(exec, stream_));
	CHECK_OK(cuStreamSynchronize(stream_));
	CHECK(first_byte(pointer) == 5);
	CHECK_OK(cuMemsetD8_v2(pointer, 0, 64));
	CHECK_OK(cuGraphNodeSetEnabled(exec, node, 0));
	CHECK_OK(cuGraphNodeGetEnabled(exec, node, &enabled));
	CHECK(enabled == 0);
	CHECK_OK(cuGraphLaunch(exec, stream_));
	CHECK_OK(cuStreamSynchronize(stream_));
	CHECK(first_byte(pointer) == 0);
	CHECK_OK(cuGraphCreate(&other, 0));
	add_fill(other, NULL, 0, pointer, 6);
	CHECK_OK(cuGraphExecUpdate_v2(exec, other, &result));
	CHECK(result.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
	CHECK_OK(cuGraphLaunch(exec, stream_));
	CHECK_OK(cuStreamSynchronize(stream_));
	CHECK(first_byte(pointer) == 6);
	add_fill(other, NULL, 0, pointer, 7);
	CHECK_CODE(cuGraphExecUpdate_v2(exec, other, &result),
		   CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	CHECK(result.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
}

static void children_and_clones(int socket)
{
	CUgraph graph, child, clone, inner;
	CUgraphNode node, found;
	CUgraphExec exec;
	CUdeviceptr pointer;
	CUgraphNodeType type;

	(void)socket;
	begin();
	CHECK_OK(cuMemAlloc_v2(&pointer, 64));
	CHECK_OK(cuGraphCreate(&child, 0));
	add_fill(child, NULL, 0, pointer, 8);
	CHECK_OK(cuGraphCreate(&graph, 0));
	CHECK_OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	/* The child was copied: what is added to it later isn't in. */
	add_fill(child, NULL, 0, pointer, 1);
	CHECK_OK(cuGraphChildGraphNodeGetGraph(node, &inner));
	CHECK(count_nodes(inner) == 1);
	CHECK_CODE(cuGraphDestroy(inner), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuGraphClone(&clone, graph));
	CHECK_OK(cuGraphNodeFindInClone(&found, node, clone));
	CHECK_OK(cuGraphNodeGetType(found, &type));
	CHECK(type == CU_GRAPH_NODE_TYPE_GRAPH);
	CHECK_OK(cuGraphDestroy(graph));
	CHECK_OK(cuGraphInstantiateWithFlags(&exec, clone, 0));
	CHECK_OK(cuGraphLaunch(exec, stream_));
	CHECK_OK(cuStreamSynchronize(stream_));
	CHECK(first_byte(pointer) == 8);
}

static _Atomic int host_calls_;

static void count_call(void *data)
{
	(void)data;
	atomic_fetch_add(&host_calls_, 1);
}

static void host_nodes_and_memory_nodes(int socket)
{
	CUDA_HOST_NODE_PARAMS host = { count_call, NULL };
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
		.bytesize = MiB(4),
	};
	CUgraphNode alloc_node, fill_node, host_node, free_node;
	CUgraphExec exec;
	CUgraph graph;
	uint64_t used;
	size_t before;

	(void)socket;
	begin();
	before = core_used_bytes();
	CHECK_OK(cuGraphCreate(&graph, 0));
	CHECK_OK(cuGraphAddMemAllocNode(&alloc_node, graph, NULL, 0, &alloc));
	CHECK(alloc.dptr && core_used_bytes() >= before + MiB(4));
	CHECK_OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
	CHECK(used == MiB(4));
	fill_node = add_fill(graph, &alloc_node, 1, alloc.dptr, 4);
	CHECK_OK(cuGraphAddHostNode(&host_node, graph, &fill_node, 1, &host));
	CHECK_OK(cuGraphAddMemFreeNode(&free_node, graph, &host_node, 1, alloc.dptr));
	CHECK_CODE(cuGraphDestroyNode(alloc_node), CUDA_ERROR_NOT_SUPPORTED);
	CHECK_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 1; i <= 3; i++) {
		CHECK_OK(cuGraphLaunch(exec, stream_));
		CHECK_OK(cuStreamSynchronize(stream_));
		CHECK(atomic_load(&host_calls_) == i);
	}
	CHECK_OK(cuGraphExecDestroy(exec));
	CHECK_OK(cuGraphDestroy(graph));
	CHECK_OK(cuCtxSynchronize());
	CHECK(core_used_bytes() == before);
	CHECK_OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
	CHECK(used == 0);
	CHECK_OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &used));
	CHECK(used == MiB(4));
	used = 0;
	CHECK_OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &used));
	CHECK_OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &used));
	CHECK(used == 0);
	CHECK_CODE(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuDeviceGraphMemTrim(0));
	CHECK_CODE(cuDeviceGraphMemTrim(7), CUDA_ERROR_INVALID_DEVICE);
}

static void async_memory_is_captured(int socket)
{
	CUdeviceptr pointer = 0;
	CUgraphExec exec;
	CUgraph graph;

	(void)socket;
	begin();
	CHECK_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK_OK(cuMemAllocAsync(&pointer, MiB(1), stream_));
	CHECK_OK(cuMemsetD8Async(pointer, 3, MiB(1), stream_));
	CHECK_OK(cuMemFreeAsync(pointer, stream_));
	graph = end_capture(stream_);
	CHECK(count_nodes(graph) == 3);
	CHECK_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK_OK(cuGraphLaunch(exec, stream_));
	CHECK_OK(cuStreamSynchronize(stream_));
}

static void arguments(int socket)
{
	CUgraphNode node = (CUgraphNode)0x44;
	CUgraph graph = (CUgraph)0x44;
	CUgraphExec exec = (CUgraphExec)0x44;

	(void)socket;
	begin();
	CHECK_CODE(cuGraphCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuGraphCreate(&graph, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuGraphAddEmptyNode(&node, graph, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
	CHECK(graph == (CUgraph)0x44 && node == (CUgraphNode)0x44 && exec == (CUgraphExec)0x44);
	CHECK_OK(cuGraphCreate(&graph, 0));
	CHECK_CODE(cuGraphAddEmptyNode(&node, graph, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuGraphAddEmptyNode(&node, graph, &node, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuGraphAddHostNode(&node, graph, NULL, 0, &(CUDA_HOST_NODE_PARAMS){ 0 }),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK(node == (CUgraphNode)0x44);
	CHECK(count_nodes(graph) == 0);
	CHECK_CODE(cuGraphInstantiateWithFlags(&exec, graph, 1ULL << 40), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuGraphDestroy(graph));
	CHECK_CODE(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
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
		PASSES(captured_work_runs_at_launch),
		PASSES(captured_parameters_are_copies),
		PASSES(status_is_told),
		PASSES(forbidden_calls_spoil_it),
		PASSES(modes_decide_what_is_forbidden),
		PASSES(other_threads_mind_global_captures),
		PASSES(the_legacy_stream_may_not_wait_for_it),
		PASSES(other_streams_fork_and_join),
		PASSES(nodes_run_after_their_dependencies),
		PASSES(execs_can_be_changed),
		PASSES(children_and_clones),
		PASSES(host_nodes_and_memory_nodes),
		PASSES(async_memory_is_captured),
		PASSES(arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
