/* SPDX-License-Identifier: BSD-2-Clause */
/* All lanes of a timer, and which of them is whose; lane.h argues. */
#ifndef HWT_LANES_H
#define HWT_LANES_H

#include "lane/lane.h"

/* Returns 0 or ENOMEM. */
int hwt_lanes_init(struct hwt_lanes *lanes, hwt_timer *timer, uint32_t places, const hwt_config *config);
void hwt_lanes_destroy(struct hwt_lanes *lanes);

/* Returns the lane at a place, and makes it if there is none.  NULL without memory. */
struct hwt_lane *hwt_lanes_make(struct hwt_lanes *lanes, uint32_t place);

/* Refuses submissions from now on.  Waits for those in progress. */
void hwt_lanes_close(struct hwt_lanes *lanes);

/* Counts a submission that found no lane.  Returns ENOMEM. */
int hwt_lanes_refuse(struct hwt_lanes *lanes);

/* Slow half of lanes_home: gives the thread its number, makes its lane. */
struct hwt_lane *hwt_lanes_make_home(struct hwt_lanes *lanes);

/* Returns the home lane of the calling thread.  NULL: there is none yet, and no memory for it. */
static inline struct hwt_lane *lanes_home(struct hwt_lanes *lanes)
{
	uint32_t number = hwt_own_number;
	struct hwt_lane *lane;

	if (likely(number != 0)) {
		lane = lanes_at(lanes, number & lanes->last_place);
		if (likely(lane != NULL))
			return lane;
	}
	return hwt_lanes_make_home(lanes);
}

/* The home lane of the calling thread in the timer that it last used. */
struct hwt_home {
	uint64_t id;
	struct hwt_lane *lane;
};

extern HWT_OWN struct hwt_home hwt_home;
struct hwt_lane *hwt_lanes_find_home(const struct hwt_lane *of);

/*
 * Returns the home lane in the timer of a record, whose lane is `of`; another lane if there is no memory for it.  The
 * thread remembers its last answer.  So the processor need not wait for the record's cache line to know the lane: it
 * predicts the comparison and goes on, perhaps as far as the next cancel.
 *
 * Most often the record is of the home lane itself.  If that was the home in a timer that has been destroyed, and its
 * memory serves this one, it is a lane of this one all the same.  NULL for NULL: see record_lane.
 */
static inline struct hwt_lane *lanes_home_guessed(const struct hwt_lane *of)
{
	struct hwt_lane *home = hwt_home.lane;

	if (likely(of == home))
		return home;
	return likely(of != NULL && of->id == hwt_home.id) ? home : hwt_lanes_find_home(of);
}

/* Sums over the lanes.  The caller keeps the order of [count]. */
uint64_t hwt_lanes_accepted(const struct hwt_lanes *lanes);
uint64_t hwt_lanes_cancelled(const struct hwt_lanes *lanes);
uint64_t hwt_lanes_rearmed(const struct hwt_lanes *lanes);
uint64_t hwt_lanes_rescheduled(const struct hwt_lanes *lanes);

/* Returns how many records have ever been kept, in all lanes. */
uint64_t hwt_lanes_kept(const struct hwt_lanes *lanes);

/* Adds what all lanes and the slabs hold and have refused.  The numbers of a lane are of one moment. */
void hwt_lanes_tally(const struct hwt_lanes *lanes, hwt_stats *stats);

/* Returns true if there is nothing for the worker in any lane. */
bool hwt_lanes_are_empty(struct hwt_lanes *lanes);

/*
 * Of a timer that its caller drives: returns true if what is in the lanes can wait for the end of the tick.  Nothing is
 * due by due_ns, no finaliser is to be called, no lane is long, and with `cancels` false nothing was cancelled in the
 * wheel.
 */
bool hwt_lanes_can_wait(struct hwt_lanes *lanes, int64_t due_ns, bool cancels);

/* Takes note of all that hurries, before the queues are drained. */
void hwt_lanes_take_hurry(struct hwt_lanes *lanes);

#endif
