/* SPDX-License-Identifier: Apache-2.0
 *
 * A malloc that prepares itself for a fork as jemalloc does: it takes its lock before, and makes it anew in
 * the child, in handlers that it registered before anybody else. Child handlers run in the order in
 * which they were registered, so ours run when its lock is still held: who allocates or frees there hangs.
 * Preload it before the library. It calls glibc's own through names that glibc keeps for this.
 */
#include <pthread.h>
#include <stddef.h>

#include "base/attributes.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

BERTH_EXPORT void *malloc(size_t size);
BERTH_EXPORT void *calloc(size_t count, size_t size);
BERTH_EXPORT void *realloc(void *block, size_t size);
BERTH_EXPORT void free(void *block);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void prepare(void)
{
	pthread_mutex_lock(&mutex);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

static void in_child(void)
{
	mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

__attribute__((constructor(101))) static void init(void)
{
	(void)pthread_atfork(prepare, in_parent, in_child); /* the test would see */
}

void *malloc(size_t size)
{
	void *block;

	pthread_mutex_lock(&mutex);
	block = __libc_malloc(size);
	pthread_mutex_unlock(&mutex);
	return block;
}

void *calloc(size_t count, size_t size)
{
	void *block;

	pthread_mutex_lock(&mutex);
	block = __libc_calloc(count, size);
	pthread_mutex_unlock(&mutex);
	return block;
}

void *realloc(void *block, size_t size)
{
	void *moved;

	pthread_mutex_lock(&mutex);
	moved = __libc_realloc(block, size);
	pthread_mutex_unlock(&mutex);
	return moved;
}

void free(void *block)
{
	pthread_mutex_lock(&mutex);
	__libc_free(block);
	pthread_mutex_unlock(&mutex);
}
