-- SPDX-License-Identifier: BSD-2-Clause
-- Statements about processes (members), their leases and the shards that they hold.
-- A take is READ COMMITTED: each statement sees what was committed before the previous statement had its locks.

--: JOIN join (name text, incarnation bigint, lease_us bigint, kinds kinds, dead_incarnation bigint)
-- A process starts. Its row replaces the row of a process of the same name whose lease is over, or that is known to be
-- dead.
insert into @_member as m (name, incarnation, until_us, kinds)
select ?1, ?2, n.us + ?3, ?4
  from (select @boot us) n
  where true
  on conflict (name) do update set incarnation = excluded.incarnation, until_us = excluded.until_us, kinds = ?4,
    waits = null, waits_us = null, starts = null
  where m.incarnation in (?2, ?5) or m.until_us not {LIVE}
  returning 1

--: NAMESAKE join (name text)
-- The process that has this name.
select incarnation, until_us, until_us - @boot from @_member where name = ?1

--: LEAVE leave (name text, incarnation bigint)
-- A process stops.
delete from @_member where name = ?1 and incarnation = ?2

--: BURY bury ()
-- Removes members whose lease ended more than 10 minutes ago, or was noted to be over (0). Until then members that died
-- are shown. PostgreSQL leaves out rows that another transaction has locked.
--: sqlite
delete from @_member where {LONG_OVER}
--: postgresql
delete from @_member
  where name = any(array(select name from @_member where {LONG_OVER} for update skip locked))

--: CALL call ()
-- Tells the other processes to look at the shards.
--: sqlite
insert into @_hint (id, due_us, shard, len, at_us) values (0, 0, -1, 0, @now)
--: postgresql
select pg_notify('@newsmembers', '')

--: RENEW renew (name text, lease_us bigint, incarnation bigint, kinds kinds, waits text, starts text)
-- Renews the lease, and says why what is due in the shards of this process waits, and how much starts; CLOCK, MEMBERS
-- and SHARDS follow in the same exchange. PostgreSQL commits it before those are read: a process that stands still
-- while it is told of the shards must not hold the lock of its own row, in which other processes note that its lease is
-- over. The commit is always synced: a role may set synchronous_commit to off for what may be lost.
--: sqlite
with n as materialized (select @boot us)
update @_member
  set until_us = n.us + ?2, kinds = ?4, waits = ?5, starts = ?6,
    waits_us = case when waits is ?5 then waits_us else @now end
  from n
  where name = ?1 and incarnation = ?3 and until_us between n.us + 1 and n.us + 3600000000
  returning 1
--: postgresql
with n as materialized (select @now us)
update @_member
  set until_us = n.us + ?2, kinds = ?4, waits = ?5, starts = ?6,
    waits_us = case when waits is not distinct from ?5 then waits_us else n.us end
  from n
  where name = ?1 and incarnation = ?3 and until_us between n.us + 1 and n.us + 3600000000
  returning set_config('synchronous_commit', case when current_setting('hwt_store.synced') in ('off', 'local')
    then 'on' else current_setting('hwt_store.synced') end, true) is not null

--: MEMBERS members (kinds int[])
-- How many living processes run each kind.
--: sqlite
select ?1, count(*) from @_member where instr(kinds, ',' || ?1 || ',') > 0 and until_us {LIVE}
--: postgresql
with n as materialized (select @now us)
select k.id, l.n
  from n, unnest(?1) k(id), lateral (select count(*) n from @_member l
    where k.id = any(l.kinds) and l.until_us between n.us + 1 and n.us + 3600000000) l

--: SHARDS shards (kinds int[], own_name text)
-- The shards of these kinds: whether this process owns each, whether it is free, and what is left of its owner's lease.
--: sqlite
select s.id, s.epoch, s.owner = ?2, coalesce(m.until_us, 0) not between n.us + 1 and n.us + 3600000000,
  coalesce(m.until_us - n.us, 0), s.rules
  from (select @boot us) n cross join @_shard s left join @_member m on m.name = s.owner
  where s.kind = ?1
--: postgresql
with n as materialized (select @now us)
select s.*
  from n, unnest(?1) k(id), lateral (select s.id, s.epoch, s.owner = ?2,
    coalesce(m.until_us, 0) not between n.us + 1 and n.us + 3600000000, coalesce(m.until_us - n.us, 0), s.rules
    from @_shard s left join @_member m on m.name = s.owner where s.kind = k.id offset 0) s

--: OVER take (shards int[])
-- The first statement of a take notes that the owners' leases are over. Without that note, a renewal that read the
-- clock just before the end of the lease could commit after the take: its process would trust that renewal, and start
-- rows that it had begun in these shards. Rows that another transaction has locked are left out.
--: sqlite
update @_member
  set until_us = 0
  where {OVER} and name in (select owner from @_shard where id = @any(?1))
--: postgresql
update @_member
  set until_us = 0
  where name = any(array(select name from @_member where {OVER} and name = any(array(select owner from @_shard
    where id = any(?1))) for update skip locked))

--: TAKE take (shard int, epoch bigint, name text)
-- Takes a shard that has no owner, or whose owner's lease is over, as OVER has noted. PostgreSQL waits for no row that
-- another transaction has locked: a shard that still has its epoch and was not taken is returned with epoch 0.
--: sqlite
update @_shard as s
  set epoch = s.epoch + 1, owner = ?3, levels = case when s.owner is null then s.levels end
  where s.id = ?1 and s.epoch = ?2 and {NO_OWNER}
  returning id, epoch, rules, epoch > 1 and levels is null
--: postgresql
with f as materialized (select s.id from @_shard s where s.id = ?1 and s.epoch = ?2 and {NO_OWNER}
  for update of s skip locked), t as (update @_shard s set epoch = s.epoch + 1, owner = ?3,
  levels = case when s.owner is null then s.levels end where s.id = (select f.id from f)
  returning s.id, s.epoch, s.rules, s.epoch > 1 and s.levels is null)
select *
  from t
union all
select s.id, 0, 0, false
  from @_shard s
  where s.id = ?1 and s.epoch = ?2 and not exists (select 1 from t)

--: GIVE give (shard int, epoch bigint, name text, levels data, keeps_levels bool)
-- Gives a shard, with its levels, to the process that takes it next. PostgreSQL: a shard whose row is locked stays with
-- this process, which tries again after its next renewal.
--: sqlite
update @_shard
  set owner = null, levels = case when ?5 then levels else ?4 end
  where id = ?1 and epoch = ?2 and owner = ?3
--: postgresql
update @_shard
  set owner = null, levels = case when ?5 then levels else ?4 end
  where id = (select s.id from @_shard s where s.id = ?1 and s.epoch = ?2 and s.owner = ?3
    for update skip locked)
