/* SPDX-License-Identifier: Apache-2.0
 *
 * What every hook that takes memory does around the driver's call:
 *
 *	CUresult res = berth_charge_here(&charge, bytes);	ask the share
 *
 *	if (res == CUDA_SUCCESS)
 *		res = REAL(…);
 *	return berth_charge_settle(&charge, res, class, key);	note it, or give back
 *
 * A charge with counted == false goes through all of it and books nothing: a program in no share, a
 * call the driver will refuse by itself (no context, nothing asked for).
 */
#ifndef BERTH_INTERPOSE_CHARGE_H
#define BERTH_INTERPOSE_CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "account/books.h"
#include "driver/cuda_types.h"

struct berth_charge {
	bool counted;
	int gpu;
	CUdevice device; /* the driver's name for it, where a place was found */
	uint64_t owner;  /* context or pool */
	uint64_t bytes;  /* charged so far */
};

/* Bytes on the current context's GPU. CUDA_SUCCESS = go on; else what the program gets. 0 bytes
 * are not counted. */
BERTH_MUST_CHECK CUresult berth_charge_here(struct berth_charge *ret_charge, uint64_t bytes);
/* On a given device, whatever is current. */
BERTH_MUST_CHECK CUresult berth_charge_device(struct berth_charge *ret_charge, CUdevice device,
					      uint64_t bytes);
/* Only finds the place: counted, nothing charged yet. */
BERTH_MUST_CHECK CUresult berth_charge_place(struct berth_charge *ret_charge);
/* Likewise for memory in a stream's order: the stream's GPU. */
BERTH_MUST_CHECK CUresult berth_charge_stream(struct berth_charge *ret_charge, CUstream stream);

/* The driver really used bytes in all: asks for the rest, or gives the rest back.
 * CUDA_ERROR_OUT_OF_MEMORY: the rest doesn't fit; the caller frees the block and settles with that. */
BERTH_MUST_CHECK CUresult berth_charge_adjust(struct berth_charge *charge, uint64_t bytes);

/* After the driver's answer, which is returned. On success the block is noted under key. */
CUresult berth_charge_settle(struct berth_charge *charge, CUresult res,
			     enum berth_key_class key_class, uint64_t key);

/* Around a free: take, call, settle. */
struct berth_free {
	bool counted;
	enum berth_key_class key_class;
	uint64_t key;
	struct berth_block block;
};
struct berth_free berth_free_begin(enum berth_key_class key_class, uint64_t key);
CUresult berth_free_settle(const struct berth_free *taken, CUresult res);

#endif
