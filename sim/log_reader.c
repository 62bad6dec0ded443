/* SPDX-License-Identifier: Apache-2.0
 *
 * berth-sim-log: prints the simulator's call log, one line a call, in the order of entry.
 *
 *	berth-sim-log [--names] [--pid PID] FILE
 *
 * Columns: microseconds since the first record, pid, tid, symbol, result, microseconds it took.
 * A call that never came back has "-" for both. Exit status: 0; 1 file trouble; 2 usage; 3 the log
 * was full, so its end is missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/node/call_log.h"

static const char *const cuda_names[] = {
#define EXPORT(symbol, base, since_version, form, kind, flags) #symbol,
#include "sim/cuda/exports.def"
#undef EXPORT
};

static const char *const nvml_names[] = {
#define NVML_EXPORT(symbol, ...) #symbol,
#include "sim/nvml/exports.def"
#undef NVML_EXPORT
};

struct options {
	const char *path;
	uint32_t pid; /* 0: all */
	bool names_only;
};

static const char *name_of(uint32_t id)
{
	if (id < sizeof(cuda_names) / sizeof(cuda_names[0]))
		return cuda_names[id];
	id -= SIM_LOG_NVML_BASE;
	if (id < sizeof(nvml_names) / sizeof(nvml_names[0]))
		return nvml_names[id];
	return "?";
}

static void print_record(const struct sim_log_record *record, uint64_t origin_ns,
			 const struct options *options)
{
	/* pairs with the writer's release: what the state says is there is there */
	uint32_t state = atomic_load_explicit(&record->state, memory_order_acquire);

	if (state == SIM_LOG_EMPTY || (options->pid && options->pid != record->pid))
		return;
	if (options->names_only) {
		printf("%s\n", name_of(record->id));
		return;
	}
	printf("%12.3f %7" PRIu32 " %7" PRIu32 "  %-44s",
	       (double)(record->begin_ns - origin_ns) / 1e3, record->pid, record->tid,
	       name_of(record->id));
	if (state == SIM_LOG_LEFT)
		printf(" %4" PRId32 " %10.3f\n", record->result,
		       (double)(record->end_ns - record->begin_ns) / 1e3);
	else
		printf(" %4s %10s\n", "-", "-");
}

static int print_log(const struct sim_log_header *header, size_t size,
		     const struct options *options)
{
	const struct sim_log_record *records = (const struct sim_log_record *)(header + 1);
	uint64_t claimed = atomic_load_explicit(&header->claimed, memory_order_relaxed);
	uint64_t count = claimed < header->capacity ? claimed : header->capacity;

	if (memcmp(header->magic, SIM_LOG_MAGIC, sizeof(header->magic)) != 0 ||
	    header->record_bytes != sizeof(*records) ||
	    (size - sizeof(*header)) / sizeof(*records) < header->capacity) {
		fprintf(stderr, "berth-sim-log: %s: not a call log\n", options->path);
		return 1;
	}
	for (uint64_t i = 0; i < count; i++)
		print_record(&records[i], records[0].begin_ns, options);
	if (claimed <= header->capacity)
		return 0;
	fprintf(stderr, "berth-sim-log: %s: full, %" PRIu64 " calls are missing\n", options->path,
		claimed - header->capacity);
	return 3;
}

static int read_log(const struct options *options)
{
	int fd = open(options->path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map = MAP_FAILED;

	if (fd >= 0 && fstat(fd, &st) == 0) {
		errno = EINVAL;
		if ((size_t)st.st_size >= sizeof(struct sim_log_header))
			map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	}
	if (map == MAP_FAILED) {
		fprintf(stderr, "berth-sim-log: %s: %s\n", options->path, strerror(errno));
		return 1;
	}
	return print_log(map, (size_t)st.st_size, options);
}

static int usage(void)
{
	fprintf(stderr, "usage: berth-sim-log [--names] [--pid PID] FILE\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "names", no_argument, NULL, 'n' },
		{ "pid", required_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 },
	};
	struct options options = { .pid = 0 };
	int option;

	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		char *end = NULL;

		switch (option) {
		case 'n':
			options.names_only = true;
			break;
		case 'p':
			options.pid = (uint32_t)strtoul(optarg, &end, 10);
			if (*end || !options.pid)
				return usage();
			break;
		default:
			return usage();
		}
	}
	if (optind + 1 != argc)
		return usage();
	options.path = argv[optind];
	return read_log(&options);
}
