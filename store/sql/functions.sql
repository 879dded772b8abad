-- SPDX-License-Identifier: BSD-2-Clause
-- Functions for programs in other languages, and functions that these call. psql runs this file as it stands, for a
-- store with the prefix hwt in the schema public. The library replaces "public.hwt_" and "hwt_" by the schema and the
-- prefix of its store.
-- A role with EXECUTE on a function needs no other right, so functions that users call run with the rights of the
-- owner. They must not call anything that a hostile role has defined. So the search path is pg_catalog alone, without a
-- schema in which another role may create; tables and functions of the store are named with their schema; the operands
-- of an operator have exactly the types of pg_catalog's operator, as another operator would be preferred to one whose
-- operands are cast; and no argument becomes part of a statement.
-- postgres_functions.c takes this file apart. The sequence is the first line and the first function the third, the line
-- before a body ends with " as $hwt$", and a function ends with the line "end $hwt$;".

create sequence if not exists public.hwt_number;

-- Numbers of ids come from a sequence, which no rollback turns back; numbers for programs in C come from hwt_meta and
-- are below 2^42. Like those, they are at least 4 a millisecond since 2026, so that a copy that is restored gives no
-- number that was given since the copy was made. Only one session at a time moves the sequence on: it takes a lock in a
-- subtransaction that is rolled back at once, so the caller's transaction does not keep the lock. Other sessions may
-- draw meanwhile, but not 65,536 numbers between the look at the sequence and the step.
create or replace function public.hwt_draw(least_number bigint) returns bigint language plpgsql as $hwt$
declare
  n bigint;
begin
  loop
    n := nextval('public.hwt_number'::regclass);
    exit when n >= least_number;
    begin
      perform 1 from public.hwt_meta for update;
      if (select q.last_value from public.hwt_number q) < least_number then
        perform setval('public.hwt_number'::regclass, least_number + 65536::bigint);
      end if;
      raise sqlstate 'HWT00';
    exception when sqlstate 'HWT00' then
      null;
    end;
  end loop;
  return n;
end $hwt$;

-- The same as hwts_bucket() of common.c. Four bytes in each turn of the loop, as a turn costs as much as the sums for
-- one byte.
create or replace function public.hwt_bucket(named bytea, number bigint) returns int
language plpgsql immutable as $hwt$
declare
  h bigint := 2166136261;
begin
  if named is null then
    return (number & 1023::bigint)::int;
  end if;
  for i in 0 .. length(named) / 4 - 1 loop
    h := (((((((h # get_byte(named, i * 4)::bigint) * 16777619::bigint & 4294967295::bigint)
      # get_byte(named, i * 4 + 1)::bigint) * 16777619::bigint & 4294967295::bigint)
      # get_byte(named, i * 4 + 2)::bigint) * 16777619::bigint & 4294967295::bigint)
      # get_byte(named, i * 4 + 3)::bigint) * 16777619::bigint & 4294967295::bigint;
  end loop;
  for i in length(named) / 4 * 4 .. length(named) - 1 loop
    h := ((h # get_byte(named, i)::bigint) * 16777619::bigint) & 4294967295::bigint;
  end loop;
  return ((h # (h >> 10) # (h >> 20)) & 1023::bigint)::int;
end $hwt$;

-- A key or a group's name as the tables have it.
create or replace function public.hwt_bytes(word text, value text) returns bytea language plpgsql as $hwt$
declare
  b constant bytea := convert_to(value, 'UTF8'::name);
begin
  if length(b) < 1 or length(b) > 255 then
    raise invalid_parameter_value using message = format('%s has %s bytes', word, length(b)),
      hint = 'It is null, or has 1 to 255 bytes of UTF-8.';
  end if;
  if getdatabaseencoding() = 'SQL_ASCII'::name then
    perform convert_from(b, 'UTF8'::name);
  end if;
  return b;
end $hwt$;

-- A duration in microseconds.
create or replace function public.hwt_span(word text, value interval, least_us bigint) returns bigint
language plpgsql as $hwt$
declare
  us constant numeric := extract(epoch from value) * 1000000::numeric;
begin
  if not isfinite(value) or extract(month from value) <> 0::numeric
    or extract(year from value) <> 0::numeric then
    raise invalid_parameter_value using message = format('%s is %s, and has no length', word, value),
      hint = 'Months differ: say days of 24 hours, or when by cron and zone.';
  elsif us < least_us::numeric or us > 3153600000000000::numeric then
    raise invalid_parameter_value using message = format('%s is %s', word, value),
      hint = format('It is at least %s s, and at most 100 years.', least_us / 1000000::bigint);
  end if;
  return us::bigint;
end $hwt$;

-- A due time. Never 0: due_us 0 says that a cron line has no time yet.
create or replace function public.hwt_moment(delay interval, at timestamptz) returns bigint language plpgsql as $hwt$
declare
  present constant timestamptz := clock_timestamp();
  due timestamptz;
  us numeric;
begin
  if delay is not null and at is not null then
    raise invalid_parameter_value using message = 'delay and at exclude each other',
      hint = 'Say how much later, or when.';
  elsif not isfinite(coalesce(at, present)) or not isfinite(coalesce(delay, interval '0')) then
    raise invalid_parameter_value using message = 'infinity never comes', hint = 'Give a time.';
  end if;
  if delay is not null then
    delay := greatest(least(delay, interval '9000 years'), interval '-1 day');
  end if;
  due := coalesce(at, greatest(present + delay, present));
  us := extract(epoch from due) * 1000000::numeric;
  if us < 0::numeric or us > 253402300800000000::numeric then
    raise invalid_parameter_value using message = format('%s is not between 1970 and the year 10000', due),
      hint = 'Look at delay and at.';
  end if;
  return greatest(us::bigint, 1::bigint);
end $hwt$;

-- The kind of a name.
create or replace function public.hwt_find(named text, out kind_id int, out kind_shards int, out horizon bigint)
language plpgsql as $hwt$
begin
  if named is null then
    raise invalid_parameter_value using message = 'kind is null', hint = 'It is the name of a kind.';
  end if;
  select k.id, k.shards, k.horizon_us into kind_id, kind_shards, horizon from public.hwt_kind k
    where k.name = named and k.removed is null;
  if found then
    return;
  end if;
  select k.id, k.shards, k.horizon_us into kind_id, kind_shards, horizon from public.hwt_kind k
    where k.name = named and exists (select 1 from public.hwt_shard s join public.hwt_timeout t on t.shard in
      (s.id, -1 - s.id)
      where s.kind = k.id);
  if not found then
    raise undefined_object using message = format('there is no kind "%s"', left(named, 64)),
      hint = format('A process that registers it makes it, or select hwt_make_kind(%L).', left(named, 64));
  end if;
end $hwt$;

-- A zone is the name of a file of the server's tz database, letter by letter, as in zone.c. The server itself also
-- takes abbreviations, rules and letters of either case, but reports the file's name. A rule contains a digit, so only
-- names with digits are looked up in the list of zones, which takes 100 ms and more.
create or replace function public.hwt_line(cron text, zone text) returns void language plpgsql as $hwt$
declare
  known boolean := zone is null;
begin
  if cron is null and zone is not null then
    raise invalid_parameter_value using message = 'zone needs cron', hint = 'Periods have no zone.';
  elsif octet_length(cron) > 127 or cron !~ E'^[-A-Za-z0-9*,/\u0040 \t]+$' then
    raise invalid_parameter_value using message = format('"%s" is no cron line', left(cron, 127)),
      hint = 'minute, hour, day of month, month, day of week; at most 127 characters.';
  elsif octet_length(zone) <= 63 and zone ~ '^[A-Za-z][-A-Za-z0-9_+]*(/[-A-Za-z0-9_+]+)*$'
    and zone !~ '^(posix/|right/|localtime|posixrules)' then
    begin
      perform set_config('timezone'::text, zone, true);
      known := current_setting('timezone'::text) = zone;
      raise sqlstate 'HWT00';
    exception when invalid_parameter_value or sqlstate 'HWT00' then
      null;
    end;
    if known and zone ~ '[0-9]' and zone !~ '^Etc/GMT[+-][1-9]$' then
      known := exists (select 1 from pg_timezone_names z where z.name = zone);
    end if;
  end if;
  if not known then
    raise invalid_parameter_value using message = format('"%s" names no zone', left(zone, 63)),
      hint = 'A name of the tz database, such as Europe/Berlin.';
  end if;
end $hwt$;

-- As HWTS_SQL_TELL, but without reading the row: if two SERIALIZABLE transactions put rows into one page of an index
-- and also read there, one of them would fail. From the fifth row of a transaction on the text is always the same, and
-- each shard gets it once: hwt.told has a dot for each text before, and those shards.
create or replace function public.hwt_tell(its_id bigint, place int, due bigint, size int, its_priority int,
  grp bytea)
returns void language plpgsql as $hwt$
declare
  told constant text := coalesce(current_setting('hwt.told'::text, true), ''::text);
  mark constant text := ' public.hwt_'::text || place::text || ' '::text;
begin
  if strpos(told, mark) > 0 then
    return;
  end if;
  perform pg_notify('hwt_'::text || left(m.store, 16) || '_'::text || s.id::text, case when length(told) < 4
    then concat_ws(':'::text, its_id, due, size, its_priority, encode(grp, 'hex'::text)) else 'r'::text end)
    from public.hwt_shard s, public.hwt_meta m where s.id = place and s.owner is not null;
  if found then
    perform set_config('hwt.told'::text, told || case when length(told) < 4 then '.'::text else mark end,
      true);
  end if;
end $hwt$;

-- Pauses and limits raise the number of rules at the end of the transaction: until then they lock no row of a shard,
-- since begins would wait for it. So they make this trigger deferred again for the transaction.
create or replace function public.hwt_raise() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp as $hwt$
declare
  its_kind int;
  its_bucket int;
  places int[];
begin
  if tg_table_name = 'hwt_kind' then
    its_kind := new.id;
  elsif tg_op = 'DELETE' then
    its_kind := old.kind;
    its_bucket := old.bucket;
  else
    its_kind := new.kind;
    its_bucket := new.bucket;
  end if;
  select array_agg(s.id order by s.id) into places from public.hwt_kind k join public.hwt_shard s on s.kind = k.id
    where k.id = its_kind and (its_bucket is null or s.id = k.id * 1024 + its_bucket % k.shards);
  perform 1 from public.hwt_shard s
    where s.id = any(places || string_to_array(current_setting('hwt.ruled', true), ','::text)::int[])
    order by s.id for update;
  perform set_config('hwt.ruled'::text, ''::text, true);
  update public.hwt_shard s set rules = s.rules + 1::bigint where s.id = any(places);
  perform pg_notify('hwt_'::text || left(m.store, 16) || '_'::text || s.id::text, 'l'::text)
    from public.hwt_shard s, public.hwt_meta m where s.id = any(places) and s.owner is not null;
  return null;
end $hwt$;

do $hwt$
begin
  if not exists (select 1 from pg_trigger t where t.tgrelid = 'public.hwt_kind'::regclass
    and t.tgname = 'hwt_raise') then
    create constraint trigger "hwt_raise" after update on public.hwt_kind deferrable initially deferred for each row
      when (current_setting('hwt.rules', true) = 'later') execute function public.hwt_raise();
  end if;
  if not exists (select 1 from pg_trigger t where t.tgrelid = 'public.hwt_group'::regclass
    and t.tgname = 'hwt_raise') then
    create constraint trigger "hwt_raise" after insert or update or delete on public.hwt_group
      deferrable initially deferred for each row
      when (current_setting('hwt.rules', true) = 'later') execute function public.hwt_raise();
  end if;
end $hwt$;

-- HWT_STORE_KEEP_DUE for a series that exists; rows_keep.c. Returns the due time if that, the data or the priority is
-- new; -1: nothing of that is new; -2: not a series that goes on; null: the timeout is gone.
create or replace function public.hwt_keep(its_id bigint, now_us bigint, period bigint, cron text, its_zone text,
  grace bigint, its_priority int, content bytea) returns bigint language plpgsql as $hwt$
declare
  t record;
  was_put boolean;
  waits boolean;
  same_line boolean;
  period_was bigint;
  due bigint;
  base bigint;
begin
  for pass in 1 .. 2 loop
    if pass = 1 then
      select x.* into t from public.hwt_timeout x where x.id = its_id and x.bucket = (its_id & 1023::bigint)::int;
    else
      select x.* into t from public.hwt_timeout x where x.id = its_id and x.bucket = (its_id & 1023::bigint)::int
        for update;
    end if;
    if not found then
      return null;
    end if;
    was_put := t.next_base_us is not null;
    period_was := case when was_put then t.next_period_us else t.period_us end;
    same_line := cron is not distinct from case when was_put then t.next_schedule else t.schedule end
      and its_zone is not distinct from case when was_put then t.next_zone else t.zone end;
    if t.last is not null or (period_was = 0::bigint
      and case when was_put then t.next_schedule else t.schedule end is null) then
      return -2;
    elsif (t.state::int <> 3 and same_line and period_was = period
      and grace is not distinct from case when was_put then t.next_grace_us else t.grace_us end
      and case when was_put then t.next_spread_us else t.spread_us end is null
      and its_priority = (case when was_put then t.next_priority else t.priority end)::int
      and coalesce(content, ''::bytea)
        = coalesce(case when was_put then t.next_data else t.data end, ''::bytea)) then
      return -1;
    end if;
  end loop;
  waits := t.state::int = 2 or (t.state::int = 1 and (t.attempt > 0 or (t.base_us <= now_us
    and (t.due_us > 0::bigint or t.schedule is null))));
  if same_line and t.state::int <> 3 and (was_put or not waits) then
    due := case when was_put and waits then t.next_due_us else t.due_us end;
    base := case when was_put and waits then greatest(t.next_base_us, -1::bigint - t.next_base_us) else t.base_us end;
  elsif cron is not null then
    due := 0;
    base := case when same_line then greatest(now_us, t.base_us) else now_us end;
  elsif same_line then
    due := t.base_us + (greatest(now_us - t.base_us, 0::bigint) / period_was + 1::bigint) * period_was;
    base := due;
  else
    due := now_us + period;
    base := due;
  end if;
  if waits then
    update public.hwt_timeout x set next_due_us = due,
      next_base_us = case when t.next_base_us >= 0::bigint then base else -1::bigint - base end,
      next_period_us = period, next_priority = its_priority, next_schedule = cron, next_zone = its_zone,
      next_grace_us = grace, next_spread_us = null, next_data = nullif(content, ''::bytea),
      data = case when t.state::int = 1 and t.attempt = 0 then nullif(content, ''::bytea) else x.data end,
      priority = case when t.state::int = 1 and t.attempt = 0 then its_priority else x.priority end
    where x.id = its_id and x.bucket = t.bucket;
    return case when t.state::int = 1 and t.attempt = 0 then t.due_us else -1::bigint end;
  end if;
  update public.hwt_timeout x set due_us = due, base_us = base, period_us = period, priority = its_priority,
    schedule = cron, zone = its_zone, grace_us = grace, spread_us = null, data = nullif(content, ''::bytea),
    attempt = case t.state::int when 3 then 0 else x.attempt end,
    error = case t.state::int when 3 then null else x.error end,
    shard = case when x.shard < 0 then -1 - x.shard else x.shard end, epoch = 0, state = 1,
    tx = pg_current_xact_id(), next_due_us = null, next_base_us = null, next_period_us = null,
    next_priority = null, next_schedule = null, next_zone = null, next_grace_us = null, next_spread_us = null,
    next_data = null
  where x.id = its_id and x.bucket = t.bucket;
  return due;
end $hwt$;

-- Each statement costs about as much as the row, so a plain put has two: the kind, and the row. Arguments that are
-- seldom given are checked only if one of them is. With a cron line due_us is 0, and base_us is the time after which
-- the first time lies: the holder begins such a row at once, and files it at its first time; series.c.
create or replace function public.hwt_put(kind text, data text default null, bytes bytea default null,
  delay interval default null, at timestamptz default null, key text default null, grp text default null,
  every interval default null, cron text default null, zone text default null, priority int default 0,
  grace interval default null, if_exists text default 'error') returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $hwt$
#variable_conflict use_column
declare
  its_kind alias for $1;
  its_cron alias for $9;
  its_zone alias for $10;
  its_priority alias for $11;
  now_us constant bigint := (date_part('epoch', clock_timestamp()) * 1000000::double precision)::bigint;
  kind_id int;
  kind_shards int;
  horizon bigint;
  content bytea := coalesce(bytes, convert_to(data, 'UTF8'::name));
  size constant int := coalesce(length(content), 0);
  its_key bytea;
  its_group bytea := '';
  starts bigint := now_us;
  due bigint;
  period bigint := 0;
  its_grace bigint;
  n bigint;
  its_id bigint;
  place int;
  present record;
  kept bigint;
begin
  if (num_nonnulls(bytes, key, grp, every, its_cron, its_zone, grace) = 0 and if_exists = 'error'
    and its_priority = 0 and size <= 1048576) is not true then
    if size > 1048576 then
      raise invalid_parameter_value
        using message = format('%s bytes of data are more than 1 MiB', size),
        hint = 'Keep them elsewhere, and put where they are.';
    elsif its_priority is null or its_priority < -100 or its_priority > 100 then
      raise invalid_parameter_value using message = format('priority is %s', its_priority),
        hint = 'It is between -100 and 100; 0 is normal.';
    elsif if_exists is null or if_exists not in ('error', 'keep', 'replace', 'revive', 'keep_due') then
      raise invalid_parameter_value using message = format('if_exists is "%s"', left(if_exists, 64)),
        hint = 'It is error, keep, replace, revive or keep_due.';
    elsif key is null and if_exists <> 'error' then
      raise invalid_parameter_value using message = 'if_exists needs a key',
        hint = 'Nothing else can be in use.';
    elsif if_exists = 'keep_due' and every is null and its_cron is null then
      raise invalid_parameter_value using message = 'keep_due needs every or cron',
        hint = 'It is for series that a program declares.';
    elsif data is not null and bytes is not null then
      raise invalid_parameter_value using message = 'data and bytes exclude each other',
        hint = 'data is text, which is kept as UTF-8.';
    end if;
    if key is not null then
      its_key := public.hwt_bytes('key'::text, key);
    end if;
    if grp is not null then
      its_group := public.hwt_bytes('grp'::text, grp);
    end if;
    if every is not null then
      if its_cron is not null then
        raise invalid_parameter_value using message = 'every and cron exclude each other',
          hint = 'every is a length of time, cron has a calendar.';
      end if;
      period := public.hwt_span('every'::text, every, 1000000::bigint);
    end if;
    if its_cron is not null or its_zone is not null then
      perform public.hwt_line(its_cron, its_zone);
    end if;
    if grace is not null then
      its_grace := nullif(public.hwt_span('grace'::text, grace, 0::bigint), 0::bigint);
    end if;
  end if;
  if delay is not null and at is null then
    starts := case when delay between interval '0' and interval '100 years' then
      greatest((date_part('epoch', clock_timestamp() + delay) * 1000000::double precision)::bigint, now_us)
      else public.hwt_moment(delay, at) end;
  elsif at is not null then
    starts := public.hwt_moment(delay, at);
  end if;
  due := case when its_cron is null then starts else 0::bigint end;
  select k.id, k.shards, k.horizon_us into kind_id, kind_shards, horizon from public.hwt_kind k
    where k.name = its_kind and k.removed is null;
  if kind_id is null then
    select * into kind_id, kind_shards, horizon from public.hwt_find(its_kind);
  end if;
  n := 4398046511104 + nextval('public.hwt_number'::regclass);
  if n < 4398046511104 + least(3298534883328, (now_us - 1767225600000000) / 250) then
    n := 4398046511104 + public.hwt_draw(least(3298534883328, (now_us - 1767225600000000) / 250));
  end if;
  place := case when its_group <> ''::bytea then public.hwt_bucket(its_group, n)
    when its_key is not null then public.hwt_bucket(its_key, n) else (n & 1023::bigint)::int end;
  its_id := (n << 10) | place::bigint;
  if its_key is null then
    insert into public.hwt_timeout as t (id, due_us, base_us, epoch, period_us, bucket, kind, shard, attempt, state,
      priority, grp, schedule, zone, grace_us, data)
    values (its_id, due, starts, 0, period, place, kind_id, kind_id * 1024 + place % kind_shards, 0, 1,
      its_priority, its_group, its_cron, its_zone, its_grace, nullif(content, ''::bytea));
    if due < now_us + horizon + 1000000::bigint then
      perform public.hwt_tell(its_id, kind_id * 1024 + place % kind_shards, due, size, its_priority, its_group);
    end if;
    return its_id;
  end if;
  for tries in 1 .. 100 loop
    insert into public.hwt_timeout as t (id, due_us, base_us, epoch, period_us, bucket, kind, shard, attempt, state,
      priority, grp, key, schedule, zone, grace_us, data)
    values (its_id, due, starts, 0, period, place, kind_id, kind_id * 1024 + place % kind_shards, 0, 1,
      its_priority, its_group, its_key, its_cron, its_zone, its_grace, nullif(content, ''::bytea))
    on conflict (bucket, kind, grp, key) where key is not null do nothing;
    if found then
      if due < now_us + horizon + 1000000::bigint then
        perform public.hwt_tell(its_id, kind_id * 1024 + place % kind_shards, due, size, its_priority, its_group);
      end if;
      return its_id;
    end if;
    select t.id, t.state into present from public.hwt_timeout t where t.bucket = place and t.kind = kind_id
      and t.grp = its_group and t.key = its_key;
    continue when not found;
    if if_exists = 'keep' or (if_exists = 'revive' and present.state <> 3) then
      return present.id;
    elsif if_exists = 'keep_due' then
      kept := public.hwt_keep(present.id, now_us, period, its_cron, its_zone, its_grace, its_priority, content);
      if kept >= 0 and kept < now_us + horizon + 1000000::bigint then
        perform public.hwt_tell(present.id, kind_id * 1024 + place % kind_shards, kept, size, its_priority,
          its_group);
      end if;
      continue when kept is null;
    end if;
    if kept > -2 then
      return present.id;
    elsif if_exists = 'error' or kept = -2 then
      raise unique_violation using
        message = format('kind %s: timeout %s with the key "%s" is there', its_kind, present.id, key),
        hint = 'if_exists => keep, replace or revive says what to do then; or cancel it.';
    end if;
    update public.hwt_timeout t set due_us = due, base_us = starts, period_us = period,
      data = nullif(content, ''::bytea), attempt = 0, priority = its_priority, schedule = its_cron,
      zone = its_zone, grace_us = its_grace,
      spread_us = null, error = null, state = 1, epoch = 0,
      next_due_us = null, next_base_us = null, next_period_us = null, next_priority = null, next_schedule = null,
      next_zone = null, next_grace_us = null, next_spread_us = null, next_data = null,
      shard = case when t.shard < 0 then -1 - t.shard else t.shard end, tx = pg_current_xact_id()
    where t.id = present.id and t.bucket = (present.id & 1023::bigint)::int
      and (t.state = 3 or (t.state = 1 and if_exists = 'replace'));
    if found then
      if due < now_us + horizon + 1000000::bigint then
        perform public.hwt_tell(present.id, kind_id * 1024 + place % kind_shards, due, size, its_priority, its_group);
      end if;
      return present.id;
    end if;
    update public.hwt_timeout t set next_due_us = due, next_base_us = starts, next_period_us = period,
      next_priority = its_priority, next_schedule = its_cron, next_zone = its_zone,
      next_grace_us = its_grace, next_spread_us = null, next_data = nullif(content, ''::bytea)
    where t.id = present.id and t.bucket = place and t.state = 2 and if_exists = 'replace';
    if found then
      return present.id;
    end if;
  end loop;
  raise lock_not_available using hint = 'Try again.',
    message = format('kind %s: the key "%s" changes all the time', its_kind, key);
end $hwt$;

-- Puts many of one kind, as hwt_store_put_many does: the arrays have an element for each put. One insert takes all of
-- them, since a statement costs more than a row. Whatever an insert cannot do is done by hwt_put: keys in use, and wrong
-- elements, of which it raises.
create or replace function public.hwt_put_many(kind text, data text[] default null, bytes bytea[] default null,
  delay interval default null, at timestamptz[] default null, key text[] default null, grp text[] default null,
  priority int default 0, if_exists text default 'error') returns bigint[]
language plpgsql security definer set search_path = pg_catalog, pg_temp as $hwt$
#variable_conflict use_column
declare
  its_kind alias for $1;
  texts alias for $2;
  contents alias for $3;
  times alias for $5;
  keys alias for $6;
  groups alias for $7;
  its_priority alias for $8;
  now_us constant bigint := (date_part('epoch', clock_timestamp()) * 1000000::double precision)::bigint;
  count constant int := coalesce(cardinality(texts), cardinality(contents), cardinality(times), cardinality(keys),
    cardinality(groups), 0);
  starts constant bigint := public.hwt_moment(delay, null);
  k record;
  p record;
  ids bigint[] := array_fill(null::bigint, array[count]);
  soon_us bigint;
begin
  select * into k from public.hwt_find(its_kind);
  if cardinality(texts) <> count or cardinality(contents) <> count or cardinality(times) <> count
    or cardinality(keys) <> count or cardinality(groups) <> count then
    raise invalid_parameter_value using message = 'the arrays have different lengths',
      hint = 'Each has an element for each put, null for what hwt_put would not be given.';
  elsif count > 10000 or array_ndims(keys) > 1 then
    raise invalid_parameter_value using message = format('%s elements in %s dimensions', count,
      coalesce(array_ndims(keys), 1)), hint = 'At most 10,000 are put at once, and key has one dimension.';
  elsif delay is not null and times is not null then
    raise invalid_parameter_value using message = 'delay and at exclude each other',
      hint = 'Say how much later for all, or when for each.';
  end if;
  if its_priority between -100 and 100
    and (if_exists = 'error' or (if_exists in ('keep', 'replace', 'revive') and keys is not null
      and array_position(keys, null) is null))
    and not exists (select 1 from unnest(texts, contents) u(t, b) where u.t is not null and u.b is not null
      or length(coalesce(u.b, convert_to(u.t, 'UTF8'::name))) > 1048576) then
    perform public.hwt_draw(least(3298534883328, (now_us - 1767225600000000) / 250));
    for p in
      with placed as (
        select d.*, (d.number << 10) | d.place::bigint as id from (
          select x.*, case when x.grp <> ''::bytea then public.hwt_bucket(x.grp, x.number)
            when x.key is not null then public.hwt_bucket(x.key, x.number) else (x.number & 1023::bigint)::int end as place
          from (
            select u.n, 4398046511104 + nextval('public.hwt_number'::regclass) as number,
              nullif(coalesce(u.b, convert_to(u.t, 'UTF8'::name)), ''::bytea) as content,
              case when u.m is null then starts else public.hwt_moment(null, u.m) end as due,
              case when u.k is not null then public.hwt_bytes('key'::text, u.k) end as key,
              case when u.g is not null then public.hwt_bytes('grp'::text, u.g) else ''::bytea end as grp
            from unnest(texts, contents, times, keys, groups) with ordinality u(t, b, m, k, g, n)) x) d),
      made as (
        insert into public.hwt_timeout as t (id, due_us, base_us, epoch, period_us, bucket, kind, shard, attempt, state,
          priority, grp, key, data)
        select q.id, q.due, q.due, 0, 0, q.place, k.kind_id, k.kind_id * 1024 + q.place % k.kind_shards, 0, 1,
          its_priority, q.grp, q.key, q.content from placed q order by q.grp, q.key, q.n
        on conflict (bucket, kind, grp, key) where key is not null do nothing
        returning t.id)
      select q.n, q.id, q.place, q.due, length(q.content) as size, q.grp from placed q join made m on m.id = q.id
    loop
      ids[p.n] := p.id;
      soon_us := coalesce(soon_us, (date_part('epoch', clock_timestamp()) * 1000000::double precision)::bigint
        + k.horizon + 1000000::bigint);
      if p.due < soon_us then
        perform public.hwt_tell(p.id, k.kind_id * 1024 + p.place % k.kind_shards, p.due, coalesce(p.size, 0),
          its_priority, p.grp);
      end if;
    end loop;
  end if;
  for p in select u.* from unnest(texts, contents, times, keys, groups, ids) with ordinality u(t, b, m, k, g, id, n)
    where u.id is null order by u.g collate "C", u.k collate "C", u.n
  loop
    ids[p.n] := public.hwt_put(its_kind, p.t, p.b, delay, p.m, p.k, p.g, priority => its_priority,
      if_exists => if_exists);
  end loop;
  return ids;
end $hwt$;

-- Cancels a timeout, as hwt_store_cancel does.
create or replace function public.hwt_cancel(id bigint) returns text language plpgsql security definer
set search_path = pg_catalog, pg_temp as $hwt$
#variable_conflict use_column
declare
  its_id alias for $1;
  its_state int;
begin
  for tries in 1 .. 100 loop
    delete from public.hwt_timeout t where t.id = its_id and t.bucket = (its_id & 1023::bigint)::int and t.state <> 2;
    if found then
      return 'cancelled';
    end if;
    update public.hwt_timeout t set last = true, next_due_us = null, next_base_us = null, next_period_us = null,
      next_priority = null, next_schedule = null, next_zone = null, next_grace_us = null, next_spread_us = null,
      next_data = null
    where t.id = its_id and t.bucket = (its_id & 1023::bigint)::int
      and t.state = 2 and t.last is null and (t.period_us > 0 or t.schedule is not null);
    if found then
      return 'cancelled';
    end if;
    update public.hwt_timeout t set last = t.last, next_due_us = null, next_base_us = null,
      next_period_us = null, next_priority = null, next_schedule = null, next_zone = null, next_grace_us = null,
      next_spread_us = null, next_data = null
    where t.id = its_id and t.bucket = (its_id & 1023::bigint)::int
      and t.state = 2 and t.next_due_us is not null;
    select t.state into its_state from public.hwt_timeout t where t.id = its_id
      and t.bucket = (its_id & 1023::bigint)::int;
    if not found then
      return 'none';
    elsif its_state = 2 then
      return 'running';
    end if;
  end loop;
  raise lock_not_available using hint = 'Try again.',
    message = format('timeout %s changes all the time', its_id);
end $hwt$;

-- The id of the timeout that has a key, or null.
create or replace function public.hwt_named(kind text, key text, grp text) returns bigint language plpgsql as $hwt$
#variable_conflict use_column
declare
  k record;
  its_key bytea;
  its_group bytea := ''::bytea;
  place int;
begin
  select * into k from public.hwt_find(kind);
  if key is null then
    raise invalid_parameter_value using message = 'key is null', hint = 'It names one of the kind.';
  end if;
  its_key := public.hwt_bytes('key'::text, key);
  place := public.hwt_bucket(its_key, 0::bigint);
  if grp is not null then
    its_group := public.hwt_bytes('grp'::text, grp);
    place := public.hwt_bucket(its_group, 0::bigint);
  end if;
  return (select t.id from public.hwt_timeout t where t.bucket = place and t.kind = k.kind_id and t.grp = its_group
    and t.key = its_key);
end $hwt$;

-- hwt_cancel by the key.
create or replace function public.hwt_cancel_key(kind text, key text, grp text default null) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $hwt$
begin
  return coalesce(public.hwt_cancel(public.hwt_named(kind, key, grp)), 'none'::text);
end $hwt$;

-- A row that is begun or filed meanwhile may be missed by both statements, so the function tries again.
create or replace function public.hwt_cancel_group(kind text, grp text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $hwt$
#variable_conflict use_column
declare
  its_group bytea;
  place int;
  k record;
  n bigint;
  count bigint := 0;
begin
  select * into k from public.hwt_find(kind);
  if grp is null then
    raise invalid_parameter_value using message = 'grp is null', hint = 'It names a group.';
  end if;
  its_group := public.hwt_bytes('grp'::text, grp);
  place := public.hwt_bucket(its_group, 0::bigint);
  for tries in 1 .. 100 loop
    delete from public.hwt_timeout t where t.bucket = place and t.kind = k.kind_id and t.grp = its_group
      and t.grp <> ''::bytea and t.state <> 2;
    get diagnostics n = row_count;
    count := count + n;
    update public.hwt_timeout t set last = true, next_due_us = null, next_base_us = null, next_period_us = null,
      next_priority = null, next_schedule = null, next_zone = null, next_grace_us = null, next_spread_us = null,
      next_data = null
    where t.bucket = place and t.kind = k.kind_id and t.grp = its_group and t.grp <> ''::bytea
      and t.state = 2 and t.last is null;
    get diagnostics n = row_count;
    count := count + n;
    exit when not exists (select 1 from public.hwt_timeout t where t.bucket = place and t.kind = k.kind_id
      and t.grp = its_group and t.grp <> ''::bytea and t.last is null);
  end loop;
  update public.hwt_timeout t set last = t.last, next_due_us = null, next_base_us = null, next_period_us = null,
    next_priority = null, next_schedule = null, next_zone = null, next_grace_us = null, next_spread_us = null,
    next_data = null
  where t.bucket = place and t.kind = k.kind_id and t.grp = its_group and t.grp <> ''::bytea
    and t.next_due_us is not null and t.state = 2;
  return count;
end $hwt$;

-- Moves a timeout, as hwt_store_reschedule does. If the run of a series has not started, settings that were kept for
-- its end hold now.
create or replace function public.hwt_reschedule(id bigint, delay interval default null,
  at timestamptz default null) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $hwt$
#variable_conflict use_column
declare
  its_id alias for $1;
  due constant bigint := public.hwt_moment(delay, at);
  moved record;
  its_state int;
begin
  for tries in 1 .. 100 loop
    update public.hwt_timeout t set period_us = t.next_period_us, priority = t.next_priority,
      schedule = t.next_schedule, zone = t.next_zone, grace_us = t.next_grace_us, spread_us = t.next_spread_us,
      data = t.next_data, next_due_us = null, next_base_us = null, next_period_us = null, next_priority = null,
      next_schedule = null, next_zone = null, next_grace_us = null, next_spread_us = null, next_data = null
    where t.id = its_id and t.bucket = (its_id & 1023::bigint)::int and t.state = 1 and t.attempt = 0
      and t.next_base_us < 0::bigint;
    update public.hwt_timeout t set due_us = due, base_us = due,
      attempt = case t.state when 3 then 0 else t.attempt end,
      shard = case when t.shard < 0 then -1 - t.shard else t.shard end, epoch = 0, state = 1,
      tx = pg_current_xact_id()
    where t.id = its_id and t.bucket = (its_id & 1023::bigint)::int and t.state <> 2
    returning t.kind, coalesce(length(t.data), 0) as size, t.priority, t.grp into moved;
    if found then
      perform public.hwt_tell(its_id, k.id * 1024 + (its_id & 1023::bigint)::int % k.shards, due, moved.size,
          moved.priority::int, moved.grp)
        from public.hwt_kind k where k.id = moved.kind and due < k.horizon_us + 1000000::bigint
        + (date_part('epoch', clock_timestamp()) * 1000000::double precision)::bigint;
      return 'rescheduled';
    end if;
    select t.state into its_state from public.hwt_timeout t where t.id = its_id
      and t.bucket = (its_id & 1023::bigint)::int;
    if not found then
      return 'none';
    elsif its_state = 2 then
      return 'running';
    end if;
  end loop;
  raise lock_not_available using hint = 'Try again.',
    message = format('timeout %s changes all the time', its_id);
end $hwt$;

-- hwt_reschedule by the key.
create or replace function public.hwt_reschedule_key(kind text, key text, grp text default null,
  delay interval default null, at timestamptz default null) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $hwt$
begin
  return coalesce(public.hwt_reschedule(public.hwt_named(kind, key, grp), delay, at), 'none'::text);
end $hwt$;

-- Makes a kind if it does not exist.
create or replace function public.hwt_make_kind(kind text) returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $hwt$
#variable_conflict use_column
declare
  named alias for $1;
  k record;
begin
  if named is null or length(convert_to(named, 'UTF8'::name)) not between 1 and 63 then
    raise invalid_parameter_value using message = format('"%s" is no name of a kind', left(named, 64)),
      hint = 'It has 1 to 63 bytes of UTF-8.';
  end if;
  perform public.hwt_bytes('kind'::text, named);
  select q.id, q.removed into k from public.hwt_kind q where q.name = named;
  if found then
    if k.removed then
      delete from public.hwt_group g where g.bucket = any(array(select generate_series(0, 1023))) and g.kind = k.id;
      update public.hwt_kind q set removed = null where q.id = k.id;
    end if;
    return;
  end if;
  perform pg_advisory_xact_lock_shared(hashtext('hwt_kind'::text)::bigint);
  perform pg_advisory_xact_lock(hashtext('hwt_make'::text)::bigint);
  if current_setting('synchronous_commit'::text) in ('off', 'local') then
    perform set_config('synchronous_commit'::text, 'on'::text, true);
  end if;
  insert into public.hwt_kind as q (id, name, shards, mode, horizon_us)
  select coalesce(max(o.id), 0) + 1, named, 8, null, 5000000 from public.hwt_kind o on conflict (name) do nothing;
  insert into public.hwt_shard (id, kind, epoch)
  select q.id * 1024 + n.n, q.id, 0 from public.hwt_kind q, generate_series(0, q.shards - 1) n(n) where q.name = named
  on conflict (id) do nothing;
end $hwt$;

-- The first steps of each change of rules. The first trigger of a transaction locks the shards of all its changes, in
-- one order: hwt.ruled names them.
create or replace function public.hwt_ruled(kind_id int, its_bucket int) returns void language plpgsql as $hwt$
begin
  set constraints public.hwt_raise deferred;
  update public.hwt_kind k set removed = null where k.id = kind_id and k.removed is not null;
  perform set_config('hwt.rules'::text, 'later'::text, true);
  perform set_config('hwt.ruled'::text, coalesce(string_agg(p.place, ','::text), ''::text), true)
    from (select unnest(string_to_array(current_setting('hwt.ruled', true), ','::text)) as place
    union select s.id::text from public.hwt_kind k join public.hwt_shard s on s.kind = k.id
    where k.id = kind_id and (its_bucket is null or s.id = k.id * 1024 + its_bucket % k.shards)) p;
end $hwt$;

-- Pauses a kind or a group.
create or replace function public.hwt_pause(kind text, grp text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $hwt$
#variable_conflict use_column
declare
  k record;
  its_group bytea;
  place int;
begin
  select * into k from public.hwt_find(kind);
  its_group := public.hwt_bytes('grp'::text, grp);
  place := public.hwt_bucket(its_group, null::bigint);
  perform public.hwt_ruled(k.kind_id, place);
  if grp is null then
    update public.hwt_kind q set paused = true where q.id = k.kind_id and q.removed is null;
    return;
  end if;
  insert into public.hwt_group as g (bucket, kind, grp, paused)
  values (place, k.kind_id, its_group, true)
  on conflict (bucket, kind, grp) do update set paused = true;
end $hwt$;

-- Resumes a kind or a group.
create or replace function public.hwt_resume(kind text, grp text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $hwt$
#variable_conflict use_column
declare
  k record;
  its_group bytea;
  place int;
begin
  select * into k from public.hwt_find(kind);
  its_group := public.hwt_bytes('grp'::text, grp);
  place := public.hwt_bucket(its_group, null::bigint);
  perform public.hwt_ruled(k.kind_id, place);
  if grp is null then
    update public.hwt_kind q set paused = false where q.id = k.kind_id and q.removed is null;
    return;
  end if;
  update public.hwt_group g set paused = false where g.bucket = place and g.kind = k.kind_id and g.grp = its_group;
  delete from public.hwt_group g where g.bucket = place and g.kind = k.kind_id and g.grp = its_group
    and g.running is null;
end $hwt$;

-- Limits a kind or a group; remove takes the limits away.
create or replace function public.hwt_limit(kind text, grp text default null, running int default 0,
  start_every interval default null, burst int default 0, remove boolean default false) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $hwt$
#variable_conflict use_column
declare
  most alias for $3;
  at_once alias for $5;
  k record;
  every bigint := 0;
  its_group bytea;
  place int;
begin
  select * into k from public.hwt_find(kind);
  if start_every is not null then
    every := public.hwt_span('start_every'::text, start_every, 0::bigint);
  end if;
  if most is null or most < 0 or at_once is null or at_once < 0 or (at_once > 0 and every = 0) then
    raise invalid_parameter_value using message = format('running is %s, burst is %s', most, at_once),
      hint = 'Neither is negative, and burst needs start_every.';
  elsif remove is null or (remove and (most > 0 or every > 0)) then
    raise invalid_parameter_value using message = 'a limit that is removed has no values',
      hint = 'remove => true stands alone.';
  end if;
  its_group := public.hwt_bytes('grp'::text, grp);
  place := public.hwt_bucket(its_group, null::bigint);
  perform public.hwt_ruled(k.kind_id, place);
  if grp is null then
    update public.hwt_kind q set running = nullif(most, 0), start_every_us = nullif(every, 0::bigint),
      burst = nullif(at_once, 0) where q.id = k.kind_id and q.removed is null;
    return;
  end if;
  if not remove then
    insert into public.hwt_group as g (bucket, kind, grp, running, start_every_us, burst)
    values (place, k.kind_id, its_group, most, every, at_once)
    on conflict (bucket, kind, grp) do update set running = excluded.running,
      start_every_us = excluded.start_every_us, burst = excluded.burst;
    return;
  end if;
  update public.hwt_group g set running = null, start_every_us = 0, burst = 0
  where g.bucket = place and g.kind = k.kind_id and g.grp = its_group;
  delete from public.hwt_group g where g.bucket = place and g.kind = k.kind_id and g.grp = its_group and not g.paused;
end $hwt$;
