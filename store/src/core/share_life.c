/* SPDX-License-Identifier: BSD-2-Clause */
/* The share of this process: what it has from start to stop, and how it joins under which name. */
#include "core/share.h"
#include "core/register.h"
#include "core/store.h"
#include "core/threads.h"

#include <stdio.h>

/* With the lock: what a start needs. */
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

void hwts_share_close(hwt_store *store)
{
	struct hwts_share *share = store->share;

	if (share->joined && share->name[0] != '\0')
		hwts_cut(share->name, sizeof(share->name), hwts_me(store->db), strlen(hwts_me(store->db)));
	hwts_set_me(store->db, share->putter);
	free((int64_t *)(uintptr_t)share->renewal.kinds); /* hwts_share_open made it */
	free(share->renewal.members);
	free(share->renewal.shards);
	share->renewal = (struct hwts_renewal){ .kinds = NULL };
	share->joined = share->abandons = false;
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

/* As a member of a kind that is another one now it would run what is not its own. */
static int keep_kinds(hwt_store *store)
{
	struct hwts_conn *conn = hwts_conn(store, HWTS_CONTROL);
	int rc = hwts_kinds_keep(store, conn);

	if (rc != 0 && !conn->broken)
		(void)hwts_rows_leave(conn);
	return rc;
}

/* force: a process that was started again under its old name gets it back. */
int hwts_share_join(hwt_store *store, bool force)
{
	char stem[HWTS_MEMBER_MAX - 17];
	const struct hwts_renewal *renewal = &store->share->renewal;
	int rc;

	if (force && store->share->name[0] != '\0')
		hwts_set_me(store->db, store->share->name);
	rc = hwts_rows_join(hwts_conn(store, HWTS_CONTROL), renewal->kinds, renewal->kind_count, force);
	if (rc == EEXIST) {
		char name[HWTS_MEMBER_MAX + 1];

		hwts_cut(stem, sizeof(stem), hwts_me(store->db), strlen(hwts_me(store->db)));
		stem[strcspn(stem, "#")] = '\0';
		hwts_warn(store, "the name %s is in use by another process: give each its own", stem);
		(void)snprintf(name, sizeof(name), "%s#%08x", stem, (unsigned)hwts_random());
		hwts_set_me(store->db, name);
		rc = hwts_rows_join(hwts_conn(store, HWTS_CONTROL), renewal->kinds, renewal->kind_count, true);
	}
	if (rc == 0)
		rc = keep_kinds(store);
	store->share->joined = rc == 0;
	return rc;
}
