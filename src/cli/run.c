/* SPDX-License-Identifier: Apache-2.0
 *
 * berth run: makes or joins the share, then becomes the program (exec: same pid, same terminal, its own
 * signals and exit status). The region is there before the program starts, so a program without the
 * environment can't make an unlimited one first. Anything that would leave the program without its
 * limit stops it here.
 */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "base/state_dir.h"
#include "cli/audit.h"
#include "cli/command.h"
#include "cli/gpus.h"
#include "cli/install.h"
#include "cli/program.h"
#include "cli/share.h"
#include "region/directory.h"
#include "region/region.h"

enum { OPT_MEMORY, OPT_COMPUTE, OPT_NAME, OPT_GPU, OPT_SIM, OPT_REAL, OPT_QUIET };

static const struct berth_option run_options[] = {
	[OPT_MEMORY] = { "memory", 'm', "SIZE",
			 "GPU memory the share may use, on each of its GPUs (512M, 8G, 0.5G)" },
	[OPT_COMPUTE] = { "compute", 'c', "PERCENT",
			  "part of a GPU's time the share may use (1 to 100)" },
	[OPT_NAME] = { "name", 'n', "NAME",
		       "join or make the share of this name (default: one of its own)" },
	[OPT_GPU] = { "gpu", 'g', "INDEX|UUID", "only this GPU (default: all)" },
	[OPT_SIM] = { "sim", 's', NULL, "on the simulated GPU, also where there is a real one" },
	[OPT_REAL] = { "real", 0, NULL, "on the real GPU, never the simulated one" },
	[OPT_QUIET] = { "quiet", 'q', NULL, "say nothing but errors" },
	{ NULL, 0, NULL, NULL },
};

struct run {
	const struct berth_command *command;
	uint64_t memory_bytes;           /* 0 = none was asked for */
	uint32_t compute_pct;            /* 0 = none was asked for */
	char name[BERTH_SHARE_NAME_MAX]; /* "" = one of its own */
	const char *gpu;                 /* NULL = all */
	bool simulated;
	bool real;
	bool quiet;

	struct berth_install install;
	struct berth_program program;
	struct berth_gpus gpus;
	char region_path[PATH_MAX];
	uint64_t stamp; /* of our order: a change by berth limit since then counts more */
};

static void say(const struct run *run, const char *fmt, ...) BERTH_PRINTF(2, 3);

static void say(const struct run *run, const char *fmt, ...)
{
	char text[BERTH_REASON_MAX];
	va_list args;

	if (run->quiet)
		return;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	berth_complain(run->command, "%s", text);
}

static int take_memory(struct run *run, const char *value)
{
	int r = berth_size_parse(value, &run->memory_bytes);

	if (r < 0 || run->memory_bytes == 0) {
		berth_complain(run->command, "--memory %s: not %s%s", value, berth_size_hint,
			       r == 0 ? "; without a limit, leave the option out" : "");
		return -EINVAL;
	}
	return 0;
}

static int take_option(void *arg, const struct berth_option *option, const char *value)
{
	struct run *run = arg;
	struct berth_reason reason = { .text = "" };

	switch (option - run_options) {
	case OPT_MEMORY:
		return take_memory(run, value);
	case OPT_COMPUTE:
		if (berth_percent_parse(value, &run->compute_pct) < 0) {
			berth_complain(run->command, "--compute %s: not %s", value,
				       berth_percent_hint);
			return -EINVAL;
		}
		return 0;
	case OPT_NAME:
		if (strchr(value, '@') || berth_share_name_check(value, &reason) < 0) {
			berth_complain(run->command, "--name: %s",
				       reason.text[0] ? reason.text
						      : "'@' stands in the names that Berth gives");
			return -EINVAL;
		}
		(void)snprintf(run->name, sizeof run->name, "%s", value);
		return 0;
	case OPT_GPU:
		run->gpu = value;
		return 0;
	case OPT_SIM:
		run->simulated = true;
		return 0;
	case OPT_REAL:
		run->real = true;
		return 0;
	default:
		run->quiet = true;
		return 0;
	}
}

/* COMMAND@PID: exec keeps the pid, so the share is named for the program that it is for. */
static void name_own_share(struct run *run)
{
	char copy[PATH_MAX];
	char word[BERTH_SHARE_NAME_MAX - 16];

	(void)snprintf(copy, sizeof copy, "%s", run->program.path);
	(void)snprintf(word, sizeof word, "%s", basename(copy));
	for (char *c = word; *c; c++) {
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-+",
			    *c))
			*c = '_';
	}
	if (word[0] == '.')
		word[0] = '_';
	(void)snprintf(run->name, sizeof run->name, "%s@%d", word, (int)getpid());
}

/* Which driver: what was asked for, else the real one if it is there. */
static int choose_driver(struct run *run, struct berth_reason *reason)
{
	bool there;

	if (run->simulated && run->real)
		return berth_reason_set(reason, -EINVAL, "--sim and --real exclude each other");
	there = run->simulated ? false : berth_gpus_real_driver(run->install.simulator);
	if (run->real && !there)
		return berth_reason_set(
			reason, -ENODEV,
			"--real: there is no NVIDIA driver here: libcuda.so.1 can't be loaded, or "
			"LD_LIBRARY_PATH leads to the simulated one");
	if (there)
		return 0;
	if (!run->install.simulator[0])
		return berth_reason_set(
			reason, -ENODEV,
			"there is no NVIDIA driver here (libcuda.so.1 can't be loaded), and the "
			"simulated one isn't installed beside %s",
			run->install.library);
	if (!run->simulated)
		say(run, "no NVIDIA driver on this host: running on a simulated GPU");
	run->simulated = true;
	return 0;
}

static int list_gpus(struct run *run, struct berth_reason *reason)
{
	int r = berth_gpus_read(run->simulated ? run->install.simulator : NULL, &run->gpus, reason);

	if (r < 0)
		return r;
	return run->gpu ? berth_gpus_select(&run->gpus, run->gpu, reason) : 0;
}

static void warn_above_card(const struct run *run)
{
	char asked[BERTH_SIZE_TEXT_MAX], has[BERTH_SIZE_TEXT_MAX];

	for (uint32_t i = 0; i < run->gpus.count; i++) {
		uint64_t total_bytes = run->gpus.list[i].memory_total_bytes;
		if (total_bytes == 0 || run->memory_bytes <= total_bytes)
			continue; /* 0: a machine of unified memory does not tell */
		say(run, "%s is more than GPU %u (%s) has: its %s are the limit there",
		    berth_size_format(run->memory_bytes, asked), run->gpus.list[i].index,
		    run->gpus.list[i].name, berth_size_format(total_bytes, has));
	}
}

static void tell_limits(const struct run *run, const struct berth_region *region,
			const struct berth_region_joined *joined)
{
	char in_force[BERTH_SIZE_TEXT_MAX], asked[BERTH_SIZE_TEXT_MAX];

	for (uint32_t i = 0; i < berth_region_gpu_count(region); i++) {
		struct berth_region_gpu gpu;
		uint32_t bit = 1U << i;

		if (!((joined->kept_mask | joined->lowered_mask) & bit))
			continue;
		berth_region_gpu(region, i, &gpu);
		const char *limit = gpu.memory_limit_bytes
					    ? berth_size_format(gpu.memory_limit_bytes, in_force)
					    : "none";
		if (joined->kept_mask & bit)
			say(run,
			    "share '%s' is in use: its limits stay in force on %s (memory %s, "
			    "compute %u %%), "
			    "not what was asked for (memory %s, compute %u %%)",
			    run->name, gpu.uuid, limit,
			    gpu.compute_limit_pct ? gpu.compute_limit_pct : 100,
			    run->memory_bytes ? berth_size_format(run->memory_bytes, asked)
					      : "none",
			    run->compute_pct ? run->compute_pct : 100);
		else
			say(run,
			    "share '%s' is in use: the smaller limits asked for are in force now "
			    "for all of it on "
			    "%s (memory %s, compute %u %%)",
			    run->name, gpu.uuid, limit,
			    gpu.compute_limit_pct ? gpu.compute_limit_pct : 100);
	}
}

/* The share before we join it: its stamp is taken before our limits are merged, so that no change that
 * comes between can be taken for an older one. */
struct before {
	uint32_t gpu_count; /* 0: it is absent */
	struct berth_region_gpu gpus[BERTH_GPU_MAX];
	uint64_t stamp;
};

static void look_before(const struct run *run, struct before *ret_before)
{
	struct berth_region *region = NULL;

	*ret_before = (struct before){ .stamp = 1 };
	if (berth_region_view(run->region_path, &region, NULL) < 0)
		return; /* absent, or joining says what is wrong */
	ret_before->stamp = berth_region_stamp(region);
	ret_before->gpu_count = berth_region_gpu_count(region);
	for (uint32_t i = 0; i < ret_before->gpu_count; i++)
		berth_region_gpu(region, i, &ret_before->gpus[i]);
	berth_region_close(region);
}

/* Of the two kinds of limit the one that wasn't asked for stays as it is. */
static void keep_unasked(const struct run *run, const struct before *before,
			 struct berth_region_spec *spec)
{
	for (uint32_t i = 0; i < spec->gpu_count; i++) {
		for (uint32_t b = 0; b < before->gpu_count; b++) {
			if (strcmp(spec->gpus[i].uuid, before->gpus[b].uuid) != 0)
				continue;
			if (!run->memory_bytes)
				spec->gpus[i].memory_limit_bytes =
					before->gpus[b].memory_limit_bytes;
			if (!run->compute_pct)
				spec->gpus[i].compute_limit_pct = before->gpus[b].compute_limit_pct;
		}
	}
}

/* What our joining changed of the share's limits. Told afterwards, so it is only a record: without one
 * the program starts all the same. */
static void record_changes(const struct run *run, const struct before *before,
			   const struct berth_region *region)
{
	struct berth_reason reason = { .text = "" };

	for (uint32_t i = 0; i < before->gpu_count; i++) {
		struct berth_region_gpu after;
		const struct berth_audit_change change = { .by = "run",
							   .share = run->name,
							   .region = run->region_path,
							   .before = &before->gpus[i],
							   .after = &after };

		berth_region_gpu(region, i, &after);
		if (after.memory_limit_bytes == before->gpus[i].memory_limit_bytes &&
		    after.compute_limit_pct == before->gpus[i].compute_limit_pct)
			continue;
		if (berth_audit_write(&change, &reason) < 0) {
			berth_complain(run->command, "the audit log has no line of this change: %s",
				       reason.text);
			return;
		}
	}
}

static int make_share(struct run *run, struct berth_reason *reason)
{
	struct berth_region_spec spec = { .priority = 1, .mode = 0600 };
	struct berth_region_joined joined;
	struct berth_region *region = NULL;
	struct before before;
	bool own = !run->name[0];
	int r;

	if (own)
		name_own_share(run);
	r = berth_share_path(run->name, true, run->region_path, reason);
	if (r < 0)
		return r;
	/* Only now that the directory is known to be ours alone: a stranger's links in it would lead to
	 * other files. Housekeeping: how many is nobody's concern here. */
	(void)berth_share_sweep();
	(void)snprintf(spec.share_name, sizeof spec.share_name, "%s", run->name);
	spec.gpu_count = run->gpus.count;
	for (uint32_t i = 0; i < run->gpus.count; i++) {
		spec.gpus[i].memory_limit_bytes = run->memory_bytes;
		spec.gpus[i].compute_limit_pct = run->compute_pct;
		(void)snprintf(spec.gpus[i].uuid, sizeof spec.gpus[i].uuid, "%s",
			       run->gpus.list[i].uuid);
	}
	/* A named share keeps the limit that it was given until another figure is asked for: leaving
	 * the option out doesn't lift it, also while nobody sits there. */
	look_before(run, &before);
	bool asked = run->memory_bytes || run->compute_pct;
	if (!own && asked)
		keep_unasked(run, &before, &spec);
	r = berth_region_join(run->region_path, &spec, own || asked ? BERTH_REGION_RENEW : 0,
			      &region, &joined, reason);
	if (r < 0)
		return r;
	/* Smaller: the file is another one by now. */
	run->stamp = berth_region_stamp(region);
	if (before.stamp < run->stamp)
		run->stamp = before.stamp;
	if (joined.lowered_mask || joined.renewed)
		record_changes(run, &before, region);
	tell_limits(run, region, &joined);
	berth_region_close(region);
	return 0;
}

static int env_set(const char *name, const char *value)
{
	return setenv(name, value, 1) == 0 ? 0 : -errno;
}

/* first:rest, where rest is what the variable holds already. */
static int env_prepend(const char *name, const char *first, const char *second)
{
	const char *rest = getenv(name);
	char *value = NULL;

	if (asprintf(&value, "%s%s%s%s%s", first, *second ? ":" : "", second,
		     rest && *rest ? ":" : "", rest ? rest : "") < 0)
		return -ENOMEM;
	int r = env_set(name, value);
	free(value);
	return r;
}

/* The limits asked for, by UUID: GPU-…=FIGURE,GPU-…=FIGURE */
static int env_limits(const struct run *run, const char *name, uint64_t figure)
{
	char value[BERTH_GPU_MAX * (BERTH_UUID_SIZE + 24)];
	size_t n = 0;

	if (figure == 0)
		return unsetenv(name) == 0 ? 0 : -errno;
	for (uint32_t i = 0; i < run->gpus.count; i++)
		n += (size_t)snprintf(value + n, sizeof value - n, "%s%s=%llu", i ? "," : "",
				      run->gpus.list[i].uuid, (unsigned long long)figure);
	return env_set(name, value);
}

static int set_environment(struct run *run)
{
	char stamp[24];
	int r = env_set("BERTH_REGION", run->region_path);

	if (r == 0)
		r = env_set("BERTH_SHARE", run->name);
	/* Should another `berth run` renew the share before this program sits in it, the smaller limits
	 * are in force; once `berth limit` has changed the share's since, that one's are. */
	(void)snprintf(stamp, sizeof stamp, "%" PRIu64, run->stamp);
	if (r == 0)
		r = env_set("BERTH_LIMITS_STAMP", stamp);
	if (r == 0)
		r = env_limits(run, "BERTH_MEMORY_LIMITS", run->memory_bytes);
	if (r == 0)
		r = env_limits(run, "BERTH_SM_LIMITS", run->compute_pct);
	if (r == 0 && run->gpu)
		r = env_set("CUDA_VISIBLE_DEVICES", run->gpus.list[0].uuid);
	if (r == 0 && run->simulated)
		r = env_prepend("LD_LIBRARY_PATH", run->install.simulator, "");
	if (r == 0)
		r = run->program.asan_runtime[0]
			    ? env_prepend("LD_PRELOAD", run->program.asan_runtime,
					  run->install.library)
			    : env_prepend("LD_PRELOAD", run->install.library, "");
	return r;
}

static int prepare(struct run *run, struct berth_reason *reason)
{
	char state[PATH_MAX], note[128];
	int r = berth_state_dir(state, sizeof state,
				reason); /* before the simulator complains of it */

	if (r == 0)
		r = berth_install_find(&run->install, reason);

	if (r == 0)
		r = berth_program_inspect(&run->program, reason);
	if (r == 0)
		r = choose_driver(run, reason);
	if (r == 0)
		r = list_gpus(run, reason);
	if (r < 0)
		return r;
	warn_above_card(run);
	const char *outer = getenv("BERTH_SHARE");
	if (outer && getenv("BERTH_REGION") && strcmp(outer, run->name) != 0)
		say(run,
		    "this program leaves share '%s': that one's limits don't hold for it any more",
		    outer);
	if (berth_share_compute_note(run->compute_pct, note, sizeof note))
		say(run, "%s", note);
	if (!run->memory_bytes)
		say(run, "no --memory: the share has no memory limit%s",
		    run->name[0] ? " unless it has one already" : "");
	r = make_share(run, reason);
	if (r < 0)
		return r;
	r = set_environment(run);
	return r < 0 ? berth_reason_set(reason, r, "the environment can't be set: %s", strerror(-r))
		     : 0;
}

static int run_run(const struct berth_command *command, int argc, char **argv)
{
	struct run run = { .command = command };
	struct berth_reason reason = { .text = "" };
	int operand = 0;
	int r = berth_options_parse(command, argc, argv, take_option, &run, &operand);

	if (r != 0)
		return r < 0 ? command->usage_exit : BERTH_EXIT_OK;
	if (operand >= argc) {
		berth_complain(command,
			       "which program? usage: berth run [OPTIONS] -- PROGRAM [ARGUMENTS]");
		return command->usage_exit;
	}
	r = berth_program_find(argv[operand], &run.program, &reason);
	if (r < 0) {
		berth_complain(command, "%s", reason.text);
		return r == -EACCES ? BERTH_EXIT_RUN_CANNOT : BERTH_EXIT_RUN_NOT_FOUND;
	}
	r = prepare(&run, &reason);
	if (r < 0) {
		berth_complain(command, "%s", reason.text[0] ? reason.text : strerror(-r));
		return BERTH_EXIT_RUN_FAILED;
	}
	execv(run.program.path, &argv[operand]);
	if (errno == ENOEXEC) /* a script without #!: what execvp and shells do */
		execvp(argv[operand], &argv[operand]);
	berth_complain(command, "%s: %s", run.program.path, strerror(errno));
	return BERTH_EXIT_RUN_CANNOT;
}

const struct berth_command berth_command_run = {
	.name = "run",
	.operands = "[--] PROGRAM [ARGUMENTS]",
	.summary = "Run a program inside a share of the GPUs.",
	.options = run_options,
	.usage_exit = BERTH_EXIT_RUN_FAILED,
	.run = run_run,
};
