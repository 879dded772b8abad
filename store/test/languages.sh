#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What store/examples/languages puts, replaces and cancels by SQL is what the library finds, and runs.
#
# A language without its interpreter or driver is skipped; HWT_LANGUAGES=all takes that for a failure, and fetches node's
# driver by npm.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
. test/result.sh
. store/test/with_server.sh
[ -n "${HWT_STORE_PG_URL:-}" ] || { skip languages 'no PostgreSQL server is installed'; finish; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
examples=store/examples/languages

PGHOST=${HWT_STORE_PG_URL#*host=} PGUSER=hwt PGDATABASE=postgres PGPORT=5432
PGHOST=${PGHOST%%&*}
export PGHOST PGUSER PGDATABASE PGPORT
PSQL=$HWT_STORE_PG_BIN/psql

sql() {
	"$PSQL" -qAtX -v ON_ERROR_STOP=1 "$@"
}

jobs() {
	timeout -k 5 600 "$BUILD/examples/jobs" -d "$HWT_STORE_PG_URL&port=$PGPORT" "$@"
}

runs() { # TEXT: what is pending is made due, and prints this
	jobs now && jobs run -e -l 600 >"$work/ran" 2>&1
	printf '%s\njobs: 1 ran, 0 failed\n' "$1" | diff - "$work/ran"
}

# PERL: has to be true of @j, all that waits.
lists() {
	"$BUILD/hwt-jobs" -d "$HWT_STORE_PG_URL&port=$PGPORT" --json list job >"$work/json" || echo "list: exit $?"
	perl -MJSON::PP -e 'local $/; my @j = @{decode_json(<STDIN>)}; exit !eval $ARGV[0]' "$1" <"$work/json" ||
		{ echo "$1 does not hold:"; cat "$work/json"; }
}

# The id is that of the replaced one, which waits with what the second put said; then it runs.
example() { # COMMAND...
	timeout -k 5 1200 "$@" >"$work/said" 2>"$work/err" || { echo "exit $?"; cat "$work/err"; }
	read -r id what <"$work/said"
	[ "$what" = cancelled ] || cat "$work/said"
	lists "@j == 1 && \$j[0]{id} == ${id:-0} && \$j[0]{key} eq 'order 17' && \$j[0]{data} eq 'mail bob' && \$j[0]{state} eq 'pending'"
	sql -c "select 'due ' || due || ' of ' || id from hwt_timeouts where due not between now() + interval '119 minutes'
		and now() + interval '2 hours'" || echo "psql: exit $?"
	runs 'mail bob'
}

language() { # NAME MISSING COMMAND...
	name=$1 missing=$2
	shift 2
	if [ -z "$missing" ] || [ "${HWT_LANGUAGES:-}" = all ]; then
		result "${name}_puts_replaces_and_cancels" "${missing:+$missing is missing}$(example "$@" 2>&1)"
	else
		skip "${name}_puts_replaces_and_cancels" "$missing is not installed"
	fi
}

python_with() { # MODULE: the first that has it
	for python in python3 /usr/bin/python3; do
		"$python" -c "import $1" 2>/dev/null && echo "$python" && return
	done
}

quietly() {
	"$@" >/dev/null 2>&1
}

trigger() {
	sql -f "$examples/trigger.sql" || echo "exit $?"
	lists "@j == 1 && \$j[0]{key} eq 'order 17' && \$j[0]{data} eq 'order 17'"
	[ "$(sql -c "select count(*) from hwt_timeouts t, orders o where o.id = 17 and t.due between o.until - interval '1 ms'
		and o.until + interval '1 ms'")" = 1 ] || sql -c 'select due from hwt_timeouts' -c 'select * from orders'
	runs 'order 17'
	sql -c 'drop table orders cascade' -c 'drop function expire_order' 2>&1
}

# Java's driver knows no sockets but those of the network.
listen() {
	for tries in 1 2 3 4 5 6 7 8 9; do
		PGPORT=$((20000 + ($$ + tries * 1009) % 10000))
		printf "listen_addresses = '127.0.0.1'\nport = %s\n" "$PGPORT" >>"$PGHOST/data/postgresql.conf"
		"$HWT_POSTGRES_CTL" -m fast restart && return
	done
	return 1
}

# ROLE STATEMENT: may not be executed.
is_refused() {
	sql -U "$1" -c "$2" 2>&1 | grep -q 'permission denied' || echo "$1 may $2"
}

# What the document shows under "Rights".
one_kind() {
	awk '/^```sql/ { text = ""; next } /^```$/ { if (text ~ /function remind/) print text; text = "" } { text = text $0 "\n" }' \
		store/doc/languages.md >"$work/rights.sql"
	sql -c 'create role web login' -c 'create role other login' -c "select from hwt_make_kind('reminder')"
	sql -f "$work/rights.sql" || echo "exit $?"
	bob=8d4f2c1e-0000-4000-8000-000000000b0b
	sql -U web -c "select 'no id' where remind('{\"call\": \"bob\"}', now() + interval '1 day', '$bob') is null" || echo "exit $?"
	[ "$(sql -c "select convert_from(data, 'UTF8')::jsonb ->> 'call' from hwt_timeout where key = '$bob'")" = bob ] || echo 'its data is something else'
	[ "$(sql -U web -c "select forget('$bob')" -c "select forget('$bob')")" = "cancelled
none" ] || echo 'what was put is not cancelled'
	is_refused web "select hwt_put('reminder')"
	is_refused web "select hwt_put('job')"
	is_refused web 'select hwt_cancel(1)'
	is_refused other "select forget('$bob')"
}

jdbc=/usr/share/java/postgresql.jar
java=
command -v java >/dev/null 2>&1 && command -v javac >/dev/null 2>&1 && [ -e $jdbc ] && listen && java=yes
jobs run -e >"$work/ran" 2>&1 || { cat "$work/ran" && exit 1; } # makes the tables and the kind

language psql '' "$PSQL" -qAtX -f $examples/psql.sql

python=$(python_with psycopg) && [ -n "$python" ] || python=$(python_with psycopg2)
language psycopg "$([ -n "$python" ] || echo psycopg)" "${python:-python3}" $examples/python.py
python=$(python_with asyncpg)
language asyncpg "$([ -n "$python" ] || echo asyncpg)" "${python:-python3}" $examples/python_async.py

language perl "$(quietly perl -MDBD::Pg -e 1 || echo DBD::Pg)" perl $examples/perl.pl
language ruby "$(quietly ruby -e 'require "pg"' || echo ruby-pg)" ruby $examples/ruby.rb
language php "$(quietly php -r 'exit(extension_loaded("pdo_pgsql") ? 0 : 1);' || echo pdo_pgsql)" php $examples/php.php

node=$BUILD/languages
mkdir -p "$node" && cp $examples/package.json $examples/package-lock.json $examples/node.mjs "$node"
[ "${HWT_LANGUAGES:-}" != all ] || (cd "$node" && npm ci --omit=optional --ignore-scripts --no-audit --no-fund --silent) >&2
language node "$({ quietly command -v node && [ -e "$node/node_modules/pg" ]; } || echo 'pg of npm')" node "$node/node.mjs"

GOCACHE=$(cd "$node" && pwd)/go
export GOPATH=/usr/share/gocode GO111MODULE=off GOCACHE GOFLAGS=-p=1
language go "$({ quietly command -v go && [ -d $GOPATH/src/github.com/lib/pq ]; } || echo lib/pq)" go run $examples/postgres.go
language java "$([ -n "$java" ] || echo JDBC)" java -cp $jdbc $examples/Postgres.java "jdbc:postgresql://127.0.0.1:$PGPORT/postgres?user=hwt"

result a_trigger_expires_an_order_and_a_rollback_undoes_it "$(trigger 2>&1)"
result a_role_puts_one_kind_by_a_function_that_names_it "$(one_kind 2>&1)"
finish
