#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# store_pg.sh run COMMAND ARGS...: runs a command in the surroundings of a PostgreSQL server of its own, and ends with its
# status; 77: no server is installed here.
#
# The server listens on a Unix socket alone, trusts whoever can reach that, keeps its data in a new folder, and is gone
# when the command has ended.  The command finds:
#
#     HWT_STORE_PG_URL     a url for hwt_store_open and psql, of the superuser "hwt", database "hwt"
#     HWT_STORE_PG_DATA    the data folder
#     HWT_STORE_PG_BIN     the folder of initdb, pg_ctl and postgres
#     HWT_STORE_PG_CTL     a command that starts, stops or restarts the server: $HWT_STORE_PG_CTL restart -m immediate
#
# postgres refuses to run as root: then it runs as the user "postgres" or, if there is none, "nobody".
set -u
folder=
[ "${1:-}" = run ] && [ $# -ge 2 ] || {
	echo "usage: store_pg.sh run COMMAND ARGS..." >&2
	exit 2
}
shift

find_server() {
	for bin in "${PG_BIN:-}" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin; do
		[ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] && echo "$bin"
	done | sort -t/ -k5 -n | tail -1 | grep . && return
	initdb=$(command -v initdb) && [ -n "$(command -v postgres)" ] && dirname "$initdb"
}

HWT_STORE_PG_BIN=$(find_server) || exit 77
folder=$(mktemp -d "${TMPDIR:-/tmp}/hwt-pg-XXXXXX") || exit 1
HWT_STORE_PG_DATA=$folder/data
user=
if [ "$(id -u)" -eq 0 ]; then
	user=nobody
	if id postgres >/dev/null 2>&1; then user=postgres; fi
	chown "$user" "$folder"
fi

# setpriv comes with util-linux.  No session of its own, so that Ctrl-C reaches all.
as_user() {
	# shellcheck disable=SC2086 # two words or none
	cd "$folder" && ${user:+setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups --} "$@"
}
cat >"$folder/ctl" <<END
#!/bin/sh
cd '$folder' && exec ${user:+setpriv --reuid $user --regid $(id -g "$user") --clear-groups --} \\
	'$HWT_STORE_PG_BIN/pg_ctl' -s -w -t 60 -D '$HWT_STORE_PG_DATA' -l '$folder/log' "\$@"
END
chmod 755 "$folder" "$folder/ctl"
HWT_STORE_PG_CTL=$folder/ctl

finish() {
	status=$?
	trap - EXIT INT TERM
	[ ! -e "$HWT_STORE_PG_DATA/postmaster.pid" ] || "$HWT_STORE_PG_CTL" stop -m immediate >/dev/null 2>&1
	[ $status -eq 0 ] || [ ! -e "$folder/log" ] || [ -z "${HWT_STORE_PG_LOG:-}" ] || cat "$folder/log" >&2
	rm -rf "$folder"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

(as_user "$HWT_STORE_PG_BIN/initdb" -D "$HWT_STORE_PG_DATA" -U hwt --auth=trust --encoding=UTF8 --locale=C --no-sync) \
	>"$folder/initdb" 2>&1 || { cat "$folder/initdb" >&2; exit 1; }
printf "unix_socket_directories = '%s'\nlisten_addresses = ''\n" "$folder" >>"$HWT_STORE_PG_DATA/postgresql.conf"
"$HWT_STORE_PG_CTL" start >"$folder/start" 2>&1 || { cat "$folder/start" "$folder/log" >&2; exit 1; }
"$HWT_STORE_PG_BIN/createdb" -h "$folder" -U hwt hwt || exit 1
HWT_STORE_PG_URL="postgresql://hwt@/hwt?host=$folder"
export HWT_STORE_PG_BIN HWT_STORE_PG_DATA HWT_STORE_PG_URL HWT_STORE_PG_CTL

# In the background, for a trap runs only when a command in front has ended.
"$@" &
command=$!
trap 'kill -TERM $command; wait $command; exit 130' INT
trap 'kill -TERM $command; wait $command; exit 143' TERM
wait $command
