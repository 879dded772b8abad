# SPDX-License-Identifier: BSD-2-Clause
"""A store for programs on asyncio."""

import asyncio
import errno
import functools
import inspect
import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, AsyncIterator, Awaitable, Callable, Collection, Iterable, List, Optional, Set, TypeVar, Union

from ._base import Base
from ._calls import TIMED_OUT, say
from ._lib import Span
from ._pages import Pages
from ._puts import Puts
from ._run import Run
from ._values import ANY, Default, Group, IfExists, Info, GroupInfo, KindInfo, Outcome, Put, State, Stats

T = TypeVar("T")

THREADS = 16  # that wait for the database


class Store(Base[Callable[[Run], Awaitable[Any]]]):
	"""
	A store whose tasks are coroutines on the loop of `run`. `open` makes one.

	Methods may be called on any loop, in tasks too. Each commits, or asks the database, on a thread of a small pool, so
	the loop goes on meanwhile. A call that is cancelled while it waits may have happened.
	"""

	def __init__(
		self,
		url: str,
		*,
		name: Optional[str] = None,
		schema: Optional[str] = None,
		lease: Optional[Span] = None,
		default: Default = None,
	) -> None:
		super().__init__(url, name, schema, lease, default, 100)
		self._set_up()

	def _set_up(self) -> None:
		self._pool = ThreadPoolExecutor(THREADS, "hwt_store")
		self._puts = Puts(self._calls, self._pool)
		self._tasks: Set["asyncio.Task[None]"] = set()
		self._loop: Optional[asyncio.AbstractEventLoop] = None
		self._stopped: Optional["asyncio.Future[None]"] = None
		self._fd = -1
		self._interrupted = False
		self._asked = False  # to stop
		self._timed_out: Set[Run] = set()
		self._ends: Set["asyncio.Future[bool]"] = set()  # that wait for the database

	def _after_fork(self) -> None:
		super()._after_fork()
		self._set_up()

	async def __aenter__(self) -> "Store":
		return self

	async def __aexit__(self, *_: Any) -> None:
		await self.close()

	async def close(self) -> None:
		"""Ends it, and gives what this process holds to others at once. No call may follow."""
		if self._loop is not None:
			raise RuntimeError("run() is under way: stop() lets it return")
		if self._calls.closed:
			return
		await asyncio.get_running_loop().run_in_executor(self._pool, self._calls.close)
		self._pool.shutdown(wait=False)

	def _check_task(self, task: Callable[[Run], Awaitable[Any]]) -> None:
		if not inspect.iscoroutinefunction(task):
			raise TypeError(f"{task!r} is no coroutine function: write async def, or take open_threads")

	async def _wait(self, function: Callable[..., T], *arguments: Any) -> T:
		self._calls.check_open()
		return await asyncio.get_running_loop().run_in_executor(self._pool, functools.partial(function, *arguments))

	# Running.

	async def run(self, *, signals: bool = True, stop_within: Optional[float] = None) -> None:
		"""
		Runs what is due until `stop` or a signal comes; returns when what runs then has ended.

		signals      SIGTERM and SIGINT stop it, if this is the main thread. After a second one nothing is waited for
		stop_within  seconds that it waits for what runs

		What is not waited for is cancelled, and so it is if run() itself is cancelled: it runs again, at once, in another
		process, and that counts as no attempt; one of a kind that runs at most once is FAILED.
		"""
		if self._stopped is not None:
			raise RuntimeError("run() is under way")
		self._calls.check_open()
		loop = self._loop = asyncio.get_running_loop()
		self._stopped = loop.create_future()
		self._interrupted = False
		if self._asked:
			self._stop()
		if signals and threading.current_thread() is threading.main_thread():
			for number in (signal.SIGTERM, signal.SIGINT):
				self._handlers[number] = signal.getsignal(number)
				loop.add_signal_handler(number, self._signalled)
		begin = loop.run_in_executor(self._pool, self._calls.begin)
		try:
			self._fd = await asyncio.shield(begin)
			self._watch()
			await self._stopped
			await self._halt(stop_within)
		except BaseException:
			self._interrupted = True
			await self._halt_cancelled(begin)
			raise
		finally:
			handlers, self._handlers = self._handlers, {}
			for handled, handler in handlers.items():
				loop.remove_signal_handler(handled)
				signal.signal(handled, handler)
			self._loop = self._stopped = None
			self._asked = False

	def stop(self) -> None:
		"""Lets run() return. On any thread, in tasks too, and before run(), which then returns at once."""
		self._asked = True
		loop = self._loop
		if loop is not None:
			loop.call_soon_threadsafe(self._stop)

	def _stop(self) -> None:
		if self._stopped is not None and not self._stopped.done():
			self._stopped.set_result(None)

	def _signalled(self) -> None:
		if self._stopped is not None and self._stopped.done():
			self._interrupt()
		self._stop()

	def _interrupt(self) -> None:
		self._interrupted = True
		for task in self._tasks:
			task.cancel()

	async def _halt(self, stop_within: Optional[float]) -> None:
		self._forget_fd()
		while not await self._wait(self._calls.try_stop):
			if self._tasks:
				await asyncio.wait(self._tasks, timeout=stop_within)
				if any(not task.done() for task in self._tasks):
					self._interrupt()
					await asyncio.wait(self._tasks)
			await asyncio.wait(self._ends) if self._ends else await asyncio.sleep(0.01)

	async def _halt_cancelled(self, begin: "asyncio.Future[int]") -> None:
		"""Each further cancel reaches the tasks, too, which may have caught the first."""
		while True:
			try:
				await asyncio.wait([begin])
				await self._halt(0)
				return
			except asyncio.CancelledError:
				pass  # the next _halt cancels them

	def _forget_fd(self) -> None:
		if self._fd >= 0 and self._loop is not None:
			self._loop.remove_reader(self._fd)
			self._fd = -1

	def _watch(self) -> None:
		if self._fd >= 0 and self._loop is not None:
			self._loop.add_reader(self._fd, self._pull)

	def _pull(self) -> None:
		assert self._loop is not None
		while True:
			try:
				got = self._calls.next()
				if isinstance(got, Run):
					self._start(got)
			except Exception as error:  # no memory
				say(logging.ERROR, "no run is begun for a second", error=error)
				self._loop.call_later(1, self._watch)
				self._loop.remove_reader(self._fd)
				return
			if not isinstance(got, Run):
				if got == errno.ECANCELED:
					self._forget_fd()
				return

	def _start(self, run: Run) -> None:
		assert self._loop is not None
		work: Any = None
		task: "Optional[asyncio.Task[None]]" = None
		try:
			end = functools.partial(self._end, run)
			work = self._execute(run)
			task = self._loop.create_task(work)
			self._tasks.add(task)
			task.add_done_callback(end)
		except BaseException as error:
			if task is not None:
				self._tasks.discard(task)
				task.cancel()
			elif work is not None:
				work.close()
			self._calls.end(run, error)
			raise

	async def _execute(self, run: Run) -> None:
		kind = self._calls.kind_of(run)
		if kind.timeout is None:
			await kind.task(run)
			return
		timer = asyncio.get_running_loop().call_later(kind.timeout, self._time_out, run, asyncio.current_task())
		try:
			await kind.task(run)
		finally:
			timer.cancel()

	def _time_out(self, run: Run, task: "asyncio.Task[None]") -> None:
		self._timed_out.add(run)
		task.cancel()

	def _end(self, run: Run, task: "asyncio.Task[None]") -> None:
		"""Here each run ends, also one whose task was cancelled before its first step."""
		self._tasks.discard(task)
		error: Union[BaseException, str, None] = None
		if run in self._timed_out:
			self._timed_out.discard(run)
			error = TIMED_OUT
		elif not task.cancelled():
			error = task.exception()
		elif not self._is_interrupted():
			error = asyncio.CancelledError()
		elif self._calls.kind_of(run).at_most_once:
			run.give_up("its process was stopped during the run")
		else:
			run.again()
		if self._calls.end(run, error, waits=False):
			return
		# The end has to ask the database.
		end = task.get_loop().run_in_executor(self._pool, self._calls.end, run, error)
		self._ends.add(end)
		end.add_done_callback(self._ends.discard)

	def _is_interrupted(self) -> bool:
		"""What is cancelled now is cancelled with run(), or by it."""
		return self._interrupted or self._stopped is None or self._stopped.cancelled()

	# Timeouts.

	async def put(
		self,
		kind: str,
		data: Any = None,
		*,
		delay: Optional[Span] = None,
		at: Optional[datetime] = None,
		every: Optional[Span] = None,
		cron: Optional[str] = None,
		zone: Optional[str] = None,
		key: Optional[str] = None,
		group: Optional[str] = None,
		priority: int = 0,
		grace: Optional[Span] = None,
		spread: Optional[Span] = None,
		if_exists: IfExists = "error",
	) -> int:
		"""
		Puts a timeout, and returns its id, which is never used again. When this returns it survives the death of every
		process. Put has the arguments.

		Raises Exists if the key is in use; Invalid; Unavailable: it was not put; Unknown: perhaps it was.
		"""
		put = Put(kind, data, delay, at, every, cron, zone, key, group, priority, grace, spread, if_exists)
		if key is not None:
			return await self._wait(self._calls.put, put)
		self._calls.check_open()
		return await self._puts.put(put)

	async def put_many(self, puts: Iterable[Put]) -> List[int]:
		"""Puts up to 10,000 in one transaction, all of them or none (if_exists: "error" or "replace"). Returns their ids in order."""
		return await self._wait(self._calls.put_many, puts)

	async def cancel(
		self,
		id: Optional[int] = None,
		*,
		kind: Optional[str] = None,
		key: Optional[str] = None,
		group: Optional[str] = None,
	) -> Outcome:
		"""
		Cancels a timeout, by its id or by kind, key and group. True if this very call has ended it: then it does not
		start any more, in no process. A series that is running has its last run.
		"""
		return await self._wait(self._calls.cancel, id, kind, key, group)

	async def cancel_all(
		self, kind: str, *, group: Group = ANY, states: Optional[Collection[State]] = None
	) -> int:
		"""Cancels all of a kind, or of a group, and returns how many. For what runs this run is the last."""
		return await self._wait(self._calls.cancel_all, kind, group, states)

	async def reschedule(
		self,
		id: Optional[int] = None,
		*,
		kind: Optional[str] = None,
		key: Optional[str] = None,
		group: Optional[str] = None,
		delay: Optional[Span] = None,
		at: Optional[datetime] = None,
	) -> Outcome:
		"""Gives a timeout another time; without delay and at: now. One that has failed is pending again."""
		return await self._wait(self._calls.reschedule, id, kind, key, group, delay, at)

	async def reschedule_all(
		self,
		kind: str,
		*,
		group: Group = ANY,
		states: Optional[Collection[State]] = None,
		delay: Optional[Span] = None,
		at: Optional[datetime] = None,
	) -> int:
		"""The same for what is pending of a kind or group, or in these states: all get one time. Returns how many."""
		return await self._wait(self._calls.reschedule_all, kind, group, states, delay, at)

	async def get(
		self,
		id: Optional[int] = None,
		*,
		kind: Optional[str] = None,
		key: Optional[str] = None,
		group: Optional[str] = None,
	) -> Optional[Info]:
		"""What is known of a timeout; None: it was never put, is done, or was cancelled."""
		return await self._wait(self._calls.get, id, kind, key, group)

	async def each(
		self,
		kind: str,
		*,
		group: Group = ANY,
		states: Optional[Collection[State]] = None,
		with_data: bool = True,
	) -> AsyncIterator[Info]:
		"""
		The timeouts of a kind, in order of their times: `async for info in store.each("expire"):`. It reads by pages, so
		millions may be there, and what moves to another time meanwhile may come out of order or twice, and not at all if
		that time is an earlier one. Raises NotFound: no such kind.
		"""
		pages = Pages(self._calls, kind, group, states, with_data)
		try:
			while True:
				page = await self._wait(pages.get)
				if page is None:
					return
				for info in page:
					yield info
		finally:
			pages.close()

	# Groups and kinds.

	async def limit(
		self,
		kind: str,
		group: Optional[str] = None,
		*,
		running: int = 0,
		start_every: Optional[Span] = None,
		burst: int = 0,
	) -> None:
		"""
		Limits a group, in all processes together; group None: each group that has no limits of its own.

		running      runs at once; 0: no limit
		start_every  at most one start in so long, on average; None: no limit
		burst        so many starts at once, after a rest
		"""
		await self._wait(self._calls.limit, kind, group, running, start_every, burst)

	async def unlimit(self, kind: str, group: Optional[str] = None) -> None:
		"""Takes the limits of a group away, or those of each group."""
		await self._wait(self._calls.unlimit, kind, group)

	async def pause(self, kind: str, group: Optional[str] = None) -> None:
		"""Nothing of the group, or of the kind, is begun until `resume`. What runs goes on."""
		await self._wait(self._calls.pause, kind, group)

	async def resume(self, kind: str, group: Optional[str] = None) -> None:
		"""Ends a pause."""
		await self._wait(self._calls.resume, kind, group)

	async def groups(self, kind: str) -> List[GroupInfo]:
		"""The groups of a kind that are paused or have limits of their own, by name. Raises NotFound."""
		return await self._wait(self._calls.groups, kind)

	async def kinds(self) -> List[KindInfo]:
		"""All kinds of the database."""
		return await self._wait(self._calls.kinds)

	async def remove_kind(self, kind: str) -> None:
		"""Removes a kind that has no timeouts any more. Raises Busy, NotFound."""
		await self._wait(self._calls.remove_kind, kind)

	async def stats(self, kind: Optional[str] = None) -> Stats:
		"""Numbers of this process, or of one of its kinds."""
		return await self._wait(self._calls.stats, kind)

	async def prometheus(self) -> str:
		"""A page for Prometheus."""
		return await self._wait(self._calls.prometheus)
