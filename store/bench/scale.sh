#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# scale.sh BUILD [-q] [-e ENGINES] [-s SCENARIOS] [-f FAR] [-h HERD] [-l LIVES] [-p PROCESSES] [-k KINDS] [-o FILE]: the
# scenarios of store/bench/scale.c on SQLite and, if a server is installed, PostgreSQL, with what only the database can
# tell: its size, which rows were read, plans.  -q: small sizes, some seconds.
#
#     far        FAR rows that are due in ten days, and 1000 a second that run meanwhile; then with all of them there:
#                a window read, lateness, rows read for a life, the plan of each statement
#     herd       HERD due at one instant
#     processes  PROCESSES on one database
#     kinds      KINDS of eight shards
#     lives      LIVES, and how large the tables get.  In more than 200 s: the second half may not need 1.5 times the first
#
# FILE, build/bench/scale.csv: engine,scenario,figure,unit,value,load: the load of the machine just before.
# Exit status 1: something was lost, ran twice or early, read more than it needs, or grew.
set -u
export HWT_POSTGRES_FSYNC=on # as users have it: a commit is on the disk
cd "$(dirname "$0")/../.." || exit 1
BUILD=$1
shift
engines='sqlite postgresql' scenarios='far herd processes kinds lives' out=$BUILD/bench/scale.csv
far=10000000 herd=1000000 lives=10000000 processes=16 kinds=64 near=5000 batch=100000 quick=
while getopts qe:s:f:h:l:p:k:o: option; do
	case $option in
	q) far=5000 herd=3000 lives=3000 processes=2 kinds=4 near=500 batch=2000 quick=-q ;;
	e) engines=$OPTARG ;;
	s) scenarios=$OPTARG ;;
	f) far=$OPTARG ;;
	h) herd=$OPTARG ;;
	l) lives=$OPTARG ;;
	p) processes=$OPTARG ;;
	k) kinds=$OPTARG ;;
	o) out=$OPTARG ;;
	*) exit 2 ;;
	esac
done

name='bench-store-scale'
. store/bench/begin.sh
begin "$BUILD" "$@"
sampler=''
# shellcheck disable=SC2317 # of the trap
clean_up() {
	[ -z "$sampler" ] || kill "$sampler" 2>/dev/null
	rm -rf "$folder"
}
trap clean_up EXIT

sql() {
	"$HWT_STORE_PG_BIN/psql" -qAt -F ' ' -d "$HWT_STORE_PG_URL" -c "$1"
}

note() { # SCENARIO: lines FIGURE UNIT VALUE
	while read -r figure unit value; do
		echo "$engine,$1,$figure,$unit,$value,$load" | tee -a "$out"
	done
}

wrong() { # SCENARIO TEXT
	echo "$name: $engine, $1: $2"
	status=1
}

measure() { # SCENARIO PROGRAM'S-SCENARIO ARGS...
	scenario=$1 what=$2
	shift 2
	read -r load _ </proc/loadavg
	if "$bench" -u "$url" -S "$scenario" "$@" "$what" >"$folder/figures" 2>"$folder/errors"; then
		note "$scenario" <"$folder/figures"
	else
		wrong "$scenario" wrong
		head -n 5 "$folder/errors"
	fi
}

# Bytes of the table and of its indexes, or of the file and of its log.
sizes() { # SCENARIO
	case $engine in
	sqlite) stat -c %s "$folder/$1.db" "$folder/$1.db-wal" 2>/dev/null | paste -sd' ' - ;;
	postgresql) sql "select pg_table_size('$1_timeout'), pg_indexes_size('$1_timeout')" ;;
	esac
}

# Scans of all timeouts, and rows and entries of the index that were read.
reads() { # SCENARIO
	sleep 1.5 # sessions tell what they have done once a second
	sql "select t.seq_scan, coalesce(t.idx_tup_fetch, 0), i.idx_tup_read from pg_stat_user_tables t
		join pg_stat_user_indexes i using (relname) where relname = '$1_timeout' and indexrelname = '$1_due'"
}

far() {
	measure far scale_far -n "$far"
	sizes far | awk -v n="$far" '{ print "far_size MB", ($1 + $2) / 1e6; print "far_row bytes", ($1 + $2) / n }' | note far
	[ "$engine" = sqlite ] || before=$(reads far)
	measure far scale_window -n "$near"
	measure far late -n "$near"
	if [ "$engine" = postgresql ]; then
		# shellcheck disable=SC2046,SC2086 # three numbers each
		set -- $before $(reads far)
		echo "$((2 * near)) $*" | awk '{ print "far_scans scans", $5 - $2; print "far_rows_read rows", ($6 - $3) / $1
			print "far_entries_read entries", ($7 - $4) / $1 }' | note far
		# A life is put, found by a look-ahead, begun and ended; each renewal looks at the window once more.
		[ "$4" -eq "$1" ] && [ $(($5 - $2)) -le $((2 * near * 16)) ] || wrong far "reads more than it needs: $*"
	fi
	if [ -x "$BUILD/test/store_plans" ]; then
		HWT_PLANS_URL=$url HWT_PLANS_SCHEMA=far "$BUILD/test/store_plans" many >"$folder/errors" 2>&1 || {
			wrong far 'a plan'
			cat "$folder/errors"
		}
	fi
}

# A line each five seconds.
sample() {
	while sleep 5; do
		sizes lives
	done >"$folder/sizes" 2>/dev/null
}

lives() {
	sample &
	sampler=$!
	measure lives scale_lives -n "$lives" ${quick:+-l 600000} # whose lease is lost runs some twice
	kill $sampler
	wait $sampler 2>/dev/null
	sampler=''
	sizes lives >>"$folder/sizes"
	awk '{ if ($1 > table) table = $1; if ($2 > index_) index_ = $2; last = $1 + $2 }
		END { print "lives_table_max MB", table / 1e6; print "lives_index_max MB", index_ / 1e6; print "lives_size_end MB", last / 1e6 }' \
		"$folder/sizes" | note lives
	awk -v quick="$quick" '{ at[NR] = $1 + $2 }
		END { for (i = 1; i < NR; i++) if (i <= NR / 2) { if (at[i] > first) first = at[i] } else if (at[i] > second) second = at[i]
			if (NR > 40 && quick == "") { print "lives_growth ratio", second / first; exit second > 1.5 * first } }' \
		"$folder/sizes" >"$folder/growth" || wrong lives 'it grows'
	note lives <"$folder/growth"
	[ "$engine" = sqlite ] || sql "select 'lives_vacuums times ' || autovacuum_count from pg_stat_user_tables
		where relname = 'lives_timeout'" | note lives
}

for engine in $engines; do
	for scenario in $scenarios; do
		url=${HWT_STORE_PG_URL:-}
		[ "$engine" = postgresql ] || url=sqlite:$folder/$scenario.db
		case $scenario in
		far) far ;;
		herd) measure herd scale_herd -n "$herd" ;;
		processes) measure processes scale_processes -n "$batch" -P "$processes" ;;
		kinds) measure kinds scale_kinds -n "$batch" -K "$kinds" ;;
		lives) lives ;;
		*) wrong "$scenario" 'no such scenario' ;;
		esac
		rm -f "$folder/$scenario".db*
	done
done
machine
exit $status
