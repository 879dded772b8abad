/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control: the thread that renews the lease, balances the shards and reads the news.  It sleeps in poll() until news
 * arrives on its connection, another thread pokes it, the wall clock is set, or the next renewal is due.
 */
#define _GNU_SOURCE
#include "ahead/ahead.h"
#include "runs/begun.h"
#include "share/share.h"
#include "share/why.h"
#include "store/ability.h"
#include "store/asks.h"
#include "store/clock.h"
#include "store/conns.h"
#include "store/shards.h"
#include "store/store.h"
#include "window/window.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/timerfd.h>
#endif

#define LOOK_APART_NS HWT_MS(5) /* least time between two looks that news ask for */
#define NEWS_SOON_NS HWT_MS(3)
#define BURY_APART_NS HWT_S(600)

/* Checks news, which any client may have forged: the time must be possible, and the shard must be that of the id. */
static bool is_possible(const struct hwts_kind *kind, const struct hwts_due *due)
{
	return due->due_us >= 0 && due->due_us <= HWTS_LATEST_US && hwts_shard_of(&kind->row, due->id) == due->shard;
}

/* Called by control while it reads news. */
void hwts_hear_news(void *arg, const struct hwts_due *due)
{
	hwt_store *store = arg;
	struct hwts_kind *kind = NULL;

	hwts_lock(store);
	if (due->id == HWTS_RULES_ID) {
		hwts_rules_changed(store, due->shard);
	} else if (due->id <= 0) {
		hwts_ask(store, due->id < 0 ? HWTS_LOOK | HWTS_LOAD : HWTS_LOOK);
	} else if (hwts_shard(store, due->shard, &kind)) { /* on SQLite each process hears news of all kinds */
		if (is_possible(kind, due))
			hwts_window_hear(store, due);
		else
			hwts_ask(store, HWTS_LOAD);
	}
	hwts_unlock(store);
}

/*
 * Steps of the wall clock, which is the clock of a SQLite database
 */

#ifdef __linux__
static int watch_clock(int fd)
{
	const int64_t latest = sizeof(time_t) < sizeof(int64_t) ? INT32_MAX : HWTS_LATEST_US / HWTS_S_US;
	struct itimerspec far = { .it_value = { .tv_sec = (time_t)latest } };

	if (fd < 0)
		fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (fd >= 0)
		(void)timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL);
	return fd;
}
#else
static int watch_clock(int fd)
{
	return fd;
}
#endif

/*
 * After a step back the marks of the shards lie far ahead of the clock.  A put that is due before a mark, and not
 * soon, leaves no hint: so all shards are read again.
 */
static void clock_was_set(hwt_store *store, int fd)
{
	uint64_t ignored;

	while (read(fd, &ignored, sizeof(ignored)) > 0)
		;
	(void)watch_clock(fd);
	hwts_lock(store);
	hwts_ask(store, HWTS_LOOK | HWTS_LOAD);
	hwts_unlock(store);
}

/*
 * The connection
 */

/* Listens again to the channels of all shards that are held. */
static int listen_again(hwt_store *store)
{
	struct hwts_shard_row *rows;
	size_t room = 0, count = 0;
	int rc;

	hwts_lock(store);
	HWTS_EACH_KIND (store, kind)
		room += kind->row.shards;
	rows = hwts_alloc(room * sizeof(*rows));
	HWTS_EACH_SHARD (store, kind, shard)
		if (rows && shard->held)
			rows[count++] = (struct hwts_shard_row){ .shard = shard->id };
	hwts_ability_forget(store);
	hwts_ask(store, HWTS_LOAD);
	hwts_unlock(store);
	rc = rows ? store->engine->listen(hwts_conn(store, HWTS_CONTROL), rows, count, true)
		  : hwts_fail(ENOMEM, "no memory for the shards to listen to");
	free(rows);
	return rc;
}

static bool connected(hwt_store *store)
{
	int rc;

	if (hwts_conn(store, HWTS_CONTROL) && !hwts_conn(store, HWTS_CONTROL)->broken)
		return true;
	if (hwts_conn(store, HWTS_CONTROL)) { /* the server is gone, or has cut off this connection */
		hwts_lock(store);
		hwts_doubt_begun(store);
		hwts_ability_away(store, true); /* until listen_again calls hwts_ability_forget */
		hwts_unlock(store);
	}
	rc = hwts_reconnect(store, hwts_conn_of(store, HWTS_CONTROL), HWTS_CONTROL);
	if (rc == 0) {
		rc = listen_again(store);
		hwts_conn(store, HWTS_CONTROL)->broken |= rc != 0;
	}
	if (rc != 0)
		hwts_fails(store, HWTS_CONTROL, rc);
	return rc == 0;
}

/*
 * The loop
 */

struct control {
	hwt_store *store;
	int64_t look_ns, looked_ns, news_ns; /* of the next look, the last look, the next news (0: on a signal) */
	int64_t bury_ns;                     /* when to remove members that died long ago */
	unsigned failures, takes;            /* failures in a row: of renewals, of taking shards */
	int clock_fd;
	bool signalled;
	struct hwts_watching watching;
};

/* Waits until control has something to do. */
static void wait(struct control *control)
{
	hwt_store *store = control->store;
	/*
	 * News that is read within NEWS_SOON_NS anyway does not wake poll(): while other processes write at full
	 * speed, an event comes every few microseconds.
	 */
	bool news = hwts_conn(store, HWTS_CONTROL) && !hwts_conn(store, HWTS_CONTROL)->broken &&
		    (control->news_ns == 0 || control->news_ns > hwt_now() + NEWS_SOON_NS);
	struct pollfd fds[3] = {
		{ .fd = hwts_poke_fd(store), .events = POLLIN },
		{ .fd = control->clock_fd, .events = POLLIN },
		{ .fd = news ? store->engine->news_fd(hwts_conn(store, HWTS_CONTROL)) : -1, .events = POLLIN },
	};
	int64_t until_ns = HWTS_MIN(control->look_ns, hwts_share_again_ns(store)), left_ns;
	struct timespec left;

	until_ns = control->news_ns ? HWTS_MIN(until_ns, control->news_ns) : until_ns;
	left_ns = HWTS_MIN(HWTS_MAX(until_ns - hwt_now(), 0), HWT_S(3600));
	left = (struct timespec){ .tv_sec = (time_t)(left_ns / HWT_S(1)), .tv_nsec = (long)(left_ns % HWT_S(1)) };
	control->signalled = false;
	if (ppoll(fds, HWTS_COUNT(fds), &left, NULL) <= 0)
		return;
	if (fds[0].revents)
		hwts_poke_read(store);
	if (fds[1].revents)
		clock_was_set(store, control->clock_fd);
	control->signalled = fds[2].revents != 0;
}

/* Reads news.  News that this could not read, or that a broken connection has lost, is not missed: a look reads all. */
static void hear(struct control *control)
{
	hwt_store *store = control->store;
	int64_t again_ns = 0;

	if (!control->signalled && (control->news_ns == 0 || hwt_now() < control->news_ns))
		return;
	if (store->engine->news(hwts_conn(store, HWTS_CONTROL), control->signalled, hwts_hear_news, store, &again_ns) !=
	    0) {
		if (control->failures == 0) /* otherwise renewals fail as well, and control has warned of that */
			hwts_warn(store, "news: %s", hwts_fail_text());
		hwts_lock(store);
		hwts_ask(store, HWTS_LOAD);
		hwts_unlock(store);
		control->look_ns = hwt_now();
	}
	control->news_ns = again_ns ? hwt_now() + again_ns : 0;
}

/* A renewal that news or another thread has asked for comes before its time. */
static void bring_forward(struct control *control)
{
	hwt_store *store = control->store;
	bool soon;

	hwts_lock(store);
	soon = hwts_asked(store, HWTS_LOOK | HWTS_LOAD);
	hwts_unlock(store);
	if (soon)
		control->look_ns = HWTS_MIN(control->look_ns, control->looked_ns + LOOK_APART_NS);
}

/* The work after a renewal that succeeded. */
static void keep_up(struct control *control, int shards)
{
	hwt_store *store = control->store;

	if (shards == 0) {
		hwts_works(store, HWTS_TAKES, &control->takes);
	} else {
		hwts_fails(store, HWTS_TAKES, shards);
		control->look_ns = HWTS_MIN(control->look_ns, hwt_now() + hwts_backoff_ns(++control->takes));
	}
	hwts_tell_works(store, HWTS_TASK);
	store->engine->tend(hwts_conn(store, HWTS_CONTROL));
	if (hwt_now() >= control->bury_ns) {
		(void)hwts_rows_bury(hwts_conn(store, HWTS_CONTROL));
		control->bury_ns = hwt_now() + BURY_APART_NS;
	}
}

static void look(struct control *control)
{
	hwt_store *store = control->store;
	int rc, shards;

	bring_forward(control);
	if (hwt_now() < control->look_ns) {
		hwts_share_take_again(store);
		return;
	}
	hwts_lock(store);
	hwts_ask_done(store, HWTS_LOOK);
	hwts_unlock(store);
	control->looked_ns = hwt_now();
	rc = hwts_share_look(store, &control->look_ns, &shards);
	if (rc == 0) {
		hwts_works(store, HWTS_CONTROL, &control->failures);
		keep_up(control, shards);
		return;
	}
	hwts_fails(store, HWTS_CONTROL, rc);
	hwts_lock(store);
	hwts_ask_done(store, HWTS_LOOK);
	hwts_ability_away(store, rc != EAGAIN);
	hwts_unlock(store);
	control->looked_ns = control->look_ns = hwt_now() + hwts_backoff_ns(++control->failures);
}

/* True: the store is being stopped, and its shards are given, or cannot be given. */
static bool is_over(hwt_store *store)
{
	bool over;

	hwts_lock(store);
	over = (hwts_halts(store, HWTS_CONTROL) || hwts_share_is_abandoned(store)) &&
	       (hwts_shards_held(store) == 0 || !hwts_trusted(store));
	if (over)
		hwts_trust(store, 0); /* the ender need not wait for locks any more */
	hwts_unlock(store);
	return over;
}

void *hwts_control(void *arg)
{
	struct control control = { .store = arg, .look_ns = hwt_now(), .looked_ns = hwt_now() };
	hwt_store *store = arg;

	control.clock_fd = watch_clock(-1);
	while (!is_over(store)) {
		hwts_waits_watch(store, &control.watching);
		if (!connected(store)) {
			control.news_ns = 0;
			control.look_ns = hwt_now() + hwts_backoff_ns(++control.failures);
			wait(&control);
			continue;
		}
		hear(&control);
		if (!hwts_conn(store, HWTS_CONTROL)->broken)
			look(&control);
		if (!hwts_conn(store, HWTS_CONTROL)->broken)
			hwts_share_give(store);
		/* News that arrived with the replies of these exchanges does not wake poll(). */
		control.signalled = true;
		if (!hwts_conn(store, HWTS_CONTROL)->broken)
			hear(&control);
		bring_forward(&control);
		if (!is_over(store))
			wait(&control);
	}
	if (hwts_conn(store, HWTS_CONTROL) && !hwts_conn(store, HWTS_CONTROL)->broken)
		(void)hwts_rows_leave(hwts_conn(store, HWTS_CONTROL));
	hwts_lock(store);
	hwts_share_left(store);
	hwts_unlock(store);
	if (control.clock_fd >= 0)
		close(control.clock_fd);
	return NULL;
}
