# SPDX-License-Identifier: BSD-2-Clause
from datetime import timedelta

try:
    import psycopg
except ImportError:
    import psycopg2 as psycopg

with psycopg.connect("") as db, db.cursor() as sql:
    put = "select hwt_put('job', %s, delay => %s, key => %s, if_exists => %s)"
    sql.execute(put, ("mail alice", timedelta(minutes=30), "order 17", "error"))
    sql.execute(put, ("mail bob", timedelta(hours=2), "order 17", "replace"))
    timeout = sql.fetchone()[0]
    sql.execute(put, ("mail carol", timedelta(days=1), "order 18", "error"))
    sql.execute("select hwt_cancel_key('job', %s)", ("order 18",))
    print(timeout, sql.fetchone()[0])
