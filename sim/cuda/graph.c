/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes and edges; see graph.h.
 */
#include "sim/cuda/graph.h"

#include <stdlib.h>
#include <string.h>

CUresult sim_graph_new(struct sim_graph **ret_graph)
{
	struct sim_graph *graph = sim_handle_new(SIM_HANDLE_GRAPH, sizeof(*graph));

	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	graph->last = &graph->first;
	*ret_graph = graph;
	return CUDA_SUCCESS;
}

static void node_free(struct sim_graph_node *node)
{
	sim_work_done(&node->work);
	free(node->dependencies);
	node->dependencies = NULL;
	node->dependencies_count = 0;
	sim_handle_free(node);
}

void sim_graph_free(struct sim_graph *graph)
{
	struct sim_graph_node *next;

	if (!graph)
		return;
	for (struct sim_graph_node *node = graph->first; node; node = next) {
		next = node->next;
		node_free(node);
	}
	graph->first = NULL;
	graph->count = 0;
	sim_handle_free(graph);
}

CUresult sim_graph_get(CUgraph handle, struct sim_graph **ret_graph)
{
	struct sim_graph *graph = sim_handle_get(SIM_HANDLE_GRAPH, handle);

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE; /* as for all graph handles, not INVALID_HANDLE */
	*ret_graph = graph;
	return CUDA_SUCCESS;
}

CUresult sim_graph_node_get(CUgraphNode handle, struct sim_graph_node **ret_node)
{
	struct sim_graph_node *node = sim_handle_get(SIM_HANDLE_NODE, handle);

	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_node = node;
	return CUDA_SUCCESS;
}

static bool depends_on(const struct sim_graph_node *node, const struct sim_graph_node *other)
{
	for (size_t i = 0; i < node->dependencies_count; i++) {
		if (node->dependencies[i] == other)
			return true;
	}
	return false;
}

CUresult sim_graph_link(struct sim_graph_node *node, struct sim_graph_node *dependency)
{
	struct sim_graph_node **grown;

	if (node == dependency || node->graph != dependency->graph || depends_on(node, dependency))
		return CUDA_ERROR_INVALID_VALUE;
	grown = realloc(node->dependencies, (node->dependencies_count + 1) * sizeof(*grown));
	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->dependencies = grown;
	grown[node->dependencies_count++] = dependency;
	return CUDA_SUCCESS;
}

bool sim_graph_unlink(struct sim_graph_node *node, const struct sim_graph_node *dependency)
{
	for (size_t i = 0; i < node->dependencies_count; i++) {
		if (node->dependencies[i] != dependency)
			continue;
		memmove(&node->dependencies[i], &node->dependencies[i + 1],
			(node->dependencies_count - i - 1) * sizeof(*node->dependencies));
		node->dependencies_count--;
		return true;
	}
	return false;
}

static CUresult link_all(struct sim_graph_node *node, const CUgraphNode *dependencies, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct sim_graph_node *dependency;
		CUresult err = sim_graph_node_get(dependencies[i], &dependency);

		if (err == CUDA_SUCCESS)
			err = sim_graph_link(node, dependency);
		if (err != CUDA_SUCCESS)
			return err;
	}
	return CUDA_SUCCESS;
}

static void append(struct sim_graph *graph, struct sim_graph_node *node)
{
	*graph->last = node;
	graph->last = &node->next;
	graph->count++;
}

CUresult sim_graph_add(struct sim_graph *graph, const CUgraphNode *dependencies, size_t count,
		       struct sim_work *work, struct sim_graph_node **ret_node)
{
	struct sim_graph_node *node;
	CUresult err = count && !dependencies ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

	node = err == CUDA_SUCCESS ? sim_handle_new(SIM_HANDLE_NODE, sizeof(*node)) : NULL;
	if (!node) {
		sim_work_done(work);
		return err != CUDA_SUCCESS ? err : CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->graph = graph;
	node->work = *work;
	err = link_all(node, dependencies, count);
	if (err != CUDA_SUCCESS) {
		node_free(node);
		return err;
	}
	append(graph, node);
	*ret_node = node;
	return CUDA_SUCCESS;
}

void sim_graph_remove(struct sim_graph_node *node)
{
	struct sim_graph *graph = node->graph;
	struct sim_graph_node **link = &graph->first;

	while (*link && *link != node)
		link = &(*link)->next;
	*link = node->next;
	if (graph->last == &node->next)
		graph->last = link;
	graph->count--;
	for (struct sim_graph_node *other = graph->first; other; other = other->next)
		(void)sim_graph_unlink(other, node); /* most don't depend on it */
	node_free(node);
}

/* Puts a node behind its dependencies; false: it depends on itself over some way. */
static bool visit(struct sim_graph_node *node, struct sim_graph_node **nodes, size_t *count)
{
	enum { NEW = 0, OPEN = 1, PLACED = 2 };

	if (node->mark == PLACED)
		return true;
	if (node->mark == OPEN)
		return false;
	node->mark = OPEN;
	for (size_t i = 0; i < node->dependencies_count; i++) {
		if (!visit(node->dependencies[i], nodes, count))
			return false;
	}
	node->mark = PLACED;
	nodes[(*count)++] = node;
	return true;
}

CUresult sim_graph_sort(const struct sim_graph *graph, struct sim_graph_node ***ret_nodes)
{
	struct sim_graph_node **nodes = calloc(graph->count ? graph->count : 1, sizeof(*nodes));
	size_t count = 0;

	*ret_nodes = NULL;
	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (struct sim_graph_node *node = graph->first; node; node = node->next)
		node->mark = 0;
	for (struct sim_graph_node *node = graph->first; node; node = node->next) {
		if (!visit(node, nodes, &count)) {
			free(nodes);
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	*ret_nodes = nodes;
	return CUDA_SUCCESS;
}

static struct sim_graph_node *find_clone(const struct sim_graph *clone,
					 const struct sim_graph_node *original)
{
	struct sim_graph_node *node;

	for (node = clone->first; node && node->original != original; node = node->next)
		continue;
	return node;
}

static CUresult clone_node(struct sim_graph *clone, struct sim_graph_node *original)
{
	struct sim_graph_node *node;
	struct sim_work work;
	CUresult err = sim_work_copy(&work, &original->work);

	if (err == CUDA_SUCCESS)
		err = sim_graph_add(clone, NULL, 0, &work, &node);
	if (err != CUDA_SUCCESS)
		return err;
	node->original = original;
	for (size_t i = 0; i < original->dependencies_count && err == CUDA_SUCCESS; i++)
		err = sim_graph_link(node, find_clone(clone, original->dependencies[i]));
	return err;
}

CUresult sim_graph_clone(const struct sim_graph *graph, struct sim_graph **ret_clone)
{
	struct sim_graph_node **nodes = NULL;
	struct sim_graph *clone;
	CUresult err = sim_graph_new(&clone);

	if (err != CUDA_SUCCESS)
		return err;
	err = sim_graph_sort(graph, &nodes);
	for (size_t i = 0; err == CUDA_SUCCESS && i < graph->count; i++)
		err = clone_node(clone, nodes[i]);
	free(nodes);
	if (err == CUDA_SUCCESS)
		*ret_clone = clone;
	else
		sim_graph_free(clone);
	return err;
}
