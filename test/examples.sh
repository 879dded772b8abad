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
		echo "skip $name: $1 was not built"
		return
	fi
	result "$name" "$(got=$(timeout 60 "$@" 2>&1) || echo "exit $?"
		[ "$got" = "$wanted" ] || printf 'got: %s\n' "$got")"
}

printf '60 third\n10 first\n30 second\n' >"${TMPDIR:-/tmp}/hwt-lines.$$"
same epoll_prints_in_time 'first\nsecond\nthird\n' sh -c "cat ${TMPDIR:-/tmp}/hwt-lines.$$ | $BUILD/examples/epoll"
rm -f "${TMPDIR:-/tmp}/hwt-lines.$$"
same libuv_prints_in_time '10\n20\n40\n' "$BUILD/examples/libuv" 40 10 20
if [ "${SAN:-}" = thread ]; then # GLib's own locks are not built for it
	echo "skip executor_glib_measures_both: not under ThreadSanitizer"
elif [ -x "$BUILD/examples/executor_glib" ]; then
	result executor_glib_measures_both "$(timeout 60 "$BUILD/examples/executor_glib" >"${TMPDIR:-/tmp}/hwt-late.$$" ||
		echo "exit $?"
		grep -cE '^on (the worker|a pool) +p50 +[0-9.]+ ms   p99 +[0-9.]+ ms   max +[0-9.]+ ms$' \
			"${TMPDIR:-/tmp}/hwt-late.$$" | grep -vx 2)"
	rm -f "${TMPDIR:-/tmp}/hwt-late.$$"
else
	echo "skip executor_glib_measures_both: $BUILD/examples/executor_glib was not built"
fi
same cpp_runs_a_lambda 'a moment later: 42\ncancelled in time\n' "$BUILD/examples/cpp"

text=$(timeout 60 "$BUILD/examples/stats" -p 1)
result stats_are_prometheus_text "$(echo "$text" | grep -vE \
	'^(# (HELP hwt_[a-z_]+ .+\.|TYPE hwt_[a-z_]+ (counter|gauge|histogram))|hwt_[a-z_]+(\{[a-z]+="[^"]+"\})? [0-9]+)$')"
number() {
	echo "$text" | sed -n "s/^hwt_$1 //p"
}
result stats_add_up "$(accepted=$(number accepted_total)
	ends=$(($(number 'timeouts_total{end="completed"}') + $(number 'timeouts_total{end="cancelled"}') +
		$(number 'timeouts_total{end="returned"}')))
	[ "$accepted" -gt 0 ] && [ "$ends" -eq "$accepted" ] || echo "$accepted accepted, $ends ended")"
exit $status
