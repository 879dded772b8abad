#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# replica.sh PROGRAM ARGUMENT...: inside of store/test/postgres.sh, runs a program with a second server, a synchronous streaming standby of the first.
#
#     store/test/postgres.sh store/test/replica.sh PROGRAM ARGUMENT...
#
# HWT_STORE_URL then names both hosts and asks for the one that writes; HWT_STANDBY_CTL does for the standby what HWT_POSTGRES_CTL does for the
# primary: `$HWT_POSTGRES_CTL -m immediate stop; $HWT_STANDBY_CTL promote` is a fail-over.
set -u
primary=${HWT_STORE_URL#*host=}
primary=${primary%% *}
standby=$primary/standby

# The primary's own ctl knows which user runs it, and where its programs are.
sed 's|pg_ctl" .*|pg_basebackup" "$@" </dev/null|' "$primary/ctl" >"$primary/basebackup"
sed "s|-D \"$primary/data\"|-D \"$standby/data\"|; s|log.server|log.standby|" "$primary/ctl" >"$primary/ctl.standby"
chmod 755 "$primary/basebackup" "$primary/ctl.standby"
touch "$primary/log.standby"
chown --reference="$primary/log.server" "$primary/log.standby"

"$primary/basebackup" -D "$standby/data" -h "$primary" -U hwt -R -X stream -c fast >"$primary/log" 2>&1 ||
	{ sed 's/^/# /' "$primary/log"; exit 1; }
cat >>"$standby/data/postgresql.conf" <<END
unix_socket_directories = '$standby'
wal_retrieve_retry_interval = 200ms
END
trap '"$primary/ctl.standby" -m immediate stop' EXIT
trap 'exit 129' HUP INT TERM
"$primary/ctl.standby" start || { sed 's/^/# /' "$primary/log.standby"; exit 1; }

# From here on a commit waits until the standby has it.
echo "synchronous_standby_names = '*'" >>"$primary/data/postgresql.conf"
"$primary/ctl" reload || exit 1
HWT_STORE_URL="pg:host=$primary,$standby user=hwt dbname=postgres target_session_attrs=read-write connect_timeout=3"
HWT_STANDBY_CTL=$primary/ctl.standby
export HWT_STORE_URL HWT_STANDBY_CTL
"$@"
