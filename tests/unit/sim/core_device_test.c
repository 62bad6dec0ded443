/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GPUs a process sees and what it is told about them; the configuration's text.
 */
#include "core_fixture.h"

#include <errno.h>
#include <setjmp.h>

#include <cmocka.h>

#include "sim/config.h"

/* ---- text ---- */

static void sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "512M", MiB(512) }, { "8G", GiB(8) },  { "8GiB", GiB(8) },
		{ "4GB", GiB(4) },    { "1K", 1024 },    { "4096", 4096 },
		{ "0", 0 },           { "08G", GiB(8) }, { "1T", GiB(1024) },
	};
	static const char *const bad[] = { "",
					   "G",
					   "-1",
					   "1.5G",
					   "8Q",
					   "8G8",
					   "8 G",
					   "lots",
					   "99999999999999999999",
					   "99999999999T" };
	uint64_t bytes = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(sim_config_parse_size(good[i].text, &bytes), 0);
		assert_int_equal(bytes, good[i].bytes);
	}
	bytes = 77;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_true(sim_config_parse_size(bad[i], &bytes) < 0);
	assert_int_equal(bytes, 77);
}

static void lists_of_gpus(void **state)
{
	static const char *const bad[] = { "",      ",",      "0x8G",           "x8G",
					   "-1x8G", "17x8G",  "2x8G,9x1G,6x1G", "1x",
					   "1x8",   "1x2000T" };
	struct sim_config config = { 0 };

	(void)state;
	assert_int_equal(sim_config_parse_gpus("2x8G,24G", &config), 0);
	assert_int_equal(config.gpu_count, 3);
	assert_int_equal(config.gpus[1].memory_bytes, GiB(8));
	assert_int_equal(config.gpus[2].memory_bytes, GiB(24));
	assert_string_not_equal(config.gpus[0].uuid_text, config.gpus[1].uuid_text);
	assert_string_not_equal(config.gpus[0].pci_text, config.gpus[1].pci_text);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_true(sim_config_parse_gpus(bad[i], &config) < 0);
}

static void write_config(char *path, const char *text)
{
	FILE *file;
	int fd;

	strcpy(path, "/tmp/berth-sim-config-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	fputs(text, file);
	fclose(file);
}

static void a_file_of_gpus(void **state)
{
	static const char *const bad[] = { "",
					   "memory = 1G\n",
					   "[gpu]\nmemory\n",
					   "[gpu]\nspeed = 1\n",
					   "[gpu]\ncc = 8\n",
					   "[gpu]\npci = 0:1\n",
					   "[gpu]\nuuid = GPU-12\n",
					   "[gpu]\nsms = -1\n" };
	struct sim_config config = { 0 };
	char path[64];

	(void)state;
	write_config(path, "# two\n[gpu]\nname = Big one\nmemory = 24G\nsms = 128\n cc=9.0\n"
			   "uuid = GPU-01020304-0506-0708-090a-0b0c0d0e0f10\npci = 0000:3b:00\n"
			   "\n[gpu]\nclock = 900\n");
	assert_int_equal(sim_config_parse_file(path, &config), 0);
	unlink(path);
	assert_int_equal(config.gpu_count, 2);
	/* In the order of the bus. */
	assert_int_equal(config.gpus[0].clock_mhz, 900);
	assert_string_equal(config.gpus[0].pci_text, "0000:02:00.0");
	assert_string_equal(config.gpus[1].name, "Big one");
	assert_int_equal(config.gpus[1].memory_bytes, GiB(24));
	assert_int_equal(config.gpus[1].sm_count, 128);
	assert_int_equal(config.gpus[1].cc_major, 9);
	assert_int_equal(config.gpus[1].cc_minor, 0);
	assert_string_equal(config.gpus[1].uuid_text, "GPU-01020304-0506-0708-090a-0b0c0d0e0f10");
	assert_string_equal(config.gpus[1].pci_text, "0000:3b:00.0");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_config(path, bad[i]);
		assert_true(sim_config_parse_file(path, &config) < 0);
		unlink(path);
	}
	assert_int_equal(sim_config_parse_file("/nonexistent", &config), -ENOENT);
}

/* ---- what a process sees ---- */

/* By their memory the three are known: 1, 2 and 3 GiB. */
static const char *visible;
static const char *order;
static const char *expected;

static void visible_body(int socket)
{
	char seen[16] = "";
	int count = 0;

	(void)socket;
	if (visible)
		setenv("CUDA_VISIBLE_DEVICES", visible, 1);
	if (order)
		setenv("CUDA_DEVICE_ORDER", order, 1);
	if (!*expected) {
		CHECK_CODE(cuInit(0), CUDA_ERROR_NO_DEVICE);
		return;
	}
	CHECK_OK(cuInit(0));
	CHECK_OK(cuDeviceGetCount(&count));
	for (int i = 0; i < count; i++) {
		size_t bytes;

		CHECK_OK(cuDeviceTotalMem_v2(&bytes, i));
		seen[i] = (char)('0' + (bytes >> 30));
	}
	if (strcmp(seen, expected) != 0)
		fprintf(stderr, "CUDA_VISIBLE_DEVICES=%s: %s, not %s\n", visible, seen, expected);
	CHECK(strcmp(seen, expected) == 0);
}

static void see(const char *value, const char *want)
{
	visible = value;
	expected = want;
	assert_true(core_passes("1G,2G,3G", visible_body));
}

static void visible_devices(void **state)
{
	struct sim_config config = { 0 };
	char text[256];

	(void)state;
	order = NULL;
	assert_int_equal(sim_config_parse_gpus("1G,2G,3G", &config), 0);
	see(NULL, "123");
	see("", "");
	see("0", "1");
	see("2,0", "31");
	see(" 1 , 2 ", "23");
	see("1,0,2", "213");
	see("0,3,1", "1"); /* ends at the first that isn't there */
	see("0,-1,1", "1");
	see("-1", "");
	see("5", "");
	see("0,0", ""); /* one named twice */
	see("word", "");
	see(config.gpus[1].uuid_text, "2");
	snprintf(text, sizeof(text), "%s,%s", config.gpus[2].uuid_text, config.gpus[0].uuid_text);
	see(text, "31");
	snprintf(text, sizeof(text), "%.8s", config.gpus[2].uuid_text); /* a beginning of one */
	see(text, "3");
	see("GPU-", ""); /* a beginning of all */
	see("GPU-ffffffff", "");
}

static void order_body(int socket)
{
	setenv("BERTH_SIM_CONFIG", getenv("CORE_CONFIG"), 1);
	visible_body(socket);
}

static void order_of_devices(void **state)
{
	char path[64];

	(void)state;
	/* The second is the fastest, the third as fast as the first. */
	write_config(path, "[gpu]\nmemory=1G\nsms=10\n[gpu]\nmemory=2G\nsms=20\n[gpu]\nmemory=3G\n"
			   "sms=10\n");
	setenv("CORE_CONFIG", path, 1);
	visible = NULL;
	order = NULL;
	expected = "213";
	assert_true(core_passes("1x1G", order_body));
	order = "PCI_BUS_ID";
	expected = "123";
	assert_true(core_passes("1x1G", order_body));
	visible = "1";
	order = "FASTEST_FIRST";
	expected = "1";
	assert_true(core_passes("1x1G", order_body));
	unlink(path);
}

static void facts_body(int socket)
{
	struct {
		unsigned bytes;
		unsigned guard;
	} total = { 0, 0x12345678 };
	char name[64] = "";
	CUuuid uuid[2];
	CUdevice device = 9;
	int value = 77;
	char pci[32];
	size_t bytes = 77;

	(void)socket;
	CHECK_OK(cuInit(0));
	CHECK_CODE(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
	CHECK_CODE(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
	CHECK(device == 9);
	CHECK_OK(cuDeviceGet(&device, 1));
	CHECK_CODE(cuDeviceTotalMem_v2(&bytes, 2), CUDA_ERROR_INVALID_DEVICE);
	CHECK_CODE(cuDeviceTotalMem_v2(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuDeviceTotalMem(&total.bytes, 7), CUDA_ERROR_INVALID_DEVICE);
	CHECK(bytes == 77 && total.bytes == 0);
	CHECK_OK(cuDeviceTotalMem(&total.bytes, 0));
	CHECK(total.bytes == GiB(1) && total.guard == 0x12345678);
	CHECK_OK(cuDeviceTotalMem(&total.bytes, 1));
	CHECK(total.bytes == UINT32_MAX && total.guard == 0x12345678);
	CHECK_OK(cuDeviceGetName(name, sizeof(name), 0));
	CHECK(strlen(name) > 5);
	CHECK_OK(cuDeviceGetName(name, 6, 0));
	CHECK(strlen(name) == 5);
	CHECK_OK(cuDeviceGetUuid(&uuid[0], 0));
	CHECK_OK(cuDeviceGetUuid_v2(&uuid[1], 1));
	CHECK(memcmp(&uuid[0], &uuid[1], sizeof(uuid[0])) != 0);
	CHECK_OK(cuDeviceGetPCIBusId(pci, sizeof(pci), 1));
	CHECK_OK(cuDeviceGetByPCIBusId(&device, pci));
	CHECK(device == 1);
	CHECK_CODE(cuDeviceGetByPCIBusId(&device, "0000:7f:00.0"), CUDA_ERROR_INVALID_DEVICE);
	CHECK_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	CHECK(value == 32);
	CHECK_CODE(cuDeviceGetAttribute(&value, 0, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuDeviceGetAttribute(&value, 5000, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK(value == 32);
}

static void facts_about_devices(void **state)
{
	(void)state;
	assert_true(core_passes("1G,8G", facts_body));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(lists_of_gpus),
		cmocka_unit_test(a_file_of_gpus),
		cmocka_unit_test(visible_devices),
		cmocka_unit_test(order_of_devices),
		cmocka_unit_test(facts_about_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
