/* SPDX-License-Identifier: BSD-2-Clause */
/* What the engines share: the prefix in SQL texts, rows, shards; engine.h. */
#include "core/engine.h"

char *hwts_sql(const struct hwts_db *db, const char *text)
{
	size_t prefix = strlen(db->prefix), size = strlen(text) + 1;
	char *sql, *to;

	for (const char *at = strchr(text, '@'); at; at = strchr(at + 1, '@'))
		size += prefix;
	sql = to = hwts_alloc(size);
	for (; sql && *text; text++) {
		if (*text == '@') {
			memcpy(to, db->prefix, prefix);
			to += prefix;
		} else {
			*to++ = *text;
		}
	}
	return sql;
}

struct hwts_row *hwts_row_make(const char *key, size_t key_len, const void *data, size_t len)
{
	struct hwts_row *row = hwts_alloc(sizeof(*row) + len + (key ? key_len + 1 : 0));
	char *behind;

	if (!row)
		return NULL;
	behind = (char *)(row + 1);
	row->len = len;
	if (len > 0) {
		row->data = memcpy(behind, data, len);
		behind += len;
	}
	if (key) {
		row->key = key_len ? memcpy(behind, key, key_len) : behind;
		behind[key_len] = '\0';
	}
	return row;
}

/* Ids come in steps, so they are mixed before they are cut. */
int32_t hwts_shard_of(const struct hwts_kind_row *kind, int64_t id)
{
	return kind->id * HWTS_SHARDS_MAX + (int32_t)(hwts_mix((uint64_t)id) % kind->shards);
}
