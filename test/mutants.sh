#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# mutants.sh [WORD...]: can the tests fail?  Plants each fault of test/mutants/ (those whose name contains a word) in a copy of the tree and
# demands that every program that its header names ("# caught-by:") fails, by a check, a crash or by running for ever.
#
# HWT_MUTANT_TIMEOUT (seconds a program, 60), HWT_SCALE and HWT_SEED change how long and with which numbers the programs look.
set -u
cd "$(dirname "$0")/.." || exit 1
export HWT_SCALE=${HWT_SCALE:-30} HWT_SEED=${HWT_SEED:-20} HWT_MUTANT_TIMEOUT=${HWT_MUTANT_TIMEOUT:-60}
ulimit -c 0                  # most of them crash
ulimit -v $((8 << 20)) || :  # and some ask for memory without end

programs() { # PATCH...
	sed -n 's/^# caught-by: //p' "$@" | tr ' ' '\n' | sort -u
}

build() { # FOLDER PROGRAM...
	(cd "$1" && shift && make -s BUILD=build OPT=-O1 CC="${CC:-cc}" "${@/#/build/test/}")
}

fails() { # PROGRAM, in the folder of a tree.  The outer redirection: the shell tells of each that was killed.
	! (timeout -k 2 "$HWT_MUTANT_TIMEOUT" "build/test/$1" >"$1.log" 2>&1; exit $?) 2>/dev/null
}

# One patch, in a copy of the built tree.  Prints its line.
judge() { # TREE PATCH
	local tree=$1 patch=$2 name copy survived='' names
	mapfile -t names < <(programs "$patch")
	name=$(basename "$patch" .patch)
	copy=$tree-$name
	cp -Rp "$tree" "$copy"
	if ! patch -d "$copy" -p1 -s -f <"$patch" >"$copy.log" 2>&1; then
		echo "FAIL mutant $name does not apply any more"
	elif ! build "$copy" "${names[@]}" >"$copy.log" 2>&1; then
		echo "FAIL mutant $name does not compile"
		head -5 "$copy.log"
	else
		for program in "${names[@]}"; do
			(cd "$copy" && fails "$program") || survived="$survived $program"
		done
		[ -z "$survived" ] && echo "ok mutant $name" || echo "FAIL mutant $name survived$survived"
	fi
	rm -rf "$copy" "$copy.log"
}

if [ "${1:-}" = --judge ]; then
	judge "$2" "$3"
	exit
fi

patches=()
for patch in test/mutants/*.patch; do
	chosen=$([ $# -eq 0 ] && echo yes)
	for word in "$@"; do
		case $patch in *"$word"*) chosen=yes ;; esac
	done
	[ -n "$chosen" ] && patches+=("$patch")
done
[ ${#patches[@]} -gt 0 ] || { echo "FAIL mutants: no such patch"; exit 1; }

mapfile -t names < <(programs "${patches[@]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
cp -Rp Makefile include src test "$work/tree"
build "$work/tree" "${names[@]}" || { echo "FAIL mutants: the tree does not build"; exit 1; }
for program in "${names[@]}"; do # or everything would look caught
	(cd "$work/tree" && fails "$program") && { echo "FAIL mutants: $program fails without a fault"; tail -5 "$work/tree/$program.log"; exit 1; }
done
printf '%s\n' "${patches[@]}" | xargs -P "$(nproc)" -I '{}' "$0" --judge "$work/tree" '{}' | tee "$work/result"
echo "$(grep -c '^ok' "$work/result") caught, $(grep -c '^FAIL' "$work/result") not"
! grep -q '^FAIL' "$work/result" && [ "$(grep -c '^ok' "$work/result")" -eq ${#patches[@]} ]
