/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of kinds that this process knows, the rules for names, and the starts of a minute. */
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

/*
 * Starts within the last minute
 */

void hwts_peak_note(struct hwts_peak *peak, int64_t now_ns, int64_t ns)
{
	int64_t second = now_ns / HWT_S(1);
	size_t at = (size_t)(second % 60);

	if (peak->second[at] != second) {
		peak->ns[at] = 0;
		peak->count[at] = 0;
	}
	peak->ns[at] = HWTS_MAX(peak->ns[at], ns);
	peak->count[at]++;
	peak->second[at] = second;
}

static bool is_of_last_minute(int64_t second, int64_t now_ns)
{
	return second > now_ns / HWT_S(1) - 60;
}

int64_t hwts_peak_read(const struct hwts_peak *peak, int64_t now_ns)
{
	int64_t most = 0;

	for (size_t i = 0; i < 60; i++)
		if (is_of_last_minute(peak->second[i], now_ns))
			most = HWTS_MAX(most, peak->ns[i]);
	return most;
}

uint64_t hwts_peak_count(const struct hwts_peak *peak, int64_t now_ns)
{
	uint64_t count = 0;

	for (size_t i = 0; i < 60; i++)
		if (is_of_last_minute(peak->second[i], now_ns))
			count += peak->count[i];
	return count;
}
