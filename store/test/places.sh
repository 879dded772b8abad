#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# places.sh: the lists of CONTRIBUTING, "To add something to the store".  Names what has been forgotten, and where.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=test/result.sh
. test/result.sh

# WORD FILE...: those of the files that do not have it.
lacking() {
	word=$1
	shift
	grep -LwE "$word" "$@" | sed "s/^/$word: not in /"
}

fields=$(sed -n '/^typedef struct hwt_store_spec {/,/^}/s/^\t\(const char\|const void\|size_t\|int64_t\|unsigned\|int\) \([^;]*\);.*/\2/p' \
	store/include/hwt_store.h | tr -d '* ' | tr , '\n' | grep -vx 'size\|len')
result a_field_of_the_spec_is_everywhere "$([ "$(echo "$fields" | wc -l)" -ge 13 ] || echo "few fields: $fields"
	for field in $fields; do
		lacking "$field" store/src/calls/put.c store/include/hwt_store.hpp bindings/python/hwt_store/_lib.py \
			bindings/python/hwt_store/_values.py store/jobs/change.c store/doc/store.md store/test/abi_store.txt
	done)"

# NAME SCRIPT: the columns of a table.
columns() {
	sed -nE "/^create table (if not exists )?hwt_$1 \(/,/;( +--|$)/s/^  ([a-z_]+) (text|int|integer|bigint|bool|xid8|smallint|bytea|blob)( .*|,|\)|;).*/\1/p" \
		"store/sql/tables_$2.sql" | sort
}
result a_column_of_a_timeout_is_everywhere "$([ "$(columns timeout sqlite | wc -l)" -ge 28 ] || columns timeout sqlite
	[ "$(columns timeout sqlite)" = "$(columns timeout postgresql | grep -vx tx)" ] || echo "the engines have other columns"
	for column in $(columns timeout sqlite); do
		lacking "$column" store/test/sim/tables.h
		cat store/sql/statements/*.sql | grep -qw "$column" || echo "$column: no statement has it"
	done)"
# NAME: the text of a statement or a fragment.
block() {
	sed -n "/^--: \(fragment \)*$1\( \|$\)/,/^$/p" store/sql/statements/*.sql | grep -v '^--'
}
# But for the times, which are not in `each`.
next=$(columns timeout sqlite | sed -n 's/^next_//p' | grep -vx 'due_us\|base_us')
result a_column_that_a_put_sets_is_in_each_list "$([ "$(echo "$next" | wc -l)" -ge 7 ] || echo "few: $next"
	[ "$next" = "$(sed -n 's/^--: each //p' store/sql/statements/fragments.sql | tr -d ' ' | tr , '\n' | sort)" ] ||
		echo "fragments.sql: not each of" $next
	for column in $next; do
		block ALONE_INTO | grep -qw "$column" || echo "$column: not in ALONE_INTO"
		block KEEP_NOW | grep -qw "$column =" || echo "$column: not in KEEP_NOW"
		block KEEP_NEXT | grep -qw "next_$column =" || echo "$column: not in KEEP_NEXT"
		{ block KEPT_ROW; block SAME_LINE; block KEEP_READ; } | grep -qw "its_$column" || echo "$column: not compared by KEEP_READ"
		grep -qE " $column = t.next_$column" store/sql/functions.sql || echo "$column: not taken by hwt_reschedule"
		[ "$(grep -o "[^.]next_$column = " store/sql/functions.sql | wc -l)" -eq \
			"$(grep -o '[^.]next_due_us = ' store/sql/functions.sql | wc -l)" ] || echo "$column: not in each list of functions.sql"
	done)"

result the_page_of_the_tables_is_made_of_the_scripts "$(awk -f store/sql/schema.awk store/sql/tables_postgresql.sql \
	store/sql/tables_sqlite.sql store/doc/schema.md | diff - store/doc/schema.md && [ "$(grep -c '^| `' store/doc/schema.md)" -ge 60 ] ||
	echo "make schema")"

version=$(sed -nE 's/^#define HWTS_VERSION ([0-9]+) .*/\1/p' store/src/rows/engine.h)
result the_version_of_the_tables_is_everywhere "$([ -n "$version" ] || echo 'engine.h has none'
	grep -q "^insert into hwt_meta values (1, $version, " store/sql/tables_postgresql.sql || echo "tables_postgresql.sql: not $version")"

# The simulation is of PostgreSQL, and removes no kind.
statements=$(sed -nE 's/^--: ([A-Z_]+) [a-z].*/\1/p' store/sql/statements/*.sql)
result a_statement_is_everywhere "$([ "$(echo "$statements" | wc -l)" -ge 70 ] || echo "few statements"
	for statement in $statements; do
		for places in 'src/[a-z]*/[a-z]*.[ch]' 'test/*differs*.[ch]' 'test/sim/*.c'; do
			case $statement:$places in
			KIND_REMOVE:test/sim* | KIND_ROWS:test/sim* | KIND_RULES:test/sim* | OTHERS:test/sim*) continue ;;
			esac
			# shellcheck disable=SC2086 # a pattern
			grep -qwE "(HWTS_SQL_)?$statement" store/$places || echo "$statement: nowhere in store/$places"
		done
	done)"

answers=$(sed -nE 's/^HWT_API int (hwt_store_[a-z_]+)\(const hwt_store_run \*run(, .*)?\);/\1/p' store/include/hwt_store.h |
	grep -vxE 'hwt_store_(end|is_mine|begin_on)')
result an_answer_of_a_task_is_everywhere "$([ "$(echo "$answers" | wc -l)" -ge 3 ] || echo "few answers: $answers"
	for answer in $answers; do
		lacking "$answer" store/src/store/run.c store/src/hwt_store.map bindings/python/hwt_store/_lib.py \
			bindings/python/hwt_store/_run.py store/doc/store.md store/test/abi_store.txt packaging/debian/libhwt-store0.symbols
	done)"
finish
