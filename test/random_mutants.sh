#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# random_mutants.sh [FILE...]: faults that nobody chose.  Draws them by HWT_SEED over src/ (or those of its files), plants one at a time in a copy
# of the tree, and runs the tests until one fails.  One that does not compile, or that leaves every object file as it was, does not count.
#
# Each that survives is shown as file:line, with the line and the line instead.  It wants a test, and then a place in test/mutants.txt; or, if it
# changes nothing that matters, a place in test/mutants-equivalent.txt with the reason.
#
# What survives is planted once more in a build with ThreadSanitizer if it is a weakened memory order, which the processor may hide, otherwise with
# those for addresses and undefined behaviour.
#
# HWT_MUTANTS: how many count (100).  HWT_JOBS: how many at a time (one a core).
set -u
cd "$(dirname "$0")/.." || exit 1
. test/plant.sh
count=${HWT_MUTANTS:-100} jobs=${HWT_JOBS:-$(nproc)}
export HWT_SCALE=${HWT_SCALE:-10} TSAN_OPTIONS=halt_on_error=1

names() { # FILE...
	basename -s .c "$@"
}

mapfile -t plain < <(names test/unit_*.c test/test_*.c | grep -vE 'test_(soak|memory)$'; printf 'hierarchical:%s\n' unit_wheel unit_worker unit_oracle)
mapfile -t threads < <(names test/test_stress*.c test/test_stats.c test/unit_{waiters,lane,lanes,kept,reschedule,idle}.c)

# The program that finds the fault of the tree in which this runs.  SANITIZER FIRST: that one first, then all; each has its seconds.
found_by() {
	local seconds program
	while read -r seconds program; do
		if ! build "$1" "$program" || fails "$1" "$seconds" "$program" </dev/null; then
			echo "$program"
			return
		fi
	done < <(grep " $2\$" "../programs$1"; cat "../programs$1")
	return 1
}

# Plants one fault in a copy of the built tree and prints its line.  TREE NAME FILE PROGRAM -
judge() {
	local copy=$1-$2 builds san objects by='' changed=''
	[ "$(grep -cE '^(ok|FAIL)' "$1/../result")" -lt "$count" ] || return
	[[ $2 = order-* ]] && builds=('' thread) || builds=('' 'address,undefined')
	cp -Rp "$1" "$copy" && cd "$copy" || exit 1
	perl test/mutate.pl ../table apply "$2" >log 2>&1 || { echo "FAIL mutant $2 does not fit: $(cat log)"; return; }
	for san in "${builds[@]}"; do
		objects=$(folder "$san")/unit
		make_all "$san" "$(folder "$san")/libhwt-unit.a" || { echo "skip mutant $2 does not compile"; rm -rf "$copy"; return; }
		diff -rq -x '*.d' "$1/$objects" "$objects" >/dev/null && continue
		changed=1
		by=$(found_by "$san" "$4") && break
	done
	if [ -z "$changed" ]; then
		echo "skip mutant $2 changes no code"
	elif [ -n "$by" ]; then
		echo "ok mutant $2 by $by"
	else
		echo "FAIL mutant $2 survived
$(awk -v name="$2 " '/^$/ { shown = 0 } index($0, name) == 1 { print before; shown = 1 } /^[-+]/ && shown; { before = $0 }' ../table)"
	fi
	rm -rf "$copy"
}

if [ "${1:-}" = --judge ]; then
	judge "${@:2}"
	exit
fi

seed=$((${HWT_SEED:-$(date +%s)}))
echo "HWT_SEED=$seed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
perl test/random_mutants.pl "$seed" $((4 * count)) "$@" >"$work/table" && perl test/mutate.pl "$work/table" list >"$work/drawn" || exit 1
mkdir "$work/tree" && cp -Rp Makefile include src store test "$work/tree" && cd "$work/tree" || exit 1
for san in '' thread address,undefined; do
	case $san in
	'') programs=("${plain[@]}") ;;
	thread) programs=("${threads[@]}") ;;
	*) mapfile -t programs < <(awk '$1 < 30 { print $2 }' "$work/programs") ;; # the quick ones
	esac
	MAKEFLAGS=-j$jobs build "$san" "${programs[@]}" || { echo "FAIL mutants: the tree does not build"; cat log; exit 1; }
	for program in "${programs[@]}"; do # one that fails without a fault would find everything
		began=$(date +%s%N)
		if fails "$san" 600 "$program"; then
			echo "# left out: $program, which fails without a fault"
		else # ten times as long, and ten seconds
			echo "$((10 + ($(date +%s%N) - began) / 100000000)) $program" >>"$work/times$san"
		fi
	done
	sort -n "$work/times$san" >"$work/programs$san" # the quick ones come first
	rm -r "$(folder "$san")/test" # each copy has to link them anyway
done
: >"$work/result"
xargs -P "$jobs" -L 1 test/random_mutants.sh --judge "$work/tree" <"$work/drawn" | tee "$work/result"
passed=$(grep -c '^ok' "$work/result") failed=$(grep -c '^FAIL' "$work/result") skipped=$(grep -c '^skip' "$work/result")
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
