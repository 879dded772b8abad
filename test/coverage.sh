#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Lines and branches of src/ that the tests reach, file by file (by gcovr); fails below 98 % of the lines.  The checker is
# left out: half of it runs only when something is wrong.  COVERAGE_HTML=dir writes the pages that show which.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
command -v gcovr >/dev/null 2>&1 || { skip coverage "gcovr is not installed"; finish; }
rm -rf build-coverage
# The tests of the public interface in their perturbed form: linked with the test build, all reach the same objects.
programs=$(for file in test/unit_*.c test/test_[!m]*.c; do
	[ "$file" = test/test_soak.c ] && continue # measures memory, as test_m* do
	echo "build-coverage/test/$(basename "$file" .c | sed 's/^test_/perturbed_/')"; done)
# HWT_ASSERT's other branch is the one that ends the program: it is not to be taken.
# shellcheck disable=SC2086 # a list of words
make -s CC=gcc BUILD=build-coverage OPT='-O0 -g -DNDEBUG' CFLAGS=--coverage LDFLAGS=--coverage $programs ||
	{ result coverage_builds "it does not"; finish; }
for program in $programs; do
	HWT_SCALE=10 timeout 300 "$program" >/dev/null 2>&1 || { result coverage "$program fails"; finish; }
done
mkdir -p "${COVERAGE_HTML:-build-coverage/html}"
if gcovr -r . --filter 'src/' --exclude 'src/check' --fail-under-line 98 --sort-uncovered -p \
	--html-details "${COVERAGE_HTML:-build-coverage/html}/index.html" build-coverage &&
	gcovr -r . --filter 'src/' --exclude 'src/check' -b build-coverage | tail -n +5; then
	result coverage_of_lines_is_98_percent ""
else
	result coverage_of_lines_is_98_percent "it is less, or gcovr failed"
fi
finish
