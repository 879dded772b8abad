#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# torture.sh: the torture of store/test/torture.h in each of its worlds, which share the time.
#
#     sqlite              kills, freezes, restarts, locks of users, storms of rules; snapshots that are held, a full disk, copies
#     sqlite_clocks       the same while the wall clock is set by up to an hour, forward and back
#     postgresql          kills ...; sessions terminated, settings of the role, server crashes, and a proxy that cuts, half-closes, holds,
#                         delays and chokes
#     postgresql_clocks   the same with actors whose clocks are hours off and too fast or too slow
#     failover            two servers, synchronous replication: the primary crashes for good and the standby is promoted
#
# HWT_TORTURE_S: seconds in all (600), to which each world adds what it needs to come to its end.  BUILD: the folder; HWT_SEED: to repeat a run as far as a machine can; HWT_WORLDS: only these.  The logs of a world that fails stay.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=test/result.sh
. test/result.sh
program=${BUILD:-build}/test/torture
seed=${HWT_SEED:-$(($(date +%s) % 1000000))}

if [ "${1:-}" = inside ]; then # FOLDER SECONDS WORLD, with a server
	folder=${HWT_STORE_URL#*host=}
	[ "$4" = failover ] || export HWT_STORE_SOCKET="${folder%% *}"
	[ "$4" = postgresql_clocks ] && set -- "$@" -c
	folder=$2 seconds=$3
	shift 4
	exec "$program" -u "$HWT_STORE_URL" -d "$folder" -t "$seconds" -s "$seed" "$@"
fi

worlds=${HWT_WORLDS:-sqlite sqlite_clocks postgresql postgresql_clocks failover}
each=$((${HWT_TORTURE_S:-600} / $(echo "$worlds" | wc -w)))
export HWT_SEED="$seed" HWT_POSTGRES_FSYNC=on
echo "# HWT_SEED=$seed"
for world in $worlds; do
	folder=$(mktemp -d /tmp/hwttorture-XXXXXX)
	limit=$((each + 1800))
	case $world in
	sqlite) timeout $limit "$program" -u "sqlite:$folder/store.db" -d "$folder" -t "$each" -s "$seed" ;;
	sqlite_clocks) timeout $limit "$program" -u "sqlite:$folder/store.db" -d "$folder" -t "$each" -s "$seed" -c ;;
	failover) timeout $limit store/test/postgres.sh store/test/replica.sh "$0" inside "$folder" "$each" "$world" ;;
	*) timeout $limit store/test/postgres.sh "$0" inside "$folder" "$each" "$world" ;;
	esac >"$folder/said" 2>&1
	status=$?
	if grep -q '^1\.\.0 # SKIP' "$folder/said"; then
		skip "$world" "no PostgreSQL server is installed"
		rm -rf "$folder"
	elif [ $status -eq 0 ]; then
		{
			echo "# $world"
			grep '^#' "$folder/said"
		} >&2
		result "$world" ''
		rm -rf "$folder"
	else
		result "$world" "$(cat "$folder/said")
status $status; the logs are in $folder"
	fi
done
finish
