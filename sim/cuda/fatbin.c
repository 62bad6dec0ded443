/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the code in a fat binary: a header, then entries that hold PTX or a cubin each, some of them
 * compressed (blocks in LZ4's format). PTX is preferred, since it tells more; of several the one
 * for the greatest architecture. Entries in a compression that isn't known are passed over.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/image.h"

#define ENTRY_PTX        1U
#define ENTRY_CUBIN      2U
#define FLAG_COMPRESSED  0x2000ULL
#define DECOMPRESSED_MAX (256UL << 20)

struct fatbin_header {
	uint32_t magic;
	uint16_t version;
	uint16_t header_bytes;
	uint64_t body_bytes;
};

struct fatbin_entry {
	uint16_t kind;
	uint16_t version;
	uint32_t header_bytes;
	uint64_t payload_bytes;
	uint32_t compressed_bytes;
	uint32_t unused;
	uint16_t minor;
	uint16_t major;
	uint32_t architecture;
	uint32_t name_offset;
	uint32_t name_bytes;
	uint64_t flags;
	uint64_t reserved;
	uint64_t decompressed_bytes;
};

_Static_assert(sizeof(struct fatbin_header) == 16, "as nvcc writes it");
_Static_assert(sizeof(struct fatbin_entry) == 64, "as nvcc writes it");

/* A length of LZ4: 15 means that more bytes follow, up to one below 255. */
static bool lz4_length(const unsigned char **at, const unsigned char *end, size_t *length)
{
	unsigned char more = 255;

	if (*length != 15)
		return true;
	while (more == 255) {
		if (*at == end)
			return false;
		more = *(*at)++;
		*length += more;
	}
	return true;
}

/* One block; true if it made exactly `room` bytes. */
static bool lz4_decompress(const unsigned char *at, size_t bytes, unsigned char *out, size_t room)
{
	const unsigned char *end = at + bytes;
	size_t made = 0;

	while (at < end) {
		size_t token = *at++;
		size_t literals = token >> 4;
		size_t match = token & 15;
		size_t back;

		if (!lz4_length(&at, end, &literals) || literals > (size_t)(end - at) ||
		    literals > room - made)
			return false;
		memcpy(out + made, at, literals);
		made += literals;
		at += literals;
		if (at == end || made == room)
			break;
		if (end - at < 2)
			return false;
		back = (size_t)at[0] | (size_t)at[1] << 8;
		at += 2;
		if (!lz4_length(&at, end, &match) || back == 0 || back > made)
			return false;
		match += 4;
		if (match > room - made)
			return false;
		for (; match; match--, made++)
			out[made] = out[made - back];
	}
	return made == room;
}

static bool is_better(const struct fatbin_entry *a, const struct fatbin_entry *b)
{
	if (!b)
		return true;
	if (a->kind != b->kind)
		return a->kind == ENTRY_PTX;
	return a->architecture > b->architecture;
}

static CUresult unpack(const struct fatbin_entry *entry, const unsigned char *payload,
		       const void **ret_data, size_t *ret_length, void **ret_owned)
{
	unsigned char *out;

	if (!(entry->flags & FLAG_COMPRESSED)) {
		*ret_data = payload;
		*ret_length = entry->payload_bytes;
		return CUDA_SUCCESS;
	}
	if (!entry->decompressed_bytes || entry->decompressed_bytes > DECOMPRESSED_MAX ||
	    entry->compressed_bytes > entry->payload_bytes)
		return CUDA_ERROR_INVALID_IMAGE;
	out = malloc(entry->decompressed_bytes);
	if (!out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!lz4_decompress(payload, entry->compressed_bytes, out, entry->decompressed_bytes)) {
		free(out);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	*ret_owned = out;
	*ret_data = out;
	*ret_length = entry->decompressed_bytes;
	return CUDA_SUCCESS;
}

CUresult sim_fatbin_find(const unsigned char *fatbin, size_t length, const void **ret_data,
			 size_t *ret_length, void **ret_owned)
{
	struct fatbin_header header;
	const struct fatbin_entry *best = NULL;
	const unsigned char *at, *end;

	memcpy(&header, fatbin, sizeof(header));
	if (header.header_bytes < sizeof(header) || header.body_bytes > DECOMPRESSED_MAX ||
	    (length && header.header_bytes + header.body_bytes > length))
		return CUDA_ERROR_INVALID_IMAGE;
	at = fatbin + header.header_bytes;
	end = at + header.body_bytes;
	while ((size_t)(end - at) >= sizeof(struct fatbin_entry)) {
		const struct fatbin_entry *entry = (const struct fatbin_entry *)(const void *)at;

		if (entry->header_bytes < sizeof(*entry) ||
		    entry->payload_bytes > (size_t)(end - at) ||
		    entry->header_bytes > (size_t)(end - at) - entry->payload_bytes)
			return CUDA_ERROR_INVALID_IMAGE;
		if ((entry->kind == ENTRY_PTX || entry->kind == ENTRY_CUBIN) &&
		    is_better(entry, best))
			best = entry;
		at += entry->header_bytes + entry->payload_bytes;
	}
	if (!best)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	return unpack(best, (const unsigned char *)best + best->header_bytes, ret_data, ret_length,
		      ret_owned);
}
