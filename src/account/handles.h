/* SPDX-License-Identifier: Apache-2.0
 *
 * Physical memory by handle (cuMemCreate): charged until the last of {references released, mappings
 * unmapped}, as the driver frees it. All functions are called after the driver call succeeded.
 * Thread-safe; calls no driver. Handles that were never entered (imported, host memory) are ignored.
 */
#ifndef BERTH_ACCOUNT_HANDLES_H
#define BERTH_ACCOUNT_HANDLES_H

#include <stdint.h>

/* 0 = not tracked. Tells a handle from a later one with the same number: take it before a call that
 * may free the handle, and give it to the function after. */
uint64_t berth_handle_serial(uint64_t handle);

void berth_handle_created(uint64_t handle, int gpu, uint64_t bytes);
void berth_handle_retained(uint64_t handle);
void berth_handle_released(uint64_t handle, uint64_t serial);
void berth_handle_mapped(uint64_t handle, uint64_t address, uint64_t size_bytes);
/* Every mapping in [address, address + size). */
void berth_handle_unmapped(uint64_t address, uint64_t size_bytes);

/* In a fork child. */
void berth_handles_forget(void);

#endif
