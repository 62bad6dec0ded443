/* SPDX-License-Identifier: Apache-2.0
 *
 * Executable graphs: instantiate, launch, update. An exec owns copies of what its graph's nodes do,
 * in an order that keeps their dependencies, and runs them one after the other on the stream.
 */
#include <stdlib.h>

#include "sim/cuda/capture.h"
#include "sim/cuda/graph.h"

#define INSTANTIATE_FLAGS 15ULL

static void exec_free(struct sim_exec *exec)
{
	for (size_t i = 0; i < exec->count; i++)
		sim_work_done(&exec->nodes[i].work);
	free(exec->nodes);
	exec->nodes = NULL;
	exec->count = 0;
	sim_handle_free(exec);
}

static CUresult fill(struct sim_exec *exec, const struct sim_graph *graph)
{
	struct sim_graph_node **nodes;
	CUresult err = sim_graph_sort(graph, &nodes);

	if (err != CUDA_SUCCESS)
		return err;
	exec->nodes = calloc(graph->count ? graph->count : 1, sizeof(*exec->nodes));
	if (!exec->nodes)
		err = CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; err == CUDA_SUCCESS && i < graph->count; i++) {
		struct sim_exec_node *node = &exec->nodes[i];

		err = sim_work_copy(&node->work, &nodes[i]->work);
		if (err != CUDA_SUCCESS)
			break;
		node->origin = nodes[i];
		node->is_enabled = true;
		exec->count++;
	}
	free(nodes);
	return err;
}

static CUresult instantiate(CUgraphExec *ret_exec, CUgraph handle, uint64_t flags)
{
	struct sim_graph *graph;
	struct sim_exec *exec;
	CUresult err;

	if (!ret_exec || (flags & ~INSTANTIATE_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_graph_get(handle, &graph);
	if (err == CUDA_SUCCESS)
		err = sim_capture_forbid();
	if (err != CUDA_SUCCESS)
		return err;
	exec = sim_handle_new(SIM_HANDLE_EXEC, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->flags = flags;
	err = fill(exec, graph);
	if (err == CUDA_SUCCESS)
		*ret_exec = (CUgraphExec)exec;
	else
		exec_free(exec);
	return err;
}

static CUresult instantiate_with_log(CUgraphExec *ret_exec, CUgraph graph, CUgraphNode *error_node,
				     char *log, size_t log_bytes)
{
	CUresult err = instantiate(ret_exec, graph, 0);

	if (err != CUDA_SUCCESS && error_node)
		*error_node = NULL;
	if (log && log_bytes)
		log[0] = '\0';
	return err;
}

static CUresult instantiate_with_params(CUgraphExec *ret_exec, CUgraph graph,
					CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult err;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	err = instantiate(ret_exec, graph, params->flags);
	params->hErrNode_out = NULL;
	params->result_out = err == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
			     : err == CUDA_ERROR_INVALID_VALUE
				     ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
				     : CUDA_GRAPH_INSTANTIATE_ERROR;
	return err;
}

CUresult sim_exec_get(CUgraphExec handle, struct sim_exec **ret_exec)
{
	struct sim_exec *exec = sim_handle_get(SIM_HANDLE_EXEC, handle);

	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_exec = exec;
	return CUDA_SUCCESS;
}

CUresult sim_exec_run(const struct sim_exec *exec, struct sim_stream *stream)
{
	for (size_t i = 0; i < exec->count; i++) {
		CUresult err = CUDA_SUCCESS;

		if (exec->nodes[i].is_enabled)
			err = sim_work_run(&exec->nodes[i].work, stream);
		if (err != CUDA_SUCCESS)
			return err;
	}
	return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec handle, CUstream stream_handle, enum sim_form form)
{
	struct sim_stream *stream;
	struct sim_exec *exec;
	CUresult err = sim_stream_get(stream_handle, form, &stream);

	if (err == CUDA_SUCCESS)
		err = sim_exec_get(handle, &exec);
	if (err == CUDA_SUCCESS && sim_stream_is_capturing(stream))
		err = sim_capture_refuse(stream);
	if (err == CUDA_SUCCESS)
		err = sim_stream_begin(stream);
	return err == CUDA_SUCCESS ? sim_exec_run(exec, stream) : err;
}

static CUresult upload(CUgraphExec handle, CUstream stream_handle, enum sim_form form)
{
	struct sim_stream *stream;
	struct sim_exec *exec;
	CUresult err = sim_stream_get(stream_handle, form, &stream);

	return err == CUDA_SUCCESS ? sim_exec_get(handle, &exec) : err;
}

static CUresult destroy(CUgraphExec handle)
{
	struct sim_exec *exec;
	CUresult err = sim_exec_get(handle, &exec);

	if (err == CUDA_SUCCESS)
		exec_free(exec);
	return err;
}

static CUresult get_flags(CUgraphExec handle, uint64_t *ret_flags)
{
	struct sim_exec *exec;
	CUresult err = sim_exec_get(handle, &exec);

	if (err == CUDA_SUCCESS && !ret_flags)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		*ret_flags = exec->flags;
	return err;
}

/* A graph of the same shape takes the old one's place. */
static CUgraphExecUpdateResult compare(const struct sim_exec *old, const struct sim_exec *new)
{
	if (old->count != new->count)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	for (size_t i = 0; i < old->count; i++) {
		if (old->nodes[i].work.type != new->nodes[i].work.type)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
	}
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUresult update(CUgraphExec handle, CUgraph graph_handle,
		       CUgraphExecUpdateResult *ret_result)
{
	struct sim_graph *graph;
	struct sim_exec *exec;
	struct sim_exec other = { .count = 0 };
	CUresult err = sim_exec_get(handle, &exec);

	if (err == CUDA_SUCCESS)
		err = sim_graph_get(graph_handle, &graph);
	if (err == CUDA_SUCCESS)
		err = fill(&other, graph);
	if (err != CUDA_SUCCESS)
		return err;
	*ret_result = compare(exec, &other);
	if (*ret_result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
		struct sim_exec_node *nodes = exec->nodes;

		exec->nodes = other.nodes;
		other.nodes = nodes;
	}
	for (size_t i = 0; i < other.count; i++)
		sim_work_done(&other.nodes[i].work);
	free(other.nodes);
	return *ret_result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
							   : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

static CUresult update_v1(CUgraphExec handle, CUgraph graph, CUgraphNode *ret_node,
			  CUgraphExecUpdateResult *ret_result)
{
	if (!ret_result)
		return CUDA_ERROR_INVALID_VALUE;
	if (ret_node)
		*ret_node = NULL;
	return update(handle, graph, ret_result);
}

static CUresult update_v2(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo *ret_info)
{
	if (!ret_info)
		return CUDA_ERROR_INVALID_VALUE;
	ret_info->errorNode = NULL;
	ret_info->errorFromNode = NULL;
	return update(handle, graph, &ret_info->result);
}

SIM_FUNCTION(cuGraphInstantiate,
	     (CUgraphExec * graph_exec, CUgraph graph, CUgraphNode *error_node, char *log_buffer,
	      size_t buffer_size),
	     instantiate_with_log(graph_exec, graph, error_node, log_buffer, buffer_size))
SIM_FUNCTION(cuGraphInstantiate_v2,
	     (CUgraphExec * graph_exec, CUgraph graph, CUgraphNode *error_node, char *log_buffer,
	      size_t buffer_size),
	     instantiate_with_log(graph_exec, graph, error_node, log_buffer, buffer_size))
SIM_FUNCTION(cuGraphInstantiateWithFlags,
	     (CUgraphExec * graph_exec, CUgraph graph, unsigned long long flags),
	     instantiate(graph_exec, graph, flags))
SIM_FUNCTION(cuGraphInstantiateWithParams,
	     (CUgraphExec * graph_exec, CUgraph graph,
	      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiate_params),
	     instantiate_with_params(graph_exec, graph, instantiate_params))
SIM_FUNCTION(cuGraphInstantiateWithParams_ptsz,
	     (CUgraphExec * graph_exec, CUgraph graph,
	      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiate_params),
	     instantiate_with_params(graph_exec, graph, instantiate_params))
SIM_STREAM_FORMS(cuGraphLaunch, (CUgraphExec graph_exec, CUstream stream),
		 launch(graph_exec, stream, form))
SIM_STREAM_FORMS(cuGraphUpload, (CUgraphExec graph_exec, CUstream stream),
		 upload(graph_exec, stream, form))
SIM_FUNCTION(cuGraphExecDestroy, (CUgraphExec graph_exec), destroy(graph_exec))
SIM_FUNCTION(cuGraphExecGetFlags, (CUgraphExec graph_exec, uint64_t *flags),
	     get_flags(graph_exec, flags))
SIM_FUNCTION(cuGraphExecUpdate,
	     (CUgraphExec graph_exec, CUgraph graph, CUgraphNode *error_node_out,
	      CUgraphExecUpdateResult *update_result_out),
	     update_v1(graph_exec, graph, error_node_out, update_result_out))
SIM_FUNCTION(cuGraphExecUpdate_v2,
	     (CUgraphExec graph_exec, CUgraph graph, CUgraphExecUpdateResultInfo *result_info),
	     update_v2(graph_exec, graph, result_info))
