# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# To be sourced.  A private PostgreSQL cluster: unix socket alone, an unprivileged user, a folder of its own.
#
#   postgres_find         is a server installed?
#   postgres_start        sets POSTGRES_URL, exports POSTGRES_CTL (a command: start, stop, restart)
#   postgres_stop         and removes it; also at exit

postgres_find() {
	for postgres_bin in "$(pg_config --bindir 2>/dev/null)" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/bin /usr/local/bin; do
		[ -x "$postgres_bin/initdb" ] && [ -x "$postgres_bin/postgres" ] && return 0
	done
	return 1
}

# As somebody who is not root, which the server refuses.
postgres_as() {
	if [ "$(id -u)" -ne 0 ]; then
		"$@"
	elif command -v setpriv >/dev/null 2>&1; then
		setpriv --reuid="$postgres_user" --regid="$(id -g "$postgres_user")" --clear-groups "$@"
	else
		runuser -u "$postgres_user" -- "$@"
	fi
}

postgres_start() {
	postgres_user=$(id -un)
	[ "$(id -u)" -ne 0 ] || { id postgres >/dev/null 2>&1 && postgres_user=postgres || postgres_user=nobody; }
	postgres_folder=$(mktemp -d /tmp/hwtpg-XXXXXX) || return 1
	trap postgres_stop EXIT
	trap 'exit 129' HUP INT TERM
	chown "$postgres_user" "$postgres_folder" 2>/dev/null
	chmod 755 "$postgres_folder"
	LC_ALL=C postgres_as "$postgres_bin/initdb" -D "$postgres_folder/data" -U hwt -A trust -E UTF8 --no-instructions \
		>"$postgres_folder/log" 2>&1 || { cat "$postgres_folder/log"; return 1; }
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$postgres_folder'"
		echo "max_connections = 200"
		echo "log_min_messages = warning"
	} | postgres_as tee -a "$postgres_folder/data/postgresql.conf" >/dev/null
	# The test that restarts the server calls this.
	{
		printf '#!/bin/sh\n'
		printf 'cd / && '
		[ "$(id -u)" -ne 0 ] || printf 'exec setpriv --reuid=%s --regid=%s --clear-groups ' "$postgres_user" \
			"$(id -g "$postgres_user")"
		printf '"%s/pg_ctl" -s -w -m fast -t 60 -D "%s/data" -l "%s/log.server" "$@" </dev/null >/dev/null 2>&1\n' "$postgres_bin" \
			"$postgres_folder" "$postgres_folder"
	} >"$postgres_folder/ctl"
	chmod 755 "$postgres_folder/ctl"
	POSTGRES_CTL=$postgres_folder/ctl
	POSTGRES_URL="pg:host=$postgres_folder user=hwt dbname=postgres"
	export POSTGRES_CTL POSTGRES_URL
	"$POSTGRES_CTL" start || { cat "$postgres_folder/log.server"; return 1; }
}

postgres_stop() {
	[ -n "${postgres_folder:-}" ] || return 0
	"$POSTGRES_CTL" stop 2>/dev/null
	rm -rf "$postgres_folder"
	postgres_folder=
}
