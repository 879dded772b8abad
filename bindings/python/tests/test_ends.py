# SPDX-License-Identifier: BSD-2-Clause
"""A run ends once, also if its task raises nonsense or is cancelled early. Nothing is used after a close or a fork."""

import asyncio
import logging
import signal
import threading
from typing import Any, List

import pytest
from conftest import World, lines_until

import hwt_store
from hwt_store import Became, Ended, Put, Run, State


class BadStr(Exception):
	def __str__(self) -> str:
		raise KeyError("str")


class BadRepr(BadStr):
	def __repr__(self) -> str:
		raise KeyError("repr")


class BadFilter(logging.Filter):
	def filter(self, record: logging.LogRecord) -> bool:
		raise ValueError("a filter")


BAD = [(BadStr(1), "BadStr: BadStr(1)"), (BadRepr(), "BadRepr")]


@pytest.mark.parametrize("error,text", BAD, ids=["str", "repr"])
@pytest.mark.parametrize("flavour", ["threads", "asyncio"])
def test_an_exception_without_a_text_is_a_failure(world: World, error: BaseException, text: str, flavour: str) -> None:
	log = logging.getLogger("hwt_store")
	bad = BadFilter()
	log.addFilter(bad)
	try:
		if flavour == "threads":
			threads = world.open_threads(threads=1)

			@threads.kind("a", max_attempts=1, shards=1)
			def task(run: Run) -> None:
				if run.data == "raise":
					raise error
				threads.stop()

			id = threads.put("a", "raise", key="first")
			threads.put("a", delay=0.001)
			threads.run()
			info = threads.get(id)
			threads.close()
		else:

			async def main() -> Any:
				async with world.open() as store:

					@store.kind("a", max_attempts=1)
					async def task(run: Run) -> None:
						store.stop()
						raise error

					id = await store.put("a")
					await store.run()
					return await store.get(id)

			info = asyncio.run(main())
	finally:
		log.removeFilter(bad)
	assert info is not None and (info.state, info.error) == (State.FAILED, text)


def test_a_task_that_is_cancelled_before_its_first_step_ends_its_run(world: World) -> None:
	async def main() -> None:
		store = world.open()
		cancelled: List[Any] = []

		@store.kind("a", backoff=3600)
		async def task(run: Run) -> None:
			# With none of the others a step old.
			for other in store._tasks - {asyncio.current_task()}:
				other.cancel()
				cancelled.append(other)
			await asyncio.sleep(0)
			store.stop()

		await store.put_many([Put("a")] * 5)
		while not cancelled:  # all that are due come at once, as a rule
			await store.run()
			await store.put_many([Put("a")] * 5)
		infos = [info async for info in store.each("a") if info.attempt]
		assert {(info.state, info.error) for info in infos} == {(State.PENDING, "CancelledError")}
		assert all(task.done() for task in cancelled)
		await store.close()

	asyncio.run(main())


CANCELS_ALL = """
import asyncio, sys, hwt_store
store = hwt_store.open(sys.argv[1], schema=sys.argv[2])
begun = 0
@store.kind("a", concurrency=50)
async def task(run):
	global begun
	begun += 1
	if begun == 1 and sys.argv[3] == "tasks":
		[other.cancel() for other in asyncio.all_tasks() if other is not asyncio.current_task()]
	if begun == 1 and sys.argv[3] == "exit":
		sys.exit(3)
	await asyncio.sleep(0)
async def main():
	await store.put_many([hwt_store.Put("a")] * 200)
	running = asyncio.create_task(store.run())
	while sys.argv[3] == "main" and begun < 100:
		await asyncio.sleep(0)
	if sys.argv[3] == "main":
		raise ValueError
	await running
try:
	asyncio.run(main())
except BaseException as error:
	print(type(error).__name__)
print("over")
"""


@pytest.mark.parametrize("cause", ["tasks", "main", "exit"])
def test_run_returns_when_all_tasks_are_cancelled(world: World, cause: str) -> None:
	expected = {"tasks": "CancelledError", "main": "ValueError", "exit": "SystemExit"}[cause]
	process = world.start(CANCELS_ALL, cause)
	assert lines_until(process, "over") == [expected, "over"]
	assert process.wait() == 0
	with world.open_threads() as store:
		assert [info for info in store.each("a") if info.state is State.RUNNING] == []


def test_a_stop_before_run_lets_it_return(world: World) -> None:
	ran: List[int] = []

	async def main() -> None:
		async with world.open() as store:

			@store.kind("a")
			async def task(run: Run) -> None:
				ran.append(run.id)
				store.stop()

			store.stop()
			await store.run()
			id = await store.put("a")
			await store.run()
			assert id in ran

	asyncio.run(main())
	with world.open_threads() as store:

		@store.kind("a")
		def task(run: Run) -> None:
			ran.append(run.id)
			store.stop()
			store.stop()

		store.stop()
		store.run()
		id = store.put("a")
		store.run()
		assert id in ran


def test_a_run_is_refused_after_close(world: World) -> None:
	go_on, told = threading.Event(), threading.Event()
	said: List[Any] = []
	store = world.open_threads(threads=1)

	@store.kind("a", backoff=3600)
	def task(run: Run) -> None:
		store.stop()
		go_on.wait()
		said.append(run.is_mine())
		calls: List[Any] = [run.again, run.end_series, lambda: run.give_up("no")]
		for call in calls:
			with pytest.raises(RuntimeError, match="has ended"):
				call()
		told.set()
		raise ValueError("x" * 300)

	id = store.put("a")
	store.run(stop_within=0)
	(worker,) = store._workers
	store.close()
	go_on.set()
	told.wait()
	worker.join()
	assert said == [False]
	with world.open_threads() as other:
		info = other.get(id)
		assert info is not None and info.error is None


def test_lists_that_are_not_read_to_their_end_keep_nothing_open(world: World) -> None:
	with world.open_threads() as filler:
		filler.put_many([Put("many", n, delay=3600) for n in range(6000)])
	store = world.open_threads()
	never = store.each("many")
	begun = store.each("many")
	next(begun)
	for _ in store.each("many"):
		break
	store.close()
	for iterator in (never, begun):
		with pytest.raises(hwt_store.Invalid):
			list(iterator)

	async def main() -> None:
		store = world.open()
		never = store.each("many")
		begun = store.each("many")
		await begun.__anext__()
		async for _ in store.each("many"):
			break
		await store.close()
		for iterator in (never, begun):
			with pytest.raises(hwt_store.Invalid):
				async for _ in iterator:
					pass

	asyncio.run(main())


FORKS = """
import asyncio, multiprocessing, os, signal, sys, threading, time, hwt_store
context = multiprocessing.get_context("fork")
def seen(run):
	try:
		return store.get(run.id).state.name
	except hwt_store.Invalid as error:
		return "refused" if "forked" in str(error) else str(error)
def child(run, ready):
	refused = 0
	for call in (run.again, run.end_series, lambda: run.give_up("no")):
		try:
			call()
		except RuntimeError:
			refused += 1
	store.stop()
	ready.send((refused, run.is_mine(), seen(run) if sys.argv[3] == "threads" else "none"))
	time.sleep(600)
def work(run):
	ours, theirs = context.Pipe()
	for _ in range(5):
		process = context.Process(target=child, args=(run, theirs))
		process.start()
		print(*ours.recv())
		process.terminate()
		process.join()
		print(process.exitcode)
	for _ in range(20):
		process = context.Process(target=time.sleep, args=(600,))
		process.start()
		process.terminate()
		process.join()
	with context.Pool(2) as pool:
		print(pool.map(abs, [-1, -2]))
	print("mine", run.is_mine())
if sys.argv[3] == "threads":
	store = hwt_store.open_threads(sys.argv[1], schema=sys.argv[2])
	@store.kind("a")
	def task(run):
		work(run)
	@store.kind("b")
	def last(run):
		print("still runs")
		store.stop()
	store.put("a")
	def later():
		while store.get(kind="a", key="x") is None and next(store.each("a"), None):
			time.sleep(0.01)
		store.put("b")
	threading.Thread(target=later).start()
	store.run()
	store.close()
else:
	store = hwt_store.open(sys.argv[1], schema=sys.argv[2])
	@store.kind("a")
	async def task(run):
		await asyncio.to_thread(work, run)
		await store.put("b")
	@store.kind("b")
	async def last(run):
		print("still runs")
		store.stop()
	async def main():
		await store.put("a")
		await store.run()
		await store.close()
	asyncio.run(main())
print("over")
"""


@pytest.mark.parametrize("flavour", ["threads", "asyncio"])
def test_a_forked_child_has_signals_and_a_store_of_its_own(world: World, flavour: str) -> None:
	process = world.start(FORKS, flavour)
	seen = "none" if flavour == "asyncio" else "refused" if world.url.startswith("sqlite:") else "RUNNING"
	child = [f"3 False {seen}", str(-signal.SIGTERM)]
	assert lines_until(process, "over") == child * 5 + ["[1, 2]", "mine True", "still runs", "over"]
	assert process.wait() == 0


def test_on_end_is_told_of_each_end(world: World) -> None:
	store = world.open_threads(threads=1)
	told: List[Ended] = []

	@store.on_end
	def note(ended: Ended) -> None:
		told.append(ended)
		raise ValueError("is logged")

	others: List[Became] = []

	@store.on_end
	def note_too(ended: Ended) -> None:
		others.append(ended.became)

	@store.kind("a", max_attempts=1, shards=1)
	def task(run: Run) -> None:
		if run.data == "stop":
			store.stop()
		else:
			raise ValueError("no such account")

	id = store.put("a", "fail", key="k", group="g")
	store.put("a", "stop", delay=0.001)
	store.run()
	first = told[0]
	assert (first.id, first.kind, first.key, first.group, first.attempt) == (id, "a", "k", "g", 1)
	assert first.became == Became.FAILED and first.error and "no such account" in first.error
	assert first.started and first.due <= first.started <= first.ended and first.next_due is None
	assert [ended.became for ended in told] == [Became.FAILED, Became.DONE] == others
	store.close()


def test_groups_with_rules_are_listed(world: World) -> None:
	store = world.open_threads(threads=1)
	store.put("a", delay=3600, group="b")
	assert store.groups("a") == []
	store.pause("a", "b")
	store.limit("a", "c", running=3)
	paused, limited = store.groups("a")
	assert (paused.group, paused.paused, paused.limited) == ("b", True, False)
	assert (limited.group, limited.paused, limited.limited, limited.running) == ("c", False, True, 3)
	with pytest.raises(hwt_store.NotFound):
		store.groups("nobody")
	store.close()
