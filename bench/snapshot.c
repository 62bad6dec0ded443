/* SPDX-License-Identifier: Apache-2.0
 *
 * What it costs to read a whole share in which 1, 64 and 1000 processes sit, each alive and with
 * memory charged. Prints "key<TAB>value<TAB>unit" lines. In the same run: a plain copy of HAMi's part
 * of the file, as a reader does that doesn't care what belongs together; and how much of the file is
 * resident in a process that asks among 64 seats.
 *
 *   snapshot.N_us             without asking the kernel who is alive
 *   snapshot.1000_live_us     with that
 *   snapshot.1000_cold_us     without, the first time after opening: pages are mapped on the way
 *   snapshot.1000_8gpus_us    the same as snapshot.1000_us in a share of 8 GPUs
 *   snapshot.1000_memcpy_us   the copy
 *   region.rss_kb             resident kB of the file's mappings
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "region/ledger.h"
#include "region/snapshot.h"
#include "samples.h"

enum {
	SEATS_MAX = 1000,
	GPUS = 8,
	HAMI_BYTES = 2008952,
	MIB = 1 << 20,
};

struct crowd {
	char path[4096];
	struct berth_region_spec spec;
	pid_t pids[SEATS_MAX];
	int count;
	int seated[2]; /* a byte from each child that sits */
};

static int failed(const char *what, int err)
{
	(void)fprintf(stderr, "bench-snapshot: %s: %s\n", what, strerror(-err));
	return err;
}

static void crowd_prepare(struct crowd *crowd, uint32_t gpu_count)
{
	const char *dir = getenv("TMPDIR");

	*crowd = (struct crowd){ .seated = { -1, -1 } };
	if (!dir)
		dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	(void)snprintf(crowd->path, sizeof crowd->path, "%s/berth-bench-%ld-%u.cache", dir,
		       (long)getpid(), gpu_count);
	memcpy(crowd->spec.share_name, "bench", sizeof "bench");
	crowd->spec.gpu_count = gpu_count;
	crowd->spec.priority = 1;
	for (uint32_t i = 0; i < gpu_count; i++)
		(void)snprintf(crowd->spec.gpus[i].uuid, BERTH_UUID_SIZE, "GPU-bench-%u", i);
}

/* Sits down and stays until it is killed. */
static int member_sit(const struct crowd *crowd)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = berth_region_join(crowd->path, &crowd->spec, 0, &region, NULL, NULL);

	if (r == 0)
		r = berth_seat_claim(region, 0, &seat, NULL, NULL);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < crowd->spec.gpu_count; i++) {
		berth_ledger_charge(seat, i, BERTH_CHARGE_CONTEXT, MIB);
		r = berth_ledger_ask(seat, i, BERTH_CHARGE_DATA, MIB);
		if (r < 0)
			return r;
	}
	if (write(crowd->seated[1], "", 1) != 1)
		return -errno;
	for (;;)
		(void)pause(); /* until SIGKILL */
}

static int crowd_grow(struct crowd *crowd, int count)
{
	char byte;

	if (crowd->seated[0] < 0 && pipe2(crowd->seated, O_CLOEXEC) < 0)
		return -errno;
	while (crowd->count < count) {
		pid_t pid = fork();

		if (pid == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* can't fail */
			_exit(member_sit(crowd) < 0);
		}
		if (pid < 0)
			return -errno;
		crowd->pids[crowd->count++] = pid;
		/* One after the other: this is not the benchmark of joining. */
		if (read(crowd->seated[0], &byte, 1) != 1)
			return -EIO;
	}
	return 0;
}

static void crowd_end(struct crowd *crowd)
{
	for (int i = 0; i < crowd->count; i++)
		(void)kill(crowd->pids[i], SIGKILL); /* gone already if it failed */
	for (int i = 0; i < crowd->count; i++)
		(void)waitpid(crowd->pids[i], NULL, 0);
	(void)unlink(crowd->path); /* not there if nobody came */
	for (int i = 0; i < 2; i++) {
		if (crowd->seated[i] >= 0)
			(void)close(crowd->seated[i]);
	}
}

enum reading { READ_PLAIN, READ_LIVE, READ_COLD, READ_COPY };

/* One reading, in ns, or -errno. */
static int64_t read_once(const struct crowd *crowd, struct berth_region *region,
			 enum reading reading)
{
	struct berth_region *fresh = NULL;
	struct berth_snapshot *taken = NULL;
	int r = reading == READ_COLD ? berth_region_view(crowd->path, &fresh, NULL) : 0;

	if (r < 0)
		return r;
	uint64_t start_ns = berth_clock_ns();
	r = berth_snapshot_take(fresh ? fresh : region,
				reading == READ_LIVE ? BERTH_SNAPSHOT_LIVENESS : 0, &taken);
	uint64_t elapsed_ns = berth_clock_ns() - start_ns;
	if (r == 0 && (int)taken->seat_count != crowd->count)
		r = -EUCLEAN;
	berth_snapshot_free(taken);
	berth_region_close(fresh);
	return r < 0 ? r : (int64_t)elapsed_ns;
}

static int64_t copy_once(const struct crowd *crowd, void *buffer)
{
	static void *map;

	if (!map) {
		int fd = open(crowd->path, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return -errno;
		map = mmap(NULL, HAMI_BYTES, PROT_READ, MAP_SHARED, fd, 0);
		(void)close(fd); /* only read */
		if (map == MAP_FAILED)
			return -errno;
	}
	uint64_t start_ns = berth_clock_ns();
	memcpy(buffer, map, HAMI_BYTES);
	/* The copy must not be optimised away. */
	__asm__ __volatile__("" : : "r"(buffer) : "memory");
	return (int64_t)(berth_clock_ns() - start_ns);
}

/* The median: what a reader sees as a rule; other programs disturb some of them. */
static int measure(const struct crowd *crowd, enum reading reading, int rounds, const char *key)
{
	struct samples samples = { 0 };
	void *buffer = malloc(HAMI_BYTES);
	struct berth_region *region = NULL;
	int r = buffer ? berth_region_view(crowd->path, &region, NULL) : -ENOMEM;

	for (int i = -1; r == 0 && i < rounds; i++) { /* one to warm up */
		int64_t ns = reading == READ_COPY ? copy_once(crowd, buffer)
						  : read_once(crowd, region, reading);
		if (ns < 0)
			r = (int)ns;
		else if (i >= 0)
			r = samples_add(&samples, (uint64_t)ns);
	}
	if (r == 0)
		(void)printf("%s\t%.1f\tus\n", key,
			     (double)samples_percentile(&samples, 50) / 1000);
	(void)fflush(stdout);
	samples_done(&samples);
	berth_region_close(region);
	free(buffer);
	return r < 0 ? failed(key, r) : 0;
}

/* Resident kB of all mappings of the file in this process. */
static int resident_kb(const char *path, long *ret_kb)
{
	FILE *maps = fopen("/proc/self/smaps", "re");
	char line[4096 + 256];
	bool ours = false;
	long kb, sum_kb = 0;

	if (!maps)
		return -errno;
	while (fgets(line, sizeof line, maps)) {
		char first[64], flags[8];

		if (sscanf(line, "%63s %7s", first, flags) == 2 && strchr(first, '-'))
			ours = strstr(line, path) != NULL;
		else if (ours && sscanf(line, "Rss: %ld kB", &kb) == 1)
			sum_kb += kb;
	}
	(void)fclose(maps); /* only read */
	*ret_kb = sum_kb;
	return 0;
}

/* A child that joins the crowd and works as a program does. */
static int resident_measure(const struct crowd *crowd)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	long kb = 0;
	int r = berth_region_join(crowd->path, &crowd->spec, 0, &region, NULL, NULL);

	if (r == 0)
		r = berth_seat_claim(region, 0, &seat, NULL, NULL);
	for (int i = 0; r == 0 && i < 1000; i++) {
		r = berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 4096);
		if (r == 0)
			berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, 4096);
	}
	if (r == 0)
		r = resident_kb(crowd->path, &kb);
	if (r == 0)
		(void)printf("region.rss_kb\t%ld\tkB\n", kb);
	(void)fflush(stdout);
	berth_seat_leave(seat);
	berth_region_close(region);
	return r < 0 ? failed("region.rss_kb", r) : 0;
}

static int resident_run(const struct crowd *crowd)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(resident_measure(crowd) < 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int one_gpu_run(struct crowd *crowd, int rounds)
{
	int r = crowd_grow(crowd, 1);

	if (r == 0)
		r = measure(crowd, READ_PLAIN, 10 * rounds, "snapshot.1_us");
	if (r == 0)
		r = crowd_grow(crowd, 63);
	if (r == 0)
		r = resident_run(crowd);
	if (r == 0)
		r = crowd_grow(crowd, 64);
	if (r == 0)
		r = measure(crowd, READ_PLAIN, 10 * rounds, "snapshot.64_us");
	if (r == 0)
		r = crowd_grow(crowd, SEATS_MAX);
	if (r == 0)
		r = measure(crowd, READ_PLAIN, 10 * rounds, "snapshot.1000_us");
	if (r == 0)
		r = measure(crowd, READ_LIVE, rounds, "snapshot.1000_live_us");
	if (r == 0)
		r = measure(crowd, READ_COLD, rounds, "snapshot.1000_cold_us");
	if (r == 0)
		r = measure(crowd, READ_COPY, 10 * rounds, "snapshot.1000_memcpy_us");
	return r;
}

static int eight_gpus_run(struct crowd *crowd, int rounds)
{
	int r = crowd_grow(crowd, SEATS_MAX);

	return r < 0 ? r : measure(crowd, READ_PLAIN, 10 * rounds, "snapshot.1000_8gpus_us");
}

int main(int argc, char **argv)
{
	bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
	int rounds = quick ? 50 : 500;
	struct crowd crowd;

	if (argc > 2 || (argc == 2 && !quick)) {
		(void)fprintf(stderr, "usage: %s [--quick]\n", argv[0]);
		return 2;
	}
	crowd_prepare(&crowd, 1);
	int r = one_gpu_run(&crowd, rounds);
	crowd_end(&crowd);
	if (r < 0)
		return failed("one GPU", r) != 0;
	crowd_prepare(&crowd, GPUS);
	r = eight_gpus_run(&crowd, rounds);
	crowd_end(&crowd);
	return r < 0 ? failed("8 GPUs", r) != 0 : 0;
}
