#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# torture_ha.sh: the torture of store/test/torture.h on a cluster of its own (patroni.sh), whose writing node is killed five times, frozen
# once, and cut off once.
#
# Nothing that was accepted may be lost, and nothing may run twice but as its mode allows: history.pl judges, and says how long nothing ran around
# each fail-over beside the cluster's own time.  Some six minutes.  HWT_SEED: to repeat a run as far as a machine can.  The logs of a run that
# fails stay, those of the cluster among them.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=test/result.sh
. test/result.sh
BUILD=${BUILD:-build}

if [ "${1:-}" = inside ]; then # FOLDER, with a cluster
	exec "$BUILD/test/torture" -u "$HWT_STORE_URL" -d "$2" -t 380 -s "${HWT_SEED:-$(($(date +%s) % 1000000))}"
fi

folder=$(mktemp -d /tmp/hwttorture-XXXXXX)
mkdir "$folder/cluster"
export BUILD HWT_CLUSTER_LOGS="$folder/cluster"
timeout 7200 store/test/patroni.sh "$0" inside "$folder" >"$folder/said" 2>&1
status=$?
if grep '^1\.\.0 # SKIP' "$folder/said"; then
	rm -rf "$folder"
	exit 0
fi
problem=
if [ $status -eq 0 ]; then
	grep '^#' "$folder/said" >&2
	rm -rf "$folder"
else
	problem="$(grep '^#' "$folder/said" || tail -50 "$folder/said")
status $status; the logs are in $folder"
fi
result a_cluster_whose_nodes_fail "$problem"
finish
