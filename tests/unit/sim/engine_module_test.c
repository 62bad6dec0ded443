/* SPDX-License-Identifier: Apache-2.0
 *
 * Code: PTX of nvcc and GCC; functions, variables, linking, libraries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core_fixture.h"
#include "engine_ptx.h"

#define BAD_MODULE ((CUmodule)0x123456)

static CUmodule load(const void *image)
{
	CUmodule module;

	CHECK_OK(cuModuleLoadData(&module, image));
	return module;
}

static void check_global(CUmodule module, const char *name, size_t bytes, const void *content)
{
	unsigned char found[1024];
	CUdeviceptr pointer = 0, base = 0;
	size_t size = 0, range = 0;

	CHECK_OK(cuModuleGetGlobal_v2(&pointer, &size, module, name));
	CHECK(size == bytes);
	CHECK_OK(cuMemGetAddressRange_v2(&base, &range, pointer));
	CHECK(base == pointer && range == bytes);
	if (!content)
		return;
	CHECK_OK(cuMemcpyDtoH_v2(found, pointer, bytes));
	CHECK(memcmp(found, content, bytes) == 0);
}

static void ptx_of_nvcc(int socket)
{
	static const unsigned char zeroes[800];
	CUfunction function = NULL;
	CUmodule module;
	int value;

	(void)socket;
	core_begin(0);
	module = load(ENGINE_PTX);
	check_global(module, "counter", 4, &(unsigned){ 7 });
	check_global(module, "coefficients", 64, zeroes);
	check_global(module, "big", 800, zeroes);
	check_global(module, "halves", 12, (float[]){ 0.5F, 0.25F, -1.0F });
	check_global(module, "shared_count", 8, zeroes);
	check_global(module, "text", 3, "hi");
	CHECK_CODE(cuModuleGetGlobal_v2(NULL, NULL, module, "elsewhere"), CUDA_ERROR_NOT_FOUND);
	CHECK_CODE(cuModuleGetGlobal_v2(NULL, NULL, module, "slow"), CUDA_ERROR_NOT_FOUND);
	CHECK_OK(cuModuleGetFunction(&function, module, "slow"));
	CHECK_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
	CHECK(value > 0);
	CHECK_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
	CHECK(value == 1024);
	CHECK_OK(cuModuleGetFunction(&function, module, "quick"));
	CHECK_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
	CHECK(value == 256);
	CHECK_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function));
	CHECK(value == 1024);
	CHECK_CODE(cuModuleGetFunction(&function, module, "helper"), CUDA_ERROR_NOT_FOUND);
	CHECK_CODE(cuModuleGetFunction(&function, module, "counter"), CUDA_ERROR_NOT_FOUND);
}

static void parameters_of_kernels(int socket)
{
	static const size_t wanted[][2] = { { 0, 8 }, { 8, 4 }, { 12, 4 }, { 16, 16 } };
	CUfunction function;
	size_t offset, size;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuModuleGetFunction(&function, load(ENGINE_PTX), "scale"));
	for (size_t i = 0; i < 4; i++) {
		CHECK_OK(cuFuncGetParamInfo(function, i, &offset, &size));
		CHECK(offset == wanted[i][0] && size == wanted[i][1]);
	}
	CHECK_CODE(cuFuncGetParamInfo(function, 4, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

static void ptx_of_gcc(int socket)
{
	unsigned table[100] = { 1, 2, 3 };
	CUfunction function;
	CUmodule module;
	const char *name;

	(void)socket;
	core_begin(0);
	module = load(ENGINE_GCC_PTX);
	check_global(module, "table", sizeof(table), table);
	check_global(module, "$LC0", 4, "ABC");
	check_global(module, "pointer", 8, NULL);
	CHECK_OK(cuModuleGetFunction(&function, module, "main$_omp_fn$0"));
	CHECK_OK(cuFuncGetName(&name, function));
	CHECK(strcmp(name, "main$_omp_fn$0") == 0);
	CHECK_CODE(cuModuleGetFunction(&function, module, "main$_omp_fn$1"), CUDA_ERROR_NOT_FOUND);
}

static void bad_images(int socket)
{
	static const struct {
		const char *text;
		CUresult code;
	} bad[] = {
		{ "hello, this is not code", CUDA_ERROR_INVALID_IMAGE },
		{ "", CUDA_ERROR_INVALID_IMAGE },
		{ ".version 7.4\n.target sm_52\n.visible .entry f() {", CUDA_ERROR_INVALID_PTX },
		{ ".version 7.4\n.target sm_52\n.global .u32", CUDA_ERROR_INVALID_PTX },
		{ ".version 7.4\n.target sm_52\n.global .what x;", CUDA_ERROR_INVALID_PTX },
		{ ".version 7.4\n.visible .entry f() { ret; }", CUDA_ERROR_INVALID_PTX },
		{ ".version x\n.target sm_52\n", CUDA_ERROR_INVALID_PTX },
		{ ".version 9.9\n.target sm_52\n", CUDA_ERROR_UNSUPPORTED_PTX_VERSION },
	};
	CUmodule module = BAD_MODULE;

	(void)socket;
	core_begin(0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char padded[256] = { 0 };

		memcpy(padded, bad[i].text, strlen(bad[i].text));
		CHECK_CODE(cuModuleLoadData(&module, padded), bad[i].code);
	}
	CHECK_CODE(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuModuleLoad(&module, "/nowhere/at/all.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
	CHECK_CODE(cuModuleLoad(&module, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK(module == BAD_MODULE);
	CHECK_CODE(cuModuleLoadData(NULL, ENGINE_PTX), CUDA_ERROR_INVALID_VALUE);
}

static void old_drivers_refuse_new_ptx(int socket)
{
	CUmodule module;

	(void)socket;
	setenv("BERTH_SIM_DRIVER_VERSION", "11.4", 1);
	core_begin(0);
	load(".version 7.4\n.target sm_52\n.visible .entry f() { ret; }\n");
	CHECK_CODE(cuModuleLoadData(&module, ".version 7.5\n.target sm_52\n"),
		   CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

static void arguments(int socket)
{
	CUfunction function = (CUfunction)0x77;
	CUmodule module;
	int value = 7;

	(void)socket;
	CHECK_CODE(cuModuleLoadData(&module, ENGINE_PTX), CUDA_ERROR_NOT_INITIALIZED);
	CHECK_OK(cuInit(0));
	CHECK_CODE(cuModuleLoadData(&module, ENGINE_PTX), CUDA_ERROR_INVALID_CONTEXT);
	core_begin(0);
	module = load(ENGINE_PTX);
	CHECK_CODE(cuModuleGetFunction(NULL, module, "slow"), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuModuleGetFunction(&function, module, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuModuleGetFunction(&function, BAD_MODULE, "slow"), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuModuleGetFunction(&function, module, "none"), CUDA_ERROR_NOT_FOUND);
	CHECK(function == (CUfunction)0x77);
	CHECK_CODE(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
		   CUDA_ERROR_INVALID_HANDLE);
	CHECK_OK(cuModuleGetFunction(&function, module, "slow"));
	CHECK_CODE(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuFuncGetAttribute(&value, (CUfunction_attribute)99, function),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK(value == 7);
	CHECK_CODE(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 5),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				      1 << 20),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				    65536));
	CHECK_OK(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_L1));
	CHECK_CODE(cuFuncSetCacheConfig(function, (CUfunc_cache)9), CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuModuleUnload(BAD_MODULE), CUDA_ERROR_INVALID_HANDLE);
	CHECK_OK(cuModuleUnload(module));
	CHECK_CODE(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
		   CUDA_ERROR_INVALID_HANDLE);
}

static void variables_are_memory(int socket)
{
	char big[256];
	size_t before, with;
	CUmodule module;

	(void)socket;
	snprintf(big, sizeof(big), ".version 7.0\n.target sm_50\n.global .b8 room[%u];\n",
		 64U << 20);
	core_begin(0);
	before = core_used_bytes();
	module = load(big);
	with = core_used_bytes();
	CHECK(with >= before + MiB(64));
	CHECK_OK(cuModuleUnload(module));
	CHECK(core_used_bytes() == before);
	snprintf(big, sizeof(big), ".version 7.0\n.target sm_50\n.global .b8 room[%u];\n",
		 2U << 30);
	module = BAD_MODULE;
	CHECK_CODE(cuModuleLoadData(&module, big), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(module == BAD_MODULE && core_used_bytes() == before);
}

static void modules_end_with_their_context(int socket)
{
	CUfunction function;
	CUcontext context;
	CUmodule module;
	size_t before;

	(void)socket;
	core_begin(0);
	before = core_used_bytes();
	CHECK_OK(cuCtxCreate_v2(&context, 0, 0));
	module = load(ENGINE_PTX);
	CHECK_OK(cuModuleGetFunction(&function, module, "slow"));
	CHECK_OK(cuCtxDestroy_v2(context));
	CHECK_CODE(cuModuleGetFunction(&function, module, "slow"), CUDA_ERROR_INVALID_HANDLE);
	CHECK(core_used_bytes() == before);
}

static void enumerating(int socket)
{
	CUfunction functions[4] = { NULL };
	CUmodule module;
	unsigned count;
	const char *name;

	(void)socket;
	core_begin(0);
	module = load(ENGINE_PTX);
	CHECK_OK(cuModuleGetFunctionCount(&count, module));
	CHECK(count == 3);
	CHECK_OK(cuModuleEnumerateFunctions(functions, 2, module));
	CHECK(functions[0] && functions[1] && !functions[2]);
	CHECK_OK(cuFuncGetName(&name, functions[1]));
	CHECK(strcmp(name, "quick") == 0);
}

static void logs_of_the_compiler(int socket)
{
	char info[16] = "xxxxxxxxxxxxxxx", error[128] = "xxxx";
	CUjit_option options[] = { CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
				   CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { info, (void *)sizeof(info), error, (void *)sizeof(error) };
	CUjit_option unknown = (CUjit_option)99;
	CUmodule module;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuModuleLoadDataEx(&module, ENGINE_PTX, 4, options, values));
	CHECK(info[0] == '\0' && values[1] == NULL && error[0] == '\0' && values[3] == NULL);
	values[3] = (void *)sizeof(error);
	CHECK_CODE(cuModuleLoadDataEx(&module, ".version 7.0\n.target sm_50\n.entry", 4, options,
				      values),
		   CUDA_ERROR_INVALID_PTX);
	CHECK(strlen(error) > 0 && (size_t)values[3] == strlen(error));
	CHECK_CODE(cuModuleLoadDataEx(&module, ENGINE_PTX, 1, &unknown, values),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_CODE(cuModuleLoadDataEx(&module, ENGINE_PTX, 1, NULL, NULL),
		   CUDA_ERROR_INVALID_VALUE);
}

static void files(int socket)
{
	char path[] = "/tmp/berth-sim-code-XXXXXX";
	int fd = mkstemp(path);
	CUfunction function;
	CUlibrary library;
	CUmodule module;
	CUkernel kernel;

	(void)socket;
	CHECK(fd >= 0);
	core_begin(0);
	CHECK_CODE(cuModuleLoad(&module, path), CUDA_ERROR_INVALID_IMAGE);
	CHECK(write(fd, ENGINE_PTX, strlen(ENGINE_PTX)) == (ssize_t)strlen(ENGINE_PTX));
	close(fd);
	CHECK_OK(cuModuleLoad(&module, path));
	CHECK_OK(cuModuleGetFunction(&function, module, "scale"));
	CHECK_OK(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
	CHECK_OK(cuLibraryGetKernel(&kernel, library, "scale"));
	unlink(path);
}

static void linking(int socket)
{
	char first[] = ".version 6.0\n.target sm_30\n.extern .global .u32 there;\n"
		       ".visible .entry one(.param .u32 x) { ret; }\n";
	char second[] = ".version 6.0\n.target sm_30\n.visible .global .align 4 .u32 there = 9;\n"
			".visible .entry two() { ret; }\n";
	CUfunction function;
	CUlinkState state;
	CUmodule module;
	void *image = NULL;
	size_t bytes = 0;

	(void)socket;
	core_begin(0);
	CHECK_OK(cuLinkCreate_v2(0, NULL, NULL, &state));
	CHECK_CODE(cuLinkComplete(state, &image, &bytes), CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, first, sizeof(first), "first", 0, NULL,
				  NULL));
	CHECK_OK(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, second, sizeof(second), "second", 0,
				  NULL, NULL));
	CHECK_CODE(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, NULL, 5, NULL, 0, NULL, NULL),
		   CUDA_ERROR_INVALID_VALUE);
	CHECK_OK(cuLinkComplete(state, &image, &bytes));
	CHECK(image && bytes);
	module = load(image);
	CHECK_OK(cuLinkDestroy(state));
	CHECK_CODE(cuLinkDestroy(state), CUDA_ERROR_INVALID_HANDLE);
	CHECK_OK(cuModuleGetFunction(&function, module, "one"));
	CHECK_OK(cuModuleGetFunction(&function, module, "two"));
	check_global(module, "there", 4, &(unsigned){ 9 });
	CHECK_CODE(cuLinkCreate_v2(0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void libraries(int socket)
{
	CUdeviceptr first_pointer, second_pointer;
	CUkernel kernels[3], kernel;
	CUfunction function, again;
	CUlibrary library, found;
	CUcontext second;
	CUmodule module;
	size_t bytes, before;
	unsigned count;
	int value;

	(void)socket;
	CHECK_OK(cuInit(0));
	/* Without a context: code only. */
	CHECK_OK(cuLibraryLoadData(&library, ENGINE_PTX, NULL, NULL, 0, NULL, NULL, 0));
	CHECK_OK(cuLibraryGetKernelCount(&count, library));
	CHECK(count == 3);
	CHECK_OK(cuLibraryEnumerateKernels(kernels, 3, library));
	CHECK_OK(cuLibraryGetKernel(&kernel, library, "quick"));
	CHECK(kernel == kernels[1]);
	CHECK_CODE(cuLibraryGetKernel(&kernel, library, "none"), CUDA_ERROR_NOT_FOUND);
	CHECK_OK(cuKernelGetLibrary(&found, kernel));
	CHECK(found == library);
	CHECK_OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0));
	CHECK(value > 0);
	CHECK_CODE(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 9),
		   CUDA_ERROR_INVALID_DEVICE);
	CHECK_CODE(cuLibraryGetGlobal(&first_pointer, &bytes, library, "counter"),
		   CUDA_ERROR_INVALID_CONTEXT);
	core_begin(0);
	before = core_used_bytes();
	CHECK_OK(cuLibraryGetGlobal(&first_pointer, &bytes, library, "counter"));
	CHECK(bytes == 4 && core_used_bytes() > before);
	CHECK_CODE(cuLibraryGetManaged(NULL, NULL, library, "counter"), CUDA_ERROR_NOT_FOUND);
	CHECK_OK(cuLibraryGetManaged(NULL, &bytes, library, "shared_count"));
	CHECK_OK(cuKernelGetFunction(&function, kernel));
	CHECK_OK(cuKernelGetFunction(&again, kernel));
	CHECK(function == again);
	CHECK_OK(cuLibraryGetModule(&module, library));
	CHECK_CODE(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
	CHECK_OK(cuCtxCreate_v2(&second, 0, 0));
	CHECK_OK(cuLibraryGetGlobal(&second_pointer, &bytes, library, "counter"));
	CHECK(second_pointer != first_pointer);
	CHECK_OK(cuCtxDestroy_v2(second));
	CHECK_OK(cuLibraryUnload(library));
	CHECK(core_used_bytes() == before);
	CHECK_CODE(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
	CHECK_CODE(cuKernelGetFunction(&function, kernel), CUDA_ERROR_INVALID_HANDLE);
}

static void passes(void **state)
{
	assert_true(core_passes("1x1G", *(void (**)(int)) * state));
}

#define PASSES(body)                                        \
	{                                                   \
#body, passes, NULL, NULL, &(void (*)(int)) \
		{                                           \
			body                                \
		}                                           \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PASSES(ptx_of_nvcc),
		PASSES(parameters_of_kernels),
		PASSES(ptx_of_gcc),
		PASSES(bad_images),
		PASSES(old_drivers_refuse_new_ptx),
		PASSES(arguments),
		PASSES(variables_are_memory),
		PASSES(modules_end_with_their_context),
		PASSES(enumerating),
		PASSES(logs_of_the_compiler),
		PASSES(files),
		PASSES(linking),
		PASSES(libraries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
