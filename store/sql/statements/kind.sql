-- SPDX-License-Identifier: BSD-2-Clause
-- Statements about kinds.

--: KIND kind (name text)
-- A kind by its name.
select id, shards, coalesce(mode, -1), horizon_us, removed is not null from @_kind where name = ?1

--: KIND_LOCK remove ()
-- A removal holds this lock exclusively.
--: postgresql
select pg_advisory_xact_lock(hashtext('@_kind'))

--: KIND_SHARE make ()
-- A process that joins or makes a kind holds this lock shared, so that no removal runs meanwhile.
--: postgresql
select pg_advisory_xact_lock_shared(hashtext('@_kind'))

--: KIND_MAKING make ()
-- One kind is made at a time.
--: postgresql
select pg_advisory_xact_lock(hashtext('@_make'))

--: FLUSH flush ()
-- Syncs the commit even if the role's synchronous_commit is off or local: otherwise the server might forget it in a
-- crash, and give the number of a kind, or numbers that were drawn, once more.
--: postgresql
select case when current_setting('synchronous_commit') in ('off', 'local') then set_config('synchronous_commit',
  'on', true) end

--: KIND_MAKE make (name text, shards int, mode int, horizon_us bigint)
-- Makes a kind. mode -1: a put has made it, and no process has registered it yet.
insert into @_kind (id, name, shards, mode, horizon_us)
select coalesce(max(id), 0) + 1, ?1, ?2, nullif(?3, -1), ?4
  from @_kind
  where true
  on conflict (name) do nothing

--: KIND_OPEN open (name text, mode int, horizon_us bigint)
-- The first registration of a kind that a put has made sets its mode and horizon. A kind that was removed exists again,
-- with its old horizon.
update @_kind
  set mode = nullif(?2, -1), horizon_us = case when removed is null then ?3 else horizon_us end, removed = null
  where name = ?1 and mode is null and (?2 >= 0 or removed is not null)

--: KIND_SHARDS shards (name text)
-- Makes the shards of a kind.
with recursive i (n) as (select 0 union all select n + 1 from i where n < 1023)
insert into @_shard (id, kind, epoch, owner)
select k.id * 1024 + i.n, k.id, 0, null
  from @_kind k join i on i.n < k.shards
  where k.name = ?1
  on conflict (id) do nothing

--: KINDS kinds ()
-- All kinds. Each shard is looked at once: its oldest row may lie behind many that run.
--: sqlite
with o as materialized (select s.kind, {OLDEST} from @_kind k cross join @_shard s where s.kind = k.id)
select k.name, coalesce(k.mode, 0), k.shards, k.paused, k.running, k.start_every_us, k.burst,
  (select count(*) from @_member m where instr(m.kinds, ',' || k.id || ',') > 0 and m.until_us {LIVE}),
  {FAILED}, {OLDEST_OF}, @now, k.id
  from @_kind k left join o on o.kind = k.id
  where {IS_THERE}
  group by k.id
  order by k.name
--: postgresql
select k.name, coalesce(k.mode, 0), k.shards, k.paused, k.running, k.start_every_us, k.burst,
  (select count(*) from @_member m where k.id = any(m.kinds) and m.until_us {LIVE}),
  {FAILED}, d.*, @now, k.id
  from @_kind k, lateral (select {OLDEST_OF} from (select {OLDEST} from @_shard s where s.kind = k.id offset 0) o) d
  where {IS_THERE}
  order by k.name

--: WAITS kinds ()
-- What living processes say of why timeouts wait, since when each says so, and how many started. A longer text is not
-- the library's.
select waits_us, case when length(waits) <= 2048 then waits end, case when length(starts) <= 2048 then starts end
  from @_member
  where coalesce(waits, starts) is not null and until_us {LIVE}

--: KIND_ROWS remove (name text)
-- In how many shards a kind has rows.
select {HAS_ROWS} from @_kind k where k.name = ?1 and {IS_THERE}

--: KIND_REMOVE remove (name text)
-- Removes a kind that has no rows, and that no living process runs.
--: sqlite
update @_kind as k
  set removed = true, mode = null, paused = false, running = null, start_every_us = null, burst = null
  where k.name = ?1 and (select count(*) from @_member m
    where instr(m.kinds, ',' || k.id || ',') > 0 and m.until_us {LIVE}) = 0 and {HAS_ROWS} = 0
  returning id
--: postgresql
update @_kind as k
  set removed = true, mode = null, paused = false, running = null, start_every_us = null, burst = null
  where k.name = ?1 and (select count(*) from @_member m where k.id = any(m.kinds) and m.until_us {LIVE}) = 0
    and {HAS_ROWS} = 0
  returning id

--: KIND_GROUPS remove (name text)
-- Removes the rules of groups of a kind that was removed.
--: sqlite
with recursive i (n) as (select 0 union all select n + 1 from i where n < 1023)
delete from @_group
  where bucket in (select n from i) and kind = (select id from @_kind where name = ?1 and removed is not null)
--: postgresql
delete from @_group
  where bucket = any(array(select generate_series(0, 1023))) and kind = (select id from @_kind
    where name = ?1 and removed is not null)

--: KIND_RULES remove (name text)
-- Raises rules in the shards of a kind that was removed, so that begins find that the rules have changed.
update @_shard
  set rules = rules + 1
  where kind = (select id from @_kind where name = ?1 and removed is not null)
