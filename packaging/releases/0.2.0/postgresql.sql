--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: hwt_bucket(bytea, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_bucket(named bytea, number bigint) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    AS $$
-- libhwt-store 387ae1f456ce4c18
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
end $$;


--
-- Name: hwt_bytes(text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_bytes(word text, value text) RETURNS bytea
    LANGUAGE plpgsql
    AS $$
-- libhwt-store b12d1c04e8c660af
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
end $$;


--
-- Name: hwt_cancel(bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_cancel(id bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
-- libhwt-store 654e26ec9088d781
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
end $_$;


--
-- Name: hwt_cancel_group(text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_cancel_group(kind text, grp text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
-- libhwt-store c23ca2b94f5f21e2
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
end $$;


--
-- Name: hwt_cancel_key(text, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_cancel_key(kind text, key text, grp text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
-- libhwt-store 3ffe439600bb17dc
begin
  return coalesce(public.hwt_cancel(public.hwt_named(kind, key, grp)), 'none'::text);
end $$;


--
-- Name: hwt_draw(bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_draw(least_number bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
-- libhwt-store 6e7e732634401dfa
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
end $$;


--
-- Name: hwt_find(text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_find(named text, OUT kind_id integer, OUT kind_shards integer, OUT horizon bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
-- libhwt-store 6024e8c5cbef7d48
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
end $$;


--
-- Name: hwt_keep(bigint, bigint, bigint, text, text, bigint, integer, bytea); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_keep(its_id bigint, now_us bigint, period bigint, cron text, its_zone text, grace bigint, its_priority integer, content bytea) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
-- libhwt-store 5270e933dc046c7a
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
end $$;


--
-- Name: hwt_limit(text, text, integer, interval, integer, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_limit(kind text, grp text DEFAULT NULL::text, running integer DEFAULT 0, start_every interval DEFAULT NULL::interval, burst integer DEFAULT 0, remove boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
-- libhwt-store c69713001cfe8df3
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
  perform public.hwt_ruled(k.kind_id);
  if grp is null then
    update public.hwt_kind q set running = nullif(most, 0), start_every_us = nullif(every, 0::bigint),
      burst = nullif(at_once, 0) where q.id = k.kind_id and q.removed is null;
    return;
  end if;
  its_group := public.hwt_bytes('grp'::text, grp);
  place := public.hwt_bucket(its_group, 0::bigint);
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
end $_$;


--
-- Name: hwt_line(text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_line(cron text, zone text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
-- libhwt-store e4239185ce6f8688
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
end $_$;


--
-- Name: hwt_make_kind(text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_make_kind(kind text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
-- libhwt-store 85059e7898628be2
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
end $_$;


--
-- Name: hwt_moment(interval, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_moment(delay interval, at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
-- libhwt-store a130edb90a9fc120
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
end $$;


--
-- Name: hwt_named(text, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_named(kind text, key text, grp text) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
-- libhwt-store b4d2f87e643a14bb
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
end $$;


--
-- Name: hwt_pause(text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_pause(kind text, grp text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
-- libhwt-store eb42a11171d34dc4
#variable_conflict use_column
declare
  k record;
  its_group bytea;
begin
  select * into k from public.hwt_find(kind);
  perform public.hwt_ruled(k.kind_id);
  if grp is null then
    update public.hwt_kind q set paused = true where q.id = k.kind_id and q.removed is null;
    return;
  end if;
  its_group := public.hwt_bytes('grp'::text, grp);
  insert into public.hwt_group as g (bucket, kind, grp, paused)
  values (public.hwt_bucket(its_group, 0::bigint), k.kind_id, its_group, true)
  on conflict (bucket, kind, grp) do update set paused = true;
end $$;


--
-- Name: hwt_put(text, text, bytea, interval, timestamp with time zone, text, text, interval, text, text, integer, interval, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_put(kind text, data text DEFAULT NULL::text, bytes bytea DEFAULT NULL::bytea, delay interval DEFAULT NULL::interval, at timestamp with time zone DEFAULT NULL::timestamp with time zone, key text DEFAULT NULL::text, grp text DEFAULT NULL::text, every interval DEFAULT NULL::interval, cron text DEFAULT NULL::text, zone text DEFAULT NULL::text, priority integer DEFAULT 0, grace interval DEFAULT NULL::interval, if_exists text DEFAULT 'error'::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
-- libhwt-store 45865fcd572ac918
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
end $_$;


--
-- Name: hwt_put_many(text, text[], bytea[], interval, timestamp with time zone[], text[], text[], integer, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_put_many(kind text, data text[] DEFAULT NULL::text[], bytes bytea[] DEFAULT NULL::bytea[], delay interval DEFAULT NULL::interval, at timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], key text[] DEFAULT NULL::text[], grp text[] DEFAULT NULL::text[], priority integer DEFAULT 0, if_exists text DEFAULT 'error'::text) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
-- libhwt-store df6fe4afa058ea65
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
begin
  select * into k from public.hwt_find(its_kind);
  if cardinality(texts) <> count or cardinality(contents) <> count or cardinality(times) <> count
    or cardinality(keys) <> count or cardinality(groups) <> count then
    raise invalid_parameter_value using message = 'the arrays have different lengths',
      hint = 'Each has an element for each put, null for what hwt_put would not be given.';
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
          its_priority, q.grp, q.key, q.content from placed q
        on conflict (bucket, kind, grp, key) where key is not null do nothing
        returning t.id)
      select q.n, q.id, q.place, q.due, length(q.content) as size, q.grp from placed q join made m on m.id = q.id
    loop
      ids[p.n] := p.id;
      if p.due < now_us + k.horizon + 1000000::bigint then
        perform public.hwt_tell(p.id, k.kind_id * 1024 + p.place % k.kind_shards, p.due, coalesce(p.size, 0),
          its_priority, p.grp);
      end if;
    end loop;
  end if;
  for p in select u.* from unnest(texts, contents, times, keys, groups, ids) with ordinality u(t, b, m, k, g, id, n)
    where u.id is null order by u.n
  loop
    ids[p.n] := public.hwt_put(its_kind, p.t, p.b, delay, p.m, p.k, p.g, priority => its_priority,
      if_exists => if_exists);
  end loop;
  return ids;
end $_$;


--
-- Name: hwt_raise(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_raise() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
-- libhwt-store 9d294c17c81ac9df
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
  perform 1 from public.hwt_shard s where s.id = any(places) order by s.id for update;
  update public.hwt_shard s set rules = s.rules + 1::bigint where s.id = any(places);
  perform pg_notify('hwt_'::text || left(m.store, 16) || '_'::text || s.id::text, 'l'::text)
    from public.hwt_shard s, public.hwt_meta m where s.id = any(places) and s.owner is not null;
  return null;
end $$;


--
-- Name: hwt_reschedule(bigint, interval, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_reschedule(id bigint, delay interval DEFAULT NULL::interval, at timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
-- libhwt-store a248b0d01cf8d339
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
end $_$;


--
-- Name: hwt_reschedule_key(text, text, text, interval, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_reschedule_key(kind text, key text, grp text DEFAULT NULL::text, delay interval DEFAULT NULL::interval, at timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
-- libhwt-store c97600c0f0668d0c
begin
  return coalesce(public.hwt_reschedule(public.hwt_named(kind, key, grp), delay, at), 'none'::text);
end $$;


--
-- Name: hwt_resume(text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_resume(kind text, grp text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
-- libhwt-store a3273b2c5088b4f6
#variable_conflict use_column
declare
  k record;
  its_group bytea;
  place int;
begin
  select * into k from public.hwt_find(kind);
  perform public.hwt_ruled(k.kind_id);
  if grp is null then
    update public.hwt_kind q set paused = false where q.id = k.kind_id and q.removed is null;
    return;
  end if;
  its_group := public.hwt_bytes('grp'::text, grp);
  place := public.hwt_bucket(its_group, 0::bigint);
  update public.hwt_group g set paused = false where g.bucket = place and g.kind = k.kind_id and g.grp = its_group;
  delete from public.hwt_group g where g.bucket = place and g.kind = k.kind_id and g.grp = its_group
    and g.running is null;
end $$;


--
-- Name: hwt_ruled(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_ruled(kind_id integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
-- libhwt-store a690cc8c2db6e2fc
begin
  set constraints public.hwt_raise deferred;
  update public.hwt_kind k set removed = null where k.id = kind_id and k.removed is not null;
  perform set_config('hwt.rules'::text, 'later'::text, true);
end $$;


--
-- Name: hwt_span(text, interval, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_span(word text, value interval, least_us bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
-- libhwt-store 96f7926c71cee2cc
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
end $$;


--
-- Name: hwt_tell(bigint, integer, bigint, integer, integer, bytea); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hwt_tell(its_id bigint, place integer, due bigint, size integer, its_priority integer, grp bytea) RETURNS void
    LANGUAGE plpgsql
    AS $$
-- libhwt-store f9c81be186f037c7
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
end $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: hwt_group; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hwt_group (
    bucket integer NOT NULL,
    kind integer NOT NULL,
    grp bytea NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    running integer,
    start_every_us bigint,
    burst integer
);


--
-- Name: hwt_kind; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hwt_kind (
    id integer NOT NULL,
    name text NOT NULL,
    shards integer NOT NULL,
    mode integer,
    horizon_us bigint NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    running integer,
    start_every_us bigint,
    burst integer,
    removed boolean
);


--
-- Name: hwt_shard; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hwt_shard (
    epoch bigint NOT NULL,
    rules bigint DEFAULT 0 NOT NULL,
    id integer NOT NULL,
    kind integer NOT NULL,
    owner text,
    levels bytea
)
WITH (fillfactor='50');


--
-- Name: hwt_timeout; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hwt_timeout (
    id bigint NOT NULL,
    due_us bigint NOT NULL,
    base_us bigint NOT NULL,
    epoch bigint NOT NULL,
    period_us bigint NOT NULL,
    tx xid8 DEFAULT pg_current_xact_id() NOT NULL,
    bucket integer NOT NULL,
    kind integer NOT NULL,
    shard integer,
    attempt integer NOT NULL,
    state smallint NOT NULL,
    priority smallint DEFAULT 0 NOT NULL,
    grp bytea DEFAULT '\x'::bytea NOT NULL,
    key bytea,
    schedule text,
    zone text,
    grace_us bigint,
    spread_us bigint,
    next_due_us bigint,
    next_base_us bigint,
    next_period_us bigint,
    next_grace_us bigint,
    next_spread_us bigint,
    next_priority smallint,
    next_schedule text,
    next_zone text,
    last boolean,
    error text,
    data bytea,
    next_data bytea
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='5000');


--
-- Name: hwt_kinds; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.hwt_kinds AS
 SELECT k.name AS kind,
    k.paused,
    NULLIF(substr(((COALESCE((', running '::text || k.running), ''::text) ||
        CASE
            WHEN (k.start_every_us > 0) THEN ((', a start every '::text || trim_scale(((k.start_every_us)::numeric / 1000000.0))) || ' s'::text)
            ELSE ''::text
        END) || COALESCE((', burst '::text || k.burst), ''::text)), 3), ''::text) AS limits,
    ( SELECT count(*) AS count
           FROM ( SELECT 1 AS "?column?"
                   FROM public.hwt_timeout t
                  WHERE ((t.shard >= ('-1024'::integer * (k.id + 1))) AND (t.shard <= ('-1'::integer - (1024 * k.id))))
                 LIMIT 1001) f) AS failed,
    ( SELECT to_timestamp((((min(o.due_us))::numeric / 1000000.0))::double precision) AS to_timestamp
           FROM ( SELECT ( SELECT t.due_us
                           FROM public.hwt_timeout t
                          WHERE ((t.shard = s.id) AND (t.due_us > 0) AND (t.state = 1))
                          ORDER BY t.due_us
                         LIMIT 1) AS due_us
                   FROM public.hwt_shard s
                  WHERE (s.kind = k.id)) o) AS oldest_due
   FROM public.hwt_kind k
  WHERE ((k.removed IS NULL) OR (EXISTS ( SELECT 1
           FROM (public.hwt_shard s
             JOIN public.hwt_timeout t ON (((t.shard = s.id) OR (t.shard = ('-1'::integer - s.id)))))
          WHERE (s.kind = k.id))));


--
-- Name: hwt_member; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hwt_member (
    incarnation bigint NOT NULL,
    until_us bigint NOT NULL,
    waits_us bigint,
    name text NOT NULL,
    kinds integer[] NOT NULL,
    waits text,
    starts text
)
WITH (fillfactor='50');


--
-- Name: hwt_meta; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hwt_meta (
    one integer NOT NULL,
    version integer NOT NULL,
    next_number bigint NOT NULL,
    store text NOT NULL,
    CONSTRAINT hwt_meta_one_check CHECK ((one = 1))
);


--
-- Name: hwt_number; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.hwt_number
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: hwt_timeouts; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.hwt_timeouts AS
 SELECT t.id,
    k.name AS kind,
        CASE getdatabaseencoding()
            WHEN 'UTF8'::name THEN convert_from(NULLIF(t.grp, '\x'::bytea), 'UTF8'::name)
            ELSE encode(NULLIF(t.grp, '\x'::bytea), 'escape'::text)
        END AS grp,
        CASE getdatabaseencoding()
            WHEN 'UTF8'::name THEN convert_from(t.key, 'UTF8'::name)
            ELSE encode(t.key, 'escape'::text)
        END AS key,
        CASE t.state
            WHEN 1 THEN 'pending'::text
            WHEN 2 THEN 'running'::text
            ELSE 'failed'::text
        END AS state,
        CASE
            WHEN ((t.shard IS NOT NULL) AND (t.due_us > 0)) THEN to_timestamp((((t.due_us)::numeric / 1000000.0))::double precision)
            ELSE NULL::timestamp with time zone
        END AS due,
    ((t.state = 1) AND (t.shard IS NOT NULL) AND ((t.due_us >= 1) AND ((t.due_us)::numeric <= (EXTRACT(epoch FROM clock_timestamp()) * (1000000)::numeric)))) AS overdue,
    t.attempt,
        CASE
            WHEN (t.schedule IS NOT NULL) THEN (t.schedule || COALESCE((' '::text || t.zone), ''::text))
            WHEN (t.period_us > 0) THEN (('every '::text || trim_scale(((t.period_us)::numeric / 1000000.0))) || ' s'::text)
            ELSE NULL::text
        END AS repeats,
    ( SELECT s.owner
           FROM public.hwt_shard s
          WHERE (s.id =
                CASE
                    WHEN (t.shard < 0) THEN ('-1'::integer - t.shard)
                    ELSE t.shard
                END)) AS owner,
    t.error
   FROM (public.hwt_timeout t
     LEFT JOIN public.hwt_kind k ON ((k.id = t.kind)));


--
-- Data for Name: hwt_group; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: hwt_kind; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hwt_kind VALUES (1, 'kept', 8, NULL, 5000000, false, NULL, NULL, NULL, NULL);


--
-- Data for Name: hwt_member; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: hwt_meta; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hwt_meta VALUES (1, 3, 115028953940, '14e84719c33f4c3f8960550b263092c8');


--
-- Data for Name: hwt_shard; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hwt_shard VALUES (0, 0, 1024, 1, NULL, NULL);
INSERT INTO public.hwt_shard VALUES (0, 0, 1025, 1, NULL, NULL);
INSERT INTO public.hwt_shard VALUES (0, 0, 1026, 1, NULL, NULL);
INSERT INTO public.hwt_shard VALUES (0, 0, 1027, 1, NULL, NULL);
INSERT INTO public.hwt_shard VALUES (0, 0, 1028, 1, NULL, NULL);
INSERT INTO public.hwt_shard VALUES (0, 0, 1029, 1, NULL, NULL);
INSERT INTO public.hwt_shard VALUES (0, 0, 1030, 1, NULL, NULL);
INSERT INTO public.hwt_shard VALUES (0, 0, 1031, 1, NULL, NULL);


--
-- Data for Name: hwt_timeout; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hwt_timeout VALUES (117789648768738, 1795986438727113, 1795986438727113, 0, 0, '729', 738, 1, 1026, 0, 1, 0, '\x', '\x6f6c64', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x74657874', NULL);


--
-- Name: hwt_number; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.hwt_number', 1, false);


--
-- Name: hwt_group hwt_group_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hwt_group
    ADD CONSTRAINT hwt_group_pkey PRIMARY KEY (bucket, kind, grp);


--
-- Name: hwt_kind hwt_kind_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hwt_kind
    ADD CONSTRAINT hwt_kind_pkey PRIMARY KEY (id);


--
-- Name: hwt_member hwt_member_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hwt_member
    ADD CONSTRAINT hwt_member_pkey PRIMARY KEY (name);


--
-- Name: hwt_meta hwt_meta_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hwt_meta
    ADD CONSTRAINT hwt_meta_pkey PRIMARY KEY (one);


--
-- Name: hwt_kind hwt_name; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hwt_kind
    ADD CONSTRAINT hwt_name UNIQUE (name);


--
-- Name: hwt_shard hwt_shard_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hwt_shard
    ADD CONSTRAINT hwt_shard_pkey PRIMARY KEY (id);


--
-- Name: hwt_timeout hwt_timeout_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hwt_timeout
    ADD CONSTRAINT hwt_timeout_pkey PRIMARY KEY (id, bucket);


--
-- Name: hwt_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hwt_due ON public.hwt_timeout USING btree (shard, due_us, id) WHERE (shard IS NOT NULL);


--
-- Name: hwt_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX hwt_key ON public.hwt_timeout USING btree (bucket, kind, grp, key) WHERE (key IS NOT NULL);


--
-- Name: hwt_ofgroup; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hwt_ofgroup ON public.hwt_timeout USING btree (bucket, kind, grp, due_us, id) WHERE (grp <> '\x'::bytea);


--
-- Name: hwt_ofkind; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hwt_ofkind ON public.hwt_shard USING btree (kind);


--
-- Name: hwt_group hwt_raise; Type: TRIGGER; Schema: public; Owner: -
--

CREATE CONSTRAINT TRIGGER hwt_raise AFTER INSERT OR DELETE OR UPDATE ON public.hwt_group DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('hwt.rules'::text, true) = 'later'::text)) EXECUTE FUNCTION public.hwt_raise();


--
-- Name: hwt_kind hwt_raise; Type: TRIGGER; Schema: public; Owner: -
--

CREATE CONSTRAINT TRIGGER hwt_raise AFTER UPDATE ON public.hwt_kind DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((current_setting('hwt.rules'::text, true) = 'later'::text)) EXECUTE FUNCTION public.hwt_raise();


--
-- PostgreSQL database dump complete
--


