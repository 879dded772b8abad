-- SPDX-License-Identifier: BSD-2-Clause
-- Parts that several statements have in common: {THIS} in a statement is the text of the fragment THIS.
-- {each: next_# = null} is a list, with each of these columns in the place of #. A put sets them and the times; if it
-- meets a run it sets those of the same names behind next_.

--: each period_us, priority, schedule, zone, grace_us, spread_us, data

--: fragment INFO
-- The columns of a timeout that a caller sees.
t.id, t.state, t.attempt, t.due_us, t.period_us, (select k.name from @_kind k where k.id = t.kind), t.key,
  (select s.owner from @_shard s where s.id = case when t.shard < 0 then -1 - t.shard else t.shard end),
  t.error, t.grp, t.priority, t.schedule, t.zone, coalesce(length(t.data), 0)

--: fragment HAS_ROWS
-- How many shards of a kind k have rows. Each query that stands for a value is planned by itself.
(select count(*) from @_shard s where s.kind = k.id and coalesce((select t.state from @_timeout t
  where t.shard = s.id order by t.due_us limit 1),
  (select t.state from @_timeout t where t.shard = -1 - s.id order by t.due_us limit 1)) is not null)

--: fragment ALONE_INTO
insert into @_timeout as t (id, bucket, due_us, base_us, epoch, period_us, kind, shard, attempt, state, grp,
  key, data, priority, schedule, zone, grace_us, spread_us)

--: fragment ALONE_SQLITE
-- One row with a schedule, zone, grace or spread. later_us: due_us minus the time on the grid.
{ALONE_INTO}@values?1, ?1 & 1023, ?4 + ?11, ?4, 0, ?6, ?2, ?3, 0, 1, ?8, ?9, ?10, ?7, ?12, ?13, nullif(?14, 0),
  nullif(?15, 0)@here

--: fragment ALONE_POSTGRESQL
-- One row with a schedule, zone, grace or spread, on the other engine.
with n as materialized (select @now us@here) {ALONE_INTO}
select ?1, ?1 & 1023, d.us + ?11, d.us, 0, ?6, ?2, ?3, 0, 1, ?8, ?9, ?10, ?7, ?12, ?13, nullif(?14, 0),
  nullif(?15, 0)
  from n, lateral (select case when ?5 then ?4 else n.us + ?4 end us) d

--: fragment MANY_SQLITE
insert into @_timeout as t (id, bucket, due_us, base_us, epoch, period_us, kind, shard, attempt, state, grp,
  key, data, priority)@values?1, ?1 & 1023, ?4, ?4, 0, ?6, ?2, ?3, 0, 1, ?8, ?9, ?10, ?7@here

--: fragment SENT
-- The clock, and the rows that were sent. Unlike a function in FROM, a list of unnests writes no table of its rows.
n as materialized (select @now us@here), p as (select unnest(?1) id, unnest(?2) kind, unnest(?3) shard, unnest(?4) w,
  unnest(?5) absolute, unnest(?6) period, unnest(?7) priority, unnest(?8) grp, unnest(?9) as key, unnest(?10) as data)

--: fragment MANY_POSTGRESQL
insert into @_timeout as t (id, bucket, due_us, base_us, epoch, period_us, kind, shard, attempt, state, grp,
  key, data, priority)
select p.id, p.id & 1023, d.us, d.us, 0, p.period, p.kind, p.shard, 0, 1, p.grp, p.key, p.data, p.priority
  from p, n, lateral (select case when p.absolute then p.w else n.us + p.w end us) d

--: fragment IN_USE
on conflict (bucket, kind, grp, key) where key is not null do

--: fragment NOTIFY
-- News x of each shard. If they are more than a notification holds, the holder reads its rows.
select pg_notify('@news' || x.shard, case when length(x.news) > 7000 then 'r' else x.news end)

--: fragment NEWS_OF_GROUP
-- The end of the news of a row t that has a group or a priority.
case when t.grp <> '' or t.priority <> 0 then concat(':', t.priority, ':', encode(t.grp, 'hex')) end

--: fragment RETURNING
returning id, due_us, shard, state

--: fragment REFILE
-- Makes a row pending again at n.us. If the run of a series has not started, settings that were kept for its end hold
-- now.
due_us = n.us, base_us = n.us, attempt = case state when 3 then 0 when 2 then attempt - 1 else attempt end,
  shard = case when shard < 0 then -1 - shard else shard end, epoch = 0, state = 1,
  {each: # = case when {HOLDS} then next_# else # end},
  next_due_us = case when not {HOLDS} then next_due_us end,
  next_base_us = case when not {HOLDS} then next_base_us end,
  {each: next_# = case when not {HOLDS} then next_# end}

--: fragment HOLDS
-- A series whose settings were kept for the end of a run that has not started. A run that has begun counts in attempt.
(coalesce(next_base_us, 0) < 0 and attempt = case state when 2 then 1 else 0 end)

--: fragment MOVED
returning id, shard, due_us, coalesce(length(data), 0), grp, priority

--: fragment ROW
t.id, t.due_us, t.shard, coalesce(length(t.data), 0), t.epoch, t.grp, t.priority

--: fragment MAY_BEGIN
-- Rows of a shard m that a look reads: pending, or running under an epoch before m.e.
(t.state = 1 or (t.state = 2 and t.epoch < m.e))

--: fragment GOES_ON
-- A series that runs, and whose run is not marked as the last.
state = 2 and last is null and (period_us > 0 or schedule is not null)

--: fragment HAS_MORE
-- A cancel changes the row that runs: it marks the run as the last, or drops the replacement.
(({GOES_ON}) or next_due_us is not null)

--: fragment NO_OWNER
-- A shard without an owner, of this process, of a member that is gone, or of a member whose lease OVER has ended.
(s.owner is null or s.owner = ?3 or not exists (select 1 from @_member m
  where m.name = s.owner and m.until_us <> 0))

--: fragment LIVE
-- A lease that counts. No lease lasts longer than an hour: a later end is from another clock.
between @boot + 1 and @boot + 3600000000

--: fragment OVER
until_us <> 0 and until_us not {LIVE}

--: fragment LONG_OVER
until_us not between @boot - 600000000 and @boot + 3600000000

--: fragment THIS
-- One row by its id; the bucket says in which partition it is.
id = ?1 and bucket = (?1 & 1023)

--: fragment NOT_REPLACED
-- A replacement has its base in next_base_us. Settings that a series keeps for the end of its run have -1 - base there.
coalesce(next_base_us, -1) < 0

--: fragment UNMARKED
-- The run in progress is neither marked as the last nor replaced.
last is null and {NOT_REPLACED}

--: fragment KEPT_ROW
-- A series that a program declares again, with the settings that hold last: those that wait for the end of a run, or
-- those of the row.
with t as (select x.*, {each: case when next_base_us is null then # else next_# end its_#}
  from @_timeout x
  where x.bucket = ?1 and x.kind = ?2 and x.grp = ?3 and x.key = ?4)
select id, state, due_us, base_us, attempt, coalesce(next_due_us, 0), coalesce(next_base_us, 0), last is not null,
  next_base_us is not null, due_us > 0 or schedule is null, its_period_us, its_schedule is not null, {SAME_LINE},
  {SAME_LINE} and its_period_us = ?5 and its_priority = ?6 and coalesce(its_grace_us, 0) = ?9
  and coalesce(its_spread_us, 0) = ?10

--: fragment SAME_LINE
-- The same cron line in the same zone as those of the put, or none.
coalesce(its_schedule, '') = coalesce(?7, '') and coalesce(its_zone, '') = coalesce(?8, '')

--: fragment NEXT_GOES
next_due_us = null, next_base_us = null, {each: next_# = null}

--: fragment IN_LIST
@in(?1)@end

--: fragment BEGIN_WHERE
-- A begin on PostgreSQL: which rows it takes, and what it returns.
and coalesce(t.shard, 0) = any(array(select s.id from s)) and t.due_us + 0 <= n.us
  and ((t.state = 1 and t.attempt < ?7) or (t.state = 2 and {UNMARKED} and t.epoch >= ?5 and t.epoch < ?6
  and (t.epoch = ?3 or (t.attempt < ?7 and t.attempt < ?8))))
  returning t.id

--: fragment BEGIN_SET
update @_timeout t
  set state = 2, epoch = ?3, attempt = t.attempt + case when t.state = 2 and t.epoch = ?3 then 0 else 1 end
  from n

--: fragment REPLACE
-- The new timeout takes over the row; if the row runs, its next_ columns.
update set attempt = case when t.state = 2 then t.attempt else 0 end,
  error = case when t.state = 2 then t.error end, epoch = case when t.state = 2 then t.epoch else 0 end,
  state = case when t.state = 2 then 2 else 1 end,
  shard = case when t.shard < 0 then -1 - t.shard else t.shard end,
  due_us = case when t.state = 2 then t.due_us else excluded.due_us end,
  next_due_us = case when t.state = 2 then excluded.due_us end,
  base_us = case when t.state = 2 then t.base_us else excluded.base_us end,
  next_base_us = case when t.state = 2 then excluded.base_us end,
  {each: # = case when t.state = 2 then t.# else excluded.# end,
  next_# = case when t.state = 2 then excluded.# end}@tx

--: fragment REVIVE
update set attempt = 0, error = null, state = 1, epoch = 0, shard = -1 - t.shard, due_us = excluded.due_us,
  base_us = excluded.base_us, {each: # = excluded.#}@tx
  where t.state = 3

--: fragment IS_THERE
-- A kind that was removed is there as long as it has rows.
(k.removed is null or {HAS_ROWS} > 0)

--: fragment FAILED
-- How many timeouts of a kind k have failed, as far as 1001.
(select count(*) from (select 1 from @_timeout t
  where t.shard >= -1024 * (k.id + 1) and t.shard <= -1 - 1024 * k.id limit 1001) f)

--: fragment OLDEST
-- Of a shard s: the oldest that is pending, and whether no living process holds it.
(select t.due_us from @_timeout t where t.shard = s.id and t.due_us > 0 and t.state = 1
  order by t.due_us limit 1) us, not exists (select 1 from @_member m
  where m.name = s.owner and m.until_us {LIVE}) unheld

--: fragment OLDEST_OF
-- Of shards o: the oldest; how many that no living process holds have something that is due, and since when.
min(o.us) us, count(case when o.unheld and o.us <= @now then 1 end) unheld,
  min(case when o.unheld and o.us <= @now then o.us end) since
