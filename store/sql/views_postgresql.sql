-- SPDX-License-Identifier: BSD-2-Clause
-- The views that a person reads.  The store reads neither, so a program also works without them.
-- Only a database in UTF-8 can represent every key and every group's name.

create or replace view hwt_timeouts as
select t.id,
  k.name as kind,
  case getdatabaseencoding() when 'UTF8' then convert_from(nullif(t.grp, ''), 'UTF8')
    else encode(nullif(t.grp, ''), 'escape') end as grp,
  case getdatabaseencoding() when 'UTF8' then convert_from(t.key, 'UTF8')
    else encode(t.key, 'escape') end as key,
  case t.state when 1 then 'pending' when 2 then 'running' else 'failed' end as state,
  case when t.shard is not null and t.due_us > 0 then to_timestamp(t.due_us / 1000000.0) end as due,
  t.state = 1 and t.shard is not null and t.due_us between 1 and extract(epoch from clock_timestamp()) * 1000000 as overdue,
  t.attempt,
  case when t.schedule is not null then t.schedule || coalesce(' ' || t.zone, '')
    when t.period_us > 0 then 'every ' || trim_scale(t.period_us / 1000000.0) || ' s' end as repeats,
  (select s.owner from hwt_shard s where s.id = case when t.shard < 0 then -1 - t.shard else t.shard end) as owner,
  t.error
  from hwt_timeout t left join hwt_kind k on k.id = t.kind;

-- Probes the index by due time, and counts only up to 1001.  A kind's shards have numbers from 1024 times its id on;
-- failed rows are in negative shards.
create or replace view hwt_kinds as
select k.name as kind,
  k.paused,
  nullif(substr(coalesce(', running ' || k.running, '')
    || case when k.start_every_us > 0 then ', a start every ' || trim_scale(k.start_every_us / 1000000.0) || ' s' else '' end
    || coalesce(', burst ' || k.burst, ''), 3), '') as limits,
  (select count(*) from (select 1 from hwt_timeout t where t.shard between -1024 * (k.id + 1) and -1 - 1024 * k.id
    limit 1001) f) as failed,
  (select to_timestamp(min(o.due_us) / 1000000.0) from (select (select t.due_us from hwt_timeout t where t.shard = s.id and t.due_us > 0 and t.state = 1
    order by t.due_us limit 1) due_us from hwt_shard s where s.kind = k.id) o) as oldest_due
  from hwt_kind k
  where k.removed is null or exists (select 1 from hwt_shard s join hwt_timeout t on t.shard in (s.id, -1 - s.id)
    where s.kind = k.id);
