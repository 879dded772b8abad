# SPDX-License-Identifier: BSD-2-Clause
"""
Durable timeouts in SQLite or PostgreSQL.

    store = hwt_store.open("postgresql:///app")

    @store.kind("expire", group_limit=3)
    async def expire(run):
        print("order", run.data["order"], "was not paid")

    async def main():
        await store.put("expire", {"order": 17}, delay=timedelta(minutes=30), key="order 17", group="tenant 9")
        await store.run()

What was put survives the death of every process. When a process dies, others take over what it held within its lease (6
seconds) and 2 more. A task runs at least once; give what it calls `run.id` as a token, and twice does no harm.

`open` is for asyncio, `open_threads` for threads; both have the same methods, which Store describes. A store that was
opened before a fork opens again in the child on PostgreSQL; on SQLite its calls raise Invalid there.
"""

from typing import Optional

from ._asyncio import Store
from ._lib import Busy, Error, Exists, Invalid, NotFound, Span, Unavailable, Unknown
from ._run import Run
from ._threads import ThreadStore
from ._values import ANY, Became, Default, Ended, Group, GroupInfo, IfExists, Info, KindInfo, Outcome, Put, Reason
from ._values import State, Stats, Waiting, next_time

__all__ = [
	"ANY",
	"Became",
	"Busy",
	"Ended",
	"Error",
	"Exists",
	"Group",
	"GroupInfo",
	"IfExists",
	"Info",
	"Invalid",
	"KindInfo",
	"NotFound",
	"Outcome",
	"Put",
	"Reason",
	"Run",
	"Span",
	"State",
	"Stats",
	"Store",
	"ThreadStore",
	"Unavailable",
	"Unknown",
	"Waiting",
	"next_time",
	"open",
	"open_threads",
]

for _name in [name for name in vars(ThreadStore) if not name.startswith("_")]:
	if not getattr(ThreadStore, _name).__doc__:
		getattr(ThreadStore, _name).__doc__ = getattr(Store, _name).__doc__


def open(
	url: str,
	*,
	name: Optional[str] = None,
	schema: Optional[str] = None,
	lease: Optional[Span] = None,
	default: Default = None,
) -> Store:
	"""
	Opens a database for a program on asyncio, and makes the tables if there are none.

	url     sqlite:PATH, postgresql://... or pg:key=value ...
	name    of this process, in leases and lists; no two may share one. None: host:pid:random
	schema  the prefix of the tables; None: "hwt"
	lease   for how long this process may be silent before others take over what it holds; None: 6 seconds
	default  what json.dumps calls for data that JSON has not, and has as an argument, too: str is enough for a datetime

	Raises Error and its classes.
	"""
	return Store(url, name=name, schema=schema, lease=lease, default=default)


def open_threads(
	url: str,
	*,
	name: Optional[str] = None,
	schema: Optional[str] = None,
	lease: Optional[Span] = None,
	threads: int = 10,
	default: Default = None,
) -> ThreadStore:
	"""The same for a program of threads: tasks are functions, so many at once, and calls wait for the database."""
	return ThreadStore(url, name=name, schema=schema, lease=lease, threads=threads, default=default)
