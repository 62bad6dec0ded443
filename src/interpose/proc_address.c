/* SPDX-License-Identifier: Apache-2.0
 *
 * cuGetProcAddress, both forms. The driver answers first, in all respects: code, status and whether
 * there is a pointer at all. Only then is the pointer exchanged, if it is a function that is hooked, for
 * our function of exactly that form.
 *
 * Which form a pointer is can be known in two ways.
 *  1. It equals the address that the driver exports for one of the base name's forms. That needs no
 *     table of versions and is right for drivers newer than this file.
 *  2. A driver may hand out addresses that it exports nowhere. Then symbols.def says which form the
 *     version and the flags select among those that this driver has; and the driver confirms: it must
 *     give the same pointer when asked for the version at which that form begins, and another one (or
 *     none) for the version before. Where driver and table disagree, the pointer is handed out as it
 *     is, never as its neighbour.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/attributes.h"
#include "base/log.h"
#include "driver/driver.h"
#include "interpose/init.h"
#include "interpose/name_index.h"
#include "interpose/real.h"

enum stream {
	STREAM_PLAIN,
	STREAM_PTDS,
	STREAM_PTSZ,
};

/* A row of symbols.def, in its order, which is also that of the pointers in struct berth_driver. */
struct form {
	const char *base;
	int since_version;
	enum stream stream;
	void *hook; /* NULL: not hooked */
};

#define HOOK_OF_HOOK(symbol) ((void *)(symbol))
#define HOOK_OF_USE(symbol)  NULL
#define HOOK_OF_FORM(symbol) NULL

static const struct form forms[] = {
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) \
	{ #base, since_version, STREAM_##stream, HOOK_OF_##kind(symbol) },
#include "driver/symbols.def"
};

/* Each row twice: programs ask for base names; a driver that answers to a full name is understood. */
static const char *const form_names[] = {
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) #base, #symbol,
#include "driver/symbols.def"
};

static struct berth_name_index form_index = {
	.names = form_names,
	.name_count = BERTH_ARRAY_LEN(form_names),
};

/* All forms of one base name. */
struct group {
	size_t first;
	size_t end;
};

struct request {
	const struct berth_driver *driver;
	const char *symbol;
	int cuda_version;
	uint64_t flags;
};

static bool group_find(const char *symbol, struct group *group)
{
	int at = berth_name_index_find(&form_index, symbol);
	size_t row;

	if (at < 0)
		return false;
	row = (size_t)at / 2;
	group->first = row;
	group->end = row + 1;
	while (group->first > 0 && strcmp(forms[group->first - 1].base, forms[row].base) == 0)
		group->first--;
	while (group->end < BERTH_ARRAY_LEN(forms) &&
	       strcmp(forms[group->end].base, forms[row].base) == 0)
		group->end++;
	return true;
}

static bool group_hooked(const struct group *group)
{
	for (size_t row = group->first; row < group->end; row++) {
		if (forms[row].hook != NULL)
			return true;
	}
	return false;
}

/* What the driver exports under the row's name, NULL if this driver does not. */
static void *exported(const struct berth_driver *driver, size_t row)
{
	void *address;

	memcpy(&address, (const char *)driver + row * sizeof(address), sizeof(address));
	return address;
}

/* The driver's answer to another version of the request. */
static void *ask_again(const struct request *request, int cuda_version)
{
	const struct berth_driver *driver = request->driver;
	CUdriverProcAddressQueryResult status;
	void *address = NULL;
	CUresult result = CUDA_ERROR_NOT_FOUND;

	if (driver->cuGetProcAddress_v2 != NULL)
		result = driver->cuGetProcAddress_v2(request->symbol, &address, cuda_version,
						     request->flags, &status);
	else if (driver->cuGetProcAddress != NULL)
		result = driver->cuGetProcAddress(request->symbol, &address, cuda_version,
						  request->flags);
	return result == CUDA_SUCCESS ? address : NULL;
}

/* The newest form up to the version that the driver has, of the wanted streams; -1: none. */
static int newest_form(const struct request *request, const struct group *group, bool per_thread)
{
	int newest = -1;

	for (size_t row = group->first; row < group->end; row++) {
		if ((forms[row].stream != STREAM_PLAIN) != per_thread)
			continue;
		if (forms[row].since_version > request->cuda_version ||
		    exported(request->driver, row) == NULL)
			continue;
		if (newest < 0 || forms[row].since_version >= forms[newest].since_version)
			newest = (int)row;
	}
	return newest;
}

/* What symbols.def makes of the request. Functions without a per-thread form have just one. */
static int table_form(const struct request *request, const struct group *group)
{
	int row = -1;

	if ((request->flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0)
		row = newest_form(request, group, true);
	return row >= 0 ? row : newest_form(request, group, false);
}

/* The row whose function the driver answered with; -1: none that we know. */
static int form_of(const struct request *request, const struct group *group, const void *address)
{
	int row = table_form(request, group);

	/* The table's choice first: a driver may export one address under two names. */
	if (row >= 0 && exported(request->driver, (size_t)row) == address)
		return row;
	for (size_t i = group->first; i < group->end; i++) {
		if (exported(request->driver, i) == address)
			return (int)i;
	}
	if (row >= 0 && ask_again(request, forms[row].since_version) == address &&
	    ask_again(request, forms[row].since_version - 1) != address)
		return row;
	return -1;
}

static void exchange(const struct request *request, void **pfn)
{
	struct group group;
	int row;

	if (request->symbol == NULL || pfn == NULL || *pfn == NULL)
		return;
	if (!group_find(request->symbol, &group) || !group_hooked(&group))
		return;
	row = form_of(request, &group, *pfn);
	if (row < 0)
		berth_log_once(
			berth_unlimited_level(),
			"the driver answers %s for CUDA %d with a form that is not known here: "
			"calls through it are not limited",
			request->symbol, request->cuda_version);
	else if (forms[row].hook != NULL)
		*pfn = forms[row].hook;
}

BERTH_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cuda_version,
				       uint64_t flags)
{
	const struct request request = { berth_driver(), symbol, cuda_version, flags };
	CUresult result = REAL(cuGetProcAddress, symbol, pfn, cuda_version, flags);

	if (result == CUDA_SUCCESS)
		exchange(&request, pfn);
	return result;
}

BERTH_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version,
					  uint64_t flags, CUdriverProcAddressQueryResult *status)
{
	const struct request request = { berth_driver(), symbol, cuda_version, flags };
	CUresult result = REAL(cuGetProcAddress_v2, symbol, pfn, cuda_version, flags, status);

	if (result == CUDA_SUCCESS)
		exchange(&request, pfn);
	return result;
}
