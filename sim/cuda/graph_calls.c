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

/* Lists are filled up to the room given and the rest with NULL; without a list only counted. */
struct list {
	CUgraphNode *at;
	size_t room;
	size_t count;
};

static void list_add(struct list *list, struct sim_graph_node *node)
{
	if (list->at && list->count < list->room)
		list->at[list->count] = (CUgraphNode)node;
	list->count++;
}

static void list_end(struct list *list, size_t *ret_count)
{
	for (size_t i = list->count; list->at && i < list->room; i++)
		list->at[i] = NULL;
	*ret_count = list->at && list->count > list->room ? list->room : list->count;
}

static CUresult get_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count, bool roots_only)
{
	struct list list = { .at = nodes };
	struct sim_graph *graph;
	CUresult err = count ? sim_graph_get(handle, &graph) : CUDA_ERROR_INVALID_VALUE;

	if (err != CUDA_SUCCESS)
		return err;
	list.room = *count;
	for (struct sim_graph_node *node = graph->first; node; node = node->next) {
		if (!roots_only || !node->dependencies_count)
			list_add(&list, node);
	}
	list_end(&list, count);
	return CUDA_SUCCESS;
}

static CUresult get_edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
	struct list froms = { .at = from };
	struct list tos = { .at = to };
	struct sim_graph *graph;
	CUresult err = count ? sim_graph_get(handle, &graph) : CUDA_ERROR_INVALID_VALUE;

	if (err == CUDA_SUCCESS && !from != !to)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err != CUDA_SUCCESS)
		return err;
	froms.room = tos.room = *count;
	for (struct sim_graph_node *node = graph->first; node; node = node->next) {
		for (size_t i = 0; i < node->dependencies_count; i++) {
			list_add(&froms, node->dependencies[i]);
			list_add(&tos, node);
		}
	}
	list_end(&froms, count);
	list_end(&tos, count);
	return CUDA_SUCCESS;
}

static CUresult get_dependencies(CUgraphNode handle, CUgraphNode *nodes, size_t *count)
{
	struct list list = { .at = nodes };
	struct sim_graph_node *node;
	CUresult err = count ? sim_graph_node_get(handle, &node) : CUDA_ERROR_INVALID_VALUE;

	if (err != CUDA_SUCCESS)
		return err;
	list.room = *count;
	for (size_t i = 0; i < node->dependencies_count; i++)
		list_add(&list, node->dependencies[i]);
	list_end(&list, count);
	return CUDA_SUCCESS;
}

static CUresult get_dependents(CUgraphNode handle, CUgraphNode *nodes, size_t *count)
{
	struct list list = { .at = nodes };
	struct sim_graph_node *node;
	CUresult err = count ? sim_graph_node_get(handle, &node) : CUDA_ERROR_INVALID_VALUE;

	if (err != CUDA_SUCCESS)
		return err;
	list.room = *count;
	for (struct sim_graph_node *other = node->graph->first; other; other = other->next) {
		for (size_t i = 0; i < other->dependencies_count; i++) {
			if (other->dependencies[i] == node)
				list_add(&list, other);
		}
	}
	list_end(&list, count);
	return CUDA_SUCCESS;
}

static CUresult edge(CUgraph graph_handle, CUgraphNode from_handle, CUgraphNode to_handle,
		     bool remove)
{
	struct sim_graph *graph;
	struct sim_graph_node *from, *to;
	CUresult err = sim_graph_get(graph_handle, &graph);

	if (err == CUDA_SUCCESS)
		err = sim_graph_node_get(from_handle, &from);
	if (err == CUDA_SUCCESS)
		err = sim_graph_node_get(to_handle, &to);
	if (err == CUDA_SUCCESS && (from->graph != graph || to->graph != graph))
		err = CUDA_ERROR_INVALID_VALUE;
	if (err != CUDA_SUCCESS)
		return err;
	if (remove)
		return sim_graph_unlink(to, from) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	return sim_graph_link(to, from);
}

static CUresult edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count,
		      bool remove)
{
	CUresult err = count && (!from || !to) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

	for (size_t i = 0; err == CUDA_SUCCESS && i < count; i++)
		err = edge(graph, from[i], to[i], remove);
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
SIM_FUNCTION(cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *num_nodes),
	     get_nodes(graph, nodes, num_nodes, false))
SIM_FUNCTION(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *root_nodes, size_t *num_root_nodes),
	     get_nodes(graph, root_nodes, num_root_nodes, true))
SIM_FUNCTION(cuGraphGetEdges,
	     (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *num_edges),
	     get_edges(graph, from, to, num_edges))
SIM_FUNCTION(cuGraphNodeGetDependencies,
	     (CUgraphNode node, CUgraphNode *dependencies, size_t *num_dependencies),
	     get_dependencies(node, dependencies, num_dependencies))
SIM_FUNCTION(cuGraphNodeGetDependentNodes,
	     (CUgraphNode node, CUgraphNode *dependent_nodes, size_t *num_dependent_nodes),
	     get_dependents(node, dependent_nodes, num_dependent_nodes))
SIM_FUNCTION(cuGraphAddDependencies,
	     (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	      size_t num_dependencies),
	     edges(graph, from, to, num_dependencies, false))
SIM_FUNCTION(cuGraphRemoveDependencies,
	     (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	      size_t num_dependencies),
	     edges(graph, from, to, num_dependencies, true))
