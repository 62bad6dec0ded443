/* SPDX-License-Identifier: Apache-2.0
 *
 * A plug-in for the tests: what their kernel "scale" computes.
 */
#include "sim/kernel_plugin.h"

__attribute__((visibility("default"))) void scale(const struct berth_sim_launch *launch,
						  void **parameters);

void scale(const struct berth_sim_launch *launch, void **parameters)
{
	uint64_t pointer = *(uint64_t *)parameters[0];
	uint32_t count = *(uint32_t *)parameters[1];
	float factor = *(float *)parameters[2];
	float *data = launch->memory(pointer, count * sizeof(*data));

	for (uint32_t i = 0; data && i < count; i++)
		data[i] *= factor;
}
