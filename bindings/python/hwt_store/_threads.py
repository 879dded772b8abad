# SPDX-License-Identifier: BSD-2-Clause
"""A store for programs of threads."""

import errno
import os
import select
import signal
import threading
import time
from datetime import datetime
from typing import Any, Callable, Collection, Dict, Iterable, Iterator, List, Optional, Union

from ._base import Base
from ._calls import log
from ._lib import Span
from ._pages import Pages
from ._run import Run
from ._values import ANY, Group, Info, KindInfo, Outcome, Put, State, Stats


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
	) -> None:
		if threads < 1:
			raise ValueError(f"{threads} threads run nothing")
		super().__init__(url, name, schema, lease, threads)
		self._threads = threads
		self._turn = threading.Lock()  # of the thread that waits for the next run
		self._wake = -1  # to write to: run() returns
		self._stopping = False

	def __enter__(self) -> "ThreadStore":
		return self

	def __exit__(self, *_: Any) -> None:
		self.close()

	def close(self) -> None:
		if self._wake >= 0:
			raise RuntimeError("run() is under way: stop() lets it return")
		self._calls.close()

	# Running.

	def run(self, *, signals: bool = True, stop_within: Optional[float] = None) -> None:
		"""
		Runs what is due, on threads, until `stop` or a signal comes; returns when what runs then has ended.

		signals      SIGTERM and SIGINT stop it, if this is the main thread. A second one ends the process
		stop_within  seconds that it waits for what runs; after that other processes may begin it, too
		"""
		if self._wake >= 0:
			raise RuntimeError("run() is under way")
		pipe, self._wake = os.pipe()
		handlers: Dict[int, Any] = {}
		try:
			self._stopping = False
			if signals and threading.current_thread() is threading.main_thread():
				for number in (signal.SIGTERM, signal.SIGINT):
					handlers[number] = signal.signal(number, self._signalled)
			fd = self._calls.begin()
			threads = [
				threading.Thread(target=self._work, args=(fd,), name=f"hwt_store {n}", daemon=True)
				for n in range(self._threads)
			]
			for thread in threads:
				thread.start()
			try:
				os.read(pipe, 1)
			finally:
				self._halt(threads, stop_within)
		finally:
			for handled, handler in handlers.items():
				signal.signal(handled, handler)
			os.close(pipe)
			wake, self._wake = self._wake, -1
			os.close(wake)

	def stop(self) -> None:
		"""Lets run() return. On any thread, in tasks too."""
		if self._wake >= 0:
			os.write(self._wake, b"s")

	def _signalled(self, number: int, _frame: Any) -> None:
		if self._stopping:
			signal.signal(number, signal.SIG_DFL)
			os.kill(os.getpid(), number)
		self._stopping = True
		self.stop()

	def _halt(self, threads: List[threading.Thread], stop_within: Optional[float]) -> None:
		self._stopping = True
		until = None if stop_within is None else time.monotonic() + stop_within
		while not self._calls.try_stop():
			for thread in threads:
				thread.join(None if until is None else max(0.0, until - time.monotonic()))
			if any(thread.is_alive() for thread in threads):
				log.warning("tasks still run: other processes may begin what they run, too")
				self._calls.abandon()
				return
		for thread in threads:
			thread.join()

	def _work(self, fd: int) -> None:
		poll = select.poll()
		poll.register(fd, select.POLLIN)
		while True:
			got: Union[Run, int] = errno.EAGAIN
			with self._turn:
				while got == errno.EAGAIN:
					poll.poll()
					got = self._calls.next()
			if not isinstance(got, Run):
				return
			self._execute(got)

	def _execute(self, run: Run) -> None:
		try:
			self._calls.kind_of(run).task(run)
		except BaseException as error:
			log.error("%r failed", run, exc_info=True)
			run._failed(error)
		self._calls.end(run)

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
		if_exists: str = "error",
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

	def kinds(self) -> List[KindInfo]:
		return self._calls.kinds()

	def remove_kind(self, kind: str) -> None:
		self._calls.remove_kind(kind)

	def stats(self, kind: Optional[str] = None) -> Stats:
		return self._calls.stats(kind)

	def prometheus(self) -> str:
		return self._calls.prometheus()
