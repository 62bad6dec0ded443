/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported functions that add nodes and look at or change what they do.
 */
#include <string.h>

#include "sim/cuda/copy.h"
#include "sim/cuda/event.h"
#include "sim/cuda/graph.h"

/* Where a node is to be added. */
struct place {
	CUgraphNode *ret_node;
	CUgraph graph;
	const CUgraphNode *dependencies;
	size_t count;
};

#define PLACE                                                     \
	(struct place)                                            \
	{                                                         \
		graph_node, graph, dependencies, num_dependencies \
	}

/* Takes the work over. */
static CUresult add(struct place place, struct sim_work *work)
{
	struct sim_graph_node *node;
	struct sim_graph *graph;
	CUresult err =
		place.ret_node ? sim_graph_get(place.graph, &graph) : CUDA_ERROR_INVALID_VALUE;

	if (err != CUDA_SUCCESS) {
		sim_work_done(work);
		return err;
	}
	err = sim_graph_add(graph, place.dependencies, place.count, work, &node);
	if (err == CUDA_SUCCESS)
		*place.ret_node = (CUgraphNode)node;
	return err;
}

static CUresult add_kernel(struct place place, const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct sim_work work;
	CUresult err = params ? sim_work_kernel(&work, params, false) : CUDA_ERROR_INVALID_VALUE;

	return err == CUDA_SUCCESS ? add(place, &work) : err;
}

static CUresult add_kernel_v1(struct place place, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS newer = { .func = NULL };

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&newer, params, sizeof(*params));
	return add_kernel(place, &newer);
}

static CUresult add_copy(struct place place, const CUDA_MEMCPY3D *copy, CUcontext context)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };
	CUresult err = copy && context ? sim_copy_check(copy) : CUDA_ERROR_INVALID_VALUE;

	if (err != CUDA_SUCCESS)
		return err;
	work.copy = *copy;
	return add(place, &work);
}

static CUresult add_fill(struct place place, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
	CUresult err = fill && context ? sim_fill_check(fill) : CUDA_ERROR_INVALID_VALUE;

	if (err != CUDA_SUCCESS)
		return err;
	work.fill = *fill;
	return add(place, &work);
}

static CUresult add_host(struct place place, const CUDA_HOST_NODE_PARAMS *host)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_HOST };

	if (!host || !host->fn)
		return CUDA_ERROR_INVALID_VALUE;
	work.host = *host;
	return add(place, &work);
}

static CUresult add_child(struct place place, CUgraph child_handle)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_GRAPH };
	struct sim_graph *child;
	CUresult err = sim_graph_get(child_handle, &child);

	if (err == CUDA_SUCCESS)
		err = sim_graph_clone(child, &work.child);
	if (err != CUDA_SUCCESS)
		return err;
	work.child->is_child = true;
	return add(place, &work);
}

static CUresult add_empty(struct place place)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_EMPTY };

	return add(place, &work);
}

static CUresult add_event(struct place place, CUgraphNodeType type, CUevent handle)
{
	struct sim_work work = { .type = type, .event = handle };
	struct sim_event *event;
	CUresult err = sim_event_get(handle, &event);

	return err == CUDA_SUCCESS ? add(place, &work) : err;
}

static CUresult add_alloc(struct place place, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	struct sim_context *context;
	struct sim_work work;
	CUdeviceptr pointer;
	CUresult err = sim_context_current(&context);

	if (err != CUDA_SUCCESS)
		return err;
	if (!params || !params->bytesize ||
	    params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->poolProps.location.id != context->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = sim_work_alloc(&work, context, NULL, params);
	if (err != CUDA_SUCCESS)
		return err;
	pointer = work.memory->pointer;
	err = add(place, &work);
	if (err == CUDA_SUCCESS)
		params->dptr = pointer;
	return err;
}

static CUresult add_free(struct place place, CUdeviceptr pointer)
{
	struct sim_work work = { .type = CU_GRAPH_NODE_TYPE_MEM_FREE, .pointer = pointer };

	return pointer ? add(place, &work) : CUDA_ERROR_INVALID_VALUE;
}

/* A node of one type. */
static CUresult typed(CUgraphNode handle, CUgraphNodeType type, const void *must,
		      struct sim_work **ret_work)
{
	struct sim_graph_node *node;
	CUresult err = sim_graph_node_get(handle, &node);

	if (err == CUDA_SUCCESS && (!must || node->work.type != type))
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		*ret_work = &node->work;
	return err;
}

static CUresult get_kernel(CUgraphNode node, void *ret_params, size_t bytes)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_KERNEL, ret_params, &work);

	if (err == CUDA_SUCCESS)
		memcpy(ret_params, &work->kernel.parameters, bytes);
	return err;
}

static CUresult set_kernel(CUgraphNode node, const void *params, size_t bytes)
{
	CUDA_KERNEL_NODE_PARAMS newer = { .func = NULL };
	struct sim_work *work;
	struct sim_work fresh;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_KERNEL, params, &work);

	if (err != CUDA_SUCCESS)
		return err;
	memcpy(&newer, params, bytes);
	err = sim_work_kernel(&fresh, &newer, work->kernel.is_cooperative);
	if (err != CUDA_SUCCESS)
		return err;
	sim_work_done(work);
	*work = fresh;
	return CUDA_SUCCESS;
}

/* Of a kernel node's attributes only one changes what happens here; the others only hint. */
static bool is_kernel_attribute(CUkernelNodeAttrID attribute)
{
	return (int)attribute > CU_LAUNCH_ATTRIBUTE_IGNORE &&
	       attribute <= CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING;
}

static CUresult get_attribute(CUgraphNode node, CUkernelNodeAttrID attribute,
			      CUkernelNodeAttrValue *ret_value)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_KERNEL, ret_value, &work);

	if (err == CUDA_SUCCESS && !is_kernel_attribute(attribute))
		err = CUDA_ERROR_INVALID_VALUE;
	if (err != CUDA_SUCCESS)
		return err;
	memset(ret_value, 0, sizeof(*ret_value));
	if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		ret_value->cooperative = work->kernel.is_cooperative;
	return CUDA_SUCCESS;
}

static CUresult set_attribute(CUgraphNode node, CUkernelNodeAttrID attribute,
			      const CUkernelNodeAttrValue *value)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_KERNEL, value, &work);

	if (err == CUDA_SUCCESS && !is_kernel_attribute(attribute))
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS && attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		work->kernel.is_cooperative = value->cooperative != 0;
	return err;
}

static CUresult copy_attributes(CUgraphNode to, CUgraphNode from)
{
	struct sim_work *target, *source;
	CUresult err = typed(to, CU_GRAPH_NODE_TYPE_KERNEL, to, &target);

	if (err == CUDA_SUCCESS)
		err = typed(from, CU_GRAPH_NODE_TYPE_KERNEL, from, &source);
	if (err == CUDA_SUCCESS)
		target->kernel.is_cooperative = source->kernel.is_cooperative;
	return err;
}

static CUresult get_copy(CUgraphNode node, CUDA_MEMCPY3D *ret_copy)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_MEMCPY, ret_copy, &work);

	if (err == CUDA_SUCCESS)
		*ret_copy = work->copy;
	return err;
}

static CUresult set_copy(CUgraphNode node, const CUDA_MEMCPY3D *copy)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_MEMCPY, copy, &work);

	if (err == CUDA_SUCCESS)
		err = sim_copy_check(copy);
	if (err == CUDA_SUCCESS)
		work->copy = *copy;
	return err;
}

static CUresult get_fill(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *ret_fill)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_MEMSET, ret_fill, &work);

	if (err == CUDA_SUCCESS)
		*ret_fill = work->fill;
	return err;
}

static CUresult set_fill(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_MEMSET, fill, &work);

	if (err == CUDA_SUCCESS)
		err = sim_fill_check(fill);
	if (err == CUDA_SUCCESS)
		work->fill = *fill;
	return err;
}

static CUresult get_host(CUgraphNode node, CUDA_HOST_NODE_PARAMS *ret_host)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_HOST, ret_host, &work);

	if (err == CUDA_SUCCESS)
		*ret_host = work->host;
	return err;
}

static CUresult set_host(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_HOST, host, &work);

	if (err == CUDA_SUCCESS && !host->fn)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		work->host = *host;
	return err;
}

static CUresult get_child(CUgraphNode node, CUgraph *ret_child)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_GRAPH, ret_child, &work);

	if (err == CUDA_SUCCESS)
		*ret_child = (CUgraph)work->child;
	return err;
}

static CUresult get_event(CUgraphNode node, CUgraphNodeType type, CUevent *ret_event)
{
	struct sim_work *work;
	CUresult err = typed(node, type, ret_event, &work);

	if (err == CUDA_SUCCESS)
		*ret_event = work->event;
	return err;
}

static CUresult set_event(CUgraphNode node, CUgraphNodeType type, CUevent handle)
{
	struct sim_event *event;
	struct sim_work *work;
	CUresult err = typed(node, type, handle, &work);

	if (err == CUDA_SUCCESS)
		err = sim_event_get(handle, &event);
	if (err == CUDA_SUCCESS)
		work->event = handle;
	return err;
}

static CUresult get_alloc(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *ret_params)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, ret_params, &work);

	if (err == CUDA_SUCCESS)
		*ret_params = work->memory->parameters;
	return err;
}

static CUresult get_free(CUgraphNode node, CUdeviceptr *ret_pointer)
{
	struct sim_work *work;
	CUresult err = typed(node, CU_GRAPH_NODE_TYPE_MEM_FREE, ret_pointer, &work);

	if (err == CUDA_SUCCESS)
		*ret_pointer = work->pointer;
	return err;
}

#define AT                                                                       \
	CUgraphNode *graph_node, CUgraph graph, const CUgraphNode *dependencies, \
		size_t num_dependencies

SIM_FUNCTION(cuGraphAddKernelNode, (AT, const CUDA_KERNEL_NODE_PARAMS_v1 *node_params),
	     add_kernel_v1(PLACE, node_params))
SIM_FUNCTION(cuGraphAddKernelNode_v2, (AT, const CUDA_KERNEL_NODE_PARAMS *node_params),
	     add_kernel(PLACE, node_params))
SIM_FUNCTION(cuGraphAddMemcpyNode, (AT, const CUDA_MEMCPY3D *copy_params, CUcontext ctx),
	     add_copy(PLACE, copy_params, ctx))
SIM_FUNCTION(cuGraphAddMemsetNode,
	     (AT, const CUDA_MEMSET_NODE_PARAMS *memset_params, CUcontext ctx),
	     add_fill(PLACE, memset_params, ctx))
SIM_FUNCTION(cuGraphAddHostNode, (AT, const CUDA_HOST_NODE_PARAMS *node_params),
	     add_host(PLACE, node_params))
SIM_FUNCTION(cuGraphAddChildGraphNode, (AT, CUgraph child_graph), add_child(PLACE, child_graph))
SIM_FUNCTION(cuGraphAddEmptyNode, (AT), add_empty(PLACE))
SIM_FUNCTION(cuGraphAddEventRecordNode, (AT, CUevent event),
	     add_event(PLACE, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event))
SIM_FUNCTION(cuGraphAddEventWaitNode, (AT, CUevent event),
	     add_event(PLACE, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event))
SIM_FUNCTION(cuGraphAddMemAllocNode, (AT, CUDA_MEM_ALLOC_NODE_PARAMS *node_params),
	     add_alloc(PLACE, node_params))
SIM_FUNCTION(cuGraphAddMemFreeNode, (AT, CUdeviceptr ptr), add_free(PLACE, ptr))
SIM_FUNCTION(cuGraphKernelNodeGetParams,
	     (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *node_params),
	     get_kernel(node, node_params, sizeof(*node_params)))
SIM_FUNCTION(cuGraphKernelNodeGetParams_v2,
	     (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *node_params),
	     get_kernel(node, node_params, sizeof(*node_params)))
SIM_FUNCTION(cuGraphKernelNodeSetParams,
	     (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *node_params),
	     set_kernel(node, node_params, sizeof(*node_params)))
SIM_FUNCTION(cuGraphKernelNodeSetParams_v2,
	     (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *node_params),
	     set_kernel(node, node_params, sizeof(*node_params)))
SIM_FUNCTION(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D *node_params),
	     get_copy(node, node_params))
SIM_FUNCTION(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D *node_params),
	     set_copy(node, node_params))
SIM_FUNCTION(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *node_params),
	     get_fill(node, node_params))
SIM_FUNCTION(cuGraphMemsetNodeSetParams,
	     (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *node_params),
	     set_fill(node, node_params))
SIM_FUNCTION(cuGraphHostNodeGetParams, (CUgraphNode node, CUDA_HOST_NODE_PARAMS *node_params),
	     get_host(node, node_params))
SIM_FUNCTION(cuGraphHostNodeSetParams, (CUgraphNode node, const CUDA_HOST_NODE_PARAMS *node_params),
	     set_host(node, node_params))
SIM_FUNCTION(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph *graph),
	     get_child(node, graph))
SIM_FUNCTION(cuGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent *event_out),
	     get_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out))
SIM_FUNCTION(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event),
	     set_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event))
SIM_FUNCTION(cuGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent *event_out),
	     get_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out))
SIM_FUNCTION(cuGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event),
	     set_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event))
SIM_FUNCTION(cuGraphMemAllocNodeGetParams,
	     (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params_out),
	     get_alloc(node, params_out))
SIM_FUNCTION(cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr *dptr_out),
	     get_free(node, dptr_out))
SIM_FUNCTION(cuGraphKernelNodeGetAttribute,
	     (CUgraphNode node, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out),
	     get_attribute(node, attr, value_out))
SIM_FUNCTION(cuGraphKernelNodeSetAttribute,
	     (CUgraphNode node, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value),
	     set_attribute(node, attr, value))
SIM_FUNCTION(cuGraphKernelNodeCopyAttributes, (CUgraphNode dst, CUgraphNode src),
	     copy_attributes(dst, src))
