-- SPDX-License-Identifier: BSD-2-Clause
-- Statements that put timeouts, and tell of them.

--: DRAW draw (count bigint)
-- Draws count numbers and returns the first: the number after the last one drawn, or 4 for each millisecond since 2026
-- if that is larger. A clock is believed up to 2^40 numbers before the end.
--: sqlite
update @_meta
  set next_number = max(next_number, min((@now - 1767225600000000) / 250, 3298534883328)) + ?1
  where next_number <= 4398046511104 - ?1
  returning next_number - ?1
--: postgresql
update @_meta
  set next_number = greatest(next_number, least((@now - 1767225600000000) / 250, 3298534883328)) + ?1
  where next_number <= 4398046511104 - ?1
  returning next_number - ?1

--: PUT put (id bigint[], kind int[], shard int[], time_us bigint[], absolute bool[], period_us bigint[], priority
--:   int[], grp key[], key key[], data data[], notes_clock bool)
-- Puts timeouts without keys. time_us is a time if absolute, otherwise a delay from the clock. On SQLite it is always a
-- time: rows_send.c has added the clock. On PostgreSQL one row answers for all: the first id, the clock, 0, how many;
-- or, if a trigger has dropped some, each row that is there.
-- notes_clock: a setting of the session keeps the first id and the clock for TELL_PUT.
--: sqlite
{MANY_SQLITE}
--: postgresql
with {SENT}, i as ({MANY_POSTGRESQL} {RETURNING}), c as (select count(*) = cardinality(?1) has_all from i)
select (?1)[1], n.us, 0, cardinality(?1)
  from n, c
  where c.has_all and (not ?11 or set_config('hwt_store.put', (?1)[1] || ' ' || n.us, false) is not null)
union all
select i.id, i.due_us, i.shard, i.state
  from i, c
  where not c.has_all

--: PUT_KEYED put (id bigint[], kind int[], shard int[], time_us bigint[], absolute bool[], period_us bigint[],
--:   priority int[], grp key[], key key[], data data[])
-- Puts timeouts with keys. A timeout whose key is in use is not put.
--: sqlite
{MANY_SQLITE} {IN_USE} nothing
--: postgresql
with {SENT} {MANY_POSTGRESQL} {IN_USE} nothing {RETURNING}

--: PUT_REPLACE put (id bigint, kind int, shard int, time_us bigint, absolute bool, period_us bigint, priority int,
--:   grp key, key key, data data, later_us bigint, schedule text, zone text, grace_us bigint, spread_us bigint)
-- Puts one timeout, with a schedule, grace or spread if it has them. It replaces the timeout that has its key. If that
-- timeout runs, the replacement waits in the next_ columns until the run ends.
--: sqlite
{ALONE_SQLITE} {IN_USE} {REPLACE} {RETURNING}
--: postgresql
{ALONE_POSTGRESQL} {IN_USE} {REPLACE} {RETURNING}

--: PUT_REVIVE put (id bigint, kind int, shard int, time_us bigint, absolute bool, period_us bigint, priority int,
--:   grp key, key key, data data, later_us bigint, schedule text, zone text, grace_us bigint, spread_us bigint)
-- Puts one timeout. If a failed timeout has its key, that row becomes this timeout. If another has the key, nothing is
-- put.
--: sqlite
{ALONE_SQLITE} {IN_USE} {REVIVE} {RETURNING}
--: postgresql
{ALONE_POSTGRESQL} {IN_USE} {REVIVE} {RETURNING}

--: PUT_SERIES put (id bigint, kind int, shard int, time_us bigint, absolute bool, period_us bigint, priority int,
--:   grp key, key key, data data, later_us bigint, schedule text, zone text, grace_us bigint, spread_us bigint)
-- Puts one timeout that has a schedule, a grace or a spread. If its key is in use, nothing is put.
--: sqlite
{ALONE_SQLITE} {IN_USE} nothing {RETURNING}
--: postgresql
{ALONE_POSTGRESQL} {IN_USE} nothing {RETURNING}

--: KEEP_READ keep (bucket int, kind int, grp key, key key, period_us bigint, priority int, schedule text, zone text,
--:   grace_us bigint, spread_us bigint, data data)
-- Reads a series that a program declares again, and whether its settings are the same; rows_keep.c. next_base_us may be
-- 0. So may due_us, but only while a cron line has no time yet.
--: sqlite
{KEPT_ROW} and coalesce(its_data, x'') = coalesce(?11, x''), @now from t
--: postgresql
{KEPT_ROW} and coalesce(its_data, ''::bytea) = coalesce(?11, ''::bytea), @now from t

--: KEEP_LOCK keep (id bigint)
-- Locks the row of a series whose settings are about to change.
--: sqlite
select id from @_timeout where {THIS}
--: postgresql
select id from @_timeout where {THIS} for update

--: KEEP_NOW keep (id bigint, due_us bigint, base_us bigint, period_us bigint, priority int, schedule text, zone text,
--:   grace_us bigint, spread_us bigint, data data)
-- Sets the new settings of a series that does not run: they hold at once.
update @_timeout
  set due_us = ?2, base_us = ?3, period_us = ?4, priority = ?5, schedule = ?6, zone = ?7,
    grace_us = nullif(?8, 0), spread_us = nullif(?9, 0), data = ?10,
    attempt = case state when 3 then 0 else attempt end, error = case state when 3 then null else error end,
    shard = case when shard < 0 then -1 - shard else shard end, epoch = 0, state = 1, {NEXT_GOES}@tx
  where {THIS} and state <> 2
  {RETURNING}

--: KEEP_NEXT keep (id bigint, due_us bigint, base_us bigint, period_us bigint, priority int, schedule text, zone text,
--:   grace_us bigint, spread_us bigint, data data, starts_new bool)
-- Keeps the new settings of a series that is due or runs: they hold after that run. starts_new: the run has not
-- started, and gets the new data.
update @_timeout
  set next_due_us = ?2, next_base_us = ?3, next_period_us = ?4, next_priority = ?5, next_schedule = ?6,
    next_zone = ?7, next_grace_us = nullif(?8, 0), next_spread_us = nullif(?9, 0), next_data = ?10,
    data = case when ?11 then ?10 else data end, priority = case when ?11 then ?5 else priority end
  where {THIS} and state <> 3
  {RETURNING}

--: TELL tell (ids ids, own_name text, own_too bool, horizon_us bigint)
-- Tells the holders of these rows that the rows are due soon; this process (own_name) only if own_too.
-- SQLite: rows due before now + horizon; rows_send.c says why. Dead processes are left no hints, which no process might
-- ever remove; the process that takes their shards reads these from the beginning.
-- PostgreSQL: the second that is added covers the time between a put's clock and its commit. horizon_us is the horizon
-- of all rows; 0: each kind has its own. No server keeps news, so without own_too the commit need not wait for the disk
-- (synchronous_commit); with own_too the transaction may be a caller's.
--: sqlite
insert into @_hint (id, due_us, shard, len, at_us)
select t.id, t.due_us, t.shard, coalesce(length(t.data), 0), @now
  from @_timeout t join @_shard s on s.id = t.shard join @_kind k on k.id = t.kind join @_member m
    on m.name = s.owner
  where t.id {IN_LIST} and t.state = 1 and (?3 or s.owner <> ?2) and t.due_us < @now + k.horizon_us
    and m.until_us {LIVE}
--: postgresql
{NOTIFY}
  from (select t.shard + 0 shard, string_agg(concat(t.id, ':', t.due_us, ':', coalesce(length(t.data), 0),
    {NEWS_OF_GROUP}),
    ',') news from (select @now us) n, @_timeout t
    where t.id = any(?1) and t.state = 1 and t.due_us < n.us + case when ?4 > 0 then ?4
    else (select k.horizon_us from @_kind k where k.id = t.kind) end + 1000000 group by t.shard + 0) x,
    lateral (select s.owner from @_shard s where s.id = x.shard offset 0) s
  where s.owner is not null and (?3 or (s.owner <> ?2 and set_config('synchronous_commit', 'off',
    true) = 'off'))

--: TELL_PUT tell (id bigint[], shard int[], time_us bigint[], absolute bool[], priority int[], grp key[], length int[],
--:   own_name text, horizon_us bigint)
-- TELL of rows that PUT has inserted in the transaction before, and of which the client knows all but the clock. No row
-- is read: if the put failed, its setting is not there.
--: sqlite
--: postgresql
{NOTIFY}
  from (select t.shard, string_agg(concat(t.id, ':', d.us, ':', t.len, {NEWS_OF_GROUP}),
    ',') news from (select split_part(current_setting('hwt_store.put', true), ' ', 2)::bigint us, @now is_now
    where split_part(current_setting('hwt_store.put', true), ' ', 1) = (?1)[1]::text) n, (select unnest(?1) id,
    unnest(?2) shard, unnest(?3) w, unnest(?4) absolute, unnest(?5) priority, unnest(?6) grp, unnest(?7) len) t,
    lateral (select case when t.absolute then t.w else n.us + t.w end us) d
    where d.us < n.is_now + ?9 + 1000000 group by t.shard) x,
    lateral (select s.owner from @_shard s where s.id = x.shard offset 0) s
  where s.owner <> ?8 and set_config('synchronous_commit', 'off', true) = 'off'
