#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# scale.sh BUILD [-q] [-e ENGINES] [-s SCENARIOS] [-f FAR] [-h HERD] [-l LIVES] [-p PROCESSES] [-k KINDS] [-t SECONDS] [-o FILE]:
# the scenarios of store/bench/{scale,cliffs,calls,held,fair}.c on SQLite and, if a server is installed, PostgreSQL, with what
# only the database can tell: its size, which rows were read, plans.  -q: small sizes, three minutes; it judges only that
# something ran and nothing was lost.
#
#     far        FAR rows that are due in ten days, and 1000 a second that run meanwhile; then with all of them there:
#                a window read, lateness, rows read for a life, the plan of each statement
#     herd       HERD due at one instant
#     processes  PROCESSES on one database
#     kinds      KINDS of eight shards
#     lives      LIVES, and how large the tables get.  In more than 200 s: the second half may not need 1.5 times the first
#     backlog    rows that are due when a process starts: a matrix of shards, kinds, rows and leases
#     calls      1, 64 and 400 threads and each call
#     once       many that run at most once and are due within a day, taken over
#     puts       puts before and after many far rows were put
#     snapshot   rows die while a user's snapshot is open
#     lock       a user's transaction holds one row that is due; PostgreSQL
#     moved      rows in the window are moved later
#     each       a list of 40,000 rows in many shards
#     join       processes come and go with many shards
#     groups     the promises of groups, each with a verdict; store/bench/fair.c
#     soak       SECONDS, 3600, of 1000 lives a second with a snapshot open; only if SCENARIOS name it; 10 with -q
#
# FILE, build/bench/scale.csv: engine,scenario,figure,unit,value,load: the load of the machine just before.  A scenario has
# its settings in its name: backlog/shards=16/kinds=1.  The same stands in tables at the end.
# Exit status 1: something was lost, ran twice or early, read more than it needs, grew, or nothing ran.
set -u
export HWT_POSTGRES_FSYNC=on # as users have it: a commit is on the disk
cd "$(dirname "$0")/../.." || exit 1
BUILD=$1
shift
engines='sqlite postgresql' out=$BUILD/bench/scale.csv
scenarios='far herd processes kinds lives backlog calls once puts snapshot lock moved each join groups'
far=10000000 herd=1000000 lives=10000000 processes=16 kinds=64 near=5000 batch=100000 quick='' soak=3600 bound=1200
# Of the others.  Of the backlog: shards, kinds, rows, lease in ms; a step of it may take three minutes.
backlogs=$(for rows in 10000 100000; do for lease in 1000 5000; do for of in 16 256 1024; do for many in 1 50 250; do
	echo "$of,$many,$rows,$lease"; done; done; done; done)
callers='1 64 400' once='10000 100000 1000000' puts='100000 1000000' dead='100000 500000' moved='20000 200000'
shards='8 1024' window='10000 100000' listed=40000 long=10 short=2
while getopts qe:s:f:h:l:p:k:t:o: option; do
	case $option in
	q) far=5000 herd=3000 lives=3000 processes=2 kinds=4 near=500 batch=2000 quick=-q soak=10
		backlogs='16,1,10000,1000 1024,1,10000,1000 16,50,10000,1000' callers='1 64' once=5000 puts=5000 dead=10000
		moved=5000 shards=1024 window=5000 listed=4000 long=2 short=1 bound=300
		scenarios="$scenarios soak" ;;
	e) engines=$OPTARG ;;
	s) scenarios=$OPTARG ;;
	f) far=$OPTARG ;;
	h) herd=$OPTARG ;;
	l) lives=$OPTARG ;;
	p) processes=$OPTARG ;;
	k) kinds=$OPTARG ;;
	t) soak=$OPTARG ;;
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

note() { # SCENARIO: lines FIGURE UNIT VALUE; a figure STEP/NAME is one of SCENARIO/STEP
	while read -r figure unit value; do
		case $figure in
		*/*) echo "$engine,$1/${figure%/*},${figure##*/},$unit,$value,$load" ;;
		*) echo "$engine,$1,$figure,$unit,$value,$load" ;;
		esac | tee -a "$out"
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
	timeout "$bound" "$bench" -u "$url" -S "${scenario%%/*}" "$@" "$what" >"$folder/figures" 2>"$folder/errors"
	rc=$?
	note "$scenario" <"$folder/figures"
	[ $rc -ne 0 ] || return 0
	[ $rc -ne 124 ] || echo "not_ended_in s $bound" | note "$scenario"
	wrong "$scenario" wrong
	tail -n 5 "$folder/errors"
}

# Whose rows do not stay for the next one.
cliff() { # SCENARIO PROGRAM'S-SCENARIO ARGS...
	measure "$@"
	case $engine in
	sqlite) rm -f "$folder/${1%%/*}".db* ;;
	postgresql)
		sql "select format('drop table %I cascade;', tablename) from pg_tables where tablename like '${1%%/*}\\_%'" >"$folder/drops"
		"$HWT_STORE_PG_BIN/psql" -q -d "$HWT_STORE_PG_URL" -f "$folder/drops" >/dev/null || wrong "$1" 'its tables stay' ;;
	esac
}

# The table, and its partitions.
tables() { # SCENARIO
	echo "(select '$1_timeout'::regclass::oid id union select inhrelid from pg_inherits where inhparent = '$1_timeout'::regclass)"
}

# Bytes of the table and of its indexes, or of the file and of its log.
sizes() { # SCENARIO
	case $engine in
	sqlite) stat -c %s "$folder/$1.db" "$folder/$1.db-wal" 2>/dev/null | paste -sd' ' - ;;
	postgresql) sql "select sum(pg_table_size(id)), sum(pg_indexes_size(id)) from $(tables "$1") t" ;;
	esac
}

# Scans of all timeouts, and rows and entries of the index that were read.
reads() { # SCENARIO
	sleep 1.5 # sessions tell what they have done once a second
	sql "select sum(t.seq_scan), sum(t.idx_tup_fetch), sum(i.idx_tup_read) from $(tables "$1") x
		join pg_stat_user_tables t on t.relid = x.id join pg_stat_user_indexes i on i.relid = x.id
		where pg_get_indexdef(i.indexrelid) like '%(shard, due_us%'"
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

backlog() {
	for step in $backlogs; do
		IFS=, read -r of many rows lease <<-END
			$step
		END
		cliff "backlog/shards=$of/kinds=$many/rows=$rows/lease=$lease" cliff_backlog -s "$of" -K "$many" -n "$rows" -l "$lease" -T "$long"
	done
}

# What it takes, for each number.
steps() { # SCENARIO OPTION NUMBERS ARGS...
	scenario_=$1 option_=$2 numbers=$3
	shift 3
	for number in $numbers; do
		cliff "$scenario_/$number" "cliff_$scenario_" "$option_" "$number" "$@"
	done
}

# NAME=N: with -q as few as the window's share of a group has to be smaller than.
groups() {
	for step in ${quick:+flood=20000 taken=20000 cancel=20000 pause=20000 crowd=2000 caps=500} ${quick:-flood=1000000 \
		taken=1000000 cancel=500000 pause=200000 crowd=100000 caps=20000}; do
		[ "$step" != -q ] || continue
		cliff "groups/${step%=*}" "group_${step%=*}" -n "${step#*=}" ${quick:+-T 2}
		grep '^bar ' "$folder/errors"
	done
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
		processes) measure processes scale_processes -n "$batch" -P "$processes" ${quick:+-T 2} ;;
		kinds) measure kinds scale_kinds -n "$batch" -K "$kinds" ${quick:+-T 2} ;;
		lives) lives ;;
		backlog) backlog ;;
		calls) steps calls -t "$callers" -T "$short" ;;
		once) steps once -n "$once" -l 1000 ;;
		puts) steps puts -n "$puts" ;;
		snapshot) steps snapshot -n "$dead" -T "$long" ;;
		lock) [ "$engine" = sqlite ] || cliff lock cliff_lock -T "$long" ;;
		moved) steps moved -n "$moved" ;;
		each) steps each -s "$shards" -n "$listed" ;;
		join) for number in $window; do steps join -s "$shards" -n "$number"; done ;;
		groups) groups ;;
		soak) bound=$((soak + 600)) && cliff soak cliff_soak -T "$soak" ;;
		*) wrong "$scenario" 'no such scenario' ;;
		esac
		rm -f "$folder/$scenario".db*
	done
done

store/bench/tables.sh "$out"
echo
machine
exit $status
