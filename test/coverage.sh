#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Lines and branches of src/ that the tests reach, file by file (by gcovr); fails below 98 % of the lines, and below 95 %
# of those of the store, of which what a killed process has reached does not count.  The checker is left out: half of it
# runs only when something is wrong.  COVERAGE_HTML=dir writes the pages that show which.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
command -v gcovr >/dev/null 2>&1 || { skip coverage "gcovr is not installed"; finish; }
rm -rf build-coverage
# test_soak and test_m* measure memory, and this build has more of it.
programs=$(for file in test/unit_*.c test/test_[!m]*.c; do
	[ "$file" = test/test_soak.c ] || echo "build-coverage/test/$(basename "$file" .c)"; done)
store='' store_runs='' # on both engines, as far as they are there
if pkg-config --exists 'sqlite3 >= 3.35' libpq 2>/dev/null; then
	for file in store/test/store_*.c; do store="$store build-coverage/test/$(basename "$file" .c)"; done
	for program in $store; do store_runs="$store_runs $program postgresql:$program"; done
fi
# HWT_ASSERT's other branch is the one that ends the program: it is not to be taken.
# shellcheck disable=SC2086 # a list of words
make -s CC=gcc BUILD=build-coverage OPT='-O0 -g -DNDEBUG' CFLAGS=--coverage LDFLAGS=--coverage $programs $store || { result coverage_builds "it does not"; finish; }
# Those of the store mostly wait: for databases, leases, processes.  They run beside the others.
# shellcheck disable=SC2086 # a list of words
[ -z "$store" ] || HWT_JOBS=3 HWT_SCALE=10 test/run.sh build-coverage $store_runs \
	>build-coverage/store.log 2>&1 &
for program in $programs; do
	BUILD=build-coverage HWT_SCALE=10 test/exec.sh "$program" >/dev/null 2>&1 ||
		{ result coverage "$program fails"; wait; finish; }
done
wait $! || { result coverage_of_the_store "$(tail -40 build-coverage/store.log)"; finish; }
mkdir -p "${COVERAGE_HTML:-build-coverage/html}"
if gcovr -r . --filter 'src/' --fail-under-line 98 --sort-uncovered -p \
	--html-details "${COVERAGE_HTML:-build-coverage/html}/index.html" build-coverage &&
	gcovr -r . --filter 'src/' -b build-coverage | tail -n +5; then
	result coverage_of_lines_is_98_percent ""
else
	result coverage_of_lines_is_98_percent "it is less, or gcovr failed"
fi
if [ -z "$store" ] || grep -q 'server is not installed' build-coverage/store.log; then
	skip coverage_of_the_store_is_95_percent "SQLite, libpq or a server of PostgreSQL is missing"
elif gcovr -r . --filter 'store/src/' --fail-under-line 95 --sort-uncovered -p \
	--html-details "${COVERAGE_HTML:-build-coverage/html}/store.html" build-coverage/store-unit; then
	result coverage_of_the_store_is_95_percent ""
else
	result coverage_of_the_store_is_95_percent "it is less, or gcovr failed"
fi
finish
