/* SPDX-License-Identifier: Apache-2.0
 *
 * See host_work.h. The thread blocks all signals: a program's handlers run in its own threads.
 */
#include "sim/cuda/host_work.h"

#include <signal.h>
#include <stdlib.h>

#include "sim/node/device_time.h"

struct job {
	struct job *next;
	unsigned gpu;
	struct sim_position after;
	struct sim_host_work work;
	uint64_t number;
};

static struct host_works {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a job came, or one is done */
	struct job *head;
	struct job **tail;
	uint64_t added;
	_Atomic uint64_t done;
	bool has_thread;
} works_ = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.tail = &works_.head,
};

static __thread bool is_here_;

static struct job *take(void)
{
	struct job *job;

	pthread_mutex_lock(&works_.lock);
	while (!works_.head)
		pthread_cond_wait(&works_.changed, &works_.lock);
	job = works_.head;
	works_.head = job->next;
	if (!works_.head)
		works_.tail = &works_.head;
	pthread_mutex_unlock(&works_.lock);
	return job;
}

static void finish(struct job *job)
{
	pthread_mutex_lock(&works_.lock);
	atomic_store(&works_.done, job->number);
	pthread_cond_broadcast(&works_.changed);
	pthread_mutex_unlock(&works_.lock);
	free(job);
}

static void *serve(void *unused)
{
	(void)unused;
	is_here_ = true;
	for (;;) {
		struct job *job = take();

		sim_time_wait(job->gpu, job->after.mark);
		if (job->work.function)
			job->work.function(job->work.data);
		else
			job->work.callback(job->work.stream, CUDA_SUCCESS, job->work.data);
		finish(job);
	}
	return NULL;
}

static bool start_thread_locked(void)
{
	sigset_t all, before;
	pthread_t thread;
	int err;

	if (works_.has_thread)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, serve, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return false;
	pthread_detach(thread);
	works_.has_thread = true;
	return true;
}

CUresult sim_host_work_add(unsigned gpu, struct sim_position after,
			   const struct sim_host_work *work, uint64_t *ret_gate)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return CUDA_ERROR_OUT_OF_MEMORY;
	job->gpu = gpu;
	job->after = after;
	job->work = *work;
	pthread_mutex_lock(&works_.lock);
	if (!start_thread_locked()) {
		pthread_mutex_unlock(&works_.lock);
		free(job);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	job->number = ++works_.added;
	*works_.tail = job;
	works_.tail = &job->next;
	*ret_gate = job->number;
	pthread_cond_broadcast(&works_.changed);
	pthread_mutex_unlock(&works_.lock);
	return CUDA_SUCCESS;
}

bool sim_host_work_done(uint64_t gate)
{
	return atomic_load(&works_.done) >= gate;
}

CUresult sim_host_work_wait(uint64_t gate)
{
	if (sim_host_work_done(gate))
		return CUDA_SUCCESS;
	if (is_here_)
		return CUDA_ERROR_NOT_PERMITTED;
	pthread_mutex_lock(&works_.lock);
	while (!sim_host_work_done(gate))
		pthread_cond_wait(&works_.changed, &works_.lock);
	pthread_mutex_unlock(&works_.lock);
	return CUDA_SUCCESS;
}

bool sim_host_work_is_here(void)
{
	return is_here_;
}
