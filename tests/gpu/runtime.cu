/* SPDX-License-Identifier: Apache-2.0
 *
 * A program on the CUDA runtime: allocations that fit and that don't, both ways, and a kernel.
 */
#include <cuda_runtime.h>
#include <stdio.h>

__global__ void square(float *v, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		v[i] = v[i] * v[i];
}

static void report(const char *what, cudaError_t e)
{
	printf("%s: %s\n", what, cudaGetErrorString(e));
	(void)cudaGetLastError();
}

int main()
{
	const int n = 1 << 20;
	static float host[1 << 20];
	float *v = NULL;
	void *big = NULL;
	cudaStream_t stream;

	report("cudaMalloc 3G", cudaMalloc(&big, 3UL << 30));
	report("cudaStreamCreate", cudaStreamCreate(&stream));
	report("cudaMallocAsync 3G", cudaMallocAsync(&big, 3UL << 30, stream));
	report("cudaMalloc 4M", cudaMalloc((void **)&v, n * sizeof(float)));
	for (int i = 0; i < n; i++)
		host[i] = (float)(i % 7);
	report("copy there", cudaMemcpy(v, host, n * sizeof(float), cudaMemcpyHostToDevice));
	square<<<n / 256, 256>>>(v, n);
	report("copy back", cudaMemcpy(host, v, n * sizeof(float), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++) {
		if (host[i] != (float)(i % 7) * (float)(i % 7)) {
			printf("sum wrong at %d\n", i);
			return 1;
		}
	}
	printf("sum ok\n");
	return cudaFree(v) == cudaSuccess ? 0 : 1;
}
