/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults on demand, for every exported function by name.
 *
 * Grammar, in BERTH_SIM_FAULTS or in the file that BERTH_SIM_FAULT_FILE names:
 *
 *	plan   = rule { (";" | newline) rule }          # begins a comment, to the end of the line
 *	rule   = name { ":" option }                    name may hold * and ? ("cuMem*Alloc*")
 *	option = fail=CODE        the call does nothing and answers CODE
 *	       | sleep=TIME       5ms 20us 1s, before acting
 *	       | linger=TIME      the same, after acting
 *	       | block            never comes back; from a file: until the rule is gone from it
 *	       | kill=before | kill=after               SIGKILL to the own process
 *	       | nth=N            only the N-th matching call of this process (from 1)
 *	       | from=N           the N-th and all later ones
 *	       | count=N          at most N of them
 *
 * A rule must do something. The file is read again when it changes (write a new one and rename
 * it), and the counts then begin anew. A plan that can't be read makes every call answer
 * SIM_FAULT_BAD_PLAN, with one line on stderr: a mistyped fault must not look like a passed test.
 */
#ifndef BERTH_SIM_NODE_FAULT_H
#define BERTH_SIM_NODE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* "unknown" to CUDA and NVML alike */
#define SIM_FAULT_BAD_PLAN 999

struct sim_fault_plan;

/* What of a plan is still to be done after the call. */
struct sim_fault_hit {
	struct sim_fault_plan *plan;
	uint64_t after; /* one bit a rule */
};

/* Does a name exist? Given by the library: a rule for a name that doesn't is an error. */
typedef bool (*sim_fault_knows)(const char *pattern);

/* Parse one text. 0 or -EINVAL with *ret_bad pointing into text at the rule that is wrong. */
int sim_fault_parse(const char *text, sim_fault_knows knows, struct sim_fault_plan **ret_plan,
		    const char **ret_bad);
void sim_fault_free(struct sim_fault_plan *plan);

/* Read both variables. True if there may ever be something to do. */
bool sim_fault_open(sim_fault_knows knows);

/* Act on what the plans say for this call; a code to answer at once, or 0. */
int sim_fault_before(const char *name, struct sim_fault_hit ret_hits[2]);
void sim_fault_after(const struct sim_fault_hit hits[2]);

#endif
