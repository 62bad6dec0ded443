/* SPDX-License-Identifier: Apache-2.0
 *
 * How every exported nvml* function begins and ends, as sim/cuda/entry.h has it for the driver:
 *
 *	SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned n)
 *	{
 *		SIM_NVML_ENTER(nvmlDeviceGetName);
 *		...
 *		return SIM_NVML_LEAVE(NVML_SUCCESS);
 *	}
 *
 * SIM_NVML_ENTER logs the call, acts on injected faults and answers UNINITIALIZED before nvmlInit
 * (unless the row in exports.def says NO_INIT); it may return from the function. Every return
 * after it goes through SIM_NVML_LEAVE.
 */
#ifndef BERTH_SIM_NVML_ENTRY_H
#define BERTH_SIM_NVML_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

/* exports.c and stubs.c declare the functions without parameters and must not see them with. */
#ifndef SIM_ENTRY_WITHOUT_PROTOTYPES
#include "driver/nvml_functions.h"
#endif
#include "driver/nvml_types.h"

#define SIM_NVML_EXPORT __attribute__((visibility("default")))

enum sim_nvml_flag {
	SIM_NVML_NONE = 0,
	SIM_NVML_NO_INIT = 1U << 0, /* answers before nvmlInit */
};

/* A row of exports.def; the id of a symbol is its index. */
struct sim_nvml_export {
	const char *symbol;
	unsigned int flags;
};

enum sim_nvml_id {
#define NVML_EXPORT(symbol, kind, flags) SIM_NVML_ID_##symbol,
#include "sim/nvml/exports.def"
#undef NVML_EXPORT
	SIM_NVML_EXPORT_COUNT
};

extern const struct sim_nvml_export sim_nvml_exports[SIM_NVML_EXPORT_COUNT];

/* One call in progress; private to call.c but for id and result. */
struct sim_nvml_call {
	enum sim_nvml_id id;
	nvmlReturn_t result;
	bool result_known;
	void *record;
	void *plans[2];
	uint64_t after[2];
};

/* call.c. Not NVML_SUCCESS: the function returns that at once. */
nvmlReturn_t sim_nvml_call_enter(struct sim_nvml_call *call);
void sim_nvml_call_leave(struct sim_nvml_call *call);

#define SIM_NVML_LEAVES_CALL __attribute__((cleanup(sim_nvml_call_leave)))

static inline nvmlReturn_t sim_nvml_call_result(struct sim_nvml_call *call, nvmlReturn_t result)
{
	call->result = result;
	call->result_known = true;
	return result;
}

#define SIM_NVML_ENTER(symbol)                                                            \
	struct sim_nvml_call call_ SIM_NVML_LEAVES_CALL = { .id = SIM_NVML_ID_##symbol }; \
	do {                                                                              \
		nvmlReturn_t entered_ = sim_nvml_call_enter(&call_);                      \
		if (entered_ != NVML_SUCCESS)                                             \
			return sim_nvml_call_result(&call_, entered_);                    \
	} while (0)

#define SIM_NVML_LEAVE(code) sim_nvml_call_result(&call_, (code))

/* init.c */
bool sim_nvml_is_initialized(void);

#endif
