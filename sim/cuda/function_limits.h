/* SPDX-License-Identifier: Apache-2.0
 *
 * What a block may use; the same numbers as the device attributes tell.
 */
#ifndef BERTH_SIM_CUDA_FUNCTION_LIMITS_H
#define BERTH_SIM_CUDA_FUNCTION_LIMITS_H

#define SIM_SHARED_BYTES_DEFAULT 49152U  /* a block, without asking for more */
#define SIM_SHARED_BYTES_OPTIN   101376U /* a block, by function attribute */
#define SIM_SHARED_BYTES_SM      102400U
#define SIM_SHARED_BYTES_SYSTEM  1024U /* of each block */
#define SIM_REGISTERS_SM         65536U
#define SIM_THREADS_SM           1536U
#define SIM_BLOCKS_SM            16U
#define SIM_THREADS_BLOCK        1024U
#define SIM_WARP_THREADS         32U
#define SIM_BINARY_VERSION       86

#endif
