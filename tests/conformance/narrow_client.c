/* SPDX-License-Identifier: Apache-2.0
 *
 * berth-narrow-client: one base name asked for at 2000 and at 3020 is two functions, with 32-bit
 * and with 64-bit outputs. Called through what the look-up gave, the first must write four bytes
 * and no more, and both must tell the same truth. Also what outputs that are NULL lead to.
 *
 *	berth-narrow-client [TOTAL-BYTES]
 *
 * What it prints holds no addresses and no sizes, so that a run through the preloaded library can
 * be compared with one on the bare driver. With TOTAL-BYTES each total must be that.
 * Exit status: 0; 1 something wrong, said; 77 no driver.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/cuda_functions.h"

/* A 4-byte output between two words that nobody may touch. */
struct guarded {
	unsigned int before;
	unsigned int value;
	unsigned int after;
};

#define GUARD 0xdeadbeefU
#define GUARDED                 \
	{                       \
		GUARD, 0, GUARD \
	}

static unsigned int wrong_count_;

static void check(bool right, const char *what)
{
	if (right)
		return;
	printf("wrong: %s\n", what);
	wrong_count_++;
}

static bool is_guarded(const struct guarded *out)
{
	return out->before == GUARD && out->after == GUARD;
}

static __typeof__(cuGetProcAddress_v2) *get_;

static void *look_up(const char *base, int version, const char *symbol)
{
	void *address = NULL;
	Dl_info info;

	if (get_(base, &address, version, 0, NULL) != CUDA_SUCCESS || !address ||
	    !dladdr(address, &info) || strcmp(info.dli_sname, symbol) != 0) {
		printf("wrong: %s at %d isn't %s\n", base, version, symbol);
		exit(1);
	}
	return address;
}

/* From 32 bits to 64: what doesn't fit is shown as the most that does. */
static bool agrees(unsigned int narrow, size_t wide)
{
	return narrow == (wide > UINT32_MAX ? UINT32_MAX : (unsigned int)wide);
}

static void check_allocation(void)
{
	__typeof__(cuMemAlloc) *alloc = look_up("cuMemAlloc", 2000, "cuMemAlloc");
	__typeof__(cuMemFree) *release = look_up("cuMemFree", 2000, "cuMemFree");
	__typeof__(cuMemAlloc_v2) *alloc_wide = look_up("cuMemAlloc", 3020, "cuMemAlloc_v2");
	__typeof__(cuMemFree_v2) *release_wide = look_up("cuMemFree", 3020, "cuMemFree_v2");
	struct guarded out = GUARDED;
	CUdeviceptr wide = 0;

	printf("cuMemAlloc %d\n", alloc(&out.value, 1U << 20));
	check(out.value != 0 && is_guarded(&out), "cuMemAlloc writes more than its four bytes");
	printf("cuMemFree %d\n", release(out.value));
	printf("cuMemFree again %d\n", release(out.value));
	printf("cuMemAlloc_v2 %d\n", alloc_wide(&wide, 1U << 20));
	check(wide != 0, "cuMemAlloc_v2 gives nothing");
	printf("cuMemFree_v2 %d\n", release_wide(wide));
	printf("NULL outputs %d %d\n", alloc(NULL, 1), alloc_wide(NULL, 1));
	printf("no bytes %d %d\n", alloc(&out.value, 0), alloc_wide(&wide, 0));
}

static void check_memory_info(size_t total_bytes)
{
	__typeof__(cuMemGetInfo) *narrow = look_up("cuMemGetInfo", 2000, "cuMemGetInfo");
	__typeof__(cuMemGetInfo_v2) *wide = look_up("cuMemGetInfo", 3020, "cuMemGetInfo_v2");
	struct guarded free_out = GUARDED, total_out = GUARDED;
	size_t free_bytes = 7, total = 7;

	printf("cuMemGetInfo %d\n", narrow(&free_out.value, &total_out.value));
	printf("cuMemGetInfo_v2 %d\n", wide(&free_bytes, &total));
	check(is_guarded(&free_out) && is_guarded(&total_out),
	      "cuMemGetInfo writes more than its four bytes");
	check(agrees(total_out.value, total) && agrees(free_out.value, free_bytes),
	      "the two forms of cuMemGetInfo disagree");
	check(free_bytes <= total, "more is free than there is");
	check(!total_bytes || total == total_bytes, "cuMemGetInfo's total isn't the limit");
	free_bytes = total = 7;
	printf("NULL free %d", wide(NULL, &total));
	printf(" %s\n", total == 7 ? "untouched" : "written");
	printf("NULL total %d", wide(&free_bytes, NULL));
	printf(" %s\n", free_bytes == 7 ? "untouched" : "written");
	printf("both NULL %d %d\n", wide(NULL, NULL), narrow(NULL, NULL));
}

static void check_total(size_t total_bytes)
{
	__typeof__(cuDeviceTotalMem) *narrow =
		look_up("cuDeviceTotalMem", 2000, "cuDeviceTotalMem");
	__typeof__(cuDeviceTotalMem_v2) *wide =
		look_up("cuDeviceTotalMem", 3020, "cuDeviceTotalMem_v2");
	struct guarded out = GUARDED;
	size_t total = 7;

	printf("cuDeviceTotalMem %d\n", narrow(&out.value, 0));
	printf("cuDeviceTotalMem_v2 %d\n", wide(&total, 0));
	check(is_guarded(&out), "cuDeviceTotalMem writes more than its four bytes");
	check(agrees(out.value, total), "the two forms of cuDeviceTotalMem disagree");
	check(!total_bytes || total == total_bytes, "cuDeviceTotalMem isn't the limit");
	total = 7;
	printf("bad ordinals %d %d", wide(&total, 99), wide(&total, -1));
	printf(" %s\n", total == 7 ? "untouched" : "written");
	printf("NULL output %d %d\n", wide(NULL, 0), narrow(NULL, 0));
}

int main(int argc, char **argv)
{
	size_t total_bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	__typeof__(cuInit) *init;
	__typeof__(cuCtxCreate_v2) *create;
	CUcontext context;

	if (!driver) {
		printf("skipped: %s\n", dlerror());
		return 77;
	}
	get_ = (__typeof__(get_))dlsym(driver, "cuGetProcAddress_v2");
	if (!get_) {
		puts("wrong: the driver has no look-up");
		return 1;
	}
	init = look_up("cuInit", 2000, "cuInit");
	create = look_up("cuCtxCreate", 3020, "cuCtxCreate_v2");
	if (init(0) != CUDA_SUCCESS || create(&context, 0, 0) != CUDA_SUCCESS) {
		puts("wrong: no context");
		return 1;
	}
	check_allocation();
	check_memory_info(total_bytes);
	check_total(total_bytes);
	return wrong_count_ ? 1 : 0;
}
