#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# share/gdb/hwt-gdb.py on a live process, and on a core dump of one with a million pending.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
. test/result.sh
CC=${CC:-cc} COUNT=${COUNT:-1000000}
[ -z "${SAN:-}" ] || { skip gdb "a sanitizer"; finish; }
command -v gdb >/dev/null || { skip gdb "no gdb"; finish; }
gdb -q -batch -ex 'python print(1)' 2>/dev/null | grep -q 1 || { skip gdb "a gdb without Python"; finish; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2086 # a compiler may be of several words
$CC -std=c11 -g -O1 -Iinclude -o "$work/program" test/gdb/program.c "$BUILD/libhwt.a" -pthread || exit 1

under_gdb() { # ARGUMENT...: what it says, into $work/said
	timeout 600 gdb -q -batch -nx -iex 'set debuginfod enabled off' "$@" >"$work/said" 2>&1
}
has() { # PATTERN...: lines of it, in this order
	awk 'BEGIN { for (i = 1; i < ARGC; i++) want[i] = ARGV[i]; n = ARGC; ARGC = 1; at = 1 }
		at < n && $0 ~ want[at] { at++ } END { if (at < n) print "missing: " want[at] }' "$@" <"$work/said"
}

spent() { # sets `ms` to the processor time of this script's commands so far; a subshell would have none
	times >"$work/times"
	ms=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); sum += 60 * part[1] + part[2] } }
		END { printf "%d", 1000 * sum }' "$work/times")
}

symbols='source share/gdb/hwt-gdb.py'
under_gdb -ex 'break here' -ex 'run 1000' -ex "$symbols" -ex 'hwt timers' -ex 'hwt by-task' -ex 'hwt pending' -ex 'thread 1' \
	-ex 'frame function main' -ex 'hwt timers driven' -ex 'hwt pending driven' --args "$work/program"
if grep -q 'ptrace: Operation not permitted' "$work/said"; then
	skip gdb "no ptrace here"
	finish
fi
result gdb_shows_the_timers_of_a_live_process "$(has \
	'"expiry": 1007 pending, 1 running, tick 0.100 s on CLOCK_MONOTONIC' \
	' 1000  next at 1000000000.000 s  give_up' ' 7  next at [0-9.]* s  beat' ' 1  next at [0-9.]* s  stop_here' \
	'"expiry": 3 pending, 0 running, tick 0.100 s on a virtual clock' \
	'hwt timeout 0x[0-9a-f]*:[0-9]* pending, due at 5.000 s  beat' 'due at 6.000 s' 'due at 7.000 s')"
result gdb_lists_all_of_a_live_process "$(grep -c '^hwt timeout .* give_up(0)$' "$work/said" | grep -vx 1000
	grep -c '^hwt timeout .* each 60.000 s  beat(0x[0-9a-f]*)$' "$work/said" | grep -vx 7
	grep -c '^hwt timeout .*:[0-9]* running, due at .* stop_here' "$work/said" | grep -vx 1)"

under_gdb -ex 'break here' -ex "run $COUNT" -ex "generate-core-file $work/core" --args "$work/program"
spent
before=$ms
under_gdb -ex "$symbols" -ex 'hwt timers' -ex 'hwt by-task' "$work/program" "$work/core"
spent
took=$((ms - before))
echo "# $took ms of processor time for two looks at a core dump with $COUNT pending"
result gdb_shows_the_timers_of_a_core_dump "$(has "\"expiry\": $((COUNT + 7)) pending, 1 running" \
	"$COUNT  next at 1000000000.000 s  give_up" ' 7  next at [0-9.]* s  beat' ' 1  next at [0-9.]* s  stop_here')"
# Each timeout belongs to one line, and there are no others.
result gdb_counts_each_timeout_of_a_core_dump_once "$(awk '/ next at / { sum += $1; lines++ } END { print sum, lines }' "$work/said" |
	grep -vx "$((COUNT + 8)) 3")"
result gdb_looks_at_a_million_in_ten_seconds "$([ "$took" -gt 0 ] && [ "$took" -lt 10000 ] || echo "$took ms of processor time for $COUNT")"

# As if the compiler had optimised the variables of worker_main away.
under_gdb -ex "$symbols" -ex 'python timer_of_frame = lambda frame: None' -ex 'hwt timers' "$work/program" "$work/core"
result gdb_finds_the_timer_of_a_worker_by_its_tasks "$(has "\"expiry\": $((COUNT + 7)) pending, 1 running"; grep inner "$work/said")"
under_gdb -ex "$symbols" -ex 'hwt timers 5' "$work/program" "$work/core"
result gdb_says_that_a_pointer_is_wrong "$(has 'no hwt_timer at 0x5'; grep -i 'python exception' "$work/said")"

under_gdb -ex "$symbols" -ex 'hwt timers'
result gdb_says_what_is_missing "$(has 'no process, and no core dump|no debug symbols of libhwt')"
finish
