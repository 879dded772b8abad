#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh BUILD [-r ROUNDS] [-e ENGINES] [-f FAR] [-s SCENARIOS] [-o FILE]: rounds of store/bench/store_bench on SQLite and,
# if a server is installed, PostgreSQL, without and with FAR rows that are due in ten days; then medians.
#
# Rounds go around all rows, so that a noisy minute strikes all alike.  FILE, build/bench/store.csv, has a line a figure:
# round,engine,far,scenario,figure,unit,value,load: the load of the machine just before, others' work included.
set -u
export HWT_POSTGRES_FSYNC=on # as users have it: a commit is on the disk
cd "$(dirname "$0")/../.." || exit 1
BUILD=$1
shift
rounds=5 engines='sqlite postgres' far='0 1000000' scenarios='lives one sixteen late live idle kill stop sql_late sql_far sql_many' out=$BUILD/bench/store.csv
while getopts r:e:f:s:o: option; do
	case $option in
	r) rounds=$OPTARG ;;
	e) engines=$OPTARG ;;
	f) far=$OPTARG ;;
	s) scenarios=$OPTARG ;;
	o) out=$OPTARG ;;
	*) exit 2 ;;
	esac
done
name='bench-store'
. store/bench/begin.sh
begin "$BUILD" "$@"

# Without far rows each measurement has a store of its own, with them all share the one that was filled.
place() { # ENGINE FAR UNIQUE: sets $url and $schema
	case $1 in
	sqlite)
		schema=hwt url=sqlite:$folder/$3.db
		[ "$2" -eq 0 ] || url=sqlite:$folder/far$2.db ;;
	postgres)
		schema=$3 url=$HWT_STORE_PG_URL
		[ "$2" -eq 0 ] || schema=far ;;
	esac
}

clear_place() { # ENGINE FAR
	[ "$2" -eq 0 ] || return
	case $1 in
	sqlite) rm -f "${url#sqlite:}" "${url#sqlite:}"-* ;;
	postgres)
		"$HWT_STORE_PG_BIN/psql" -qAt -d "$url" -c "SELECT 'DROP TABLE ' || string_agg(quote_ident(tablename), ', ') ||
			' CASCADE' FROM pg_tables WHERE tablename LIKE '$schema\\_%'" |
			"$HWT_STORE_PG_BIN/psql" -q -d "$url" >/dev/null 2>&1 ;;
	esac
}

measure() { # ROUND ENGINE FAR SCENARIO ARGS...
	place "$2" "$3" "$4"
	round=$1 engine=$2 rows=$3 scenario=$4
	shift 3
	read -r load _ </proc/loadavg
	if timeout 400 "$bench" -u "$url" -S "$schema" "$@" >"$folder/figures" 2>"$folder/errors"; then
		while read -r figure unit value; do
			echo "$round,$engine,$rows,$scenario,$figure,$unit,$value,$load" | tee -a "$out"
		done <"$folder/figures"
	else
		echo "bench-store: round $round, $engine, $rows far rows, $scenario: wrong"
		cat "$folder/errors"
		status=1
	fi
	clear_place "$engine" "$rows"
}

for engine in $engines; do
	for rows in $far; do
		[ "$rows" -eq 0 ] || measure 0 "$engine" "$rows" fill -n "$rows"
	done
done
for round in $(seq "$rounds"); do
	case $engines in *sqlite*) measure "$round" sqlite 0 sync ;; esac
	for scenario in $scenarios; do
		for engine in $engines; do
			case $engine,$scenario in sqlite,sql_*) continue ;; esac
			for rows in $far; do
				measure "$round" "$engine" "$rows" "$scenario"
			done
		done
	done
done

echo
store/bench/summary.sh "$out"
echo
machine
exit $status
