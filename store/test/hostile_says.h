/* SPDX-License-Identifier: BSD-2-Clause */
/* The statements of the two hostile roles of store_hostile.c, and the lists from which their words are drawn. */
#ifndef HWT_STORE_HOSTILE_SAYS_H
#define HWT_STORE_HOSTILE_SAYS_H

#include "store.h"

/*
 * Statements.  ` is the schema and the prefix of the store; $ and a letter stand for a word of a list.
 */

#define CALLS 26 /* the first statements of WEB_SAYS: those that web may execute */
static const char *const WEB_SAYS[] = {
	"select `put($k, $t)",
	"select `put($k, $t, key => $y, grp => $y, delay => $i, priority => $n, if_exists => $e)",
	"select `put($k, $t, key => $y, if_exists => $e)",
	"select `put($k, bytes => $b, at => $m, every => $i, grace => $i)",
	"select `put($k, cron => $c, zone => $z, key => $y, if_exists => $e)",
	"select `put($t, $t, $b, $i, $m, $y, $y, $i, $c, $z, $n, $i, $e)",
	"select `put($k, repeat('x', 1048570 + $n))",
	"select `put('a', g::text) from generate_series(1, 9) g",
	"select `put_many($k, array[$t, $t], array[$b, $b]::bytea[], $i, array[$m, $m]::timestamptz[], array[$y, $y], "
	"array[$y, $y],"
	" $n, $e)",
	"select `put_many($k, array[$t, $t], key => array[$y, $y], if_exists => $e)",
	"select `cancel($d)",
	"select `cancel_key($k, $y)",
	"select `cancel_key($k, $y, $y)",
	"select `cancel_group($k, $y)",
	"select `cancel_group($k, $y)",
	"select `reschedule($d, $i)",
	"select `reschedule($d, $i, $m)",
	"select `reschedule_key($k, $y, $y, $i)",
	"select `make_kind($k)",
	"select `pause($k, $y)",
	"select `pause($k)",
	"select `resume($k, $y)",
	"select `resume($k)",
	"select `limit($k, $y, $n, $i, $n)",
	"select `limit($k, running => $n, remove => $o)",
	"select `limit($k, $y, remove => true)",
	/* after the first CALLS: statements that web may not execute */
	"select `draw($n), `bucket($b, $n)",
	"select `tell(1, 1024, 1, 1, 1, '')",
	"select `find($k), `named($k, $y, $y), `ruled(1)",
	"select setval('`number', 1)",
	"select currval('`number')",
	/* settings of its session */
	"set search_path = $p",
	"set search_path = pg_temp, public",
	"create temp table $s (id bigint, due_us bigint, store text, name text)",
	"create function pg_temp.$f($a, $a) returns $a language sql as 'select null::$a'",
	"create operator pg_temp.$q (leftarg = $a, rightarg = $a, function = pg_temp.$f)",
	"set constraints all immediate",
	"set constraints all deferred",
	"set @.told = $t",
	"set @.rules = 'later'",
	"set plpgsql.variable_conflict = use_variable",
	"set plpgsql.extra_errors = 'all'",
	"set plpgsql.check_asserts = off",
	"set timezone = $z",
	"set datestyle = $r(ISO|German|SQL, MDY|Postgres)",
	"set intervalstyle = $r(iso_8601|postgres_verbose|sql_standard)",
	"set bytea_output = $r(escape|hex)",
	"set client_encoding = $r(UTF8|LATIN1|SQL_ASCII|WIN1252)",
	"set standard_conforming_strings = $o",
	"set extra_float_digits = $r(-15|3)",
	"set default_transaction_isolation = $r(serializable|'repeatable read'|'read committed')",
	"set default_transaction_read_only = $o",
	"set debug_print_plan = on",
	"set debug_print_parse = on",
	"set client_min_messages = $r(debug5|log|notice)",
	"set row_security = $o",
	"set synchronous_commit = $o",
	"set session_replication_role = replica",
	"set transform_null_equals = $o",
	"set lc_messages = 'C'",
	"reset all",
	"discard all",
	"deallocate all",
};

static const char *const SLY_SAYS[] = {
	"create or replace function public.$u language plpgsql as $hwt$ begin perform sly.note(); return null; end "
	"$hwt$",
	"create or replace function public.$u language plpgsql as $hwt$ begin perform sly.note(); return null; end "
	"$hwt$",
	"create or replace function public.$u language plpgsql as $hwt$ begin perform sly.note(); return null; end "
	"$hwt$",
	"create or replace function public.$f($a) returns $a language plpgsql as $hwt$ begin perform sly.note(); "
	"return null;"
	" end $hwt$",
	"create or replace function public.$f($a, $a) returns $a language plpgsql as $hwt$ begin perform sly.note();"
	" return null; end $hwt$",
	"create or replace function public.$f($a, $a, $a) returns $a language plpgsql as $hwt$ begin perform "
	"sly.note();"
	" return null; end $hwt$",
	"create or replace function public.$f(variadic $a[]) returns $a language plpgsql as $hwt$ begin perform "
	"sly.note();"
	" return null; end $hwt$",
	"create or replace function `$g($a) returns $a language plpgsql as $hwt$ begin perform sly.note(); return "
	"null; end $hwt$",
	"create or replace function `$g($a, $a) returns $a language plpgsql as $hwt$ -- libhwt-store 0\nbegin"
	" perform sly.note(); return null; end $hwt$",
	"create or replace function `cancel(id bigint) returns text language sql as 'select 1::text'",
	"create function public.trap($a, $a) returns boolean language plpgsql as $hwt$ begin perform sly.note();"
	" return true; end $hwt$",
	"create operator public.$q (leftarg = $a, rightarg = $a, function = public.trap)",
	"create domain public.d$n as $a check (sly.note() is null)",
	"create cast (public.d1 as text) with function public.trap as implicit",
	"create aggregate public.$f($a) (sfunc = public.trap, stype = boolean)",
	"create table public.$s$n (like pg_class)",
	"create view public.v$n as select * from $s",
	"create schema s$n",
	"create schema @_kind",
	"create function s1.$f($a, $a) returns $a language plpgsql as $hwt$ begin perform sly.note(); return null; end "
	"$hwt$",
	"create index on $s (sly.note())",
	"create trigger t before insert or update on $s for each row execute function sly.fire()",
	"create rule r as on insert to $s do also select sly.note()",
	"create policy p on $s",
	"create publication p$n for table $s",
	"create statistics public.st$n on id, due_us from `timeout",
	"create event trigger e on ddl_command_start execute function sly.fire()",
	"create extension $r(dblink|plperl|file_fdw)",
	"alter function `$g owner to $w",
	"alter function public.$f owner to $w",
	"alter function `put security invoker",
	"alter function `cancel(bigint) set search_path = public",
	"alter sequence `number restart",
	"alter schema public owner to sly",
	"alter default privileges grant execute on functions to public",
	"alter default privileges for role $w grant all on tables to public",
	"alter role $w set search_path = public, pg_catalog",
	"alter database postgres set search_path = public, pg_catalog",
	"drop function if exists `$g",
	"drop owned by $w",
	"reassign owned by $x_sly to $w",
	"comment on table $s is 'mine'",
	"notify $l, '1:1:1'",
	"listen $l",
	"select pg_notify('$l', '1:1:' || $n)",
	"select pg_notify('@_members', '')",
	"unlisten *",
	"select pg_terminate_backend(pid), pg_cancel_backend(pid) from pg_stat_activity where usename <> current_user",
	"select query from pg_stat_activity",
	"select prosrc from pg_proc where proname like '@%'",
	"select relname, mode from pg_locks join pg_class on pg_class.oid = relation",
	"select pg_get_functiondef(oid) from pg_proc where proname = '@_put'",
	"select most_common_vals::text, histogram_bounds::text from pg_stats",
	"select pg_advisory_xact_lock_shared(hashtext('@_make')::bigint)",
	"drop schema s$n cascade",
	"select pg_catalog.pg_control_system(), pg_catalog.current_database()",
	/* statements that web may not execute, in the same session */
	"select `put('a')",
	"select `cancel($d)",
	"set search_path = $p",
	"set client_min_messages = $r(debug5|log|notice)",
	"set debug_print_plan = on",
	"reset all",
};

static const char *const BOTH_SAY[] = {
	"begin",
	"begin isolation level serializable",
	"begin read only",
	"commit",
	"rollback",
	"commit",
	"savepoint s",
	"rollback to s",
	"select * from $s",
	"select pg_relation_size('$s'), count(*) from $s",
	"table `meta",
	"insert into $s default values",
	"update `meta set store = 'x'",
	"update `timeout set state = 1, due_us = 1",
	"delete from $s",
	"truncate $s",
	"lock table $s in access share mode",
	"select 1 from `timeout for update",
	"alter table $s owner to $w",
	"alter table $s disable trigger all",
	"drop table $s cascade",
	"grant all on $s to public",
	"grant $w to $x_sly",
	"set role $w",
	"set session authorization $w",
	"alter role $w superuser",
	"create role $x_more superuser",
	"create function public.x() returns void security definer language sql as 'select 1'",
	"select has_table_privilege('$s', 'select')",
};

/* The first PLAIN words of a list make calls that succeed. */
#define PLAIN 4
struct list {
	char letter;
	const char *const *words;
	size_t n;
};

#define LIST(letter, ...)                                                                                              \
	{                                                                                                              \
		letter, (const char *const[]){ __VA_ARGS__ }, HWTS_COUNT(((const char *const[]){ __VA_ARGS__ }))       \
	}

static const struct list LISTS[] = {
	/* kinds; no word names rows of "mine" and "live" */
	LIST('k', "'a'", "'a'", "'a'", "'b'", "'b'", "'none'", "''", "null", "'a; drop table x'", "E'\\x01'",
	     "repeat('k', 64)", "'a'::varchar", "'a'::name"),
	LIST('t', "'x'", "null", "''", "'1.1.1'", "E'\\\\'", "'%s %L %I'", "'{\"a\": 1}'::jsonb::text",
	     "repeat('y', 3000)", "'$hwt$'", "chr(8364)"),
	LIST('b', "'\\x00ff'", "null", "''", "'abc'::bytea", "decode(repeat('00', 2000), 'hex')"),
	LIST('y', "'k'", "'k'", "'g'", "'g'", "'h'", "null", "''", "' '", "repeat('z', 256)", "'''; select 1; --'",
	     "U&'\\00e4'"),
	LIST('i', "'1 s'", "'1 hour'", "'10 days'", "null", "'-1 day'", "'1 month'", "'100 years'", "'1000000 years'",
	     "'0'", "interval '1 us'"),
	LIST('m', "null", "now()", "now() + interval '1 day'", "'infinity'", "'-infinity'", "'1960-01-01'",
	     "'9999-12-31'", "'294000-01-01'"),
	LIST('n', "0", "1", "2", "7", "-1", "100", "101", "2147483647", "null"),
	LIST('e', "'error'", "'keep'", "'replace'", "'revive'", "'keep_due'", "'never'", "null"),
	LIST('c', "'@daily'", "'* * * * *'", "null", "'61 * * * *'", "''", "'0 0 30 2 *'"),
	LIST('z', "'Europe/Berlin'", "'UTC'", "'PST'", "'../x'", "'europe/berlin'", "'FOO+5'", "'posix/UTC'", "'-3'"),
	LIST('o', "on", "off", "true"),
	LIST('p', "public", "s1, public, pg_catalog", "pg_catalog", "''", "sly, public, pg_catalog",
	     "\"$user\", public"),
	LIST('s', "`timeout", "`meta", "`kind", "`shard", "`group", "`member", "`timeouts", "`kinds", "`number",
	     "pg_authid"),
	LIST('g', "put", "put_many", "cancel", "cancel_key", "cancel_group", "reschedule", "pause", "limit", "find",
	     "tell", "raise", "make_kind", "bucket", "bytes", "moment"),
	LIST('f', "num_nonnulls", "format", "length", "convert_to", "date_part", "clock_timestamp", "concat_ws",
	     "encode", "strpos", "left", "hashtext", "pg_notify", "set_config", "current_setting", "array_agg",
	     "coalesce", "nullif", "isfinite", "octet_length", "get_byte", "nextval", "setval", "generate_series",
	     "to_regclass", "pg_current_xact_id", "pg_advisory_xact_lock", "has_function_privilege", "quote_ident",
	     "starts_with"),
	LIST('a', "text", "bigint", "int", "bytea", "interval", "timestamptz", "boolean", "numeric", "float8", "name",
	     "regclass", "unknown", "anyelement", "\"char\"", "oid"),
	/* functions with the signatures that the store's functions call */
	LIST('u', "length(bytea) returns int", "convert_to(text, name) returns bytea",
	     "nextval(regclass) returns bigint", "date_part(text, timestamptz) returns float8",
	     "clock_timestamp() returns timestamptz", "isfinite(interval) returns boolean",
	     "isfinite(timestamptz) returns boolean", "octet_length(text) returns int",
	     "get_byte(bytea, int) returns int", "pg_notify(text, text) returns text",
	     "encode(bytea, text) returns text", "set_config(text, text, boolean) returns text",
	     "current_setting(text, boolean) returns text", "strpos(text, text) returns int",
	     "left(text, int) returns text", "format(text, text) returns text",
	     "num_nonnulls(bytea, text, text, interval, text, text, interval) returns int",
	     "hashtext(text) returns int"),
	LIST('q', "=", "<>", "<", ">", "+", "-", "*", "%", "&", "#", "|", "||", "~", "!~", ">>", "<<", "/"),
	LIST('w', "$x_app", "$x_web", "$x_sly", "hwt", "postgres", "pg_read_all_data", "pg_monitor", "none"),
	LIST('l', "@_1024", "@_members", "@_1025", "hwt", "@"),
};

#endif
