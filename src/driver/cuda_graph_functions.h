/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of graphs. Include driver/cuda_functions.h, not this.
 */
#ifndef BERTH_DRIVER_CUDA_GRAPH_FUNCTIONS_H
#define BERTH_DRIVER_CUDA_GRAPH_FUNCTIONS_H

#include "driver/cuda_types.h"

CUresult cuGraphAddChildGraphNode(CUgraphNode *graph_node, CUgraph graph,
				  const CUgraphNode *dependencies, size_t num_dependencies,
				  CUgraph child_graph);
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				size_t num_dependencies);
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				   const CUgraphEdgeData *edge_data, size_t num_dependencies);
CUresult cuGraphAddEmptyNode(CUgraphNode *graph_node, CUgraph graph,
			     const CUgraphNode *dependencies, size_t num_dependencies);
CUresult cuGraphAddEventRecordNode(CUgraphNode *graph_node, CUgraph graph,
				   const CUgraphNode *dependencies, size_t num_dependencies,
				   CUevent event);
CUresult cuGraphAddEventWaitNode(CUgraphNode *graph_node, CUgraph graph,
				 const CUgraphNode *dependencies, size_t num_dependencies,
				 CUevent event);
CUresult cuGraphAddHostNode(CUgraphNode *graph_node, CUgraph graph, const CUgraphNode *dependencies,
			    size_t num_dependencies, const CUDA_HOST_NODE_PARAMS *node_params);
CUresult cuGraphAddKernelNode(CUgraphNode *graph_node, CUgraph graph,
			      const CUgraphNode *dependencies, size_t num_dependencies,
			      const CUDA_KERNEL_NODE_PARAMS_v1 *node_params);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *graph_node, CUgraph graph,
				 const CUgraphNode *dependencies, size_t num_dependencies,
				 const CUDA_KERNEL_NODE_PARAMS *node_params);
CUresult cuGraphAddMemAllocNode(CUgraphNode *graph_node, CUgraph graph,
				const CUgraphNode *dependencies, size_t num_dependencies,
				CUDA_MEM_ALLOC_NODE_PARAMS *node_params);
CUresult cuGraphAddMemcpyNode(CUgraphNode *graph_node, CUgraph graph,
			      const CUgraphNode *dependencies, size_t num_dependencies,
			      const CUDA_MEMCPY3D *copy_params, CUcontext ctx);
CUresult cuGraphAddMemFreeNode(CUgraphNode *graph_node, CUgraph graph,
			       const CUgraphNode *dependencies, size_t num_dependencies,
			       CUdeviceptr ptr);
CUresult cuGraphAddMemsetNode(CUgraphNode *graph_node, CUgraph graph,
			      const CUgraphNode *dependencies, size_t num_dependencies,
			      const CUDA_MEMSET_NODE_PARAMS *memset_params, CUcontext ctx);
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph);
CUresult cuGraphClone(CUgraph *graph_clone, CUgraph original_graph);
CUresult cuGraphCreate(CUgraph *graph, unsigned int flags);
CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphDestroyNode(CUgraphNode node);
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event_out);
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event);
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event_out);
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event);
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec graph_exec, CUgraphNode node,
					    CUgraph child_graph);
CUresult cuGraphExecDestroy(CUgraphExec graph_exec);
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec graph_exec, CUgraphNode node,
					    CUevent event);
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec graph_exec, CUgraphNode node, CUevent event);
CUresult cuGraphExecGetFlags(CUgraphExec graph_exec, uint64_t *flags);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec graph_exec, CUgraphNode node,
				      const CUDA_HOST_NODE_PARAMS *node_params);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec graph_exec, CUgraphNode node,
					const CUDA_KERNEL_NODE_PARAMS_v1 *node_params);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec graph_exec, CUgraphNode node,
					   const CUDA_KERNEL_NODE_PARAMS *node_params);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec graph_exec, CUgraphNode node,
					const CUDA_MEMCPY3D *copy_params, CUcontext ctx);
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec graph_exec, CUgraphNode node,
					const CUDA_MEMSET_NODE_PARAMS *node_params, CUcontext ctx);
CUresult cuGraphExecUpdate(CUgraphExec graph_exec, CUgraph graph, CUgraphNode *error_node_out,
			   CUgraphExecUpdateResult *update_result_out);
CUresult cuGraphExecUpdate_v2(CUgraphExec graph_exec, CUgraph graph,
			      CUgraphExecUpdateResultInfo *result_info);
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *num_edges);
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
			    CUgraphEdgeData *edge_data, size_t *num_edges);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *num_nodes);
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *root_nodes, size_t *num_root_nodes);
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *node_params);
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *node_params);
CUresult cuGraphInstantiate(CUgraphExec *graph_exec, CUgraph graph, CUgraphNode *error_node,
			    char *log_buffer, size_t buffer_size);
CUresult cuGraphInstantiate_v2(CUgraphExec *graph_exec, CUgraph graph, CUgraphNode *error_node,
			       char *log_buffer, size_t buffer_size);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *graph_exec, CUgraph graph,
				     unsigned long long flags);
CUresult cuGraphInstantiateWithParams(CUgraphExec *graph_exec, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiate_params);
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *graph_exec, CUgraph graph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *instantiate_params);
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src);
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attr,
				       CUkernelNodeAttrValue *value_out);
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *node_params);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *node_params);
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attr,
				       const CUkernelNodeAttrValue *value);
CUresult cuGraphKernelNodeSetParams(CUgraphNode node,
				    const CUDA_KERNEL_NODE_PARAMS_v1 *node_params);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
				       const CUDA_KERNEL_NODE_PARAMS *node_params);
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream);
CUresult cuGraphLaunch_ptsz(CUgraphExec graph_exec, CUstream stream);
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params_out);
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *node_params);
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *node_params);
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *dptr_out);
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *node_params);
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *node_params);
CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original_node, CUgraph cloned_graph);
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *dependencies,
				    size_t *num_dependencies);
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *dependencies,
				       CUgraphEdgeData *edge_data, size_t *num_dependencies);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *dependent_nodes,
				      size_t *num_dependent_nodes);
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *dependent_nodes,
					 CUgraphEdgeData *edge_data, size_t *num_dependent_nodes);
CUresult cuGraphNodeGetEnabled(CUgraphExec graph_exec, CUgraphNode node, unsigned int *is_enabled);
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type);
CUresult cuGraphNodeSetEnabled(CUgraphExec graph_exec, CUgraphNode node, unsigned int is_enabled);
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				   size_t num_dependencies);
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				      const CUgraphEdgeData *edge_data, size_t num_dependencies);
CUresult cuGraphUpload(CUgraphExec graph, CUstream stream);
CUresult cuGraphUpload_ptsz(CUgraphExec graph_exec, CUstream stream);

#endif
