# SPDX-License-Identifier: BSD-2-Clause
"""A store for programs of threads."""

import errno
import inspect
import logging
import os
import queue
import select
import signal
import threading
import time
from datetime import datetime
from typing import Any, Callable, Collection, Iterable, Iterator, List, Optional, Set, Union

from ._base import Base
from ._calls import TIMED_OUT, log, say
from ._lib import Span
from ._pages import Pages
from ._run import Run
from ._values import ANY, Default, Group, IfExists, Info, GroupInfo, KindInfo, Outcome, Put, State, Stats

JOIN_S = 0.1  # between two looks at which workers are left
SIGNALS_S = 0.5  # between two chances for a signal's handler


class ThreadStore(Base[Callable[[Run], Any]]):
	"""
	A store whose tasks are functions that run on threads, and whose calls wait for the database. `open_threads` makes
	one. Its methods are those of Store, which describes them. They may be called on any thread, in tasks too.
	"""

	def __init__(
		self,
		url: str,
		*,
		name: Optional[str] = None,
		schema: Optional[str] = None,
		lease: Optional[Span] = None,
		threads: int = 10,
		default: Default = None,
	) -> None:
		if threads < 1:
			raise ValueError(f"{threads} threads run nothing")
		super().__init__(url, name, schema, lease, default, threads)
		self._threads = threads
		self._set_up()

	def _set_up(self) -> None:
		self._turn = threading.Lock()  # of the thread that waits for the next run
		self._stops: "queue.SimpleQueue[None]" = queue.SimpleQueue()  # which a signal's handler may fill, too
		self._running = False
		self._stopping = False
		self._workers: Set[threading.Thread] = set()
		self._starts = threading.Lock()  # with it each of _workers has been started
		self._fd = -1

	def _after_fork(self) -> None:
		super()._after_fork()
		self._set_up()

	def _check_task(self, task: Callable[[Run], Any]) -> None:
		call: Any = task
		for function in (call, getattr(call, "__call__", None)):
			if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
				raise TypeError(f"{task!r} is a coroutine function: write def, or take open")
			if inspect.isgeneratorfunction(function):
				raise TypeError(f"{task!r} is a generator function, whose body would not run")

	def __enter__(self) -> "ThreadStore":
		return self

	def __exit__(self, *_: Any) -> None:
		self.close()

	def close(self) -> None:
		if self._running:
			raise RuntimeError("run() is under way: stop() lets it return")
		self._calls.close()

	# Running.

	def run(self, *, signals: bool = True, stop_within: Optional[float] = None) -> None:
		"""
		Runs what is due, on threads, until `stop` or a signal comes; returns when what runs then has ended.

		signals      SIGTERM and SIGINT stop it, if this is the main thread. A second one ends the process
		stop_within  seconds that it waits for what runs; after that other processes may begin it, too
		"""
		if self._running:
			raise RuntimeError("run() is under way")
		self._running = True
		try:
			self._stopping = False
			if signals and threading.current_thread() is threading.main_thread():
				for number in (signal.SIGTERM, signal.SIGINT):
					self._handlers[number] = signal.signal(number, self._signalled)
			self._fd = self._calls.begin()
			self._workers = set()
			try:
				for _ in range(self._threads):
					self._start_worker()
				self._await_stop()
			finally:
				self._halt(stop_within)
		finally:
			handlers, self._handlers = self._handlers, {}
			for handled, handler in handlers.items():
				signal.signal(handled, handler)
			while not self._stops.empty():
				self._stops.get()
			self._running = False

	def _await_stop(self) -> None:
		"""Between two waits a signal's handler runs: a wait goes on if another thread got the signal, or if it came just before."""
		while True:
			try:
				return self._stops.get(timeout=SIGNALS_S)
			except queue.Empty:
				pass

	def stop(self) -> None:
		"""Lets run() return. On any thread, in tasks too, and before run(), which then returns at once."""
		self._stops.put(None)

	def _signalled(self, number: int, _frame: Any) -> None:
		if self._stopping:
			signal.signal(number, signal.SIG_DFL)
			os.kill(os.getpid(), number)
		self._stopping = True
		self.stop()

	def _halt(self, stop_within: Optional[float]) -> None:
		self._stopping = True
		until = None if stop_within is None else time.monotonic() + stop_within
		while not self._calls.try_stop():
			left = None if until is None else until - time.monotonic()
			if left is not None and left <= 0:
				log.warning("tasks still run: other processes may begin what they run, too")
				self._calls.abandon()
				return
			self._join_one(JOIN_S if left is None else min(JOIN_S, left))
			time.sleep(0.001)
		while self._join_one(JOIN_S):
			pass

	def _join_one(self, seconds: float) -> bool:
		"""Waits for a worker, briefly: a timeout may take that worker out of the set. False: none is alive."""
		with self._starts:
			alive = [thread for thread in self._workers if thread.is_alive()]
		if alive:
			alive[0].join(seconds)
		return bool(alive)

	def _start_worker(self, replaced: Optional[threading.Thread] = None) -> None:
		thread = threading.Thread(target=self._work, name="hwt_store worker", daemon=True)
		with self._starts:
			if replaced is not None:
				self._workers.discard(replaced)
			self._workers.add(thread)
			try:
				thread.start()
			except BaseException:
				self._workers.discard(thread)
				raise

	def _work(self) -> None:
		poll = select.poll()
		poll.register(self._fd, select.POLLIN)
		me = threading.current_thread()
		while me in self._workers:
			got: Union[Run, int] = errno.EAGAIN
			with self._turn:
				while got == errno.EAGAIN:
					poll.poll()
					try:
						got = self._calls.next()
					except Exception as error:  # no memory
						say(logging.ERROR, "no run is begun for a second", error=error)
						time.sleep(1)
			if not isinstance(got, Run):
				return
			self._execute(got)

	def _execute(self, run: Run) -> None:
		error: Optional[BaseException] = None
		timer: Optional[threading.Timer] = None
		try:
			kind = self._calls.kind_of(run)
			if kind.timeout is not None:
				timer = threading.Timer(kind.timeout, self._time_out, (run, threading.current_thread()))
				timer.daemon = True
				timer.start()
			answer = kind.task(run)
			if answer is not None and inspect.isawaitable(answer):
				if inspect.iscoroutine(answer):
					answer.close()
				raise TypeError(f"the task has returned {type(answer).__name__}, which nobody awaits: take open")
		except BaseException as raised:
			error = raised
		if timer is not None:
			timer.cancel()
		self._calls.end(run, error)

	def _time_out(self, run: Run, thread: threading.Thread) -> None:
		"""The thread goes on, and leaves when its task returns; another one is what the store has in its place."""
		if self._calls.end(run, TIMED_OUT) and thread in self._workers:
			self._start_worker(thread)

	# Timeouts.

	def put(
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
		return self._calls.put(
			Put(kind, data, delay, at, every, cron, zone, key, group, priority, grace, spread, if_exists)
		)

	def put_many(self, puts: Iterable[Put]) -> List[int]:
		return self._calls.put_many(puts)

	def cancel(
		self,
		id: Optional[int] = None,
		*,
		kind: Optional[str] = None,
		key: Optional[str] = None,
		group: Optional[str] = None,
	) -> Outcome:
		return self._calls.cancel(id, kind, key, group)

	def cancel_all(
		self, kind: str, *, group: Group = ANY, states: Optional[Collection[State]] = None
	) -> int:
		return self._calls.cancel_all(kind, group, states)

	def reschedule(
		self,
		id: Optional[int] = None,
		*,
		kind: Optional[str] = None,
		key: Optional[str] = None,
		group: Optional[str] = None,
		delay: Optional[Span] = None,
		at: Optional[datetime] = None,
	) -> Outcome:
		return self._calls.reschedule(id, kind, key, group, delay, at)

	def reschedule_all(
		self,
		kind: str,
		*,
		group: Group = ANY,
		states: Optional[Collection[State]] = None,
		delay: Optional[Span] = None,
		at: Optional[datetime] = None,
	) -> int:
		return self._calls.reschedule_all(kind, group, states, delay, at)

	def get(
		self,
		id: Optional[int] = None,
		*,
		kind: Optional[str] = None,
		key: Optional[str] = None,
		group: Optional[str] = None,
	) -> Optional[Info]:
		return self._calls.get(id, kind, key, group)

	def each(
		self,
		kind: str,
		*,
		group: Group = ANY,
		states: Optional[Collection[State]] = None,
		with_data: bool = True,
	) -> Iterator[Info]:
		return iter(Pages(self._calls, kind, group, states, with_data))

	# Groups and kinds.

	def limit(
		self,
		kind: str,
		group: Optional[str] = None,
		*,
		running: int = 0,
		start_every: Optional[Span] = None,
		burst: int = 0,
	) -> None:
		self._calls.limit(kind, group, running, start_every, burst)

	def unlimit(self, kind: str, group: Optional[str] = None) -> None:
		self._calls.unlimit(kind, group)

	def pause(self, kind: str, group: Optional[str] = None) -> None:
		self._calls.pause(kind, group)

	def resume(self, kind: str, group: Optional[str] = None) -> None:
		self._calls.resume(kind, group)

	def groups(self, kind: str) -> List[GroupInfo]:
		return self._calls.groups(kind)

	def kinds(self) -> List[KindInfo]:
		return self._calls.kinds()

	def remove_kind(self, kind: str) -> None:
		self._calls.remove_kind(kind)

	def stats(self, kind: Optional[str] = None) -> Stats:
		return self._calls.stats(kind)

	def prometheus(self) -> str:
		return self._calls.prometheus()
