#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The shape of src/: which file may include which, who includes Concurrency Kit, how long files and functions are.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh

# Each header may include those on lines above its own; a source file its own header and all above.
order='base probe
mem thread
clock config tally frame
counter
idle queue timeout
await stack
pool bucket due
lane wheel
levels
cancel move lanes steal job
wheel_hashed wheel_hierarchical demote
worker
run surrender
timer
api launch drive stats format
check_inventory
check_wheel
check'

rank() {
	echo "$order" | awk -v m="$1" '{ for (i = 1; i <= NF; i++) if ($i == m) print NR }'
}

problems=
for file in src/*.[ch]; do
	module=$(basename "$file" | sed 's/\.[ch]$//')
	mine=$(rank "$module")
	[ -n "$mine" ] || problems="$problems
$file: in no layer"
	for included in $(sed -n 's/^#include "\(.*\)\.h"$/\1/p' "$file"); do
		[ "$included" = "$module" ] && continue
		theirs=$(rank "$included")
		[ "${theirs:-99}" -lt "${mine:-0}" ] || problems="$problems
$file includes $included.h, which is not below it"
	done
done
result layers_have_no_circles "$problems"

# The store stands above the timer, of which it knows hwt.h alone: base, engine, then what uses the table of functions
# and, beside it, the engines, which do not know each other.
result the_store_uses_hwt_h_alone "$(for file in src/store/*.[ch]; do
	case $(basename "$file") in
	base.[ch]) may='base.h' ;;
	engine.[ch]) may='base.h engine.h' ;;
	sqlite*) may='engine.h sqlite.h' ;;
	postgres*) may='engine.h postgres.h' ;;
	*) may='engine.h store.h' ;;
	esac
	for included in $(sed -n 's/^#include "\(.*\)"$/\1/p' "$file"); do
		case " $may " in *" $included "*) ;; *) echo "$file includes $included" ;; esac
	done
	grep -nE '^#include <(hwt_|sqlite3|libpq)' "$file" | sed "s|^|$file: |"
done | grep -vE '/base.h: .*hwt_store.h|/sqlite.h: .*sqlite3.h|/postgres.h: .*libpq-fe.h')"

result one_file_includes_concurrency_kit "$(grep -ln '#include <ck_' src/*.[ch] src/store/*.[ch] | grep -v '^src/queue.h$')"

result every_file_names_its_licence "$(for file in $(git ls-files '*.[ch]' '*.sh' Makefile 2>/dev/null); do
	head -2 "$file" | grep -q 'SPDX-License-Identifier: BSD-2-Clause' || echo "$file"; done)"

result files_have_400_lines_at_most "$(wc -l src/*.[ch] src/store/*.[ch] | awk '$2 != "total" && $1 > 400')"

result lines_have_120_columns_at_most "$(for file in src/*.[ch] src/store/*.[ch] include/*.h test/*.[ch]; do
	expand "$file" | awk -v f="$file" 'length($0) > 120 { print f ": " NR }'; done)"

# From a line "{" in the first column to the next "}" there.
result functions_fit_a_screen "$(awk 'FNR == 1 { begin = 0 } /^{/ { begin = FNR } /^}/ && begin { if (FNR - begin > 60)
	print FILENAME ": " begin ".." FNR; begin = 0 }' src/*.[ch] src/store/*.[ch])"

# Every atomic access names its order (style point 8).
result atomics_name_their_order "$(grep -nE 'atomic_(load|store|exchange|fetch_[a-z]+|compare_exchange_[a-z]+)\(' src/*.[ch] src/store/*.[ch])"

# test/behaviours.md numbers what the tests with rowN in their names re-create; 38 is a matter of speed.
rows() { sed -n 's/^| \([0-9]*\) .*/\1/p' test/behaviours.md | grep -vx 38; }
tested() { grep -ohE '\brow[0-9]+_' test/*.c test/*.sh | tr -dc '0-9\n' | sed 's/^0*//'; }
result every_behaviour_has_a_test "$(rows | grep -vxF "$(tested)")"
result every_row_is_a_behaviour "$(tested | sort -u | grep -vxF "$(rows)")"

finish
