# SPDX-License-Identifier: BSD-2-Clause
import asyncio
from datetime import timedelta

import asyncpg


async def main():
    db = await asyncpg.connect()
    put = "select hwt_put('job', $1, delay => $2, key => $3, if_exists => $4)"
    await db.fetchval(put, "mail alice", timedelta(minutes=30), "order 17", "error")
    timeout = await db.fetchval(put, "mail bob", timedelta(hours=2), "order 17", "replace")
    await db.fetchval(put, "mail carol", timedelta(days=1), "order 18", "error")
    print(timeout, await db.fetchval("select hwt_cancel_key('job', $1)", "order 18"))
    await db.close()


asyncio.run(main())
