/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kinds as users see them: a list of them, and how they go.
 *
 * A kind that was removed keeps its row, so that its number and its shards are no other kind's: a process that knows
 * them puts without asking.  It is shown again as soon as it has timeouts, or somebody asks to make it.
 */
#include "core/kind.h"
#include "core/pool.h"
#include "core/run.h"
#include "core/store.h"

#include <stdlib.h>

int hwt_store_each_kind(hwt_store *store, bool (*each)(void *ctx, const hwt_store_kind_info *info), void *ctx)
{
	struct hwts_call call = hwts_enter();
	hwt_store_kind_info *infos = NULL;
	struct hwts_conn *conn;
	int64_t now_us;
	size_t count = 0;
	int rc = hwts_check_store(store);

	if (rc == 0 && !each)
		rc = hwts_fail(EINVAL, "the function is NULL");
	if (rc == 0)
		rc = hwts_pool_get(store, &conn);
	if (rc != 0)
		return hwts_leave(call, rc);
	rc = hwts_rows_kinds(conn, &infos, &count, &now_us);
	hwts_pool_put(store, conn);
	for (size_t i = 0; i < count && each(ctx, &infos[i]); i++)
		;
	free(infos);
	return hwts_leave(call, rc);
}

/* A process that registers it meanwhile makes it again when it starts. */
static int remove_kind(hwt_store *store, const char *name)
{
	struct hwts_conn *conn;
	struct hwts_kind *kind;
	bool registered;
	int rc;

	hwts_lock(store);
	kind = hwts_kind_find(store, name);
	registered = kind && kind->registered;
	hwts_unlock(store);
	if (registered)
		return hwts_fail(EBUSY, "kind %s is registered by this process", name);
	rc = hwts_pool_get(store, &conn);
	if (rc != 0)
		return rc;
	rc = hwts_rows_kind_remove(conn, name);
	hwts_pool_put(store, conn);
	hwts_lock(store);
	kind = rc == 0 ? hwts_kind_find(store, name) : NULL;
	if (kind)
		kind->row.removed = true; /* the next put asks again */
	hwts_unlock(store);
	return rc;
}

int hwt_store_remove_kind(hwt_store *store, const char *kind)
{
	struct hwts_call call = hwts_enter();
	int rc = hwts_check_call(store, HWTS_LATER);

	if (rc == 0)
		rc = hwts_check_kind_name(kind);
	return hwts_leave(call, rc == 0 ? remove_kind(store, kind) : rc);
}

int hwts_kinds_keep(hwt_store *store, struct hwts_conn *conn)
{
	int rc = 0;

	for (const struct hwts_kind *kind = NULL; rc == 0;) {
		struct hwts_kind_row row = { .id = 0 };

		hwts_lock(store);
		kind = hwts_kind_next(store, kind);
		hwts_unlock(store);
		if (!kind)
			break;
		rc = hwts_rows_kind_keep(conn, kind->name, &kind->row, &row);
		if (rc == 0 && row.mode != kind->row.mode)
			rc = hwts_fail(EINVAL, "kind %s was removed, and was registered again with mode %d, not %d",
				       kind->name, row.mode, kind->row.mode);
	}
	return rc;
}
