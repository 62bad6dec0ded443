/* SPDX-License-Identifier: Apache-2.0
 *
 * This process's books: what it asked for, got, and will give back. The ledger knows sums; the books
 * know which driver pointer or handle stands for which bytes. Everything here is for a process that
 * is attached (account.h). Thread-safe, keeps errno, calls no driver.
 *
 * The order around a driver call: ask, call, then enter on success or refund on failure; and for a
 * free: take, call, then refund on success or restore on failure. Taking first is what makes it
 * right with threads: after the driver's free returns, another thread may already own the same
 * address, and that entry must not be touched.
 */
#ifndef BERTH_ACCOUNT_BOOKS_H
#define BERTH_ACCOUNT_BOOKS_H

#include "account/pointer_table.h"

/* 0 = charged; -ENOMEM = it does not fit; -ENODEV = the share does not have that GPU. */
BERTH_MUST_CHECK int berth_books_ask(int gpu, uint64_t bytes);
void berth_books_refund(int gpu, uint64_t bytes);

/* A block the driver handed out, already charged. If it can't be noted it stays charged until the
 * process ends: the safe side. */
void berth_books_enter(enum berth_key_class key_class, uint64_t key,
		       const struct berth_block *block);

/* A context that the driver has made, whatever it cost: charged here, also over the limit. */
void berth_books_enter_context(uint64_t context, int gpu, uint64_t bytes);

/* false: not ours, the driver knows. */
BERTH_MUST_CHECK bool berth_books_take(enum berth_key_class key_class, uint64_t key,
				       struct berth_block *ret_block);
BERTH_MUST_CHECK bool berth_books_get(enum berth_key_class key_class, uint64_t key,
				      struct berth_block *ret_block);
/* The driver refused to free it: as before. */
void berth_books_restore(enum berth_key_class key_class, uint64_t key,
			 const struct berth_block *block);
/* The driver has freed a taken block. */
void berth_books_gone(enum berth_key_class key_class, const struct berth_block *block);

/* A context is destroyed or reset: what was allocated in it is gone with it. */
void berth_books_context_gone(uint64_t context);

size_t berth_books_count(void);
/* In a fork child: the books are the parent's. */
void berth_books_forget(void);

#endif
