#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh BUILD PROGRAM...: runs test programs and scripts, shows what fails, and ends with "N passed, N failed".
#
# Each prints lines "ok NAME", "FAIL NAME" or "skip NAME".  One that ends otherwise than by exit 0, without having named a failure, counts as a
# failure itself, so a crash or a hang is never taken for success.
set -u
BUILD=$1
shift
export BUILD
limit=${HWT_TEST_TIMEOUT:-600}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0

count() {
	grep -c "^$1 " "$log" || true
}

for program in "$@"; do
	began=$(date +%s)
	timeout -k 5 "$limit" "$program" >"$log" 2>&1
	status=$?
	ok=$(count ok) bad=$(count FAIL) skip=$(count skip)
	if [ $status -ne 0 ] && [ "$bad" -eq 0 ]; then
		echo "FAIL $program ended with status $status" >>"$log"
		bad=1
	fi
	if [ "$ok" -eq 0 ] && [ "$bad" -eq 0 ] && [ "$skip" -eq 0 ]; then
		echo "FAIL $program ran no test" >>"$log"
		bad=1
	fi
	printf '%-44s %3d ok %3d failed  %3d s\n' "$program" "$ok" "$bad" $(($(date +%s) - began))
	[ "$bad" -eq 0 ] || sed 's/^/    /' "$log"
	grep '^skip ' "$log"
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
done
[ $skipped -eq 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
