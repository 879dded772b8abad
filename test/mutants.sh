#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# mutants.sh [WORD...]: can the tests fail?  Plants each fault of the tables (those whose name or file contains a word), one by one, in a
# copy of the tree.  The test that the entry names must fail: by a check, by a crash, or by running for ever.  If it passes, the rest of its
# program and then the other programs of the table are tried.
# mutants.sh --sample SECONDS: a fault for each 5 of the SECONDS, of the sources and tests that the last change touches,
# the same faults each time.  No fault is begun after the SECONDS, which start after the build without a fault.
# HWT_SINCE is the commit before the change.  Without it the change is what was committed in the four hours before the
# last commit: a clone does not know the commit that the trunk had before.
#
# A table stands beside each test: test/unit_lane.faults has the faults that test/unit_lane.c finds, test/sim/sim.faults those of the simulation.
# An entry is one block without an empty line in it, below a comment that says what goes wrong:
#
#     NAME FILE PROGRAM TEST
#     -        a line of FILE
#     +        the line instead
#
# FILE is a path below src/ or store/src/, or an end that only one path has.  TEST is part of the name of the test that
# must fail, "-" for the whole program.
# Several lines beginning with "-" are lines that follow each other; without "+" they are left out.  What "-" shows must stand in FILE exactly once,
# whatever its comments, spaces and line breaks.  If it stands there more often, lines around it that begin with a space, as in a patch, say which
# one is meant.  A fault in two places has a second part below a line "@", or "@ FILE" in another file.
#
# "does not fit" says that the code has moved on: bring the entry up to date together with the code, and delete it only when the fault can no longer
# be made.  "survived" says that the test is blind there.  A bug that was mended is a good entry: the bug itself, backwards.
#
# Some faults no test can see, because nothing promised depends on them.  Do not plant these: a hole that keeps its round (the scan looks at it once
# more), a round cut shorter than need be (it is looked up more often), `free_next` of the last record of a chain (the splice writes it), a lane that
# steals too often.
#
# HWT_JOBS: how many faults at a time (one a core).  HWT_MUTANT_TIMEOUT: seconds for a test (20; a whole program has six times as many), beside ten
# times what its program has taken without a fault, on this machine, as busy as it is.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/plant.sh
limit=${HWT_MUTANT_TIMEOUT:-20} jobs=${HWT_JOBS:-$(nproc)}
seconds=
export HWT_SCALE=${HWT_SCALE:-50} HWT_EACH=1 HWT_FAIL_FAST=1

# The files of the change.
changed() {
	local last
	[ -z "${HWT_SINCE:-}" ] || { git diff --name-only "$HWT_SINCE" HEAD; return; }
	last=$(git log -1 --format=%ct) && git log --since=$((last - 14400)) --format= --name-only | sort -u
}

# The program that finds the fault of the tree in which this runs.  PROGRAM TEST OTHERS...
found_by() {
	local program took=0
	[ ! -e "../took-$1" ] || read -r took <"../took-$1"
	[ "$2" != - ] && fails '' $((limit + 10 * took)) "$1" "$2" && echo "$1 $2" && return
	for program in "$1" "${@:3}"; do
		build '' "$program" && fails '' $((6 * limit + 10 * took)) "$program" && echo "$program -" && return
	done
	return 1
}

# Plants one fault in a copy of the built tree and prints its line.  TREE NAME FILE PROGRAM TEST
judge() {
	local copy=$1-$2 by others
	[ "$(date +%s)" -lt "${HWT_MUTANTS_UNTIL:-$((1 << 60))}" ] || { echo "left out $2"; return; }
	mapfile -t others < <(perl test/mutate.pl faults list | cut -d' ' -f3 | sort -u | grep -vx "$4")
	cp -Rp "$1" "$copy" && cd "$copy" || exit 1
	if ! perl test/mutate.pl faults apply "$2" >log 2>&1; then
		echo "FAIL mutant $2 does not fit: $(cat log)"
	elif ! build '' "$4"; then
		echo "FAIL mutant $2 does not compile: $(grep -m1 error: log)"
	elif ! by=$(found_by "$4" "$5" "${others[@]}"); then
		echo "FAIL mutant $2 of $3 survived"
	elif [ "$by" = "${*:4}" ]; then
		echo "ok mutant $2"
	else
		echo "ok mutant $2, but by ${by% -} instead of ${*:4}"
	fi
	rm -rf "$copy"
}

# Without a fault the program passes, however long that takes, and has these tests, or everything would look found.  TREE PROGRAM TEST...
sound() {
	local test began=$SECONDS words=("${@:3}")
	[[ " ${words[*]} " = *" - "* ]] && words=()
	cd "$1" && log="log-$2" || exit 1
	fails '' 1800 "$2" "${words[@]}" && { echo "FAIL mutants: $2 fails without a fault"; tail -5 "$log"; exit 1; }
	for test in "${@:3}"; do
		[ "$test" = - ] || grep -q "^ok .*$test" "$log" || { echo "FAIL mutants: there is no test $2 $test"; exit 1; }
	done
	echo $((SECONDS - began)) >"../took-$2"
}

if [ "${1:-}" = --sound ]; then
	sound "${@:2}"
	exit
elif [ "${1:-}" = --judge ]; then
	judge "${@:2}"
	exit
fi

if [ "${1:-}" = --sample ]; then
	seconds=${2:-60}
	mapfile -t files < <(changed)
	[ ${#files[@]} -gt 0 ] || { echo "FAIL mutants: git knows no change"; exit 1; }
	set -- sample "${files[@]}"
else
	set -- list "$@"
fi
perl test/mutate.pl faults check && perl test/mutate.pl test/mutants-equivalent.txt check || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
perl test/mutate.pl faults "$@" | if [ -n "$seconds" ]; then head -n $(((seconds + 4) / 5)); else cat; fi >"$work/chosen"
if [ ! -s "$work/chosen" ]; then
	[ -n "$seconds" ] || { echo "FAIL mutants: no such entry"; exit 1; }
	echo "no fault is planted in what the change touches"
	echo "0 passed, 0 failed"
	exit 0
fi
mkdir "$work/tree" && cp -Rp Makefile include src store test "$work/tree" && cd "$work/tree" || exit 1
mapfile -t programs < <(cut -d' ' -f3 "$work/chosen" | sort -u)
MAKEFLAGS=-j$jobs build '' "${programs[@]}" || { echo "FAIL mutants: the tree does not build"; cat log; exit 1; }
for program in "${programs[@]}"; do
	echo "$program $(grep " $program " "$work/chosen" | cut -d" " -f4 | sort -u | paste -sd' ' -)"
done | xargs -P "$jobs" -L 1 test/mutants.sh --sound "$work/tree" || exit 1
[ -z "$seconds" ] || export HWT_MUTANTS_UNTIL=$(($(date +%s) + seconds))
xargs -P "$jobs" -L 1 test/mutants.sh --judge "$work/tree" <"$work/chosen" | tee "$work/result" | grep -v '^left out'
drawn=$(wc -l <"$work/chosen") left=$(grep -c '^left out' "$work/result") passed=$(grep -c '^ok' "$work/result")
failed=$((drawn - left - passed))
sed -n 's/^FAIL mutant \([a-z0-9-]*\).*/alone: test\/mutants.sh \1/p' "$work/result"
[ "$left" -eq 0 ] || echo "$((drawn - left)) of $drawn were tried in the time"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $((passed + left)) -gt 0 ]
