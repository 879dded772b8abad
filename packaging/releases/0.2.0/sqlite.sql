PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE hwt_meta (
  one integer primary key check (one = 1),
  version integer not null,
  next_number integer not null,
  store text not null,
  boot text);
INSERT INTO hwt_meta VALUES(1,3,115028946079,'add6fe37dc2647b922f52a5e6f89996b','f81fd3a6-44d9-4ad2-8268-21b63a5bce6f');
CREATE TABLE hwt_kind (
  id integer primary key,
  name text not null unique,
  shards integer not null,
  mode integer,
  horizon_us integer not null,
  paused integer not null default 0,
  running integer,
  start_every_us integer,
  burst integer,
  removed integer);
INSERT INTO hwt_kind VALUES(1,'kept',8,NULL,5000000,0,NULL,NULL,NULL,NULL);
CREATE TABLE hwt_shard (
  id integer primary key,
  kind integer not null,
  epoch integer not null,
  rules integer not null default 0,
  owner text,
  levels blob);
INSERT INTO hwt_shard VALUES(1024,1,0,0,NULL,NULL);
INSERT INTO hwt_shard VALUES(1025,1,0,0,NULL,NULL);
INSERT INTO hwt_shard VALUES(1026,1,0,0,NULL,NULL);
INSERT INTO hwt_shard VALUES(1027,1,0,0,NULL,NULL);
INSERT INTO hwt_shard VALUES(1028,1,0,0,NULL,NULL);
INSERT INTO hwt_shard VALUES(1029,1,0,0,NULL,NULL);
INSERT INTO hwt_shard VALUES(1030,1,0,0,NULL,NULL);
INSERT INTO hwt_shard VALUES(1031,1,0,0,NULL,NULL);
CREATE TABLE hwt_member (
  name text primary key,
  incarnation integer not null,
  until_us integer not null,
  waits_us integer,
  kinds text not null,
  waits text,
  starts text)
  without rowid;
CREATE TABLE hwt_group (
  bucket integer not null,
  kind integer not null,
  grp text not null,
  paused integer not null default 0,
  running integer,
  start_every_us integer,
  burst integer,
  primary key (bucket, kind, grp)) without rowid;
CREATE TABLE hwt_timeout (
  id integer primary key,
  due_us integer not null,
  base_us integer not null,
  epoch integer not null,
  period_us integer not null,
  bucket integer not null,
  kind integer not null,
  shard integer not null,
  attempt integer not null,
  state integer not null,
  priority integer not null default 0,
  grp text not null default '',
  key text,
  schedule text,
  zone text,
  grace_us integer,
  spread_us integer,
  next_due_us integer,
  next_base_us integer,
  next_period_us integer,
  next_grace_us integer,
  next_spread_us integer,
  next_priority integer,
  next_schedule text,
  next_zone text,
  last integer,
  error text,
  data blob,
  next_data blob);
INSERT INTO hwt_timeout VALUES(117789640719074,1795986436526223,1795986436526223,0,0,738,1,1026,0,1,0,'','old',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'74657874',NULL);
CREATE TABLE hwt_hint (
  seq integer primary key autoincrement,
  id integer not null,
  due_us integer not null,
  shard integer not null,
  len integer not null,
  at_us integer not null);
DELETE FROM sqlite_sequence;
CREATE INDEX hwt_ofkind on hwt_shard (kind);
CREATE INDEX hwt_due on hwt_timeout (shard, due_us);
CREATE INDEX hwt_ofgroup on hwt_timeout (bucket, kind, grp, due_us) where grp <> '';
CREATE UNIQUE INDEX hwt_key on hwt_timeout (bucket, kind, grp, key) where key is not null;
CREATE VIEW hwt_timeouts as
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
CREATE VIEW hwt_kinds as
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
COMMIT;
