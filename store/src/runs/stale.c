/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Begun rows that have waited for long.
 *
 * Another process may cancel the series of a begun row, or replace the row, and only the row tells.  So the beginner
 * gives back a row that has waited for a thread for STALE_NS.  A pulled row waits until the program comes: the beginner
 * reads it again and again.
 */
#include "runs/begun.h"
#include "runs/poll.h"
#include "runs/stale.h"
#include "rows/rows.h"
#include "store/ability.h"
#include "store/clock.h"
#include "store/conns.h"
#include "store/store.h"

#define STALE_NS HWT_MS(100)

static int64_t patience_ns(const hwt_store *store, const struct hwts_kind *kind)
{
	return kind->pulled ? store->config.lease_ns / 6 : STALE_NS;
}

/* When some row of the queue may have waited for too long; INT64_MAX: none will. */
static int64_t stale_ns(const hwt_store *store, const struct hwts_kind *kind)
{
	if (!kind->begun.first || (kind->pulled ? !hwts_trusted(store) : HWTS_TEST(keeps_begun)))
		return INT64_MAX;
	return kind->begun.since_ns + patience_ns(store, kind);
}

int64_t hwts_begun_stale_ns(const hwt_store *store)
{
	int64_t ns = INT64_MAX;

	HWTS_EACH_KIND (store, kind)
		ns = HWTS_MIN(ns, stale_ns(store, kind));
	return ns == INT64_MAX ? ns : HWTS_MAX(ns - hwts_boot_ns(), 1);
}

/* The runs before this row last longer than earlier ones: nothing more is begun ahead until some have ended. */
static void give_back_stale(hwt_store *store, struct hwts_kind *kind, struct hwts_row **link)
{
	kind->begun.run_ns = HWTS_MAX(kind->begun.run_ns, STALE_NS * store->config.threads);
	hwts_give_back(store, hwts_unqueue(store, kind, link));
}

size_t hwts_begun_stale(hwt_store *store, struct hwts_want *wants, size_t most)
{
	int64_t now_ns = hwts_boot_ns();
	size_t n = 0;

	HWTS_EACH_KIND (store, kind) {
		struct hwts_row **link = &kind->begun.first, *row;

		if (now_ns < stale_ns(store, kind))
			continue;
		kind->begun.since_ns = now_ns;
		while ((row = *link) != NULL) {
			bool stale = now_ns - row->queued_ns >= patience_ns(store, kind);

			if (stale && !kind->pulled) {
				give_back_stale(store, kind, link);
				continue;
			}
			row->asked = stale && n < most;
			if (row->asked)
				wants[n++] = (struct hwts_want){ .id = row->id, .epoch = row->epoch };
			kind->begun.since_ns = HWTS_MIN(kind->begun.since_ns, row->queued_ns);
			link = &row->next;
		}
	}
	return n;
}

/* Reads rows by halves: a row that cannot be read stays as it is, and holds up no other. */
static int read_rows(hwt_store *store, struct hwts_want *wants, size_t n)
{
	int rc = hwts_connect_role(store, HWTS_BEGIN);
	struct hwts_conn *conn = hwts_conn(store, HWTS_BEGIN);

	if (rc != 0)
		return rc;
	rc = hwts_rows_begun(conn, wants, n);
	if (rc == 0 || !conn->refused)
		return rc;
	rc = read_rows(store, wants, n / 2);
	return rc ? rc : read_rows(store, wants + n / 2, n - n / 2);
}

/* A row that is `locked` runs as it was begun.  sent_ns: hwts_boot_ns() before the reading. */
static void apply(hwt_store *store, const struct hwts_want *wants, size_t n, int64_t sent_ns)
{
	for (size_t i = 0; i < n; i++)
		if (!wants[i].locked)
			hwts_give_back_changed(store, wants[i].id);
	HWTS_EACH_KIND (store, kind)
		for (struct hwts_row *row = kind->begun.first; row; row = row->next) {
			row->queued_ns = row->asked ? sent_ns : row->queued_ns;
			row->asked = false;
		}
	hwts_poll_wait(store, 0);
}

void hwts_see_to_stale(hwt_store *store, struct hwts_want *wants, unsigned *failures)
{
	size_t n = hwts_begun_stale(store, wants, store->config.batch);
	int64_t sent_ns = hwts_boot_ns();
	int rc;

	if (n == 0)
		return;
	hwts_unlock(store);
	rc = read_rows(store, wants, n);
	if (rc != 0) /* a reading that works is no sign that begins work */
		hwts_fails(store, HWTS_BEGIN, rc);
	hwts_lock(store);
	if (rc == 0)
		apply(store, wants, n, sent_ns);
	else if (!hwts_halts(store, HWTS_BEGIN))
		hwts_rest(store, failures);
}
