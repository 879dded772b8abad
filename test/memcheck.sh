#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The single-threaded tests under valgrind: reads of what was never written, and leaks, down to the byte.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
command -v valgrind >/dev/null 2>&1 || { echo "skip memcheck: valgrind is not installed"; exit 0; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
for module in timeout due bucket lane wheel worker; do
	if HWT_SCALE=5 valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=all "$BUILD/test/unit_$module" \
		>"$log" 2>&1; then
		echo "ok memcheck_$module"
	else
		cat "$log"
		echo "FAIL memcheck_$module"
		status=1
	fi
done
exit $status
