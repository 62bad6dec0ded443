/* SPDX-License-Identifier: Apache-2.0
 *
 * What node.c, process.c and charge.c share and nobody else may know.
 */
#ifndef BERTH_SIM_NODE_INTERNAL_H
#define BERTH_SIM_NODE_INTERNAL_H

#include <stdbool.h>

#include "sim/node/node.h"

/* Lock bytes lie beyond everything mapped. */
#define SIM_LOCK_STATE 0x40000000L
#define SIM_LOCK_ROWS  0x40001000L

/* This process's hold on the node. */
struct sim_node_handle {
	struct sim_node *node;
	int state_fd; /* for the state lock and for asking about rows */
	int row;      /* -1: none */
	int row_fd;   /* only where a mapping doesn't pin the row's lock; else -1 */
	void *row_pin;
};

extern struct sim_node_handle sim_node_handle;

/* The state lock is held: is that row's owner alive? */
bool sim_row_is_alive_locked(int row);
bool sim_node_anyone_alive_locked(void);

/* charge.c: everything the dead row had goes back to the GPUs. */
void sim_charge_forget_locked(int row);

/* Forks and their children; registered by the first open. */
void sim_node_row_drop_in_child(void);

#endif
