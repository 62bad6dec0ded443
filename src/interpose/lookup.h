/* SPDX-License-Identifier: Apache-2.0
 *
 * What a dlsym or dlvsym of the program is answered. The exported functions are the trampolines of
 * dlsym_*.S: they ask here, then either return the value or jump to the real function with the
 * arguments and the return address as they were, so that RTLD_NEXT and RTLD_DEFAULT still mean the
 * caller. A C tail call would not do: it is none at -O0, under sanitizers or stack protectors.
 *
 * The rules:
 *  - A name that is not hooked, to the letter, goes to the real function.
 *  - A hooked name is answered with our function only if the real answer is the driver's own.
 *  - The driver's own look-ups reach the driver.
 * Never allocates, takes no lock but the loader's, keeps errno; dlerror tells what it would.
 */
#ifndef BERTH_INTERPOSE_LOOKUP_H
#define BERTH_INTERPOSE_LOOKUP_H

/* The trampolines know this layout: two registers. */
struct berth_lookup_answer {
	void *jump;  /* go on there, */
	void *value; /* or, if it is NULL, return this */
};

struct berth_lookup_answer berth_lookup_dlsym(void *handle, const char *name, const void *caller);
struct berth_lookup_answer berth_lookup_dlvsym(void *handle, const char *name, const char *version,
					       const void *caller);

#endif
