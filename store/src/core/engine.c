/* SPDX-License-Identifier: BSD-2-Clause */
/* What the engines share: rows, shards; engine.h. */
#include "core/engine.h"

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

/* FNV-1a of 32 bits, folded. */
static uint32_t hash(const char *text)
{
	uint32_t h = 2166136261u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h ^ h >> 10 ^ h >> 20;
}

int64_t hwts_id_of(int64_t number, const char *group, const char *key)
{
	uint32_t bucket = group ? hash(group) : key ? hash(key) : (uint32_t)number;

	return number << HWTS_BUCKET_BITS | (bucket & (HWTS_BUCKETS - 1));
}

int hwts_check_version(const struct hwts_db *db, int version)
{
	const char *p = db->prefix;

	if (version == HWTS_VERSION)
		return 0;
	if (version != 1)
		return hwts_fail(ENOTSUP, "%s: the tables %s_* have version %d, this library knows %d; use a newer one",
				 db->engine->name, p, version, HWTS_VERSION);
	return hwts_fail(ENOTSUP,
			 "%s: tables of version 1 are not converted: drop %s_meta, %s_kind, %s_shard, %s_member, "
			 "%s_timeout and %s%s_%s",
			 db->engine->name, p, p, p, p, p, db->file ? "" : "sequence ", p, db->file ? "hint" : "id");
}
