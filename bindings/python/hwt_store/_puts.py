# SPDX-License-Identifier: BSD-2-Clause
"""
Puts of many coroutines, which share transactions: what is put during a commit goes into the next.

Only those without a key: one with a key may wait for another program's transaction, and the others would wait behind it.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, List, Tuple, Union

from . import _lib
from ._calls import Calls
from ._values import Put

MOST = 500  # puts in a transaction

_Result = Union[int, Exception]
_Waiting = Tuple[Put, "asyncio.Future[int]"]


class Puts:
	def __init__(self, calls: Calls, pool: ThreadPoolExecutor) -> None:
		self._calls = calls
		self._pool = pool
		self._lock = threading.Lock()
		self._waiting: List[_Waiting] = []
		self._busy = False  # a thread puts

	async def put(self, put: Put) -> int:
		future: "asyncio.Future[int]" = asyncio.get_running_loop().create_future()
		with self._lock:
			self._waiting.append((put, future))
			busy, self._busy = self._busy, True
		if not busy:
			try:
				self._pool.submit(self._put_waiting)
			except BaseException as error:  # no thread can be started
				self._fail([], error)
		return await future

	def _fail(self, batch: List[_Waiting], error: BaseException) -> None:
		"""Fails the batch and all puts that wait; the next put starts a thread again."""
		with self._lock:
			more, self._waiting = self._waiting, []
			self._busy = False
		result = error if isinstance(error, Exception) else RuntimeError(repr(error))
		for _, future in batch + more:
			_tell(future.get_loop(), [(future, result)])

	def _put_waiting(self) -> None:
		batch: List[_Waiting] = []
		try:
			while True:
				with self._lock:
					batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
					if not batch:
						self._busy = False
						return
				self._put_batch(batch)
		except BaseException as error:  # no memory
			self._fail(batch, error)

	def _put_batch(self, batch: List[_Waiting]) -> None:
		results = self._put_some([put for put, _ in batch])
		if any(isinstance(result, _lib.Unavailable) for result in results):
			# Nor is what came meanwhile put: each would wait for the database in its turn.
			with self._lock:
				more, self._waiting = self._waiting, []
			(away,) = [result for result in results if isinstance(result, _lib.Unavailable)][:1]
			batch += more
			results += [_again(away) for _ in more]
		of_loops: Dict[asyncio.AbstractEventLoop, List[Tuple["asyncio.Future[int]", _Result]]] = {}
		for (_, future), result in zip(batch, results):
			of_loops.setdefault(future.get_loop(), []).append((future, result))
		for loop, answers in of_loops.items():
			_tell(loop, answers)

	def _put_some(self, puts: List[Put]) -> List[_Result]:
		"""All in one transaction; if that is refused in two, as only some are to blame."""
		try:
			return [self._calls.put(puts[0])] if len(puts) == 1 else list(self._calls.put_many(puts))
		except _lib.Unknown as error:
			return [_lib.Unknown(error.errno, str(error), id) for id in error.ids or (error.id,)]
		except _lib.Unavailable as error:
			return [_again(error) for _ in puts]
		except Exception as error:
			if len(puts) == 1:
				return [error]
		half = len(puts) // 2
		results = self._put_some(puts[:half])
		away = next((result for result in results if isinstance(result, _lib.Unavailable)), None)
		return results + ([_again(away) for _ in puts[half:]] if away else self._put_some(puts[half:]))


def _again(error: _lib.Error) -> _lib.Error:
	"""The same, for another coroutine."""
	return type(error)(error.errno, str(error), error.id)


def _tell(loop: asyncio.AbstractEventLoop, answers: List[Tuple["asyncio.Future[int]", _Result]]) -> None:
	try:
		loop.call_soon_threadsafe(_answer, answers)
	except RuntimeError:  # it is closed, so nobody waits
		pass


def _answer(answers: List[Tuple["asyncio.Future[int]", _Result]]) -> None:
	for future, result in answers:
		if future.done():  # it was cancelled
			continue
		if isinstance(result, Exception):
			future.set_exception(result)
		else:
			future.set_result(result)
