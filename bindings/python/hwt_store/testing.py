# SPDX-License-Identifier: BSD-2-Clause
"""
For tests of programs: a store that is gone when the test ends, and a worker that runs what is due now.

    def test_an_order_expires(tmp_path):
        with hwt_store.open_threads(testing.url(tmp_path)) as store:
            store.kind("expire")(expire)
            store.put("expire", {"order": 17}, delay=1800)
            store.reschedule_all("expire")          # now, not in half an hour
            assert testing.run_due(store) == 1
"""

import asyncio
import os
import threading
import time
from datetime import datetime, timezone
from typing import Any, List, Union

from ._asyncio import Store
from ._threads import ThreadStore
from ._values import Info, State


def url(folder: Union[str, "os.PathLike[str]"]) -> str:
	"""Of a store in a file of this folder, which may be temporary: pytest's tmp_path, or tempfile.mkdtemp()."""
	return f"sqlite:{os.path.join(os.fspath(folder), 'timeouts.db')}"


def _is_due(info: Info, until: datetime) -> bool:
	return info.state is State.RUNNING or (info.due is not None and info.due <= until)


_STOPPED = "some of what is due has not run, as stop() was called"
_WAITS = (State.PENDING, State.RUNNING)


def run_due(store: ThreadStore, within: float = 60) -> int:
	"""
	Runs what is due when it is called, and also what these runs put for at once. Returns how many runs have ended.

	Raises TimeoutError if some have not within so many seconds, as those of a paused group; RuntimeError if a task has
	called stop() before; and what run() raises.
	"""
	store._calls.register()
	began = store.stats()
	if store._running:
		raise RuntimeError("run() is under way")
	errors: List[BaseException] = []

	def work() -> None:
		try:
			store.run(signals=False, stop_within=within)
		except BaseException as error:
			errors.append(error)

	worker = threading.Thread(target=work, daemon=True)
	until = time.monotonic() + within
	worker.start()
	try:
		while True:
			alive = worker.is_alive()  # before the look: what it has run last is seen
			if not any(
				_is_due(info, datetime.now(timezone.utc))
				for kind in list(store._calls.names())
				for info in store.each(kind, states=_WAITS, with_data=False)
			):
				break
			if not alive:
				errors.append(RuntimeError(_STOPPED))  # behind what run() has raised
				break
			if time.monotonic() > until:
				raise TimeoutError("some of what is due has not run")
			time.sleep(0.01)
	finally:
		if worker.is_alive():
			store.stop()
		worker.join()
	if errors:
		raise errors[0]
	return _runs(store.stats(), began)


async def run_due_async(store: Store, within: float = 60) -> int:
	"""The same on asyncio."""
	await store._wait(store._calls.register)
	began = await store.stats()
	if store._stopped is not None:
		raise RuntimeError("run() is under way")
	worker = asyncio.ensure_future(store.run(signals=False, stop_within=within))
	until = time.monotonic() + within
	try:
		while True:
			found, done = False, worker.done()  # before the look: what it has run last is seen
			for kind in store._calls.names():
				async for info in store.each(kind, states=_WAITS, with_data=False):
					found = found or _is_due(info, datetime.now(timezone.utc))
			if not found:
				break
			if done:
				await worker
				raise RuntimeError(_STOPPED)
			if time.monotonic() > until:
				raise TimeoutError("some of what is due has not run")
			await asyncio.sleep(0.01)
	finally:
		if not worker.done():
			store.stop()
		await worker
	return _runs(await store.stats(), began)


def _runs(now: Any, before: Any) -> int:
	return int(now.begun - before.begun)
