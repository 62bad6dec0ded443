/* SPDX-License-Identifier: Apache-2.0
 *
 * Physical memory by handle: who keeps it, who pays for it, where it can be used.
 */
#include "core_fixture.h"

#include <pthread.h>
#include <setjmp.h>

#include <cmocka.h>

static CUmemAllocationProp props_of(CUmemLocationType type, int id)
{
	return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { type, id } };
}

static CUmemAccessDesc access_of(int device, CUmemAccess_flags flags)
{
	return (CUmemAccessDesc){ { CU_MEM_LOCATION_TYPE_DEVICE, device }, flags };
}

static void lifetimes_body(int socket)
{
	CUmemAllocationProp props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemGenericAllocationHandle handle;
	CUmemGenericAllocationHandle other = 99;
	CUdeviceptr range;
	CUdeviceptr range2;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuMemCreate(&handle, MiB(600), &props, 0));
	CHECK_OK(cuMemAddressReserve(&range, MiB(600), 0, 0, 0));
	CHECK_OK(cuMemAddressReserve(&range2, MiB(600), 0, 0, 0));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(600));
	/* Released, but still mapped: it is still there. */
	CHECK_OK(cuMemMap(range, MiB(600), 0, handle, 0));
	CHECK_OK(cuMemMap(range2, MiB(600), 0, handle, 0));
	CHECK_OK(cuMemRelease(handle));
	CHECK_CODE(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(600));
	CHECK_CODE(cuMemCreate(&other, MiB(600), &props, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(other == 99);
	CHECK_OK(cuMemUnmap(range, MiB(600)));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(600));
	CHECK_OK(cuMemUnmap(range2, MiB(600)));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	/* The other way round. */
	CHECK_OK(cuMemCreate(&handle, MiB(600), &props, 0));
	CHECK_OK(cuMemMap(range, MiB(600), 0, handle, 0));
	CHECK_OK(cuMemUnmap(range, MiB(600)));
	CHECK_CODE(cuMemUnmap(range, MiB(600)), CUDA_ERROR_INVALID_VALUE);
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(600));
	CHECK_OK(cuMemRelease(handle));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_OK(cuMemAddressFree(range, MiB(600)));
	CHECK_CODE(cuMemAddressFree(range, MiB(600)), CUDA_ERROR_INVALID_VALUE);
}

static void charged_until_the_last_of_both(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", lifetimes_body));
}

static void retained_body(int socket)
{
	CUmemAllocationProp props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemGenericAllocationHandle handle;
	CUmemGenericAllocationHandle again;
	CUdeviceptr range;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuMemCreate(&handle, MiB(2), &props, 0));
	CHECK_OK(cuMemAddressReserve(&range, MiB(4), 0, 0, 0));
	CHECK_OK(cuMemMap(range, MiB(2), 0, handle, 0));
	CHECK_OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(range + 77)));
	CHECK(again == handle);
	CHECK_OK(cuMemRelease(handle));
	CHECK_OK(cuMemUnmap(range, MiB(2)));
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(2));
	CHECK_OK(cuMemRelease(again));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	CHECK_CODE(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)range),
		   CUDA_ERROR_INVALID_VALUE);
}

static void handles_are_counted(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", retained_body));
}

static void arguments_body(int socket)
{
	CUmemAllocationProp props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUmemGenericAllocationHandle handle = 99;
	CUdeviceptr range = 99;
	size_t granularity = 99;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuMemGetAllocationGranularity(&granularity, &props,
					       CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(granularity == MiB(2));
	CHECK_CODE(cuMemGetAllocationGranularity(NULL, &props, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemCreate(NULL, MiB(2), &props, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemCreate(&handle, 0, &props, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemCreate(&handle, MiB(3), &props, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemCreate(&handle, MiB(2), NULL, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemCreate(&handle, MiB(2), &props, 1), CUDA_ERROR_INVALID_VALUE);
	props.location.id = 7;
	CHECK_CODE(cuMemCreate(&handle, MiB(2), &props, 0), CUDA_ERROR_INVALID_DEVICE);
	props.location.id = 0;
	CHECK_CODE(cuMemCreate(&handle, GiB(1), &props, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CODE(cuMemAddressReserve(&range, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAddressReserve(&range, MiB(3), 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAddressReserve(&range, MiB(2), 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK(handle == 99 && range == 99);
	CHECK_OK(cuMemCreate(&handle, MiB(4), &props, 0));
	CHECK_OK(cuMemAddressReserve(&range, MiB(8), MiB(64), 0, 0));
	CHECK(range % MiB(64) == 0);
	CHECK_CODE(cuMemMap(range, MiB(6), 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemMap(range + MiB(8), MiB(2), 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemMap(range + MiB(6), MiB(4), 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemMap(range, MiB(4), 0, handle + 8, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemMap(range, MiB(4), 0, handle, 0));
	CHECK_CODE(cuMemMap(range + MiB(2), MiB(4), 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemSetAccess(range, MiB(8), &access, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemUnmap(range, MiB(2)), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuMemAddressFree(range, MiB(8)), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemUnmap(range, MiB(4)));
	CHECK_CODE(cuMemAddressFree(range, MiB(4)), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemAddressFree(range, MiB(8)));
	CHECK_OK(cuMemRelease(handle));
}

static void wrong_arguments(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", arguments_body));
}

static void access_body(int socket)
{
	CUmemAllocationProp props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	static unsigned char sent[MiB(4)];
	static unsigned char seen[MiB(4)];
	CUmemGenericAllocationHandle handles[2];
	unsigned long long flags;
	CUdeviceptr range;

	(void)socket;
	core_begin(0);
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (unsigned char)(i * 31 >> 3);
	CHECK_OK(cuMemAddressReserve(&range, MiB(6), 0, 0, 0));
	CHECK_CODE(cuMemcpyHtoD_v2(range, sent, 1), CUDA_ERROR_INVALID_VALUE);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_OK(cuMemCreate(&handles[i], MiB(2), &props, 0));
		CHECK_OK(cuMemMap(range + i * MiB(2), MiB(2), 0, handles[i], 0));
		CHECK_OK(cuMemRelease(handles[i]));
	}
	/* Mapped isn't accessible yet. */
	CHECK_CODE(cuMemcpyHtoD_v2(range, sent, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemSetAccess(range, MiB(4), &access, 1));
	CHECK_OK(cuMemGetAccess(&flags, &access.location, range));
	CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	/* Across both pieces, which lie anywhere. */
	CHECK_OK(cuMemcpyHtoD_v2(range, sent, sizeof(sent)));
	CHECK_OK(cuMemcpyDtoH_v2(seen, range, sizeof(seen)));
	CHECK(memcmp(sent, seen, sizeof(sent)) == 0);
	CHECK_CODE(cuMemcpyHtoD_v2(range + 1, sent, sizeof(sent)), CUDA_ERROR_INVALID_VALUE);
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	CHECK_OK(cuMemSetAccess(range, MiB(2), &access, 1));
	CHECK_CODE(cuMemsetD8_v2(range, 1, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemcpyDtoH_v2(seen, range, 100));
	CHECK_OK(cuMemsetD8_v2(range + MiB(2), 1, 1));
	CHECK_CODE(cuMemFree_v2(range), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemUnmap(range, MiB(4)));
	CHECK_CODE(cuMemcpyDtoH_v2(seen, range, 100), CUDA_ERROR_INVALID_VALUE);
}

static void access_is_asked_for(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G", access_body));
}

static void *other_thread(void *arg)
{
	CUmemAllocationProp props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 1);
	CUmemGenericAllocationHandle handle;
	CUdevice device;

	(void)arg;
	CHECK_CODE(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
	CHECK_OK(cuMemCreate(&handle, MiB(64), &props, 0));
	return NULL;
}

static void which_gpu_body(int socket)
{
	CUmemLocationType hosts[] = { CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA,
				      CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT };
	CUmemAllocationProp props;
	CUmemGenericAllocationHandle handle;
	CUcontext first;
	pthread_t thread;

	(void)socket;
	first = core_begin(0);
	CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	for (unsigned i = 0; i < 3; i++) {
		props = props_of(hosts[i], 0);
		CHECK_OK(cuMemCreate(&handle, MiB(64), &props, 0));
		CHECK(core_used_bytes() == CONTEXT_BYTES);
		CHECK_OK(cuMemRelease(handle));
	}
	CHECK(core_used_bytes() == CONTEXT_BYTES);
	core_begin(1);
	CHECK(core_used_bytes() == CONTEXT_BYTES + MiB(64));
	/* What the other one can't hold is decided there, whatever is current. */
	CHECK_OK(cuCtxSetCurrent(first));
	props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 1);
	CHECK_CODE(cuMemCreate(&handle, MiB(600), &props, 0), CUDA_ERROR_OUT_OF_MEMORY);
	props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CHECK_OK(cuMemCreate(&handle, MiB(600), &props, 0));
}

static void the_properties_name_the_gpu(void **state)
{
	(void)state;
	assert_true(core_passes("1x1G,1x512M", which_gpu_body));
}

/* More than there are descriptors. */
static void many_handles_body(int socket)
{
	CUmemAllocationProp props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	enum { COUNT = 3000 };
	static CUmemGenericAllocationHandle handles[COUNT];

	(void)socket;
	core_begin(0);
	for (unsigned i = 0; i < COUNT; i++)
		CHECK_OK(cuMemCreate(&handles[i], MiB(2), &props, 0));
	CHECK(core_used_bytes() == CONTEXT_BYTES + COUNT * MiB(2));
	for (unsigned i = 0; i < COUNT; i++)
		CHECK_OK(cuMemRelease(handles[i]));
	CHECK(core_used_bytes() == CONTEXT_BYTES);
}

static void thousands_of_handles(void **state)
{
	(void)state;
	assert_true(core_passes("1x8G", many_handles_body));
}

/* ---- between processes ---- */

static void exporter_body(int socket)
{
	CUmemAllocationProp props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUmemGenericAllocationHandle handle;
	unsigned char seen[100];
	CUdeviceptr range;
	int fd = -1;

	core_begin(0);
	CHECK_OK(cuMemCreate(&handle, MiB(4), &props, 0));
	CHECK_CODE(cuMemExportToShareableHandle(&fd, handle,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		   CUDA_ERROR_INVALID_VALUE); /* it wasn't asked for */
	CHECK(fd == -1);
	CHECK_OK(cuMemRelease(handle));
	props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	CHECK_OK(cuMemCreate(&handle, MiB(4), &props, 0));
	CHECK_OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					      0));
	CHECK_OK(cuMemAddressReserve(&range, MiB(4), 0, 0, 0));
	CHECK_OK(cuMemMap(range, MiB(4), 0, handle, 0));
	CHECK_OK(cuMemSetAccess(range, MiB(4), &access, 1));
	CHECK_OK(cuMemsetD8_v2(range, 0x31, MiB(4)));
	core_send_fd(socket, fd);
	core_wait(socket);
	CHECK_OK(cuMemcpyDtoH_v2(seen, range + MiB(3), sizeof(seen)));
	for (unsigned i = 0; i < sizeof(seen); i++)
		CHECK(seen[i] == 0x32);
	CHECK(core_used_bytes() == 2 * CONTEXT_BYTES + MiB(4));
}

static void importer_body(int socket)
{
	CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUmemGenericAllocationHandle handle = 9;
	CUmemAllocationProp props;
	unsigned char seen[100];
	CUdeviceptr range;
	size_t used;
	int fd;

	core_begin(0);
	fd = core_receive_fd(socket);
	used = core_used_bytes();
	CHECK_CODE(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)socket,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK(handle == 9);
	CHECK_OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	CHECK_OK(cuMemGetAllocationPropertiesFromHandle(&props, handle));
	CHECK(props.location.type == CU_MEM_LOCATION_TYPE_DEVICE && props.location.id == 0);
	CHECK_OK(cuMemAddressReserve(&range, MiB(4), 0, 0, 0));
	CHECK_CODE(cuMemMap(range, MiB(4), MiB(2), handle, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuMemMap(range, MiB(4), 0, handle, 0));
	CHECK_OK(cuMemRelease(handle));
	CHECK_OK(cuMemSetAccess(range, MiB(4), &access, 1));
	CHECK_OK(cuMemcpyDtoH_v2(seen, range + MiB(4) - sizeof(seen), sizeof(seen)));
	for (unsigned i = 0; i < sizeof(seen); i++)
		CHECK(seen[i] == 0x31);
	CHECK_OK(cuMemsetD8_v2(range + MiB(3), 0x32, 100));
	CHECK(core_used_bytes() == used);
	CHECK_OK(cuMemUnmap(range, MiB(4)));
	CHECK(core_used_bytes() == used);
	core_tell(socket);
	core_wait(socket);
}

static void a_handle_in_another_process(void **state)
{
	struct core_child exporter;
	struct core_child importer;
	int fd;

	(void)state;
	core_node_new("1x1G");
	exporter = core_start(exporter_body);
	importer = core_start(importer_body);
	fd = core_receive_fd(exporter.socket);
	core_send_fd(importer.socket, fd);
	close(fd);
	core_wait(importer.socket);
	core_tell(exporter.socket);
	assert_true(core_succeeded(&exporter));
	core_tell(importer.socket);
	assert_true(core_succeeded(&importer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(charged_until_the_last_of_both),
		cmocka_unit_test(handles_are_counted),
		cmocka_unit_test(wrong_arguments),
		cmocka_unit_test(access_is_asked_for),
		cmocka_unit_test(the_properties_name_the_gpu),
		cmocka_unit_test(thousands_of_handles),
		cmocka_unit_test(a_handle_in_another_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
