/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported functions that change single nodes of an executable graph.
 */
#include <string.h>

#include "sim/cuda/copy.h"
#include "sim/cuda/event.h"
#include "sim/cuda/graph.h"

static CUresult exec_node(CUgraphExec handle, CUgraphNode node, struct sim_exec_node **ret_node)
{
	struct sim_exec *exec;
	CUresult err = sim_exec_get(handle, &exec);

	if (err != CUDA_SUCCESS)
		return err;
	for (size_t i = 0; node && i < exec->count; i++) {
		if (exec->nodes[i].origin == (struct sim_graph_node *)node) {
			*ret_node = &exec->nodes[i];
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* Other work of the same kind for a node. Takes the work over. */
static CUresult set_work(CUgraphExec handle, CUgraphNode origin, struct sim_work *work)
{
	struct sim_exec_node *node;
	CUresult err = exec_node(handle, origin, &node);

	if (err == CUDA_SUCCESS && node->work.type != work->type)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err != CUDA_SUCCESS) {
		sim_work_done(work);
		return err;
	}
	sim_work_done(&node->work);
	node->work = *work;
	return CUDA_SUCCESS;
}

static CUresult set_kernel(CUgraphExec handle, CUgraphNode node,
			   const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct sim_work work;
	CUresult err = params ? sim_work_kernel(&work, params, false) : CUDA_ERROR_INVALID_VALUE;

	return err == CUDA_SUCCESS ? set_work(handle, node, &work) : err;
}

static CUresult set_kernel_v1(CUgraphExec handle, CUgraphNode node,
			      const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS newer = { .func = NULL };

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&newer, params, sizeof(*params));
	return set_kernel(handle, node, &newer);
}

static CUresult set_copy(CUgraphExec handle, CUgraphNode node, const CUDA_MEMCPY3D *copy)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };
	CUresult err = copy ? sim_copy_check(copy) : CUDA_ERROR_INVALID_VALUE;

	if (err != CUDA_SUCCESS)
		return err;
	work.copy = *copy;
	return set_work(handle, node, &work);
}

static CUresult set_fill(CUgraphExec handle, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
	CUresult err = fill ? sim_fill_check(fill) : CUDA_ERROR_INVALID_VALUE;

	if (err != CUDA_SUCCESS)
		return err;
	work.fill = *fill;
	return set_work(handle, node, &work);
}

static CUresult set_host(CUgraphExec handle, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_HOST };

	if (!host || !host->fn)
		return CUDA_ERROR_INVALID_VALUE;
	work.host = *host;
	return set_work(handle, node, &work);
}

static CUresult set_enabled(CUgraphExec handle, CUgraphNode origin, unsigned enabled)
{
	struct sim_exec_node *node;
	CUresult err = exec_node(handle, origin, &node);

	if (err != CUDA_SUCCESS)
		return err;
	if (enabled > 1 || (node->work.type != CU_GRAPH_NODE_TYPE_KERNEL &&
			    node->work.type != CU_GRAPH_NODE_TYPE_MEMSET &&
			    node->work.type != CU_GRAPH_NODE_TYPE_MEMCPY))
		return CUDA_ERROR_INVALID_VALUE;
	node->is_enabled = enabled != 0;
	return CUDA_SUCCESS;
}

static CUresult get_enabled(CUgraphExec handle, CUgraphNode origin, unsigned *ret_enabled)
{
	struct sim_exec_node *node;
	CUresult err = exec_node(handle, origin, &node);

	if (err == CUDA_SUCCESS && !ret_enabled)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		*ret_enabled = node->is_enabled;
	return err;
}

static CUresult set_event(CUgraphExec handle, CUgraphNode node, CUgraphNodeType type, CUevent event)
{
	struct sim_work work = { .type = type, .event = event };
	struct sim_event *known;
	CUresult err = sim_event_get(event, &known);

	return err == CUDA_SUCCESS ? set_work(handle, node, &work) : err;
}

static CUresult set_child(CUgraphExec handle, CUgraphNode node, CUgraph child)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_GRAPH };
	struct sim_graph *graph;
	CUresult err = sim_graph_get(child, &graph);

	if (err == CUDA_SUCCESS)
		err = sim_graph_clone(graph, &work.child);
	if (err != CUDA_SUCCESS)
		return err;
	work.child->is_child = true;
	return set_work(handle, node, &work);
}

SIM_FUNCTION(cuGraphExecKernelNodeSetParams,
	     (CUgraphExec graph_exec, CUgraphNode node,
	      const CUDA_KERNEL_NODE_PARAMS_v1 *node_params),
	     set_kernel_v1(graph_exec, node, node_params))
SIM_FUNCTION(cuGraphExecKernelNodeSetParams_v2,
	     (CUgraphExec graph_exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *node_params),
	     set_kernel(graph_exec, node, node_params))
SIM_FUNCTION(cuGraphExecMemcpyNodeSetParams,
	     (CUgraphExec graph_exec, CUgraphNode node, const CUDA_MEMCPY3D *copy_params,
	      CUcontext ctx),
	     ctx ? set_copy(graph_exec, node, copy_params) : CUDA_ERROR_INVALID_VALUE)
SIM_FUNCTION(cuGraphExecMemsetNodeSetParams,
	     (CUgraphExec graph_exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *node_params,
	      CUcontext ctx),
	     ctx ? set_fill(graph_exec, node, node_params) : CUDA_ERROR_INVALID_VALUE)
SIM_FUNCTION(cuGraphExecHostNodeSetParams,
	     (CUgraphExec graph_exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *node_params),
	     set_host(graph_exec, node, node_params))
SIM_FUNCTION(cuGraphNodeSetEnabled,
	     (CUgraphExec graph_exec, CUgraphNode node, unsigned int is_enabled),
	     set_enabled(graph_exec, node, is_enabled))
SIM_FUNCTION(cuGraphNodeGetEnabled,
	     (CUgraphExec graph_exec, CUgraphNode node, unsigned int *is_enabled),
	     get_enabled(graph_exec, node, is_enabled))
SIM_FUNCTION(cuGraphExecEventRecordNodeSetEvent,
	     (CUgraphExec graph_exec, CUgraphNode node, CUevent event),
	     set_event(graph_exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event))
SIM_FUNCTION(cuGraphExecEventWaitNodeSetEvent,
	     (CUgraphExec graph_exec, CUgraphNode node, CUevent event),
	     set_event(graph_exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event))
SIM_FUNCTION(cuGraphExecChildGraphNodeSetParams,
	     (CUgraphExec graph_exec, CUgraphNode node, CUgraph child_graph),
	     set_child(graph_exec, node, child_graph))
