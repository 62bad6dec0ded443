/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes through cuGetProcAddress. The driver's own answer comes from fake_resolve, which nobody
 * hooks: what the library hands out must be its function of just that form, or just that pointer.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "routes_client.h"

typedef int resolver4(const char *base, void **function, int version, uint64_t flags);
typedef int resolver5(const char *base, void **function, int version, uint64_t flags, int *status);
typedef int bare_resolver(const char *, void **, int, uint64_t, int *);
typedef const char *symbol_of(const void *function);

static struct {
	void *driver;
	void *ours; /* NULL in a bare program */
	resolver4 *resolve4;
	resolver5 *resolve5;
	bare_resolver *bare;
	symbol_of *symbol_of;
	bool lenient; /* the driver's own pointer will do; a neighbour's never does */
} client;

static void open_client(void)
{
	client.lenient =
		getenv("FAKE_LATER_FORMS") != NULL && getenv("FAKE_PRIVATE_POINTERS") != NULL;
	client.driver = open_or_die("libcuda.so.1", RTLD_NOW);
	client.ours = dlopen("libberth-cuda.so", RTLD_NOW | RTLD_NOLOAD);
	*(void **)&client.bare = dlsym(client.driver, "fake_resolve");
	*(void **)&client.symbol_of = dlsym(client.driver, "fake_symbol_of");
	*(void **)&client.resolve4 = dlsym(client.driver, "cuGetProcAddress");
	*(void **)&client.resolve5 = dlsym(client.driver, "cuGetProcAddress_v2");
}

/* Ours of the form that the driver answers with, if we hook it; else the driver's pointer. */
static void *expected(void *drivers)
{
	void *ours = NULL;

	if (client.ours != NULL && drivers != NULL)
		ours = dlsym(client.ours, client.symbol_of(drivers));
	return ours != NULL ? ours : drivers;
}

static int compare(const char *base, int version, uint64_t flags)
{
	void *drivers = (void *)1;
	void *four = (void *)1;
	void *five = (void *)1;
	int bare_status = -1;
	int status = -1;
	int bare_result = client.bare(base, &drivers, version, flags, &bare_status);
	int result4 = client.resolve4(base, &four, version, flags);
	int result5 = client.resolve5(base, &five, version, flags, &status);
	void *right = bare_result == 0 ? expected(drivers) : drivers;

	if (result4 == bare_result && result5 == bare_result && status == bare_status &&
	    (four == right || (client.lenient && four == drivers)) &&
	    (five == right || (client.lenient && five == drivers)))
		return 0;
	printf("%s at %d, flags %u: driver %d %d %s, 4 arguments %d %s, 5 arguments %d %d %s\n",
	       base, version, (unsigned int)flags, bare_result, bare_status,
	       client.symbol_of(drivers), result4, owner_of(four), result5, status, owner_of(five));
	return 1;
}

/* Each form's version, the one below, and some in between, with all flags. */
int resolver_forms(void)
{
	static const struct {
		const char *base;
		int since_version;
	} asked[] = {
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) { #base, since_version },
#include "driver/symbols.def"
		{ "cuFakeUnhooked", 2000 },
		{ "cuMemAlloc", FAKE_FUTURE_VERSION },
		{ "cuNoSuchThing", 2000 },
		{ "", 0 },
	};
	int failures = 0;
	int count = 0;

	open_client();
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		const int versions[] = { asked[i].since_version - 1,
					 asked[i].since_version,
					 asked[i].since_version + 10,
					 12000,
					 13000,
					 14000 };

		for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
			for (uint64_t flags = 0; flags <= 2; flags++, count++)
				failures += compare(asked[i].base, versions[v], flags);
		}
	}
	printf("%d wrong, %s\n", failures, count > 1000 ? "enough" : "too few");
	return 0;
}

/* The first driver call of the process asks the resolver for the resolver. */
int resolver_first(void)
{
	void *driver = open_or_die("libcuda.so.1", RTLD_NOW);
	void *found = NULL;
	resolver5 *five;
	resolver4 *four;
	int status = -1;

	*(void **)&four = dlsym(driver, "cuGetProcAddress");
	if (four("cuGetProcAddress", &found, 12000, 0) != 0)
		return 1;
	printf("%s ", owner_of(found));
	*(void **)&five = found;
	if (five("cuGetProcAddress", &found, 11030, 0, &status) != 0 || status != 0)
		return 1;
	printf("%s ", owner_of(found));
	*(void **)&four = found;
	if (four("cuGetProcAddress", &found, 13000, 2) != 0 || found != (void *)five)
		return 1;
	if (five("cuInit", &found, 2000, 0, NULL) != 0 || found == NULL)
		return 1;
	printf("%s\n", five("cuFakeUnhooked", &found, 13000, 0, NULL) == 0 ? owner_of(found) : "-");
	return 0;
}

/* What the driver refuses is refused with its codes, and outputs are its. */
int resolver_errors(void)
{
	void *found = (void *)1;
	int status = -1;

	open_client();
	printf("%d ", client.resolve5(NULL, &found, 12000, 0, &status));
	printf("%d ", client.resolve5("cuInit", NULL, 12000, 0, &status));
	printf("%d ", client.resolve5("cuInit", &found, 12000, 77, &status));
	printf("%d %d ", status, found == (void *)1);
	printf("%d ", client.resolve5("cuNoSuchThing", &found, 12000, 0, &status));
	printf("%d %d ", status, found == NULL);
	printf("%d ", client.resolve5("cuMemCreate", &found, 9000, 0, &status));
	printf("%d %d ", status, found == NULL);
	printf("%d ", client.resolve5("cuMemCreate", &found, 12000, 0, NULL));
	printf("%d\n", client.resolve4(NULL, &found, 12000, 0));
	return 0;
}
