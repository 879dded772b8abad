#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The shape of src/: which room may include which, that files call and include in one direction, who includes Concurrency
# Kit, how long files and functions are, and rules for their calls.
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

# The store's rooms, from the lowest: each includes those before it.  db is beside those above rows.
below=''
for name in base groups rows store window ahead runs share calls; do
	result "the_store_s_room_${name}_includes_only_rooms_below" "$(grep -nHE '^#include "' store/src/$name/*.[ch] |
		grep -vE "#include \"($name$below|sql)/")"
	below="$below|$name"
done
result the_store_s_room_db_includes_only_rooms_below "$(grep -nHE '^#include "' store/src/db/*.[ch] |
	grep -vE '#include "(db|rows|groups|base|sql)/')"
result no_file_of_the_store_is_outside_of_the_rooms "$(ls store/src/*.[ch] store/src/*/*.[ch] 2>/dev/null |
	grep -vE "^store/src/(db$below)/")"

result the_picture_of_the_rooms_shows_what_is_there "$(awk -F, 'NR > 1 { print $1, $7 }' doc/rooms.csv |
	while read -r room files; do
		[ -e "$room" ] || echo "doc/rooms.csv: no $room"
		for file in $files; do
			[ -e "$room/$file.c" ] || [ -e "$room/$file.h" ] || echo "doc/rooms.csv: no $file in $room"
		done
	done 2>&1
	for room in src/*/; do grep -q "^${room%/}," doc/rooms.csv || echo "doc/rooms.csv: ${room%/} is missing"; done)"

# Of pairs "user used" tsort says where they go round in circles.
# A pair for each symbol of one object that another one needs.
calls() { # OBJECT...
	[ -e "$1" ] || { echo "$1 is not built"; return; }
	nm -gA "$@" | awk '{ name = $1; sub(/:.*/, "", name); sub(/.*\//, "", name); sub(/\.o$/, "", name) }
		$2 == "U" { print "U", $3, name } $2 ~ /^[TDBRVW]$/ { print "D", $3, name }' | sort | awk '$1 == "D" { by[$2] = $3 } $1 == "U" && by[$2] && by[$2] != $3 { print $3, by[$2] }' |
		{ tsort >/dev/null; } 2>&1
}
# A pair for each include, where x.c and x.h are one.
includes() { # FILE...
	grep -HE '^#include "' "$@" | sed -E 's|^([^:]*/)?([a-z_]*)\.[chp]+:#include "([^"]*/)?([a-z_]*)\..*|\2 \4|' |
		awk '$1 != $2' | { tsort >/dev/null; } 2>&1
}
result files_call_in_one_direction "$(calls "$BUILD"/lib/*/*.o)"
[ ! -e "$BUILD/libhwt-store.a" ] || result files_of_the_store_call_in_one_direction "$(calls "$BUILD"/store-lib/*/*.o)"
# shellcheck disable=SC2086 # a list of files, here and below
result files_include_in_one_direction "$(includes $core; includes store/src/*/*.[ch])"
[ ! -e "$BUILD/bench/bench" ] || result files_of_the_bench_call_in_one_direction "$(calls "$BUILD"/bench/*.o)"
result files_of_the_bench_include_in_one_direction "$(includes bench/*.[ch] bench/*.cpp)"

# For a reader, not a check: rooms from the lowest up, how many include another one, how many of these a higher one.
shape() { # LIBRARY FOLDER ROOM...
	library=$1 folder=$2 circles=$(includes "$2"/*/*.[ch] | grep -c loop)
	shift 2
	grep -HE '^#include "' "$folder"/*/*.[ch] | sed -nE 's|.*/([a-z]+)/[^/]*:#include "([a-z]+)/.*|\1 \2|p' | sort -u |
		awk -v rooms="$*" -v library="$library" -v circles="$circles" '
			BEGIN { n = split(rooms, list, " "); for (i = 1; i <= n; i++) at[list[i]] = i }
			$1 != $2 && $2 in at { arrows++; up += at[$2] > at[$1] }
			END { printf "# %s: %d rooms, %d arrows between them, %d up; %d circles of files\n", library, n, arrows, up, circles }'
}
shape libhwt src base lane wheel worker timer
shape libhwt-store store/src base groups rows db store window ahead runs share calls

# struct hwt_store says in a comment which files touch a part of it: without one that of its name.  open.c makes them.
touched() { # WHAT FILES...: who else
	what=$1; shift
	grep -nHE "$what" store/src/*/*.c | grep -vE "/($(printf '%s|' "$@")open)\.c:"
}
result each_file_of_the_store_touches_its_own_parts "$(sed -nE '/^struct hwt_store \{/,/^}/s/^\t(struct|pthread)[a-z_ ]* (\**[a-z, *]*);( \/\* ([a-z_.c, ]*) \*\/)?$/\2:\4/p' store/src/store/store.h |
	grep -v '^\*db:' | while IFS=: read -r names files; do
		for name in $(echo "$names" | tr -d '*,'); do
			# shellcheck disable=SC2086 # names of files
			touched "store->$name\\b" ${files:+$(echo "$files" | tr -d , | sed 's/\.c//g')} ${files:-$name}
		done
	done
	touched '\bentry->' window window_in window_due window_life beginner
	touched '\bshard->' shards share share_take share_give ahead found window window_in window_due window_life beginner ender control ruling refill
	touched '\bk(ind)?->begun\b' begun stale register
	touched '\bk(ind)?->turns\b' window window_in window_due window_life beginner begun register stats ruling refill share share_give shards kind)"

# The Makefile takes what is there; CMakeLists.txt and meson.build name it.
misnamed() { # LIST
	named=$(grep -oE 'src/[a-z]+/[a-z_]+\.c' "$1" | sort)
	ls src/timer/*.c src/worker/*.c src/wheel/*.c src/lane/*.c src/base/*.c | grep -vxF "$named" | sed "s/^/$1: no /"
	for file in $named; do [ -e "$file" ] || echo "$1: there is no $file"; done
}
result cmake_builds_the_same_files "$(misnamed CMakeLists.txt)"
result meson_builds_the_same_files "$(misnamed meson.build)"

listed=$(git ls-files 'src/*.c' 'store/src/*.c' 2>/dev/null)
if [ -n "$listed" ]; then
	# shellcheck disable=SC2086
	result each_descriptor_is_closed_when_another_program_is_executed \
		"$(grep -nE '\bfopen\([^)]*"[^"e]*"\)|\b(pipe|inotify_init)\(|\bopen\([^)]*O_[A-Z]+\)' $listed </dev/null |
			grep -v O_CLOEXEC)"
else
	skip each_descriptor_is_closed_when_another_program_is_executed 'git lists no files here'
fi
result one_file_includes_concurrency_kit "$(grep -ln '#include <ck_' $core | grep -v '^src/lane/queue.h$')"

# In the first or the second line.  Where there is no git nothing is looked at.
result every_file_names_its_licence "$(git ls-files '*.[ch]' '*.sh' '*.mk' Makefile 2>/dev/null | xargs awk '
	FNR == 1 { named = /SPDX-License-Identifier: BSD-2-Clause/ }
	FNR == 2 && !named && !/SPDX-License-Identifier: BSD-2-Clause/ { print FILENAME }' /dev/null)"

result every_file_says_what_it_is "$(awk 'FNR == 2 && !/^\/\*/ { print FILENAME }' src/*/*.[ch] store/src/*/*.[ch] test/check/*.[ch] \
	bench/*.[ch] bench/*/*.[ch] store/bench/*.[ch] examples/*.[ch] store/examples/*.[ch] test/*.[ch] store/test/*.[ch])"

# Lines that are comment alone do not count.
result files_have_400_lines_at_most "$(awk 'FNR == 1 { n = inside = 0 }
	inside { if (/\*\//) inside = 0; next }
	/^[ \t]*\/\*/ { if (!/\*\//) inside = 1; if (!/\*\/[ \t]*[^ \t]/) next }
	{ if (++n == 401) print FILENAME }' src/*/*.[ch] store/src/*/*.[ch] store/test/torture*.[ch])"

result lines_have_120_columns_at_most "$(awk '{
		for (n = 0; (at = index($0, "\t")) > 0; $0 = substr($0, at + 1))
			n = n + at - 1 - (n + at - 1) % 8 + 8
		if (n + length($0) > 120) print FILENAME ": " FNR
	}' src/*/*.[ch] store/src/*/*.[ch] include/*.h store/include/*.h test/*.[ch] test/check/*.[ch] store/test/*.[ch])"

# From a line "{" in the first column to the next "}" there.
result functions_fit_a_screen "$(awk 'FNR == 1 { begin = 0 } /^{/ { begin = FNR } /^}/ && begin { if (FNR - begin > 60)
	print FILENAME ": " begin ".." FNR; begin = 0 }' src/*/*.[ch] store/src/*/*.[ch])"

# Every atomic access names its order (style point 8).
# shellcheck disable=SC2086
result atomics_name_their_order "$(grep -nE 'atomic_(load|store|exchange|fetch_[a-z]+|compare_exchange_[a-z]+)\(' $core)"

# test/behaviours.md numbers what the tests with rowN in their names re-create; 38 is a matter of speed.
rows() { sed -n 's/^| \([0-9]*\) .*/\1/p' test/behaviours.md | grep -vx 38; }
tested() { grep -ohE '\brow[0-9]+_' test/*.c test/*.sh | tr -dc '0-9\n' | sed 's/^0*//'; }
result every_behaviour_has_a_test "$(rows | grep -vxF "$(tested)")"
result every_row_is_a_behaviour "$(tested | sort -u | grep -vxF "$(rows)")"

finish
