# SPDX-License-Identifier: BSD-2-Clause
# Sourced by a test: it runs once more from the start, with a PostgreSQL of its own around it, if a server is installed.
# shellcheck shell=sh
if [ -z "${HWT_STORE_PG_URL:-}" ]; then
	store/test/store_pg.sh run "$0"
	rc=$?
	[ $rc -eq 77 ] || exit $rc # 77: none is installed
fi
