/* SPDX-License-Identifier: Apache-2.0
 *
 * berth-lookup-client: does a driver give the right function for each base name, version and
 * flag? It asks the way programs do (dlopen, one dlsym, then cuGetProcAddress_v2) and judges
 * from a table that is taken from a toolkit, not from the simulator's own.
 *
 *	berth-lookup-client --symbols FILE [--lookups FILE] [--through-berth] CHECK...
 *
 *	replay    the look-ups that a CUDA 13.0 runtime makes before cuInit, in its order
 *	switches  every base name just below and at each version that changes its meaning, under
 *	          each flag, by both forms of the call
 *	rules     what is refused and how; asking for the look-up itself as the first call of all
 *
 * On the bare driver an answer must be the symbol that dlsym gives for the expected name. Under
 * --through-berth (preloaded with libberth-cuda.so) it must be the function of exactly that name
 * in the preloaded library where Berth hooks it, and in the driver where it doesn't.
 *
 * Exit status: 0 all right, 1 a wrong answer (each is named), 2 usage, 77 no driver.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/cuda_functions.h"
#include "lookup_table.h"

typedef CUresult (*get_proc_v1)(const char *, void **, int, uint64_t);
typedef CUresult (*get_proc_v2)(const char *, void **, int, uint64_t,
				CUdriverProcAddressQueryResult *);

/* What the table says a driver of this version answers. */
struct expected {
	CUresult result;
	CUdriverProcAddressQueryResult status;
	const char *symbol; /* NULL: a NULL pointer */
};

static struct client {
	bool through_berth;
	void *driver;
	int driver_version;
	get_proc_v1 v1;
	get_proc_v2 v2;
	unsigned int checks_count;
	unsigned int wrong_count;
} client_;

static const char *const hooked_[] = {
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) HOOKED_##kind(symbol)
#define HOOKED_HOOK(symbol)                                    #symbol,
#define HOOKED_FORM(symbol)
#define HOOKED_USE(symbol)
#include "driver/symbols.def"
#undef CUDA_SYMBOL
	NULL
};

static bool is_hooked(const char *symbol)
{
	for (size_t i = 0; hooked_[i]; i++) {
		if (strcmp(hooked_[i], symbol) == 0)
			return true;
	}
	return false;
}

static void __attribute__((format(printf, 2, 3))) check(bool right, const char *fmt, ...)
{
	va_list ap;

	client_.checks_count++;
	if (right)
		return;
	if (client_.wrong_count++ >= 40)
		return;
	fputs("wrong: ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* In which library the symbol's function must lie, and is this it? */
static bool is_function(void *address, const char *symbol)
{
	bool hooked = client_.through_berth && is_hooked(symbol);
	Dl_info info;

	if (!address || !dladdr(address, &info) || info.dli_saddr != address || !info.dli_sname)
		return false;
	if (strcmp(info.dli_sname, symbol) != 0)
		return false;
	if ((strstr(info.dli_fname, "libberth-cuda") != NULL) != hooked)
		return false;
	return address == dlsym(client_.driver, symbol);
}

static const char *describe(void *address)
{
	static char text[300];
	Dl_info info;

	if (!address)
		return "NULL";
	if (!dladdr(address, &info) || !info.dli_sname)
		return "an unnamed address";
	snprintf(text, sizeof(text), "%s in %s", info.dli_sname, info.dli_fname);
	return text;
}

/* What base means for version under flags, were it asked of this driver. */
static struct expected expect(const char *base, int version, uint64_t flags)
{
	const struct lookup_symbol *best = NULL;
	bool known = false;

	if (version > client_.driver_version || flags > 2)
		return (struct expected){ CUDA_ERROR_INVALID_VALUE, 0, NULL };
	for (int per_thread = flags == 2; per_thread >= 0 && !best; per_thread--) {
		for (size_t i = 0; i < lookup_table.symbols_count; i++) {
			const struct lookup_symbol *row = &lookup_table.symbols[i];

			if (row->per_thread != per_thread || strcmp(row->base, base) != 0 ||
			    row->since > client_.driver_version)
				continue;
			known = true;
			if (row->since <= version && (!best || row->since > best->since))
				best = row;
		}
	}
	if (best)
		return (struct expected){ CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, best->symbol };
	return (struct expected){ CUDA_ERROR_NOT_FOUND,
				  known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
					: CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
				  NULL };
}

#define UNTOUCHED_POINTER ((void *)0x5a5a5a5aUL)
#define UNTOUCHED_STATUS  ((CUdriverProcAddressQueryResult)77)

/* One question by both forms of the call; the older has no status. */
static void ask(const char *base, int version, uint64_t flags)
{
	struct expected want = expect(base, version, flags);
	CUdriverProcAddressQueryResult status = UNTOUCHED_STATUS;
	void *v1 = UNTOUCHED_POINTER, *v2 = UNTOUCHED_POINTER, *silent = UNTOUCHED_POINTER;
	bool refused = want.result == CUDA_ERROR_INVALID_VALUE;
	CUresult r;

	if (client_.v2) {
		r = client_.v2(base, &v2, version, flags, &status);
		check(r == want.result, "v2 %s %d %lu: %d instead of %d", base, version, flags, r,
		      want.result);
		check(status == (refused ? UNTOUCHED_STATUS : want.status),
		      "v2 %s %d %lu: status %d instead of %d", base, version, flags, status,
		      want.status);
		r = client_.v2(base, &silent, version, flags, NULL);
		check(r == want.result && silent == v2,
		      "v2 %s %d %lu without a status answers otherwise", base, version, flags);
	} else {
		v2 = NULL;
	}
	r = client_.v1(base, &v1, version, flags);
	check(r == want.result, "v1 %s %d %lu: %d instead of %d", base, version, flags, r,
	      want.result);
	if (refused) {
		check(v1 == UNTOUCHED_POINTER && (!client_.v2 || v2 == v1),
		      "%s %d %lu: refused, yet the pointer is written", base, version, flags);
		return;
	}
	check(want.symbol ? is_function(v1, want.symbol) : !v1, "v1 %s %d %lu: %s instead of %s",
	      base, version, flags, describe(v1), want.symbol ? want.symbol : "NULL");
	if (client_.v2)
		check(v2 == v1, "%s %d %lu: the two forms differ (%s)", base, version, flags,
		      describe(v2));
}

/* As the runtime does it: one look-up by dlsym, all others by what that gave. */
static void check_replay(void)
{
	for (size_t i = 0; i < lookup_table.requests_count; i++) {
		const struct lookup_request *req = &lookup_table.requests[i];

		ask(req->base, req->version, req->flags);
	}
	printf("replay: %zu look-ups of a CUDA 13.0 runtime\n", lookup_table.requests_count);
}

static void check_switches(void)
{
	for (size_t i = 0; i < lookup_table.symbols_count; i++) {
		const struct lookup_symbol *row = &lookup_table.symbols[i];

		for (uint64_t flags = 0; flags <= 2; flags++) {
			ask(row->base, row->since - 1, flags);
			ask(row->base, row->since, flags);
			ask(row->base, client_.driver_version, flags);
		}
	}
	printf("switches: %zu symbols\n", lookup_table.symbols_count);
}

/* A name with a version in it, a prefix, a neighbour in case: none is a base name. */
static void check_unknown_names(void)
{
	static const char *const names[] = {
		"",
		"cu",
		"cuMemAlloc_v2",
		"cuMemcpy_ptds",
		"cuInit_v2",
		"CUINIT",
		"cuInit ",
		"cuMemAlloc_v3",
		"curl_easy_init",
		"cuMemAllo",
		"nvmlInit_v2",
		"cuGetProcAddress_v2",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (uint64_t flags = 0; flags <= 2; flags++)
			ask(names[i], client_.driver_version, flags);
	}
}

static void check_arguments(void)
{
	CUdriverProcAddressQueryResult status = UNTOUCHED_STATUS;
	void *pfn = UNTOUCHED_POINTER;

	check(client_.v1(NULL, &pfn, 11030, 0) == CUDA_ERROR_INVALID_VALUE &&
		      pfn == UNTOUCHED_POINTER,
	      "v1 without a name");
	check(client_.v1("cuInit", NULL, 11030, 0) == CUDA_ERROR_INVALID_VALUE,
	      "v1 without a place for the pointer");
	if (client_.v2) {
		check(client_.v2(NULL, &pfn, 12000, 0, &status) == CUDA_ERROR_INVALID_VALUE &&
			      pfn == UNTOUCHED_POINTER,
		      "v2 without a name");
		check(client_.v2("cuInit", NULL, 12000, 0, &status) == CUDA_ERROR_INVALID_VALUE,
		      "v2 without a place for the pointer");
	}
	for (uint64_t flags = 3; flags; flags = flags == 3 ? 4 : flags << 1)
		ask("cuMemcpy", 11030, flags);
	ask("cuInit", client_.driver_version + 10, 0);
	ask("cuInit", 99990, 2);
	ask("cuInit", -1, 0);
}

/* The look-up found by the look-up is the form that the version defines, and works. */
static void check_itself(void)
{
	CUresult (*init)(unsigned int) = NULL;
	int (*version)(int *) = NULL;
	void *pfn = NULL;
	int got = 0;

	check(client_.v1("cuGetProcAddress", &pfn, 11030, 0) == CUDA_SUCCESS &&
		      is_function(pfn, "cuGetProcAddress"),
	      "cuGetProcAddress at 11030: %s", describe(pfn));
	if (pfn)
		check(((get_proc_v1)pfn)("cuInit", (void **)&init, 2000, 0) == CUDA_SUCCESS &&
			      is_function((void *)init, "cuInit"),
		      "cuInit through it: %s", describe((void *)init));
	if (client_.driver_version < 12000)
		return;
	pfn = NULL;
	check(client_.v1("cuGetProcAddress", &pfn, 12000, 0) == CUDA_SUCCESS &&
		      is_function(pfn, "cuGetProcAddress_v2"),
	      "cuGetProcAddress at 12000: %s", describe(pfn));
	if (!pfn)
		return;
	check(((get_proc_v2)pfn)("cuDriverGetVersion", (void **)&version, 2020, 0, NULL) ==
			      CUDA_SUCCESS &&
		      version && version(&got) == CUDA_SUCCESS && got == client_.driver_version,
	      "cuDriverGetVersion through it");
}

/* Private tables stay the driver's: what it says comes through, whatever the GUID. */
static void check_export_table(void)
{
	CUresult (*get)(const void **, const CUuuid *) =
		(CUresult(*)(const void **, const CUuuid *))dlsym(client_.driver,
								  "cuGetExportTable");
	const void *table = UNTOUCHED_POINTER;
	CUuuid guid = { { 0x11 } };

	check(get && is_function((void *)get, "cuGetExportTable"), "cuGetExportTable: %s",
	      describe((void *)get));
	if (!get)
		return;
	check(get(&table, &guid) != CUDA_SUCCESS && table == UNTOUCHED_POINTER,
	      "cuGetExportTable gives something for a made-up GUID");
	check(get(NULL, &guid) == CUDA_ERROR_INVALID_VALUE &&
		      get(&table, NULL) == CUDA_ERROR_INVALID_VALUE,
	      "cuGetExportTable without arguments");
}

static void check_rules(void)
{
	check_itself();
	check_unknown_names();
	check_arguments();
	check_export_table();
	puts("rules: asked");
}

static int usage(void)
{
	fputs("usage: berth-lookup-client --symbols FILE [--lookups FILE] [--through-berth] "
	      "{replay|switches|rules}...\n",
	      stderr);
	return 2;
}

static int open_driver(void)
{
	CUresult (*version)(int *);

	client_.driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!client_.driver) {
		printf("skipped: %s\n", dlerror());
		return 77;
	}
	client_.v1 = (get_proc_v1)dlsym(client_.driver, "cuGetProcAddress");
	client_.v2 = (get_proc_v2)dlsym(client_.driver, "cuGetProcAddress_v2");
	version = (CUresult(*)(int *))dlsym(client_.driver, "cuDriverGetVersion");
	if (!client_.v1 || !client_.v2 || !version ||
	    version(&client_.driver_version) != CUDA_SUCCESS) {
		puts("wrong: the driver lacks its look-up or its version");
		return 1;
	}
	if (client_.driver_version < 12000)
		client_.v2 = NULL; /* such a driver has no such symbol, only the simulator has */
	printf("driver version %d%s\n", client_.driver_version,
	       client_.through_berth ? ", through berth" : "");
	return 0;
}

static int run_check(const char *name)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} checks[] = {
		{ "replay", check_replay },
		{ "switches", check_switches },
		{ "rules", check_rules },
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (strcmp(name, checks[i].name) == 0) {
			checks[i].run();
			return 0;
		}
	}
	return usage();
}

int main(int argc, char **argv)
{
	int i, err;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--through-berth") == 0)
			client_.through_berth = true;
		else if (strcmp(argv[i], "--symbols") == 0 && i + 1 < argc)
			lookup_table_read_symbols(argv[++i]);
		else if (strcmp(argv[i], "--lookups") == 0 && i + 1 < argc)
			lookup_table_read_requests(argv[++i]);
		else
			return usage();
	}
	if (i == argc || !lookup_table.symbols_count)
		return usage();
	err = open_driver();
	if (err)
		return err;
	for (; i < argc; i++) {
		err = run_check(argv[i]);
		if (err)
			return err;
	}
	printf("%u checks, %u wrong\n", client_.checks_count, client_.wrong_count);
	return client_.wrong_count ? 1 : 0;
}
