/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of statements that several have in common, or that would hide the table; sql.c includes them. */
#ifndef HWTS_SQL_WORDS_H
#define HWTS_SQL_WORDS_H

/* Statements of the table: their name, the types of their parameters, and a text for both engines, or one for each. */
#define TEXT(is, name, types, text) [HWTS_SQL_##is] = { name, types, text, NULL }
#define TEXTS(is, name, types, sqlite, postgres) [HWTS_SQL_##is] = { name, types, sqlite, postgres }

#define INFO                                                                                                           \
	"select t.id, t.state, t.attempt, t.due_us, t.period_us, (select k.name from @_kind k where k.id = t.kind),"   \
	" t.key, (select s.owner from @_shard s where s.id = case when t.shard < 0 then -1 - t.shard else t.shard "    \
	"end)"                                                                                                         \
	", t.error, t.grp, t.priority, t.schedule, t.zone, coalesce(length(t.data), 0)"

/* In the array ?1. */
#define IN_LIST " @in(?1)@end"
/* One row: the bucket says in which partition it is. */
#define THIS "id = ?1 and bucket = (?1 & 1023)"
#define ROW "t.id, t.due_us, t.shard, coalesce(length(t.data), 0), t.epoch, t.grp, t.priority"
/* A lease that counts.  None lasts longer than an hour: what ends later is of another clock. */
#define LIVE "between @boot + 1 and @boot + 3600000000"
#define IS_OVER "until_us <> 0 and until_us not " LIVE
#define LONG_OVER "until_us not between @boot - 600000000 and @boot + 3600000000"
/* Of a shard s: nobody's, ?3's, or of a member whose lease was noted to be over in this transaction or before. */
#define NO_OWNER                                                                                                       \
	"(s.owner is null or s.owner = ?3 or not exists (select 1 from @_member m where m.name = s.owner and"          \
	" m.until_us <> 0))"
#define GIVE_WHERE "update @_shard set owner = null, levels = case when ?5 then levels else ?4 end where "
/* A series that runs, and whose run is not its last. */
#define GOES_ON "state = 2 and last is null and (period_us > 0 or schedule is not null)"
/* A cancel changes what runs: it makes the run the last, or drops what has replaced it. */
#define HAS_MORE "((" GOES_ON ") or next_due_us is not null)"
/* No server keeps news: their transaction need not wait for the disk.  Not in that of a caller. */
#define UNSYNCED "set_config('synchronous_commit', 'off', true) = 'off'"
/* What must be synced is not the role's to decide: it has "off" for what may be lost. */
#define HWTS_SYNCED_TEXT                                                                                               \
	"set_config('synchronous_commit', case when current_setting('hwt_store.synced') in ('off', 'local') then"      \
	" 'on' else current_setting('hwt_store.synced') end, true)"
#define MAY_BEGIN "(t.state = 1 or (t.state = 2 and t.epoch < m.e))"

/* clang-format off */
/*
 * Of a kind k: the members that run it, and how many of its shards have rows.  Each query that is a value is planned by
 * itself.  What has failed is counted as far as 1001.
 */
#define IN_TEXT "instr(m.kinds, ',' || k.id || ',') > 0"
#define IN_ARRAY "k.id = any(m.kinds)"
#define RUN_BY(member_has) "(select count(*) from @_member m where " member_has " and m.until_us " LIVE ")"
#define HAS_ROWS                                                                                                       \
	"(select count(*) from @_shard s where s.kind = k.id and coalesce((select t.state from @_timeout t where"      \
	" t.shard = s.id order by t.due_us limit 1), (select t.state from @_timeout t where t.shard = -1 - s.id"       \
	" order by t.due_us limit 1)) is not null)"
#define KINDS(member_has)                                                                                              \
	"select k.name, coalesce(k.mode, 0), k.shards, k.paused, k.running, k.start_every_us, k.burst, "               \
	RUN_BY(member_has)                                                                                             \
	", (select count(*) from (select 1 from @_timeout t where t.shard >= -1024 * (k.id + 1) and"                   \
	" t.shard <= -1 - 1024 * k.id limit 1001) f), (select min(o.us) from (select (select t.due_us from"            \
	" @_timeout t where t.shard = s.id and t.due_us > 0 and t.state = 1 order by t.due_us limit 1) us from"        \
	" @_shard s where s.kind = k.id) o), "                                                                         \
	HAS_ROWS                                                                                                       \
	", @now from @_kind k where (?2 or k.name = ?1) and (k.removed is null or "                                    \
	HAS_ROWS                                                                                                       \
	" > 0) order by k.name"
#define REMOVE(member_has)                                                                                             \
	"update @_kind as k set removed = true, mode = null, paused = false, running = null, start_every_us = null,"   \
	" burst = null where k.name = ?1 and "                                                                         \
	RUN_BY(member_has) " = 0"                                                                                      \
	" and " HAS_ROWS " = 0 returning id"
/* clang-format on */

#define PUT                                                                                                            \
	"insert into @_timeout as t (id, bucket, due_us, base_us, epoch, period_us, kind, shard, attempt, state, grp," \
	" key, data, priority)@values?1, ?1 & 1023, ?4, ?4, 0, ?6, ?2, ?3, 0, 1, ?8, ?9, ?10, ?7@here"
#define PUT_ALL                                                                                                        \
	"with n as materialized (select @now us@here)"                                                                 \
	", p as (select * from unnest(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) x(id, kind, shard, w, absolute,"        \
	" period, priority, grp, key, data))"                                                                          \
	" insert into @_timeout as t (id, bucket, due_us, base_us, epoch, period_us, kind, shard, attempt, state, grp" \
	", key, data, priority) select p.id, p.id & 1023, d.us, d.us, 0, p.period, p.kind, p.shard, 0, 1, p.grp,"      \
	" p.key, p.data, p.priority from p, n,"                                                                        \
	" lateral (select case when p.absolute then p.w else n.us + p.w end us) d"
/*
 * What a put says of a timeout.  What one says that replaces while the timeout runs waits in columns of its own, and
 * holds once that run has ended.  Until then the row is that of the run.
 */
/* clang-format off */
#define SPEC(each)                                                                                                     \
	each(due_us) each(base_us) each(period_us) each(priority) each(schedule) each(zone) each(grace_us)             \
	each(spread_us) each(data)
#define PUT_HERE(column) ", " #column " = excluded." #column
#define PUT_HERE_OR_NEXT(column)                                                                                       \
	", " #column " = case when t.state = 2 then t." #column " else excluded." #column " end, next_" #column        \
	" = case when t.state = 2 then excluded." #column " end"
#define NEXT_HOLDS(column) ", " #column " = next_" #column ", next_" #column " = null"
#define NEXT_GOES(column) ", next_" #column " = null"
/* The run in progress is neither the last nor replaced. */
#define UNMARKED "last is null and next_due_us is null"

#define IN_USE " on conflict (bucket, kind, grp, key) where key is not null do "
#define REPLACE                                                                                                        \
	IN_USE "update set attempt = case when t.state = 2 then t.attempt else 0 end,"                                 \
	" error = case when t.state = 2 then t.error end, epoch = case when t.state = 2 then t.epoch else 0 end,"      \
	" state = case when t.state = 2 then 2 else 1 end,"                                                            \
	" shard = case when t.shard < 0 then -1 - t.shard else t.shard end" SPEC(PUT_HERE_OR_NEXT) "@tx"
#define REVIVE                                                                                                         \
	IN_USE "update set attempt = 0, error = null, state = 1, epoch = 0, shard = -1 - t.shard" SPEC(PUT_HERE)       \
	"@tx where t.state = 3"
/* clang-format on */
#define KEEP IN_USE "nothing"
#define RETURNING " returning id, due_us, shard, state"

/*
 * The put of what replaces, revives, or has a schedule, grace or a spread: a row by itself, whose parameters are no
 * arrays.  The first ten are those of every put; ?11 is how much later than on its grid it is due, ?12 to ?15 schedule,
 * zone, grace, spread.  end: what becomes of one whose key is in use, and what is returned.
 */
#define PUT_ALONE_INTO                                                                                                 \
	"insert into @_timeout as t (id, bucket, due_us, base_us, epoch, period_us, kind, shard, attempt, state, grp"  \
	", key, data, priority, schedule, zone, grace_us, spread_us)"
/* clang-format off */
#define PUT_ALONE(is, end)                                                                                             \
	TEXTS(is, "put", "innibinkkdittii",                                                                            \
		PUT_ALONE_INTO "@values?1, ?1 & 1023, ?4 + ?11, ?4, 0, ?6, ?2, ?3, 0, 1, ?8, ?9, ?10, ?7, ?12, ?13,"   \
		" nullif(?14, 0), nullif(?15, 0)@here" end,                                                            \
		"with n as materialized (select @now us@here) " PUT_ALONE_INTO                                         \
		" select ?1, ?1 & 1023, d.us + ?11, d.us, 0, ?6, ?2, ?3, 0, 1, ?8, ?9, ?10, ?7, ?12, ?13,"             \
		" nullif(?14, 0), nullif(?15, 0) from n, lateral (select case when ?5 then ?4 else n.us + ?4 end"      \
		" us) d" end)
/* clang-format on */

#define REFILE                                                                                                         \
	" due_us = n.us, base_us = n.us, attempt = case state when 3 then 0 when 2 then attempt - 1 else attempt end," \
	" shard = case when shard < 0 then -1 - shard else shard end, epoch = 0, state = 1"
#define MOVED " returning id, shard, due_us, coalesce(length(data), 0), grp, priority"

#define BEGIN_FROM(skip)                                                                                               \
	"with s as materialized (select x.id from @_shard x where x.id = any(?2) and x.epoch = ?3 and x.owner = ?4"    \
	" and x.rules = ?9 order by x.id for share" skip "), n as materialized (select @now us)"                       \
	" update @_timeout t set state = 2, epoch = ?3, attempt = t.attempt + "                                        \
	"case when t.state = 2 and t.epoch = ?3 then 0 else 1 end from n"
#define BEGIN_WHERE                                                                                                    \
	" and coalesce(t.shard, 0) = any(array(select s.id from s)) and t.due_us + 0 <= n.us"                          \
	" and ((t.state = 1 and t.attempt < ?7) or (t.state = 2 and " UNMARKED " and t.epoch >= ?5 and t.epoch < ?6"   \
	" and (t.epoch = ?3 or (t.attempt < ?7 and t.attempt < ?8))))"                                                 \
	" returning t.id, t.due_us, t.base_us, t.period_us, t.attempt, t.key, t.data, n.us, t.grp, t.schedule"         \
	", t.zone, t.grace_us, t.spread_us"

#endif
