-- SPDX-License-Identifier: BSD-2-Clause
-- The views that a person reads.  The store reads neither, so a program also works without them.

create view if not exists hwt_timeouts as
select t.id,
  k.name as kind,
  nullif(t.grp, '') as grp,
  t.key as key,
  case t.state when 1 then 'pending' when 2 then 'running' else 'failed' end as state,
  case when t.shard is not null and t.due_us > 0 then strftime('%Y-%m-%d %H:%M:%f', t.due_us / 1000000.0, 'unixepoch') end as due,
  t.state = 1 and t.shard is not null and t.due_us between 1 and (julianday('now') - 2440587.5) * 86400000000 as overdue,
  t.attempt,
  case when t.schedule is not null then t.schedule || coalesce(' ' || t.zone, '')
    when t.period_us > 0 then 'every ' || printf('%.15g', t.period_us / 1000000.0) || ' s' end as repeats,
  (select s.owner from hwt_shard s where s.id = case when t.shard < 0 then -1 - t.shard else t.shard end) as owner,
  t.error
  from hwt_timeout t left join hwt_kind k on k.id = t.kind;

-- Probes the index by due time, and counts only up to 1001.  A kind's shards have numbers from 1024 times its id on;
-- failed rows are in negative shards.
create view if not exists hwt_kinds as
select k.name as kind,
  k.paused,
  nullif(substr(coalesce(', running ' || k.running, '')
    || case when k.start_every_us > 0 then ', a start every ' || printf('%.15g', k.start_every_us / 1000000.0) || ' s' else '' end
    || coalesce(', burst ' || k.burst, ''), 3), '') as limits,
  (select count(*) from (select 1 from hwt_timeout t where t.shard between -1024 * (k.id + 1) and -1 - 1024 * k.id
    limit 1001) f) as failed,
  (select strftime('%Y-%m-%d %H:%M:%f', min(o.due_us) / 1000000.0, 'unixepoch') from (select (select t.due_us from hwt_timeout t where t.shard = s.id and t.due_us > 0 and t.state = 1
    order by t.due_us limit 1) due_us from hwt_shard s where s.kind = k.id) o) as oldest_due
  from hwt_kind k
  where k.removed is null or exists (select 1 from hwt_shard s join hwt_timeout t on t.shard in (s.id, -1 - s.id)
    where s.kind = k.id);
