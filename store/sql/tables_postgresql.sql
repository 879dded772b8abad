-- SPDX-License-Identifier: BSD-2-Clause
-- The tables of a store on PostgreSQL.  psql runs this file as it stands, for a store with the prefix hwt.  The comments
-- on tables and columns are the tables of store/doc/schema.md: `make schema` writes them there.
--
-- The names behind the prefix have no underscore, nor have names that the server would choose, so that no two stores
-- collide: "hwt" has an index hwt_ofkind, and hwt_shard_kind is a table of "hwt_shard".
--
-- bigints first, then ints: no padding. Columns that few rows use are null, which takes no room.

-- One row.
create table hwt_meta (
  one int primary key check (one = 1), -- always 1
  version int not null,          -- of these tables
  next_number bigint not null,   -- of the next id; numbers are never used again
  store text not null);          -- a random text that no other store has

-- A row for each kind.
create table hwt_kind (
  id int primary key,            -- what the other tables call the kind
  name text not null constraint "hwt_name" unique, -- as the programs say it
  shards int not null,           -- how many, 1 to 1024
  mode int,                      -- 0: at least once, 1: at most once, 2: in a transaction; null: no process has
                                 -- registered it yet, or it was removed
  horizon_us bigint not null,    -- how far ahead its holders read
  paused bool not null default false, -- nothing of it is begun
  running int,                   -- how many of a group may run, for groups that have no limits of their own in
                                 -- hwt_group; null: no limit
  start_every_us bigint,         -- microseconds between two starts of a group; null: no limit
  burst int,                     -- how many starts may be saved up; null: 1
  removed bool);                 -- true: it was removed, and its row stays for processes that know its id and put
                                 -- without asking; null: it is there

-- The timeouts of a kind are divided among its shards. A process that runs the kind holds some of them, and reads no
-- other rows.
create table hwt_shard (
  epoch bigint not null,         -- raised by each take
  rules bigint not null default 0, -- raised by each change of rules; a begin compares it
  id int primary key,            -- kind * 1024 + number
  kind int not null,             -- the id of the kind
  owner text,                    -- the name of the process that holds it
  levels bytea)                  -- the buckets of tokens that were not full when the shard was given; null: nobody
                                 -- knows them, and they begin empty, but full at the first take
  with (fillfactor = 50);
create index "hwt_ofkind" on hwt_shard (kind);

-- A row for each started process, and for a dead one until somebody removes it.
create table hwt_member (
  incarnation bigint not null,   -- another one at each start of the process
  until_us bigint not null,      -- the end of its lease; 0: somebody has noted that it is over
  waits_us bigint,               -- when waits became what it is
  name text primary key,         -- of the process, as it was configured or made up
  kinds int[] not null,          -- the ids of the kinds that it runs; on SQLite a text with a comma before and behind
                                 -- each
  waits text,                    -- why what is due in its shards had not started when it renewed its lease; null:
                                 -- nothing waited. Of each kind its id, and for each reason (unknown ones are passed
                                 -- over) how many, and when the oldest of them was due (0: not known), as
                                 -- 12:pause=3@1764403200000000,rate=1@1764403201000000 7:thread=2@1764403205000000. At
                                 -- most 2048 bytes, the kinds with the oldest first
  starts text)                   -- how many runs of each kind it had started within the last minute then, as 12=340
                                 -- 7=2; null: none. At most 2048 bytes, some 200 kinds; others are left out
  with (fillfactor = 50);

-- Groups that are paused or have limits of their own.
create table hwt_group (
  bucket int not null,           -- a hash of the name
  kind int not null,             -- the id of the kind
  grp bytea not null,            -- the name, in UTF-8
  paused bool not null default false, -- nothing of it is begun
  running int,                   -- how many may run; 0: no limit; null: the group has no limits of its own
  start_every_us bigint,         -- as in hwt_kind, but 0 for none
  burst int,                     -- as in hwt_kind, but 0 for none
  primary key (bucket, kind, grp));

-- A row for each timeout that is pending, running or has failed. What is done is gone.
create table hwt_timeout (
  id bigint not null,            -- number * 1024 + bucket
  due_us bigint not null,        -- later than base_us while it is retried, and by the spread; 0: a cron line whose next
                                 -- time its holder has yet to find
  base_us bigint not null,       -- of a series the time on its grid; of any other the time that it was put for; while
                                 -- due_us is 0 the time after which the line's next one is looked for
  epoch bigint not null,         -- of the shard as the run began; 0: it does not run
  period_us bigint not null,     -- 0: none
  tx xid8 not null default pg_current_xact_id(), -- PostgreSQL alone: the transaction that wrote due_us
                                 -- last, so that a look finds rows that came behind its mark
  bucket int not null,           -- a hash of the group, else of the key; else number % 1024
  kind int not null,             -- the id of the kind
  shard int,                     -- kind * 1024 + bucket % shards; of a failed one -1 - that, so no look reads it
  attempt int not null,          -- how often it has started since it was put, since its last success, or since it
                                 -- failed
  state smallint not null,       -- 1 pending, 2 running, 3 failed
  priority smallint not null default 0, -- -100 to 100; larger goes first among those of a group that are due
  grp bytea not null default '', -- '': none, as null is unique in no index
  key bytea,                     -- in UTF-8; unique in its kind and group; null: none
  schedule text,                 -- a cron line; null: none
  zone text,                     -- of the cron line; null: UTC
  grace_us bigint,               -- how late it may begin after its time; null: at any time
  spread_us bigint,              -- how far a series is spread behind its times
  next_due_us bigint,            -- what has replaced the row while it runs; null: nothing has. With next_base_us below
                                 -- 0, as -1 - base, the settings that a series keeps for the end of the run that is due
  next_base_us bigint,
  next_period_us bigint,
  next_grace_us bigint,
  next_spread_us bigint,
  next_priority smallint,
  next_schedule text,
  next_zone text,
  last bool,                     -- true: it was cancelled while it runs, and goes when this run ends; null: it was not
  error text,                    -- of its last run
  data bytea,                    -- what the program gave
  next_data bytea,               -- the data of what has replaced the row while it runs
  primary key (id, bucket))      -- each unique index has the bucket, so the table may be partitioned by it
  with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
-- A begin is a HOT update: no index has state, epoch or attempt, and the fillfactor leaves room.
-- Begins and ends find many rows at once by id = any(...), so the primary key begins with the id. No plan may look for
-- an id in the index by due time: that index has a predicate that such a statement does not imply, and that each row
-- meets.
create index "hwt_due" on hwt_timeout (shard, due_us, id) where shard is not null;
create index "hwt_ofgroup" on hwt_timeout (bucket, kind, grp, due_us, id) where grp <> '';
create unique index "hwt_key" on hwt_timeout (bucket, kind, grp, key) where key is not null;

insert into hwt_meta values (1, 3, 1, replace(gen_random_uuid()::text, '-', '')) on conflict (one) do nothing;
