# SPDX-License-Identifier: BSD-2-Clause
"""No memory, no thread, a stop before a timeout: nothing waits for ever, and each run ends."""

import asyncio
import threading
from typing import Any, List

import pytest
from conftest import PATIENCE_S, World, wait_until

import hwt_store
from hwt_store import Error, Run, State, _run, testing


def test_a_stop_before_the_timeout_of_a_hung_task_lets_run_return(world: World) -> None:
	go_on = threading.Event()
	with world.open_threads(threads=1) as store:

		@store.kind("a", timeout=0.3, max_attempts=1)
		def task(run: Run) -> None:
			store.stop()
			go_on.wait()

		store.put("a")
		thread = threading.Thread(target=store.run, kwargs={"signals": False}, daemon=True)
		thread.start()
		thread.join(PATIENCE_S)
		hung = thread.is_alive()
		go_on.set()
		thread.join()
		assert not hung


def test_a_worker_that_cannot_start_is_not_joined(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
	def refuse(_: threading.Thread) -> None:
		raise MemoryError

	with world.open_threads() as store:
		store.kind("a")(print)
		with monkeypatch.context() as patch:
			patch.setattr(threading.Thread, "start", refuse)
			with pytest.raises(MemoryError):
				store.run()
		assert not store._workers


@pytest.mark.parametrize("place", ["submit", "put"])
def test_after_a_put_that_finds_no_memory_the_next_is_put(
	world: World, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
	def refuse(*_: Any) -> None:
		raise MemoryError

	async def main() -> None:
		async with world.open() as store:
			with monkeypatch.context() as patch:
				if place == "submit":
					patch.setattr(store._pool, "submit", refuse)
				else:
					patch.setattr(store._puts, "_put_some", refuse)
				with pytest.raises(MemoryError):
					await asyncio.wait_for(store.put("a"), PATIENCE_S)
			assert await asyncio.wait_for(store.put("a"), PATIENCE_S)

	asyncio.run(main())


def test_a_run_ends_without_memory_for_its_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
	def refuse(_: str) -> bytes:
		raise MemoryError

	with world.open_threads(threads=1) as store:

		@store.kind("a", max_attempts=1)
		def task(run: Run) -> None:
			store.stop()
			monkeypatch.setattr(_run, "c_text", refuse)
			raise ValueError

		id = store.put("a")
		store.run(stop_within=PATIENCE_S)
		info = store.get(id)
		assert info is not None and info.state is State.FAILED


@pytest.mark.parametrize("error", [Error(12, "no memory"), MemoryError()])
def test_without_memory_the_loop_looks_again_after_a_second(
	world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
	async def main() -> None:
		refused: List[float] = []
		async with world.open() as store:
			now, take = asyncio.get_running_loop().time, store._calls.next

			def take_or_refuse() -> Any:
				if not refused or now() < refused[0] + 0.5:
					refused.append(now())
					raise error
				return take()

			@store.kind("a")
			async def task(run: Run) -> None:
				store.stop()

			monkeypatch.setattr(store._calls, "next", take_or_refuse)
			await store.put("a")
			await store.run()
			assert len(refused) == 1

	asyncio.run(main())


def test_a_thread_that_finds_no_memory_looks_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
	refused: List[bool] = []
	with world.open_threads(threads=1) as store:
		take = store._calls.next

		def take_or_refuse() -> Any:
			if not refused:
				refused.append(True)
				raise MemoryError
			return take()

		@store.kind("a")
		def task(run: Run) -> None:
			store.stop()

		monkeypatch.setattr(store._calls, "next", take_or_refuse)
		store.put("a")
		thread = threading.Thread(target=store.run, kwargs={"signals": False}, daemon=True)
		thread.start()
		thread.join(PATIENCE_S)
		assert refused and not thread.is_alive()


def test_a_run_whose_task_finds_no_memory_has_failed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
	async def main() -> None:
		loop = asyncio.get_running_loop()
		create = loop.create_task

		def refuse(coroutine: Any, **named: Any) -> Any:
			if coroutine.__name__ != "_execute":
				return create(coroutine, **named)
			loop.call_soon(store.stop)
			raise MemoryError

		async with world.open() as store:

			@store.kind("a", max_attempts=1)
			async def task(run: Run) -> None:
				pass

			id = await store.put("a")
			monkeypatch.setattr(loop, "create_task", refuse)
			await asyncio.wait_for(store.run(), PATIENCE_S)
			info = await store.get(id)
			assert info is not None and (info.state, info.error) == (State.FAILED, "MemoryError")

	asyncio.run(main())


def test_a_second_cancel_of_run_reaches_its_tasks(world: World) -> None:
	async def main() -> None:
		cancels: "asyncio.Queue[int]" = asyncio.Queue()
		async with world.open() as store:

			@store.kind("a")
			async def task(run: Run) -> None:
				for n in range(3):
					cancels.put_nowait(n)
					try:
						await asyncio.Event().wait()
					except asyncio.CancelledError:
						if n == 2:
							raise

			id = await store.put("a")
			running = asyncio.ensure_future(store.run())
			for n in range(3):
				assert await asyncio.wait_for(cancels.get(), PATIENCE_S) == n
				assert running.cancel()
			with pytest.raises(asyncio.CancelledError):
				await running
			info = await store.get(id)
			assert info is not None and (info.state, info.attempt) == (State.PENDING, 0)
			assert not store._tasks and not store._calls.started

	asyncio.run(main())


SIGNALLED = """
import signal, sys, threading, time, hwt_store
with hwt_store.open_threads(sys.argv[1], schema=sys.argv[2]) as store:
	@store.kind("a")
	def task(run):
		time.sleep(0.5)  # the main thread waits meanwhile
		signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
	store.put("a")
	store.run()
"""


def test_a_signal_that_another_thread_gets_lets_run_return(world: World) -> None:
	assert world.start(SIGNALLED).wait(PATIENCE_S) == 0


def test_after_tasks_were_left_a_kind_is_new_and_run_comes_again(world: World) -> None:
	go_on = threading.Event()
	with world.open_threads(threads=1) as store:

		@store.kind("a")
		def task(run: Run) -> None:
			store.stop()
			go_on.wait()

		store.put("a")
		store.run(stop_within=0)
		ran = []

		@store.kind("b")
		def other(run: Run) -> None:
			ran.append(run.data)
			store.stop()

		with pytest.raises(hwt_store.Busy):
			store.run()
		go_on.set()
		store.put("b", 1)

		def has_run() -> bool:
			try:
				store.run()
			except hwt_store.Busy:
				pass
			return bool(ran)

		wait_until(has_run)


@pytest.mark.parametrize("flavour", ["threads", "asyncio"])
def test_what_is_due_in_a_test_tells_why_nothing_runs(
	world: World, monkeypatch: pytest.MonkeyPatch, flavour: str
) -> None:
	def refuse() -> int:
		raise hwt_store.Unavailable(5, "no database")

	def with_threads() -> None:
		with world.open_threads() as store:
			store.kind("a")(print)
			store.put("a")
			with monkeypatch.context() as patch:
				patch.setattr(store._calls, "begin", refuse)
				with pytest.raises(hwt_store.Unavailable):
					testing.run_due(store, PATIENCE_S)
			assert testing.run_due(store, PATIENCE_S) == 1
			store._running = True
			with pytest.raises(RuntimeError, match="under way"):
				testing.run_due(store)
			assert store._stops.empty()
			store._running = False

	async def on_loop() -> None:
		async with world.open() as store:

			@store.kind("a")
			async def task(run: Run) -> None:
				pass

			await store.put("a")
			with monkeypatch.context() as patch:
				patch.setattr(store._calls, "begin", refuse)
				with pytest.raises(hwt_store.Unavailable):
					await testing.run_due_async(store, PATIENCE_S)
			assert await testing.run_due_async(store, PATIENCE_S) == 1
			running = asyncio.ensure_future(store.run(signals=False))
			await asyncio.sleep(0)
			monkeypatch.setattr(store._calls, "names", list)  # so nothing is due
			with pytest.raises(RuntimeError, match="under way"):
				await testing.run_due_async(store)
			assert not running.done() and not store._asked
			store.stop()
			await running

	with_threads() if flavour == "threads" else asyncio.run(on_loop())
