/* SPDX-License-Identifier: Apache-2.0
 *
 * Acting on fault plans. Two may be in force, the environment's and the control file's. A plan
 * that was replaced is never freed: a call that blocks or sleeps in it still points there, and a
 * test changes its file a few times at most.
 */
#include "sim/node/fault.h"

#include "sim/node/fault_plan.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES_MAX (64U << 10)
#define BLOCK_LOOK_NS  10000000U

/* What tells one version of the control file from another. */
struct stamp {
	struct timespec mtime;
	ino_t ino;
	off_t size;
	bool exists;
};

static struct sim_faults {
	sim_fault_knows knows;
	struct sim_fault_plan *from_env; /* set once, before any call looks */
	_Atomic(struct sim_fault_plan *) from_file;
	const char *file;
	pthread_mutex_t lock; /* guards stamp: one thread at a time reads the file */
	struct stamp stamp;
} faults_ = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* What a text that can't be read stands for: every call fails. */
static struct sim_fault_plan bad_plan_ = {
	.rules_count = 1,
	.rules = { { .pattern = "*",
		     .fails = true,
		     .code = SIM_FAULT_BAD_PLAN,
		     .from = 1,
		     .count = UINT64_MAX } },
};

static struct sim_fault_plan *plan_from(const char *text, const char *where)
{
	struct sim_fault_plan *plan;
	const char *bad = text;

	if (sim_fault_parse(text, faults_.knows, &plan, &bad) == 0)
		return plan;
	fprintf(stderr, "berth-sim: %s: bad fault rule: %.*s\n", where, (int)strcspn(bad, ";\n"),
		bad);
	return &bad_plan_;
}

static struct stamp stamp_of(const char *path)
{
	struct stamp stamp = { .exists = false };
	struct stat st;

	if (stat(path, &st) == 0) {
		stamp.mtime = st.st_mtim;
		stamp.ino = st.st_ino;
		stamp.size = st.st_size;
		stamp.exists = true;
	}
	return stamp;
}

static bool stamp_equal(const struct stamp *a, const struct stamp *b)
{
	return a->exists == b->exists && a->ino == b->ino && a->size == b->size &&
	       a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec;
}

static struct sim_fault_plan *plan_from_file(const char *path)
{
	char text[FILE_BYTES_MAX];
	FILE *file = fopen(path, "re");
	size_t len;

	if (!file)
		return errno == ENOENT ? NULL : &bad_plan_;
	len = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[len] = '\0';
	return plan_from(text, path);
}

/* The file as it is now. */
static struct sim_fault_plan *file_plan(void)
{
	struct stamp now;

	if (!faults_.file)
		return NULL;
	pthread_mutex_lock(&faults_.lock);
	now = stamp_of(faults_.file);
	if (!stamp_equal(&now, &faults_.stamp)) {
		atomic_store(&faults_.from_file, now.exists ? plan_from_file(faults_.file) : NULL);
		faults_.stamp = now;
	}
	pthread_mutex_unlock(&faults_.lock);
	return atomic_load(&faults_.from_file);
}

static void file_lock(void)
{
	pthread_mutex_lock(&faults_.lock);
}

static void file_unlock(void)
{
	pthread_mutex_unlock(&faults_.lock);
}

bool sim_fault_open(sim_fault_knows knows)
{
	const char *text = getenv("BERTH_SIM_FAULTS");
	const char *file = getenv("BERTH_SIM_FAULT_FILE");

	faults_.knows = knows;
	if (text && *text)
		faults_.from_env = plan_from(text, "BERTH_SIM_FAULTS");
	if (file && *file) {
		faults_.file = strdup(file);
		pthread_atfork(file_lock, file_unlock, file_unlock);
	}
	return faults_.from_env || faults_.file;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec left = {
		.tv_sec = (time_t)(ns / 1000000000U),
		.tv_nsec = (long)(ns % 1000000000U),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		continue;
}

static void die(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* A rule of the environment blocks for good; one of the file until that file is another. */
static void block(struct sim_fault_plan *plan)
{
	while (plan == faults_.from_env || file_plan() == plan)
		sleep_ns(BLOCK_LOOK_NS);
}

static bool rule_hits(struct sim_fault_rule *rule, const char *name)
{
	uint64_t seen;

	if (fnmatch(rule->pattern, name, 0) != 0)
		return false;
	seen = atomic_fetch_add_explicit(&rule->seen, 1, memory_order_relaxed) + 1;
	return seen >= rule->from && seen - rule->from < rule->count;
}

static int rule_act(struct sim_fault_plan *plan, const struct sim_fault_rule *rule)
{
	if (rule->sleep_ns)
		sleep_ns(rule->sleep_ns);
	if (rule->blocks)
		block(plan);
	if (rule->kills_before)
		die();
	return rule->fails ? rule->code : 0;
}

static int plan_before(struct sim_fault_plan *plan, const char *name, struct sim_fault_hit *hit)
{
	int code = 0;

	*hit = (struct sim_fault_hit){ plan, 0 };
	if (!plan)
		return 0;
	for (size_t i = 0; i < plan->rules_count; i++) {
		struct sim_fault_rule *rule = &plan->rules[i];
		int answer;

		if (!rule_hits(rule, name))
			continue;
		hit->after |= 1ULL << i;
		answer = rule_act(plan, rule);
		code = code ? code : answer;
	}
	return code;
}

int sim_fault_before(const char *name, struct sim_fault_hit ret_hits[2])
{
	int first = plan_before(faults_.from_env, name, &ret_hits[0]);
	int second = plan_before(file_plan(), name, &ret_hits[1]);

	return first ? first : second;
}

void sim_fault_after(const struct sim_fault_hit hits[2])
{
	for (size_t h = 0; h < 2; h++) {
		for (uint64_t left = hits[h].after; left; left &= left - 1) {
			const struct sim_fault_rule *rule =
				&hits[h].plan->rules[__builtin_ctzll(left)];

			if (rule->linger_ns)
				sleep_ns(rule->linger_ns);
			if (rule->kills_after)
				die();
		}
	}
}
