-- SPDX-License-Identifier: BSD-2-Clause
-- Statements that read timeouts, and say which store this is.

--: GET get (id bigint, bytes int)
-- One timeout, with the first ?2 bytes of its data.
select {INFO}, case when ?2 > 0 then substr(t.data, 1, ?2) end
  from @_timeout t
  where t.id = ?1 and t.bucket = (?1 & 1023)

--: FIND find (bucket int, kind int, grp key, key key)
-- The timeout that has this key.
select id, state from @_timeout where bucket = ?1 and kind = ?2 and grp = ?3 and key = ?4

--: PLACES places (shards int[], after_us bigint, after_id bigint, states int, limit bigint, pending bool, grouped
--:   bool, before_us bigint)
-- Places of a kind's timeouts, for calls that list or change many. pending: PENDING is one of the states; grouped: also
-- rows of groups. A row that runs was due when it was begun, by a clock that may have been put back by a minute since:
-- so without pending no later place is read. Failed rows are in negative shards.
--: sqlite
select t.shard, t.due_us, t.id
  from @_timeout t
  where t.shard = ?1 and (t.due_us, t.id) > (?2, ?3) and t.due_us < case when ?6 or ?1 < 0
    or ?8 < @now + 60000000 then ?8 else @now + 60000000 end and (1 << t.state) & ?4 <> 0 and (?7 or t.grp = '')
  order by t.due_us, t.id limit ?5
--: postgresql
with n as materialized (select @now us)
select x.*
  from unnest(?1) s(id), n, lateral (select t.shard, t.due_us, t.id from @_timeout t
    where t.shard = s.id and (t.due_us, t.id) > (?2, ?3) and t.due_us < case when ?6 or s.id < 0
    or ?8 < n.us + 60000000 then ?8 else n.us + 60000000 end and (1 << t.state) & ?4 <> 0 and (?7 or t.grp = '')
    order by t.due_us, t.id limit ?5) x

--: GROUP_PLACES places (bucket int, kind int, grp key, after_us bigint, after_id bigint, before_us bigint, states
--:   int, limit bigint)
-- Places of a group's timeouts in any state: one index has them all.
select 0, t.due_us, t.id
  from @_timeout t
  where t.bucket = ?1 and t.kind = ?2 and t.grp = ?3 and t.grp <> '' and (t.due_us, t.id) > (?4, ?5)
    and t.due_us < ?6 and (1 << t.state) & ?7 <> 0
  order by t.due_us, t.id limit ?8

--: INFOS infos (ids bigint[], with_data bool)
-- Several timeouts, with or without their data.
select {INFO}, case when ?2 then t.data end from @_timeout t where t.id = @any(?1)

--: STATES state (ids bigint[])
-- Why a change has not happened: the states of the rows, and whether a cancel would change their runs.
--: sqlite
select id, state, {HAS_MORE} from @_timeout where {THIS}
--: postgresql
select id, state, {HAS_MORE} from @_timeout where id = any(?1)

--: STORE store (kind_name text)
-- Which store this is, the id of a kind, and whether row level security is active for this role. PostgreSQL: no row, if
-- a caller's connection leads to a copy of the store.
--: sqlite
select m.store, coalesce((select k.id from @_kind k where k.name = ?1), 0), 0 from @_meta m
--: postgresql
select m.store, coalesce((select k.id from @_kind k where k.name = ?1), 0),
  row_security_active($hwt$@_meta$hwt$) or row_security_active($hwt$@_kind$hwt$)
    or row_security_active($hwt$@_shard$hwt$) or row_security_active($hwt$@_member$hwt$)
    or row_security_active($hwt$@_group$hwt$) or row_security_active($hwt$@_timeout$hwt$)
  from @_meta m
  where true@here

--: HERE here (store text)
-- Whether the connection leads to this store. SQLite: an update, as a transaction that begins by reading may be unable
-- to write later.
--: sqlite
update @_meta set version = version where store = ?1 returning 1
--: postgresql
select 1 from @_meta where store = ?1@here

--: OTHERS others (shards int[], own_name text)
-- Whether another process holds one of these shards and has to be told.
--: sqlite
select 1 from @_shard where id = ?1 and owner is not null and owner <> ?2

--: CLOCK clock ()
-- The clock of the database; on SQLite also hwt_now() at that moment.
select @now, @mono
