#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# weak.sh [WORD...]: checks the harnesses of test/weak/ with GenMC, every execution that C11's memory model allows; then each entry of test/weak.txt
# whose name or file contains a WORD, planted in a copy.
#
# GENMC names the program.  Without it the harnesses are only compiled.  HWT_WEAK_MODEL=imm takes the model of what processors do with C11 programs
# instead of C11's own without load buffering (rc11).
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
CC=${CC:-cc}
GENMC=${GENMC:-genmc}

# What optimisation makes of these functions, without what the checker cannot read: vectors, bit tricks, memset.
flags="-O1 -fno-builtin -mllvm -instcombine-max-iterations=0 -fno-unroll-loops -fno-vectorize -fno-slp-vectorize -w"
build="-DHWT_PORTABLE -D_GNU_SOURCE= -Iinclude -Isrc -Itest/weak"
# Of 0.10.3: the cache of instructions confuses the stacks of threads, and two passes make invalid code of these loops, which a third cannot read.  Two reductions refuse
# stores that no thread reads.
options="--${HWT_WEAK_MODEL:-rc11} --disable-estimation --disable-instruction-caching --disable-code-condenser --disable-spin-assume --disable-ipr --disable-sr --disable-loop-jump-threading"

has_executions() {
	grep -q '^Number of complete executions explored: [1-9]' "$log"
}

# HARNESS: leaves what it says in $log; true if there is no error, in one execution at least.
search() {
	# shellcheck disable=SC2086 # lists
	timeout "${HWT_WEAK_TIMEOUT:-3600}" nice "$GENMC" $options -- $flags $build "test/weak/$1.c" >"$log" 2>&1
	grep -q '^No errors were detected' "$log" && has_executions
}

# Prints what $log holds if that is no verdict: an error of the compiler, or a timeout.
no_verdict() {
	grep -q '^\*\*\* Verification \(complete\|unsuccessful\)' "$log" || { echo "no verdict"; tail -3 "$log"; }
	! grep -q '^No errors were detected' "$log" || has_executions || echo "no complete execution"
}

harnesses=$(cd test/weak && ls ./*.c | sed 's,^\./\(.*\)\.c$,\1,')
for name in $harnesses; do
	# shellcheck disable=SC2086 # a list
	result "weak_${name}_compiles" "$($CC -std=c11 -fsyntax-only -Wall -Wextra -Wno-unused-function -Wno-unused-variable -Werror $build \
		"test/weak/$name.c" 2>&1)"
done
result weak_table_fits "$(perl test/mutate.pl test/weak.txt check 2>&1
	perl test/mutate.pl test/weak.txt list | while read -r name _ harness verdict; do
		[ -e "test/weak/$harness.c" ] || echo "$name: no harness $harness"
		case $verdict in seen | unseen) ;; *) echo "$name: $verdict" ;; esac
	done)"
if ! command -v "$GENMC" >/dev/null 2>&1; then
	skip weak "no GenMC: build v0.10.3 of github.com/MPI-SWS/genmc with LLVM 14, some minutes; then make genmc GENMC=its/genmc"
	finish
fi

log=$(mktemp) work=$(mktemp -d)
trap 'rm -rf "$log" "$work"' EXIT
for name in $harnesses; do
	search "$name" && wrong= || wrong=$(no_verdict; grep -m1 -A1 '^Error' "$log")
	result "weak_$name" "$wrong"
	sed -n 's/^Number of complete executions explored: \(.*\)/# \1 executions/p' "$log"
done

perl test/mutate.pl test/weak.txt list "$@" >"$work/list"
while read -r name _ harness verdict; do
	rm -rf "$work/tree" && mkdir "$work/tree" && cp -R include src test "$work/tree" || exit 1
	(cd "$work/tree" && perl test/mutate.pl test/weak.txt apply "$name") || exit 1
	found=$(cd "$work/tree" && if search "$harness"; then echo unseen; else no_verdict; grep -q '^Error' "$log" && echo seen; fi)
	result "weakened_${name}_is_$verdict" "$([ "$found" = "$verdict" ] || echo "$found")"
done <"$work/list"
finish
