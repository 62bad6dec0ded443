/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures begun less captures ended. A capturing stream that is destroyed leaves the count too
 * high: then pools are measured less often, which only delays a refund.
 */
#include "interpose/capture.h"

#include <stdatomic.h>

#include "interpose/real.h"

static _Atomic int running_count;

bool berth_capture_running(void)
{
	return atomic_load_explicit(&running_count, memory_order_relaxed) > 0;
}

void berth_capture_forget(void)
{
	atomic_store_explicit(&running_count, 0, memory_order_relaxed);
}

static CUresult begun(CUresult res)
{
	if (res == CUDA_SUCCESS)
		atomic_fetch_add_explicit(&running_count, 1, memory_order_relaxed);
	return res;
}

/* Also an invalidated capture ends here, with an error that says so. */
static CUresult ended(CUresult res)
{
	if (res == CUDA_SUCCESS || res == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
		atomic_fetch_sub_explicit(&running_count, 1, memory_order_relaxed);
	return res;
}

BERTH_EXPORT CUresult cuStreamBeginCapture(CUstream stream)
{
	return begun(REAL(cuStreamBeginCapture, stream));
}

BERTH_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	return begun(REAL(cuStreamBeginCapture_ptsz, stream));
}

BERTH_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	return begun(REAL(cuStreamBeginCapture_v2, stream, mode));
}

BERTH_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	return begun(REAL(cuStreamBeginCapture_v2_ptsz, stream, mode));
}

BERTH_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
						  const CUgraphNode *dependencies,
						  const CUgraphEdgeData *dependency_data,
						  size_t num_dependencies, CUstreamCaptureMode mode)
{
	return begun(REAL(cuStreamBeginCaptureToGraph, stream, graph, dependencies, dependency_data,
			  num_dependencies, mode));
}

BERTH_EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
						       const CUgraphNode *dependencies,
						       const CUgraphEdgeData *dependency_data,
						       size_t num_dependencies,
						       CUstreamCaptureMode mode)
{
	return begun(REAL(cuStreamBeginCaptureToGraph_ptsz, stream, graph, dependencies,
			  dependency_data, num_dependencies, mode));
}

BERTH_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	return ended(REAL(cuStreamEndCapture, stream, graph));
}

BERTH_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	return ended(REAL(cuStreamEndCapture_ptsz, stream, graph));
}
