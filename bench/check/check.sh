#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# check.sh [--update]: instructions of each operation, against bench/instructions.txt; more than 5 % above it fails.
#
# Counted is what the library's own code executes, inlined headers included: not libc, whose code depends on the
# processor, and not the program that drives it.  So the numbers depend on the compiler alone, and hold for the one that
# the file names.  CFLAGS come last: `CFLAGS='-fPIC -mtls-dialect=gnu2' make bench-check` tells what these cost.
set -u
cd "$(dirname "$0")/../.." || exit 1
file=bench/instructions.txt
build=${BUILD:-build}/bench/check
limit=5
CC=${CC:-cc}
name='gcc __GNUC__\n#ifdef __clang__\nclang __clang_major__\n#endif\n'
# shellcheck disable=SC2059 # the format is all there is
compiler=$("$CC" -dumpmachine | cut -d- -f1)-$(printf "$name" | "$CC" -E -P - | tail -1 | tr ' ' -)

if ! command -v valgrind >/dev/null 2>&1 || ! echo '#include <valgrind/callgrind.h>' | "$CC" -E - >/dev/null 2>&1; then
	echo "skip bench_check: needs valgrind (make bench-deps)"
	exit 77
fi
mkdir -p "$build" && rm -f "$build"/out* || exit 1
# shellcheck disable=SC2086 # flags
"$CC" -std=c11 -O3 -g -pthread -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc ${CFLAGS:-} -o "$build/ops" bench/check/ops.c \
	src/timer/*.c src/worker/*.c src/wheel/*.c src/lane/*.c src/base/*.c ||
	exit 1
if ! valgrind --tool=callgrind --callgrind-out-file="$build/out" --compress-strings=no --compress-pos=no \
	"$build/ops" >"$build/names" 2>"$build/log"; then
	tail -20 "$build/log"
	echo "FAIL bench_check: ops did not run"
	exit 1
fi

# Of a dump: the instructions of lines of the program itself that are not of ops.c.  A line after calls= is what the
# called function cost, which is counted there.
instructions() {
	awk -v program="$(basename "$build")/ops" '
	/^ob=/ { inside = substr($0, length($0) - length(program) + 1) == program; next }
	/^f[lie]=/ { driver = $0 ~ /bench\/check\/ops\.c$/; next }
	/^fn=/ { next }
	/^calls=/ { getline; next }
	/^[0-9+*-]/ && inside && !driver { sum += $2 }
	END { print sum + 0 }' "$1"
}

# Each name occurs twice; the later dump is the one of the steady state.
for dump in "$build"/out.*; do
	name=$(sed -n 's/^desc: Trigger: Client Request: //p' "$dump")
	[ -n "$name" ] && echo "${dump##*.} $name $(instructions "$dump")"
done | sort -n >"$build/sums"
awk -v compiler="$compiler" 'FNR == NR { count[$1] = $2; next }
	{ sum[$2] = $3; if (!($2 in order)) { order[$2] = ++n; name[n] = $2 } }
	END { for (i = 1; i <= n; i++) printf "%s %.1f\n", name[i], sum[name[i]] / count[name[i]] }' \
	"$build/names" "$build/sums" >"$build/now"

if [ "${1:-}" = --update ]; then
	{
		echo "# Instructions an operation, made by bench/check/check.sh --update."
		echo "compiler $compiler"
		cat "$build/now"
	} >"$file"
	cat "$file"
	exit 0
fi
made_with=$(sed -n 's/^compiler //p' "$file" 2>/dev/null)
awk -v limit="$limit" -v same="$([ "$made_with" = "$compiler" ] && echo 1)" '
	FNR == NR { if ($0 !~ /^#/) was[$1] = $2; next }
	{
		change = was[$1] > 0 ? 100 * ($2 / was[$1] - 1) : 0
		bad = same && $1 in was && change > limit && $2 - was[$1] > 1
		printf "%-20s %8.1f  was %8s  %+6.1f %%%s\n", $1, $2, $1 in was ? was[$1] : "-", change,
		       bad ? "  FAIL" : ""
		failed += bad
		seen[$1] = 1
	}
	END {
		for (name in was)
			if (name != "compiler" && !(name in seen) && same) {
				print name " is in the file, and was not measured"
				failed++
			}
		exit failed > 0
	}' "$file" "$build/now"
status=$?
if [ "$made_with" != "$compiler" ]; then
	echo "skip bench_check: $file was made with $made_with, this is $compiler"
	exit 77
fi
if [ $status -eq 0 ]; then
	echo "ok bench_check"
else
	echo "FAIL bench_check: more than $limit % above $file (bench/check/check.sh --update renews it)"
	echo "alone: make bench-check"
fi
exit $status
