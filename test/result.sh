# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh disable=SC2034 # status is read by who includes it
# For the test scripts: `. test/result.sh` from the project's root.
status=0

# NAME PROBLEMS: prints "ok NAME" when there are none; otherwise shows them and makes $status 1.
result() {
	if [ -z "$2" ]; then
		echo "ok $1"
	else
		printf '%s\nFAIL %s\n' "$2" "$1"
		status=1
	fi
}
