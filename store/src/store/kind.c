/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of kinds that this process knows, and the rules for names. */
#include "store/kind.h"
#include "store/store.h"

#define SHARDS 8
#define HORIZON_NS HWT_S(5)

int hwts_check_kind_name(const char *name)
{
	size_t len = name ? strlen(name) : 0;

	if (!name)
		return hwts_fail(EINVAL, "the kind is NULL");
	if (len == 0 || len > HWTS_NAME_MAX || !hwts_is_utf8(name, len))
		return hwts_fail(EINVAL, "a kind's name has 1 to %d bytes of UTF-8", HWTS_NAME_MAX);
	return 0;
}

int hwts_check_text(const char *what, const char *text)
{
	size_t len = text ? strlen(text) : 0;

	return len > 0 && len <= HWTS_KEY_MAX && hwts_is_utf8(text, len)
		   ? 0
		   : hwts_fail(EINVAL, "a %s has 1 to %d bytes of UTF-8", what, HWTS_KEY_MAX);
}

/*
 * The list: kinds are appended, and never removed
 */

struct hwts_kind *hwts_kind_after(const hwt_store *store, const struct hwts_kind *kind)
{
	return kind ? kind->next : store->kinds;
}

struct hwts_kind *hwts_kind_next(const hwt_store *store, const struct hwts_kind *kind)
{
	struct hwts_kind *next = hwts_kind_after(store, kind);

	while (next && !next->registered)
		next = next->next;
	return next;
}

struct hwts_kind *hwts_kind_around(const hwt_store *store, const struct hwts_kind *kind)
{
	struct hwts_kind *next = hwts_kind_next(store, kind);

	return next ? next : hwts_kind_next(store, NULL);
}

size_t hwts_kind_count(const hwt_store *store)
{
	size_t n = 0;

	HWTS_EACH_KIND (store, kind)
		n++;
	return n;
}

struct hwts_kind *hwts_kind_turn(const hwt_store *store, unsigned turn)
{
	size_t n = hwts_kind_count(store);
	struct hwts_kind *kind = hwts_kind_next(store, NULL);

	for (size_t i = 0; n > 0 && i < turn % n; i++)
		kind = hwts_kind_next(store, kind);
	return kind;
}

struct hwts_kind *hwts_kind_find(const hwt_store *store, const char *name)
{
	struct hwts_kind *kind = store->kinds;

	while (kind && strcmp(kind->name, name) != 0)
		kind = kind->next;
	return kind;
}

struct hwts_kind *hwts_kind_add(hwt_store *store, struct hwts_kind *made, const char *name)
{
	struct hwts_kind **link = &store->kinds, *kind = hwts_kind_find(store, name);

	if (kind)
		return kind;
	hwts_cut(made->name, sizeof(made->name), name, strlen(name));
	while (*link)
		link = &(*link)->next;
	return *link = made;
}

bool hwts_kind_known(hwt_store *store, const char *name, struct hwts_kind_row *out)
{
	const struct hwts_kind *kind;
	bool is;

	hwts_lock(store);
	kind = hwts_kind_find(store, name);
	is = kind && !kind->row.removed &&
	     (kind->row.mode != HWTS_MODE_OPEN || hwt_now() - kind->asked_ns < store->config.lease_ns);
	if (is)
		*out = kind->row;
	hwts_unlock(store);
	return is;
}

void hwts_kinds_free(hwt_store *store)
{
	for (struct hwts_kind *kind = store->kinds, *next; kind; kind = next) {
		next = kind->next;
		free(kind->shards);
		free(kind);
	}
}

struct hwts_kind_row hwts_kind_defaults(const hwt_store *store)
{
	return (struct hwts_kind_row){
		.shards = SHARDS,
		.mode = HWTS_MODE_OPEN,
		.horizon_us = HWTS_MAX(HORIZON_NS, store->config.lease_ns / 3 * 2) / 1000,
	};
}
