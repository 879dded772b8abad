#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# store_pg.sh run COMMAND ARGS...: runs a command in the surroundings of a PostgreSQL server of its own (test/postgres.sh),
# and ends with its status; 77: no server is installed here.  The command finds:
#
#     HWT_STORE_PG_URL     a url for hwt_store_open and psql, of a superuser
#     HWT_STORE_PG_BIN     the folder of psql and postgres
#     POSTGRES_CTL         a command that starts, stops or restarts the server: $POSTGRES_CTL restart
set -u
here=$(dirname "$0")
# shellcheck source=test/postgres.sh
. "$here/postgres.sh"
[ "${1:-}" = run ] && [ $# -ge 2 ] || {
	echo "usage: store_pg.sh run COMMAND ARGS..." >&2
	exit 2
}
shift
postgres_find || exit 77
postgres_start >&2 || exit 1
HWT_STORE_PG_BIN=$postgres_bin
HWT_STORE_PG_URL="postgresql://hwt@/postgres?host=$postgres_folder"
export HWT_STORE_PG_BIN HWT_STORE_PG_URL

# In the background, for a trap runs only when a command in front has ended.
"$@" &
command=$!
trap 'kill -TERM $command; wait $command; exit 143' HUP INT TERM
wait $command
