# SPDX-License-Identifier: BSD-2-Clause
"""A run of a task, and how it ends."""

import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any, Optional

from . import _lib
from ._lib import Span, ffi, lib
from ._values import decode

if TYPE_CHECKING:
	from ._calls import Calls


def words_of(error: BaseException) -> str:
	"""The text of an exception, whatever its own methods do: str, else repr, else its class alone."""
	name = type(error).__name__
	try:
		words = str(error)
		return f"{name}: {words}" if words else name
	except BaseException:
		pass
	try:
		return f"{name}: {error!r}"
	except BaseException:
		return name


def c_text(words: str) -> bytes:
	"""A text of any characters, as the library takes it."""
	return words.encode("utf-8", "replace").replace(b"\0", b"?")


class Run:
	"""
	What a task is given. It is valid until the task returns.

	A task that returns, whatever, has done its work; one that raises has failed, is tried again after a back-off, and
	the exception is its error. `again`, `give_up` and `end_series` say something else: the last of these calls counts,
	unless the task raises.
	"""

	__slots__ = (
		"id", "kind", "group", "key", "raw", "due", "attempt", "missed",
		"_calls", "_handle", "_lock", "_c", "_answer")  # fmt: skip

	id: int  #: never used again: a token for what must not be done twice
	kind: str
	group: Optional[str]
	key: Optional[str]
	raw: bytes  #: the data as they are stored
	due: datetime  #: when it was due, in UTC
	attempt: int  #: 1, 2, ...
	missed: int  #: of a series: times that were merged into this run

	def __init__(self, c: Any, calls: "Calls", handle: Any) -> None:
		self.id = c.id
		self.kind = _lib.text(c.kind)
		self.group = _lib.text_or_none(c.group)
		self.key = _lib.text_or_none(c.key)
		self.raw = ffi.buffer(c.data, c.len)[:] if c.len else b""
		self.due = _lib.moment(c.due_us)
		self.attempt = c.attempt
		self.missed = c.missed
		self._calls = calls
		self._handle = handle  # of the store that has handed it out
		self._lock = threading.Lock()  # of _c
		self._c = c  # None once its end is sent: the library frees it
		self._answer = 0

	def __repr__(self) -> str:
		return f"<Run {self.id} of {self.kind!r}, key {self.key!r}, attempt {self.attempt}>"

	@property
	def data(self) -> Any:
		"""The data as JSON; None if there are none. Raises ValueError if they are something else: see raw."""
		return decode(self.raw)

	def is_mine(self) -> bool:
		"""True while no other process has begun this timeout: a long task asks before each step that hurts twice."""
		try:
			return bool(self._call(lib.hwt_store_is_mine))
		except RuntimeError:
			return False

	def again(self, delay: Span = 0) -> None:
		"""It runs again after delay. That is no failure and no attempt. A series: at its next time if that is sooner."""
		self._answer = self._call(lib.hwt_store_again, _lib.nanoseconds(delay, "delay"))

	def give_up(self, why: str) -> None:
		"""It has failed for good, with this text, whatever attempts are left."""
		words = words_of(why) if isinstance(why, BaseException) else str(why)
		self._answer = self._call(lib.hwt_store_give_up, c_text(words))

	def end_series(self) -> None:
		"""It is done, and no next run follows."""
		self._answer = self._call(lib.hwt_store_end_series)

	def _call(self, function: Any, *arguments: Any) -> Any:
		return self._calls.of_run(self, self._locked, function, *arguments)

	def _locked(self, function: Any, *arguments: Any) -> Any:
		with self._lock:
			if self._c is None:
				raise RuntimeError("this run has ended")
			return function(self._c, *arguments)

	def _end(self, why: Optional[str], waits: bool) -> Optional[int]:
		"""
		What hwt_store_end returns, which frees the run; with why it has failed. None: it had ended, or would wait and may
		not. Calls.end calls this.
		"""
		try:
			words = c_text(why) if why is not None else b""
		except MemoryError:  # the end is sent all the same
			words = b"no memory for the text of the error"
		with self._lock:
			c = self._c
			if c is None or not (waits or lib.hwt_store_is_mine(c)):
				return None
			self._c = None
			answer = self._answer if why is None else lib.hwt_store_fail(c, words)
		return int(lib.hwt_store_end(c, answer))
