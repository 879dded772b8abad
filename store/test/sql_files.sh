#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The scripts of store/sql/ run with psql and sqlite3 as they stand, and make what an open makes.  A store that a release has
# made (packaging/releases/) is opened, goes on, and is then what an open makes today.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
# shellcheck source=test/result.sh
. test/result.sh
if [ -z "${HWT_STORE_URL:-}" ]; then
	exec store/test/postgres.sh "$0"
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sql=store/sql
at=${HWT_STORE_URL#pg:host=}
at=${at%% *}

on() { # DATABASE PROGRAM ARGUMENT...
	database=$1 program=$2
	shift 2
	"$program" -h "$at" -U hwt -d "$database" "$@"
}
# Tables, views and functions; the hash, who may call what, and empty lines aside.
shape() {
	on "$1" pg_dump -s -x | grep -vE '^(--|\\|$)|-- libhwt-store [0-9a-f]+$' | sort
}

on postgres psql -qc 'create database by_psql' -c 'create database by_open' >"$folder/log" 2>&1
for script in tables_postgresql views_postgresql functions; do
	result "psql_runs_$script" "$(on by_psql psql -q -v ON_ERROR_STOP=1 -f $sql/$script.sql 2>&1 | grep -v NOTICE)"
done
result an_open_makes_the_others "$("$BUILD/hwt-jobs" -d "pg:host=$at user=hwt dbname=by_open" stats 2>&1 >/dev/null)"
shape by_psql >"$folder/psql"
shape by_open >"$folder/open"
result there_is_something_to_compare "$([ "$(wc -l <"$folder/open")" -gt 300 ] || wc -l "$folder/open")"
result an_open_makes_what_psql_makes "$(diff "$folder/psql" "$folder/open" | head -20)"

page=store/doc/schema.md
result the_page_has_each_column "$(sed -nE 's/^  ([a-z_]+) (text|u?int|integer|bigint|bool|xid8|smallint|bytea|blob|key).*/\1/p' $sql/tables_*.sql | grep -vx primary | sort -u |
	while read -r column; do grep -q "\`$column\`" $page || echo "$page: no $column"; done)"
sed -n '/^```sql$/,/^```$/p' $page | grep -v '^```' >"$folder/queries"
result the_queries_of_the_page_run "$([ "$(grep -c ';$' "$folder/queries")" -eq 3 ] || cat "$folder/queries"
	on by_open psql -q -v ON_ERROR_STOP=1 -f "$folder/queries" 2>&1 >/dev/null)"

# Functions that users call may get arguments at their end, which have defaults.
heads() { # DATABASE
	on "$1" psql -Atc "select proname || '(' || pg_get_function_arguments(oid), pg_get_function_result(oid) from pg_proc
		where proname like 'hwt\_%' and prosecdef and prorettype <> 'trigger'::regtype order by 1"
}
# URL: today's tool with what the release has put, and beside it.
goes_on() {
	"$BUILD/hwt-jobs" -d "$1" list kept --json 2>&1 | grep -q '"key": *"old"' || "$BUILD/hwt-jobs" -d "$1" list kept --json 2>&1
	"$BUILD/hwt-jobs" -d "$1" put kept more --key new --in 1h 2>&1 >/dev/null
	for key in old new; do
		"$BUILD/hwt-jobs" -d "$1" cancel kept --key $key 2>&1 >/dev/null
	done
	"$BUILD/hwt-jobs" -d "$1" list kept --json 2>&1 | grep -vFx '[]'
}
for release in packaging/releases/*/; do
	version=$(basename "$release")
	on postgres psql -qc "create database \"$version\"" >"$folder/log" 2>&1
	on "$version" psql -q -v ON_ERROR_STOP=1 -f "${release}postgresql.sql" >>"$folder/log" 2>&1
	heads "$version" >"$folder/heads"
	result "a_store_of_${version}_goes_on" "$([ "$(wc -l <"$folder/heads")" -ge 10 ] || cat "$folder/log"
		goes_on "pg:host=$at user=hwt dbname=$version")"
	shape "$version" >"$folder/old"
	result "a_store_of_${version}_becomes_what_an_open_makes" "$(diff "$folder/open" "$folder/old" | head -20)"
	heads "$version" >"$folder/now"
	result "calls_of_functions_of_${version}_go_on" "$(awk -F'|' 'FNR == NR { type[$1] = $2; next }
		{ for (head in type) if (index($1, head) == 1 && type[head] == $2) delete type[head] }
		END { for (head in type) print head "): " type[head] }' "$folder/heads" "$folder/now")"
done

if command -v sqlite3 >/dev/null 2>&1; then
	result hwt_jobs_makes_a_store_on_sqlite "$("$BUILD/hwt-jobs" -d "sqlite:$folder/made.db" put --make a text 2>&1 >/dev/null)"
	cat $sql/tables_sqlite.sql $sql/views_sqlite.sql | sqlite3 "$folder/shell.db" >"$folder/log" 2>&1
	result sqlite3_runs_the_tables_and_views "$(cat "$folder/log")"
	for by in shell made; do
		sqlite3 "$folder/$by.db" 'select sql from sqlite_master' | grep -v '^ *--' | sed 's/ *--.*//' | sort >"$folder/$by"
	done
	result an_open_makes_what_sqlite3_makes "$(diff "$folder/shell" "$folder/made" | head -20)"
	for release in packaging/releases/*/; do
		version=$(basename "$release")
		sqlite3 "$folder/$version.db" <"${release}sqlite.sql" >"$folder/log" 2>&1
		result "a_file_of_${version}_goes_on" "$(cat "$folder/log"
			goes_on "sqlite:$folder/$version.db")"
		sqlite3 "$folder/$version.db" 'select sql from sqlite_master' | grep -v '^ *--' | sed 's/ *--.*//' | sort >"$folder/old"
		result "a_file_of_${version}_becomes_what_an_open_makes" "$(diff "$folder/made" "$folder/old" | head -20)"
	done
fi
finish
