/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The statement that brings news of a row to its holder.
 */
#include "db/postgres.h"

/* $1: ids, $2: this process, which needs no news of what it does itself. */
#define NOTIFY                                                                                                         \
	"select pg_notify('@_' || x.shard, case when length(x.news) > 7000 then 'r' else x.news end) from ("           \
	"select t.shard, string_agg(t.id || ':' || t.due_us || ':' || coalesce(octet_length(t.data), 0), ',') news"    \
	" from @_timeout t join @_shard s on s.id = t.shard join @_kind k on k.id = t.kind, " PG_NOW " n"              \
	" where t.id = any($1::bigint[]) and t.state = 1 and s.owner is not null"                                      \
	" and t.due_us < n.us + k.horizon_us + 1000000"

const char hwts_pg_notify_others[] = NOTIFY " and s.owner <> $2::text group by t.shard) x";
const char hwts_pg_notify_holder[] = NOTIFY " group by t.shard) x";
