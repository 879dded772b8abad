/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The statements; sql.h.
 *
 * PostgreSQL plans a statement once and keeps the plan while the table grows.  In a table of one page each way to a row
 * costs the same, so a text must leave one way only.  "+ 0" takes a column away from the indexes.  A lateral query with
 * "offset 0" or a limit, an array of a query, and a query that stands for a value are planned by themselves, with what
 * they refer to as parameters.  The index by due time has a predicate that each row meets and "shard = " alone implies.
 */
#include "rows/sql.h"
#include "rows/sql_look.h"
#include "rows/sql_rules.h"
#include "rows/sql_words.h"

/* clang-format off */
const struct hwts_statement hwts_statements[HWTS_SQLS] = {
	/*
	 * Reading
	 */
	TEXT(GET, "get", "in",
		INFO ", case when ?2 > 0 then substr(t.data, 1, ?2) end from @_timeout t where t.id = ?1 and t.bucket ="
		" (?1 & 1023)"),
	TEXT(FIND, "find", "nnkk",
		"select id, state from @_timeout where bucket = ?1 and kind = ?2 and grp = ?3 and key = ?4"),
	/*
	 * What runs was due, by a clock that may have been put back by a minute since: so without PENDING (?6) no more
	 * is read, and what has failed.
	 */
	TEXTS(PLACES, "places", "Niinibbi",
		"select t.shard, t.due_us, t.id from @_timeout t where t.shard = ?1 and (t.due_us, t.id) > (?2, ?3)"
		" and t.due_us < case when ?6 or ?1 < 0 or ?8 < @now + 60000000 then ?8 else @now + 60000000 end and"
		" (1 << t.state) & ?4 <> 0 and (?7 or t.grp = '') order by t.due_us, t.id limit ?5",
		"with n as materialized (select @now us) select x.* from unnest(?1) s(id), n, lateral (select"
		" t.shard, t.due_us, t.id from @_timeout t where t.shard = s.id and (t.due_us, t.id) > (?2, ?3) and"
		" t.due_us < case when ?6 or s.id < 0 or ?8 < n.us + 60000000 then ?8 else n.us + 60000000 end and (1"
		" << t.state) & ?4 <> 0 and (?7 or t.grp = '') order by t.due_us, t.id limit ?5) x"),
	TEXT(GROUP_PLACES, "places", "nnkiiini",
		"select 0, t.due_us, t.id from @_timeout t where t.bucket = ?1 and t.kind = ?2 and t.grp = ?3 and"
		" t.grp <> '' and (t.due_us, t.id) > (?4, ?5) and t.due_us < ?6 and (1 << t.state) & ?7 <> 0 order"
		" by t.due_us, t.id limit ?8"),
	TEXT(INFOS, "infos", "Ib",
		INFO ", case when ?2 then t.data end from @_timeout t where t.id = @any(?1)"),
	/*
	 * Changes
	 */
	TEXT(CANCEL, "cancel", "iin",
		"delete from @_timeout where "
		THIS " and ((state <> 2 and (1 << state) & ?3 <> 0) or (state = 2 and epoch = ?2 and last is null))"
		     " returning id"),
	/* None of them waits for a row that another transaction has locked: those are tried alone. */
	TEXTS(CANCEL_ALL, "cancel", "In",
		"delete from @_timeout where " THIS " and state <> 2 and (1 << state) & ?2 <> 0 returning id",
		"delete from @_timeout where id = any(array(select u.id from @_timeout u where u.id = any(?1) and"
		" u.state <> 2 and (1 << u.state) & ?2 <> 0 for update skip locked)) and state <> 2 and (1 << state) &"
		" ?2 <> 0 returning id"),
	/* The run in progress is its last: nothing files it again, and nobody takes it over.  ?2: also of no series. */
	TEXT(CANCEL_LAST, "cancel", "ib",
		"update @_timeout set last = true where "
		THIS " and ((?2 and state = 2 and last is null) or (" GOES_ON ")) returning id"),
	/* What has replaced one that runs; the run stays what it is. */
	TEXT(CANCEL_NEXT, "cancel", "i",
		"update @_timeout set last = last" SPEC(NEXT_GOES) " where "
		THIS " and state = 2 and next_due_us is not null returning id"),
	TEXT(RESCHEDULE, "reschedule", "iibni",
		"with n as materialized (select case when ?3 then ?2 else @now + ?2 end us) update @_timeout set"
		REFILE "@tx from n where "
		THIS " and ((state <> 2 and (1 << state) & ?4 <> 0) or (state = 2 and epoch = ?5 and "
		UNMARKED "))" MOVED),
	/* As it is for cancels. */
	TEXTS(RESCHEDULE_ALL, "reschedule", "Iin",
		"with n as materialized (select ?2 us) update @_timeout set"
		REFILE " from n where "
		THIS " and state <> 2 and (1 << state) & ?3 <> 0" MOVED,
		"with n as materialized (select ?2 us) update @_timeout set"
		REFILE
		"@tx from n where id = any(array(select u.id from @_timeout u where u.id = any(?1) and u.state <> 2"
		" and (1 << u.state) & ?3 <> 0 for update skip locked)) and state <> 2 and (1 << state) & ?3 <> 0"
		MOVED),
	TEXTS(STATES, "state", "I",
		"select id, state, " HAS_MORE " from @_timeout where " THIS,
		"select id, state, " HAS_MORE " from @_timeout where id = any(?1)"),
	/*
	 * Tells the holders of rows (?1) that are due soon, but not this process (?2) unless ?3.  SQLite: what is due
	 * before now + horizon; rows_send.c says why.  The dead hear nothing, and nobody removes the hints they are
	 * left: the process that takes their shards reads them from the beginning.  PostgreSQL: the second covers
	 * the time between a put's clock and its commit; ?4 is the horizon of all, or 0.
	 */
	TEXTS(TELL, "tell", "Jtbi",
		"insert into @_hint (id, due_us, shard, len, at_us) select t.id, t.due_us, t.shard,"
		" coalesce(length(t.data), 0), @now from @_timeout t join @_shard s on s.id = t.shard join @_kind"
		" k on k.id = t.kind join @_member m on m.name = s.owner where t.id" IN_LIST
		" and t.state = 1 and (?3 or s.owner <> ?2) and t.due_us < @now + k.horizon_us and m.until_us " LIVE,
		"select pg_notify('@news' || x.shard, case when length(x.news) > 7000 then 'r' else x.news end) from"
		" (select t.shard + 0 shard, string_agg(concat(t.id, ':', t.due_us, ':', coalesce(length(t.data),"
		" 0), case when t.grp <> '' or t.priority <> 0 then concat(':', t.priority, ':', encode(t.grp,"
		" 'hex')) end), ',') news from (select @now us) n, @_timeout t where t.id = any(?1) and t.state = 1"
		" and t.due_us < n.us + case when ?4 > 0 then ?4 else (select k.horizon_us from @_kind k where k.id"
		" = t.kind) end + 1000000 group by t.shard + 0) x, lateral (select s.owner from @_shard s where s.id"
		" = x.shard offset 0) s where s.owner is not null and (?3 or (s.owner <> ?2 and " UNSYNCED "))"),
	/*
	 * Kinds.  A process that joins or makes a kind takes this lock shared, a removal takes it alone.  On PostgreSQL
	 * one kind is made at a time.  Its commit is flushed whatever the role says, and so is that of a draw of
	 * numbers: after a crash the server would give the same numbers to another.
	 */
	TEXT(KIND, "kind", "t",
		"select id, shards, coalesce(mode, -1), horizon_us, removed is not null from @_kind where name = ?1"),
	TEXTS(KIND_LOCK, "remove", "", "", "select pg_advisory_xact_lock(hashtext('@_kind'))"),
	TEXTS(KIND_SHARE, "make", "", "", "select pg_advisory_xact_lock_shared(hashtext('@_kind'))"),
	TEXTS(KIND_MAKING, "make", "", "", "select pg_advisory_xact_lock(hashtext('@_make'))"),
	TEXTS(FLUSH, "flush", "", "",
		"select case when current_setting('synchronous_commit') in ('off', 'local') then"
		" set_config('synchronous_commit', 'on', true) end"),
	TEXT(KIND_MAKE, "make", "tnni",
		"insert into @_kind (id, name, shards, mode, horizon_us) select coalesce(max(id), 0) + 1, ?1, ?2,"
		" nullif(?3, -1), ?4 from @_kind where true on conflict (name) do nothing"),
	/* The first registration of a kind that a put has made sets these.  A kind that was removed exists again. */
	TEXT(KIND_OPEN, "open", "tni",
		"update @_kind set mode = nullif(?2, -1), horizon_us = case when removed is null then ?3 else"
		" horizon_us end, removed = null where name = ?1 and mode is null and (?2 >= 0 or removed is not"
		" null)"),
	TEXT(KIND_SHARDS, "shards", "t",
		"with recursive i (n) as (select 0 union all select n + 1 from i where n < 1023) insert into"
		" @_shard (id, kind, epoch, owner) select k.id * 1024 + i.n, k.id, 0, null from @_kind k join i on"
		" i.n < k.shards where k.name = ?1 on conflict (id) do nothing"),
	/* Those of a name (?1), or all.  One that was removed is there as long as it has rows. */
	TEXTS(KINDS, "kinds", "tb", KINDS(IN_TEXT), KINDS(IN_ARRAY)),
	TEXTS(KIND_REMOVE, "remove", "t", REMOVE(IN_TEXT), REMOVE(IN_ARRAY)),
	TEXTS(KIND_GROUPS, "remove", "t",
		"with recursive i (n) as (select 0 union all select n + 1 from i where n < 1023) delete from @_group"
		" where bucket in (select n from i) and kind = (select id from @_kind where name = ?1 and removed is"
		" not null)",
		"delete from @_group where bucket = any(array(select generate_series(0, 1023))) and kind = (select"
		" id from @_kind where name = ?1 and removed is not null)"),
	TEXT(KIND_RULES, "remove", "t",
		"update @_shard set rules = rules + 1 where kind = (select id from @_kind where name = ?1 and removed"
		" is not null)"),
	/*
	 * Members and shards.  A join also replaces a process of its name that is known to be dead (?5).
	 */
	TEXT(JOIN, "join", "tiili",
		"insert into @_member as m (name, incarnation, until_us, kinds) select ?1, ?2, n.us + ?3, ?4 from"
		" (select @boot us) n where true on conflict (name) do update set incarnation = excluded.incarnation,"
		" until_us = excluded.until_us, kinds = ?4 where m.incarnation in (?2, ?5) or m.until_us not "
		LIVE " returning 1"),
	TEXT(NAMESAKE, "join", "t",
		"select incarnation, until_us, until_us - @boot from @_member where name = ?1"),
	TEXT(LEAVE, "leave", "ti", "delete from @_member where name = ?1 and incarnation = ?2"),
	/* Removes unlocked members that died long ago.  A recent death still shows, as a lease that is over. */
	TEXTS(BURY, "bury", "",
		"delete from @_member where " LONG_OVER,
		"delete from @_member where name = any(array(select name from @_member where " LONG_OVER
		" for update skip locked))"),
	/* Tells the others to look at the shards. */
	TEXTS(CALL, "call", "",
		"insert into @_hint (id, due_us, shard, len, at_us) values (0, 0, -1, 0, @now)",
		"select pg_notify('@newsmembers', '')"),
	/* SQLite: this, MEMBERS and SHARDS are a renewal; PostgreSQL: RENEW_ALL. */
	TEXTS(RENEW, "renew", "tiil",
		"with n as materialized (select @boot us) update @_member set until_us = n.us + ?2, kinds = ?4"
		" from n where name = ?1 and incarnation = ?3 and until_us between n.us + 1 and n.us + 3600000000"
		" returning 1",
		""),
	TEXTS(MEMBERS, "members", "N",
		"select ?1, count(*) from @_member where instr(kinds, ',' || ?1 || ',') > 0 and until_us " LIVE,
		""),
	TEXTS(SHARDS, "shards", "Nt",
		"select s.id, s.epoch, s.owner = ?2, coalesce(m.until_us, 0) not between n.us + 1 and n.us +"
		" 3600000000, coalesce(m.until_us - n.us, 0), s.rules from (select @boot us) n cross join @_shard s"
		" left join @_member m on m.name = s.owner where s.kind = ?1",
		""),
	/*
	 * Renews the lease, and returns each shard of the kinds ?5, with how many others run its kind; then shard 0:
	 * whether the lease is renewed.  All of it as it was before the renewal.
	 */
	TEXTS(RENEW_ALL, "renew", "tiilN", "",
		"with n as materialized (select @now us), r as (update @_member set until_us = n.us + ?2, kinds = ?4"
		" from n where name = ?1 and incarnation = ?3 and until_us between n.us + 1 and n.us + 3600000000"
		" returning " HWTS_SYNCED_TEXT ") select s.*, l.n from n, unnest(?5) k(id), lateral (select count(*)"
		" n from @_member l where k.id = any(l.kinds) and l.name <> ?1 and l.until_us between n.us + 1 and"
		" n.us + 3600000000) l, lateral (select s.id, s.epoch, s.owner = ?1, coalesce(o.until_us, 0) not"
		" between n.us + 1 and n.us + 3600000000, coalesce(o.until_us - n.us, 0), s.rules from @_shard s"
		" left join @_member o on o.name = s.owner where s.kind = k.id offset 0) s union all select 0, 0,"
		" exists (select 1 from r), false, 0, 0, 0"),
	TEXT(CLOCK, "clock", "", "select @now, @mono"),
	TEXTS(SNAPSHOT, "snapshot", "", "", "select pg_current_snapshot()::text"),
	HWTS_LOOK_STATEMENTS
	/*
	 * A take.  Each statement must see what was committed before the one before it had its locks.  The first
	 * notes that the leases of the owners are over.  Without it a renewal that has read the clock just before the
	 * end could commit after the take, and its process would trust it, and start what it had begun in these
	 * shards.  PostgreSQL: neither waits for a row that another transaction has locked, and the shards of a member
	 * that is not noted as over are not taken.  A shard that still has its epoch and was not taken comes back with
	 * the epoch 0.
	 */
	TEXTS(OVER, "take", "N",
		"update @_member set until_us = 0 where " IS_OVER " and name in (select owner from @_shard where"
		" id = @any(?1))",
		"update @_member set until_us = 0 where name = any(array(select name from @_member where " IS_OVER
		" and name = any(array(select owner from @_shard where id = any(?1))) for update skip locked))"),
	TEXTS(TAKE, "take", "nit",
		"update @_shard as s set epoch = s.epoch + 1, owner = ?3, levels = case when s.owner is null then"
		" s.levels end where s.id = ?1 and s.epoch = ?2 and " NO_OWNER
		" returning id, epoch, rules, epoch > 1 and levels is null",
		"with f as materialized (select s.id from @_shard s where s.id = ?1 and s.epoch = ?2 and " NO_OWNER
		" for update of s skip locked), t as (update @_shard s set epoch = s.epoch + 1, owner = ?3, levels ="
		" case when s.owner is null then s.levels end where s.id = (select f.id from f) returning s.id,"
		" s.epoch, s.rules, s.epoch > 1 and s.levels is null) select * from t union all select s.id, 0, 0,"
		" false from @_shard s where s.id = ?1 and s.epoch = ?2 and not exists (select 1 from t)"),
	/*
	 * With its levels (?4), for the process that takes it next.  PostgreSQL: one that is locked stays this
	 * process', which finds at its next renewal that it no longer wants it.
	 */
	TEXTS(GIVE, "give", "nitdb",
		GIVE_WHERE "id = ?1 and epoch = ?2 and owner = ?3",
		GIVE_WHERE "id = (select s.id from @_shard s where s.id = ?1 and s.epoch = ?2 and s.owner = ?3 for"
		" update skip locked)"),
	HWTS_RULES_STATEMENTS
	/*
	 * Runs.  A begin locks the shards of its rows in their order; if it needs more than one statement, before them.
	 */
	TEXTS(SHARE, "begin", "J", "", "select id from @_shard where id = any(?1) order by id for share"),
	/*
	 * One that has been started so often (?7) is not begun, nor one that a process held when it died, and
	 * that had been started so often (?8).  To begin a row again, as the reply was lost, is no further start.
	 */
	TEXTS(BEGIN, "begin", "JJitiinni",
		"update @_timeout set state = 2, epoch = ?3, attempt = attempt + case when state = 2 and epoch ="
		" ?3 then 0 else 1 end where id" IN_LIST
		" and +due_us <= @now and ((state = 1 and attempt"
		" < ?7) or (state = 2 and " UNMARKED " and epoch >= ?5 and epoch < ?6 and (epoch = ?3 or (attempt"
		" < ?7 and attempt < ?8)))) and +shard in (select s.id from json_each(?2) j cross join @_shard s on"
		" s.id = j.value where s.epoch = ?3 and s.owner = ?4 and s.rules = ?9)"
		" returning id, due_us, base_us, period_us, attempt, key, data, @now, grp, schedule, zone,"
		" grace_us, spread_us",
		BEGIN_FROM("") " where t.id = any(?1)" BEGIN_WHERE),
	TEXTS(BEGIN_UNLOCKED, "begin", "JJitiinni", "",
		BEGIN_FROM(" skip locked")
		" where t.id = any(array(select u.id from @_timeout u where u.id = any(?1) for update skip locked))"
		BEGIN_WHERE),
	TEXT(PENDING, "pending", "J",
		"select t.id, t.due_us, (select s.epoch from @_shard s where s.id = t.shard), t.state, t.attempt,"
		" t.epoch, case when t.next_due_us is not null then 2 when t.last is not null then 1 else 0 end,"
		" (select s.rules from @_shard s where s.id = t.shard), @now from @_timeout t where t.id" IN_LIST
		" and t.state <> 3"),
	/* What a process held when it died: a delay (?3) from now, or the next time of the grid, unless it had none. */
	TEXT(INHERIT, "inherit", "iii",
		"with n as materialized (select @now us) update @_timeout set state = 1, epoch = 0, due_us = case"
		" when due_us = 0 and schedule is not null then 0 when period_us > 0 and base_us + ((n.us - base_us)"
		" / period_us + 1) * period_us < n.us + ?3 then base_us + ((n.us - base_us) / period_us + 1) *"
		" period_us else n.us + ?3 end, error = '"
		HWTS_DIED "'@tx from n where id = ?1 and state = 2 and epoch = ?2 and "
		UNMARKED " returning id, due_us"),
	/* Those of rows that no other transaction has locked. */
	TEXTS(END_LOCK, "end", "I", "", "select id from @_timeout where id = any(?1) for update skip locked"),
	TEXTS(END_DONE, "end", "Ii",
		"delete from @_timeout where id = ?1 and state = 2 and epoch = ?2 and next_due_us is null",
		"delete from @_timeout where id = any(?1) and state = 2 and epoch = ?2 and next_due_us is null"
		" returning id"),
	TEXT(END_AGAIN, "end", "iiibiint",
		"with w as materialized (select case when not ?4 then ?3 when @now + ?3 < ?5 then @now + ?3 else"
		" ?5 end us) update @_timeout set state = 1, epoch = 0, due_us = w.us, base_us = ?6,"
		" attempt = ?7, error = case when ?8 is null then error else"
		" nullif(?8, '') end@tx from w where "
		THIS " and state = 2 and epoch = ?2 and " UNMARKED " returning id, due_us"),
	TEXT(END_FAIL, "end", "iit",
		"update @_timeout set state = 3, shard = -1 - shard, error = ?3 where "
		THIS " and state = 2 and epoch = ?2 and " UNMARKED " returning id"),
	TEXT(END_LAST, "end", "ii",
		"delete from @_timeout where "
		THIS " and state = 2 and epoch = ?2 and last is not null and next_due_us is null returning id"),
	/* Whatever the run has answered, and also if its process died: what has replaced it holds. */
	TEXT(END_NEXT, "end", "ii",
		"update @_timeout set state = 1, epoch = 0, attempt = 0, last = null, error = null"
		SPEC(NEXT_HOLDS) "@tx where "
		THIS " and state = 2 and epoch = ?2 and next_due_us is not null returning id, due_us,"
		" coalesce(length(data), 0), priority"),
	/*
	 * In a task's transaction, before its end.  It is no longer this run's: SQLite returns no row.  PostgreSQL
	 * divides by zero, and what is behind it in the pipeline, the commit too, does not happen.
	 */
	TEXTS(CLOSE, "close_run", "ii",
		"select 1 from @_timeout where id = ?1 and state = 2 and epoch = ?2",
		"select 1 / count(*) from (select 1 from @_timeout where "
		THIS " and state = 2 and epoch = ?2 for update) t"),
	/*
	 * Numbers, ?1 of them: those after the last, or of 4 a millisecond since 2026 if that is more.  The clock is
	 * believed up to 2^40 numbers before the end.
	 */
	TEXTS(DRAW, "draw", "i",
		"update @_meta set next_number = max(next_number, min((@now - 1767225600000000) / 250,"
		" 3298534883328)) + ?1 where next_number <= 4398046511104 - ?1 returning next_number - ?1",
		"update @_meta set next_number = greatest(next_number, least((@now - 1767225600000000) / 250,"
		" 3298534883328)) + ?1 where next_number <= 4398046511104 - ?1 returning next_number - ?1"),
	/* Puts.  On SQLite the put itself has added the clock. */
	TEXTS(PUT, "put", "INNIBINKKD", PUT, PUT_ALL RETURNING),
	TEXTS(PUT_KEYED, "put", "INNIBINKKD", PUT KEEP, PUT_ALL KEEP RETURNING),
	PUT_ALONE(PUT_REPLACE, REPLACE RETURNING),
	PUT_ALONE(PUT_REVIVE, REVIVE RETURNING),
	PUT_ALONE(PUT_SERIES, KEEP RETURNING),
	/* Which store this is, and the kind of a name. */
	TEXT(STORE, "store", "t",
		"select m.store, coalesce((select k.id from @_kind k where k.name = ?1), 0) from @_meta m"),
	/* Whether this is the store ?1.  SQLite: a transaction that began by reading could perhaps not write. */
	TEXTS(HERE, "here", "t",
		"update @_meta set version = version where store = ?1 returning 1",
		"select 1 from @_meta where store = ?1"),
	/* SQLite: shards (?1) of which another process has to be told. */
	TEXTS(OTHERS, "others", "Nt",
		"select 1 from @_shard where id = ?1 and owner is not null and owner <> ?2",
		""),
};
/* clang-format on */
