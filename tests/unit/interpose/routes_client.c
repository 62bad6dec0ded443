/* SPDX-License-Identifier: Apache-2.0
 *
 * One way of reaching the driver per run: prints in one line whose function it got. Run bare and
 * with the library preloaded by test_routes, which knows what each must say.
 *
 * FAKE_DIR names the directory of the driver.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "routes_client.h"

/* Hooked in every build of the library. */
#define HOOKED "cuGetProcAddress_v2"

typedef int resolver(const char *base, void **function, int version, uint64_t flags, int *status);

static void *open_in_fake_dir(const char *name, int flags)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", getenv("FAKE_DIR"), name);
	return open_or_die(path, flags);
}

/* Says whose function it is, and that it can be called. */
static int tell(void *function)
{
	void *answer = NULL;
	int status = -1;

	printf("%s", owner_of(function));
	if (function != NULL) {
		resolver *resolve;

		*(void **)&resolve = function;
		if (resolve("cuDriverGetVersion", &answer, 13000, 0, &status) != 0 || status != 0)
			printf(" but it can't be called");
	}
	printf("\n");
	return 0;
}

static int soname(void)
{
	return tell(dlsym(open_or_die("libcuda.so.1", RTLD_NOW), HOOKED));
}

static int development_name(void)
{
	return tell(dlsym(open_or_die("libcuda.so", RTLD_LAZY), HOOKED));
}

static int absolute(void)
{
	return tell(dlsym(open_in_fake_dir("libcuda.so.1", RTLD_LAZY), HOOKED));
}

static int local(void)
{
	return tell(dlsym(open_or_die("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), HOOKED));
}

static int deepbind(void)
{
	return tell(dlsym(open_or_die("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND), HOOKED));
}

static int noload(void)
{
	if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL)
		return 1;
	open_or_die("libcuda.so.1", RTLD_NOW);
	return tell(dlsym(open_or_die("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), HOOKED));
}

static int program_handle(void)
{
	open_or_die("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	return tell(dlsym(open_or_die(NULL, RTLD_NOW), HOOKED));
}

static int program_handle_unloaded(void)
{
	tell(dlsym(open_or_die(NULL, RTLD_NOW), HOOKED));
	return dlerror() == NULL;
}

static int search_default(void)
{
	open_or_die("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	return tell(dlsym(RTLD_DEFAULT, HOOKED));
}

static int search_default_unloaded(void)
{
	tell(dlsym(RTLD_DEFAULT, HOOKED));
	return dlerror() == NULL;
}

static int search_default_local(void)
{
	open_or_die("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	return tell(dlsym(RTLD_DEFAULT, HOOKED));
}

/* Another library of that name is loaded before the driver, both out of a search's sight. */
static int search_default_local_shim(void)
{
	open_in_fake_dir("libshim.so", RTLD_NOW | RTLD_LOCAL);
	printf("%s ", owner_of(dlsym(RTLD_DEFAULT, HOOKED)));
	printf("%s\n", dlerror() == NULL ? "no error" : "error");
	return 0;
}

static int search_next(void)
{
	open_or_die("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	return tell(dlsym(RTLD_NEXT, HOOKED));
}

static int search_next_unloaded(void)
{
	tell(dlsym(RTLD_NEXT, HOOKED));
	return dlerror() == NULL;
}

static int versioned(void)
{
	void *handle = open_in_fake_dir("versioned/libcuda.so.1", RTLD_NOW);

	printf("%s ", owner_of(dlvsym(handle, HOOKED, "FAKE_9.9")));
	printf("%s ", owner_of(dlsym(handle, HOOKED)));
	return tell(dlvsym(handle, HOOKED, "FAKE_1.0"));
}

static int versioned_search(void)
{
	open_in_fake_dir("versioned/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	printf("%s ", owner_of(dlvsym(RTLD_DEFAULT, HOOKED, "FAKE_9.9")));
	printf("%s ", owner_of(dlvsym(RTLD_NEXT, HOOKED, "FAKE_1.0")));
	return tell(dlvsym(RTLD_DEFAULT, HOOKED, "FAKE_1.0"));
}

static int sysv_hash(void)
{
	return tell(dlsym(open_in_fake_dir("sysv/libcuda.so.1", RTLD_NOW), HOOKED));
}

/* A plug-in that is linked to the driver, exports a hooked name itself and looks for the next. */
static int plugin(void)
{
	void *handle;
	void *(*next)(const char *name);
	void *(*linked)(void);

	if (getenv("FAKE_IS_GLOBAL") != NULL)
		open_or_die("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	handle = open_in_fake_dir("libshim.so", RTLD_NOW | RTLD_LOCAL);
	*(void **)&next = dlsym(handle, "shim_next");
	*(void **)&linked = dlsym(handle, "shim_linked");
	printf("%s %s ", owner_of(dlsym(handle, HOOKED)), owner_of(linked()));
	return tell(next(HOOKED));
}

static int not_hooked(void)
{
	void *handle = open_or_die("libcuda.so.1", RTLD_NOW);

	printf("%s\n", owner_of(dlsym(handle, "cuFakeUnhooked")));
	return 0;
}

/* A library named like none of ours that wraps a cu* function of its own handle. */
static int wrapper_library(void)
{
	void *handle = open_in_fake_dir("libshim.so", RTLD_NOW | RTLD_LOCAL);
	void *found = dlsym(handle, "cudnnCreate");

	printf("%s %d\n", owner_of(found), found == dlsym(handle, "shim_cudnn_alias"));
	return 0;
}

/* Copies shown to the program by any search: the driver's is kept behind another library. */
static int shim_before_driver(void)
{
	open_in_fake_dir("libshim.so", RTLD_NOW | RTLD_GLOBAL);
	return tell(dlsym(RTLD_DEFAULT, HOOKED));
}

static int keeps_errno(void)
{
	void *handle = open_or_die("libcuda.so.1", RTLD_NOW);

	errno = 77;
	(void)dlsym(handle, HOOKED);
	(void)dlsym(RTLD_DEFAULT, HOOKED);
	printf("%d\n", errno);
	return 0;
}

static int tells_errors(void)
{
	void *handle = open_or_die("libcuda.so.1", RTLD_NOW);

	printf("%d ", dlsym(handle, "cuNoSuchThing") == NULL);
	printf("[%s] ", dlerror());
	(void)dlsym(handle, "cuNoSuchThing");
	(void)dlsym(handle, HOOKED);
	printf("[%s] ", dlerror() == NULL ? "cleared" : "left over");
	(void)dlsym(handle, "cuNoSuchThing");
	(void)dlsym(RTLD_DEFAULT, HOOKED);
	printf("[%s]\n",
	       getenv("FAKE_IS_GLOBAL") == NULL || dlerror() == NULL ? "cleared" : "left over");
	return 0;
}

static bool driver_is_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;
	char line[4096];

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		found = found || strstr(line, "libcuda.so") != NULL;
	if (maps != NULL)
		fclose(maps);
	return found;
}

static int reload(void)
{
	void *first = NULL;

	for (int i = 0; i < 50; i++) {
		void *handle = open_or_die("libcuda.so.1", RTLD_NOW);
		void *found = dlsym(handle, HOOKED);

		if (i == 0)
			first = found;
		/* A bare driver may come back elsewhere; ours stays. */
		if (found != first && strcmp(owner_of(found), "driver") != 0)
			return 1;
		dlclose(handle);
	}
	printf("%s ", driver_is_mapped() ? "loaded" : "not loaded");
	return tell(dlsym(open_or_die("libcuda.so.1", RTLD_NOW), HOOKED));
}

/* Names that merely look like the driver's, short ones, none at all. */
static int foreign(void)
{
	static const char *const names[] = {
		"curl_easy_init",
		"cuserid",
		"cupsServer",
		"cudaMalloc",
		"cu",
		"c",
		"",
		"nvmlx",
		"nv",
		"n",
		"cuInitX",
		"cuI",
		"x",
		"cuGetProcAddress_v22",
		"cuGetProcAddress_v",
		"CUINIT",
		"cu\xff\xfe",
		"cuAVeryLongNameThatNoDriverEverHadAndThatIsLongerThanAnyTableWouldEverHoldForSure",
	};
	void *program = open_or_die(NULL, RTLD_NOW);
	void *libc = open_or_die("libc.so.6", RTLD_NOW);
	int known = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		known += dlsym(program, names[i]) != NULL;
		known += dlsym(RTLD_DEFAULT, names[i]) != NULL;
		known += dlsym(RTLD_NEXT, names[i]) != NULL;
	}
	printf("%d %d ", known, dlsym(libc, "cuserid") != NULL);
	printf("%s\n", driver_is_mapped() ? "loaded" : "not loaded");
	return 0;
}

static void *init_thread(void *arg)
{
	int (*init)(unsigned int) = NULL;
	pthread_barrier_t *barrier = arg;

	*(void **)&init = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
	pthread_barrier_wait(barrier);
	return (void *)(intptr_t)(init != NULL ? init(0) : -1);
}

static int init_from_threads(void)
{
	enum { THREAD_COUNT = 16 };
	pthread_t threads[THREAD_COUNT];
	pthread_barrier_t barrier;
	struct fake_counts *counts;
	int failures = 0;

	pthread_barrier_init(&barrier, NULL, THREAD_COUNT);
	for (int i = 0; i < THREAD_COUNT; i++) {
		if (pthread_create(&threads[i], NULL, init_thread, &barrier) != 0)
			abort();
	}
	for (int i = 0; i < THREAD_COUNT; i++) {
		void *result;

		pthread_join(threads[i], &result);
		failures += result != NULL;
	}
	counts = dlsym(open_or_die("libcuda.so.1", RTLD_NOW), "fake_counts");
	printf("%d failed, %d bodies, lost itself %d times\n", failures, counts->init_bodies,
	       counts->lost_itself);
	return 0;
}

/* The driver's look-ups of itself, from its constructor, cuInit and its helper. */
static int driver_finds_itself(void)
{
	void *handle = open_or_die("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	struct fake_counts *counts = dlsym(handle, "fake_counts");
	int (*init)(unsigned int);

	*(void **)&init = dlsym(handle, "cuInit");
	if (init(0) != 0)
		return 1;
	printf("%d bodies, lost itself %d times\n", counts->init_bodies, counts->lost_itself);
	return counts->looked_for_itself == 0;
}

/* Known and unknown NVML names by turns. */
static int nvml_names(void)
{
	static const char *const known[] = { "nvmlInit_v2", "nvmlShutdown",
					     "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCount_v2" };
	void *handle = open_or_die("libnvidia-ml.so.1", RTLD_NOW);
	int found_count = 0;
	int missing_count = 0;

	for (int i = 0; i < 1000; i++) {
		char name[64];

		dlerror();
		snprintf(name, sizeof(name), "nvmlDeviceGetNothing%d", i);
		missing_count += dlsym(handle, name) == NULL && dlerror() != NULL;
		found_count += dlsym(handle, known[i % 4]) != NULL && dlerror() == NULL;
	}
	printf("%d found, %d missing\n", found_count, missing_count);
	return 0;
}

static const struct route {
	const char *name;
	int (*run)(void);
} routes[] = {
	{ "soname", soname },
	{ "development-name", development_name },
	{ "absolute", absolute },
	{ "local", local },
	{ "deepbind", deepbind },
	{ "noload", noload },
	{ "program-handle", program_handle },
	{ "program-handle-unloaded", program_handle_unloaded },
	{ "default", search_default },
	{ "default-unloaded", search_default_unloaded },
	{ "default-local", search_default_local },
	{ "default-behind-local-shim", search_default_local_shim },
	{ "next", search_next },
	{ "next-unloaded", search_next_unloaded },
	{ "versioned", versioned },
	{ "versioned-search", versioned_search },
	{ "sysv-hash", sysv_hash },
	{ "plugin", plugin },
	{ "not-hooked", not_hooked },
	{ "wrapper-library", wrapper_library },
	{ "shim-before-driver", shim_before_driver },
	{ "errno", keeps_errno },
	{ "dlerror", tells_errors },
	{ "reload", reload },
	{ "foreign", foreign },
	{ "init-from-threads", init_from_threads },
	{ "driver-finds-itself", driver_finds_itself },
	{ "nvml-names", nvml_names },
	{ "resolver-first", resolver_first },
	{ "resolver-forms", resolver_forms },
	{ "resolver-errors", resolver_errors },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(routes) / sizeof(routes[0]); i++) {
		if (strcmp(routes[i].name, argv[1]) == 0)
			return routes[i].run();
	}
	fprintf(stderr, "usage: routes_client ROUTE\n");
	return 2;
}
