/* SPDX-License-Identifier: Apache-2.0
 *
 * Two sweeps over sorted events. The first keeps what is surely held as a list. The second sums up
 * by how much the possibly held exceed the smallest possible limit; a tree of maxima answers "the
 * most between these two instants" for each refusal.
 */
#include "judge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

struct event {
	uint64_t at_ns;
	int64_t bytes;
	const struct judge_note *note; /* first sweep; NULL: a change of the limit */
	uint32_t hold;                 /* its place in the list */
};

struct sweep {
	const struct judge_limits *limits;
	struct event *events;
	size_t count;
	/* What is surely held at the instant, linked both ways. */
	struct hold {
		const struct judge_note *note;
		uint32_t before;
		uint32_t after;
	} * holds;
	uint32_t hold_count;
	uint32_t first;
};

static int by_time(const void *a, const void *b)
{
	const struct event *x = a;
	const struct event *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static void event_add(struct sweep *sweep, uint64_t at_ns, int64_t bytes,
		      const struct judge_note *note, uint32_t hold)
{
	sweep->events[sweep->count++] = (struct event){ at_ns, bytes, note, hold };
}

static void events_sort(struct sweep *sweep)
{
	qsort(sweep->events, sweep->count, sizeof *sweep->events, by_time);
}

/* The index of the last change that was called by then. */
static uint32_t limit_called(const struct judge_limits *limits, uint64_t at_ns)
{
	uint32_t low = 0;
	uint32_t high = limits->count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (limits->list[middle].call_ns <= at_ns)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The largest that was possibly in force at some instant of [from, to]. */
static uint64_t limit_max(const struct judge_limits *limits, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t i = limit_called(limits, to_ns);
	uint64_t most = limits->list[i].bytes;

	for (; i > 0 && limits->list[i].return_ns >= from_ns; i--)
		most = limits->list[i - 1].bytes > most ? limits->list[i - 1].bytes : most;
	return most;
}

/* ---- over ---- */

/* Surely held: [ask's return, refund's call), or until the signal. */
static void sure_add(struct sweep *sweep, const struct judge_log *log,
		     const struct judge_note *note)
{
	uint64_t end = note->refund_call_ns ? note->refund_call_ns
		       : log->killed_ns     ? log->killed_ns
					    : UINT64_MAX;

	if (!note->granted_ns || note->granted_ns >= end)
		return;
	uint32_t hold = sweep->hold_count++;
	event_add(sweep, note->granted_ns, (int64_t)note->bytes, note, hold);
	event_add(sweep, end, -(int64_t)note->bytes, note, hold);
}

static void hold_enter(struct sweep *sweep, uint32_t index, const struct judge_note *note)
{
	sweep->holds[index] =
		(struct hold){ .note = note, .before = NOBODY, .after = sweep->first };
	if (sweep->first != NOBODY)
		sweep->holds[sweep->first].before = index;
	sweep->first = index;
}

static void hold_leave(struct sweep *sweep, uint32_t index)
{
	struct hold *hold = &sweep->holds[index];

	if (hold->before == NOBODY)
		sweep->first = hold->after;
	else
		sweep->holds[hold->before].after = hold->after;
	if (hold->after != NOBODY)
		sweep->holds[hold->after].before = hold->before;
}

/* The largest limit possibly in force during the ask of any that may have been granted last. */
static uint64_t bound_of_held(const struct sweep *sweep)
{
	uint64_t latest_call_ns = 0;
	uint64_t most = 0;

	for (uint32_t i = sweep->first; i != NOBODY; i = sweep->holds[i].after) {
		if (sweep->holds[i].note->ask_call_ns > latest_call_ns)
			latest_call_ns = sweep->holds[i].note->ask_call_ns;
	}
	for (uint32_t i = sweep->first; i != NOBODY; i = sweep->holds[i].after) {
		const struct judge_note *note = sweep->holds[i].note;

		if (note->granted_ns < latest_call_ns)
			continue;
		uint64_t bytes = limit_max(sweep->limits, note->ask_call_ns, note->granted_ns);
		most = bytes > most ? bytes : most;
	}
	return most;
}

/* After all of one instant: what came at it. */
static void held_judge(const struct sweep *sweep, const struct event *event, uint64_t held,
		       struct judge_verdict *verdict)
{
	const struct judge_note *note = event->note;

	if (!note) {
		verdict->below_count += held > (uint64_t)event->bytes;
		return;
	}
	/* Cheap, and nearly always enough: this one comes into question too. */
	if (event->bytes < 0 ||
	    held <= limit_max(sweep->limits, note->ask_call_ns, note->granted_ns))
		return;
	uint64_t bound = bound_of_held(sweep);
	if (held > bound && held - bound > verdict->overshoot_bytes)
		verdict->overshoot_bytes = held - bound;
}

static void sure_sweep(struct sweep *sweep, struct judge_verdict *verdict)
{
	int64_t held = 0;

	sweep->first = NOBODY;
	for (size_t i = 0; i < sweep->count;) {
		size_t start = i;

		for (; i < sweep->count && sweep->events[i].at_ns == sweep->events[start].at_ns;
		     i++) {
			const struct event *event = &sweep->events[i];

			if (!event->note)
				continue;
			held += event->bytes;
			if (event->bytes > 0)
				hold_enter(sweep, event->hold, event->note);
			else
				hold_leave(sweep, event->hold);
		}
		for (size_t j = start; j < i; j++)
			held_judge(sweep, &sweep->events[j], (uint64_t)held, verdict);
		if ((uint64_t)held > verdict->held_max_bytes)
			verdict->held_max_bytes = (uint64_t)held;
	}
}

static void over_judge(struct sweep *sweep, const struct judge_log *logs, uint32_t log_count,
		       struct judge_verdict *verdict)
{
	sweep->count = 0;
	for (uint32_t l = 0; l < log_count; l++) {
		for (uint32_t n = 0; n < logs[l].note_count; n++)
			sure_add(sweep, &logs[l], &logs[l].notes[n]);
	}
	for (uint32_t i = 1; i < sweep->limits->count; i++)
		event_add(sweep, sweep->limits->list[i].return_ns,
			  (int64_t)sweep->limits->list[i].bytes, NULL, 0);
	events_sort(sweep);
	sure_sweep(sweep, verdict);
}

/* ---- false refusals ---- */

/* leaves[i] = right after event i, by how much what is possibly held exceeds the smallest possible
 * limit; the inner nodes hold maxima. */
struct maxima {
	int64_t *node;
	size_t leaves;
};

/* Possibly held: [ask's call, refund's return], or until the end was seen. */
static void possible_add(struct sweep *sweep, const struct judge_log *log,
			 const struct judge_note *note)
{
	uint64_t end = note->refund_return_ns ? note->refund_return_ns
		       : log->gone_ns         ? log->gone_ns
					      : UINT64_MAX - 1;

	if (note->refused_ns || note->ask_call_ns > end)
		return;
	event_add(sweep, note->ask_call_ns, (int64_t)note->bytes, NULL, 0);
	event_add(sweep, end + 1, -(int64_t)note->bytes, NULL, 0);
}

/* From a change's call to its return either of the two limits is possible. */
static void limits_add(struct sweep *sweep)
{
	const struct judge_limit *list = sweep->limits->list;

	event_add(sweep, 0, -(int64_t)list[0].bytes, NULL, 0);
	for (uint32_t i = 1; i < sweep->limits->count; i++) {
		int64_t before = (int64_t)list[i - 1].bytes;
		int64_t after = (int64_t)list[i].bytes;
		int64_t least = before < after ? before : after;

		event_add(sweep, list[i].call_ns, before - least, NULL, 0);
		event_add(sweep, list[i].return_ns + 1, least - after, NULL, 0);
	}
}

static void maxima_build(struct maxima *maxima, const struct sweep *sweep)
{
	int64_t beyond = 0;

	for (size_t i = 0; i < sweep->count; i++) {
		beyond += sweep->events[i].bytes;
		maxima->node[maxima->leaves + i] = beyond;
	}
	for (size_t i = sweep->count; i < maxima->leaves; i++)
		maxima->node[maxima->leaves + i] = INT64_MIN;
	for (size_t i = maxima->leaves - 1; i > 0; i--) {
		int64_t left = maxima->node[2 * i];
		int64_t right = maxima->node[2 * i + 1];

		maxima->node[i] = left > right ? left : right;
	}
}

static int64_t maxima_between(const struct maxima *maxima, size_t first, size_t end)
{
	int64_t most = INT64_MIN;

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
static size_t events_until(const struct sweep *sweep, uint64_t at_ns)
{
	size_t low = 0;
	size_t high = sweep->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sweep->events[middle].at_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool refusal_is_false(const struct sweep *sweep, const struct maxima *maxima,
			     const struct judge_note *note)
{
	/* From the state at the call on; the first event is the first limit's. */
	size_t first = events_until(sweep, note->ask_call_ns) - 1;
	size_t end = events_until(sweep, note->refused_ns);
	int64_t most = maxima_between(maxima, first, end);

	return most <= 0 && note->bytes <= (uint64_t)-most;
}

static void refusals_judge(struct sweep *sweep, struct maxima *maxima, const struct judge_log *logs,
			   uint32_t log_count, struct judge_verdict *verdict)
{
	sweep->count = 0;
	limits_add(sweep);
	for (uint32_t l = 0; l < log_count; l++) {
		for (uint32_t n = 0; n < logs[l].note_count; n++)
			possible_add(sweep, &logs[l], &logs[l].notes[n]);
	}
	events_sort(sweep);
	maxima_build(maxima, sweep);
	for (uint32_t l = 0; l < log_count; l++) {
		for (uint32_t n = 0; n < logs[l].note_count; n++)
			verdict->false_refusal_count +=
				logs[l].notes[n].refused_ns &&
				refusal_is_false(sweep, maxima, &logs[l].notes[n]);
	}
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

int judge_decide(const struct judge_log *logs, uint32_t log_count,
		 const struct judge_limits *limits, struct judge_verdict *ret_verdict)
{
	struct judge_verdict verdict = { 0 };
	struct sweep sweep = { .limits = limits };
	struct maxima maxima = { .leaves = 1 };

	counts_add(logs, log_count, &verdict);
	size_t event_max = 2 * (verdict.ask_count + limits->count);
	while (maxima.leaves < event_max)
		maxima.leaves *= 2;
	sweep.events = calloc(event_max, sizeof *sweep.events);
	sweep.holds = calloc(verdict.ask_count + 1, sizeof *sweep.holds);
	maxima.node = calloc(2 * maxima.leaves, sizeof *maxima.node);
	int r = sweep.events && sweep.holds && maxima.node ? 0 : -ENOMEM;

	if (r == 0) {
		over_judge(&sweep, logs, log_count, &verdict);
		refusals_judge(&sweep, &maxima, logs, log_count, &verdict);
		*ret_verdict = verdict;
	}
	free(sweep.events);
	free(sweep.holds);
	free(maxima.node);
	return r;
}
