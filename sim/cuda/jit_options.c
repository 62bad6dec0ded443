/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of the just-in-time compiler. Nothing is compiled, but a program that gave log buffers
 * gets them back as it would: ended, with their used sizes, and with a reason after a failure.
 */
#include <stdint.h>
#include <string.h>

#include "sim/cuda/module.h"

static size_t value_of(unsigned count, const CUjit_option *options, void **values,
		       CUjit_option wanted)
{
	for (unsigned i = 0; i < count; i++) {
		if (options[i] == wanted)
			return (size_t)(uintptr_t)values[i];
	}
	return 0;
}

static void fill_log(void *buffer, size_t room, const char *text, void **size_value)
{
	size_t length = text ? strlen(text) : 0;

	if (!buffer || !room)
		length = 0;
	else if (length > room - 1)
		length = room - 1;
	if (buffer && room) {
		memcpy(buffer, text ? text : "", length);
		((char *)buffer)[length] = '\0';
	}
	if (size_value)
		*size_value = (void *)(uintptr_t)length;
}

static void **value_slot(unsigned count, const CUjit_option *options, void **values,
			 CUjit_option wanted)
{
	for (unsigned i = 0; i < count; i++) {
		if (options[i] == wanted)
			return &values[i];
	}
	return NULL;
}

static void answer(unsigned count, const CUjit_option *options, void **values,
		   CUjit_option buffer_option, CUjit_option size_option, const char *text)
{
	void *buffer = (void *)value_of(count, options, values, buffer_option);
	size_t room = value_of(count, options, values, size_option);

	fill_log(buffer, room, text, value_slot(count, options, values, size_option));
}

CUresult sim_jit_options(unsigned count, CUjit_option *options, void **values, const char *error)
{
	if (count == 0)
		return CUDA_SUCCESS;
	if (!options || !values)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		if ((int)options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
	}
	answer(count, options, values, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
	       NULL);
	answer(count, options, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
	       error);
	return CUDA_SUCCESS;
}
