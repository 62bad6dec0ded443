/* SPDX-License-Identifier: Apache-2.0
 *
 * Texture and surface objects: checked descriptions that kernels would sample. Nothing samples them
 * here, but a bad description is refused when the object is made, as by a driver.
 */
#include "sim/cuda/array.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/stream_state.h"

#define PITCH_ALIGN_BYTES  32U
#define OFFSET_ALIGN_BYTES 512U

struct sim_texture {
	struct sim_handle handle;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view;
};

static CUresult check_memory(CUdeviceptr pointer, size_t bytes)
{
	void *host;

	if (pointer % OFFSET_ALIGN_BYTES || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_memory_resolve(pointer, bytes, SIM_READ, &host);
}

static CUresult check_pitched(const CUDA_RESOURCE_DESC *resource)
{
	size_t bytes;

	if (!resource->res.pitch2D.height || !resource->res.pitch2D.width ||
	    resource->res.pitch2D.pitchInBytes % PITCH_ALIGN_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(resource->res.pitch2D.height, resource->res.pitch2D.pitchInBytes,
				   &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	/* The last row needs no padding behind it. */
	bytes -= resource->res.pitch2D.pitchInBytes - 1;
	return check_memory(resource->res.pitch2D.devPtr, bytes);
}

static CUresult check_resource(const CUDA_RESOURCE_DESC *resource)
{
	if (resource->flags)
		return CUDA_ERROR_INVALID_VALUE;
	switch (resource->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return sim_array_get(resource->res.array.hArray) ? CUDA_SUCCESS
								 : CUDA_ERROR_INVALID_VALUE;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return sim_mipmap_get(resource->res.mipmap.hMipmappedArray)
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	case CU_RESOURCE_TYPE_LINEAR:
		return check_memory(resource->res.linear.devPtr, resource->res.linear.sizeInBytes);
	case CU_RESOURCE_TYPE_PITCH2D:
		return check_pitched(resource);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult make(enum sim_handle_kind kind, const CUDA_RESOURCE_DESC *resource,
		     struct sim_texture **ret_texture)
{
	struct sim_context *context;
	struct sim_texture *texture;
	CUresult err = sim_context_current(&context);

	if (err == CUDA_SUCCESS)
		err = resource ? check_resource(resource) : CUDA_ERROR_INVALID_VALUE;
	if (err != CUDA_SUCCESS)
		return err;
	texture = sim_handle_new(kind, sizeof(*texture));
	if (!texture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	texture->resource = *resource;
	*ret_texture = texture;
	return CUDA_SUCCESS;
}

static CUresult texture_create(CUtexObject *ret_object, const CUDA_RESOURCE_DESC *resource,
			       const CUDA_TEXTURE_DESC *description,
			       const CUDA_RESOURCE_VIEW_DESC *view)
{
	struct sim_texture *texture;
	CUresult err;

	if (!ret_object || !description)
		return CUDA_ERROR_INVALID_VALUE;
	err = make(SIM_HANDLE_TEXTURE, resource, &texture);
	if (err != CUDA_SUCCESS)
		return err;
	texture->texture = *description;
	texture->has_view = view != NULL;
	if (view)
		texture->view = *view;
	*ret_object = (CUtexObject)(uintptr_t)texture;
	return CUDA_SUCCESS;
}

static CUresult surface_create(CUsurfObject *ret_object, const CUDA_RESOURCE_DESC *resource)
{
	struct sim_texture *surface;
	CUresult err;

	if (!ret_object || (resource && resource->resType != CU_RESOURCE_TYPE_ARRAY))
		return CUDA_ERROR_INVALID_VALUE;
	err = make(SIM_HANDLE_SURFACE, resource, &surface);
	if (err == CUDA_SUCCESS)
		*ret_object = (CUsurfObject)(uintptr_t)surface;
	return err;
}

static CUresult find(enum sim_handle_kind kind, unsigned long long object,
		     struct sim_texture **ret_texture)
{
	struct sim_texture *texture = sim_handle_get(kind, (const void *)(uintptr_t)object);

	if (!texture)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_texture = texture;
	return CUDA_SUCCESS;
}

static CUresult destroy(enum sim_handle_kind kind, unsigned long long object)
{
	struct sim_texture *texture;
	CUresult err = find(kind, object, &texture);

	if (err == CUDA_SUCCESS)
		sim_handle_free(texture);
	return err;
}

static CUresult get_resource(enum sim_handle_kind kind, CUDA_RESOURCE_DESC *ret_resource,
			     unsigned long long object)
{
	struct sim_texture *texture;
	CUresult err = ret_resource ? find(kind, object, &texture) : CUDA_ERROR_INVALID_VALUE;

	if (err == CUDA_SUCCESS)
		*ret_resource = texture->resource;
	return err;
}

static CUresult get_texture(CUDA_TEXTURE_DESC *ret_texture, CUtexObject object)
{
	struct sim_texture *texture;
	CUresult err =
		ret_texture ? find(SIM_HANDLE_TEXTURE, object, &texture) : CUDA_ERROR_INVALID_VALUE;

	if (err == CUDA_SUCCESS)
		*ret_texture = texture->texture;
	return err;
}

static CUresult get_view(CUDA_RESOURCE_VIEW_DESC *ret_view, CUtexObject object)
{
	struct sim_texture *texture;
	CUresult err =
		ret_view ? find(SIM_HANDLE_TEXTURE, object, &texture) : CUDA_ERROR_INVALID_VALUE;

	if (err == CUDA_SUCCESS && !texture->has_view)
		err = CUDA_ERROR_INVALID_VALUE;
	if (err == CUDA_SUCCESS)
		*ret_view = texture->view;
	return err;
}

SIM_FUNCTION(cuTexObjectCreate,
	     (CUtexObject * tex_object, const CUDA_RESOURCE_DESC *res_desc,
	      const CUDA_TEXTURE_DESC *tex_desc, const CUDA_RESOURCE_VIEW_DESC *res_view_desc),
	     texture_create(tex_object, res_desc, tex_desc, res_view_desc))
SIM_FUNCTION(cuTexObjectDestroy, (CUtexObject tex_object), destroy(SIM_HANDLE_TEXTURE, tex_object))
SIM_FUNCTION(cuTexObjectGetResourceDesc, (CUDA_RESOURCE_DESC * res_desc, CUtexObject tex_object),
	     get_resource(SIM_HANDLE_TEXTURE, res_desc, tex_object))
SIM_FUNCTION(cuTexObjectGetTextureDesc, (CUDA_TEXTURE_DESC * tex_desc, CUtexObject tex_object),
	     get_texture(tex_desc, tex_object))
SIM_FUNCTION(cuTexObjectGetResourceViewDesc,
	     (CUDA_RESOURCE_VIEW_DESC * res_view_desc, CUtexObject tex_object),
	     get_view(res_view_desc, tex_object))
SIM_FUNCTION(cuSurfObjectCreate, (CUsurfObject * surf_object, const CUDA_RESOURCE_DESC *res_desc),
	     surface_create(surf_object, res_desc))
SIM_FUNCTION(cuSurfObjectDestroy, (CUsurfObject surf_object),
	     destroy(SIM_HANDLE_SURFACE, surf_object))
SIM_FUNCTION(cuSurfObjectGetResourceDesc, (CUDA_RESOURCE_DESC * res_desc, CUsurfObject surf_object),
	     get_resource(SIM_HANDLE_SURFACE, res_desc, surf_object))
