/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads from PTX what a program may ask about: entries with their parameters and limits, variables.
 * Instructions are skipped. An entry may say what it costs:
 *
 *	.pragma "berth-sim cost 2000";		ns of device time for each wave of blocks
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/ptx_lex.h"

#define REGISTERS_LEAST 16U
#define REGISTERS_MOST  255U
#define REGISTER_FILE   65536U
#define THREADS_MOST    1024U

static bool add_parameter(struct sim_kernel_info *kernel, size_t size, size_t align)
{
	uint32_t count = kernel->parameters_count;
	struct sim_parameter *parameters;
	size_t offset = 0;

	if (count == SIM_KERNEL_PARAMETERS || !align || (align & (align - 1)) || size > 65536)
		return false;
	parameters = realloc(kernel->parameters, (count + 1) * sizeof(*parameters));
	if (!parameters)
		return false;
	kernel->parameters = parameters;
	if (count)
		offset = parameters[count - 1].offset_bytes + parameters[count - 1].size_bytes;
	offset = (offset + align - 1) & ~(align - 1);
	parameters[count] = (struct sim_parameter){ (uint32_t)offset, (uint32_t)size };
	kernel->parameters_count++;
	return true;
}

/* ".param .align 8 .b8 name[16]", ".param .u64 .ptr .global .align 4 name"; up to ',' or ')'. */
static bool read_parameter(struct ptx *ptx, struct sim_kernel_info *kernel)
{
	size_t type_bytes = 0;
	uint64_t align = 0;
	uint64_t count = 1;
	bool is_pointer = false;

	if (!ptx_take_word(ptx, ".param"))
		return false;
	while (ptx->token.kind == PTX_WORD && *ptx->token.at == '.') {
		if (ptx_take_word(ptx, ".ptr")) {
			is_pointer = true;
		} else if (ptx_take_word(ptx, ".align")) {
			uint64_t number;

			if (!ptx_take_number(ptx, &number))
				return false;
			align = is_pointer ? align : number;
		} else {
			type_bytes = type_bytes ? type_bytes : ptx_type_bytes(&ptx->token);
			ptx_next(ptx);
		}
	}
	if (!type_bytes || ptx->token.kind != PTX_WORD)
		return false;
	ptx_next(ptx);
	while (ptx_take_char(ptx, '[')) {
		if (!ptx_take_number(ptx, &count) || !ptx_take_char(ptx, ']'))
			return false;
	}
	return add_parameter(kernel, type_bytes * count, align > type_bytes ? align : type_bytes);
}

static bool read_parameters(struct ptx *ptx, struct sim_kernel_info *kernel)
{
	kernel->parameters_known = true;
	if (!ptx_take_char(ptx, '('))
		return true;
	while (!ptx_take_char(ptx, ')')) {
		if (!read_parameter(ptx, kernel))
			return false;
		ptx_take_char(ptx, ',');
	}
	return true;
}

static uint64_t read_product(struct ptx *ptx)
{
	uint64_t product = 1;
	uint64_t number;

	do {
		if (!ptx_take_number(ptx, &number))
			return 0;
		product *= number;
	} while (ptx_take_char(ptx, ','));
	return product;
}

/* Between the parameters and the body. */
static bool read_limits(struct ptx *ptx, struct sim_kernel_info *kernel, uint64_t *ret_registers)
{
	while (ptx->token.kind != PTX_END && !ptx_is_char(ptx, '{') && !ptx_is_char(ptx, ';')) {
		uint64_t product;

		if (ptx_take_word(ptx, ".maxntid") || ptx_take_word(ptx, ".reqntid")) {
			product = read_product(ptx);
			if (!product || product > THREADS_MOST)
				return false;
			kernel->threads_max = (uint32_t)product;
		} else if (ptx_take_word(ptx, ".maxnreg")) {
			if (!ptx_take_number(ptx, ret_registers))
				return false;
		} else {
			ptx_next(ptx);
		}
	}
	return ptx->token.kind != PTX_END;
}

/* ".reg .b32 %r<10>;" or ".reg .u64 %ar0, %ar1;" in 32-bit registers. */
static uint64_t read_registers(struct ptx *ptx)
{
	uint64_t words = (ptx_type_bytes(&ptx->token) + 3) / 4;
	uint64_t count = 0;

	while (ptx->token.kind != PTX_END && !ptx_is_char(ptx, ';')) {
		uint64_t number;

		if (ptx_take_char(ptx, '<')) {
			if (ptx_take_number(ptx, &number))
				count += number - (count ? 1 : 0);
			continue;
		}
		count += ptx->token.kind == PTX_WORD && *ptx->token.at == '%' ? 1 : 0;
		ptx_next(ptx);
	}
	return words * count;
}

static void read_pragma(struct ptx *ptx, struct sim_kernel_info *kernel)
{
	static const char key[] = "berth-sim cost ";
	const struct ptx_token *token = &ptx->token;

	if (token->kind == PTX_STRING && token->length > strlen(key) &&
	    memcmp(token->at, key, strlen(key)) == 0)
		kernel->cost_ns = strtoull(token->at + strlen(key), NULL, 10);
}

static bool read_body(struct ptx *ptx, struct sim_kernel_info *kernel, uint64_t *ret_registers)
{
	size_t depth = 0;

	while (ptx->token.kind != PTX_END) {
		if (ptx_take_word(ptx, ".reg")) {
			*ret_registers += read_registers(ptx);
		} else if (ptx_take_word(ptx, ".shared")) {
			kernel->shared_bytes += (uint32_t)ptx_read_size(ptx);
		} else if (ptx_take_word(ptx, ".local")) {
			kernel->local_bytes += (uint32_t)ptx_read_size(ptx);
		} else if (ptx_take_word(ptx, ".pragma")) {
			read_pragma(ptx, kernel);
		} else if (ptx_take_char(ptx, '{')) {
			depth++;
		} else if (ptx_is_char(ptx, '}')) {
			ptx_next(ptx);
			if (--depth == 0)
				return true;
		} else {
			ptx_next(ptx);
		}
	}
	return false;
}

/* What a compiler would make of the registers is unknown: a quarter of those named is plausible,
 * and what must hold holds: more than 0, and no more threads than the register file feeds. */
static void settle_registers(struct sim_kernel_info *kernel, uint64_t named, uint64_t limit)
{
	uint64_t count = named / 4;
	uint64_t threads;

	count = count < REGISTERS_LEAST ? REGISTERS_LEAST : count;
	count = count > REGISTERS_MOST ? REGISTERS_MOST : count;
	count = limit && count > limit ? limit : count;
	if (kernel->threads_max && count * kernel->threads_max > REGISTER_FILE)
		count = REGISTER_FILE / kernel->threads_max;
	threads = (REGISTER_FILE / count) & ~31ULL;
	threads = threads > THREADS_MOST ? THREADS_MOST : threads;
	kernel->registers_count = (uint32_t)count;
	if (!kernel->threads_max)
		kernel->threads_max = (uint32_t)threads;
}

static CUresult read_entry(struct ptx *ptx)
{
	struct ptx_token name = ptx->token;
	struct sim_kernel_info *kernel;
	struct sim_kernel_info scratch = { .name = NULL };
	uint64_t named = 0;
	uint64_t limit = 0;
	CUresult err = CUDA_SUCCESS;

	if (name.kind != PTX_WORD || *name.at == '.')
		return CUDA_ERROR_INVALID_PTX;
	ptx_next(ptx);
	if (!read_parameters(ptx, &scratch) || !read_limits(ptx, &scratch, &limit))
		err = CUDA_ERROR_INVALID_PTX;
	/* "entry name(...);" only announces one. */
	if (err == CUDA_SUCCESS && ptx_take_char(ptx, ';')) {
		free(scratch.parameters);
		return CUDA_SUCCESS;
	}
	if (err == CUDA_SUCCESS && !read_body(ptx, &scratch, &named))
		err = CUDA_ERROR_INVALID_PTX;
	kernel =
		err == CUDA_SUCCESS ? sim_image_add_kernel(ptx->image, name.at, name.length) : NULL;
	if (!kernel) {
		free(scratch.parameters);
		return err != CUDA_SUCCESS ? err : CUDA_ERROR_OUT_OF_MEMORY;
	}
	settle_registers(&scratch, named, limit);
	scratch.name = kernel->name;
	*kernel = scratch;
	return CUDA_SUCCESS;
}

/* "6.0" as 60 */
static bool read_version(struct ptx *ptx)
{
	const char *text = ptx->token.at;

	if (ptx->token.kind != PTX_WORD || ptx->token.length < 3 || text[1] != '.' ||
	    text[0] < '1' || text[0] > '9' || text[2] < '0' || text[2] > '9')
		return false;
	ptx->image->ptx_version = (uint32_t)(text[0] - '0') * 10 + (uint32_t)(text[2] - '0');
	ptx_next(ptx);
	return true;
}

static void read_target(struct ptx *ptx)
{
	if (ptx->token.kind == PTX_WORD && ptx->token.length > 3 &&
	    memcmp(ptx->token.at, "sm_", 3) == 0)
		ptx->image->target = (uint32_t)strtoul(ptx->token.at + 3, NULL, 10);
}

/* To behind the ';', or behind the body of a function. */
static bool skip_declaration(struct ptx *ptx)
{
	while (ptx->token.kind != PTX_END && !ptx_is_char(ptx, '{')) {
		if (ptx_take_char(ptx, ';'))
			return true;
		ptx_next(ptx);
	}
	return ptx_skip_braces(ptx);
}

static bool is_other_space(const struct ptx *ptx)
{
	return ptx_is_word(ptx, ".shared") || ptx_is_word(ptx, ".local") ||
	       ptx_is_word(ptx, ".func") || ptx_is_word(ptx, ".alias");
}

static CUresult read_statement(struct ptx *ptx)
{
	CUresult err = CUDA_SUCCESS;

	if (ptx_take_word(ptx, ".extern")) {
		ptx->is_extern = true;
		return CUDA_SUCCESS;
	}
	if (ptx_take_word(ptx, ".visible") || ptx_take_word(ptx, ".weak") ||
	    ptx_take_word(ptx, ".common"))
		return CUDA_SUCCESS;
	if (ptx_take_word(ptx, ".version"))
		err = read_version(ptx) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
	else if (ptx_take_word(ptx, ".target"))
		read_target(ptx);
	else if (ptx_take_word(ptx, ".entry"))
		err = read_entry(ptx);
	else if (ptx_take_word(ptx, ".global"))
		err = ptx_read_variable(ptx, SIM_VARIABLE_GLOBAL);
	else if (ptx_take_word(ptx, ".const"))
		err = ptx_read_variable(ptx, SIM_VARIABLE_CONSTANT);
	else if (is_other_space(ptx) || ptx_is_char(ptx, '{'))
		err = skip_declaration(ptx) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
	else
		ptx_next(ptx);
	ptx->is_extern = false;
	return err;
}

CUresult sim_ptx_read(const char *text, size_t length, struct sim_image *image)
{
	struct ptx ptx = { .at = text, .end = text + length, .image = image };
	CUresult err = CUDA_SUCCESS;

	ptx_next(&ptx);
	if (!ptx_is_word(&ptx, ".version"))
		return CUDA_ERROR_INVALID_IMAGE;
	while (ptx.token.kind != PTX_END && err == CUDA_SUCCESS)
		err = read_statement(&ptx);
	if (err == CUDA_SUCCESS && (!image->ptx_version || !image->target))
		err = CUDA_ERROR_INVALID_PTX;
	return err;
}
