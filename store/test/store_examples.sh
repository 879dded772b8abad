#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The examples do what their comments say, on SQLite, and on PostgreSQL where a server is installed.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
. test/result.sh
. store/test/with_server.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Once more while another process stands still with the lock: nothing has happened.
jobs() { # ARGS...: on the engine that is tested
	until timeout -k 5 600 "$BUILD/examples/jobs" -d "$url" "$@" 2>"$work/said" && rc=0 || { rc=$? && false; } ||
		! grep -q 'holds its lock, try again' "$work/said"; do :; done
	cat "$work/said" >&2
	return $rc
}

patience=3000 # tenths of a second: only what hangs is waited for so long

wait_for() { # TEXT FILE
	tenths=$patience
	while ! grep -qs -- "$1" "$2" && [ $tenths -gt 0 ]; do
		sleep 0.1
		tenths=$((tenths - 1))
	done
	grep -qs -- "$1" "$2" || echo "no '$1' in $(basename "$2")"
}

left() { # ends with what is left of earlier tests
	jobs list | while read -r id rest; do echo "left: $id $rest"; done
}

# With a lease that is longer than a machine stands still: where it is lost, a job runs twice.
run_jobs() { # ARGS...
	jobs run -l 600 -t 600 "$@"
}

# The first run is ended when two jobs have been printed, one of which came while it ran; the third survives it.
outlive_a_run() {
	jobs add 0 first >"$work/id" || echo "exit $?"
	grep -qxE '[0-9]+' "$work/id" || echo "no number: $(cat "$work/id")"
	jobs add 3600000 third -k third >/dev/null
	: >"$work/out" # what stands there is of another test until the shell behind the & has opened it
	"$BUILD/examples/jobs" -d "$url" run -l 600 -t 600 >"$work/out" 2>&1 &
	run=$!
	wait_for first "$work/out"
	grep -qs first "$work/out" || { echo "while it is not begun:"; jobs list; jobs stats; }
	jobs add 20 second >/dev/null
	wait_for second "$work/out"
	kill -TERM $run
	wait $run || echo "exit $?"
	printf '%s\n' first second 'jobs: 2 ran, 0 failed' | diff - "$work/out"
	jobs list | grep -qE '^[0-9]+ pending 0 [0-9-]+ [0-9:]+ key=third$' || { echo "list:"; jobs list; }
	jobs now || echo "exit $?"
	run_jobs -e >"$work/out" 2>&1 || echo "exit $?"
	printf '%s\n' third 'jobs: 1 ran, 0 failed' | diff - "$work/out"
	left
}

keys_and_cancel() {
	jobs add 3600000 'of alice' -k alice >/dev/null || echo "exit $?"
	jobs add 0 'of alice again' -k alice >"$work/out" 2>&1 && echo "added twice"
	grep -q '^jobs: alice is in use by job [0-9]*$' "$work/out" || cat "$work/out"
	jobs cancel alice || echo "exit $?"
	jobs cancel alice 2>"$work/out" && echo "cancelled twice"
	grep -q '^jobs: alice is done, cancelled, or was never there$' "$work/out" || cat "$work/out"
	id=$(jobs add 3600000 'by number')
	jobs cancel "$id" || echo "exit $?"
	left
}

# Twenty jobs, due now that both have their shards; each is printed once, and each process prints some.
share_work() {
	for i in $(seq 20); do
		jobs add 3600000 "job $i" >/dev/null || echo "exit $?"
	done
	rm -f "$work/of_one" "$work/of_two"
	"$BUILD/examples/jobs" -d "$url" run -l 600 -t 600 -e -m "$work/of_one" >"$work/one" 2>&1 &
	one=$!
	"$BUILD/examples/jobs" -d "$url" run -l 600 -t 600 -e -m "$work/of_two" >"$work/two" 2>&1 &
	two=$!
	wait_for '^hwt_store_shards_held{kind="job"} 4$' "$work/of_one"
	wait_for '^hwt_store_shards_held{kind="job"} 4$' "$work/of_two"
	jobs now || echo "exit $?"
	wait $one || { echo "exit $?"; cat "$work/one"; }
	wait $two || { echo "exit $?"; cat "$work/two"; }
	seq -f 'job %g' 20 | sort >"$work/wanted"
	grep -h '^job ' "$work/one" "$work/two" | sort | diff "$work/wanted" -
	for out in one two; do
		grep -qE '^jobs: [1-9][0-9]* ran, 0 failed$' "$work/$out" || tail -1 "$work/$out"
	done
	left
}

# A dead process's jobs run elsewhere; at least once, so some may be there twice.
survive_a_kill() {
	: >"$work/one"
	: >"$work/two"
	"$BUILD/examples/jobs" -d "$url" run -l 1 -t 600 >"$work/one" 2>&1 &
	one=$!
	"$BUILD/examples/jobs" -d "$url" run -l 1 -t 600 >"$work/two" 2>&1 &
	two=$!
	for i in $(seq 10); do
		jobs add 3000 "job $i" >/dev/null || echo "exit $?"
	done
	kill -KILL $two || echo "nobody to kill"
	wait $two 2>/dev/null
	seq -f 'job %g' 10 | sort >"$work/wanted"
	tenths=$patience
	# What the dead one has printed and not ended is done when nothing is left.
	until [ -z "$(jobs list)" ] || [ $tenths -eq 0 ]; do
		sleep 0.1
		tenths=$((tenths - 1))
	done
	cat "$work/one" "$work/two" | grep '^job ' | sort -u | diff "$work/wanted" -
	kill -TERM $one
	wait $one || echo "exit $?"
	left
}

fail_and_retry() {
	rm -f "$work/flag"
	jobs add 0 "test -e $work/flag && echo \"it is there\"" -k flag >/dev/null
	run_jobs -x -a 1 -e >"$work/out" 2>&1 || echo "exit $?"
	grep -qx 'jobs: 0 ran, 1 failed' "$work/out" || cat "$work/out"
	jobs list | grep -qE '^[0-9]+ failed 1 .* key=flag error=.' || { echo "list:"; jobs list; }
	jobs stats | grep -q '^0 pending .* 0 running, 1 failed' || jobs stats
	jobs now flag 2>/dev/null && echo "a failed one waits"
	touch "$work/flag"
	jobs retry || echo "exit $?"
	run_jobs -x -a 1 -e >"$work/out" 2>&1 || echo "exit $?"
	printf '%s\n' 'it is there' 'jobs: 1 ran, 0 failed' | diff - "$work/out"
	left
}

repeat() {
	jobs add 0 tick -k tick -e 1 >/dev/null
	: >"$work/out"
	"$BUILD/examples/jobs" -d "$url" run -l 600 -t 600 >"$work/out" 2>&1 &
	run=$!
	tenths=$patience
	while [ "$(grep -c tick "$work/out")" -lt 3 ] && [ $tenths -gt 0 ]; do
		sleep 0.1
		tenths=$((tenths - 1))
	done
	kill -TERM $run
	wait $run || echo "exit $?"
	[ "$(grep -c tick "$work/out")" -ge 3 ] || cat "$work/out"
	jobs list | grep -qE '^[0-9]+ pending 0 .* key=tick every=1$' || { echo "list:"; jobs list; }
	jobs cancel tick || echo "exit $?"
	left
}

prometheus() { # that is no such text
	grep -vE '^(# (HELP [a-z_]+ .+\.|TYPE [a-z_]+ (counter|gauge|histogram))|(jobs|hwt_store)_[a-z_]+(\{[^}]+\})? [0-9.]+)$'
}

count_for_prometheus() {
	jobs add 0 due >/dev/null
	jobs add 3600000 later -k later -e 60 >/dev/null
	jobs stats -p >"$work/out" || echo "exit $?"
	prometheus <"$work/out"
	for line in 'jobs_pending 2' 'jobs_due 1' 'jobs_running 0' 'jobs_failed 0' 'jobs_periodic 1'; do
		grep -qx "$line" "$work/out" || echo "not there: $line"
	done
	jobs cancel later || echo "exit $?"
	run_jobs -e -m "$work/metrics" >"$work/out" 2>&1 || cat "$work/out"
	prometheus <"$work/metrics"
	for line in 'hwt_store_done_total{kind="job"} 1' 'hwt_store_lateness_seconds_count{kind="job"} 1'; do
		grep -qx "$line" "$work/metrics" || echo "not there: $line"
	done
	left
}

# In whatever order: on a busy machine a later line may be due as well.
prints() { # NAME WANTED PROGRAM ARGS...
	name=$1
	wanted=$(printf '%b' "$2")
	shift 2
	if [ ! -x "$1" ]; then
		skip "$name" "$1 was not built"
		return
	fi
	result "$name" "$(got=$(printf '300 third\n100 first\n200 second\n' | timeout -k 5 600 "$@" 2>&1) || echo "exit $?"
		[ "$(echo "$got" | sort)" = "$(echo "$wanted" | sort)" ] || printf 'got: %s\n' "$got")"
}

other_examples() { # ENGINE
	[ "$1" != sqlite ] || url=sqlite:$work/others.db
	prints "poll_loop_prints_what_was_read_on_$1" 'first\nsecond\nthird' "$BUILD/examples/poll_loop" "$url"
	prints "uv_loop_answers_all_on_$1" '100 ms\n50 ms\n200 ms\n300 ms' "$BUILD/examples/uv_loop" "$url" 300 100 200 50
	prints "reminders_remind_on_$1" 'to alice: your trial ends tomorrow (attempt 2)\ncarol waits until 2100\nbob was cancelled' \
		"$BUILD/examples/reminders" "$url"
}

has_engine() { # URL
	! "$BUILD/examples/jobs" -d "$1" list 2>&1 | grep -q 'built without the engine'
}

all_of() { # ENGINE
	for test in outlive_a_run keys_and_cancel share_work survive_a_kill fail_and_retry repeat count_for_prometheus; do
		[ "$1" != sqlite ] || url=sqlite:$work/$test.db
		result "jobs_${test}_on_$1" "$($test 2>&1)"
	done
}

if [ ! -x "$BUILD/examples/jobs" ]; then
	skip store_examples "$BUILD/examples/jobs was not built"
	finish
fi
url=sqlite:$work/usage.db
result jobs_says_how_it_is_used "$(for words in '' 'add' 'add x y' 'add 0' 'list x' 'run x' 'cancel' 'dance'; do
	# shellcheck disable=SC2086 # words
	jobs $words >/dev/null 2>"$work/out"
	[ $? -eq 2 ] && [ -s "$work/out" ] || echo "'$words' is accepted"
done)"
if has_engine "$url"; then
	result jobs_says_why_it_cannot_open "$(url=sqlite:$work/nowhere/jobs.db
		jobs list 2>"$work/out" && echo "it can"
		grep -q "^jobs: .*nowhere" "$work/out" || cat "$work/out")"
	all_of sqlite
	other_examples sqlite
	if [ -x "$BUILD/bench/store_bench" ]; then
		result the_bench_at_scale_finds_nothing_wrong "$(store/bench/scale.sh "$BUILD" -q -e sqlite -s lives -o "$work/csv" \
			>"$work/out" 2>&1 || cat "$work/out")"
	fi
else
	skip store_examples_on_sqlite "it was built without"
fi
if [ -z "${HWT_STORE_PG_URL:-}" ]; then
	skip store_examples_on_postgres "no server is installed"
elif has_engine "$HWT_STORE_PG_URL"; then
	url=$HWT_STORE_PG_URL
	all_of postgres
	other_examples postgres
else
	skip store_examples_on_postgres "it was built without"
fi
finish
