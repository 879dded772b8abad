#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Lines and branches of src/ that the tests reach, file by file (by gcovr); fails below 98 % of the lines.  The checker is
# left out: half of it runs only when something is wrong.  COVERAGE_HTML=dir writes the pages that show which.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
command -v gcovr >/dev/null 2>&1 || { skip coverage "gcovr is not installed"; finish; }
rm -rf build-coverage
# test_soak and test_m* measure memory, and this build has more of it.
programs=$(for file in test/unit_*.c test/test_[!m]*.c; do
	[ "$file" = test/test_soak.c ] || echo "build-coverage/test/$(basename "$file" .c)"; done)
# HWT_ASSERT's other branch is the one that ends the program: it is not to be taken.
# shellcheck disable=SC2086 # a list of words
make -s CC=gcc BUILD=build-coverage OPT='-O0 -g -DNDEBUG' CFLAGS=--coverage LDFLAGS=--coverage $programs \
	build-coverage/perturbed/libhwt.so.0 || { result coverage_builds "it does not"; finish; }
for program in $programs; do
	BUILD=build-coverage HWT_TEST_TIMEOUT=300 HWT_SCALE=10 test/exec.sh "perturbed:$program" >/dev/null 2>&1 ||
		{ result coverage "$program fails"; finish; }
done
mkdir -p "${COVERAGE_HTML:-build-coverage/html}"
if gcovr -r . --filter 'src/' --fail-under-line 98 --sort-uncovered -p \
	--html-details "${COVERAGE_HTML:-build-coverage/html}/index.html" build-coverage &&
	gcovr -r . --filter 'src/' -b build-coverage | tail -n +5; then
	result coverage_of_lines_is_98_percent ""
else
	result coverage_of_lines_is_98_percent "it is less, or gcovr failed"
fi
finish
