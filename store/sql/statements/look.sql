-- SPDX-License-Identifier: BSD-2-Clause
-- Statements that look ahead.
-- They return (part, id, due_us, shard, len, epoch, grp, priority). Part 1: beyond the marks; part 2: before them; part
-- 3: overdue; part 4: overdue, and running under the epoch that is held. epoch: the row runs under it; 0: pending.

--: SNAPSHOT snapshot ()
-- The snapshot of a look. By it a later sweep finds rows before the look's mark that became visible after the look.
--: postgresql
select pg_current_snapshot()::text

--: LOOK look (shards int[], epochs bigint[], before_us bigint[], mark_us bigint[], mark_ids bigint[], limit bigint)
-- Rows beyond the marks of shards.
--: sqlite
select 1, {ROW}
  from @_timeout t
  where t.shard = ?1 and (t.due_us, t.id) > (?4, ?5) and t.due_us < ?3
    and (t.state = 1 or (t.state = 2 and t.epoch < ?2))
  order by t.due_us, t.id limit ?6
--: postgresql
with m as materialized (select * from unnest(?1, ?2, ?3, ?4, ?5) m(s, e, h, d, i))
select 1, x.*
  from m, lateral (select {ROW} from @_timeout t
    where t.shard = m.s and (t.due_us, t.id) > (m.d, m.i) and t.due_us < m.h and {MAY_BEGIN}
    order by t.due_us, t.id limit ?6) x

--: LOOK_GROUP look (bucket int, kind int, grp key, after_us bigint, after_id bigint, to_us bigint, to_id bigint,
--:   priority int, limit bigint)
-- Rows of a group that the window has not kept.
select 1, {ROW}
  from @_timeout t
  where t.bucket = ?1 and t.kind = ?2 and t.grp = ?3 and t.grp <> '' and (t.due_us, t.id) > (?4, ?5)
    and t.due_us <= ?6 and (t.due_us < ?6 or t.id <= ?7) and t.priority = ?8 and t.state = 1
  order by t.due_us, t.id limit ?9

--: LOOK_NO_GROUP look (shard int, after_us bigint, after_id bigint, to_us bigint, to_id bigint, priority int, limit
--:   bigint)
-- Rows without a group that the window has not kept.
select 1, {ROW}
  from @_timeout t
  where t.shard = ?1 and (t.due_us, t.id) > (?2, ?3) and t.due_us <= ?4 and (t.due_us < ?4 or t.id <= ?5)
    and length(t.grp) = 0 and t.priority = ?6 and t.state = 1
  order by t.due_us, t.id limit ?7

--: LOOK_NEXT look (after_us bigint, after_id bigint, shard int)
-- The next place of a shard, from the index alone: so a row that cannot be read can be passed by. PostgreSQL reads the
-- row as well if its page has changed since the last vacuum.
select t.due_us, t.id
  from @_timeout t
  where t.shard = ?3 and (t.due_us, t.id) > (?1, ?2)
  order by t.due_us, t.id limit 1

--: LOOK_NEXT_IN look (after_us bigint, after_id bigint, bucket int, kind int, grp key)
-- The next place of a group, from the index alone.
select t.due_us, t.id
  from @_timeout t
  where t.bucket = ?3 and t.kind = ?4 and t.grp = ?5 and t.grp <> '' and (t.due_us, t.id) > (?1, ?2)
  order by t.due_us, t.id limit 1

--: SWEEP sweep (shards int[], epochs bigint[], mark_us bigint[], mark_ids bigint[], limit bigint, snapshot text,
--:   late_us bigint, from_us bigint, swept_us bigint[], swept_ids bigint[])
-- Rows before the marks that became visible late, and overdue rows. SQLite has no part 2, since its commits follow one
-- another; and no part 4, since the machine that loses an end loses its process as well.
--: sqlite
select 3, {ROW}
  from @_timeout t
  where t.shard = ?1 and (t.due_us, t.id) > (?9, ?10) and t.due_us < ?7
    and (t.state = 1 or (t.state = 2 and t.epoch < ?2))
  order by t.due_us, t.id limit ?5
--: postgresql
with m as materialized (select m.*, p.p, pg_snapshot_xmin(p.p) x
  from unnest(?1, ?2, ?3, ?4, ?9, ?10) m(s, e, d, i, f, g), (select ?6::pg_snapshot p) p)
select 2, x.*
  from m, lateral (select {ROW} from @_timeout t
    where t.shard = m.s and t.due_us >= ?8 and (t.due_us, t.id) <= (m.d, m.i) and t.tx >= m.x
    and not pg_visible_in_snapshot(t.tx, m.p) and {MAY_BEGIN} offset 0) x
union all
select x.*
  from m, lateral (select case when {MAY_BEGIN} then 3 else 4 end, {ROW} from @_timeout t
    where t.shard = m.s and (t.due_us, t.id) > (m.f, m.g) and t.due_us < ?7
    and (t.state = 1 or (t.state = 2 and t.epoch <= m.e)) order by t.due_us, t.id limit ?5) x
