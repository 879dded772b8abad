/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue of threads of this process that want to write; sqlite.h. */
#include "db/sqlite.h"

#define HASTY_NS HWT_MS(100)

/* The caller holds db->lock. */
static void queue_up(struct sqlite_db *db, struct sqlite_waiter *waiter, bool first)
{
	struct sqlite_waiter **link = first ? &db->waiting : db->waiting_end;

	waiter->next = *link;
	*link = waiter;
	if (!waiter->next)
		db->waiting_end = &waiter->next;
}

/* The caller holds db->lock. */
static void leave_queue(struct sqlite_db *db, struct sqlite_waiter *waiter)
{
	struct sqlite_waiter **link = &db->waiting;

	while (*link != waiter)
		link = &(*link)->next;
	*link = waiter->next;
	if (!*link)
		db->waiting_end = link;
}

bool hwts_sqlite_write_lock(struct sqlite_db *db, int64_t until_ns, bool first)
{
	struct sqlite_waiter waiter = { .has_it = false };

	pthread_mutex_lock(&db->lock);
	if (!db->has_writer)
		waiter.has_it = db->has_writer = true;
	else
		queue_up(db, &waiter, first);
	/* Woken by the writer before; after a second the thread checks by itself. */
	while (!waiter.has_it && hwt_now() < until_ns)
		hwts_wait_ns(&db->unlocked, &db->lock, HWTS_MIN(until_ns - hwt_now(), HWT_S(1)));
	if (!waiter.has_it)
		leave_queue(db, &waiter);
	pthread_mutex_unlock(&db->lock);
	return waiter.has_it;
}

void hwts_sqlite_write_unlock(struct sqlite_db *db)
{
	pthread_mutex_lock(&db->lock);
	db->has_writer = db->waiting != NULL;
	if (db->waiting) {
		db->waiting->has_it = true;
		leave_queue(db, db->waiting);
	}
	pthread_cond_broadcast(&db->unlocked);
	pthread_mutex_unlock(&db->lock);
}

/* The time that is left of the patience is for SQLite's lock. */
int hwts_sqlite_be_writer(struct sqlite_conn *conn)
{
	struct sqlite_db *db = sqlite_db(&conn->conn);
	int64_t patience_ns = conn->hasty ? HASTY_NS : conn->patience_ns ? conn->patience_ns : db->patience_ns;

	conn->until_ns = hwt_now() + patience_ns;
	conn->is_writer = hwts_sqlite_write_lock(db, conn->until_ns, conn->conn.role == HWTS_CONTROL);
	if (conn->is_writer)
		return 0;
	conn->until_ns = 0;
	return hwts_fail(
	    EAGAIN, "sqlite: other writers of the file, perhaps in this process, were before for %lld ms; try again",
	    (long long)(patience_ns / HWT_MS(1)));
}
