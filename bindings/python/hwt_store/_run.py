# SPDX-License-Identifier: BSD-2-Clause
"""A run of a task, and how it ends."""

from datetime import datetime
from typing import Any, Optional

from . import _lib
from ._lib import Span, ffi, lib
from ._values import decode


class Run:
	"""
	What a task is given. It is valid until the task returns.

	A task that returns, whatever, has done its work; one that raises has failed, is tried again after a back-off, and
	the exception is its error. `again`, `give_up` and `end_series` say something else: the last of these calls counts,
	unless the task raises.
	"""

	__slots__ = ("id", "kind", "group", "key", "raw", "due", "attempt", "missed", "_c", "_answer")

	id: int  #: never used again: a token for what must not be done twice
	kind: str
	group: Optional[str]
	key: Optional[str]
	raw: bytes  #: the data as they are stored
	due: datetime  #: when it was due, in UTC
	attempt: int  #: 1, 2, ...
	missed: int  #: of a series: times that were merged into this run

	def __init__(self, c: Any) -> None:
		self.id = c.id
		self.kind = _lib.text(c.kind)
		self.group = _lib.text_or_none(c.group)
		self.key = _lib.text_or_none(c.key)
		self.raw = ffi.buffer(c.data, c.len)[:] if c.len else b""
		self.due = _lib.moment(c.due_us)
		self.attempt = c.attempt
		self.missed = c.missed
		self._c = c
		self._answer = 0

	def __repr__(self) -> str:
		return f"<Run {self.id} of {self.kind!r}, key {self.key!r}, attempt {self.attempt}>"

	@property
	def data(self) -> Any:
		"""The data as JSON; None if there are none. Raises ValueError if they are something else: see raw."""
		return decode(self.raw)

	def is_mine(self) -> bool:
		"""True while no other process has begun this timeout: a long task asks before each step that hurts twice."""
		return self._c is not None and bool(lib.hwt_store_is_mine(self._c))

	def again(self, delay: Span = 0) -> None:
		"""It runs again after delay. That is no failure and no attempt. A series: at its next time if that is sooner."""
		self._answer = lib.hwt_store_again(self._running(), _lib.nanoseconds(delay, "delay"))

	def give_up(self, why: str) -> None:
		"""It has failed for good, with this text, whatever attempts are left."""
		self._answer = lib.hwt_store_give_up(self._running(), _lib.chars(why, []))

	def end_series(self) -> None:
		"""It is done, and no next run follows."""
		self._answer = lib.hwt_store_end_series(self._running())

	def _failed(self, error: BaseException) -> None:
		words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
		self._answer = lib.hwt_store_fail(self._running(), words.encode("utf-8", "replace").replace(b"\0", b"?"))

	def _running(self) -> Any:
		if self._c is None:
			raise RuntimeError("this run has ended")
		return self._c
