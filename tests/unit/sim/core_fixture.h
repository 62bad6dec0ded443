/* SPDX-License-Identifier: Apache-2.0
 *
 * For the tests of the simulated driver's memory. A process can start the driver only once, so a
 * test's body runs in a child with a node of its own; the test program itself never calls cuInit.
 * In a child, CHECK* say where it failed and end it; the parent then fails the test.
 */
#ifndef BERTH_TESTS_SIM_CORE_FIXTURE_H
#define BERTH_TESTS_SIM_CORE_FIXTURE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "driver/cuda_functions.h"

#define MiB(n) ((size_t)(n) << 20)
#define GiB(n) ((size_t)(n) << 30)

#define CONTEXT_BYTES MiB(96)

#define CHECK(condition)                                                                          \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                                 \
		}                                                                                 \
	} while (0)

#define CHECK_CODE(call, code)                                                               \
	do {                                                                                 \
		CUresult got_ = (call);                                                      \
		if (got_ != (code)) {                                                        \
			fprintf(stderr, "%s:%d: %s: %d instead of %d\n", __FILE__, __LINE__, \
				#call, (int)got_, (int)(code));                              \
			_exit(1);                                                            \
		}                                                                            \
	} while (0)

#define CHECK_OK(call) CHECK_CODE(call, CUDA_SUCCESS)

/* A node of its own from here on, for this process and its children. */
void core_node_new(const char *gpus);

/* A child that runs body with a socket to this process. */
struct core_child {
	pid_t pid;
	int socket;
};
struct core_child core_start(void (*body)(int socket));
/* Waits; true if it ended by itself without a failed check. */
bool core_succeeded(struct core_child *child);
/* SIGKILL, and waits until it is gone. */
void core_kill(struct core_child *child);
/* One child on a node of its own with these GPUs. */
bool core_passes(const char *gpus, void (*body)(int socket));

/* One byte each way: who waits for whom. */
void core_tell(int socket);
void core_wait(int socket);
void core_send(int socket, const void *data, size_t bytes);
void core_receive(int socket, void *data, size_t bytes);
/* A descriptor too. */
void core_send_fd(int socket, int fd);
int core_receive_fd(int socket);

/* In a child: cuInit, and a context on that device. */
CUcontext core_begin(CUdevice device);
size_t core_free_bytes(void);
size_t core_used_bytes(void);

#endif
