/* SPDX-License-Identifier: Apache-2.0
 *
 * See ptx_lex.h.
 */
#include "sim/cuda/ptx_lex.h"

#include <ctype.h>
#include <string.h>

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static void skip_blanks(struct ptx *ptx)
{
	while (ptx->at < ptx->end) {
		size_t left = (size_t)(ptx->end - ptx->at);

		if (isspace((unsigned char)*ptx->at)) {
			ptx->at++;
		} else if (left > 1 && memcmp(ptx->at, "//", 2) == 0) {
			const char *line = memchr(ptx->at, '\n', left);

			ptx->at = line ? line : ptx->end;
		} else if (left > 1 && memcmp(ptx->at, "/*", 2) == 0) {
			const char *close = memmem(ptx->at + 2, left - 2, "*/", 2);

			ptx->at = close ? close + 2 : ptx->end;
		} else {
			return;
		}
	}
}

static void take_string(struct ptx *ptx)
{
	const char *start = ++ptx->at;

	while (ptx->at < ptx->end && *ptx->at != '"')
		ptx->at += *ptx->at == '\\' && ptx->at + 1 < ptx->end ? 2 : 1;
	ptx->token = (struct ptx_token){ PTX_STRING, start, (size_t)(ptx->at - start) };
	if (ptx->at < ptx->end)
		ptx->at++;
}

void ptx_next(struct ptx *ptx)
{
	const char *start;

	skip_blanks(ptx);
	start = ptx->at;
	if (ptx->at == ptx->end) {
		ptx->token = (struct ptx_token){ PTX_END, start, 0 };
		return;
	}
	if (*ptx->at == '"') {
		take_string(ptx);
		return;
	}
	if (!is_word_char(*ptx->at)) {
		ptx->token = (struct ptx_token){ PTX_CHAR, ptx->at++, 1 };
		return;
	}
	while (ptx->at < ptx->end && is_word_char(*ptx->at))
		ptx->at++;
	ptx->token = (struct ptx_token){ PTX_WORD, start, (size_t)(ptx->at - start) };
}

bool ptx_is_word(const struct ptx *ptx, const char *word)
{
	const struct ptx_token *token = &ptx->token;

	return token->kind == PTX_WORD && token->length == strlen(word) &&
	       memcmp(token->at, word, token->length) == 0;
}

bool ptx_is_char(const struct ptx *ptx, char c)
{
	return ptx->token.kind == PTX_CHAR && *ptx->token.at == c;
}

bool ptx_take_word(struct ptx *ptx, const char *word)
{
	bool is = ptx_is_word(ptx, word);

	if (is)
		ptx_next(ptx);
	return is;
}

bool ptx_take_char(struct ptx *ptx, char c)
{
	bool is = ptx_is_char(ptx, c);

	if (is)
		ptx_next(ptx);
	return is;
}

bool ptx_take_number(struct ptx *ptx, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (ptx->token.kind != PTX_WORD)
		return false;
	for (size_t i = 0; i < ptx->token.length; i++) {
		char c = ptx->token.at[i];

		if (!isdigit((unsigned char)c) || __builtin_mul_overflow(number, 10U, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(c - '0'), &number))
			return false;
	}
	*ret_number = number;
	ptx_next(ptx);
	return true;
}

bool ptx_skip_braces(struct ptx *ptx)
{
	size_t depth = 0;

	for (; ptx->token.kind != PTX_END; ptx_next(ptx)) {
		if (ptx_is_char(ptx, '{'))
			depth++;
		if (ptx_is_char(ptx, '}') && --depth == 0) {
			ptx_next(ptx);
			return true;
		}
	}
	return false;
}

size_t ptx_type_bytes(const struct ptx_token *token)
{
	static const struct {
		const char *name;
		size_t bytes;
	} types[] = {
		{ ".u8", 1 },      { ".s8", 1 },         { ".b8", 1 },     { ".u16", 2 },
		{ ".s16", 2 },     { ".b16", 2 },        { ".f16", 2 },    { ".bf16", 2 },
		{ ".u32", 4 },     { ".s32", 4 },        { ".b32", 4 },    { ".f32", 4 },
		{ ".f16x2", 4 },   { ".u64", 8 },        { ".s64", 8 },    { ".b64", 8 },
		{ ".f64", 8 },     { ".b128", 16 },      { ".bf16x2", 4 }, { ".texref", 8 },
		{ ".surfref", 8 }, { ".samplerref", 8 },
	};

	if (token->kind != PTX_WORD)
		return 0;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strlen(types[i].name) == token->length &&
		    memcmp(types[i].name, token->at, token->length) == 0)
			return types[i].bytes;
	}
	return 0;
}
