/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables of PTX at module scope: name, size and initial bytes.
 *
 *	.global [.attribute(.managed)] [.align n] [.v2|.v4] type name{[n]} [= value] {, name...} ;
 *
 * Sizes must be true, since programs compare them with their own. An initial value that is an
 * address ("generic(x)+4") is left zero: nothing here ever follows one.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/ptx_lex.h"

struct declaration {
	size_t align_bytes;
	size_t lanes; /* of a vector type */
	size_t type_bytes;
	bool is_reference; /* texture, surface, sampler */
	bool is_float;
	enum sim_variable_space space;
};

struct values {
	unsigned char *bytes;
	size_t used;
	size_t room;
};

static bool read_declaration(struct ptx *ptx, struct declaration *what)
{
	uint64_t number;

	for (;;) {
		if (ptx_take_word(ptx, ".align")) {
			if (!ptx_take_number(ptx, &number))
				return false;
			what->align_bytes = number;
		} else if (ptx_take_word(ptx, ".attribute")) {
			if (memmem(ptx->at,
				   (size_t)(ptx->end - ptx->at) < 16 ? (size_t)(ptx->end - ptx->at)
								     : 16,
				   ".managed", 8))
				what->space = SIM_VARIABLE_MANAGED;
			while (ptx->token.kind != PTX_END && !ptx_take_char(ptx, ')'))
				ptx_next(ptx);
		} else if (ptx_take_word(ptx, ".v2")) {
			what->lanes = 2;
		} else if (ptx_take_word(ptx, ".v4")) {
			what->lanes = 4;
		} else if (ptx_type_bytes(&ptx->token)) {
			what->type_bytes = ptx_type_bytes(&ptx->token);
			what->is_float = ptx->token.at[1] == 'f';
			what->is_reference = ptx->token.length > 3 &&
					     memmem(ptx->token.at, ptx->token.length, "ref", 3);
			ptx_next(ptx);
		} else {
			return what->type_bytes != 0;
		}
	}
}

/* "[2][3]" as 6, "" as 1; *ret_is_open: one "[]" takes its size from the values. */
static bool read_dimensions(struct ptx *ptx, uint64_t *ret_count, bool *ret_is_open)
{
	uint64_t count = 1;
	uint64_t number;

	*ret_is_open = false;
	while (ptx_take_char(ptx, '[')) {
		if (ptx_take_char(ptx, ']')) {
			*ret_is_open = true;
			continue;
		}
		if (!ptx_take_number(ptx, &number) || !ptx_take_char(ptx, ']') ||
		    __builtin_mul_overflow(count, number, &count))
			return false;
	}
	*ret_count = count;
	return true;
}

static bool append(struct values *values, const void *bytes, size_t length)
{
	if (values->used + length > values->room) {
		size_t room = values->room ? values->room * 2 : 256;
		unsigned char *grown = realloc(values->bytes, room);

		if (!grown)
			return false;
		values->bytes = grown;
		values->room = room;
	}
	memcpy(values->bytes + values->used, bytes, length);
	values->used += length;
	return true;
}

/* One number as the bytes of a type; anything else is zero. */
static void encode(const struct ptx_token *token, bool is_negative, const struct declaration *what,
		   unsigned char *ret_bytes)
{
	size_t type_bytes = what->type_bytes;
	char text[64] = { 0 };
	uint64_t bits = 0;

	if (token->length < sizeof(text) && isdigit((unsigned char)*token->at)) {
		memcpy(text, token->at, token->length);
		text[token->length] = '\0';
		if (text[0] == '0' && strchr("fFdD", text[1]) && text[1]) {
			bits = strtoull(text + 2, NULL, 16);
		} else if (what->is_float ||
			   (text[1] != 'x' && text[1] != 'X' && strpbrk(text, ".eE"))) {
			double wide = is_negative ? -strtod(text, NULL) : strtod(text, NULL);
			float narrow = (float)wide;

			memcpy(&bits, type_bytes == 4 ? (void *)&narrow : (void *)&wide,
			       type_bytes == 4 ? 4 : 8);
			is_negative = false;
		} else {
			bits = strtoull(text, NULL, 0);
		}
		if (is_negative)
			bits = (uint64_t) - (int64_t)bits;
	}
	memset(ret_bytes, 0, type_bytes);
	memcpy(ret_bytes, &bits, type_bytes < sizeof(bits) ? type_bytes : sizeof(bits));
}

/* An element goes up to the next comma or brace that is outside parentheses. */
static bool read_element(struct ptx *ptx, const struct declaration *what, struct values *values)
{
	unsigned char bytes[16];
	struct ptx_token number = { PTX_END, "", 0 };
	bool is_negative = ptx_take_char(ptx, '-');
	size_t depth = 0;

	if (ptx->token.kind == PTX_WORD)
		number = ptx->token;
	while (ptx->token.kind != PTX_END) {
		if (!depth &&
		    (ptx_is_char(ptx, ',') || ptx_is_char(ptx, '}') || ptx_is_char(ptx, ';')))
			break;
		depth += ptx_is_char(ptx, '(') ? 1 : 0;
		depth -= ptx_is_char(ptx, ')') && depth ? 1 : 0;
		ptx_next(ptx);
	}
	encode(&number, is_negative, what, bytes);
	return append(values, bytes, what->type_bytes);
}

static bool read_values(struct ptx *ptx, const struct declaration *what, struct values *values)
{
	size_t depth = 0;

	do {
		if (ptx_take_char(ptx, '{'))
			depth++;
		else if (depth && ptx_take_char(ptx, '}'))
			depth--;
		else if (depth && ptx_take_char(ptx, ','))
			continue;
		else if (!read_element(ptx, what, values))
			return false;
	} while (depth && ptx->token.kind != PTX_END);
	return depth == 0;
}

static CUresult add(struct ptx *ptx, const struct declaration *what, const struct ptx_token *name,
		    size_t size, struct values *values)
{
	struct sim_variable_info *variable =
		sim_image_add_variable(ptx->image, name->at, name->length);

	if (!variable)
		return CUDA_ERROR_OUT_OF_MEMORY;
	variable->space = what->is_reference ? SIM_VARIABLE_TEXTURE : what->space;
	variable->size_bytes = size;
	variable->align_bytes =
		what->align_bytes > what->type_bytes ? what->align_bytes : what->type_bytes;
	if (!values->used)
		return CUDA_SUCCESS;
	variable->initial = calloc(1, size ? size : 1);
	if (!variable->initial)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(variable->initial, values->bytes, values->used < size ? values->used : size);
	return CUDA_SUCCESS;
}

static CUresult read_one(struct ptx *ptx, const struct declaration *what)
{
	struct ptx_token name = ptx->token;
	struct values values = { NULL, 0, 0 };
	CUresult err = CUDA_ERROR_INVALID_PTX;
	uint64_t count;
	size_t size;
	bool is_open;

	if (name.kind != PTX_WORD || *name.at == '.')
		return CUDA_ERROR_INVALID_PTX;
	ptx_next(ptx);
	if (!read_dimensions(ptx, &count, &is_open))
		return CUDA_ERROR_INVALID_PTX;
	if (ptx_take_char(ptx, '=') && !read_values(ptx, what, &values))
		goto out;
	if (is_open)
		count = values.used / (what->type_bytes * what->lanes);
	err = CUDA_SUCCESS;
	if (__builtin_mul_overflow(count, what->type_bytes * what->lanes, &size))
		err = CUDA_ERROR_INVALID_PTX;
	else if (!ptx->is_extern)
		err = add(ptx, what, &name, size, &values);
out:
	free(values.bytes);
	return err;
}

CUresult ptx_read_variable(struct ptx *ptx, enum sim_variable_space space)
{
	struct declaration what = { .lanes = 1, .space = space };
	CUresult err;

	if (!read_declaration(ptx, &what))
		return CUDA_ERROR_INVALID_PTX;
	do {
		err = read_one(ptx, &what);
		if (err != CUDA_SUCCESS)
			return err;
	} while (ptx_take_char(ptx, ','));
	return ptx_take_char(ptx, ';') ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

size_t ptx_read_size(struct ptx *ptx)
{
	struct declaration what = { .lanes = 1 };
	uint64_t count;
	size_t size;
	bool is_open;

	if (!read_declaration(ptx, &what) || ptx->token.kind != PTX_WORD)
		return 0;
	ptx_next(ptx);
	if (!read_dimensions(ptx, &count, &is_open) || is_open ||
	    __builtin_mul_overflow(count, what.type_bytes * what.lanes, &size))
		return 0;
	return size;
}
