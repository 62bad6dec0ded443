/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes in words. An unknown code is the one error of this API that writes its output: NULL.
 */
#include "sim/cuda/entry.h"

struct result_text {
	CUresult code;
	const char *name;
	const char *phrase;
};

static const struct result_text texts_[] = {
#define CUDA_RESULT(name, value, phrase) { name, #name, phrase },
#include "driver/cuda_results.def"
#undef CUDA_RESULT
};

static const struct result_text *find_text(CUresult code)
{
	for (size_t i = 0; i < sizeof(texts_) / sizeof(texts_[0]); i++) {
		if (texts_[i].code == code)
			return &texts_[i];
	}
	return NULL;
}

SIM_EXPORT CUresult cuGetErrorName(CUresult error, const char **str)
{
	const struct result_text *text = find_text(error);

	SIM_ENTER(cuGetErrorName);
	if (!str)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	*str = text ? text->name : NULL;
	return SIM_LEAVE(text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

SIM_EXPORT CUresult cuGetErrorString(CUresult error, const char **str)
{
	const struct result_text *text = find_text(error);

	SIM_ENTER(cuGetErrorString);
	if (!str)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	*str = text ? text->phrase : NULL;
	return SIM_LEAVE(text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
