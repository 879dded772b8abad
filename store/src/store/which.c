/* SPDX-License-Identifier: BSD-2-Clause */
/* Which timeouts a call is about: a single one, by its id or key, or many, of a group or a kind. */
#include "store/kind.h"
#include "store/conns.h"
#include "store/which.h"

#define LOOKS 10 /* tries for a key whose timeout changes meanwhile */

static int check_many(const hwt_store_which *which, unsigned may)
{
	if (which->any_group && !which->all)
		return hwts_fail(EINVAL, "any_group goes with all");
	if (!which->all)
		return 0;
	if (!(may & HWTS_MAY_BE_MANY))
		return hwts_fail(EINVAL, "all is for many timeouts: this call is about one");
	if (which->id != 0 || which->key)
		return hwts_fail(EINVAL, "all goes with neither an id nor a key, which name one timeout");
	if (which->any_group && which->group)
		return hwts_fail(EINVAL, "any_group and a group exclude each other");
	return 0;
}

/* The place behind which a list begins. */
static int check_after(const hwt_store_which *which, unsigned may, struct hwts_place *after)
{
	*after = (struct hwts_place){ INT64_MIN, 0 };
	if (which->after_us == 0 && which->after_id == 0)
		return 0;
	if (!which->all || !(may & HWTS_MAY_READ) || !(may & HWTS_MAY_BE_MANY))
		return hwts_fail(EINVAL, "after_us and after_id are of a list: hwt_store_each_ex, with all");
	*after = (struct hwts_place){ which->after_us, which->after_id };
	return 0;
}

static int check_states(unsigned states, unsigned may)
{
	if (states & ~(HWTS_ALL_STATES | (may & HWTS_MAY_READ ? HWT_STORE_WITH_DATA : 0)))
		return hwts_fail(EINVAL, "states is a set such as 1u << HWT_STORE_PENDING");
	if (may & HWTS_MOVES && states & 1u << HWT_STORE_RUNNING)
		return hwts_fail(EINVAL, "what runs cannot be rescheduled: leave RUNNING out of states");
	return 0;
}

static int check_names(const hwt_store_which *which)
{
	int rc = which->id != 0 ? 0 : hwts_check_kind_name(which->kind);

	if (rc == 0 && which->id == 0 && which->group)
		rc = hwts_check_text("group", which->group);
	if (rc == 0 && which->id == 0 && !which->all)
		rc = which->key ? hwts_check_text("key", which->key)
				: hwts_fail(EINVAL, "which timeout is meant: an id, a key, or all");
	return rc;
}

int hwts_about_of(const hwt_store_which *given, unsigned may, struct hwts_about *about)
{
	hwt_store_which is;
	struct hwts_place after;
	const hwt_store_which *which = &is;
	int rc = given ? hwts_given("hwt_store_which", given, offsetof(hwt_store_which, after_us), &is, sizeof(is))
		       : hwts_fail(EINVAL, "which is NULL");

	if (rc == 0)
		rc = check_many(which, may);
	if (rc == 0)
		rc = check_states(which->states, may);
	if (rc == 0)
		rc = check_after(which, may, &after);
	if (rc == 0)
		rc = check_names(which);
	if (rc != 0)
		return rc;
	*about = (struct hwts_about){ .id = which->id,
				      .by_key = which->id == 0,
				      .all = which->all,
				      .any_group = which->any_group,
				      .with_data = (which->states & HWT_STORE_WITH_DATA) != 0,
				      .kind = which->kind,
				      .group = which->group,
				      .key = which->key,
				      .after = after,
				      .states = which->states & HWTS_ALL_STATES };
	if (about->states == 0)
		about->states = may & HWTS_MOVES ? 1u << HWT_STORE_PENDING : HWTS_ALL_STATES;
	return 0;
}

/*
 * A timeout that is found by its key may end, and another be put with the key, before the act: so ENOENT is tried
 * again.
 */
int hwts_about_do_on(struct hwts_conn *conn, struct hwts_about *about, hwts_do_it *act, void *ctx)
{
	int rc = ENOENT;

	if (!about->by_key)
		return act(conn, about, ctx);
	for (int i = 0; i < LOOKS && rc == ENOENT; i++) {
		rc = hwts_rows_find(conn, about->row.id, about->group, about->key, &about->id);
		if (rc != 0)
			return rc;
		rc = act ? act(conn, about, ctx) : 0;
	}
	return rc;
}

int hwts_about_do(hwt_store *store, struct hwts_about *about, hwts_do_it *act, void *ctx)
{
	struct hwts_conn *conn;
	int rc = about->by_key ? hwts_kind_of(store, about->kind, NULL, &about->row) : 0; /* ENOENT: no such kind */

	if (rc == 0)
		rc = hwts_conns_get(store, &conn);
	return rc ? rc : hwts_conns_put(store, conn, hwts_about_do_on(conn, about, act, ctx));
}
