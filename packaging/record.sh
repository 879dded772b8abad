#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# record.sh FOLDER: the layouts of today, and dumps of a store that today's hwt-jobs has made, on both engines.
# Needs sqlite3 and PostgreSQL's server and tools.
set -eu
cd "$(dirname "$0")/.."
[ -n "${HWT_STORE_URL:-}" ] || exec store/test/postgres.sh "$0" "$@"
at=${HWT_STORE_URL#pg:host=}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$1"
cp test/abi.txt store/test/abi_store.txt "$1/"
for url in "sqlite:$work/made.db" "pg:host=${at%% *} user=hwt dbname=postgres"; do
	"$BUILD/hwt-jobs" -d "$url" put kept text --make --key old --in 1h >"$work/id"
done
sqlite3 "$work/made.db" .dump >"$1/sqlite.sql"
pg_dump -h "${at%% *}" -U hwt --no-owner --no-privileges --inserts postgres | grep -v '^\\\(un\)*restrict ' >"$1/postgresql.sql"
