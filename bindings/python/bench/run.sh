#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh [-q] [SCENARIO...]: hwt_store's figures on a PostgreSQL of their own that syncs, and beside APScheduler 3 (job store in
# PostgreSQL), Celery (ETA, Redis) and pg_cron, as far as these are installed.  At most twenty minutes; -q: a smoke run.
#
#     lives    lives a second of one worker on asyncio
#     kills    20 kills of one of three workers: what is lost, and when what the dead one held has started elsewhere
#     rivals   lateness, what a kill loses, lives a second
#     pg_cron  the same of pg_cron, as far as it has them, in five minutes
#
# Debian: python3-apscheduler python3-sqlalchemy python3-psycopg2 python3-celery python3-redis redis-server postgresql-15-cron
set -u
cd "$(dirname "$0")/../../.." || exit 1
BUILD=${BUILD:-build}
here=$PWD/bindings/python
export HWT_POSTGRES_FSYNC=on LD_LIBRARY_PATH="$PWD/$BUILD" PYTHONPATH="$here" PYTHONDONTWRITEBYTECODE=1
exec timeout 1200 store/test/store_pg.sh run /usr/bin/python3 "$here/bench/bench.py" "$@"
