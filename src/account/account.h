/* SPDX-License-Identifier: Apache-2.0
 *
 * This process's place in its share: decided once, at the first cuInit (attach), before the driver
 * is initialised. Above the ledger, below the hooks; knows no driver.
 *
 * The state word lies in a page that the kernel wipes in every fork child (MADV_WIPEONFORK), also
 * in one made by a bare clone: a child is undecided from its first instruction and never touches the
 * seat of its parent. A fork handler does the same and tidies up. A vfork child shares all memory
 * and may only exec: it can't be told apart and needs not be.
 */
#ifndef BERTH_ACCOUNT_ACCOUNT_H
#define BERTH_ACCOUNT_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/reason.h"
#include "region/ledger.h"

enum berth_account_state {
	BERTH_ACCOUNT_UNDECIDED = 0, /* no cuInit yet */
	BERTH_ACCOUNT_PASSIVE,       /* in no share: everything passes through, nothing is open */
	BERTH_ACCOUNT_ATTACHED,      /* has a seat */
	BERTH_ACCOUNT_REFUSED,       /* a share is configured that can't be enforced: no GPU use */
};

/* The machine's GPUs, by NVML index: what a new region is made for. */
struct berth_account_gpus {
	uint32_t count;
	char uuids[BERTH_GPU_MAX][BERTH_UUID_SIZE];
};
typedef int (*berth_account_gpus_fn)(struct berth_account_gpus *ret_gpus,
				     struct berth_reason *reason);

/* One load and one compare when decided. */
enum berth_account_state berth_account_state(void);

/* Decides if undecided: parses the configuration, joins or makes the region, claims a seat. list is
 * called, with no lock held, only if a region has to be made. A refusal is said once, in one
 * line. Threads that come at once get the same answer. Keeps errno. */
enum berth_account_state berth_account_attach(berth_account_gpus_fn list);

/* Why it is refused: -errno. */
int berth_account_error(void);

/* Index of a GPU of the share, or -ENODEV. Only when attached. */
BERTH_MUST_CHECK int berth_account_gpu_find(const char *uuid);
/* Has the share a memory limit on it? */
bool berth_account_gpu_limited(int gpu);

/* As berth_ledger_ask and its fellows, for this process's seat; when attached. gpu < 0: refused with
 * -ENODEV. Keep errno. */
BERTH_MUST_CHECK int berth_account_ask(int gpu, enum berth_charge_kind kind, uint64_t bytes);
/* Memory that is given back in a moment: passing is said first, of all that will be asked for, and taken
 * back (0) last. Others' asks that are refused because of it wait for that, at most 100 ms; ours for it
 * (ask_passing) never do. */
void berth_account_set_passing(int gpu, uint64_t bytes);
BERTH_MUST_CHECK int berth_account_ask_passing(int gpu, uint64_t bytes);
void berth_account_charge(int gpu, enum berth_charge_kind kind, uint64_t bytes);
void berth_account_refund(int gpu, enum berth_charge_kind kind, uint64_t bytes);

/* What this process is charged on a GPU. */
uint64_t berth_account_own_bytes(int gpu);

/* Writes what is known of the host pid (host_pid.h) into this process's seat, if it has one. */
void berth_account_tell_host_pid(void);

/* The region, NULL unless attached. */
struct berth_region *berth_account_region(void);

/* Before anything is remembered that a child must not take for its own (its configuration, a view of the
 * region): from now on a fork child forgets it, and one of a bare clone when it calls this. A few
 * instructions but for the first call. -ENOMEM, with the reason. */
BERTH_MUST_CHECK int berth_account_watch_forks(struct berth_reason *reason);

/* Called in a fork child after the parent's seat is forgotten, for what the room above remembers
 * about this process. One function; before the first attach. */
void berth_account_on_child(void (*forget)(void));

#endif
