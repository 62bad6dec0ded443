/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported functions of stream capture.
 */
#include "sim/cuda/capture.h"
#include "sim/cuda/graph.h"

static bool is_mode(CUstreamCaptureMode mode)
{
	return (int)mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
}

static CUresult begin(CUstream handle, CUstreamCaptureMode mode, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err == CUDA_SUCCESS && !is_mode(mode))
		err = CUDA_ERROR_INVALID_VALUE;
	return err == CUDA_SUCCESS ? sim_capture_begin(stream, mode, NULL, NULL, 0) : err;
}

static CUresult begin_to_graph(CUstream handle, CUgraph graph_handle, const CUgraphNode *nodes,
			       size_t count, CUstreamCaptureMode mode, enum sim_form form)
{
	struct sim_stream *stream;
	struct sim_graph *graph;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err == CUDA_SUCCESS && (!is_mode(mode) || (count && !nodes)))
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		err = sim_graph_get(graph_handle, &graph);
	for (size_t i = 0; err == CUDA_SUCCESS && i < count; i++) {
		struct sim_graph_node *node;

		err = sim_graph_node_get(nodes[i], &node);
		if (err == CUDA_SUCCESS && node->graph != graph)
			err = CUDA_ERROR_INVALID_VALUE;
	}
	return err == CUDA_SUCCESS ? sim_capture_begin(stream, mode, graph, nodes, count) : err;
}

static CUresult end(CUstream handle, CUgraph *ret_graph, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err == CUDA_SUCCESS && !ret_graph)
		err = CUDA_ERROR_INVALID_VALUE;
	return err == CUDA_SUCCESS ? sim_capture_end(stream, ret_graph) : err;
}

/* The legacy stream can't capture; asked while another does, it would have to wait for that. */
static CUresult look(CUstream handle, enum sim_form form, struct sim_capture_info *ret_info)
{
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err == CUDA_SUCCESS && stream->is_legacy)
		err = sim_capture_check_legacy(stream->context);
	if (err == CUDA_SUCCESS)
		sim_capture_look(stream, ret_info);
	return err;
}

static CUresult is_capturing(CUstream handle, CUstreamCaptureStatus *ret_status, enum sim_form form)
{
	struct sim_capture_info info;
	CUresult err;

	if (!ret_status)
		return CUDA_ERROR_INVALID_VALUE;
	err = look(handle, form, &info);
	if (err == CUDA_SUCCESS)
		*ret_status = info.status;
	return err;
}

/* The three forms differ in how much they tell; edges here have no data. */
struct info_outputs {
	CUstreamCaptureStatus *status;
	uint64_t *id;
	CUgraph *graph;
	const CUgraphNode **nodes;
	const CUgraphEdgeData **edges;
	size_t *count;
};

static CUresult get_info(CUstream handle, struct info_outputs out, enum sim_form form)
{
	struct sim_capture_info info;
	CUresult err;

	if (!out.status)
		return CUDA_ERROR_INVALID_VALUE;
	err = look(handle, form, &info);
	if (err != CUDA_SUCCESS)
		return err;
	*out.status = info.status;
	if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (out.id)
		*out.id = info.id;
	if (out.graph)
		*out.graph = (CUgraph)info.graph;
	if (out.nodes)
		*out.nodes = info.nodes;
	if (out.edges)
		*out.edges = NULL;
	if (out.count)
		*out.count = info.nodes_count;
	return CUDA_SUCCESS;
}

static CUresult update(CUstream handle, CUgraphNode *nodes, size_t count, unsigned flags,
		       enum sim_form form)
{
	struct sim_stream *stream;
	CUresult err = sim_stream_get(handle, form, &stream);

	if (err == CUDA_SUCCESS &&
	    ((count && !nodes) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES))
		err = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; err == CUDA_SUCCESS && i < count; i++) {
		struct sim_graph_node *node;

		err = sim_graph_node_get(nodes[i], &node);
	}
	if (err != CUDA_SUCCESS)
		return err;
	return sim_capture_set_nodes(stream, nodes, count,
				     flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
	if (!mode || !is_mode(*mode))
		return CUDA_ERROR_INVALID_VALUE;
	*mode = sim_capture_exchange_mode(*mode);
	return CUDA_SUCCESS;
}

SIM_STREAM_FORMS(cuStreamBeginCapture, (CUstream stream),
		 begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, form))
SIM_STREAM_FORMS(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode),
		 begin(stream, mode, form))
SIM_STREAM_FORMS(cuStreamBeginCaptureToGraph,
		 (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
		  const CUgraphEdgeData *dependency_data, size_t num_dependencies,
		  CUstreamCaptureMode mode),
		 dependency_data ? CUDA_ERROR_NOT_SUPPORTED
				 : begin_to_graph(stream, graph, dependencies, num_dependencies,
						  mode, form))
SIM_STREAM_FORMS(cuStreamEndCapture, (CUstream stream, CUgraph *graph), end(stream, graph, form))
SIM_STREAM_FORMS(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *capture_status),
		 is_capturing(stream, capture_status, form))
SIM_STREAM_FORMS(cuStreamGetCaptureInfo,
		 (CUstream stream, CUstreamCaptureStatus *capture_status_out, uint64_t *id_out),
		 get_info(stream, (struct info_outputs){ capture_status_out, id_out, 0, 0, 0, 0 },
			  form))
SIM_STREAM_FORMS(cuStreamGetCaptureInfo_v2,
		 (CUstream stream, CUstreamCaptureStatus *capture_status_out, uint64_t *id_out,
		  CUgraph *graph_out, const CUgraphNode **dependencies_out,
		  size_t *num_dependencies_out),
		 get_info(stream,
			  (struct info_outputs){ capture_status_out, id_out, graph_out,
						 dependencies_out, 0, num_dependencies_out },
			  form))
SIM_STREAM_FORMS(cuStreamGetCaptureInfo_v3,
		 (CUstream stream, CUstreamCaptureStatus *capture_status_out, uint64_t *id_out,
		  CUgraph *graph_out, const CUgraphNode **dependencies_out,
		  const CUgraphEdgeData **edge_data_out, size_t *num_dependencies_out),
		 get_info(stream,
			  (struct info_outputs){ capture_status_out, id_out, graph_out,
						 dependencies_out, edge_data_out,
						 num_dependencies_out },
			  form))
SIM_STREAM_FORMS(cuStreamUpdateCaptureDependencies,
		 (CUstream stream, CUgraphNode *dependencies, size_t num_dependencies,
		  unsigned int flags),
		 update(stream, dependencies, num_dependencies, flags, form))
SIM_STREAM_FORMS(cuStreamUpdateCaptureDependencies_v2,
		 (CUstream stream, CUgraphNode *dependencies,
		  const CUgraphEdgeData *dependency_data, size_t num_dependencies,
		  unsigned int flags),
		 dependency_data ? CUDA_ERROR_NOT_SUPPORTED
				 : update(stream, dependencies, num_dependencies, flags, form))
SIM_FUNCTION(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), exchange_mode(mode))
