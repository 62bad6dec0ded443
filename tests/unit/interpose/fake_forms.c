/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the look-up tests' driver: every one of symbols.def, and which of them a base name, a
 * version and flags mean. Weak, so that fake_cuda.c can give some of them a body.
 *
 * FAKE_PRIVATE_POINTERS=1: the resolver answers with functions that are exported nowhere.
 * FAKE_LATER_FORMS=1: forms from CUDA 11 on begin a little later than the table says.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda_results.h"

#define EXPORT      __attribute__((visibility("default")))
#define EXPORT_WEAK __attribute__((visibility("default"), weak))

/* The exported functions, and for each a twin that nobody can find by name. Own prototypes: these
 * stand for any driver's, whatever their arguments are. */
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) \
	EXPORT_WEAK int symbol(void);                          \
	int symbol(void)                                       \
	{                                                      \
		return FAKE_RESULT;                            \
	}                                                      \
	static int private_##symbol(void)                      \
	{                                                      \
		return FAKE_RESULT + 1;                        \
	}
#include "driver/symbols.def"

EXPORT int cuFakeUnhooked(void);
EXPORT int cuFakeUnhooked(void)
{
	return FAKE_RESULT;
}

/* A form that no table knows yet. */
static int private_cuMemAlloc_v3(void)
{
	return FAKE_RESULT + 2;
}

static const struct form {
	const char *base;
	const char *symbol;
	int since_version;
	bool per_thread;
	int (*exported)(void);
	int (*private)(void);
} forms[] = {
#define PLAIN false
#define PTDS  true
#define PTSZ  true
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) \
	{ #base, #symbol, since_version, stream, symbol, private_##symbol },
#include "driver/symbols.def"
	{ "cuMemAlloc", "cuMemAlloc_v3", FAKE_FUTURE_VERSION, false, private_cuMemAlloc_v3,
	  private_cuMemAlloc_v3 },
	{ "cuFakeUnhooked", "cuFakeUnhooked", 2000, false, cuFakeUnhooked, cuFakeUnhooked },
};

#define FORM_COUNT (sizeof(forms) / sizeof(forms[0]))

EXPORT int fake_resolve(const char *base, void **ret_function, int version, uint64_t flags,
			int *ret_status);
/* The resolver's twins resolve. */
static int private_resolve4(const char *base, void **ret_function, int version, uint64_t flags)
{
	return fake_resolve(base, ret_function, version, flags, NULL);
}

static int private_resolve5(const char *base, void **ret_function, int version, uint64_t flags,
			    int *ret_status)
{
	return fake_resolve(base, ret_function, version, flags, ret_status);
}

static void *private_twin(const struct form *form)
{
	if (strcmp(form->symbol, "cuGetProcAddress") == 0)
		return (void *)private_resolve4;
	if (strcmp(form->symbol, "cuGetProcAddress_v2") == 0)
		return (void *)private_resolve5;
	return (void *)form->private;
}

static int since(const struct form *form)
{
	return form->since_version +
	       (form->since_version >= 11000 && getenv("FAKE_LATER_FORMS") != NULL ? 5 : 0);
}

EXPORT int fake_resolve(const char *base, void **ret_function, int version, uint64_t flags,
			int *ret_status)
{
	const char *private = getenv("FAKE_PRIVATE_POINTERS");
	const struct form *best = NULL;
	bool known = false;

	if (base == NULL || ret_function == NULL || flags > 2)
		return FAKE_INVALID_VALUE;
	for (int per_thread = flags == 2; per_thread >= 0 && best == NULL; per_thread--) {
		for (const struct form *form = forms; form < forms + FORM_COUNT; form++) {
			if (strcmp(form->base, base) != 0 || form->per_thread != (per_thread != 0))
				continue;
			known = true;
			if (since(form) <= version && (best == NULL || since(form) > since(best)))
				best = form;
		}
	}
	*ret_function = NULL;
	if (ret_status != NULL)
		*ret_status = best != NULL ? 0 : known ? 2 : 1;
	if (best == NULL)
		return FAKE_NOT_FOUND;
	*ret_function = private != NULL ? private_twin(best) : (void *)best->exported;
	return 0;
}

EXPORT const char *fake_symbol_of(const void *function);
EXPORT const char *fake_symbol_of(const void *function)
{
	for (const struct form *form = forms; form < forms + FORM_COUNT; form++) {
		if (function == (void *)form->exported || function == private_twin(form))
			return form->symbol;
	}
	return "none of the driver's";
}
