/* SPDX-License-Identifier: Apache-2.0
 *
 * Two sweeps over sorted events; a tree of maxima answers "the most that was possibly held between
 * these two instants" for each refusal.
 */
#include "judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct event {
	uint64_t at_ns;
	int64_t bytes;
};

struct events {
	struct event *list;
	size_t count;
};

static int by_time(const void *a, const void *b)
{
	const struct event *x = a;
	const struct event *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static void events_add(struct events *events, uint64_t from_ns, uint64_t to_ns, uint64_t bytes)
{
	if (from_ns >= to_ns)
		return;
	events->list[events->count++] = (struct event){ from_ns, (int64_t)bytes };
	events->list[events->count++] = (struct event){ to_ns, -(int64_t)bytes };
}

/* Surely held: [ask's return, refund's call), or until the signal. */
static void sure_add(struct events *events, const struct judge_log *log,
		     const struct judge_note *note)
{
	uint64_t end = note->refund_call_ns ? note->refund_call_ns
		       : log->killed_ns     ? log->killed_ns
					    : UINT64_MAX;

	if (note->granted_ns)
		events_add(events, note->granted_ns, end, note->bytes);
}

/* Possibly held: [ask's call, refund's return], or until the end was seen. */
static void possible_add(struct events *events, const struct judge_log *log,
			 const struct judge_note *note)
{
	uint64_t end = note->refund_return_ns ? note->refund_return_ns
		       : log->gone_ns         ? log->gone_ns
					      : UINT64_MAX - 1;

	if (!note->refused_ns)
		events_add(events, note->ask_call_ns, end + 1, note->bytes);
}

static void events_collect(const struct judge_log *logs, uint32_t log_count, struct events *events,
			   void (*add)(struct events *, const struct judge_log *,
				       const struct judge_note *))
{
	events->count = 0;
	for (uint32_t l = 0; l < log_count; l++) {
		for (uint32_t n = 0; n < logs[l].note_count; n++)
			add(events, &logs[l], &logs[l].notes[n]);
	}
	qsort(events->list, events->count, sizeof *events->list, by_time);
}

static uint64_t held_max(const struct events *events)
{
	int64_t held = 0;
	int64_t most = 0;

	for (size_t i = 0; i < events->count;) {
		uint64_t at_ns = events->list[i].at_ns;

		for (; i < events->count && events->list[i].at_ns == at_ns; i++)
			held += events->list[i].bytes;
		if (held > most)
			most = held;
	}
	return (uint64_t)most;
}

/* leaves[i] = what was possibly held right after event i; the inner nodes hold maxima. */
struct maxima {
	uint64_t *node;
	size_t leaves;
};

static void maxima_build(struct maxima *maxima, const struct events *events)
{
	int64_t held = 0;

	for (size_t i = 0; i < events->count; i++) {
		held += events->list[i].bytes;
		maxima->node[maxima->leaves + i] = (uint64_t)held;
	}
	for (size_t i = maxima->leaves - 1; i > 0; i--) {
		uint64_t left = maxima->node[2 * i];
		uint64_t right = maxima->node[2 * i + 1];

		maxima->node[i] = left > right ? left : right;
	}
}

static uint64_t maxima_between(const struct maxima *maxima, size_t first, size_t end)
{
	uint64_t most = 0;

	for (first += maxima->leaves, end += maxima->leaves; first < end; first /= 2, end /= 2) {
		if (first & 1) {
			most = maxima->node[first] > most ? maxima->node[first] : most;
			first++;
		}
		if (end & 1) {
			end--;
			most = maxima->node[end] > most ? maxima->node[end] : most;
		}
	}
	return most;
}

/* How many events lie before or at the instant. */
static size_t events_until(const struct events *events, uint64_t at_ns)
{
	size_t low = 0;
	size_t high = events->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (events->list[middle].at_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint64_t false_refusals(const struct judge_log *logs, uint32_t log_count,
			       const struct events *events, const struct maxima *maxima,
			       uint64_t limit_bytes)
{
	uint64_t count = 0;

	for (uint32_t l = 0; l < log_count; l++) {
		for (uint32_t n = 0; n < logs[l].note_count; n++) {
			const struct judge_note *note = &logs[l].notes[n];

			if (!note->refused_ns)
				continue;
			/* From the state at the call on. */
			size_t first = events_until(events, note->ask_call_ns);
			size_t end = events_until(events, note->refused_ns);
			uint64_t most = maxima_between(maxima, first ? first - 1 : 0, end);
			count += most + note->bytes <= limit_bytes;
		}
	}
	return count;
}

static void counts_add(const struct judge_log *logs, uint32_t log_count,
		       struct judge_verdict *verdict)
{
	for (uint32_t l = 0; l < log_count; l++) {
		verdict->ask_count += logs[l].note_count;
		for (uint32_t n = 0; n < logs[l].note_count; n++) {
			verdict->grant_count += logs[l].notes[n].granted_ns != 0;
			verdict->refusal_count += logs[l].notes[n].refused_ns != 0;
		}
	}
}

int judge_decide(const struct judge_log *logs, uint32_t log_count, uint64_t limit_bytes,
		 struct judge_verdict *ret_verdict)
{
	struct judge_verdict verdict = { 0 };
	struct maxima maxima = { .leaves = 1 };

	counts_add(logs, log_count, &verdict);
	while (maxima.leaves < 2 * verdict.ask_count + 2)
		maxima.leaves *= 2;
	struct events events = { .list = calloc(2 * verdict.ask_count + 2, sizeof(struct event)) };
	maxima.node = calloc(2 * maxima.leaves, sizeof *maxima.node);
	int r = events.list && maxima.node ? 0 : -ENOMEM;

	if (r == 0) {
		events_collect(logs, log_count, &events, sure_add);
		verdict.held_max_bytes = held_max(&events);
		if (verdict.held_max_bytes > limit_bytes)
			verdict.overshoot_bytes = verdict.held_max_bytes - limit_bytes;
		events_collect(logs, log_count, &events, possible_add);
		maxima_build(&maxima, &events);
		verdict.false_refusal_count =
			false_refusals(logs, log_count, &events, &maxima, limit_bytes);
		*ret_verdict = verdict;
	}
	free(events.list);
	free(maxima.node);
	return r;
}
