# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# For the test scripts: `. test/result.sh` from the project's root.  They speak TAP, as the programs do: a script ends
# with `finish`, and one that breaks off earlier has failed.
results=0 status=0

# NAME PROBLEMS: prints "ok NAME" when there are none.  Otherwise shows them on standard error, which prove leaves alone,
# and the script will fail.
result() {
	results=$((results + 1))
	if [ -z "$2" ]; then
		echo "ok $results - $1"
	else
		printf '%s\n' "$2" | sed 's/^/# /' >&2
		echo "not ok $results - $1"
		status=1
	fi
}

# NAME WHY: it cannot be had here.
skip() {
	results=$((results + 1))
	echo "ok $results - $1 # SKIP $2"
}

finish() {
	echo "1..$results"
	exit $status
}
