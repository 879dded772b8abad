/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The database's clock, as this process believes it to be.
 *
 * A reply carries the database's time at some moment between sending and receiving.  time - (CLOCK_MONOTONIC at the
 * receipt) is a lower bound of the offset, wrong by at most the round trip.  A sample with a short round trip is better
 * than one with a long one, so a longer one counts only when it contradicts what is believed.
 *
 * Nothing here keeps a timeout from being early: the begin statement does.  It only decides when a begin is tried.
 */
#include "core/store.h"

#define MOVED_NS HWT_MS(1)

bool hwts_clock_sample(hwt_store *store, int64_t db_us, int64_t sent_ns, int64_t reply_ns)
{
	struct hwts_clock *clock = &store->clock;
	int64_t trip_ns = reply_ns - sent_ns;
	int64_t low_ns = db_us * 1000 - reply_ns, high_ns = low_ns + trip_ns + 1000;
	int64_t before_ns = clock->offset_ns;
	bool contradicts = clock->offset_ns < low_ns || clock->offset_ns > high_ns, moved;

	clock->best_ns += clock->best_ns / 4;
	if (clock->known && trip_ns > clock->best_ns && !contradicts)
		return false;
	clock->best_ns = trip_ns;
	clock->offset_ns = low_ns;
	moved = clock->known && (low_ns - before_ns > MOVED_NS || before_ns - low_ns > MOVED_NS);
	clock->known = true;
	return moved;
}

int64_t hwts_clock_db_us(const hwt_store *store)
{
	return (hwt_now() + store->clock.offset_ns) / 1000;
}

/* What is due beyond the end of this clock, 292 years after the boot, is due at its end. */
int64_t hwts_clock_deadline_ns(const hwt_store *store, int64_t due_us)
{
	int64_t us = due_us - store->clock.offset_ns / 1000; /* times are limited, so that this cannot overflow */

	return us > INT64_MAX / 2000 ? INT64_MAX / 2 : us * 1000;
}

bool hwts_trusted(const hwt_store *store)
{
	return hwts_boot_ns() < store->trusted_ns;
}
