-- SPDX-License-Identifier: BSD-2-Clause
-- Statements that cancel and move timeouts.

--: CANCEL cancel (id bigint, epoch bigint, states int)
-- Removes a row that does not run and whose state is one of states, or that runs under this epoch.
delete from @_timeout
  where {THIS} and ((state <> 2 and (1 << state) & ?3 <> 0) or (state = 2 and epoch = ?2 and last is null))
  returning id

--: CANCEL_ALL cancel (ids bigint[], states int)
-- Removes rows that do not run. PostgreSQL leaves out rows that another transaction has locked: they are cancelled one
-- by one.
--: sqlite
delete from @_timeout where {THIS} and state <> 2 and (1 << state) & ?2 <> 0 returning id
--: postgresql
delete from @_timeout
  where id = any(array(select u.id from @_timeout u
    where u.id = any(?1) and u.state <> 2 and (1 << u.state) & ?2 <> 0 for update skip locked)) and state <> 2
    and (1 << state) & ?2 <> 0
  returning id

--: CANCEL_LAST cancel (id bigint, singles bool)
-- Marks the run in progress as the last: its end removes the row, and no process takes it over. singles: also the run
-- of a timeout that is no series.
update @_timeout
  set last = true
  where {THIS} and ((?2 and state = 2 and last is null) or ({GOES_ON}))
  returning id

--: CANCEL_NEXT cancel (id bigint)
-- Drops the replacement of a running timeout. The run stays as it is.
update @_timeout
  set last = last, {NEXT_GOES}
  where {THIS} and state = 2 and next_due_us is not null
  returning id

--: RESCHEDULE reschedule (id bigint, time_us bigint, absolute bool, states int, epoch bigint)
-- Moves a row that does not run and whose state is one of states, or that runs under this epoch.
with n as materialized (select case when ?3 then ?2 else @now + ?2 end us)
update @_timeout
  set {REFILE}@tx
  from n
  where {THIS} and ((state <> 2 and (1 << state) & ?4 <> 0) or (state = 2 and epoch = ?5 and {UNMARKED}))
  {MOVED}

--: RESCHEDULE_ALL reschedule (ids bigint[], due_us bigint, states int)
-- Moves rows that do not run. PostgreSQL leaves out rows that another transaction has locked: they are moved one by
-- one.
--: sqlite
with n as materialized (select ?2 us)
update @_timeout
  set {REFILE}
  from n
  where {THIS} and state <> 2 and (1 << state) & ?3 <> 0
  {MOVED}
--: postgresql
with n as materialized (select ?2 us)
update @_timeout
  set {REFILE}@tx
  from n
  where id = any(array(select u.id from @_timeout u
    where u.id = any(?1) and u.state <> 2 and (1 << u.state) & ?3 <> 0 for update skip locked)) and state <> 2
    and (1 << state) & ?3 <> 0
  {MOVED}
