/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs: nodes with dependencies, made by hand or by capture, and what is instantiated from them.
 * As with the driver, a graph is not to be used by two threads at once; capture locks for itself.
 *
 * Memory of an allocation node is taken when the node is made and stays until the graph and all
 * that was instantiated from it are gone, or the program frees it: an address must hold from then
 * on, and the simulator has no address without memory. (A driver takes the memory at launch.)
 */
#ifndef BERTH_SIM_CUDA_GRAPH_H
#define BERTH_SIM_CUDA_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "driver/cuda_types.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/launch.h"

struct sim_event;
struct sim_graph;

struct sim_graph_memory {
	_Atomic uint32_t references;
	CUdeviceptr pointer;
	uint64_t buffer_id; /* tells this block from a later one at its address */
	unsigned gpu;
	CUDA_MEM_ALLOC_NODE_PARAMS parameters;
};

struct sim_kernel_work {
	CUDA_KERNEL_NODE_PARAMS parameters; /* kernelParams points into pointers */
	bool is_cooperative;
	unsigned char *values;
	void **pointers;
};

/* What a node does. Owns what it points to. */
struct sim_work {
	CUgraphNodeType type;
	union {
		struct sim_kernel_work kernel;
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS fill;
		CUDA_HOST_NODE_PARAMS host;
		struct sim_graph *child;
		CUevent event;
		struct sim_graph_memory *memory;
		CUdeviceptr pointer;
	};
};

struct sim_graph_node {
	struct sim_handle handle;
	struct sim_graph *graph;
	struct sim_graph_node *next; /* in the order they were added */
	struct sim_graph_node **dependencies;
	size_t dependencies_count;
	struct sim_graph_node *original; /* of a clone */
	struct sim_work work;
	size_t mark; /* scratch of sorting */
};

struct sim_graph {
	struct sim_handle handle;
	struct sim_graph_node *first;
	struct sim_graph_node **last;
	size_t count;
	bool is_child; /* belongs to a node: the program must not destroy it */
};

struct sim_exec_node {
	struct sim_graph_node *origin;
	struct sim_work work;
	bool is_enabled;
};

struct sim_exec {
	struct sim_handle handle;
	uint64_t flags;
	size_t count;
	struct sim_exec_node *nodes; /* in an order that keeps the dependencies */
};

/* graph_work.c */
CUresult sim_work_kernel(struct sim_work *ret_work, const CUDA_KERNEL_NODE_PARAMS *parameters,
			 bool is_cooperative);
CUresult sim_work_alloc(struct sim_work *ret_work, struct sim_context *context, CUmemoryPool pool,
			const CUDA_MEM_ALLOC_NODE_PARAMS *parameters);
CUresult sim_work_copy(struct sim_work *ret_work, const struct sim_work *work);
void sim_work_done(struct sim_work *work);
CUresult sim_work_run(const struct sim_work *work, struct sim_stream *stream);

/* graph.c */
CUresult sim_graph_new(struct sim_graph **ret_graph);
void sim_graph_free(struct sim_graph *graph);
CUresult sim_graph_clone(const struct sim_graph *graph, struct sim_graph **ret_clone);
CUresult sim_graph_get(CUgraph handle, struct sim_graph **ret_graph);
CUresult sim_graph_node_get(CUgraphNode handle, struct sim_graph_node **ret_node);
/* Takes the work over, also when it fails. */
CUresult sim_graph_add(struct sim_graph *graph, const CUgraphNode *dependencies, size_t count,
		       struct sim_work *work, struct sim_graph_node **ret_node);
void sim_graph_remove(struct sim_graph_node *node);
CUresult sim_graph_link(struct sim_graph_node *node, struct sim_graph_node *dependency);
bool sim_graph_unlink(struct sim_graph_node *node, const struct sim_graph_node *dependency);
/* All nodes so that each comes after its dependencies; free the array. INVALID_VALUE: a circle. */
CUresult sim_graph_sort(const struct sim_graph *graph, struct sim_graph_node ***ret_nodes);

/* Bytes that allocation nodes hold on a GPU: now, and at most since the last reset. */
uint64_t sim_graph_memory_bytes(unsigned gpu);
uint64_t sim_graph_memory_most_bytes(unsigned gpu);
void sim_graph_memory_reset_most(unsigned gpu);

/* graph_exec.c */
CUresult sim_exec_get(CUgraphExec handle, struct sim_exec **ret_exec);
CUresult sim_exec_run(const struct sim_exec *exec, struct sim_stream *stream);

#endif
