#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The shape of src/: which room may include which, that files call and include in one direction, who includes Concurrency
# Kit, how long files and functions are.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
. test/result.sh
core=$(ls src/timer/*.[ch] src/worker/*.[ch] src/wheel/*.[ch] src/lane/*.[ch] src/base/*.[ch])

# A room includes its own files and those of the rooms below it, which the path in the include shows.
room() { # NAME BELOW: other includes
	grep -nHE '^#include "' src/"$1"/*.[ch] | grep -vE "#include \"($1${2:+|$2})/"
}
result rooms_include_only_rooms_below "$(room timer 'worker|wheel|lane|base'
	room worker 'wheel|lane|base'
	room wheel base
	room lane base
	room base '')"
result no_file_is_outside_of_the_rooms "$(ls src/*.[ch] 2>/dev/null)"
result the_store_includes_its_own_files "$(grep -nHE '^#include "[^"]*/' src/store/*.[ch])"

result the_picture_of_the_rooms_shows_what_is_there "$(awk -F, 'NR > 1 { print $1, $7 }' doc/rooms.csv |
	while read -r room files; do
		[ -e "$room" ] || echo "doc/rooms.csv: no $room"
		for file in $files; do
			ls "$room/$file".[ch] >/dev/null 2>&1 || echo "doc/rooms.csv: no $file in $room"
		done
	done 2>&1
	for room in src/*/; do grep -q "^${room%/}," doc/rooms.csv || echo "doc/rooms.csv: ${room%/} is missing"; done |
		grep -v store)"

# Of pairs "user used" tsort says where they go round in circles.
# A pair for each symbol of one object that another one needs.
calls() { # OBJECT...
	[ -e "$1" ] || { echo "$1 is not built"; return; }
	for object in "$@"; do
		nm -g "$object" | awk -v name="$(basename "$object" .o)" '
			$1 == "U" { print "U", $2, name } $2 ~ /^[TDBRVW]$/ { print "D", $3, name }'
	done | sort | awk '$1 == "D" { by[$2] = $3 } $1 == "U" && by[$2] && by[$2] != $3 { print $3, by[$2] }' |
		{ tsort >/dev/null; } 2>&1
}
# A pair for each include, where x.c and x.h are one.
includes() { # FILE...
	grep -HE '^#include "' "$@" | sed -E 's|^([^:]*/)?([a-z_]*)\.[chp]+:#include "([^"]*/)?([a-z_]*)\..*|\2 \4|' |
		awk '$1 != $2' | { tsort >/dev/null; } 2>&1
}
result files_call_in_one_direction "$(calls "$BUILD"/lib/*/*.o)"
# shellcheck disable=SC2086 # a list of files, here and below
result files_include_in_one_direction "$(includes $core; includes src/store/*.[ch])"
[ ! -e "$BUILD/bench/bench" ] || result files_of_the_bench_call_in_one_direction "$(calls "$BUILD"/bench/*.o)"
result files_of_the_bench_include_in_one_direction "$(includes bench/*.[ch] bench/*.cpp)"

# The Makefile takes what is there; CMakeLists.txt names it.
result cmake_builds_the_same_files "$(named=$(grep -oE 'src/[a-z]+/[a-z_]+\.c' CMakeLists.txt | sort)
	for file in src/timer/*.c src/worker/*.c src/wheel/*.c src/lane/*.c src/base/*.c; do
		echo "$named" | grep -qx "$file" || echo "CMakeLists.txt: no $file"
	done
	for file in $named; do [ -e "$file" ] || echo "CMakeLists.txt: there is no $file"; done)"

# shellcheck disable=SC2086
result one_file_includes_concurrency_kit "$(grep -ln '#include <ck_' $core | grep -v '^src/lane/queue.h$')"

result every_file_names_its_licence "$(for file in $(git ls-files '*.[ch]' '*.sh' '*.mk' Makefile 2>/dev/null); do
	head -2 "$file" | grep -q 'SPDX-License-Identifier: BSD-2-Clause' || echo "$file"; done)"

result every_file_says_what_it_is "$(for file in src/*/*.[ch] test/check/*.[ch] bench/*.[ch] bench/*/*.[ch] examples/*.[ch] \
	test/*.[ch] test/store/*.[ch]; do sed -n 2p "$file" | grep -q '^/\*' || echo "$file"; done)"

# Lines that are comment alone do not count.
result files_have_400_lines_at_most "$(awk 'FNR == 1 { n = inside = 0 }
	inside { if (/\*\//) inside = 0; next }
	/^[ \t]*\/\*/ { if (!/\*\//) inside = 1; if (!/\*\/[ \t]*[^ \t]/) next }
	{ if (++n == 401) print FILENAME }' src/*/*.[ch] test/store/*.[ch])"

result lines_have_120_columns_at_most "$(for file in src/*/*.[ch] include/*.h test/*.[ch] test/check/*.[ch] test/store/*.[ch]; do
	expand "$file" | awk -v f="$file" 'length($0) > 120 { print f ": " NR }'; done)"

# From a line "{" in the first column to the next "}" there.
result functions_fit_a_screen "$(awk 'FNR == 1 { begin = 0 } /^{/ { begin = FNR } /^}/ && begin { if (FNR - begin > 60)
	print FILENAME ": " begin ".." FNR; begin = 0 }' src/*/*.[ch])"

# Every atomic access names its order (style point 8).
# shellcheck disable=SC2086
result atomics_name_their_order "$(grep -nE 'atomic_(load|store|exchange|fetch_[a-z]+|compare_exchange_[a-z]+)\(' $core)"

# test/behaviours.md numbers what the tests with rowN in their names re-create; 38 is a matter of speed.
rows() { sed -n 's/^| \([0-9]*\) .*/\1/p' test/behaviours.md | grep -vx 38; }
tested() { grep -ohE '\brow[0-9]+_' test/*.c test/*.sh | tr -dc '0-9\n' | sed 's/^0*//'; }
result every_behaviour_has_a_test "$(rows | grep -vxF "$(tested)")"
result every_row_is_a_behaviour "$(tested | sort -u | grep -vxF "$(rows)")"

finish
