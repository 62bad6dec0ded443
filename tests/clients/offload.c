/* SPDX-License-Identifier: Apache-2.0
 *
 * An OpenMP program whose arrays go to the GPU, compiled by GCC for nvptx: argv[1] blocks of argv[2]
 * MiB are allocated there and filled by the host's copies, copied back and compared.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	size_t bytes = (argc > 2 ? strtoul(argv[2], NULL, 10) : 1) << 20;
	int gpu = omp_get_default_device(), host = omp_get_initial_device();
	unsigned char *pattern = malloc(bytes), *back = malloc(bytes);

	if (omp_get_num_devices() < 1 || !pattern || !back) {
		puts("no GPU");
		return 2;
	}
	for (size_t i = 0; i < bytes; i++)
		pattern[i] = (unsigned char)(i * 2654435761U >> 13);
	for (int i = 0; i < count; i++) {
		void *block = omp_target_alloc(bytes, gpu);
		if (!block) {
			printf("out of memory at block %d\n", i);
			return 3;
		}
		memset(back, 0, bytes);
		if (omp_target_memcpy(block, pattern, bytes, 0, 0, gpu, host) != 0 ||
		    omp_target_memcpy(back, block, bytes, 0, 0, host, gpu) != 0 ||
		    memcmp(pattern, back, bytes) != 0) {
			printf("block %d came back changed\n", i);
			return 4;
		}
	}
	int there = 0;
#pragma omp target map(from : there)
	there = 1;
	(void)there; /* the simulator runs no device code: it must load, launch and end */
	printf("%d blocks of %zu MiB on the GPU\n", count, bytes >> 20);
	return 0;
}
