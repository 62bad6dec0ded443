/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader's list of objects, and fork. The loader has a lock for that list, taken by dlopen and
 * dl_iterate_phdr, which glibc does not make anew in a fork child (seen with 2.36): a child forked
 * while another thread had it could never load a library or throw an exception. So a fork waits
 * until no thread has it because of us, and who would take it meanwhile waits for the fork. Both waits
 * are bounded, because either side may hold a lock of the program's that the other needs; past the
 * bound they go on as if there were no guard.
 */
#ifndef BERTH_DRIVER_WALK_H
#define BERTH_DRIVER_WALK_H

#include <link.h>
#include <stddef.h>

typedef int berth_walk_visitor(struct dl_phdr_info *info, size_t size, void *arg);

/* Visits the loaded objects in load order until visit returns other than 0, and returns that. */
int berth_walk_objects(berth_walk_visitor *visit, void *arg);

/* Around a dlopen of ours, and calls of ours into a library that has such locks (NVML). May be nested.
 * A fork waits for 2 s at most. */
void berth_walk_enter(void);
void berth_walk_leave(void);

/* From now on a fork waits for us before it runs the handlers of the libraries that are loaded by now: the
 * last that is registered is the first to run, and one that has taken its library's lock would keep
 * from ending whom we wait for. Once is enough. */
void berth_walk_before_others(void);

#endif
