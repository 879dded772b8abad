#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The benches check what they measure: every count adds up and nothing is early.  Small numbers; the figures mean nothing here.
set -u
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if "${BUILD:-build}/bench/bench" -q -r 1 -n 20000 -p 2 -s S1,S1w,S1at,S2,S2w,S3,first >"$log" 2>&1; then
	echo "ok bench_outcomes"
else
	cat "$log"
	echo "FAIL bench_outcomes"
	exit 1
fi
