/* SPDX-License-Identifier: Apache-2.0
 *
 * berth-answers-client: what each function of the driver answers when all it is given is zero:
 * before cuInit, after it, and with a context. One line a call: phase, symbol, result. Run bare
 * and through the preloaded library, the two lists must be the same: an argument check or a state
 * that the library answers for itself would show as a difference.
 *
 *	berth-answers-client SYMBOLS-FILE
 *
 * Each call is made in a child of its own: what it does to the process is not the next one's
 * concern, and one that dies is written down as what it died of.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/cuda_types.h"
#include "lookup_table.h"

enum phase {
	PHASE_BEFORE_INIT,
	PHASE_INITIALIZED,
	PHASE_CONTEXT,
	PHASE_COUNT,
};

static const char *const phase_names_[PHASE_COUNT] = { "before-init", "initialized", "context" };

/* Twelve zeros are enough for every function; what it doesn't take it doesn't see. */
typedef CUresult (*any_function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
				 uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
typedef CUresult (*init_function)(unsigned int);
typedef CUresult (*create_function)(CUcontext *, unsigned int, CUdevice);

static void reach(void *driver, enum phase phase)
{
	CUcontext context;

	if (phase >= PHASE_INITIALIZED && ((init_function)dlsym(driver, "cuInit"))(0) != 0)
		_exit(2);
	if (phase >= PHASE_CONTEXT &&
	    ((create_function)dlsym(driver, "cuCtxCreate_v2"))(&context, 0, 0) != 0)
		_exit(3);
}

/* A call that blocks dies of the alarm. */
static void answer(void *driver, enum phase phase, const char *symbol)
{
	any_function function = (any_function)dlsym(driver, symbol);
	CUresult result = 0;
	int ends[2], status = 0;
	pid_t pid;

	if (!function || pipe(ends)) {
		printf("%s %s missing\n", phase_names_[phase], symbol);
		return;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(30);
		reach(driver, phase);
		result = function(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
		_exit(write(ends[1], &result, sizeof(result)) != sizeof(result));
	}
	close(ends[1]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0 ||
	    read(ends[0], &result, sizeof(result)) != sizeof(result))
		printf("%s %s died %#x\n", phase_names_[phase], symbol, (unsigned int)status);
	else
		printf("%s %s %d\n", phase_names_[phase], symbol, (int)result);
	close(ends[0]);
}

int main(int argc, char **argv)
{
	void *driver;

	if (argc != 2) {
		fputs("usage: berth-answers-client SYMBOLS-FILE\n", stderr);
		return 2;
	}
	lookup_table_read_symbols(argv[1]);
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver) {
		printf("skipped: %s\n", dlerror());
		return 77;
	}
	for (int phase = 0; phase < PHASE_COUNT; phase++) {
		for (size_t i = 0; i < lookup_table.symbols_count; i++)
			answer(driver, (enum phase)phase, lookup_table.symbols[i].symbol);
	}
	return 0;
}
