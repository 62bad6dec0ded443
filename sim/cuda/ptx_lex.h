/* SPDX-License-Identifier: Apache-2.0
 *
 * PTX text as tokens: words (directives, names, numbers, with their dots, % and $), strings and
 * single characters. Comments and blanks are gone. Only ptx.c and ptx_variable.c need it.
 */
#ifndef BERTH_SIM_CUDA_PTX_LEX_H
#define BERTH_SIM_CUDA_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/cuda/image.h"

enum ptx_kind {
	PTX_END,
	PTX_WORD,
	PTX_STRING, /* without its quotes */
	PTX_CHAR,
};

struct ptx_token {
	enum ptx_kind kind;
	const char *at;
	size_t length;
};

struct ptx {
	const char *at;
	const char *end;
	struct ptx_token token; /* the current one */
	bool is_extern;         /* said before the current declaration */
	struct sim_image *image;
};

/* Makes the next token the current one. */
void ptx_next(struct ptx *ptx);
bool ptx_is_word(const struct ptx *ptx, const char *word);
bool ptx_is_char(const struct ptx *ptx, char c);
/* Takes the current token if it is that. */
bool ptx_take_word(struct ptx *ptx, const char *word);
bool ptx_take_char(struct ptx *ptx, char c);
/* Takes an unsigned integer. */
bool ptx_take_number(struct ptx *ptx, uint64_t *ret_number);
/* From the current '{' to behind its '}'; false if the text ends before. */
bool ptx_skip_braces(struct ptx *ptx);

/* Bytes of ".u32" and the like; 0: not a type. */
size_t ptx_type_bytes(const struct ptx_token *token);

/* From behind .global or .const to behind the ';'. */
CUresult ptx_read_variable(struct ptx *ptx, enum sim_variable_space space);
/* The declared size of "[.align n] type name[dims]" in bytes; behind the dims. 0: malformed. */
size_t ptx_read_size(struct ptx *ptx);

#endif
