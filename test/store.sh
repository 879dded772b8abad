#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# store.sh [PROGRAM...]: the tests of the store on SQLite, and on a private PostgreSQL cluster where the server is installed.  Arguments after
# "--" go to the programs.  HWT_STORE_ENGINES="sqlite postgresql" says on which.
#
# The cluster is started on a unix socket alone, by an unprivileged user, in a short temporary folder (a socket's path has at most 107 bytes),
# and stopped and removed at the end.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
ENGINES=${HWT_STORE_ENGINES:-sqlite postgresql}
. test/result.sh
. test/postgres.sh

programs= words=
for argument in "$@"; do
	case $argument in
	--) words=yes ;;
	*) [ -n "$words" ] && words="$words $argument" || programs="$programs $argument" ;;
	esac
done
words=${words#yes}
[ -n "$programs" ] || programs=$(find "$BUILD/test" -name 'store_*' -type f ! -name '*.d' | sort)

run_all() { # ENGINE
	for program in $programs; do
		log=$(mktemp)
		# shellcheck disable=SC2086 # words
		timeout -k 5 "${HWT_TEST_TIMEOUT:-300}" "$program" $words >"$log" 2>&1
		rc=$?
		sed "s/^\(ok\|FAIL\|skip\) /\1 $1: /" "$log"
		if [ $rc -ne 0 ]; then
			status=1
			grep -q '^FAIL ' "$log" || echo "FAIL $1: $program ended with status $rc"
		fi
		rm -f "$log"
	done
}

case $ENGINES in *sqlite*) run_all sqlite ;; esac
case $ENGINES in
*postgresql*)
	if ! postgres_find; then
		echo "skip postgresql: its server is not installed"
	elif postgres_start; then
		HWT_STORE_URL=$POSTGRES_URL
		export HWT_STORE_URL
		run_all postgresql
		postgres_stop
	else
		echo "FAIL postgresql: the cluster did not start"
		status=1
	fi
	;;
esac
exit $status
