/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles: the address of an object that the program may hand back, also after its end, also a made
 * up one. A table of every address that ever was an object tells them apart, so a bad handle is an
 * error code and never a crash. Objects are never given back to the allocator: a dead one lies in
 * its kind's queue and is used again only after SIM_HANDLE_QUARANTINE others, so a handle kept too
 * long is found for a good while.
 */
#ifndef BERTH_SIM_CUDA_HANDLE_H
#define BERTH_SIM_CUDA_HANDLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_HANDLE_QUARANTINE 1024U

enum sim_handle_kind {
	SIM_HANDLE_DEAD = 0,
	SIM_HANDLE_STREAM,
	SIM_HANDLE_EVENT,
	SIM_HANDLE_MODULE,
	SIM_HANDLE_LIBRARY,
	SIM_HANDLE_FUNCTION,
	SIM_HANDLE_KERNEL,
	SIM_HANDLE_LINK,
	SIM_HANDLE_GRAPH,
	SIM_HANDLE_NODE,
	SIM_HANDLE_EXEC,
	SIM_HANDLE_TEXTURE,
	SIM_HANDLE_SURFACE,
	SIM_HANDLE_ARRAY,
	SIM_HANDLE_MIPMAP,
	SIM_HANDLE_POOL,
	SIM_HANDLE_ALLOCATION, /* cuMemCreate */
	SIM_HANDLE_EXTERNAL_MEMORY,
	SIM_HANDLE_KINDS
};

/* First member of every object. */
struct sim_handle {
	_Atomic uint32_t kind;
	uint32_t born_kind; /* whose queue it goes to */
	struct sim_handle *next;
};

/* A zeroed object; all of one kind are of one size. NULL: out of memory. */
void *sim_handle_new(enum sim_handle_kind kind, size_t bytes);
/* Dead from here on. NULL is accepted. */
void sim_handle_free(void *object);
/* The object if it lives and is of that kind, else NULL. Any pointer may be asked about. */
void *sim_handle_get(enum sim_handle_kind kind, const void *handle);

#endif
