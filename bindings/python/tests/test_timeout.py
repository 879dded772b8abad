# SPDX-License-Identifier: BSD-2-Clause
"""A run that takes too long fails, and tests of programs run what is due now."""

import asyncio
import threading
from typing import Any, List

import pytest
from conftest import World, wait_until

import hwt_store
from hwt_store import Put, Run, State, testing


def test_a_task_that_takes_too_long_is_cancelled(world: World) -> None:
	async def main() -> None:
		ended: List[str] = []
		async with world.open() as store:

			@store.kind("a", timeout=0.05, max_attempts=1)
			async def task(run: Run) -> None:
				if run.data == "quick":
					return
				try:
					await asyncio.Event().wait()
				finally:
					ended.append("cancelled")
					store.stop()

			id = await store.put("a")
			await store.put("a", "quick")
			await store.run()
			info = await store.get(id)
			assert info is not None and (info.state, info.error) == (State.FAILED, "timed out")
			assert ended == ["cancelled"]
			with pytest.raises(ValueError, match="timeout"):
				store.kind("b", timeout=0)(task)

	asyncio.run(main())


def test_a_thread_that_takes_too_long_is_replaced(world: World) -> None:
	go_on, returned = threading.Event(), threading.Event()
	said: List[Any] = []
	with world.open_threads(threads=1) as store:

		@store.kind("a", timeout=0.05, max_attempts=1)
		def task(run: Run) -> None:
			go_on.wait()
			said.append(run.is_mine())
			returned.set()

		@store.kind("b")
		def other(run: Run) -> None:
			store.stop()

		id = store.put("a")
		thread = threading.Thread(target=store.run, kwargs={"signals": False})
		thread.start()
		wait_until(lambda: [info for info in store.each("a") if info.state is State.FAILED])
		store.put("b")  # the only thread is in the task yet
		thread.join()
		go_on.set()
		returned.wait()
		info = store.get(id)
		assert info is not None and (info.state, info.error) == (State.FAILED, "timed out") and said == [False]


def test_what_is_due_runs_in_a_test(tmp_path: Any) -> None:
	ran: List[Any] = []
	with hwt_store.open_threads(testing.url(tmp_path)) as store:

		@store.kind("a")
		def task(run: Run) -> None:
			ran.append(run.data)
			if run.data == 1:
				store.put("a", "next")

		store.put_many([Put("a", 1), Put("a", 2, delay=3600)])
		assert testing.run_due(store) == 2 and ran == [1, "next"]
		assert testing.run_due(store) == 0
		assert store.reschedule_all("a") == 1
		assert testing.run_due(store) == 1 and ran == [1, "next", 2]
		store.pause("a")
		store.put("a", 3)
		with pytest.raises(TimeoutError):
			testing.run_due(store, within=0.1)

	async def main() -> None:
		async with hwt_store.open(testing.url(tmp_path)) as store:

			@store.kind("b")
			async def task(run: Run) -> None:
				ran.append(run.data)

			await store.put("b", 4)
			assert await testing.run_due_async(store) == 1 and ran[-1] == 4

	asyncio.run(main())


def test_what_is_due_in_a_test_is_told_if_a_task_stops_the_store(tmp_path: Any) -> None:
	with hwt_store.open_threads(testing.url(tmp_path)) as store:

		@store.kind("a")
		def task(run: Run) -> None:
			store.put("a")
			store.stop()

		store.put("a")
		with pytest.raises(RuntimeError, match="stop"):
			testing.run_due(store)

	async def main() -> None:
		async with hwt_store.open(testing.url(tmp_path)) as store:

			@store.kind("a")
			async def task(run: Run) -> None:
				await store.put("a")
				store.stop()

			with pytest.raises(RuntimeError, match="stop"):
				await testing.run_due_async(store)

	asyncio.run(main())
