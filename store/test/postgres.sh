#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# postgres.sh PROGRAM ARGUMENT...: runs a program with a private PostgreSQL cluster, whose url it finds in HWT_STORE_URL.  HWT_POSTGRES_CTL
# is a command that takes "stop", "start" or "restart".
#
# No test lets a machine fail, so the server does not sync, and keeps a quarter of the usual log; HWT_POSTGRES_FSYNC=on has it as its users do.
# HWT_POSTGRES_PARTITIONED=1: each store has a partitioned table, by the commands of store/doc/partitioning.md.
#
# The server listens on a unix socket alone, belongs to an unprivileged user, and has a short temporary folder, as a socket's path has at most
# 107 bytes.  It is stopped and its folder removed at the end.
set -u

for bin in "$(pg_config --bindir 2>/dev/null)" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/bin /usr/local/bin ''; do
	[ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] && break
done
if [ -z "$bin" ]; then
	echo '1..0 # SKIP the PostgreSQL server is not installed'
	exit 0
fi
user=$(id -un)
if [ "$(id -u)" -eq 0 ]; then # whom the server refuses
	user=nobody
	id postgres >/dev/null 2>&1 && user=postgres
fi
group=$(id -gn "$user")
folder=$(mktemp -d /tmp/hwtpg-XXXXXX) || exit 1
clean_up() {
	[ ! -x "$folder/ctl" ] || "$folder/ctl" -m immediate stop
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 129' HUP INT TERM

as_user=
[ "$(id -u)" -ne 0 ] || as_user="setpriv --reuid=$user --regid=$group --clear-groups"
chown "$user" "$folder" 2>/dev/null
chmod 755 "$folder"
# What initdb makes is kept and copied: to make it takes longer than most of the tests.
made=${BUILD:-build}/postgresql-$("$bin/postgres" --version | tr -dc '0-9.')
if [ -d "$made" ]; then
	cp -R "$made" "$folder/data" && chmod 700 "$folder/data" || exit 1
	[ "$(id -u)" -ne 0 ] || chown -R "$user" "$folder/data"
else
	# shellcheck disable=SC2086 # a command
	LC_ALL=C $as_user "$bin/initdb" -D "$folder/data" -U hwt -A trust -E UTF8 --no-instructions --no-sync >"$folder/log" 2>&1 ||
		{ sed 's/^/# /' "$folder/log"; exit 1; }
	# Others may be at it, too: the first one counts.
	{ cp -R "$folder/data" "$made.$$" && mv -T "$made.$$" "$made"; } 2>/dev/null || rm -rf "$made.$$"
fi
cat >>"$folder/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$folder'
max_connections = 200
fsync = ${HWT_POSTGRES_FSYNC:-off}
END
[ "${HWT_POSTGRES_FSYNC:-off}" = on ] || echo 'max_wal_size = 256MB' >>"$folder/data/postgresql.conf"
cat >"$folder/ctl" <<END
#!/bin/sh
cd /
exec $as_user "$bin/pg_ctl" -s -w -t 600 -D "$folder/data" -l "$folder/log.server" "\$@" </dev/null >/dev/null 2>&1
END
chmod 755 "$folder/ctl"
touch "$folder/log.server"
chown "$user" "$folder/log.server" 2>/dev/null
"$folder/ctl" start || { sed 's/^/# /' "$folder/log.server"; exit 1; }

# A process that takes long to begin has not failed.
HWT_STORE_URL="pg:host=$folder user=hwt dbname=postgres connect_timeout=300"
HWT_POSTGRES_CTL=$folder/ctl
export HWT_STORE_URL HWT_POSTGRES_CTL

# As soon as open has made the last index of the table.
partition() {
	sed -n '/^```sql$/,/^```$/p' "$(dirname "$0")/../doc/partitioning.md" | grep -v '^```\|^BEGIN;$\|^COMMIT;$' >"$folder/commands"
	[ -s "$folder/commands" ] || return
	"$bin/psql" -qX -v ON_ERROR_STOP=1 -d "${HWT_STORE_URL#pg:}" -f - >"$folder/log" 2>&1 <<END
create function partition() returns event_trigger language plpgsql set search_path = public as \$made\$
declare
	prefix text;
begin
	select substr(c.relname, 1, length(c.relname) - 3) into prefix from pg_event_trigger_ddl_commands() d, pg_class c, pg_index i,
		pg_class t where c.oid = d.objid and i.indexrelid = c.oid and t.oid = i.indrelid and t.relkind = 'r' and c.relname like '%\_key'
		and t.relname like '%\_timeout';
	if found then
		execute replace(\$page\$$(cat "$folder/commands")\$page\$, 'hwt_', prefix);
	end if;
end \$made\$;
create event trigger partition on ddl_command_end when tag in ('CREATE INDEX') execute function partition();
END
}
if [ -n "${HWT_POSTGRES_PARTITIONED:-}" ] && ! partition; then
	sed 's/^/# /' "$folder/log"
	exit 1
fi
"$@"
