-- SPDX-License-Identifier: BSD-2-Clause
-- Statements about the rules of kinds and groups.
-- A change of rules raises the column rules of its shards, and a begin compares that column. So the change waits for a
-- begin under the old number, or the begin waits for the change.
-- Where a shard is read, PostgreSQL's text has length(grp) > 0 instead of grp <> ''. From grp <> '' the planner would
-- conclude that the index by group has all of these rows: it would read that index from end to end while the table is
-- small, and still when it is large. The same holds for LOOK_NO_GROUP.

--: RULES rules (shards int[])
-- The rules of kinds, found by their shards.
select s.id, s.rules, s.levels, k.paused, coalesce(k.running, 0), coalesce(k.start_every_us, 0),
  coalesce(k.burst, 0)
  from @_shard s join @_kind k on k.id = s.kind + 0
  where s.id = @any(?1)

--: RULES_OWN rules (buckets int[], kind int)
-- Groups with rules of their own.
select grp, bucket, paused, running is not null, coalesce(running, 0), coalesce(start_every_us, 0),
  coalesce(burst, 0)
  from @_group
  where bucket = @any(?1) and kind = ?2

--: RULES_RUN rules (shards int[], epochs bigint[], after_us bigint, after_id bigint, limit bigint)
-- Rows of groups that run under an older epoch, behind a place. A row that runs was due when it was begun, by a clock
-- that may have been put back by a minute since.
--: sqlite
select 1, {ROW}
  from @_timeout t
  where t.shard = ?1 and (t.due_us, t.id) > (?3, ?4) and t.due_us < @now + 60000000 and t.state = 2
    and t.epoch < ?2 and t.grp <> ''
  order by t.due_us, t.id limit ?5
--: postgresql
with n as materialized (select @now + 60000000 us), m as materialized (select * from unnest(?1, ?2) m(s, e))
select 1, x.*
  from m, n, lateral (select {ROW} from @_timeout t
    where t.shard = m.s and (t.due_us, t.id) > (?3, ?4) and t.due_us < n.us and t.state = 2 and t.epoch < m.e
    and length(t.grp) > 0 order by t.due_us, t.id limit ?5) x

--: RULES_LOCK rules (shards int[])
-- Locks the shards, so that a change of rules waits for begins under the old number.
--: postgresql
select id from @_shard where id = any(?1) order by id for update

--: RULES_RAISE rules (shards int[])
-- Raises the column rules, which begins compare.
update @_shard set rules = rules + 1 where id = @any(?1)

--: RULES_TELL rules (shards int[], own_name text)
-- Tells the other holders of the shards to read the rules.
--: sqlite
insert into @_hint (id, due_us, shard, len, at_us)
select -2, 0, s.id, 0, @now
  from @_shard s
  where s.id = ?1 and s.owner is not null and s.owner <> ?2
--: postgresql
select pg_notify('@news' || s.id, 'l')
  from @_shard s
  where s.id = any(?1) and s.owner is not null and s.owner <> ?2

--: RULES_BACK rules (kind int)
-- Makes a removed kind exist again if it has rows: a process that knew the kind may have put them.
update @_kind as k set removed = null where k.id = ?1 and k.removed is not null and {HAS_ROWS} > 0

--: RULES_THERE rules (kind int)
-- Whether the kind exists: the rules of a removed kind are not changed.
select 1 from @_kind where id = ?1 and removed is null

--: PAUSE_KIND pause (kind int, paused bool)
-- Pauses or resumes a kind.
update @_kind set paused = ?2 where id = ?1 and removed is null

--: PAUSE_GROUP pause (bucket int, kind int, grp key, paused bool)
-- Pauses or resumes a group. A row that only has a pause has no limits: running is null.
insert into @_group (bucket, kind, grp, paused)
select ?1, ?2, ?3, ?4
  from @_kind
  where id = ?2 and removed is null
  on conflict (bucket, kind, grp) do update set paused = excluded.paused

--: LIMIT_KIND limit (kind int, running int, start_every_us bigint, burst int)
-- Limits of a kind.
update @_kind
  set running = nullif(?2, 0), start_every_us = nullif(?3, 0), burst = nullif(?4, 0)
  where id = ?1 and removed is null

--: LIMIT_GROUP limit (bucket int, kind int, grp key, running int, start_every_us bigint, burst int)
-- Limits of a group. running -1: the group has no limits of its own any more.
insert into @_group (bucket, kind, grp, running, start_every_us, burst)
select ?1, ?2, ?3, nullif(?4, -1), ?5, ?6
  from @_kind
  where id = ?2 and removed is null
  on conflict (bucket, kind, grp) do update set running = excluded.running,
    start_every_us = excluded.start_every_us, burst = excluded.burst

--: TIDY_GROUP limit (bucket int, kind int, grp key)
-- Removes the row of a group that has neither a pause nor limits.
delete from @_group where bucket = ?1 and kind = ?2 and grp = ?3 and not paused and running is null
