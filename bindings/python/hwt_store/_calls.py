# SPDX-License-Identifier: BSD-2-Clause
"""The calls of a store, which wait for the database: ThreadStore offers them as they are, Store moves them to threads."""

import errno
import logging
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Callable, Collection, Dict, Iterable, List, Optional, Set, Union

from . import _lib
from ._lib import NULL, Span, ffi, lib
from ._run import Run, c_text, words_of
from ._values import Default, Ended, Group, GroupInfo, Groups, Info, KindInfo, Outcome, Put, State, Stats
from ._values import encoder, ended_of, fill_spec, group_info_of, info_of, kind_info_of, stats_of

log = logging.getLogger("hwt_store")


TIMED_OUT = "timed out"


def say(level: int, words: str, *arguments: Any, error: Optional[BaseException] = None) -> None:
	"""Logs, where nothing may be raised: a program's filters and handlers can fail."""
	try:
		log.log(level, words, *arguments, exc_info=error)
	except Exception:
		pass


@ffi.callback("void(void *, const char *)")  # type: ignore[misc]
def _warn(_ctx: Any, message: Any) -> None:
	say(logging.WARNING, "%s", _lib.text(message))


@ffi.callback("bool(void *, const hwt_store_kind_info *)")  # type: ignore[misc]
def _each_kind(ctx: Any, info: Any) -> bool:
	kinds: List[KindInfo] = ffi.from_handle(ctx)
	kinds.append(kind_info_of(info))
	return True


@ffi.callback("bool(void *, const hwt_store_group_info *)")  # type: ignore[misc]
def _each_group(ctx: Any, info: Any) -> bool:
	groups: List[GroupInfo] = ffi.from_handle(ctx)
	groups.append(group_info_of(info))
	return True


@ffi.callback("void(void *, const hwt_store_ended *)")  # type: ignore[misc]
def _ended(ctx: Any, c: Any) -> None:
	listeners: List[Callable[[Ended], Any]] = ffi.from_handle(ctx)
	try:
		ended = ended_of(c)
	except BaseException as error:
		say(logging.ERROR, "on_end has failed", error=error)
		return
	for listener in listeners:
		try:
			listener(ended)
		except BaseException as error:
			say(logging.ERROR, "on_end has failed", error=error)


@dataclass(frozen=True)
class Kind:
	"""A kind with its task."""

	name: str
	task: Callable[[Run], Any]
	group_limit: Optional[int]
	concurrency: int
	max_attempts: int
	backoff: Span
	backoff_max: Span
	at_most_once: bool
	shards: int
	timeout: Optional[float]  # in seconds


class Calls:
	"""A store that is open."""

	def __init__(
		self, url: str, name: Optional[str], schema: Optional[str], lease: Optional[Span], default: Default
	) -> None:
		self._to_json = encoder(default)
		self._settings = (url, name, schema, lease)
		self._kinds: Dict[str, Kind] = {}
		self._listeners: List[Callable[[Ended], Any]] = []
		self._listeners_handle = ffi.new_handle(self._listeners)
		self.closed = False
		self.reset()
		self._handle = self._open()

	def reset(self) -> None:
		"""As in a forked child, where the parent's store is of no use: the next call opens one."""
		self._lock = threading.Lock()
		self._nobody = threading.Condition(self._lock)
		self._calls = 0  # that use the handle
		self._awaited = False  # somebody has waited for their end
		self._handle = NULL
		self._registered: Dict[str, Kind] = {}
		self.started = False
		for reader in getattr(self, "readers", ()):
			reader.lose()
		self.readers: Set[Any] = set()  # the Pages that read

	def _open(self) -> Any:
		url, name, schema, lease = self._settings
		keep: List[Any] = []
		config = ffi.new("hwt_store_config *")
		config.size = ffi.sizeof("hwt_store_config")
		config.name = _lib.chars(name, keep)
		config.schema = _lib.chars(schema, keep)
		config.threads = 1  # they would run tasks in C
		config.lease_ns = _lib.nanoseconds(lease, "lease")
		config.warn = _warn
		if self._listeners:  # else no end waits for Python
			config.ended = _ended
			config.ended_ctx = self._listeners_handle
		store = ffi.new("hwt_store **")
		error = ffi.new("char[1024]")
		code = lib.hwt_store_open(store, _lib.chars(url, keep), config, error, 1024)
		if code != 0:
			_lib.fail(code, _lib.text(error))
		return store[0]

	def on_end(self, listener: Callable[[Ended], Any]) -> None:
		"""The first listener makes the next call open the database again: the listeners are a setting of an open."""
		with self._lock:
			while True:
				self.check_open()
				if self.started:
					raise RuntimeError("on_end goes before run()")
				if self._listeners or self._calls == 0:
					break
				self._awaited = True
				self._nobody.wait()  # without the lock: run() may be called meanwhile
			self._listeners.append(listener)
			if len(self._listeners) > 1:
				return
			handle, self._handle = self._handle, NULL
			self._registered = {}
		if handle != NULL:
			lib.hwt_store_close(handle)

	# The handle, which a close waits for.

	def check_open(self) -> None:
		if self.closed:
			_lib.invalid("the store is closed")

	def __enter_call(self) -> Any:
		with self._lock:
			self.check_open()
			if self._handle == NULL:
				self._handle = self._open()
			self._calls += 1
			return self._handle

	def __leave_call(self) -> None:
		with self._lock:
			self._calls -= 1
			if self._calls == 0 and self._awaited:
				self._nobody.notify_all()

	def _call(self, function: Any, *arguments: Any) -> int:
		"""What a function of the library returns."""
		handle = self.__enter_call()
		try:
			code: int = function(handle, *arguments)
			return code
		finally:
			self.__leave_call()

	def of_run(self, run: Run, function: Callable[..., Any], *arguments: Any) -> Any:
		"""
		What function returns, which uses a run; a close waits meanwhile. Raises RuntimeError if the store that has handed
		out the run is not open any more.
		"""
		with self._lock:
			if self.closed or self._handle != run._handle:
				raise RuntimeError("this run has ended")
			self._calls += 1
		try:
			return function(*arguments)
		finally:
			self.__leave_call()

	def check(self, function: Any, *arguments: Any) -> None:
		"""The same, raising what it returns."""
		code = self._call(function, *arguments)
		if code != 0:
			_lib.fail(code)

	def close(self, patience_s: Optional[float] = None) -> None:
		"""Frees it, unless calls are under way for so long; None: waits for their end."""
		with self._lock:
			if self.closed:
				return
			self.closed = True
			for reader in list(self.readers):
				reader.close()
			self._awaited = True
			if not self._nobody.wait_for(lambda: self._calls == 0, patience_s):
				return
			handle, self._handle = self._handle, NULL
		if handle != NULL:
			_lib.check(lib.hwt_store_close(handle))

	# Kinds and their runs.

	def add_kind(self, kind: Kind) -> None:
		if self.started:
			raise RuntimeError(f"the kind {kind.name!r} comes too late: run() has begun")
		if kind.name in self._kinds:
			raise ValueError(f"the kind {kind.name!r} has a task already")
		self._kinds[kind.name] = kind

	def names(self) -> List[str]:
		"""Of the kinds that have a task here."""
		return list(self._kinds)

	def kind_of(self, run: Run) -> Kind:
		return self._kinds[run.kind]

	def register(self) -> None:
		for kind in [kind for name, kind in self._kinds.items() if name not in self._registered]:
			keep: List[Any] = []
			c = ffi.new("hwt_store_kind *")
			c.size = ffi.sizeof("hwt_store_kind")
			c.name = _lib.chars(kind.name, keep)
			c.mode = _lib.AT_MOST_ONCE if kind.at_most_once else 0
			c.shards = _lib.integer(kind.shards, "shards", 0, _lib.UINT32_MAX)
			c.concurrency = _lib.integer(kind.concurrency, "concurrency", 1, _lib.UINT32_MAX)
			c.max_attempts = _lib.integer(kind.max_attempts, "max_attempts", 0, _lib.UINT32_MAX)
			c.backoff_ns = _lib.nanoseconds(kind.backoff, "backoff")
			c.backoff_max_ns = _lib.nanoseconds(kind.backoff_max, "backoff_max")
			c.flags = _lib.PULLED
			code = self._call(lib.hwt_store_register, c)
			if code == errno.EBUSY:  # another thread has registered all and begun
				return
			if code not in (0, errno.EEXIST):
				_lib.fail(code)
			self._registered[kind.name] = kind

	def begin(self) -> int:
		"""Starts it, and returns what to poll. Raises Busy while tasks run that the last run() has left."""
		if not self.try_stop():
			_lib.fail(errno.EBUSY)
		self.register()
		for kind in self._kinds.values():
			if kind.group_limit is not None:
				self.limit(kind.name, running=kind.group_limit)
		fd = ffi.new("int *")
		self.check(lib.hwt_store_fd, fd)
		self.check(lib.hwt_store_start)
		self.started = True
		return int(fd[0])

	def next(self) -> Union[Run, int]:
		"""A run that is due; errno.EAGAIN: there is none; errno.ECANCELED: it is being stopped."""
		c = ffi.new("hwt_store_run **")
		if not self.started:  # nor in a child
			return errno.ECANCELED
		try:
			code = self._call(lib.hwt_store_next, c)
		except _lib.Invalid:  # it was closed
			return errno.ECANCELED
		if code == 0:
			try:
				return Run(c[0], self, self._handle)
			except Exception as error:
				try:
					why = c_text(words_of(error))
				except MemoryError:
					why = b"the run cannot be read"
				self._call(lambda _handle: lib.hwt_store_end(c[0], lib.hwt_store_fail(c[0], why)))
				say(logging.ERROR, "a run cannot be read", error=error)
				return self.next()
		if code not in (errno.EAGAIN, errno.ECANCELED):
			_lib.fail(code)
		return code

	def end(self, run: Run, error: Union[BaseException, str, None] = None, waits: bool = True) -> bool:
		"""
		The way to the end of each run: it ends as it has answered, or with an error has failed. False: it had ended, or
		this call may not wait. It waits only if the run is no more this process's.
		"""
		why = words_of(error) if isinstance(error, BaseException) else error
		try:
			code = self.of_run(run, run._end, why, waits)
		except RuntimeError:
			code = errno.ESTALE
		if code is None:
			return False
		refused = _lib.text(lib.hwt_store_error()) if code else ""
		if why is not None:
			say(logging.ERROR, "%r failed%s", run, "" if isinstance(error, BaseException) else f": {why}",
				error=error if isinstance(error, BaseException) else None)  # fmt: skip
		if code == errno.ESTALE:
			say(logging.WARNING, "%r ended too late: the lease was lost, so it runs again, perhaps elsewhere", run)
		elif code != 0:
			say(logging.ERROR, "%r has ended, and the database refuses that: %s", run, refused)
		return True

	def try_stop(self) -> bool:
		"""Begins nothing more. True: it is stopped. False: runs are out; to be called again when they have ended."""
		code = self._call(lib.hwt_store_stop)
		if code not in (0, errno.EBUSY):
			_lib.fail(code)
		if code == 0:
			self.started = False
		return code == 0

	def abandon(self) -> None:
		"""Stops it whatever runs: that may be begun elsewhere now."""
		code = self._call(lib.hwt_store_stop_within, 1)
		if code not in (0, errno.ETIMEDOUT):
			_lib.fail(code)
		self.started = False

	# Timeouts. ThreadStore has their documentation.

	def put(self, put: Put) -> int:
		self.register()
		keep: List[Any] = []
		spec = ffi.new("hwt_store_spec *")
		fill_spec(spec, put, keep, self._to_json)
		id = ffi.new("int64_t *")
		code = self._call(lib.hwt_store_put, spec, id)
		if code != 0 and not (code == errno.EEXIST and put.if_exists in ("keep", "revive")):
			_lib.fail(code, id=id[0] or None)
		return int(id[0])

	def put_many(self, puts: Iterable[Put]) -> List[int]:
		self.register()
		puts = list(puts)
		keep: List[Any] = []
		specs = ffi.new("hwt_store_spec[]", len(puts))
		for spec, put in zip(specs, puts):
			if put.if_exists in ("keep", "revive"):
				_lib.invalid(f'if_exists "{put.if_exists}" is for a put of its own, as put_many puts all or none')
			fill_spec(spec, put, keep, self._to_json)
		ids = ffi.new("int64_t[]", len(puts))
		code = self._call(lib.hwt_store_put_many, specs, len(puts), ids)
		if code != 0:
			try:
				_lib.fail(code, id=ids[0] or None if puts else None)
			except _lib.Unknown as error:
				error.ids = list(ids)
				raise
		return list(ids)

	def which(
		self,
		keep: List[Any],
		id: Optional[int] = None,
		kind: Optional[str] = None,
		key: Optional[str] = None,
		group: Group = None,
		states: Optional[Collection[State]] = None,
		all: bool = False,
	) -> Any:
		c = ffi.new("hwt_store_which *")
		c.size = ffi.sizeof("hwt_store_which")
		for state in states or ():
			if not isinstance(state, State):
				raise TypeError(f"states are of hwt_store.State, as State.PENDING, not {state!r}")
			c.states |= 1 << state.value
		if id is not None:
			if kind is not None or key is not None or group is not None:
				_lib.invalid("an id alone, or a kind with a key and its group")
			c.id = _lib.integer(id, "id", 1, _lib.INT64_MAX)
			return c
		if kind is None or (key is None and not all):
			_lib.invalid("an id is needed, or a kind with a key")
		c.kind = _lib.chars(kind, keep)
		c.key = _lib.chars(key, keep)
		c.all = all
		if isinstance(group, Groups):
			c.any_group = True
		else:
			c.group = _lib.chars(group, keep)
		return c

	@staticmethod
	def _outcome(code: int) -> Outcome:
		if code in (0, errno.EBUSY, errno.ENOENT):
			return {0: Outcome.DONE, errno.EBUSY: Outcome.RUNNING, errno.ENOENT: Outcome.NONE}[code]
		_lib.fail(code)

	@staticmethod
	def _when(delay: Optional[Span], at: Optional[datetime]) -> Any:
		if at is not None and delay is not None:
			_lib.invalid("at and delay do not go together")
		if at is not None:
			return ffi.new("hwt_store_when *", (0, max(_lib.microseconds(at, "at"), 1)))[0]
		return ffi.new("hwt_store_when *", (_lib.nanoseconds(delay, "delay"), 0))[0]

	def cancel(self, id: Optional[int], kind: Optional[str], key: Optional[str], group: Optional[str]) -> Outcome:
		keep: List[Any] = []
		return self._outcome(self._call(lib.hwt_store_cancel_ex, self.which(keep, id, kind, key, group), NULL))

	def cancel_all(self, kind: str, group: Group, states: Optional[Collection[State]]) -> int:
		keep: List[Any] = []
		n = ffi.new("uint64_t *")
		self.check(lib.hwt_store_cancel_ex, self.which(keep, kind=kind, group=group, states=states, all=True), n)
		return int(n[0])

	def reschedule(
		self,
		id: Optional[int],
		kind: Optional[str],
		key: Optional[str],
		group: Optional[str],
		delay: Optional[Span],
		at: Optional[datetime],
	) -> Outcome:
		keep: List[Any] = []
		which = self.which(keep, id, kind, key, group, (State.PENDING, State.FAILED))
		return self._outcome(self._call(lib.hwt_store_reschedule_ex, which, self._when(delay, at), NULL))

	def reschedule_all(
		self,
		kind: str,
		group: Group,
		states: Optional[Collection[State]],
		delay: Optional[Span],
		at: Optional[datetime],
	) -> int:
		keep: List[Any] = []
		n = ffi.new("uint64_t *")
		which = self.which(keep, kind=kind, group=group, states=states, all=True)
		self.check(lib.hwt_store_reschedule_ex, which, self._when(delay, at), n)
		return int(n[0])

	def get(
		self, id: Optional[int], kind: Optional[str], key: Optional[str], group: Optional[str]
	) -> Optional[Info]:
		keep: List[Any] = []
		which = self.which(keep, id, kind, key, group)
		info = ffi.new("hwt_store_info *")
		room = 4096
		while True:
			info.size = ffi.sizeof("hwt_store_info")
			data = ffi.new("char[]", room)
			info.data = data
			info.data_room = room
			code = self._call(lib.hwt_store_get_ex, which, info)
			if code == errno.ENOENT:
				return None
			_lib.check(code)
			if info.len <= room:
				return info_of(info, ffi.buffer(data, info.len)[:])
			room = info.len

	def groups(self, kind: str) -> List[GroupInfo]:
		groups: List[GroupInfo] = []
		keep: List[Any] = []
		ctx = ffi.new_handle(groups)
		self.check(lib.hwt_store_each_group, _lib.chars(kind, keep), _each_group, ctx)
		return groups

	def kinds(self) -> List[KindInfo]:
		kinds: List[KindInfo] = []
		ctx = ffi.new_handle(kinds)
		self.check(lib.hwt_store_each_kind, _each_kind, ctx)
		return kinds

	def remove_kind(self, kind: str) -> None:
		keep: List[Any] = []
		self.check(lib.hwt_store_remove_kind, _lib.chars(kind, keep))

	def limit(
		self,
		kind: str,
		group: Optional[str] = None,
		running: int = 0,
		start_every: Optional[Span] = None,
		burst: int = 0,
	) -> None:
		keep: List[Any] = []
		limits = ffi.new("hwt_store_limits *")
		limits.size = ffi.sizeof("hwt_store_limits")
		limits.running = _lib.integer(running, "running", 0, _lib.UINT32_MAX)
		limits.burst = _lib.integer(burst, "burst", 0, _lib.UINT32_MAX)
		limits.start_every_ns = _lib.nanoseconds(start_every, "start_every")
		self.check(lib.hwt_store_limit, _lib.chars(kind, keep), _lib.chars(group, keep), limits)

	def unlimit(self, kind: str, group: Optional[str] = None) -> None:
		keep: List[Any] = []
		self.check(lib.hwt_store_limit, _lib.chars(kind, keep), _lib.chars(group, keep), NULL)

	def pause(self, kind: str, group: Optional[str] = None) -> None:
		keep: List[Any] = []
		self.check(lib.hwt_store_pause, _lib.chars(kind, keep), _lib.chars(group, keep))

	def resume(self, kind: str, group: Optional[str] = None) -> None:
		keep: List[Any] = []
		self.check(lib.hwt_store_resume, _lib.chars(kind, keep), _lib.chars(group, keep))

	def stats(self, kind: Optional[str] = None) -> Stats:
		keep: List[Any] = []
		out = ffi.new("hwt_store_stats *")
		out.size = ffi.sizeof("hwt_store_stats")
		if kind is None:
			self.check(lib.hwt_store_read_stats, out)
		else:
			self.check(lib.hwt_store_read_kind_stats, _lib.chars(kind, keep), out)
		return stats_of(out)

	def prometheus(self) -> str:
		room = 65536
		while True:
			page = ffi.new("char[]", room)
			length = self._call(lib.hwt_store_prometheus, page, room)
			if length < 0:
				_lib.fail(-length)
			if length < room:
				return _lib.text(page)
			room = length + 4096
