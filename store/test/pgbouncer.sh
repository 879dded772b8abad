#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pgbouncer.sh: through PgBouncer a store works in session mode.  In transaction mode it puts, cancels and reads, leaves no setting behind, and
# cannot be started.
#
# A server and two poolers of our own, on unix sockets.  Skipped where one of them is not installed.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=test/result.sh
. test/result.sh
BUILD=${BUILD:-build}

if [ "${1:-}" = inside ]; then
	server=${HWT_STORE_URL#*host=}
	server=${server%% *}
	as_user=
	owner=$(stat -c %U "$server/data")
	[ "$(id -u)" -ne 0 ] || as_user="setpriv --reuid=$owner --regid=$(id -g "$owner") --clear-groups"
	for mode in session transaction; do
		mkdir "$server/$mode"
		echo '"hwt" ""' >"$server/$mode/users"
		cat >"$server/$mode/ini" <<-END
			[databases]
			postgres = host=$server
			[pgbouncer]
			listen_addr =
			unix_socket_dir = $server/$mode
			auth_type = trust
			auth_file = $server/$mode/users
			pool_mode = $mode
			default_pool_size = 100
			max_client_conn = 200
			logfile = $server/$mode/log
		END
		chown -R "$owner" "$server/$mode" 2>/dev/null
		# shellcheck disable=SC2086 # a command
		$as_user "$pgbouncer" -q "$server/$mode/ini" </dev/null >/dev/null 2>&1 &
		eval "$mode=$!"
	done
	# shellcheck disable=SC2154 # eval sets them
	trap 'kill $session $transaction' EXIT
	for _ in $(seq 3000); do
		[ -S "$server/session/.s.PGSQL.6432" ] && [ -S "$server/transaction/.s.PGSQL.6432" ] && break
		sleep 0.1
	done

	url="host=$server/session port=6432 user=hwt dbname=postgres"
	said=$(HWT_STORE_URL="pg:$url" "$BUILD/test/store_basic" runs given survives cancel 2>&1) ||
		problem=$said
	result session_mode_works "${problem:-}"
	url="host=$server/transaction port=6432 user=hwt dbname=postgres"
	for tests in 'which makes_no_sense by_its_id all_of of_many_only each_ happened_if' 'groups unique replace_and get_copies' \
		'ids rolled_back reserved threads_that_draw' 'sql agree_about rollback wrong_argument in_use'; do
		# shellcheck disable=SC2086 # words of names
		said=$(HWT_STORE_URL="pg:$url" "$BUILD/test/store_"$tests 2>&1) || problem=${problem:-}$said
	done
	result transaction_mode_puts_cancels_and_reads "${problem:-}"
	for setting in enable_seqscan plan_cache_mode lock_timeout statement_timeout idle_in_transaction_session_timeout; do
		for _ in 1 2 3; do psql "$url" -Atc "show $setting"; done
	done >"$server/settings" 2>&1
	result transaction_mode_keeps_no_setting "$(sort "$server/settings" | uniq -c | tr -s ' \n' ' ' | grep -vx ' 9 0 3 auto 3 on ')"
	said=$("$BUILD/examples/jobs" -d "pg:$url" run 2>&1) && said="started: $said"
	result transaction_mode_is_not_started "$(echo "$said" | grep -q 'a pooler in transaction mode.*connect to the server directly' || echo "$said")"
	finish
fi

pgbouncer=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v pgbouncer) || {
	skip session_mode_works "PgBouncer is not installed"
	finish
}
export pgbouncer BUILD
store/test/postgres.sh "$0" inside
