/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported functions of graphs as a whole: make, clone, end, edges.
 */
#include "sim/cuda/graph.h"

static CUresult create(CUgraph *ret_graph, unsigned flags)
{
	struct sim_graph *graph;
	CUresult err;

	if (!ret_graph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_graph_new(&graph);
	if (err == CUDA_SUCCESS)
		*ret_graph = (CUgraph)graph;
	return err;
}

static CUresult destroy(CUgraph handle)
{
	struct sim_graph *graph;
	CUresult err = sim_graph_get(handle, &graph);

	if (err == CUDA_SUCCESS && graph->is_child)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		sim_graph_free(graph);
	return err;
}

static CUresult clone_graph(CUgraph *ret_clone, CUgraph handle)
{
	struct sim_graph *graph, *copy;
	CUresult err;

	if (!ret_clone)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_graph_get(handle, &graph);
	if (err == CUDA_SUCCESS)
		err = sim_graph_clone(graph, &copy);
	if (err == CUDA_SUCCESS)
		*ret_clone = (CUgraph)copy;
	return err;
}

static CUresult find_in_clone(CUgraphNode *ret_node, CUgraphNode original_handle, CUgraph handle)
{
	struct sim_graph_node *original;
	struct sim_graph *graph;
	CUresult err = ret_node ? sim_graph_node_get(original_handle, &original)
				: CUDA_ERROR_INVALID_VALUE;

	if (err == CUDA_SUCCESS)
		err = sim_graph_get(handle, &graph);
	if (err != CUDA_SUCCESS)
		return err;
	for (struct sim_graph_node *node = graph->first; node; node = node->next) {
		if (node->original == original) {
			*ret_node = (CUgraphNode)node;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult destroy_node(CUgraphNode handle)
{
	struct sim_graph_node *node;
	CUresult err = sim_graph_node_get(handle, &node);

	/* Memory nodes stay with their graph. */
	if (err == CUDA_SUCCESS && (node->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
				    node->work.type == CU_GRAPH_NODE_TYPE_MEM_FREE))
		err = CUDA_ERROR_NOT_SUPPORTED;
	if (err == CUDA_SUCCESS)
		sim_graph_remove(node);
	return err;
}

static CUresult get_type(CUgraphNode handle, CUgraphNodeType *ret_type)
{
	struct sim_graph_node *node;
	CUresult err = ret_type ? sim_graph_node_get(handle, &node) : CUDA_ERROR_INVALID_VALUE;

	if (err == CUDA_SUCCESS)
		*ret_type = node->work.type;
	return err;
}

SIM_FUNCTION(cuGraphCreate, (CUgraph * graph, unsigned int flags), create(graph, flags))
SIM_FUNCTION(cuGraphDestroy, (CUgraph graph), destroy(graph))
SIM_FUNCTION(cuGraphClone, (CUgraph * graph_clone, CUgraph original_graph),
	     clone_graph(graph_clone, original_graph))
SIM_FUNCTION(cuGraphNodeFindInClone,
	     (CUgraphNode * node, CUgraphNode original_node, CUgraph cloned_graph),
	     find_in_clone(node, original_node, cloned_graph))
SIM_FUNCTION(cuGraphDestroyNode, (CUgraphNode node), destroy_node(node))
SIM_FUNCTION(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType *type), get_type(node, type))
