#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The benches check what they measure: every count adds up and nothing is early.  Small numbers; the figures mean nothing
# here.  And a bench that finds something wrong must fail: subjects that are wrong on purpose, and programs that are.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
bench=${BUILD:-build}/bench/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What it printed if it failed, or nothing.
run() {
	"$bench" "$@" >"$work/log" 2>&1 || cat "$work/log"
}

# What is wrong if it did not fail with status 1, saying so.
must_find() {
	said=$1
	shift
	"$bench" -q -r 1 "$@" >"$work/log" 2>&1
	code=$?
	if [ $code -ne 1 ]; then
		echo "status $code, not 1: $*"
	elif ! grep -q "$said" "$work/log"; then
		echo "nothing about '$said': $*"
		cat "$work/log"
	fi
}

result bench_load "$(run -q -r 1 -n 5000 -p 2 -S hwt,floor,heap,textbook,buckets -s S1wat,S2w,S2x,S7)"
result bench_fire "$(run -q -r 1 -n 5000 -S hwt,timerfd,buckets -s S3,S8.S2)"
result bench_tail "$(run -q -r 1 -n 5000 -p 3 -S hwt,none,timerfd,buckets -s S9)"
result bench_loop "$(run -q -r 1 -n 500 -S loop,loop-fd,tree -s loop)"
result bench_steady "$(run -q -r 1 -n 2000 -S hwt -s S6,S6c.rate,S6m)"
result bench_csv "$(run -q -r 1 -n 5000 -p 1 -S hwt,textbook -s S1 -c "$work/some.csv"
	awk -F, 'NR == 1 { columns = NF } NR > 1 && (NF < columns || $7 == "") { print "bad line: " $0 }
		END { if (NR != 21) print NR " lines instead of 21" }' "$work/some.csv" # two subjects, ticks; five figures
	bench/targets.sh "$work/some.csv" 2>&1)"

result bench_finds_lost_ones "$(must_find accepted -n 5000 -p 2 -S broken-lost -s S1w)"
result bench_finds_early_ones "$(must_find 'ran early' -n 5000 -S broken-early -s S3.spread)"
result bench_finds_cancelled_ones_that_run "$(must_find accepted -n 5000 -p 1 -S broken-cancel -s S2)"

# Programs of other languages: each of these outputs is one that must not pass.
cp "$bench" "$work/bench" || exit 1
bench=$work/bench
program() {
	printf '#!/bin/sh\n%s\n' "$1" >"$work/netty-bench" && chmod +x "$work/netty-bench"
}

# What was built when the table of a subject was another one is left out, and not called.
cat >"$work/old.c" <<'END'
static const char *old(void) { return "old"; }
const struct { const char *name, *(*calls[15])(void); } rival = { "glib", { old, old, old, old, old, old, old } };
END
if ${CC:-cc} -shared -fPIC -o "$work/rival_glib.so" "$work/old.c"; then
	result bench_skips_old_rivals "$(run -q -r 1 -n 500 -s loop
		grep -q 'another version' "$work/log" || { echo "it is not said:"; cat "$work/log"; })"
fi

program 'echo outcome 1 2 3 4 5'
result bench_takes_programs "$(run -q -r 1 -n 100 -p 1 -S netty -s S1)"
result bench_finds_wrong_programs "$(program 'echo wrong two ran twice'
	must_find 'two ran twice' -n 100 -p 1 -S netty -s S1
	program 'echo outcome 1 2 3'
	must_find 'figures' -n 100 -p 1 -S netty -s S1
	program 'echo outcome 1 2 x 4 5'
	must_find 'not a figure' -n 100 -p 1 -S netty -s S1
	program 'echo outcome 1 2 3 4 5; exit 3'
	must_find 'status' -n 100 -p 1 -S netty -s S1
	program ''
	must_find 'said nothing' -n 100 -p 1 -S netty -s S1)"
finish
