/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment and the GPU file into a struct sim_config. Pure but for reading them; the result
 * is made once and never changes.
 */
#include "sim/config.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_GPUS          "1x8G"
#define DEFAULT_CONTEXT_BYTES (96ULL << 20)
#define MIN_GPU_BYTES         (1ULL << 20)
#define MAX_GPU_BYTES         (1ULL << 40)

void sim_complain(const char *fmt, ...)
{
	int keep_errno = errno;
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	dprintf(STDERR_FILENO, "berth-sim: %s\n", text);
	errno = keep_errno;
}

/* "K", "GiB", "GB": the power of two; -1 for another word. */
static int unit_power(const char *text)
{
	static const char letters[] = "KMGTPkmgtp";
	const char *letter = strchr(letters, *text++);

	if (*text == 'i')
		text++;
	if (*text == 'B')
		text++;
	if (!letter || *text)
		return -1;
	return (int)((letter - letters) % 5 + 1) * 10;
}

int sim_config_parse_numbers(const char *text, int base, char separator, uint32_t *ret_numbers,
			     int max)
{
	uint32_t numbers[8];
	int count = 0;

	do {
		unsigned long value;
		char *end;

		if (!isxdigit((unsigned char)*text))
			return -EINVAL;
		errno = 0;
		value = strtoul(text, &end, base);
		if (end == text || errno || value > UINT32_MAX)
			return -EINVAL;
		numbers[count++] = (uint32_t)value;
		text = end;
	} while (*text == separator && count < max && count < 8 && *++text);
	if (isalnum((unsigned char)*text))
		return -EINVAL;
	memcpy(ret_numbers, numbers, (size_t)count * sizeof(numbers[0]));
	return count;
}

bool sim_gpu_config_same(const struct sim_gpu_config *a, const struct sim_gpu_config *b)
{
	return strcmp(a->name, b->name) == 0 && memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 &&
	       strcmp(a->pci_text, b->pci_text) == 0 && a->memory_bytes == b->memory_bytes &&
	       a->sm_count == b->sm_count && a->cc_major == b->cc_major &&
	       a->cc_minor == b->cc_minor && a->clock_mhz == b->clock_mhz;
}

int sim_config_parse_size(const char *text, uint64_t *ret_bytes)
{
	uint64_t bytes;
	int power;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	bytes = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	if (*end) {
		power = unit_power(end);
		if (power < 0)
			return -EINVAL;
		if (bytes > UINT64_MAX >> power)
			return -ERANGE;
		bytes <<= power;
	}
	*ret_bytes = bytes;
	return 0;
}

/* What a GPU is unless the file says otherwise; identity follows from its index. */
static void gpu_set_defaults(struct sim_gpu_config *gpu, unsigned index)
{
	static const unsigned char uuid[16] = { 0x5b, 0xe7, 0x40, 0x00, 0x51, 0x3a, 0x4c, 0x0d,
						0x8b, 0x1e, 0x9f, 0x62, 0x07, 0xd4, 0xa3, 0x10 };

	memset(gpu, 0, sizeof(*gpu));
	snprintf(gpu->name, sizeof(gpu->name), "Berth Simulated GPU");
	memcpy(gpu->uuid, uuid, sizeof(uuid));
	/* The first bytes differ, so that a short prefix names one GPU. */
	gpu->uuid[0] = (unsigned char)(gpu->uuid[0] + 0x11 * index);
	gpu->uuid[15] = (unsigned char)(gpu->uuid[15] + index);
	gpu->pci_bus = 1 + index;
	gpu->memory_bytes = 8ULL << 30;
	gpu->sm_count = 64;
	gpu->cc_major = 8;
	gpu->cc_minor = 6;
	gpu->clock_mhz = 1500;
}

static void gpu_write_texts(struct sim_gpu_config *gpu)
{
	const unsigned char *u = gpu->uuid;

	snprintf(gpu->uuid_text, sizeof(gpu->uuid_text),
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
		 u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		 u[14], u[15]);
	snprintf(gpu->pci_text, sizeof(gpu->pci_text), "%04x:%02x:%02x.0", gpu->pci_domain & 0xffff,
		 gpu->pci_bus & 0xff, gpu->pci_device & 0x1f);
}

static int memory_is_sane(uint64_t bytes)
{
	return bytes >= MIN_GPU_BYTES && bytes <= MAX_GPU_BYTES ? 0 : -ERANGE;
}

/* One "2x8G" or "8G". */
static int parse_gpu_group(char *text, struct sim_config *config)
{
	unsigned long count = 1;
	char *memory = text;
	uint64_t bytes;
	char *end;
	int err;

	end = strchr(text, 'x');
	if (end) {
		memory = end + 1;
		errno = 0;
		count = strtoul(text, &end, 10);
		if (!isdigit((unsigned char)text[0]) || *end != 'x' || errno || count == 0)
			return -EINVAL;
	}
	err = sim_config_parse_size(memory, &bytes);
	if (err)
		return err;
	err = memory_is_sane(bytes);
	if (err)
		return err;
	if (count > SIM_GPU_MAX - config->gpu_count)
		return -E2BIG;
	for (; count > 0; count--) {
		struct sim_gpu_config *gpu = &config->gpus[config->gpu_count];

		gpu_set_defaults(gpu, config->gpu_count);
		gpu->memory_bytes = bytes & ~511ULL;
		gpu_write_texts(gpu);
		config->gpu_count++;
	}
	return 0;
}

int sim_config_parse_gpus(const char *text, struct sim_config *config)
{
	char copy[256];
	char *save = NULL;
	char *group;
	int err;

	if (strlen(text) >= sizeof(copy))
		return -E2BIG;
	strcpy(copy, text);
	config->gpu_count = 0;
	for (group = strtok_r(copy, ",", &save); group; group = strtok_r(NULL, ",", &save)) {
		err = parse_gpu_group(group, config);
		if (err)
			return err;
	}
	return config->gpu_count ? 0 : -EINVAL;
}

static int parse_uuid(const char *text, unsigned char uuid[16])
{
	unsigned count = 0;

	if (strncmp(text, "GPU-", 4) == 0)
		text += 4;
	while (*text && count < 16) {
		char digits[3] = { text[0], text[1], '\0' };

		if (*text == '-') {
			text++;
			continue;
		}
		if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]))
			return -EINVAL;
		uuid[count++] = (unsigned char)strtoul(digits, NULL, 16);
		text += 2;
	}
	return count == 16 && !*text ? 0 : -EINVAL;
}

static int parse_u32(const char *text, uint32_t *ret_value)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (!isdigit((unsigned char)text[0]) || *end || errno || value == 0 || value > 1000000)
		return -EINVAL;
	*ret_value = (uint32_t)value;
	return 0;
}

static int gpu_set(struct sim_gpu_config *gpu, const char *key, const char *value)
{
	uint32_t numbers[3];
	int err;

	if (!strcmp(key, "name")) {
		if (strlen(value) >= sizeof(gpu->name))
			return -E2BIG;
		strcpy(gpu->name, value);
		return 0;
	}
	if (!strcmp(key, "uuid"))
		return parse_uuid(value, gpu->uuid);
	if (!strcmp(key, "pci")) {
		if (sim_config_parse_numbers(value, 16, ':', numbers, 3) != 3)
			return -EINVAL;
		gpu->pci_domain = numbers[0];
		gpu->pci_bus = numbers[1];
		gpu->pci_device = numbers[2];
		return 0;
	}
	if (!strcmp(key, "memory")) {
		err = sim_config_parse_size(value, &gpu->memory_bytes);
		gpu->memory_bytes &= ~511ULL;
		return err ? err : memory_is_sane(gpu->memory_bytes);
	}
	if (!strcmp(key, "sms"))
		return parse_u32(value, &gpu->sm_count);
	if (!strcmp(key, "clock"))
		return parse_u32(value, &gpu->clock_mhz);
	if (!strcmp(key, "cc")) {
		if (sim_config_parse_numbers(value, 10, '.', numbers, 2) != 2)
			return -EINVAL;
		gpu->cc_major = numbers[0];
		gpu->cc_minor = numbers[1];
		return 0;
	}
	return -ENOENT;
}

static char *trim(char *text)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	return text;
}

static int parse_file_line(char *line, struct sim_config *config)
{
	char *value;
	char *key;
	int err;

	line[strcspn(line, "#")] = '\0';
	key = trim(line);
	if (!*key)
		return 0;
	if (!strcmp(key, "[gpu]")) {
		if (config->gpu_count == SIM_GPU_MAX)
			return -E2BIG;
		gpu_set_defaults(&config->gpus[config->gpu_count], config->gpu_count);
		config->gpu_count++;
		return 0;
	}
	value = strchr(key, '=');
	if (!value || config->gpu_count == 0)
		return -EINVAL;
	*value++ = '\0';
	key = trim(key);
	value = trim(value);
	err = gpu_set(&config->gpus[config->gpu_count - 1], key, value);
	if (err)
		sim_complain("unknown or wrong: %s = %s", key, value);
	return err;
}

static uint64_t pci_place(const struct sim_gpu_config *gpu)
{
	return (uint64_t)gpu->pci_domain << 16 | gpu->pci_bus << 8 | gpu->pci_device;
}

/* The node's order is NVML's, which is that of the bus. */
static void sort_by_pci(struct sim_config *config)
{
	for (unsigned i = 1; i < config->gpu_count; i++) {
		struct sim_gpu_config gpu = config->gpus[i];
		unsigned place = i;

		for (; place > 0 && pci_place(&config->gpus[place - 1]) > pci_place(&gpu); place--)
			config->gpus[place] = config->gpus[place - 1];
		config->gpus[place] = gpu;
	}
}

int sim_config_parse_file(const char *path, struct sim_config *config)
{
	unsigned line_number = 0;
	char line[512];
	FILE *file;
	int err = 0;

	file = fopen(path, "re");
	if (!file)
		return -errno;
	config->gpu_count = 0;
	while (!err && fgets(line, sizeof(line), file)) {
		line_number++;
		err = parse_file_line(line, config);
		if (err)
			sim_complain("%s: line %u is not understood", path, line_number);
	}
	fclose(file);
	sort_by_pci(config);
	for (unsigned i = 0; i < config->gpu_count; i++)
		gpu_write_texts(&config->gpus[i]);
	return err ? err : config->gpu_count ? 0 : -EINVAL;
}

static int read_gpus(struct sim_config *config)
{
	const char *path = getenv("BERTH_SIM_CONFIG");
	const char *gpus = getenv("BERTH_SIM_GPUS");
	int err;

	config->gpus_are_explicit = (path && *path) || (gpus && *gpus);
	if (path && *path) {
		err = sim_config_parse_file(path, config);
		if (err)
			sim_complain("BERTH_SIM_CONFIG=%s: %s", path, strerror(-err));
		return err;
	}
	err = sim_config_parse_gpus(gpus && *gpus ? gpus : DEFAULT_GPUS, config);
	if (err)
		sim_complain("BERTH_SIM_GPUS=%s: want something like 1x8G or 2x8G,1x24G", gpus);
	return err;
}

static int read_driver_version(struct sim_config *config)
{
	const char *text = getenv("BERTH_SIM_DRIVER_VERSION");
	static const struct {
		const char *text;
		uint32_t version;
	} known[] = {
		{ "11.4", 11040 },
		{ "12.2", 12020 },
		{ "12.8", 12080 },
		{ "13.0", 13000 },
	};

	config->driver_version = 13000;
	if (!text || !*text)
		return 0;
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(text, known[i].text)) {
			config->driver_version = known[i].version;
			return 0;
		}
	sim_complain("BERTH_SIM_DRIVER_VERSION=%s: want 11.4, 12.2, 12.8 or 13.0", text);
	return -EINVAL;
}

static int read_context_bytes(struct sim_config *config)
{
	const char *text = getenv("BERTH_SIM_CONTEXT_BYTES");
	int err;

	config->context_bytes = DEFAULT_CONTEXT_BYTES;
	if (!text || !*text)
		return 0;
	err = sim_config_parse_size(text, &config->context_bytes);
	if (err)
		sim_complain("BERTH_SIM_CONTEXT_BYTES=%s: want a size such as 96M", text);
	return err;
}

static int read_paths(struct sim_config *config)
{
	const char *state = getenv("BERTH_SIM_STATE");
	const char *dir = getenv("BERTH_STATE_DIR");
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const char *proc = getenv("BERTH_SIM_PROC");
	size_t size = sizeof(config->state_path);
	int length;

	if (state && *state)
		length = snprintf(config->state_path, size, "%s", state);
	else if (dir && *dir)
		length = snprintf(config->state_path, size, "%s/sim/node", dir);
	else if (geteuid() == 0)
		length = snprintf(config->state_path, size, "/run/berth/sim/node");
	else if (runtime && *runtime)
		length = snprintf(config->state_path, size, "%s/berth/sim/node", runtime);
	else
		length = snprintf(config->state_path, size, "/tmp/berth-%u/sim/node", geteuid());
	if (length < 0 || (size_t)length >= size || config->state_path[0] != '/') {
		sim_complain("the state file's path must be absolute and short: %s",
			     config->state_path);
		return -EINVAL;
	}
	length = snprintf(config->proc_path, sizeof(config->proc_path), "%s",
			  proc && *proc ? proc : "/proc");
	return length < (int)sizeof(config->proc_path) ? 0 : -ENAMETOOLONG;
}

static struct sim_config the_config;
static bool config_is_good;

static void config_make(void)
{
	config_is_good = read_gpus(&the_config) == 0 && read_driver_version(&the_config) == 0 &&
			 read_context_bytes(&the_config) == 0 && read_paths(&the_config) == 0;
}

const struct sim_config *sim_config(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, config_make);
	return config_is_good ? &the_config : NULL;
}
