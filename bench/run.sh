#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh BUILD CSV ARGS...: the bench into a CSV file, then the ratios that the targets are about, then the pictures.
# Interrupted, it goes on with what was measured.
set -u
build=$1
csv=$2
shift 2
cd "$(dirname "$0")/.." || exit 1
BENCH_COMMIT=$(git describe --always --dirty 2>/dev/null || echo unknown)
export BENCH_COMMIT
trap : INT
"$build/bench/bench" -c "$csv" "$@"
status=$?
[ "$status" -eq 2 ] && exit 2
bench/targets.sh "$csv"
bench/plot.sh "$csv"
exit "$status"
