/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading timeouts. */
#include "store/kind.h"
#include "store/conns.h"
#include "store/store.h"
#include "store/which.h"

#define PAGE 100
#define PAGE_OF_DATA 10

static int get_it(struct hwts_conn *conn, struct hwts_about *about, void *ctx)
{
	hwt_store_info *info = ctx;
	int rc = hwts_rows_get(conn, about->id, info);

	return rc == 0 && !(about->states & 1u << info->state) ? hwts_rows_explain(ENOENT, about->id) : rc;
}

static int get(hwt_store *store, const hwt_store_which *which, hwt_store_info *info)
{
	hwt_store_info is = HWT_STORE_INFO_INIT;
	struct hwts_about about;
	int rc = hwts_check_store(store);

	if (rc == 0 && !info)
		rc = hwts_fail(EINVAL, "the info is NULL");
	if (rc == 0 && info->size < offsetof(hwt_store_info, state))
		rc = hwts_fail(EINVAL, "hwt_store_info.size must be sizeof(hwt_store_info)");
	if (rc == 0)
		rc = hwts_about_of(which, HWTS_MAY_READ, &about);
	if (rc != 0)
		return rc;
	if (info->size >= sizeof(is)) {
		is.data = info->data;
		is.data_room = info->data_room;
	}
	rc = hwts_about_do(store, &about, get_it, &is);
	if (rc == 0) {
		is.size = info->size;
		memcpy(info, &is, HWTS_MIN(info->size, sizeof(is)));
	}
	return rc;
}

int hwt_store_get_ex(hwt_store *store, const hwt_store_which *which, hwt_store_info *info)
{
	struct hwts_call call = hwts_enter();

	return hwts_leave(call, get(store, which, info));
}

int hwt_store_get(hwt_store *store, int64_t id, hwt_store_info *info)
{
	return hwt_store_get_ex(store, &HWTS_BY_ID(id, 0), info);
}

int hwt_store_get_key(hwt_store *store, const char *kind, const char *key, hwt_store_info *info)
{
	return hwt_store_get_ex(store, &HWTS_BY_KEY(kind, key), info);
}

typedef bool each_it(void *ctx, const hwt_store_info *info);

static int each_page(hwt_store *store, const char *name, struct hwts_list *list, hwt_store_info *infos, size_t *count)
{
	struct hwts_kind_row kind;
	struct hwts_conn *conn;
	int rc = hwts_kind_of(store, name, NULL, &kind); /* mostly from memory */

	if (rc == 0)
		rc = hwts_conns_get(store, &conn);
	if (rc != 0)
		return rc;
	rc = hwts_rows_list(conn, &kind, list, infos, list->with_data ? PAGE_OF_DATA : PAGE, count);
	return hwts_conns_put(store, conn, rc);
}

static int each_of(hwt_store *store, const struct hwts_about *about, each_it *each, void *ctx, hwt_store_info *infos)
{
	struct hwts_list list = { .states = about->states,
				  .group = about->group,
				  .any_group = about->any_group,
				  .with_data = about->with_data,
				  .may_stop = true,
				  .to_us = HWTS_NEVER,
				  .last = about->after };
	bool goes_on = true;
	size_t count = 0;
	int rc = 0;

	while (rc == 0 && goes_on && !(list.read && list.at == list.count)) {
		rc = each_page(store, about->kind, &list, infos, &count);
		for (size_t i = 0; i < count && rc == 0; i++) {
			void *data = infos[i].data;

			infos[i].size = sizeof(infos[i]);
			goes_on = goes_on && each(ctx, &infos[i]);
			free(data);
		}
	}
	free(list.places);
	return rc;
}

/* Calls each for a single timeout. */
static int each_one(hwt_store *store, struct hwts_about *about, each_it *each, void *ctx, hwt_store_info *info)
{
	int rc;

	if (about->with_data) {
		info->data = hwts_alloc(HWT_STORE_DATA_MAX);
		info->data_room = HWT_STORE_DATA_MAX;
	}
	rc = about->with_data && !info->data ? ENOMEM : hwts_about_do(store, about, get_it, info);
	if (rc == 0) {
		void *data = info->data;

		info->size = sizeof(*info);
		info->data_room = info->len;
		info->data = info->len ? data : NULL;
		(void)each(ctx, info);
		info->data = data;
	}
	free(info->data);
	return rc;
}

static int each_page_of(hwt_store *store, const hwt_store_which *which, each_it *each, void *ctx)
{
	hwt_store_info *infos;
	struct hwts_about about;
	int rc = hwts_check_store(store);

	if (rc == 0 && !each)
		rc = hwts_fail(EINVAL, "the function is NULL");
	if (rc == 0)
		rc = hwts_about_of(which, HWTS_MAY_BE_MANY | HWTS_MAY_READ, &about);
	if (rc != 0)
		return rc;
	infos = hwts_alloc(PAGE * sizeof(*infos));
	if (!infos)
		return ENOMEM;
	rc = about.all ? each_of(store, &about, each, ctx, infos) : each_one(store, &about, each, ctx, infos);
	free(infos);
	return rc;
}

int hwt_store_each_ex(hwt_store *store, const hwt_store_which *which, each_it *each, void *ctx)
{
	struct hwts_call call = hwts_enter();

	return hwts_leave(call, each_page_of(store, which, each, ctx));
}

int hwt_store_each(hwt_store *store, const char *kind, unsigned states, each_it *each, void *ctx)
{
	const hwt_store_which which = { .size = sizeof(which), .kind = kind, .all = true, .states = states };
	struct hwts_call call = hwts_enter();

	if (store && each && (states & HWTS_ALL_STATES) == 0)
		return hwts_leave(call, hwts_fail(EINVAL, "states is a set such as 1u << HWT_STORE_PENDING"));
	return hwts_leave(call, each_page_of(store, &which, each, ctx));
}
