/* SPDX-License-Identifier: Apache-2.0
 *
 * What the made-up node looks like: read from the environment, once per process and library.
 *
 *   BERTH_SIM_GPUS           "1x8G" (default), "2x8G,1x24G": count x memory
 *   BERTH_SIM_CONFIG         a file; "[gpu]" starts a GPU, then key = value: name, uuid, pci, memory,
 *                            sms, cc, clock (MHz), count (so many alike). Wins over BERTH_SIM_GPUS.
 *   BERTH_SIM_DRIVER_VERSION 11.4, 12.2, 12.8 or 13.0 (default)
 *   BERTH_SIM_CONTEXT_BYTES  what a context takes on its GPU (default 96M)
 *   BERTH_SIM_STATE          path of the node's state file
 *   BERTH_SIM_PROC           where the outer /proc is mounted (default /proc)
 *   BERTH_SIM_TIME_SCALE     belongs to the timeline, not here
 *
 * Anything that can't be parsed is an error with one line on standard error: cuInit and nvmlInit
 * then fail. It is never replaced by a default.
 */
#ifndef BERTH_SIM_CONFIG_H
#define BERTH_SIM_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_GPU_MAX       16
#define SIM_NAME_MAX      96
#define SIM_UUID_TEXT_MAX 48
#define SIM_PCI_TEXT_MAX  16

/* Never changes once the node exists. */
struct sim_gpu_config {
	char name[SIM_NAME_MAX];
	unsigned char uuid[16];
	char uuid_text[SIM_UUID_TEXT_MAX]; /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
	uint32_t pci_domain;
	uint32_t pci_bus;
	uint32_t pci_device;
	char pci_text[SIM_PCI_TEXT_MAX]; /* "0000:3b:00.0" */
	uint64_t memory_bytes;
	uint32_t sm_count;
	uint32_t cc_major;
	uint32_t cc_minor;
	uint32_t clock_mhz;
	uint32_t reserved_;
};

struct sim_config {
	uint32_t gpu_count;
	bool gpus_are_explicit; /* the environment says what the GPUs are, so a living node must agree */
	struct sim_gpu_config gpus[SIM_GPU_MAX];
	uint32_t driver_version; /* as cuDriverGetVersion gives it: 13000, 12080, 12020, 11040 */
	uint64_t context_bytes;
	char state_path[4096];
	char proc_path[4096];
};

/* Parsed at the first call; NULL when something in the environment is wrong (said once). */
const struct sim_config *sim_config(void);

/* The parsers by themselves, for tests. 0 or -errno. */
int sim_config_parse_size(const char *text, uint64_t *ret_bytes);
int sim_config_parse_gpus(const char *text, struct sim_config *config);
int sim_config_parse_file(const char *path, struct sim_config *config);

/* Numbers with that separator between them, in hexadecimal or not: "3b:00" or "8.6". How many there
 * were, at most max; what follows the last is ignored from another separator on. -EINVAL for
 * anything else. */
int sim_config_parse_numbers(const char *text, int base, char separator, uint32_t *ret_numbers,
			     int max);
/* The same GPU in every respect. */
bool sim_gpu_config_same(const struct sim_gpu_config *a, const struct sim_gpu_config *b);

/* One line on standard error, "berth-sim: …"; keeps errno. */
void sim_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
