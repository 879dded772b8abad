#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The single-threaded tests under valgrind: reads of what was never written, and leaks, down to the byte.
set -u
cd "$(dirname "$0")/.." || exit 1
. test/result.sh
BUILD=${BUILD:-build}
command -v valgrind >/dev/null 2>&1 || { skip memcheck "valgrind is not installed"; finish; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for module in ring bucket lane wheel timer; do
	result "memcheck_$module" "$(HWT_SCALE=5 valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=all \
		"$BUILD/test/unit_$module" >"$log" 2>&1 || cat "$log")"
done
finish
