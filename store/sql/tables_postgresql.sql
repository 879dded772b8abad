-- SPDX-License-Identifier: BSD-2-Clause
-- The tables of a store on PostgreSQL.  psql runs this file as it stands, for a store with the prefix hwt.
--
-- The names behind the prefix have no underscore, nor have names that the server would choose, so that no two stores
-- collide: "hwt" has an index hwt_ofkind, and hwt_shard_kind is a table of "hwt_shard".
--
-- bigints first, then ints: no padding. Columns that few rows use are null, which takes no room.

create table hwt_meta (
  one int primary key check (one = 1),
  version int not null,          -- of these tables
  next_number bigint not null,   -- for the next id; a number is never used again
  store text not null);          -- a random text that no other store has

create table hwt_kind (
  id int primary key,
  name text not null constraint "hwt_name" unique,
  shards int not null,
  mode int,                      -- 0 at least once, 1 at most once, 2 in a transaction; null: not registered yet, or removed
  horizon_us bigint not null,    -- how far ahead of the clock holders read
  paused bool not null default false,
  running int,                   -- limits of each group without limits of its own in hwt_group; null: none
  start_every_us bigint,
  burst int,
  removed bool);                 -- the row stays for processes that know the id and put without asking

create table hwt_shard (
  epoch bigint not null,         -- raised by each take
  rules bigint not null default 0, -- raised by each change of rules; a begin compares it
  id int primary key,            -- kind * 1024 + number
  kind int not null,
  owner text,                    -- the name of the process that holds it
  levels bytea)                  -- token buckets that were not full when the shard was given; null: lost
  with (fillfactor = 50);
create index "hwt_ofkind" on hwt_shard (kind);

-- Started processes.
create table hwt_member (
  incarnation bigint not null,
  until_us bigint not null,      -- the end of its lease; 0: another process has noted that it is over
  waits_us bigint,               -- when waits became what it is
  name text primary key,
  kinds int[] not null,          -- the kinds that it runs
  waits text,                    -- why what is due in its shards has not started; null: nothing waits
  starts text)                   -- how many runs of each kind it started in a minute; null: none
  with (fillfactor = 50);

-- Groups that are paused or have limits of their own.
create table hwt_group (
  bucket int not null,
  kind int not null,
  grp bytea not null,
  paused bool not null default false,
  running int,                   -- null: the group has no limits of its own
  start_every_us bigint,
  burst int,
  primary key (bucket, kind, grp));

-- A begin is a HOT update: no index has state, epoch or attempt, and the fillfactor leaves room.
create table hwt_timeout (
  id bigint not null,            -- number * 1024 + bucket
  due_us bigint not null,        -- base_us, or later: by the spread, or in back-off
  base_us bigint not null,       -- of a series the time on its grid; otherwise the time of the put
  epoch bigint not null,         -- the epoch of the shard at the begin; 0: not running
  period_us bigint not null,     -- 0: none
  tx xid8 not null default pg_current_xact_id(), -- wrote due_us last: so a look finds rows that came behind its mark
  bucket int not null,           -- a hash of the group, else of the key; else number % 1024
  kind int not null,
  shard int,                     -- kind * 1024 + bucket % shards; failed: -1 - that, so no look reads it
  attempt int not null,          -- how often the row has been started
  state smallint not null,       -- 1 pending, 2 running, 3 failed
  priority smallint not null default 0,
  grp bytea not null default '', -- '': no group; null would not be unique in an index
  key bytea,
  schedule text,                 -- a cron line
  zone text,
  grace_us bigint,
  spread_us bigint,
  next_due_us bigint,            -- next_...: the replacement of a row that runs
  next_base_us bigint,           -- -1 - base: settings that a series keeps for the end of the run that is due
  next_period_us bigint,
  next_grace_us bigint,
  next_spread_us bigint,
  next_priority smallint,
  next_schedule text,
  next_zone text,
  last bool,                     -- true: cancelled while it runs; the end of this run removes it
  error text,                    -- error of the last run
  data bytea,
  next_data bytea,
  primary key (id, bucket))      -- each unique index has the bucket, so the table may be partitioned by it
  with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
-- Begins and ends find many rows at once by id = any(...), so the primary key begins with the id. No plan may look for
-- an id in the index by due time: that index has a predicate that such a statement does not imply, and that each row
-- meets.
create index "hwt_due" on hwt_timeout (shard, due_us, id) where shard is not null;
create index "hwt_ofgroup" on hwt_timeout (bucket, kind, grp, due_us, id) where grp <> '';
create unique index "hwt_key" on hwt_timeout (bucket, kind, grp, key) where key is not null;

insert into hwt_meta values (1, 3, 1, replace(gen_random_uuid()::text, '-', '')) on conflict (one) do nothing;
