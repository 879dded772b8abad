# SPDX-License-Identifier: BSD-2-Clause
"""What runs, and how it ends: on asyncio, and on threads."""

import asyncio
import functools
import logging
import os
import signal
import sqlite3
import subprocess
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List

import pytest
from conftest import World, lines_until, wait_until

import hwt_store
from hwt_store import Put, Run, State


def test_the_task_gets_what_was_put(world: World) -> None:
	async def main() -> None:
		seen: List[Run] = []
		store = world.open()

		@store.kind("expire", group_limit=3)
		async def expire(run: Run) -> str:
			assert run.is_mine()
			seen.append(run)
			store.stop()
			return "what a task returns does not matter"

		before = datetime.now(timezone.utc)
		id = await store.put(
			"expire", {"order": 17}, delay=timedelta(milliseconds=20), key="order 17", group="tenant 9"
		)
		await store.run()
		(run,) = seen
		assert (run.id, run.kind, run.key, run.group) == (id, "expire", "order 17", "tenant 9")
		assert (run.data, run.raw, run.attempt, run.missed) == ({"order": 17}, b'{"order": 17}', 1, 0)
		assert before < run.due < datetime.now(timezone.utc) + timedelta(hours=1)
		assert not run.is_mine()
		with pytest.raises(RuntimeError, match="has ended"):
			run.again()
		assert await store.get(id) is None
		(kind,) = await store.kinds()
		assert kind.group_limit == 3
		assert (await store.stats("expire")).done == 1
		# It can run again.
		await store.put("expire")
		await store.run()
		assert len(seen) == 2 and seen[1].data is None and seen[1].key is None and seen[1].group is None
		await store.close()
		await store.close()

	asyncio.run(main())


async def answers(world: World, tell: Any, data: Any = None, runs: int = 1, **kind: Any) -> Any:
	"""What is known of a timeout after so many runs, the first of which did as it was told; and the attempts."""
	attempts: List[int] = []
	async with world.open() as store:

		@store.kind("a", backoff=3600, **kind)
		async def task(run: Run) -> None:
			attempts.append(run.attempt)
			if len(attempts) == runs:
				store.stop()
			if len(attempts) == 1:
				tell(run)

		id = await store.put("a", data)
		await store.run()
		return await store.get(id), attempts


def test_an_exception_is_a_failure_with_its_text(world: World) -> None:
	def fail(run: Run) -> None:
		raise LookupError("no such order: Zoë\0 \ud800")

	info, _ = asyncio.run(answers(world, fail))
	assert (info.state, info.attempt, info.error) == (State.PENDING, 1, "LookupError: no such order: Zoë? ?")
	assert info.due > datetime.now(timezone.utc) + timedelta(minutes=30)


def test_the_last_attempt_fails_for_good(world: World) -> None:
	def fail(run: Run) -> None:
		run.again()
		raise KeyError

	info, _ = asyncio.run(answers(world, fail, max_attempts=1))
	assert (info.state, info.attempt, info.error) == (State.FAILED, 1, "KeyError")


def test_give_up_is_for_good(world: World) -> None:
	info, _ = asyncio.run(answers(world, lambda run: run.give_up("no such account")))
	assert (info.state, info.error) == (State.FAILED, "no such account")


def test_give_up_takes_any_text(world: World) -> None:
	info, _ = asyncio.run(answers(world, lambda run: run.give_up("a\0b\ud800")))
	assert (info.state, info.error) == (State.FAILED, "a?b?")
	info, _ = asyncio.run(answers(world, lambda run: run.give_up(KeyError(17))))
	assert (info.state, info.error) == (State.FAILED, "KeyError: 17")


def test_threads_refuse_what_nobody_would_await(world: World) -> None:
	async def coroutine(run: Run) -> None:
		raise AssertionError

	def generator(run: Run) -> Any:
		yield

	class Callable:
		async def __call__(self, run: Run) -> None:
			raise AssertionError

	with world.open_threads() as store:
		tasks: List[Any] = [coroutine, functools.partial(coroutine), Callable(), generator]
		for task in tasks:
			with pytest.raises(TypeError, match="function"):
				store.kind("a")(task)
		store.kind("a", max_attempts=1)(lambda run: coroutine(run))
		store.kind("b")(lambda run: store.stop())
		id = store.put("a", key="1")
		thread = threading.Thread(target=store.run, kwargs={"signals": False})
		thread.start()
		failed = wait_until(lambda: [info for info in store.each("a") if info.state is State.FAILED])
		assert failed[0].id == id and failed[0].error.startswith("TypeError: the task has returned coroutine")
		store.stop()
		thread.join()


def test_again_is_no_attempt(world: World) -> None:
	info, attempts = asyncio.run(answers(world, lambda run: run.again(timedelta(milliseconds=1)), runs=2))
	assert info is None and attempts == [1, 1]


def test_data_that_are_no_json_fail_where_they_are_read(world: World) -> None:
	def read(run: Run) -> None:
		assert run.raw == b"\xff"
		run.data

	info, _ = asyncio.run(answers(world, read, b"\xff", max_attempts=1))
	assert info.state is State.FAILED and info.error.startswith("UnicodeDecodeError: ")


def test_a_series_goes_on_until_it_is_ended(world: World) -> None:
	async def main() -> None:
		due: List[datetime] = []
		async with world.open() as store:

			@store.kind("beat")
			async def beat(run: Run) -> None:
				due.append(run.due)
				if len(due) == 2:
					run.end_series()
					store.stop()

			id = await store.put("beat", every=1, key="the beat", if_exists="keep_due")
			await store.run()
			assert due[1] - due[0] >= timedelta(seconds=1)
			assert await store.get(id) is None

	asyncio.run(main())


@pytest.mark.parametrize(
	"limit",
	[{"group_limit": 3, "concurrency": 8}, {"concurrency": 2}],
	ids=["group_in_all_processes", "process"],
)
def test_no_more_run_at_once_than_its_limit(world: World, limit: Dict[str, Any]) -> None:
	allowed = min(limit.values())

	async def main() -> None:
		running, most, done = 0, 0, 0
		together = asyncio.Event()
		async with world.open() as store:

			@store.kind("a", **limit)
			async def task(run: Run) -> None:
				nonlocal running, most, done
				running += 1
				most = max(most, running)
				if running == allowed:
					together.set()
				await together.wait()
				await asyncio.sleep(0)
				running -= 1
				done += 1
				if done == 20:
					store.stop()

			await store.put_many([Put("a", group="g")] * 20)
			await store.run()
			assert most == allowed

	asyncio.run(main())


def test_what_comes_too_late_has_failed_and_is_taken_up_again(world: World) -> None:
	with world.open_threads() as store:

		@store.kind("a")
		def task(run: Run) -> None:
			assert run.data == "the last"
			store.stop()

		# The one with the larger priority starts first.
		late = store.put("a", at=datetime(2026, 1, 1, tzinfo=timezone.utc), grace=1, group="g", priority=1)
		store.put("a", "the last", group="g")
		store.run()
		info = store.get(late)
		assert info is not None and (info.state, info.error) == (State.FAILED, "too late")
		assert store.reschedule(late, delay=3600)
		info = store.get(late)
		assert info is not None and info.state is State.PENDING
		assert list(store.each("a")) == [info]


def test_a_program_is_told_of_wrong_use(world: World) -> None:
	async def main() -> None:
		async with world.open() as store:
			with pytest.raises(hwt_store.Invalid, match="kind"):
				await store.run()
			with pytest.raises(TypeError, match="async def"):
				store.kind("a")(lambda run: None)  # type: ignore[arg-type,return-value]
			with pytest.raises(ValueError):

				@store.kind("a", concurrency=0)
				async def nothing(run: Run) -> None:
					pass

			@store.kind("a")
			async def task(run: Run) -> None:
				with pytest.raises(RuntimeError, match="too late"):
					store.kind("b")(task)
				with pytest.raises(RuntimeError, match="under way"):
					await store.run()
				with pytest.raises(RuntimeError, match="under way"):
					await store.close()
				store.stop()

			with pytest.raises(ValueError, match="already"):
				store.kind("a")(task)
			await store.put("a")
			await store.run()
			assert (await store.stats()).done == 1

	asyncio.run(main())
	with world.open_threads() as store:

		@store.kind("a", at_most_once=True)
		def other(run: Run) -> None:
			pass

		with pytest.raises(hwt_store.Invalid, match="mode"):
			store.run()


def test_what_is_cancelled_with_run_runs_again(world: World) -> None:
	async def main() -> None:
		started = asyncio.Semaphore(0)
		async with world.open() as store:

			async def task(run: Run) -> None:
				started.release()
				await asyncio.Event().wait()

			store.kind("once", at_most_once=True)(task)
			store.kind("a")(task)
			id, once = await store.put("a"), await store.put("once")
			running = asyncio.ensure_future(store.run())
			await started.acquire()
			await started.acquire()
			running.cancel()
			with pytest.raises(asyncio.CancelledError):
				await running
			info = await store.get(id)
			assert info is not None and (info.state, info.attempt, info.error) == (State.PENDING, 0, None)
			info = await store.get(once)
			assert info is not None and info.state is State.FAILED and "stopped during" in (info.error or "")
			# The same after a while.
			running = asyncio.ensure_future(store.run(stop_within=0.01))
			await started.acquire()
			store.stop()
			await running
			info = await store.get(id)
			assert info is not None and (info.state, info.attempt) == (State.PENDING, 0)

	asyncio.run(main())


def test_a_task_that_cancels_itself_has_failed(world: World) -> None:
	def cancel(run: Run) -> None:
		raise asyncio.CancelledError

	info, _ = asyncio.run(answers(world, cancel))
	assert (info.state, info.error) == (State.PENDING, "CancelledError")


def test_threads_run_functions(world: World) -> None:
	with world.open_threads(threads=4) as store:
		together = threading.Barrier(4)
		seen: Dict[Any, Any] = {}

		@store.kind("a")
		def task(run: Run) -> None:
			seen[run.data] = threading.current_thread()
			together.wait()
			if run.data == 0:
				raise ValueError("zero")
			store.put("b", run.data, if_exists="keep", key=str(run.data))

		@store.kind("b")
		def after(run: Run) -> None:
			seen["b", run.data] = True
			if all(("b", n) in seen for n in (1, 2, 3)):
				store.stop()

		store.put_many(Put("a", n) for n in range(4))
		store.run()
		assert len({seen[n] for n in range(4)}) == 4
		(failed,) = store.each("a")
		assert (failed.data, failed.error, failed.attempt) == (0, "ValueError: zero", 1)
		assert list(store.each("b")) == []


def test_threads_that_do_not_end_are_left(world: World) -> None:
	go_on, ended = threading.Event(), threading.Event()
	with world.open_threads(threads=2) as store:

		@store.kind("a")
		def task(run: Run) -> None:
			store.stop()
			assert not go_on.is_set()
			go_on.wait()
			ended.set()

		id = store.put("a")
		store.run(stop_within=0)
		# It is begun elsewhere while it runs here.
		with world.open_threads() as other:

			@other.kind("a", backoff=0.001)
			def task_there(run: Run) -> None:
				assert (run.id, run.attempt, ended.is_set()) == (id, 2, False)
				other.stop()

			other.run()
			assert list(other.each("a")) == []
	go_on.set()
	ended.wait()


def test_sigterm_waits_for_what_runs(world: World) -> None:
	async def main() -> None:
		async with world.open() as store:

			@store.kind("a")
			async def task(run: Run) -> None:
				assert store._stopped is not None
				os.kill(os.getpid(), signal.SIGTERM)
				while not store._stopped.done():
					await asyncio.sleep(0)
				ended.append(run.id)

			id = await store.put("a")
			await store.run()
			assert ended == [id] and await store.get(id) is None

	ended: List[int] = []
	before = signal.signal(signal.SIGTERM, lambda *_: ended.append(0))
	asyncio.run(main())
	os.kill(os.getpid(), signal.SIGTERM)
	signal.signal(signal.SIGTERM, before)
	assert ended[1:] == [0]  # the handler from before


def test_sigterm_ends_threads(world: World) -> None:
	with world.open_threads() as store:

		@store.kind("a")
		def task(run: Run) -> None:
			os.kill(os.getpid(), signal.SIGTERM)
			while not store._stopping:
				time.sleep(0)

		id = store.put("a")
		before = signal.getsignal(signal.SIGTERM)
		store.run()
		assert store.get(id) is None and signal.getsignal(signal.SIGTERM) is before


HOLDS = """
import asyncio, sys, hwt_store
store = hwt_store.open(sys.argv[1], schema=sys.argv[2])
@store.kind("a")
async def task(run):
	print("started")
	try:
		await asyncio.Event().wait()
	finally:
		print("ended")
async def main():
	await store.run()
	print("stopped")
	await store.close()
	print("closed")
asyncio.run(main())
"""


def test_after_a_second_signal_nothing_is_waited_for(world: World) -> None:
	process = world.start(HOLDS)
	with world.open_threads() as store:
		id = store.put("a")
		lines_until(process, "started")
		process.send_signal(signal.SIGTERM)
		held = store.get(id)
		assert held is not None and held.state is State.RUNNING
		process.send_signal(signal.SIGINT)
		assert lines_until(process, "closed") == ["ended", "stopped", "closed"]
		assert process.wait() == 0
		info = store.get(id)
		assert info is not None and (info.state, info.attempt) == (State.PENDING, 0)


DAEMON = """
import sys, threading, time, hwt_store
store = hwt_store.open_threads(sys.argv[1], schema=sys.argv[2])
store.kind("a")(lambda run: print("ran"))
threading.Thread(target=store.run, daemon=True).start()
sys.stdin.readline()
"""


def test_a_program_that_ends_holds_nothing_any_more(world: World) -> None:
	process = world.start(DAEMON)
	with world.open_threads() as store:
		store.put("a")
		lines_until(process, "ran")
		assert process.stdin is not None
		process.stdin.close()
		assert process.wait() == 0
		assert store.kinds()[0].processes == 0  # at once, not when the lease is over


THREADS = """
import sys, threading, hwt_store
store = hwt_store.open_threads(sys.argv[1], schema=sys.argv[2], threads=2)
go_on = threading.Event()
@store.kind("a")
def task(run):
	if run.data == "go on":
		return go_on.set()
	print("started")
	go_on.wait()
	print("ended")
store.run()
print("stopped")
"""


def test_threads_end_at_a_signal(world: World) -> None:
	process = world.start(THREADS)
	with world.open_threads() as store:
		id = store.put("a", "hold")
		lines_until(process, "started")
		store.put("a", "go on")
		lines_until(process, "ended")
		wait_until(lambda: store.get(id) is None)
		process.send_signal(signal.SIGTERM)
		assert lines_until(process, "stopped") == ["stopped"]
		assert process.wait() == 0


def test_a_run_ends_after_its_lease(world: World) -> None:
	if not world.url.startswith("sqlite:"):
		pytest.skip("the file of SQLite is locked")

	async def main() -> None:
		async with world.open(lease=1) as store:

			@store.kind("a")
			async def task(run: Run) -> None:
				store.stop()
				if run.attempt == 1:
					other = sqlite3.connect(world.url[len("sqlite:") :])
					other.execute("begin exclusive")
					while run.is_mine():
						await asyncio.sleep(0.01)
					asyncio.get_running_loop().call_later(0.2, other.close)  # and the end is told meanwhile

			id = await store.put("a")
			await store.run()
			info = await store.get(id)
			assert info is None or (info.state, info.attempt, info.error) == (State.PENDING, 1, None)

	asyncio.run(main())


def test_the_database_away(world: World, caplog: Any) -> None:
	if world.url.startswith("sqlite:") or "HWT_POSTGRES_CTL" not in os.environ:
		pytest.skip("there is no server to stop")

	async def main() -> None:
		async with world.open() as store:

			@store.kind("a")
			async def task(run: Run) -> None:
				store.stop()

			running = asyncio.ensure_future(store.run())
			while not (await store.stats()).shards_held:
				await asyncio.sleep(0.005)
			subprocess.run([os.environ["HWT_POSTGRES_CTL"], "-m", "immediate", "stop"], check=True)
			with pytest.raises(ConnectionError):
				await store.put("a")
			subprocess.run([os.environ["HWT_POSTGRES_CTL"], "start"], check=True)
			while True:
				try:
					await store.put("a")
					break
				except hwt_store.Unavailable:
					await asyncio.sleep(0.01)
			await running

	with caplog.at_level(logging.WARNING, "hwt_store"):
		asyncio.run(main())
	assert any(record.name == "hwt_store" for record in caplog.records)
