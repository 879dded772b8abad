-- SPDX-License-Identifier: BSD-2-Clause
-- The tables of a store on SQLite: the columns of tables_postgresql.sql, which says what they mean.  sqlite3 runs this
-- file as it stands, for a store with the prefix hwt.
--
-- The id is the rowid, which each index has at its end.  Nothing is partitioned here, so the primary key is the id
-- alone.

create table if not exists hwt_meta (
  one integer primary key check (one = 1),
  version integer not null,
  next_number integer not null,
  store text not null,
  boot text);                    -- SQLite alone: the boot on whose clock the leases are

create table if not exists hwt_kind (
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

create table if not exists hwt_shard (
  id integer primary key,
  kind integer not null,
  epoch integer not null,
  rules integer not null default 0,
  owner text,
  levels blob);
create index if not exists hwt_ofkind on hwt_shard (kind);

create table if not exists hwt_member (
  name text primary key,
  incarnation integer not null,
  until_us integer not null,
  waits_us integer,
  kinds text not null,
  waits text,
  starts text)
  without rowid;

create table if not exists hwt_group (
  bucket integer not null,
  kind integer not null,
  grp text not null,
  paused integer not null default 0,
  running integer,
  start_every_us integer,
  burst integer,
  primary key (bucket, kind, grp)) without rowid;

create table if not exists hwt_timeout (
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
create index if not exists hwt_due on hwt_timeout (shard, due_us);
create index if not exists hwt_ofgroup on hwt_timeout (bucket, kind, grp, due_us) where grp <> '';
create unique index if not exists hwt_key on hwt_timeout (bucket, kind, grp, key) where key is not null;

-- SQLite alone: news for other processes. On PostgreSQL NOTIFY brings it.
create table if not exists hwt_hint (
  seq integer primary key autoincrement, -- in the order of commits
  id integer not null,           -- the row that is due soon; -2: rules have changed; 0: look at the shards
  due_us integer not null,       -- when that row is due
  shard integer not null,        -- whose holder it is for; -1: everybody
  len integer not null,          -- of the row's data
  at_us integer not null);       -- when it was written
