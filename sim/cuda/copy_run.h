/* SPDX-License-Identifier: Apache-2.0
 *
 * How the exported copies and fills meet the streams, for the files with the exports.
 */
#ifndef BERTH_SIM_CUDA_COPY_RUN_H
#define BERTH_SIM_CUDA_COPY_RUN_H

#include "sim/cuda/copy.h"
#include "sim/cuda/entry.h"

/* Returns when it is done. Not allowed while a capture is under way. */
CUresult sim_copy_now(CUDA_MEMCPY3D copy, enum sim_form form);
/* In the order of the stream, or into its capture. */
CUresult sim_copy_on_stream(CUDA_MEMCPY3D copy, CUstream handle, enum sim_form form);

CUresult sim_fill_now(CUDA_MEMSET_NODE_PARAMS fill, enum sim_form form);
CUresult sim_fill_on_stream(CUDA_MEMSET_NODE_PARAMS fill, CUstream handle, enum sim_form form);

#endif
