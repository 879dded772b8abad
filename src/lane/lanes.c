/* SPDX-License-Identifier: BSD-2-Clause */
/* All lanes of a timer: making them, closing them, adding up their counts; lane.h. */
#include "lane/lane.h"
#include "base/mem.h"

#include <errno.h>

static _Atomic uint64_t last_id;

HWT_OWN struct hwt_home hwt_home;

/* Allocates the two tables of lanes, by seat and by turn, without a lane. */
static int init_seats(struct hwt_lanes *lanes, uint32_t seats)
{
	lanes->last_seat = seats - 1;
	lanes->seat = hwt_mem_zeroed(alignof(hwt_seat), seats * sizeof(*lanes->seat));
	lanes->made = hwt_mem_zeroed(alignof(struct hwt_lane *), seats * sizeof(struct hwt_lane *));
	if (lanes->seat != NULL && lanes->made != NULL)
		return 0;
	hwt_mem_free(lanes->seat);
	hwt_mem_free(lanes->made);
	return ENOMEM;
}

int hwt_lanes_init(struct hwt_lanes *lanes, hwt_timer *timer, uint32_t seats, const hwt_config *config)
{
	int rc;

	*lanes = (struct hwt_lanes){
		.timer = timer,
		/* Relaxed: ids only have to differ. */
		.id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1,
		.max_pending = config->max_pending_timeouts > 0 ? config->max_pending_timeouts : 0,
		.is_driven = (config->flags & HWT_CALLER_DRIVEN) != 0,
		.hurry_ns = INT64_MAX,
	};
	lanes->asks_more = lanes->is_driven || lanes->max_pending > 0;
	rc = hwt_idle_init(&lanes->idle, config);
	if (rc != 0)
		return rc;
	rc = hwt_waiters_init(&lanes->waiters, &lanes->idle);
	if (rc != 0)
		goto no_waiters;
	rc = pthread_mutex_init(&lanes->making, NULL);
	if (rc != 0)
		goto no_mutex;
	rc = init_seats(lanes, seats);
	if (rc == 0)
		return 0;
	pthread_mutex_destroy(&lanes->making);
no_mutex:
	hwt_waiters_destroy(&lanes->waiters);
no_waiters:
	hwt_idle_destroy(&lanes->idle);
	return rc;
}

static void destroy_lane(struct hwt_lane *lane)
{
	hwt_queue_destroy(&lane->submitted);
	hwt_queue_destroy(&lane->cancelled);
	hwt_mem_free(lane);
}

void hwt_lanes_destroy(struct hwt_lanes *lanes)
{
	for (uint32_t i = 0; i < lanes_count(lanes); i++)
		destroy_lane(lanes->made[i]);
	hwt_mem_free(lanes->made);
	hwt_mem_free(lanes->seat);
	hwt_record_slabs_destroy(&lanes->slabs);
	pthread_mutex_destroy(&lanes->making);
	hwt_waiters_destroy(&lanes->waiters);
	hwt_idle_destroy(&lanes->idle);
}

/* Makes a lane, which no other thread can see yet.  Returns NULL if there is no memory. */
static struct hwt_lane *new_lane(struct hwt_lanes *lanes)
{
	struct hwt_lane *lane = hwt_mem_zeroed(HWT_UNIT, sizeof(*lane));

	if (lane == NULL)
		return NULL;
	lane->lanes = lanes;
	lane->id = lanes->id;
	lane->pool = (struct hwt_pool){ .slabs = &lanes->slabs, .owner = lane };
	lane->closed = lanes->closed;
	atomic_init(&lane->earliest_ns, INT64_MAX); /* all other fields are 0 */
	if (hwt_queue_init(&lane->submitted) == 0 && hwt_queue_init(&lane->cancelled) == 0)
		return lane;
	destroy_lane(lane);
	return NULL;
}

struct hwt_lane *hwt_lanes_make(struct hwt_lanes *lanes, uint32_t number)
{
	struct hwt_lane *lane;

	pthread_mutex_lock(&lanes->making);
	lane = lanes_at(lanes, number); /* another thread may have made the lane before this one got the mutex */
	if (lane == NULL && (lane = new_lane(lanes)) != NULL) {
		lane->turn = lanes_count(lanes);
		lanes->made[lane->turn] = lane;
		atomic_store_explicit(&lanes->count, lane->turn + 1, memory_order_release); /* [made] */
		/*
		 * The seat is stored after the count.  A producer that finds the lane at its seat pushes at once, and
		 * the worker visits only counted lanes.  In the other order the worker could miss the push and sleep.
		 */
		atomic_store_explicit(lanes->seat + number, lane, memory_order_release); /* [made] */
	}
	pthread_mutex_unlock(&lanes->making);
	return lane;
}

struct hwt_lane *hwt_lanes_make_home(struct hwt_lanes *lanes)
{
	static _Atomic uint32_t last;
	uint32_t number;
	struct hwt_lane *lane;

	/*
	 * Relaxed: numbers only have to differ.  A thread that gets 0, after 2^32 threads, gets another number at its
	 * next call.
	 */
	if (hwt_own_number == 0)
		hwt_own_number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
	number = hwt_own_number & lanes->last_seat;
	lane = lanes_at(lanes, number);
	return lane != NULL ? lane : hwt_lanes_make(lanes, number);
}

struct hwt_lane *hwt_lanes_find_home(const struct hwt_lane *of)
{
	struct hwt_lane *lane;

	if (of == NULL)
		return NULL;
	lane = lanes_home(of->lanes);
	if (lane == NULL)
		return of->lanes->made[0]; /* it exists: the record's lane does */
	hwt_home = (struct hwt_home){ of->id, lane };
	return lane;
}

void hwt_lanes_close(struct hwt_lanes *lanes)
{
	/* Lanes made from here on are closed from the beginning.  Lanes made before are in the count: [made]. */
	pthread_mutex_lock(&lanes->making);
	lanes->closed = true;
	pthread_mutex_unlock(&lanes->making);
	/* The lock waits for the submission in progress.  The next submission sees `closed`: L3. */
	for (uint32_t i = 0; i < lanes_count(lanes); i++) {
		queue_lock(&lanes->made[i]->submitted);
		lanes->made[i]->closed = true;
		queue_unlock(&lanes->made[i]->submitted);
	}
}

int hwt_lanes_refuse(struct hwt_lanes *lanes)
{
	atomic_fetch_add_explicit(&lanes->refused, 1, memory_order_relaxed); /* relaxed: it only counts */
	return ENOMEM;
}

uint64_t hwt_lanes_sum(const struct hwt_lanes *lanes, size_t offset)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < lanes_count(lanes); i++) {
		const void *number = (const char *)lanes->made[i] + offset;

		sum += atomic_load_explicit((const _Atomic uint64_t *)number, memory_order_acquire);
	}
	return sum;
}

static void tally_lane(struct hwt_lane *lane, hwt_stats *stats)
{
	queue_lock(&lane->submitted);
	stats->refused_limit += lane->refused_limit;
	stats->refused_stopped += lane->refused_stopped;
	stats->refused_memory += lane->refused_memory;
	stats->bytes += sizeof(*lane) + slabs_bytes(&lane->submitted.slabs);
	queue_unlock(&lane->submitted);
	queue_lock(&lane->cancelled);
	stats->bytes += slabs_bytes(&lane->cancelled.slabs);
	queue_unlock(&lane->cancelled);
}

void hwt_lanes_tally(const struct hwt_lanes *lanes, hwt_stats *stats)
{
	/* Relaxed: only a number. */
	stats->refused_memory += atomic_load_explicit(&lanes->refused, memory_order_relaxed);
	stats->records += record_slabs_held(&lanes->slabs) / sizeof(struct hwt_record);
	stats->bytes += record_slabs_bytes(&lanes->slabs) +
			(lanes->last_seat + (size_t)1) * (sizeof(*lanes->seat) + sizeof(*lanes->made));
	for (uint32_t i = 0; i < lanes_count(lanes); i++)
		tally_lane(lanes->made[i], stats);
}

/* The lane's earliest deadline is stored before the push, so it covers every record that the queue shows. */
static int64_t earliest_in(struct hwt_lane *lane, bool cancels)
{
	bool has_cancels = !queue_is_empty(&lane->cancelled), has_new = !queue_is_empty(&lane->submitted);

	if (likely(!has_cancels && !has_new))
		return INT64_MAX;
	if ((has_cancels && cancels) || lane_is_long(lane))
		return HURRY_AT_ONCE;
	/* Relaxed: [push] orders it. */
	return has_new ? atomic_load_explicit(&lane->earliest_ns, memory_order_relaxed) : INT64_MAX;
}

void hwt_lanes_take_hurry(struct hwt_lanes *lanes)
{
	/* Relaxed: a guess.  The exchange acquires, and a hurry after it is for the next advance. */
	if (atomic_load_explicit(&lanes->hurry_ns, memory_order_relaxed) != INT64_MAX)
		(void)atomic_exchange_explicit(&lanes->hurry_ns, INT64_MAX, memory_order_acquire); /* [hurry] */
}

int64_t hwt_lanes_earliest(struct hwt_lanes *lanes, bool cancels)
{
	int64_t earliest_ns = atomic_load_explicit(&lanes->hurry_ns, memory_order_acquire); /* [hurry] */

	for (uint32_t i = 0, count = lanes_count(lanes); i < count; i++) {
		int64_t its_ns = earliest_in(lanes->made[i], cancels);

		earliest_ns = its_ns < earliest_ns ? its_ns : earliest_ns;
	}
	return earliest_ns;
}

/* The worker calls this, too: its last check before it sleeps, behind its fence, [idle]. */
bool hwt_lanes_are_empty(struct hwt_lanes *lanes)
{
	for (uint32_t i = 0, count = lanes_count(lanes); i < count; i++) {
		struct hwt_lane *lane = lanes->made[i];

		if (!queue_is_empty(&lane->submitted) || !queue_is_empty(&lane->cancelled))
			return false;
	}
	return stack_is_empty(&lanes->rearmed) &&
	       atomic_load_explicit(&lanes->hurry_ns, memory_order_acquire) == INT64_MAX; /* [hurry] */
}
