/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The database's clock, as this process estimates it.
 *
 * A reply carries the database's time at some moment between sending and receiving.  time - (CLOCK_MONOTONIC at the
 * receipt) is a lower bound of the offset, wrong by at most the round trip.  A sample with a short round trip is better
 * than one with a long round trip, which counts only if it contradicts the estimate.
 *
 * The estimate keeps no timeout from being early: the begin statement does.  It only decides when a begin is tried.
 */
#include "store/asks.h"
#include "store/clock.h"
#include "store/store.h"

#define MOVED_NS HWT_MS(1)

/*
 * A clock that is wrong for a moment must not move the grid of a series: if it were years ahead for a second, all
 * periods of these years would be merged into one run.  So a clock that is ahead by more than a lease is believed only
 * after a lease.  CLOCK_BOOTTIME goes on while the machine sleeps, so waking up is no leap.
 *
 * An answer counts from its question on, as the process may stand still before it reads the answer.  An answer to an
 * older question than the last one is left out.
 */
static void follow(hwt_store *store, int64_t db_us, const struct hwts_trip *trip)
{
	struct hwts_clock *clock = store->clock;
	int64_t asked_ns = trip->sent_ns + trip->slept_ns, ahead_us = db_us - asked_ns / 1000 - clock->steady_us;

	if (asked_ns < clock->asked_ns)
		return;
	clock->asked_ns = asked_ns;
	if (clock->known && ahead_us > store->config.lease_ns / 1000) {
		if (clock->leapt_ns == 0)
			clock->leapt_ns = asked_ns;
		if (asked_ns - clock->leapt_ns < store->config.lease_ns)
			return;
	}
	clock->steady_us += ahead_us;
	clock->leapt_ns = 0;
}

/* Returns db_us, a time of the database's clock; during a leap, the time without the leap. */
int64_t hwts_clock_without_leap_us(const hwt_store *store, int64_t db_us)
{
	int64_t steady_us = hwts_boot_ns() / 1000 + store->clock->steady_us;

	return db_us - steady_us > store->config.lease_ns / 1000 ? steady_us : db_us;
}

/* How long the machine has slept: CLOCK_MONOTONIC stands still then, CLOCK_BOOTTIME does not. */
int64_t hwts_clock_slept_ns(void)
{
	int64_t boot_ns = hwts_boot_ns(); /* first, so that a stop of the process between the two is no sleep */

	return boot_ns - hwt_now();
}

/*
 * Takes a sample.  trip->slept_ns was read before the exchange, so a sleep during the exchange counts as later than
 * db_us.
 */
bool hwts_clock_sample(hwt_store *store, int64_t db_us, const struct hwts_trip *trip)
{
	struct hwts_clock *clock = store->clock;
	int64_t trip_ns = trip->reply_ns - trip->sent_ns;
	int64_t low_ns = db_us * 1000 - trip->reply_ns, high_ns = low_ns + trip_ns + 1000;
	int64_t before_ns = clock->offset_ns;
	bool contradicts = clock->offset_ns < low_ns || clock->offset_ns > high_ns, moved;

	follow(store, db_us, trip);
	clock->best_ns += clock->best_ns / 4;
	if (clock->known && trip_ns > clock->best_ns && !contradicts)
		return false;
	clock->best_ns = trip_ns;
	clock->offset_ns = low_ns;
	clock->slept_ns = trip->slept_ns;
	moved = clock->known && (low_ns - before_ns > MOVED_NS || before_ns - low_ns > MOVED_NS);
	/* The clock was put back: the marks lie in its future, and rests would wait until then. */
	if (clock->known && before_ns - low_ns > store->config.lease_ns)
		hwts_ask(store, HWTS_LOAD);
	clock->known = true;
	return moved;
}

int64_t hwts_clock_db_us(const hwt_store *store)
{
	return (hwt_now() + store->clock->offset_ns) / 1000;
}

int64_t hwts_clock_latest_us(const hwt_store *store)
{
	int64_t since_ns = HWTS_MAX(hwts_clock_slept_ns() - store->clock->slept_ns, 0);

	return hwts_clock_db_us(store) + (since_ns + store->clock->best_ns) / 1000;
}

/* A time beyond the range of hwt_now(), 292 years after the boot, becomes the end of that range. */
int64_t hwts_clock_deadline_ns(const hwt_store *store, int64_t due_us)
{
	int64_t us = hwts_within(due_us, HWTS_LATEST_US) -
		     store->clock->offset_ns / 1000; /* due_us is limited, so this cannot overflow */

	return us > INT64_MAX / 2000 ? INT64_MAX / 2 : us * 1000;
}

int64_t hwts_clock_trip_ns(const hwt_store *store)
{
	return store->clock->best_ns;
}

void hwts_trust(hwt_store *store, int64_t until_ns)
{
	store->clock->trusted_ns = until_ns;
}

bool hwts_trusted(const hwt_store *store)
{
	return hwts_boot_ns() < store->clock->trusted_ns;
}
