# SPDX-License-Identifier: BSD-2-Clause
"""What Store and ThreadStore have in common: how they are opened, and how kinds get their tasks."""

import atexit
import inspect
import os
import signal
import threading
import weakref
from typing import Any, Callable, Dict, Generic, Optional, Set, TypeVar

from . import _lib
from ._calls import Calls, Kind
from ._lib import Span
from ._values import Default, Ended

Task = TypeVar("Task", bound=Callable[..., Any])
Listener = TypeVar("Listener", bound=Callable[[Ended], Any])


class Base(Generic[Task]):
	def __init__(
		self,
		url: str,
		name: Optional[str],
		schema: Optional[str],
		lease: Optional[Span],
		default: Default,
		concurrency: int,
	) -> None:
		self._calls = Calls(url, name, schema, lease, default)
		self._concurrency = concurrency
		self._handlers: Dict[int, Any] = {}  # of signals, as they were before run()
		_stores.add(self)

	def _after_fork(self) -> None:
		"""In the child, whose signals are its own."""
		handlers, self._handlers = self._handlers, {}
		for number, handler in handlers.items():
			signal.signal(number, signal.SIG_DFL if handler is None else handler)
		if handlers:
			signal.set_wakeup_fd(-1)  # asyncio's, on which the parent hears
		self._calls.reset()

	def _check_task(self, task: Task) -> None:
		"""Raises TypeError for what cannot be run."""

	def kind(
		self,
		name: str,
		*,
		group_limit: Optional[int] = None,
		concurrency: Optional[int] = None,
		max_attempts: int = 20,
		backoff: Span = 1,
		backoff_max: Span = 3600,
		at_most_once: bool = False,
		shards: int = 8,
		timeout: Optional[Span] = None,
	) -> Callable[[Task], Task]:
		"""
		A decorator: the function runs what is put under this name. It takes a Run, and is left as it is.

		group_limit   at most so many runs of a group at once, in all processes together; set by each run()
		concurrency   at most so many runs at once in this process; None: 100, of a ThreadStore its threads
		max_attempts  starts, until it is FAILED and kept
		backoff       after the first failure, doubled each time up to backoff_max, with jitter
		at_most_once  what was begun when its process died is FAILED, and does not run again
		shards        in how many parts processes share the kind; the process that first makes it decides
		timeout       how long a run may take: then it fails with "timed out". asyncio cancels the task. A thread cannot be
		              stopped: its run has failed at once, its late result is dropped, another thread takes its place, and
		              run() does not wait for it
		"""

		def decorate(task: Task) -> Task:
			self._check_task(task)
			most = self._concurrency if concurrency is None else concurrency
			if most < 1:
				raise ValueError(f"a concurrency of {most} runs nothing")
			seconds = None if timeout is None else _lib.nanoseconds(timeout, "timeout") / 1e9
			if seconds is not None and seconds <= 0:
				raise ValueError(f"a timeout of {timeout} lets nothing run")
			self._calls.add_kind(
				Kind(name, task, group_limit, most, max_attempts, backoff, backoff_max, at_most_once, shards, seconds)
			)
			return task

		return decorate

	def on_end(self, listener: Listener) -> Listener:
		"""
		A decorator: the function is called with an Ended for each end that this process writes, after its commit. Before run().

		For logs, a history, numbers of one's own. A thread of the library makes the call, which holds up other ends; all
		have returned before run() does. What it raises is logged.
		"""
		if inspect.iscoroutinefunction(listener):
			raise TypeError(f"{listener!r} is a coroutine function, which nobody awaits: write def")
		self._calls.on_end(listener)
		return listener


_stores: "weakref.WeakSet[Base[Any]]" = weakref.WeakSet()


_masks: Dict[int, Set[Any]] = {}  # of threads that fork


def _before_fork() -> None:
	"""Blocks signals: the child must not run the parent's handlers before it has set its own."""
	if any(store._handlers for store in list(_stores)):
		_masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))


def _unmask() -> None:
	mask = _masks.pop(threading.get_ident(), None)
	if mask is not None:
		signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork() -> None:
	for store in list(_stores):
		store._after_fork()
	_unmask()


def _at_exit() -> None:
	for store in list(_stores):
		store._calls.close(patience_s=5)


os.register_at_fork(before=_before_fork, after_in_parent=_unmask, after_in_child=_after_fork)
atexit.register(_at_exit)
