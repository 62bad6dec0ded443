/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the code in a fat binary: a header, then entries that hold PTX or a cubin each, some of them
 * compressed: blocks in LZ4's format, or since CUDA 12.8 zstd frames, for which libzstd is opened if
 * the machine has one. PTX is preferred, since it tells more; of several the one for the greatest
 * architecture. Entries that can't be unpacked are passed over.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/image.h"

#define ENTRY_PTX        1U
#define ENTRY_CUBIN      2U
#define FLAG_LZ4         0x2000ULL
#define FLAG_ZSTD        0x8000ULL
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

/* libzstd's simplest call; NULL where there is none. */
typedef size_t (*zstd_decompress)(void *to, size_t room, const void *from, size_t bytes);

static zstd_decompress find_zstd(void)
{
	void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);

	return library ? (zstd_decompress)dlsym(library, "ZSTD_decompress") : NULL;
}

static bool zstd_unpack(const unsigned char *at, size_t bytes, unsigned char *out, size_t room)
{
	static zstd_decompress decompress;

	if (!decompress)
		decompress = find_zstd();
	return decompress && decompress(out, room, at, bytes) == room;
}

static CUresult unpack(const struct fatbin_entry *entry, const void **ret_data, size_t *ret_length,
		       void **ret_owned)
{
	const unsigned char *payload = (const unsigned char *)entry + entry->header_bytes;
	unsigned char *out;
	bool good;

	if (!(entry->flags & (FLAG_LZ4 | FLAG_ZSTD))) {
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
	if (entry->flags & FLAG_ZSTD)
		good = zstd_unpack(payload, entry->compressed_bytes, out,
				   entry->decompressed_bytes);
	else
		good = lz4_decompress(payload, entry->compressed_bytes, out,
				      entry->decompressed_bytes);
	if (!good) {
		free(out);
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	*ret_owned = out;
	*ret_data = out;
	*ret_length = entry->decompressed_bytes;
	return CUDA_SUCCESS;
}

/* PTX before cubins, then the greater architecture. */
static uint64_t rank(const struct fatbin_entry *entry)
{
	return (entry->kind == ENTRY_PTX ? 1ULL << 32 : 0) | entry->architecture;
}

/* The best entry that ranks below `below`. */
static const struct fatbin_entry *next_best(const unsigned char *at, const unsigned char *end,
					    uint64_t below)
{
	const struct fatbin_entry *best = NULL;

	while (at < end) {
		const struct fatbin_entry *entry = (const struct fatbin_entry *)(const void *)at;

		if ((entry->kind == ENTRY_PTX || entry->kind == ENTRY_CUBIN) &&
		    rank(entry) < below && (!best || rank(entry) > rank(best)))
			best = entry;
		at += entry->header_bytes + entry->payload_bytes;
	}
	return best;
}

/* Does each entry lie within, and the last one end at the end? */
static bool are_entries_good(const unsigned char *at, const unsigned char *end)
{
	while (at < end) {
		const struct fatbin_entry *entry = (const struct fatbin_entry *)(const void *)at;
		size_t left = (size_t)(end - at);

		if (left < sizeof(*entry) || entry->header_bytes < sizeof(*entry) ||
		    entry->payload_bytes > left ||
		    entry->header_bytes > left - entry->payload_bytes)
			return false;
		at += entry->header_bytes + entry->payload_bytes;
	}
	return true;
}

CUresult sim_fatbin_find(const unsigned char *fatbin, size_t length, const void **ret_data,
			 size_t *ret_length, void **ret_owned)
{
	struct fatbin_header header;
	const struct fatbin_entry *entry;
	const unsigned char *at, *end;
	CUresult err = CUDA_ERROR_NO_BINARY_FOR_GPU;
	uint64_t below = UINT64_MAX;

	memcpy(&header, fatbin, sizeof(header));
	if (header.header_bytes < sizeof(header) || header.body_bytes > DECOMPRESSED_MAX ||
	    (length && header.header_bytes + header.body_bytes > length))
		return CUDA_ERROR_INVALID_IMAGE;
	at = fatbin + header.header_bytes;
	end = at + header.body_bytes;
	if (!are_entries_good(at, end))
		return CUDA_ERROR_INVALID_IMAGE;
	while (err == CUDA_ERROR_NO_BINARY_FOR_GPU && (entry = next_best(at, end, below))) {
		err = unpack(entry, ret_data, ret_length, ret_owned);
		below = rank(entry);
	}
	return err;
}
