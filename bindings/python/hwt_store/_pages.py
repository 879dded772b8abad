# SPDX-License-Identifier: BSD-2-Clause
"""Lists of timeouts: the library calls back for each row, and a program wants to iterate."""

import threading
from typing import Any, Collection, Iterator, List, Optional

from . import _lib
from ._calls import Calls
from ._lib import NULL, ffi, lib
from ._values import Group, Info, State, info_of

PAGE = 500  # rows that are handed over at a time
AHEAD = 4  # pages that are read ahead


@ffi.callback("bool(void *, const hwt_store_info *)")  # type: ignore[misc]
def _each(ctx: Any, info: Any) -> bool:
	pages: Pages = ffi.from_handle(ctx)
	try:
		return pages.add(info_of(info, ffi.buffer(info.data, info.len)[:] if info.data != NULL else b""))
	except BaseException as error:  # which the library cannot pass on
		pages.error = error
		return False


class Pages:
	"""
	The rows of `each`, in pages. A thread of this object reads them; the first `get` starts that thread.

	It waits while AHEAD pages are unread, until this object or the store is closed.
	"""

	def __init__(
		self, calls: Calls, kind: str, group: Group, states: Optional[Collection[State]], with_data: bool
	) -> None:
		self._keep: List[Any] = []
		self._which = calls.which(self._keep, kind=kind, group=group, states=states, all=True)
		if not states:
			self._which.states = sum(1 << state.value for state in State)
		if with_data:
			self._which.states |= _lib.WITH_DATA
		self._calls = calls
		self.error: Optional[BaseException] = None
		self._set_up()

	def _set_up(self) -> None:
		self._changed = threading.Condition()
		self._pages: List[List[Info]] = []
		self._page: List[Info] = []
		self._begun = self._over = self._unwanted = False

	def _read(self) -> None:
		ctx = ffi.new_handle(self)
		try:
			self._calls.check(lib.hwt_store_each_ex, self._which, _each, ctx)
		except BaseException as error:
			self.error = self.error or error
		self._calls.readers.discard(self)
		with self._changed:
			self._pages.append(self._page)
			self._over = True
			self._changed.notify_all()

	def add(self, info: Info) -> bool:
		"""Of the reading thread. False: no more are wanted."""
		if len(self._page) == PAGE:
			with self._changed:
				self._changed.wait_for(lambda: len(self._pages) < AHEAD or self._unwanted)
				self._pages.append(self._page)
				self._changed.notify_all()
			self._page = []
		self._page.append(info)
		return not self._unwanted

	def get(self) -> Optional[List[Info]]:
		"""The next; None: there are no more."""
		self._calls.check_open()
		with self._changed:
			if not self._begun:
				self._begun = True
				self._calls.readers.add(self)
				threading.Thread(target=self._read, name="hwt_store each", daemon=True).start()
			self._changed.wait_for(lambda: self._pages or self._over or self._unwanted)
			if self._unwanted:
				_lib.invalid("the list was closed, with its store or by a fork")
			if self._pages:
				self._changed.notify_all()
				return self._pages.pop(0)
			if self.error is not None:
				raise self.error
			return None

	def close(self) -> None:
		"""No more are wanted. Does not wait."""
		with self._changed:
			self._unwanted = True
			self._pages.clear()
			self._changed.notify_all()

	def lose(self) -> None:
		"""In a forked child, which has not the thread that reads."""
		self._set_up()
		self._begun = self._unwanted = True

	def __iter__(self) -> Iterator[Info]:
		try:
			while True:
				page = self.get()
				if page is None:
					return
				yield from page
		finally:
			self.close()
