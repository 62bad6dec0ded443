/* SPDX-License-Identifier: Apache-2.0
 *
 * cuInit. The mark of a process that has done it lies on a page that fork wipes, so a child of any
 * making (fork, raw clone) is told apart by the same load that every call does anyway.
 */
#include "sim/cuda/init.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "sim/config.h"
#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"
#include "sim/node/node.h"

#define PAGE_BYTES 4096

static const unsigned char not_yet;
/* Points to the wiped-on-fork page once cuInit has been called. */
static const unsigned char *_Atomic ready_mark = &not_yet;
static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool was_tried;
static CUresult first_answer;

__attribute__((constructor)) static void guard_init(void)
{
	sim_node_fork_waits_for(&init_mutex);
}

bool sim_is_initialized(void)
{
	return *atomic_load_explicit(&ready_mark, memory_order_acquire) != 0;
}

bool sim_is_fork_child(void)
{
	const unsigned char *mark = atomic_load_explicit(&ready_mark, memory_order_acquire);

	return mark != &not_yet && *mark == 0;
}

int sim_driver_version(void)
{
	const struct sim_config *config = sim_config();

	return config ? (int)config->driver_version : CUDA_VERSION;
}

static CUresult open_node(void)
{
	int err = sim_node_open();

	if (err)
		return CUDA_ERROR_SYSTEM_NOT_READY;
	err = sim_node_claim();
	return err ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static CUresult mark_ready(void)
{
	unsigned char *mark;

	mark = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mark == MAP_FAILED)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (madvise(mark, PAGE_BYTES, MADV_WIPEONFORK) < 0) {
		munmap(mark, PAGE_BYTES);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*mark = 1;
	/* Pairs with the loads above: what cuInit set up is there. */
	atomic_store_explicit(&ready_mark, mark, memory_order_release);
	return CUDA_SUCCESS;
}

static CUresult init_once(void)
{
	CUresult result;

	result = open_node();
	if (result == CUDA_SUCCESS)
		result = sim_device_init();
	if (result == CUDA_SUCCESS)
		result = mark_ready();
	return result;
}

CUresult sim_init(void)
{
	CUresult result;

	if (sim_is_initialized())
		return CUDA_SUCCESS;
	if (sim_is_fork_child())
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&init_mutex);
	if (!was_tried) {
		first_answer = init_once();
		was_tried = true;
	}
	result = first_answer;
	pthread_mutex_unlock(&init_mutex);
	return result;
}

SIM_EXPORT CUresult cuInit(unsigned int flags)
{
	SIM_ENTER(cuInit);
	if (flags != 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	return SIM_LEAVE(sim_init());
}
