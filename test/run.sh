#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh BUILD PROGRAM...: runs test programs and scripts, three at a time for each core, and ends with their sum: those of
# the store mostly wait for their database.  For each that failed a line says how to see it alone, and for the five longest
# waits which test waited where.
#
# prove(1), which comes with perl, reads their TAP: one that crashes, hangs or breaks off has failed, too.
# HWT_JOBS, HWT_TEST_TIMEOUT (seconds a program): others than usual.
set -u
BUILD=$1
shift
HWT_TAP=$(mktemp -d)
export BUILD HWT_TAP
trap 'rm -rf "$HWT_TAP"' EXIT

prove --failures --directives --timer --nocolor --nocount -j "${HWT_JOBS:-$((3 * $(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)))}" \
	--exec test/exec.sh "$@" | tee "$HWT_TAP/log"

# With the settings, the seed of the first test that failed, where it has one, and the names of all that did.
settings=$(env | sed -n "/^HWT_\(TAP\|JOBS\)=/d; s/^\(HWT_[A-Z_]*\|SAN\|CC\|CXX\)=\(..*\)/\1='\2' /p" | tr -d '\n')
sed -n 's/^\([^ ]*\) *(Wstat: .*/\1/p' "$HWT_TAP/log" | while read -r test; do
	tap=$HWT_TAP/$(echo "$test" | tr / %)
	seed=$(sed '/^not ok/q' "$tap" | sed -n 's/^# .*\(HWT_SEED=\|seed \)\([0-9]*\).*/HWT_SEED=\2 /p' | tail -1)
	echo "alone: BUILD=$BUILD $settings${seed}test/exec.sh $test" \
		"$(sed -n 's/^not ok [0-9]* - \([a-z0-9_]*\).*/\1/p' "$tap" | tr '\n' ' ')"
done
# What waited longest.
grep -H '^# waited ' "$HWT_TAP"/* 2>/dev/null | sed -n 's|^.*/\(.*\):# waited \([0-9.]* s\): |\2 \1 |p' | tr % / | sort -rn | head -5 | sed 's/^/waited /'
# A program whose tests passed may have failed: it has a line of its own in the summary.
awk '/^Files=/ { split($2, tests, "[=,]") }
	/\(Wstat: / { failed += $NF + 0 > 0 ? $NF + 0 : 1; among += $NF + 0 }
	/^Result: / { result = $2 }
	END {
		if (result == "FAIL" && !failed || result == "") failed++
		printf "%d passed, %d failed\n", tests[2] - among, failed
		exit failed > 0
	}' "$HWT_TAP/log"
