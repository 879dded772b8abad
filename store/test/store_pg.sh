#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# store_pg.sh run COMMAND ARGS...: what store/test/postgres.sh does, for commands that need more than a url of the store's own:
# it ends with the command's status, or with 77 when no server is installed.  The command finds:
#
#     HWT_STORE_PG_URL     the url in the form that psql takes, too, of a superuser
#     HWT_STORE_PG_BIN     the folder of psql and postgres
set -u
if [ "${1:-}" = inside ]; then
	shift
	folder=${HWT_STORE_URL#*host=}
	HWT_STORE_PG_URL="postgresql://hwt@/postgres?host=${folder%% *}&connect_timeout=300"
	export HWT_STORE_PG_URL
	unset HWT_STORE_URL
	exec "$@"
fi
[ "${1:-}" = run ] && [ $# -ge 2 ] || {
	echo "usage: store_pg.sh run COMMAND ARGS..." >&2
	exit 2
}
shift
for bin in "$(pg_config --bindir 2>/dev/null)" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/bin /usr/local/bin ''; do
	[ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] && [ -x "$bin/psql" ] && break
done
[ -n "$bin" ] || exit 77
HWT_STORE_PG_BIN=$bin
export HWT_STORE_PG_BIN
exec "$(dirname "$0")/postgres.sh" "$0" inside "$@"
