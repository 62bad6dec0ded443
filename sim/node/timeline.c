/* SPDX-License-Identifier: Apache-2.0
 *
 * See timeline.h. Invariants between calls: served_ns <= submitted_ns; a seat is in active[]
 * exactly once if it has something pending, else not; kinks rise in both coordinates.
 */
#include "sim/node/timeline.h"

#include <string.h>

static uint64_t pending_ns(const struct sim_timeline_seat *seat)
{
	return seat->submitted_ns - seat->served_ns;
}

static void kink(struct sim_timeline *line, struct sim_timeline_seat *seat)
{
	struct sim_timeline_kink *last = &seat->kinks[(seat->kinks_count - 1) % SIM_TIMELINE_KINKS];

	if (seat->kinks_count && last->at_ns == line->now_ns)
		return;
	seat->kinks[seat->kinks_count++ % SIM_TIMELINE_KINKS] =
		(struct sim_timeline_kink){ line->now_ns, seat->served_ns };
}

/* The rate of every active seat changes here. */
static void kink_all(struct sim_timeline *line)
{
	for (uint32_t i = 0; i < line->active_count; i++)
		kink(line, &line->seats[line->active[i]]);
}

/* Make the buckets up to that of at_ns current, those between empty. */
static void use_reach(struct sim_timeline_use *use, uint64_t bucket)
{
	if (bucket <= use->last_bucket)
		return;
	if (bucket - use->last_bucket >= SIM_TIMELINE_BUCKETS) {
		memset(use->busy_ns, 0, sizeof(use->busy_ns));
	} else {
		for (uint64_t b = use->last_bucket + 1; b <= bucket; b++)
			use->busy_ns[b % SIM_TIMELINE_BUCKETS] = 0;
	}
	use->last_bucket = bucket;
}

/* The stretch of length_ns from from_ns on was busy for 1/slices of the time. */
static void use_add(struct sim_timeline_use *use, uint64_t from_ns, uint64_t length_ns,
		    uint32_t slices)
{
	uint64_t end_ns = from_ns + length_ns;
	uint64_t kept_ns = (uint64_t)SIM_TIMELINE_BUCKETS * SIM_TIMELINE_BUCKET_NS;

	if (length_ns > kept_ns)
		from_ns = end_ns - kept_ns;
	while (from_ns < end_ns) {
		uint64_t bucket = from_ns / SIM_TIMELINE_BUCKET_NS;
		uint64_t next_ns = (bucket + 1) * SIM_TIMELINE_BUCKET_NS;
		uint64_t until_ns = next_ns < end_ns ? next_ns : end_ns;

		use_reach(use, bucket);
		use->busy_ns[bucket % SIM_TIMELINE_BUCKETS] +=
			(uint32_t)((until_ns - from_ns) / slices);
		from_ns = until_ns;
	}
}

/* All active seats get each_ns; the caller saw to it that none has less pending. */
static void serve(struct sim_timeline *line, uint64_t each_ns)
{
	uint64_t length_ns = each_ns * line->active_count;

	for (uint32_t i = 0; i < line->active_count; i++) {
		struct sim_timeline_seat *seat = &line->seats[line->active[i]];

		use_add(&seat->use, line->now_ns, length_ns, line->active_count);
		seat->served_ns += each_ns;
		seat->last_busy_ns = line->now_ns + length_ns;
	}
	use_add(&line->use, line->now_ns, length_ns, 1);
	line->busy_ns += length_ns;
	line->now_ns += length_ns;
}

/* Take the seats that have nothing left out of the active ones. */
static void retire(struct sim_timeline *line)
{
	uint32_t kept = 0;

	kink_all(line);
	for (uint32_t i = 0; i < line->active_count; i++) {
		if (pending_ns(&line->seats[line->active[i]]))
			line->active[kept++] = line->active[i];
	}
	line->active_count = kept;
}

static uint64_t least_pending_ns(const struct sim_timeline *line)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < line->active_count; i++) {
		uint64_t pending = pending_ns(&line->seats[line->active[i]]);

		least = pending < least ? pending : least;
	}
	return least;
}

void sim_timeline_advance(struct sim_timeline *line, uint64_t now_ns)
{
	while (line->active_count && line->now_ns < now_ns) {
		uint64_t share_ns = (now_ns - line->now_ns) / line->active_count;
		uint64_t least_ns = least_pending_ns(line);

		if (share_ns < least_ns) {
			/* A rest of less than active_count ns is left for the next time. */
			serve(line, share_ns);
			return;
		}
		serve(line, least_ns);
		retire(line);
	}
	if (line->now_ns < now_ns)
		line->now_ns = now_ns;
}

static void deactivate(struct sim_timeline *line, uint32_t seat)
{
	for (uint32_t i = 0; i < line->active_count; i++) {
		if (line->active[i] != seat)
			continue;
		kink_all(line);
		line->active[i] = line->active[--line->active_count];
		return;
	}
}

void sim_timeline_seat_reset(struct sim_timeline *line, uint32_t seat)
{
	deactivate(line, seat);
	memset(&line->seats[seat], 0, sizeof(line->seats[seat]));
}

uint64_t sim_timeline_submit(struct sim_timeline *line, uint32_t seat, uint64_t cost_ns)
{
	struct sim_timeline_seat *mine = &line->seats[seat];

	if (cost_ns == 0)
		return mine->submitted_ns;
	if (pending_ns(mine) == 0) {
		kink_all(line);
		kink(line, mine);
		line->active[line->active_count++] = (uint16_t)seat;
	}
	mine->submitted_ns += cost_ns;
	return mine->submitted_ns;
}

bool sim_timeline_done(const struct sim_timeline *line, uint32_t seat, uint64_t mark)
{
	return line->seats[seat].served_ns >= mark;
}

uint64_t sim_timeline_when(const struct sim_timeline *line, uint32_t seat, uint64_t mark)
{
	const struct sim_timeline_seat *mine = &line->seats[seat];
	uint64_t oldest =
		mine->kinks_count > SIM_TIMELINE_KINKS ? mine->kinks_count - SIM_TIMELINE_KINKS : 0;
	struct sim_timeline_kink end = { line->now_ns, mine->served_ns };

	for (uint64_t i = mine->kinks_count; i > oldest; i--) {
		struct sim_timeline_kink start = mine->kinks[(i - 1) % SIM_TIMELINE_KINKS];

		if (start.served_ns < mark) {
			__extension__ unsigned __int128 rise = mark - start.served_ns;

			rise = rise * (end.at_ns - start.at_ns) / (end.served_ns - start.served_ns);
			return start.at_ns + (uint64_t)rise;
		}
		end = start;
	}
	return end.at_ns;
}

uint64_t sim_timeline_least_wait(const struct sim_timeline *line, uint32_t seat, uint64_t mark)
{
	uint64_t served_ns = line->seats[seat].served_ns;

	return mark > served_ns ? mark - served_ns : 0;
}

void sim_timeline_run_to(struct sim_timeline *line, uint32_t seat, uint64_t mark)
{
	uint64_t left;

	while ((left = sim_timeline_least_wait(line, seat, mark)) != 0)
		sim_timeline_advance(line, line->now_ns + left + line->active_count);
}

static uint32_t use_pct(const struct sim_timeline_use *use, uint64_t now_ns, uint64_t window_ns)
{
	uint64_t last = now_ns / SIM_TIMELINE_BUCKET_NS;
	uint64_t buckets = window_ns / SIM_TIMELINE_BUCKET_NS;
	uint64_t span_ns = now_ns % SIM_TIMELINE_BUCKET_NS;
	uint64_t busy_ns = 0;

	if (buckets > SIM_TIMELINE_BUCKETS - 1)
		buckets = SIM_TIMELINE_BUCKETS - 1;
	if (buckets > last)
		buckets = last;
	span_ns += buckets * SIM_TIMELINE_BUCKET_NS;
	for (uint64_t b = last - buckets; b <= last; b++) {
		if (b <= use->last_bucket && use->last_bucket - b < SIM_TIMELINE_BUCKETS)
			busy_ns += use->busy_ns[b % SIM_TIMELINE_BUCKETS];
	}
	return span_ns ? (uint32_t)((busy_ns * 100 + span_ns / 2) / span_ns) : 0;
}

uint32_t sim_timeline_use_pct(const struct sim_timeline *line, uint64_t window_ns)
{
	return use_pct(&line->use, line->now_ns, window_ns);
}

uint32_t sim_timeline_seat_use_pct(const struct sim_timeline *line, uint32_t seat,
				   uint64_t window_ns)
{
	return use_pct(&line->seats[seat].use, line->now_ns, window_ns);
}

void sim_timeline_repair(struct sim_timeline *line)
{
	line->active_count = 0;
	for (uint32_t i = 0; i < SIM_TIMELINE_SEATS; i++) {
		struct sim_timeline_seat *seat = &line->seats[i];

		if (seat->served_ns > seat->submitted_ns)
			seat->served_ns = seat->submitted_ns;
		if (pending_ns(seat))
			line->active[line->active_count++] = (uint16_t)i;
	}
	kink_all(line);
}
