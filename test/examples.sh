#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The small examples do what their comments say.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
. test/result.sh

same() { # NAME WANTED PROGRAM ARGS...: its output
	name=$1
	wanted=$(printf '%b' "$2")
	shift 2
	if ! command -v "$1" >/dev/null; then
		skip "$name" "$1 was not built"
		return
	fi
	result "$name" "$(got=$(timeout 600 "$@" 2>&1) || echo "exit $?"
		[ "$got" = "$wanted" ] || printf 'got: %s\n' "$got")"
}

printf '60 third\n10 first\n30 second\n' >"${TMPDIR:-/tmp}/hwt-lines.$$"
same epoll_prints_in_time 'first\nsecond\nthird\n' sh -c "cat ${TMPDIR:-/tmp}/hwt-lines.$$ | $BUILD/examples/epoll"
rm -f "${TMPDIR:-/tmp}/hwt-lines.$$"
same by_task_counts_what_is_pending "$(sed -n 's/^ \*     \( *[0-9]* pending.*\)/\1\\n/p' examples/by_task.c | tr -d '\n')" "$BUILD/examples/by_task"
same libuv_prints_in_time '100\n200\n400\n' "$BUILD/examples/libuv" 400 100 200
if [ "${SAN:-}" = thread ]; then # GLib's own locks are not built for it
	skip "executor_glib_measures_both" "not under ThreadSanitizer"
elif [ -x "$BUILD/examples/executor_glib" ]; then
	result executor_glib_measures_both "$(timeout 600 "$BUILD/examples/executor_glib" >"${TMPDIR:-/tmp}/hwt-late.$$" ||
		echo "exit $?"
		grep -cE '^on (the worker|a pool) +p50 +[0-9.]+ ms   p99 +[0-9.]+ ms   max +[0-9.]+ ms$' \
			"${TMPDIR:-/tmp}/hwt-late.$$" | grep -vx 2)"
	rm -f "${TMPDIR:-/tmp}/hwt-late.$$"
else
	skip "executor_glib_measures_both" "$BUILD/examples/executor_glib was not built"
fi
# A thread schedules while the loop runs: on a busy machine 400 may be over before 100 is scheduled.
same condvar_loop_prints_all '100\n200\n400\n600\n' sh -c "$BUILD/examples/condvar_loop 600 400 100 200 | sort -n"
same glib_loop_prints_in_time '100\n200\n400\n' "$BUILD/examples/glib_loop" 400 100 200
same glib_loop_repeats_what_a_thread_schedules '5\n5\n5\n' "$BUILD/examples/glib_loop" --repeat=3 --thread 5
same curl_multi_transfers_and_times_out 'ok: 40 transfers\n' "$BUILD/examples/curl_multi" --self-test

same cpp_runs_a_lambda 'a moment later: 42\ncancelled in time\n' "$BUILD/examples/cpp"
same coroutine_tries_until_it_is_stopped 'attempt 1\nattempt 2\nattempt 3\nconnected\nanother one was stopped\n' "$BUILD/examples/coroutine"

last() { # NAME WANTED PROGRAM ARGS...: its last line
	name=$1
	wanted=$2
	shift 2
	result "$name" "$(got=$(timeout 600 "$@" 2>&1) || echo "exit $?"
		printf '%s\n' "$got" | tail -1 | grep -qE "^$wanted\$" || printf 'got: %s\n' "$got")"
}

last backoff_one_attempt_is_enough '100 requests: 100 served, 0 given up after 6 attempts, 0 began early' \
	"$BUILD/examples/backoff" -n 100 -r 0
last backoff_gives_up '100 requests: 0 served, 100 given up after 3 attempts, 0 began early' \
	"$BUILD/examples/backoff" -n 100 -r 100 -a 3 -b 2
last backoff_tries_again '400 requests: [1-9][0-9]* served, [0-9]+ given up after 8 attempts, 0 began early' \
	"$BUILD/examples/backoff" -n 400 -r 70 -a 8 -b 5 -c 100
last rate_limiter_keeps_its_laws 'ok: .*' "$BUILD/examples/rate_limiter" -n 500
last rate_limiter_keeps_them_with_periods 'ok: .*' "$BUILD/examples/rate_limiter" -n 500 -p
limits() { # NAME CONDITION ARGS...: what awk finds of 400 requests in columns 3 granted, 5 timed out, 6 refused
	name=$1
	condition=$2
	shift 2
	result "$name" "$(got=$(timeout 600 "$BUILD/examples/rate_limiter" -k 1 -r 1 -b 5 -n 100 "$@" 2>&1) ||
		echo "exit $?"
		printf '%s\n' "$got" |
			awk "\$1 == \"all\" && \$2 == 400 && $condition { good = 1 } END { exit !good }" ||
			printf 'got: %s\n' "$got")"
}
# shellcheck disable=SC2016 # awk's columns
limits rate_limiter_refuses_where_nobody_may_wait '$3 >= 5 && $5 == 0 && $6 > 0' -q 0
# shellcheck disable=SC2016
limits rate_limiter_lets_wait_and_lose_patience '$3 >= 5 && $5 > 0 && $6 == 0' -q 1000 -w 20

text=$(timeout 600 "$BUILD/examples/stats" -p 1)
result stats_are_prometheus_text "$(echo "$text" | grep -vE \
	'^(# (HELP hwt_[a-z_]+ .+\.|TYPE hwt_[a-z_]+ (counter|gauge|histogram))|hwt_[a-z_]+(\{[a-z]+="[^"]+"\})? [0-9]+)$')"
number() {
	echo "$text" | sed -n "s/^hwt_$1 //p"
}
result stats_add_up "$(accepted=$(number accepted_total)
	ends=$(($(number 'timeouts_total{end="completed"}') + $(number 'timeouts_total{end="cancelled"}') +
		$(number 'timeouts_total{end="returned"}')))
	[ "$accepted" -gt 0 ] && [ "$ends" -eq "$accepted" ] || echo "$accepted accepted, $ends ended")"
finish
