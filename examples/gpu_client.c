/* SPDX-License-Identifier: Apache-2.0
 *
 * A small GPU program that does what it is told, line by line: the actor of scripts/demo and of many
 * tests, and an example of a client of the driver API. It knows nothing of Berth.
 *
 *   alloc NAME SIZE     cuMemAlloc        -> "NAME ok" or "NAME error 2 CUDA_ERROR_OUT_OF_MEMORY"
 *   free NAME           cuMemFree         -> likewise
 *   fill NAME BYTE      cuMemsetD8        -> likewise
 *   check NAME BYTE     copies it back    -> "NAME same" or "NAME differs at OFFSET"
 *   churn SECONDS SIZE  random cuMemAlloc of up to SIZE and cuMemFree -> "churn granted N refused M"
 *   info                cuMemGetInfo      -> "info FREE TOTAL" in bytes
 *   gpus                                  -> "gpus COUNT"
 *   quit
 *
 * usage: gpu_client [ORDINAL]. Prints "ready PID" when it has a context. Sizes: 600M, 2G, bytes.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver/cuda_functions.h"

enum { MAX_BLOCKS = 64, CHUNK_BYTES = 1 << 20 };

struct driver {
	__typeof__(cuInit) *init;
	__typeof__(cuDeviceGetCount) *device_count;
	__typeof__(cuDevicePrimaryCtxRetain) *retain;
	__typeof__(cuCtxSetCurrent) *set_current;
	__typeof__(cuMemAlloc_v2) *alloc;
	__typeof__(cuMemFree_v2) *free;
	__typeof__(cuMemsetD8_v2) *memset;
	__typeof__(cuMemcpyDtoH_v2) *copy_to_host;
	__typeof__(cuMemGetInfo_v2) *info;
	__typeof__(cuGetErrorName) *error_name;
};

struct block {
	char name[32];
	CUdeviceptr pointer;
	size_t bytes;
};

static struct block blocks[MAX_BLOCKS];
static struct driver cuda;

static void *symbol(void *library, const char *name)
{
	void *address = dlsym(library, name);

	if (!address) {
		fprintf(stderr, "gpu_client: %s\n", dlerror());
		exit(1);
	}
	return address;
}

static void load_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "gpu_client: %s\n", dlerror());
		exit(1);
	}
	cuda = (struct driver){
		.init = symbol(library, "cuInit"),
		.device_count = symbol(library, "cuDeviceGetCount"),
		.retain = symbol(library, "cuDevicePrimaryCtxRetain"),
		.set_current = symbol(library, "cuCtxSetCurrent"),
		.alloc = symbol(library, "cuMemAlloc_v2"),
		.free = symbol(library, "cuMemFree_v2"),
		.memset = symbol(library, "cuMemsetD8_v2"),
		.copy_to_host = symbol(library, "cuMemcpyDtoH_v2"),
		.info = symbol(library, "cuMemGetInfo_v2"),
		.error_name = symbol(library, "cuGetErrorName"),
	};
}

static const char *name_of(CUresult result)
{
	const char *name = NULL;

	return cuda.error_name(result, &name) == CUDA_SUCCESS && name ? name : "?";
}

static void answer(const char *who, CUresult result)
{
	if (result == CUDA_SUCCESS)
		printf("%s ok\n", who);
	else
		printf("%s error %d %s\n", who, (int)result, name_of(result));
}

static void must(const char *what, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("%s error %d %s\n", what, (int)result, name_of(result));
	exit(1);
}

/* The block of that name; a free one for the name "". */
static struct block *find(const char *name)
{
	for (size_t i = 0; i < MAX_BLOCKS; i++) {
		if (strcmp(blocks[i].name, name) == 0)
			return &blocks[i];
	}
	return NULL;
}

static size_t parse_size(const char *text)
{
	char *unit;
	double value = strtod(text, &unit);
	double scale = *unit == 'K'   ? 1024.0
		       : *unit == 'M' ? 1048576.0
		       : *unit == 'G' ? 1073741824.0
				      : 1.0;

	return (size_t)(value * scale);
}

static int parse_number(const char *text)
{
	return (int)strtol(text, NULL, 10);
}

static void do_alloc(const char *name, const char *size)
{
	struct block *block = find("");

	if (!block || find(name)) {
		printf("%s error: the name is taken, or there are %d blocks\n", name, MAX_BLOCKS);
		return;
	}
	CUresult result = cuda.alloc(&block->pointer, parse_size(size));
	if (result == CUDA_SUCCESS) {
		(void)snprintf(block->name, sizeof block->name, "%s", name);
		block->bytes = parse_size(size);
	}
	answer(name, result);
}

static void do_check(const struct block *block, int byte)
{
	static unsigned char chunk[CHUNK_BYTES];

	for (size_t at = 0; at < block->bytes; at += CHUNK_BYTES) {
		size_t n = block->bytes - at < CHUNK_BYTES ? block->bytes - at : CHUNK_BYTES;
		CUresult result = cuda.copy_to_host(chunk, block->pointer + at, n);
		if (result != CUDA_SUCCESS) {
			answer(block->name, result);
			return;
		}
		for (size_t i = 0; i < n; i++) {
			if (chunk[i] != (unsigned char)byte) {
				printf("%s differs at %zu\n", block->name, at + i);
				return;
			}
		}
	}
	printf("%s same\n", block->name);
}

static void do_block(const char *verb, struct block *block, const char *argument)
{
	if (strcmp(verb, "free") == 0) {
		CUresult result = cuda.free(block->pointer);
		answer(block->name, result);
		if (result == CUDA_SUCCESS)
			block->name[0] = '\0';
	} else if (strcmp(verb, "fill") == 0) {
		answer(block->name,
		       cuda.memset(block->pointer, (unsigned char)parse_number(argument),
				   block->bytes));
	} else {
		do_check(block, parse_number(argument));
	}
}

/* Allocates and frees at random for a while, then frees all that it took. */
static void do_churn(unsigned seconds, size_t max_bytes)
{
	CUdeviceptr held[8] = { 0 };
	unsigned long granted = 0, refused = 0;
	unsigned state = (unsigned)getpid();
	time_t end = time(NULL) + (time_t)seconds;

	while (time(NULL) < end) {
		CUdeviceptr *one = &held[(unsigned)rand_r(&state) % 8];
		if (*one) {
			(void)cuda.free(*one);
			*one = 0;
		} else {
			size_t bytes =
				1 + (size_t)((double)max_bytes * rand_r(&state) / (RAND_MAX + 1.0));
			if (cuda.alloc(one, bytes) == CUDA_SUCCESS) {
				granted++;
			} else {
				*one = 0;
				refused++;
			}
		}
		(void)usleep(20000);
	}
	for (size_t i = 0; i < 8; i++) {
		if (held[i])
			(void)cuda.free(held[i]);
	}
	printf("churn granted %lu refused %lu\n", granted, refused);
}

static bool do_line(char *line)
{
	char verb[16] = "", name[32] = "", argument[32] = "";
	size_t free_bytes = 0, total_bytes = 0;
	int count = 0;

	if (sscanf(line, "%15s %31s %31s", verb, name, argument) < 1)
		return true;
	if (strcmp(verb, "quit") == 0)
		return false;
	if (strcmp(verb, "info") == 0) {
		must("info", cuda.info(&free_bytes, &total_bytes));
		printf("info %zu %zu\n", free_bytes, total_bytes);
	} else if (strcmp(verb, "gpus") == 0) {
		must("gpus", cuda.device_count(&count));
		printf("gpus %d\n", count);
	} else if (strcmp(verb, "churn") == 0) {
		do_churn((unsigned)parse_number(name), parse_size(argument));
	} else if (strcmp(verb, "alloc") == 0) {
		do_alloc(name, argument);
	} else if (!*name || !find(name)) {
		printf("%s error: no block of this name\n", name);
	} else {
		do_block(verb, find(name), argument);
	}
	return true;
}

int main(int argc, char **argv)
{
	CUcontext context = NULL;
	char line[256];

	setvbuf(stdout, NULL, _IOLBF, 0);
	load_driver();
	must("cuInit", cuda.init(0));
	must("context", cuda.retain(&context, argc > 1 ? parse_number(argv[1]) : 0));
	must("context", cuda.set_current(context));
	printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof line, stdin) && do_line(line))
		;
	return 0;
}
