# SPDX-License-Identifier: BSD-2-Clause
"""Lists of timeouts: the library calls back for each row, and a program wants to iterate."""

import queue
import threading
from typing import Any, Collection, Iterator, List, Optional, Union

from . import _lib
from ._calls import Calls
from ._lib import NULL, ffi, lib
from ._values import Group, Info, State, info_of

PAGE = 500  # rows that are handed over at a time


@ffi.callback("bool(void *, const hwt_store_info *)")  # type: ignore[misc]
def _each(ctx: Any, info: Any) -> bool:
	pages: Pages = ffi.from_handle(ctx)
	return pages.add(info)


class Pages:
	"""What `each` reads, page by page, on a thread of its own."""

	def __init__(
		self, calls: Calls, kind: str, group: Group, states: Optional[Collection[State]], with_data: bool
	) -> None:
		self._keep: List[Any] = []
		self._which = calls.which(self._keep, kind=kind, group=group, states=states, all=True)
		if not states:
			self._which.states = sum(1 << state.value for state in State)
		if with_data:
			self._which.states |= _lib.WITH_DATA
		self._page: List[Info] = []
		self._pages: "queue.Queue[Union[List[Info], BaseException, None]]" = queue.Queue(4)
		self._over = False
		threading.Thread(target=self._read, args=(calls,), name="hwt_store each", daemon=True).start()

	def _read(self, calls: Calls) -> None:
		ctx = ffi.new_handle(self)
		last: Optional[BaseException] = None
		try:
			calls.check(lib.hwt_store_each_ex, self._which, _each, ctx)
		except BaseException as error:
			last = error
		self._pages.put(self._page)
		self._pages.put(last)

	def add(self, info: Any) -> bool:
		if len(self._page) == PAGE:
			self._pages.put(self._page)
			self._page = []
		self._page.append(info_of(info, ffi.buffer(info.data, info.len)[:] if info.data != NULL else b""))
		return not self._over

	def get(self) -> Optional[List[Info]]:
		"""The next; None: there are no more."""
		page = self._pages.get()
		if isinstance(page, BaseException):
			raise page
		return page

	def close(self) -> None:
		"""No more are wanted. The thread hands over three things at most yet, and for these there is room."""
		self._over = True
		while not self._pages.empty():
			self._pages.get()

	def __iter__(self) -> Iterator[Info]:
		try:
			while True:
				page = self.get()
				if page is None:
					return
				yield from page
		finally:
			self.close()
