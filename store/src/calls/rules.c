/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits and pauses of groups, as users set them.  rows_rules.c writes them, ruling.c applies them in the holders of
 * the shards.
 */
#include "ahead/ahead.h"
#include "store/kind.h"
#include "store/conns.h"
#include "store/run.h"
#include "store/store.h"

#define LONGEST_NS (HWTS_LONGEST_PERIOD_US * 1000)

static int check(const hwt_store *store, const char *kind, const char *group)
{
	int rc = hwts_check_call(store, HWTS_LATER);

	if (rc == 0)
		rc = hwts_check_kind_name(kind);
	return rc == 0 && group ? hwts_check_text("group", group) : rc;
}

static int read_limits(const hwt_store_limits *given, struct hwts_rules_change *change)
{
	hwt_store_limits is;
	int rc = hwts_given("hwt_store_limits", given, sizeof(is), &is, sizeof(is));

	if (rc != 0)
		return rc;
	if (is.running > INT32_MAX || is.burst > INT32_MAX)
		return hwts_fail(EINVAL, "running and burst are at most %d", INT32_MAX);
	if (is.start_every_ns < 0 || is.start_every_ns > LONGEST_NS)
		return hwts_fail(EINVAL, "start_every_ns is between 0 and 100 years");
	if (is.burst > 0 && is.start_every_ns == 0)
		return hwts_fail(EINVAL, "burst needs a rate: start_every_ns");
	change->running = (int32_t)is.running;
	change->every_us = hwts_up_to_us(is.start_every_ns);
	change->burst = (int32_t)is.burst;
	return 0;
}

/* A process gets no news of its own changes, so this process's shards are told by a call. */
static int change_on(hwt_store *store, struct hwts_conn *conn, struct hwts_rules_change *change,
		     const struct hwts_kind_row *kind)
{
	int64_t shards[HWTS_SHARDS_MAX];
	int rc;

	change->kind = kind->id;
	change->shards = shards;
	change->bucket = change->group ? (int32_t)hwts_bucket(change->group, strlen(change->group)) : 0;
	for (uint32_t i = 0; i < kind->shards; i++)
		if (!change->group || i == (uint32_t)change->bucket % kind->shards)
			shards[change->n++] = (int64_t)kind->id * HWTS_SHARDS_MAX + i;
	rc = hwts_rows_rules_change(conn, change);
	hwts_lock(store);
	for (size_t i = 0; i < change->n; i++)
		hwts_rules_changed(store, (int32_t)shards[i]);
	hwts_unlock(store);
	return rc;
}

static int no_kind(const char *kind)
{
	return hwts_fail(ENOENT, "there is no kind \"%s\"", kind);
}

static int change(hwt_store *store, const char *kind, struct hwts_rules_change *change)
{
	struct hwts_kind_row row;
	struct hwts_conn *conn;
	int rc = hwts_kind_of(store, kind, NULL, &row);

	if (rc == 0)
		rc = hwts_conns_get(store, &conn);
	if (rc != 0)
		return rc;
	rc = hwts_conns_put(store, conn, change_on(store, conn, change, &row));
	return rc == ENOENT ? no_kind(kind) : rc;
}

int hwt_store_limit(hwt_store *store, const char *kind, const char *group, const hwt_store_limits *limits)
{
	struct hwts_call call = hwts_enter();
	struct hwts_rules_change is = { .group = group, .limits = true, .running = group ? -1 : 0 };
	int rc = check(store, kind, group);

	if (rc == 0 && limits)
		rc = read_limits(limits, &is);
	return hwts_leave(call, rc ? rc : change(store, kind, &is));
}

static int pause(hwt_store *store, const char *kind, const char *group, bool paused)
{
	struct hwts_rules_change is = { .group = group, .paused = paused };
	int rc = check(store, kind, group);

	return rc ? rc : change(store, kind, &is);
}

int hwt_store_pause(hwt_store *store, const char *kind, const char *group)
{
	struct hwts_call call = hwts_enter();

	return hwts_leave(call, pause(store, kind, group, true));
}

int hwt_store_resume(hwt_store *store, const char *kind, const char *group)
{
	struct hwts_call call = hwts_enter();

	return hwts_leave(call, pause(store, kind, group, false));
}

static int read_groups(hwt_store *store, const char *kind, hwt_store_group_info **infos, size_t *count)
{
	struct hwts_kind_row row;
	struct hwts_conn *conn;
	int rc = hwts_check_store(store);

	if (rc == 0)
		rc = hwts_check_kind_name(kind);
	if (rc == 0)
		rc = hwts_kind_of(store, kind, NULL, &row);
	if (rc == 0)
		rc = hwts_conns_get(store, &conn);
	if (rc == 0)
		rc = hwts_conns_put(store, conn, hwts_rows_groups(conn, row.id, infos, count));
	return rc == ENOENT ? no_kind(kind) : rc;
}

int hwt_store_each_group(hwt_store *store, const char *kind, bool (*visit)(void *ctx, const hwt_store_group_info *info),
			 void *ctx)
{
	struct hwts_call call = hwts_enter();
	hwt_store_group_info *infos = NULL;
	size_t count = 0;
	int rc = visit ? read_groups(store, kind, &infos, &count) : hwts_fail(EINVAL, "the function is NULL");

	for (size_t i = 0; i < count && rc == 0; i++) {
		hwts_cut(infos[i].kind, sizeof(infos[i].kind), kind, strlen(kind));
		if (!visit(ctx, &infos[i]))
			break;
	}
	free(infos);
	return hwts_leave(call, rc);
}
