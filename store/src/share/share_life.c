/* SPDX-License-Identifier: BSD-2-Clause */
/* The share of this process: its memory from start to stop, and the name under which it joins. */
#define _GNU_SOURCE
#include "share/share.h"
#include "store/conns.h"
#include "store/kind.h"
#include "store/store.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Allocates the renewal of a start.  The caller holds store->lock. */
static int make_renewal(hwt_store *store, struct hwts_renewal *renewal)
{
	int64_t *ids;
	size_t kinds = 0;

	*renewal = (struct hwts_renewal){ .kind_count = hwts_kind_count(store) };
	if (renewal->kind_count == 0)
		return hwts_fail(EINVAL, "no kind is registered: a process that only puts need not start");
	renewal->kinds = ids = hwts_alloc(renewal->kind_count * sizeof(*ids));
	renewal->members = hwts_alloc(renewal->kind_count * sizeof(*renewal->members));
	if (!ids || !renewal->members)
		return ENOMEM;
	HWTS_EACH_KIND (store, kind)
		ids[kinds++] = kind->row.id;
	return 0;
}

int hwts_share_open(hwt_store *store)
{
	int rc;

	hwts_lock(store);
	rc = make_renewal(store, &store->share->renewal);
	hwts_unlock(store);
	return rc;
}

/* Another process may bear the name from now on, and puts from here have to notify it. */
void hwts_share_left(hwt_store *store)
{
	struct hwts_share *share = store->share;

	if (share->joined && share->name[0] != '\0')
		hwts_cut(share->name, sizeof(share->name), hwts_me(store->db), strlen(hwts_me(store->db)));
	hwts_set_me(store->db, share->putter);
	share->joined = false;
}

void hwts_share_close(hwt_store *store)
{
	struct hwts_share *share = store->share;

	hwts_share_left(store);
	free((int64_t *)(uintptr_t)share->renewal.kinds); /* hwts_share_open made it */
	free(share->renewal.members);
	free(share->renewal.shards);
	free(share->skipped);
	share->skipped = NULL;
	share->skipped_count = 0;
	share->renewal = (struct hwts_renewal){ .kinds = NULL };
	share->abandons = share->bare = false;
	HWTS_EACH_KIND (store, kind)
		memset(kind->watch, 0, sizeof(kind->watch));
}

void hwts_share_name(hwt_store *store, const char *name)
{
	struct hwts_share *share = store->share;

	hwts_cut(share->putter, sizeof(share->putter), hwts_me(store->db), strlen(hwts_me(store->db)));
	if (name)
		hwts_cut(share->name, sizeof(share->name), name, strlen(name));
}

void hwts_share_abandon(hwt_store *store)
{
	store->share->abandons = true;
}

bool hwts_share_is_abandoned(const hwt_store *store)
{
	return store->share->abandons;
}

void hwts_share_leave(hwt_store *store)
{
	if (store->share->joined)
		(void)hwts_rows_leave(hwts_conn(store, HWTS_CONTROL));
}

/*
 * An incarnation says where its process runs, so that other processes of that host see that it has died:
 *
 *     bits 39 to 62  the host, its boot and the namespace of the pid; 0: unknown, and the other bits are random
 *     bits 17 to 38  the pid
 *     bits 0 to 16   random
 */
#define PLACE_BIT 39
#define PID_BIT 17

static int64_t this_place(void)
{
	char place[256] = "";
	size_t len;

	if (!hwts_boot_id(place, 64))
		return 0;
	len = strlen(place);
	(void)gethostname(place + len, 64);
	len += strlen(place + len);
	if (readlink("/proc/self/ns/pid", place + len, 64) < 0)
		return 0;
	return (int64_t)(hwts_mix(hwts_hash(place, strlen(place))) & 0xffffff);
}

int64_t hwts_share_incarnation(void)
{
	int64_t place = this_place(), pid = getpid(), random = (int64_t)(hwts_random() >> 1);

	if (place == 0)
		return random & ((INT64_C(1) << PLACE_BIT) - 1);
	return place << PLACE_BIT | (pid & 0x3fffff) << PID_BIT | (random & 0x1ffff);
}

/* False also if another process has got the pid since: then the lease has to end. */
static bool is_dead(int64_t incarnation)
{
	int64_t place = this_place();

	return place != 0 && incarnation >> PLACE_BIT == place &&
	       kill((pid_t)(incarnation >> PID_BIT & 0x3fffff), 0) != 0 && errno == ESRCH;
}

/*
 * Leaves again if a kind was removed and registered again with another mode: this process would run another's
 * timeouts.
 */
static int keep_kinds(hwt_store *store)
{
	struct hwts_conn *conn = hwts_conn(store, HWTS_CONTROL);
	int rc = hwts_kinds_keep(store, conn);

	if (rc != 0 && !conn->broken)
		(void)hwts_rows_leave(conn);
	return rc;
}

static int join(hwt_store *store, const char *name, int64_t dead, struct hwts_namesake *has)
{
	const struct hwts_renewal *renewal = &store->share->renewal;

	return hwts_rows_join(hwts_conn(store, HWTS_CONTROL), name, renewal->kinds, renewal->kind_count, dead, has);
}

static int joined(hwt_store *store, int rc)
{
	if (rc == 0)
		rc = keep_kinds(store);
	store->share->joined = store->share->loss.joined = rc == 0;
	return rc;
}

bool hwts_share_tell_remade(hwt_store *store)
{
	bool tells = store->share->loss.remade;

	store->share->loss.remade = false;
	if (tells)
		hwts_warn(store,
			  "the tables %s_* were replaced beside this process, by those of a backup perhaps: what ran"
			  " since then runs again, and what was put since then is gone",
			  store->db->prefix);
	return tells;
}

/* Notes whether the tables were replaced since the open or the last stop; the first renewal tells. */
static int look_remade(hwt_store *store)
{
	return hwts_look_hidden(store, hwts_conn(store, HWTS_CONTROL), false, &store->share->loss.remade);
}

/* Until the process has joined it does not bear its name: as for hwts_share_left. */
int hwts_share_join(hwt_store *store)
{
	const char *name = store->share->name[0] != '\0' ? store->share->name : hwts_me(store->db);
	struct hwts_namesake has = { 0 }, before;
	int rc = join(store, name, 0, &has);

	if (rc == EEXIST && is_dead(has.incarnation))
		rc = join(store, name, has.incarnation, &has);
	for (before = has; rc == EEXIST && has.incarnation == before.incarnation && has.until_us == before.until_us;) {
		HWTS_POINT("name in use");
		hwts_sleep_ns((has.left_us + 1000) * 1000);
		rc = join(store, name, 0, &has);
	}
	if (rc == 0)
		hwts_set_me(store->db, name);
	store->share->loss = (struct hwts_loss){ .remade = store->share->loss.remade };
	rc = joined(store, rc);
	return rc ? rc : look_remade(store);
}

int hwts_share_join_again(hwt_store *store)
{
	char stem[HWTS_MEMBER_MAX - 17], name[HWTS_MEMBER_MAX + 1];
	struct hwts_namesake has;
	int rc = join(store, hwts_me(store->db), 0, &has);

	if (rc == EEXIST) {
		hwts_cut(stem, sizeof(stem), hwts_me(store->db), strlen(hwts_me(store->db)));
		stem[strcspn(stem, "#")] = '\0';
		hwts_warn(store, "the name %s is in use by another process: give each its own", stem);
		(void)snprintf(name, sizeof(name), "%s#%08x", stem, (unsigned)hwts_random());
		hwts_set_me(store->db, name);
		rc = join(store, name, 0, &has);
	}
	return joined(store, rc);
}
