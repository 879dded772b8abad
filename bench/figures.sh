#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# figures.sh BUILD [COMMAND...]: measures what the pictures of the documents show, into bench/figures.csv: churn (S2) with
# 1, 2, 4 and 8 threads, lateness and CPU time (S4) of 10,000 tasks a second, and the tail of a call (S9) with 2 threads.  COMMAND runs the bench, if given: on a
# machine that is not idle `chrt -f 1` shields S4, which needs little of a core, and nothing shields S2.
set -eu
build=$1
shift
cd "$(dirname "$0")/.."
BENCH_COMMIT=$(git describe --always --dirty 2>/dev/null || echo unknown)
export BENCH_COMMIT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
subjects=hwt,heap,textbook,timerfd,netty,go,libevent,libuv,asio,glib
"$@" "$build/bench/bench" -q -s S2 -p 1,2,4,8 -S "$subjects" -r 3 -c "$work/churn.csv"
"$@" "$build/bench/bench" -q -s S4 -S "$subjects" -n 10000 -r 5 -c "$work/lateness.csv"
"$@" "$build/bench/bench" -s S9 -p 2 -S none,hwt,heap,buckets,netty,libuv -r 5 -c "$work/tail.csv"
{
	head -1 "$work/churn.csv"
	grep -E '^S2,[^,]*,[^,]*,[^,]*,1,Mpairs/s,' "$work/churn.csv"
	grep -E '^S4,[^,]*,[^,]*,[^,]*,1,(p99|CPU ms/s),' "$work/lateness.csv"
	grep -E '^S9,[^,]*,2,[^,]*,1,schedule us' "$work/tail.csv"
} >bench/figures.csv
echo "figures: bench/figures.csv"
