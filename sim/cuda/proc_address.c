/* SPDX-License-Identifier: Apache-2.0
 *
 * Look-up by base name, version and flag, in both forms of the call.
 *
 * A base name means, for an asked version, the symbol with the greatest since_version not above
 * it; under the per-thread flag the same among its per-thread forms first, and only if none is
 * old enough among the plain ones. What the played driver is too old for doesn't exist here.
 *
 *	asked for                                 result         pointer    status (5 arguments)
 *	found                                     SUCCESS        the form   SUCCESS
 *	a base name, but all its forms are newer  NOT_FOUND      NULL       VERSION_NOT_SUFFICIENT
 *	anything else, "cuMemAlloc_v2" included   NOT_FOUND      NULL       SYMBOL_NOT_FOUND
 *	a version above the driver's, no name, no
 *	place for the pointer, unknown flags      INVALID_VALUE  untouched  untouched
 *
 * The documentation of later toolkits has SUCCESS with a NULL pointer for the two misses; drivers
 * answer NOT_FOUND, and callers cope with both.
 *
 * Only the look-up can hide what an old driver lacks. dlsym still finds every name: an ELF symbol
 * can't come and go with a variable. A program that asks dlsym for a name of a newer driver gets
 * it here where it wouldn't there, and then NOT_SUPPORTED at most.
 */
#include <string.h>

#include "sim/cuda/entry.h"

struct answer {
	void (*address)(void);
	CUdriverProcAddressQueryResult status;
};

/* The newest form of base that version allows; *ret_known: the name exists in this driver. */
static const struct sim_export *find_form(const char *base, int version, bool per_thread,
					  bool *ret_known)
{
	const struct sim_export *best = NULL;

	for (size_t i = 0; i < SIM_EXPORT_COUNT; i++) {
		const struct sim_export *row = &sim_exports[i];

		if ((row->form != SIM_FORM_plain) != per_thread ||
		    row->since_version > sim_driver_version() || strcmp(row->base, base) != 0)
			continue;
		*ret_known = true;
		if (row->since_version <= version &&
		    (!best || row->since_version > best->since_version))
			best = row;
	}
	return best;
}

static CUresult look_up(const char *base, int version, uint64_t flags, struct answer *ret_answer)
{
	const struct sim_export *found = NULL;
	bool known = false;

	if (!base || version > sim_driver_version() ||
	    flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		found = find_form(base, version, true, &known);
	if (!found)
		found = find_form(base, version, false, &known);
	if (found) {
		*ret_answer = (struct answer){ found->address, CU_GET_PROC_ADDRESS_SUCCESS };
		return CUDA_SUCCESS;
	}
	*ret_answer = (struct answer){ NULL, known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
						   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND };
	return CUDA_ERROR_NOT_FOUND;
}

SIM_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cuda_version,
				     uint64_t flags)
{
	struct answer answer;
	CUresult result;

	SIM_ENTER(cuGetProcAddress);
	if (!pfn)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = look_up(symbol, cuda_version, flags, &answer);
	if (result != CUDA_ERROR_INVALID_VALUE)
		*pfn = (void *)answer.address;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version,
					uint64_t flags,
					CUdriverProcAddressQueryResult *symbol_status)
{
	struct answer answer;
	CUresult result;

	SIM_ENTER(cuGetProcAddress_v2);
	if (!pfn)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = look_up(symbol, cuda_version, flags, &answer);
	if (result != CUDA_ERROR_INVALID_VALUE) {
		*pfn = (void *)answer.address;
		if (symbol_status)
			*symbol_status = answer.status;
	}
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuDriverGetVersion(int *driver_version)
{
	SIM_ENTER(cuDriverGetVersion);
	if (!driver_version)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	*driver_version = sim_driver_version();
	return SIM_LEAVE(CUDA_SUCCESS);
}

/*
 * The tables behind this call are private to NVIDIA's own libraries, and the CUDA runtime's
 * authenticity check is among them. None is imitated: such a program is told that it isn't
 * supported here.
 */
SIM_EXPORT CUresult cuGetExportTable(const void **export_table, const CUuuid *export_table_id)
{
	SIM_ENTER(cuGetExportTable);
	if (!export_table || !export_table_id)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	return SIM_LEAVE(CUDA_ERROR_NOT_SUPPORTED);
}
