/* SPDX-License-Identifier: Apache-2.0
 *
 * How every exported cu* function begins and ends, so that one place sees all calls.
 *
 *	SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
 *	{
 *		SIM_ENTER(cuMemAlloc_v2);
 *		...
 *		return SIM_LEAVE(sim_memory_alloc(dptr, bytes));
 *	}
 *
 * SIM_ENTER logs the call, acts on injected faults and answers NOT_INITIALIZED before cuInit
 * (unless the row in exports.def says NO_INIT); it may return from the function. Every return
 * after it goes through SIM_LEAVE, or the log would show a call without a result.
 *
 * The name given is the symbol itself, with _vN and _ptsz: each form is a function of its own,
 * so the log tells exactly which one a program reached. A form that acts like another calls a
 * shared static function, never the other export: that would be logged twice.
 */
#ifndef BERTH_SIM_CUDA_ENTRY_H
#define BERTH_SIM_CUDA_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

/* exports.c and stubs.c declare the functions without parameters and must not see them with. */
#ifndef SIM_ENTRY_WITHOUT_PROTOTYPES
#include "driver/cuda_functions.h"
#endif
#include "driver/cuda_types.h"

#define SIM_EXPORT __attribute__((visibility("default")))

/* Which default stream NULL means in this form, and whose look-up flag finds it. */
enum sim_form {
	SIM_FORM_plain,
	SIM_FORM_ptds,
	SIM_FORM_ptsz,
};

enum sim_export_flag {
	SIM_EXPORT_NONE = 0,
	SIM_EXPORT_NO_INIT = 1U << 0, /* answers before cuInit */
	SIM_EXPORT_HIDDEN = 1U << 1,  /* a symbol that no look-up by base name ever gives */
};

/* A row of exports.def; the id of a symbol is its index. */
struct sim_export {
	const char *symbol;
	const char *base;
	int since_version; /* first asked cudaVersion at which base means this symbol */
	enum sim_form form;
	bool implemented; /* false: answers NOT_SUPPORTED */
	unsigned int flags;
	void (*address)(void);
};

enum sim_export_id {
#define EXPORT(symbol, base, since_version, form, kind, flags) SIM_ID_##symbol,
#include "sim/cuda/exports.def"
#undef EXPORT
	SIM_EXPORT_COUNT
};

extern const struct sim_export sim_exports[SIM_EXPORT_COUNT];

/* One call in progress. Filled by sim_call_enter; private to call.c but for id and result. */
struct sim_call {
	enum sim_export_id id;
	CUresult result;
	bool result_known;
	void *record;   /* in the log */
	void *fault[4]; /* what is still to be done at the end */
	uint64_t marks[2];
};

/* sim/cuda/call.c. Not CUDA_SUCCESS: the function returns that at once. */
CUresult sim_call_enter(struct sim_call *call);
void sim_call_leave(struct sim_call *call);

#define SIM_LEAVES_CALL __attribute__((cleanup(sim_call_leave)))

static inline CUresult sim_call_result(struct sim_call *call, CUresult result)
{
	call->result = result;
	call->result_known = true;
	return result;
}

#define SIM_ENTER(symbol)                                                  \
	struct sim_call call_ SIM_LEAVES_CALL = { .id = SIM_ID_##symbol }; \
	do {                                                               \
		CUresult entered_ = sim_call_enter(&call_);                \
		if (entered_ != CUDA_SUCCESS)                              \
			return sim_call_result(&call_, entered_);          \
	} while (0)

#define SIM_LEAVE(code) sim_call_result(&call_, (code))

/* sim/cuda/init.c */
bool sim_is_initialized(void);
/* 1000 * major + 10 * minor of the driver that is played (BERTH_SIM_DRIVER_VERSION). */
int sim_driver_version(void);

#endif
