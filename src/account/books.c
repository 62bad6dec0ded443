/* SPDX-License-Identifier: Apache-2.0
 *
 * The pointer table and the ledger put together; see books.h for the order of things.
 */
#include "account/books.h"

#include <errno.h>
#include <inttypes.h>

#include "account/account.h"
#include "base/log.h"
#include "region/ledger.h"

static struct berth_pointer_table books;

static enum berth_charge_kind kind_of(enum berth_key_class key_class)
{
	return key_class == BERTH_KEY_CONTEXT ? BERTH_CHARGE_CONTEXT : BERTH_CHARGE_DATA;
}

/* Only blocks that are charged by themselves; a mapping's bytes are its handle's. */
static bool is_charged(enum berth_key_class key_class)
{
	return key_class != BERTH_KEY_MAPPING && key_class != BERTH_KEY_POOL;
}

int berth_books_ask(int gpu, uint64_t bytes)
{
	return berth_account_ask(gpu, BERTH_CHARGE_DATA, bytes);
}

void berth_books_refund(int gpu, uint64_t bytes)
{
	if (bytes)
		berth_account_refund(gpu, BERTH_CHARGE_DATA, bytes);
}

void berth_books_gone(enum berth_key_class key_class, const struct berth_block *block)
{
	if (block->bytes && is_charged(key_class))
		berth_account_refund(block->gpu, kind_of(key_class), block->bytes);
}

void berth_books_enter(enum berth_key_class key_class, uint64_t key,
		       const struct berth_block *block)
{
	int saved_errno = errno;
	struct berth_block replaced;
	int err = berth_pointer_table_put(&books, key_class, key, block, &replaced);

	/* The driver handed out a number that we thought in use: its block died unseen. */
	if (err == 1)
		berth_books_gone(key_class, &replaced);
	else if (err < 0)
		berth_log_once(BERTH_LOG_WARNING,
			       "no memory to note an allocation of %" PRIu64
			       " bytes: it stays charged until this process ends",
			       block->bytes);
	errno = saved_errno;
}

void berth_books_enter_context(uint64_t context, int gpu, uint64_t bytes)
{
	struct berth_block block = { .bytes = bytes, .gpu = (uint8_t)gpu, .uses = 1 };

	if (bytes)
		berth_account_charge(gpu, BERTH_CHARGE_CONTEXT, bytes);
	berth_books_enter(BERTH_KEY_CONTEXT, context, &block);
}

bool berth_books_take(enum berth_key_class key_class, uint64_t key, struct berth_block *ret_block)
{
	return berth_pointer_table_take(&books, key_class, key, ret_block);
}

bool berth_books_get(enum berth_key_class key_class, uint64_t key, struct berth_block *ret_block)
{
	return berth_pointer_table_get(&books, key_class, key, ret_block);
}

void berth_books_restore(enum berth_key_class key_class, uint64_t key,
			 const struct berth_block *block)
{
	berth_books_enter(key_class, key, block);
}

struct gone_sums {
	uint64_t context;
	uint64_t bytes[BERTH_GPU_MAX];
};

static bool belongs(enum berth_key_class key_class, const struct berth_block *block, void *arg)
{
	const struct gone_sums *sums = arg;

	return block->owner == sums->context &&
	       (key_class == BERTH_KEY_ADDRESS || key_class == BERTH_KEY_ARRAY ||
		key_class == BERTH_KEY_MIPMAP);
}

static void add_up(const struct berth_block *block, void *arg)
{
	struct gone_sums *sums = arg;

	sums->bytes[block->gpu % BERTH_GPU_MAX] += block->bytes;
}

void berth_books_context_gone(uint64_t context)
{
	struct gone_sums sums = { .context = context };

	if (!context)
		return;
	berth_pointer_table_drain(&books, belongs, add_up, &sums);
	for (int gpu = 0; gpu < BERTH_GPU_MAX; gpu++)
		berth_books_refund(gpu, sums.bytes[gpu]);
}

size_t berth_books_count(void)
{
	return berth_pointer_table_count(&books);
}

void berth_books_forget(void)
{
	berth_pointer_table_reset(&books);
}
