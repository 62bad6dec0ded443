/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported functions over the nodes and edges of a graph.
 */
#include <string.h>

#include "sim/cuda/graph.h"

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

/* All edges are plain here: their data is zero. */
static void fill_data(CUgraphEdgeData *data, size_t count)
{
	if (data)
		memset(data, 0, count * sizeof(*data));
}

static bool is_plain(const CUgraphEdgeData *data, size_t count)
{
	static const CUgraphEdgeData plain;

	for (size_t i = 0; data && i < count; i++) {
		if (memcmp(&data[i], &plain, sizeof(plain)) != 0)
			return false;
	}
	return true;
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

static CUresult get_edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
			  size_t *count)
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
	fill_data(data, *count);
	return CUDA_SUCCESS;
}

static CUresult get_dependencies(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data,
				 size_t *count)
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
	fill_data(data, *count);
	return CUDA_SUCCESS;
}

static CUresult get_dependents(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data,
			       size_t *count)
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
	fill_data(data, *count);
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

static CUresult edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
		      const CUgraphEdgeData *data, size_t count, bool remove)
{
	CUresult err = count && (!from || !to) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

	if (err == CUDA_SUCCESS && !is_plain(data, count))
		err = CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; err == CUDA_SUCCESS && i < count; i++)
		err = edge(graph, from[i], to[i], remove);
	return err;
}

SIM_FUNCTION(cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *num_nodes),
	     get_nodes(graph, nodes, num_nodes, false))
SIM_FUNCTION(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *root_nodes, size_t *num_root_nodes),
	     get_nodes(graph, root_nodes, num_root_nodes, true))
SIM_FUNCTION(cuGraphGetEdges,
	     (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *num_edges),
	     get_edges(graph, from, to, NULL, num_edges))
SIM_FUNCTION(cuGraphNodeGetDependencies,
	     (CUgraphNode node, CUgraphNode *dependencies, size_t *num_dependencies),
	     get_dependencies(node, dependencies, NULL, num_dependencies))
SIM_FUNCTION(cuGraphNodeGetDependentNodes,
	     (CUgraphNode node, CUgraphNode *dependent_nodes, size_t *num_dependent_nodes),
	     get_dependents(node, dependent_nodes, NULL, num_dependent_nodes))
SIM_FUNCTION(cuGraphAddDependencies,
	     (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	      size_t num_dependencies),
	     edges(graph, from, to, NULL, num_dependencies, false))
SIM_FUNCTION(cuGraphRemoveDependencies,
	     (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	      size_t num_dependencies),
	     edges(graph, from, to, NULL, num_dependencies, true))
SIM_FUNCTION(cuGraphGetEdges_v2,
	     (CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edge_data,
	      size_t *num_edges),
	     get_edges(graph, from, to, edge_data, num_edges))
SIM_FUNCTION(cuGraphNodeGetDependencies_v2,
	     (CUgraphNode node, CUgraphNode *dependencies, CUgraphEdgeData *edge_data,
	      size_t *num_dependencies),
	     get_dependencies(node, dependencies, edge_data, num_dependencies))
SIM_FUNCTION(cuGraphNodeGetDependentNodes_v2,
	     (CUgraphNode node, CUgraphNode *dependent_nodes, CUgraphEdgeData *edge_data,
	      size_t *num_dependent_nodes),
	     get_dependents(node, dependent_nodes, edge_data, num_dependent_nodes))
SIM_FUNCTION(cuGraphAddDependencies_v2,
	     (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	      const CUgraphEdgeData *edge_data, size_t num_dependencies),
	     edges(graph, from, to, edge_data, num_dependencies, false))
SIM_FUNCTION(cuGraphRemoveDependencies_v2,
	     (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	      const CUgraphEdgeData *edge_data, size_t num_dependencies),
	     edges(graph, from, to, edge_data, num_dependencies, true))
