/* SPDX-License-Identifier: BSD-2-Clause */
/* What both engines use; engine.h. */
#include "rows/engine.h"

int64_t hwts_id_of(int64_t number, const char *group, const char *key)
{
	const char *name = group ? group : key;
	uint32_t bucket = name ? hwts_bucket(name, strlen(name)) : (uint32_t)number & (HWTS_BUCKETS - 1);

	return number << HWTS_BUCKET_BITS | bucket;
}

int hwts_check_version(const struct hwts_db *db, int version)
{
	const char *p = db->prefix;

	if (version == HWTS_VERSION)
		return 0;
	if (version == 2)
		return hwts_fail(ENOTSUP,
				 "%s: tables of version 2: stop all processes, and execute: alter table "
				 "%s_member add waits text; alter table %s_member add waits_us bigint; alter "
				 "table %s_member add starts text; update %s_meta set version = 3",
				 db->engine->name, p, p, p, p);
	if (version != 1)
		return hwts_fail(ENOTSUP, "%s: the tables %s_* have version %d, this library knows %d; use a newer one",
				 db->engine->name, p, version, HWTS_VERSION);
	return hwts_fail(ENOTSUP,
			 "%s: tables of version 1 are not converted: drop %s_meta, %s_kind, %s_shard, %s_member, "
			 "%s_timeout and %s%s_%s",
			 db->engine->name, p, p, p, p, p, db->file ? "" : "sequence ", p, db->file ? "hint" : "id");
}

int hwts_fail_emptied(const struct hwts_db *db)
{
	return hwts_fail(
	    EIO,
	    "%s: the tables %s_* have been emptied, %s_meta has no row: restore them from a backup, or stop"
	    " all processes, drop the tables and views %s_* and start again",
	    db->engine->name, db->prefix, db->prefix, db->prefix);
}

/* Keeps the priority in its range: somebody may have edited the row. */
int8_t hwts_priority_of(int64_t number)
{
	return (int8_t)HWTS_MAX(HWTS_MIN(number, HWTS_PRIORITY_MAX), -HWTS_PRIORITY_MAX);
}

void hwts_due_set(struct hwts_due *due, const void *group, size_t len, int64_t priority)
{
	due->group_len = (uint8_t)HWTS_MIN(len, (size_t)HWTS_KEY_MAX);
	if (due->group_len > 0)
		memcpy(due->group, group, due->group_len);
	due->priority = hwts_priority_of(priority);
}
