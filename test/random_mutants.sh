#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# random_mutants.sh [PATH...]: faults that nobody chose.  Draws them by HWT_SEED, half of them over src/ and half over store/src/ (or equally many
# over each PATH), plants one at a time in a copy of the tree, and runs what `make check` runs of its library until a test fails: first the programs
# that find chosen faults in its file, then a few seeds of what draws, then what is quick.  What survives that has the rest when all have had it: a
# run that is cut short says something of all.  A fault that does not compile, or that leaves every object file as it was, does not count.
#
# Each that survives is shown as file:line, with the line and the line instead.  It wants a test, and then a place in the table beside that test; or, if it
# changes nothing that matters, a place in test/mutants-equivalent.txt with the reason.
#
# What survives is planted once more in a build with ThreadSanitizer if it is a weakened memory order, which the processor may hide, otherwise with
# those for addresses and undefined behaviour.
#
# HWT_MUTANTS: how many count (100).  HWT_JOBS: how many at a time (one a core).  HWT_SANITIZERS: which of the two builds there are.
# HWT_MUTANT_TIMEOUT: as test/mutants.sh has it.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/plant.sh
count=${HWT_MUTANTS:-100} jobs=${HWT_JOBS:-$(nproc)} sanitizers=${HWT_SANITIZERS-thread address,undefined}
limit=$((6 * ${HWT_MUTANT_TIMEOUT:-20}))
long='(hierarchical:)?(sim|store_sim|unit_oracle|unit_interleave|test_stress)'
export HWT_SCALE=${HWT_SCALE:-50} HWT_FAIL_FAST=1 TSAN_OPTIONS=halt_on_error=1 # the scale of `make check`

# What `make check` runs, as far as it judges the code alone; first what the tables of planted faults name most often.  SANITIZER
checked() {
	# shellcheck disable=SC2016 # for make
	make -s SAN="$1" BUILD=b --eval='checked: ; @echo $(RUNS) $(STORE_RUNS)' checked | sed 's,b/test/,,g' | tr ' ' '\n' | grep . >"../programs-$1"
	perl test/mutate.pl faults list | cut -d' ' -f3 | grep -Fxf "../programs-$1" | sort - "../programs-$1" | uniq -c | sort -k1nr,1 |
		awk '{ print $2 }' >"../sorted-$1"
}

# Those that a fault has in a round, in their order.  SANITIZER ROUND FILE FIRST...
programs_for() {
	local all named draws plain quick
	case $3 in
	store/src/db/sqlite*) all=$(grep '^store_' "../sorted-$1" | grep -v sim) ;;
	store/src/db/postgres*) all=$(grep ':store_' "../sorted-$1") ;;
	store/*) all=$(grep store_ "../sorted-$1") ;;
	*) all=$(grep -v store_ "../sorted-$1") ;;
	esac
	named=$(printf '%s\n' "${@:4}" | grep -Fx "$all")
	draws=$(grep -xE "$long" <<<"$all" | grep -v interleave)
	plain=$(grep -vE ':|interleave' <<<"$all")
	quick=$(printf '%s\n' "$named" "$draws" "$plain" | grep . | sed -E "s/^$long\$/few:&/" | awk '!shown[$0]++')
	if [ "$2" = quick ]; then echo "$quick"; else grep -vFx "$quick" <<<"$all"; fi | grep .
}

# SANITIZER SECONDS PROGRAM; few:PROGRAM: a tenth of it.
finds() {
	[[ $3 != few:* ]] || local -x HWT_SCALE=5
	fails "$1" "$2" "${3#few:}" </dev/null
}

# Nothing is found by a program that also fails without a fault.  SANITIZER PROGRAM
sound() {
	local known=../known-$1-$2
	if [ ! -e "$known" ]; then
		(cd ../sound && log=$known.log && if finds "$1" 1800 "$2"; then echo "# $2 fails without a fault"; fi >"$known")
		cat "$known" >&2
	fi
	[ ! -s "$known" ]
}

# What finds the fault of the tree in which this runs.  SANITIZER ROUND FILE FIRST...
found_by() {
	local program programs number=0 seconds=$limit
	[ "$2" = quick ] || seconds=$((15 * limit))
	mapfile -t programs < <(programs_for "$@")
	for program in "${programs[@]}"; do
		((number++ % 8)) || build "$1" "${programs[@]:number-1:8}" || { echo "the compiler"; return; }
		if finds "$1" "$seconds" "$program" && sound "$1" "$program"; then
			echo "$program $(sed -n 's/^not ok [0-9]* - \([a-z0-9_]*\).*/\1/p' log | head -1)"
			return
		fi
	done
	return 1
}

# Plants one fault in a copy of the built tree and prints its line.  TREE ROUND NAME FILE - -
judge() {
	local copy=$1-$3 builds=('') san objects=unit library=libhwt-unit.a by='' changed='' about where round
	[ "$2" = slow ] || [ "$(grep -cE '^(ok|later|FAIL)' "$1/../result")" -lt "$count" ] || return
	about=$(grep -B1 "^$3 " "$1/../table" | head -1)
	where=$(cut -d: -f1,2 <<<"${about#\# }")
	[[ $4 != store/* ]] || { objects=store-unit library=libhwt-store-unit.a; }
	[ "$2" = quick ] || builds=('' "$([[ $3 = order-* ]] && echo thread || echo address,undefined)")
	cp -Rp "$1" "$copy" && cd "$copy" || exit 1
	perl test/mutate.pl ../table apply "$3" >log 2>&1 || { echo "FAIL mutant $3 does not fit: $(cat log)"; return; }
	for san in "${builds[@]}"; do
		[ -e "../sorted-$san" ] || continue
		make_all "$san" "$(folder "$san")/$library" || { echo "skip mutant $3 $where does not compile"; rm -rf "$copy"; return; }
		diff -rq -x '*.d' "$1/$(folder "$san")/$objects" "$(folder "$san")/$objects" >/dev/null && continue
		changed=1 round=$2
		[ -z "$san" ] || round=quick
		# shellcheck disable=SC2086 # a list of words
		by=$(found_by "$san" "$round" "$4" ${about#*;}) && break
	done
	if [ -n "$by" ]; then
		echo "ok mutant $3 $where by ${san:+$san: }$by"
	elif [ "$2" = quick ] && [ -n "$changed$sanitizers" ]; then
		echo "later $3 $4 - -"
	elif [ -z "$changed" ]; then
		echo "skip mutant $3 $where changes no code"
	else
		echo "FAIL mutant $3 $where survived
$(awk -v name="$3 " '/^$/ { shown = 0 } index($0, name) == 1 { shown = 1 } /^[-+]/ && shown' ../table)"
	fi
	rm -rf "$copy"
}

if [ "${1:-}" = --judge ]; then
	judge "${@:2}"
	exit
fi

[ $# -gt 0 ] || set -- src/ store/src/
seed=$((${HWT_SEED:-$(date +%s)}))
echo "HWT_SEED=$seed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
perl test/random_mutants.pl "$seed" $((4 * count)) "$@" >"$work/table" && perl test/mutate.pl "$work/table" list >"$work/drawn" || exit 1
mkdir "$work/tree" && cp -Rp Makefile include src store test "$work/tree" && cd "$work/tree" || exit 1
mapfile -t files < <(cut -d' ' -f2 "$work/drawn" | sort -u)
for san in '' $sanitizers; do
	checked "$san"
	mapfile -t programs < <(for file in "${files[@]}"; do programs_for "$san" quick "$file"; [ -n "$san" ] || programs_for '' slow "$file"; done | sort -u)
	MAKEFLAGS=-j$jobs build "$san" "${programs[@]}" || { echo "FAIL mutants: the tree does not build"; cat log; exit 1; }
	[[ ${programs[*]} != *:store_* ]] || BUILD=$(folder "$san") store/test/postgres.sh true >/dev/null # makes a cluster, which each copy has then
done
cp -Rp . ../sound && find build*/test -type f -executable -delete # each copy has to link them anyway
: >"$work/result"
xargs -P "$jobs" -L 1 test/random_mutants.sh --judge "$work/tree" quick <"$work/drawn" | tee "$work/result"
sed -n 's/^later //p' "$work/result" | xargs -r -P "$jobs" -L 1 test/random_mutants.sh --judge "$work/tree" slow | tee -a "$work/result"
passed=$(grep -c '^ok' "$work/result") failed=$(grep -c '^FAIL' "$work/result") skipped=$(grep -c '^skip' "$work/result")
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
