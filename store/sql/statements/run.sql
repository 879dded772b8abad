-- SPDX-License-Identifier: BSD-2-Clause
-- Statements of a run: its begin, its end, and the end of runs whose process died.

--: SHARE begin (shards ids)
-- Locks the shards of a begin that needs more than one statement, in the order of their ids.
--: postgresql
select id from @_shard where id = any(?1) order by id for share

--: BEGIN begin (ids ids, shards ids, epoch bigint, name text, from_epoch bigint, to_epoch bigint, most_attempts
--:   int, most_after_death int, rules bigint)
-- Starts rows that are pending, or run under an epoch from from_epoch on and below to_epoch. PostgreSQL locks their
-- shards, in the order of their ids. A row that has been started most_attempts times is not begun. Nor is a row of a
-- dead process that has been started most_after_death times. A begin that is repeated, as its reply was lost, does not
-- count as another start.
--: sqlite
update @_timeout
  set state = 2, epoch = ?3, attempt = attempt + case when state = 2 and epoch = ?3 then 0 else 1 end
  where id {IN_LIST} and +due_us <= @now and ((state = 1 and attempt < ?7) or (state = 2 and {UNMARKED}
    and epoch >= ?5 and epoch < ?6 and (epoch = ?3 or (attempt < ?7 and attempt < ?8))))
    and +shard in (select s.id from json_each(?2) j cross join @_shard s on s.id = j.value
    where s.epoch = ?3 and s.owner = ?4 and s.rules = ?9)
  returning id
--: postgresql
with s as materialized (select x.id from @_shard x
  where x.id = any(?2) and x.epoch = ?3 and x.owner = ?4 and x.rules = ?9 order by x.id
  for share), n as materialized (select @now us) {BEGIN_SET}
  where t.id = any(?1) {BEGIN_WHERE}

--: BEGIN_UNLOCKED begin (ids ids, shards ids, epoch bigint, name text, from_epoch bigint, to_epoch bigint,
--:   most_attempts int, most_after_death int, rules bigint)
-- The same for rows and shards that no other transaction has locked.
--: postgresql
with s as materialized (select x.id from @_shard x
  where x.id = any(?2) and x.epoch = ?3 and x.owner = ?4 and x.rules = ?9 order by x.id
  for share skip locked), n as materialized (select @now us) {BEGIN_SET}
  where t.id = any(array(select u.id from @_timeout u where u.id = any(?1)
    for update skip locked)) {BEGIN_WHERE}

--: BEGUN begin (ids ids)
-- The data of rows that a begin has just begun. On PostgreSQL it is read after the commit of the begin.
select t.id, t.due_us, t.base_us, t.period_us, t.attempt, t.key, t.data, @now, t.grp, t.schedule, t.zone, t.grace_us,
  t.spread_us, t.epoch
  from @_timeout t
  where t.id {IN_LIST} and t.state = 2

--: BEGIN_UNDO begin (ids bigint[], epoch bigint)
-- Makes rows pending again that were begun and cannot be read: no task has started them.
--: postgresql
update @_timeout
  set state = 1, epoch = 0, attempt = attempt - 1
  where id = any(?1) and state = 2 and epoch = ?2 and {UNMARKED}

--: PENDING pending (ids ids)
-- Why a row was not begun.
select t.id, t.due_us, (select s.epoch from @_shard s where s.id = t.shard), t.state, t.attempt, t.epoch,
  case when t.next_base_us >= 0 then 2 when t.last is not null then 1 else 0 end,
  (select s.rules from @_shard s where s.id = t.shard), @now
  from @_timeout t
  where t.id {IN_LIST} and t.state <> 3

--: INHERIT inherit (id bigint, epoch bigint, delay_us bigint)
-- Files a row of a dead process: due delay_us from now, or at the period's next time if that is sooner. A cron line
-- that has no time yet (due_us 0) keeps it.
with n as materialized (select @now us)
update @_timeout
  set state = 1, epoch = 0, due_us = case when due_us = 0 and schedule is not null then 0 when period_us > 0
    and base_us + ((n.us - base_us) / period_us + 1) * period_us < n.us + ?3
    then base_us + ((n.us - base_us) / period_us + 1) * period_us else n.us + ?3 end,
    error = 'its process died or was cut off while it ran'@tx
  from n
  where id = ?1 and state = 2 and epoch = ?2 and {UNMARKED}
  returning id, due_us

--: END_LOCK end (ids bigint[])
-- Locks the rows that no other transaction has locked.
--: postgresql
select id from @_timeout where id = any(?1) for update skip locked

--: END_DONE end (ids bigint[], epoch bigint)
-- The run is done: removes its row, unless it is marked as replaced or as the last run (END_LAST).
--: sqlite
delete from @_timeout where id = ?1 and state = 2 and epoch = ?2 and {UNMARKED}
--: postgresql
delete from @_timeout
  where id = any(?1) and state = 2 and epoch = ?2 and {UNMARKED}
  returning id

--: END_AGAIN end (id bigint, epoch bigint, time_us bigint, is_delay bool, limit_us bigint, base_us bigint, attempt
--:   int, error text, goes_on bool, starts_new bool)
-- Files a run again: a retry, or the next time of a series. is_delay: at now + time_us, at the latest at limit_us.
-- error null: keeps the error that is there; '': removes it. goes_on: a series at its next time, so END_NEXT takes it
-- if settings were kept for this end. starts_new: the run has not started, and gets the data that was kept.
with w as materialized (select case when not ?4 then ?3 when @now + ?3 < ?5 then @now + ?3 else ?5 end us)
update @_timeout
  set state = 1, epoch = 0, due_us = w.us, base_us = ?6, attempt = ?7,
    error = case when ?8 is null then error else nullif(?8, '') end,
    data = case when ?10 and next_base_us < 0 then next_data else data end,
    priority = case when ?10 and next_base_us < 0 then next_priority else priority end@tx
  from w
  where {THIS} and state = 2 and epoch = ?2 and {UNMARKED} and (next_base_us is null or not ?9)
  returning id, due_us

--: END_FAIL end (id bigint, epoch bigint, error text, unstarted int)
-- The run has failed for good: its row is kept in a negative shard, where no look reads it. Settings that were kept for
-- this end hold. unstarted: 1, if the row came too late: its begin is no attempt.
update @_timeout
  set state = 3, shard = -1 - shard, error = ?3, attempt = attempt - ?4,
    {each: # = case when next_base_us < 0 then next_# else # end}, {NEXT_GOES}
  where {THIS} and state = 2 and epoch = ?2 and {UNMARKED}
  returning id

--: END_LAST end (id bigint, epoch bigint)
-- Removes a row whose run was the last, whatever the task has answered.
delete from @_timeout
  where {THIS} and state = 2 and epoch = ?2 and last is not null and {NOT_REPLACED}
  returning id

--: END_NEXT end (id bigint, epoch bigint, goes_on bool, began_us bigint)
-- Files the replacement of a run, whatever the task has answered, also if its process died. goes_on: the series goes
-- on, and settings that were kept for this end hold. Its next time is the one that was computed with these settings; if
-- that time had come when the run began, the next time of the period. The time of a cron line is computed by the
-- holder, as for a row that SQL has put.
update @_timeout
  set state = 1, epoch = 0, attempt = 0, last = null, error = null,
    due_us = case when next_base_us >= 0 or next_due_us > ?4 then next_due_us
    when next_schedule is not null or next_period_us <= 0 then 0
    else -1 - next_base_us + ((?4 + 1 + next_base_us) / next_period_us + 1) * next_period_us end,
    base_us = case when next_base_us >= 0 then next_base_us when next_due_us > ?4 then -1 - next_base_us
    when next_schedule is not null or next_period_us <= 0 then ?4
    else -1 - next_base_us + ((?4 + 1 + next_base_us) / next_period_us + 1) * next_period_us end,
    {each: # = next_#}, {NEXT_GOES}@tx
  where {THIS} and state = 2 and epoch = ?2 and (next_base_us >= 0 or (?3 and next_base_us < 0))
  returning id, due_us, coalesce(length(data), 0), priority

--: CLOSE close_run (id bigint, epoch bigint)
-- The first step of an end in a task's transaction. If the row is no longer this run's, SQLite returns no row.
-- PostgreSQL divides by zero, so the rest of the pipeline, with the commit, does not happen.
--: sqlite
select 1 from @_timeout where id = ?1 and state = 2 and epoch = ?2
--: postgresql
select 1 / count(*)
  from (select 1 from @_timeout where {THIS} and state = 2 and epoch = ?2 for update) t
