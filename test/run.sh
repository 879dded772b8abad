#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh BUILD PROGRAM...: runs test programs and scripts, as many at once as there are cores, and ends with their sum.
#
# prove(1), which comes with perl, reads their TAP: one that crashes, hangs or breaks off has failed, too.
# HWT_JOBS, HWT_TEST_TIMEOUT (seconds a program): others than usual.
set -u
BUILD=$1
shift
export BUILD
log=$(mktemp)
trap 'rm -f "$log"' EXIT

prove --failures --directives --timer --nocolor --nocount -j "${HWT_JOBS:-$(getconf _NPROCESSORS_ONLN)}" \
	--exec test/exec.sh "$@" | tee "$log"
# A program whose tests passed may have failed: it has a line of its own in the summary.
awk '/^Files=/ { split($2, tests, "[=,]") }
	/\(Wstat: / { failed += $NF + 0 > 0 ? $NF + 0 : 1; among += $NF + 0 }
	/^Result: / { result = $2 }
	END {
		if (result == "FAIL" && !failed || result == "") failed++
		printf "%d passed, %d failed\n", tests[2] - among, failed
		exit failed > 0
	}' "$log"
