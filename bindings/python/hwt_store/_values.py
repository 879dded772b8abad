# SPDX-License-Identifier: BSD-2-Clause
"""What is put, and what is read."""

import enum
import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, Literal, Optional, Tuple, Union, get_args

from . import _lib
from ._lib import Span, ffi, lib


class State(enum.Enum):
	"""What a timeout does."""

	PENDING = 1
	RUNNING = 2  #: also in a process that has died and is not taken over yet
	FAILED = 3  #: kept, and not tried again


class Became(enum.Enum):
	"""What became of a timeout whose run has ended."""

	DONE = 0  #: a series goes on at its next time
	AGAIN = 1  #: filed again: after a failure, or by run.again
	FAILED = 2
	TOO_LATE = 3  #: it did not start within its grace; a series goes on
	CANCELLED = 4  #: in its run
	REPLACED = 5  #: in its run
	LOST = 6  #: another process has it
	UNKNOWN = 7  #: the reply was lost: this is the last word on this run here


class Outcome(enum.Enum):
	"""What a cancel or a reschedule has found. Only DONE is true."""

	DONE = "done"
	RUNNING = "running"  #: it runs, or is about to; nothing was changed
	NONE = "none"  #: it was never put, is done, or was cancelled

	def __bool__(self) -> bool:
		return self is Outcome.DONE


class Groups(enum.Enum):
	"""The type of ANY."""

	ANY = "any"


#: All groups of a kind, and what has none.
ANY = Groups.ANY

#: A group by its name; None: what has no group; ANY: all.
Group = Union[str, None, Groups]

#: A put finds its key in use.
IfExists = Literal["error", "keep", "replace", "revive", "keep_due"]

#: What json.dumps calls for values that JSON has not.
Default = Optional[Callable[[Any], Any]]

_IF_EXISTS = {"error": 0, "keep": 0, "replace": _lib.REPLACE, "revive": _lib.REVIVE, "keep_due": _lib.KEEP_DUE}


@dataclass(frozen=True)
class Put:
	"""
	A timeout to put: the arguments of `Store.put`, for `Store.put_many`.

	kind       which task runs it
	data       for the task: a value of JSON, or bytes as they are; at most 1 MiB
	delay      from the database's now. Without it, at and cron: now
	at         a time, with its zone
	every      a series: again after each such period, on the grid of its first time
	cron       a series: "minute hour day month weekday", @hourly, @daily, @weekly, @monthly or @yearly
	zone       of cron, "Europe/Berlin"; None: UTC
	key        names it: unique in its kind and group as long as it is pending, running or failed
	group      whose it is: what is counted, limited, paused and shared fairly together
	priority   -100..100: within its group the larger starts first
	grace      how late a run may start; later a single one has failed, and a series goes on at its next time
	spread     of a series: due at a random moment within so long after each time
	if_exists  the key is in use: "error" raises Exists; "keep" leaves what is there; "replace" gives it all that this
	           put says, after its run if it runs; "revive" does so only if it has failed; "keep_due", of a series
	           that a program declares at each start, changes its settings and loses nothing that is due. These return its id
	"""

	kind: str
	data: Any = None
	delay: Optional[Span] = None
	at: Optional[datetime] = None
	every: Optional[Span] = None
	cron: Optional[str] = None
	zone: Optional[str] = None
	key: Optional[str] = None
	group: Optional[str] = None
	priority: int = 0
	grace: Optional[Span] = None
	spread: Optional[Span] = None
	if_exists: IfExists = "error"


@dataclass(frozen=True)
class Info:
	"""A timeout, as it was when it was read."""

	id: int
	kind: str
	group: Optional[str]
	key: Optional[str]
	state: State
	due: Optional[datetime]  #: None: a cron line without its first time yet
	attempt: int  #: starts so far
	every: Optional[timedelta]
	cron: Optional[str]
	zone: Optional[str]
	priority: int
	owner: Optional[str]  #: the process that holds it
	error: Optional[str]  #: of the last failure
	raw: bytes  #: the data as they are stored

	@property
	def data(self) -> Any:
		"""The data as JSON; None if there are none. Raises ValueError if they are something else: see raw."""
		return decode(self.raw)


#: Why what is due has not started: hwt_store_wait in hwt_store.h says what each means, and store.md what to do.
Reason = Literal[
	"starts",
	"thread",
	"cap",
	"rate",
	"turn",
	"pause",
	"elsewhere",
	"rules",
	"read",
	"zone",
	"row",
	"lease",
	"database",
	"nobody",
]
_REASONS: Tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True)
class Waiting:
	"""Timeouts that are due and have not started, for one reason."""

	count: int
	oldest: timedelta  #: how long ago the oldest was due


@dataclass(frozen=True)
class KindInfo:
	"""What the database knows of a kind."""

	kind: str
	at_most_once: bool
	shards: int
	paused: bool
	processes: int  #: that run it now
	failed: int  #: exact to 1000; 1001: more
	oldest_due: Optional[datetime]  #: of what is pending
	group_limit: int  #: of each group without limits of its own; 0: none
	group_start_every: Optional[timedelta]
	group_burst: int
	#: What is due and has not started, as all living processes told when they renewed their leases.  Each shard with
	#: something due that no living process holds is one more of "lease"; or "nobody" is 1 if none runs the kind.
	waiting: Dict[Reason, Waiting]
	waiting_age: Optional[timedelta]  #: since when the oldest of what they told is unchanged; None: they told none
	started_minute: int  #: runs that they started within the minute before they renewed their leases


@dataclass(frozen=True)
class GroupInfo:
	"""A group of a kind that has rules of its own."""

	kind: str
	group: str
	paused: bool
	limited: bool  #: with all limits 0: it has none, though the kind may have
	running: int
	start_every: Optional[timedelta]
	burst: int


@dataclass(frozen=True)
class Ended:
	"""An end that this process has written."""

	id: int
	kind: str
	key: Optional[str]
	group: Optional[str]
	due: datetime
	attempt: int
	missed: int
	became: Became
	error: Optional[str]
	started: Optional[datetime]  #: None: it never started here
	ended: datetime
	next_due: Optional[datetime]  #: its next time


@dataclass(frozen=True)
class Stats:
	"""Numbers of this process since the store was opened, as hwt_store_stats in hwt_store.h has them."""

	put: int
	begun: int
	done: int
	failed: int
	retried: int
	cancelled: int
	taken_over: int
	lost_leases: int
	reconnects: int
	round_trips: int
	window: int
	running: int
	shards_held: int
	lateness_max_ns: int
	lateness: Tuple[int, ...]
	set_aside: int
	overdue: int
	overdue_oldest_ns: int
	lateness_minute_max_ns: int
	trusted: int
	rescheduled: int
	waiting: Dict[Reason, Waiting]  #: now, in the shards that this process holds


def encoder(default: Default) -> Callable[[Any], str]:
	"""Writes a value as JSON; json.dumps would make an encoder for each value."""
	return json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=default).encode


def encode(data: Any, to_json: Callable[[Any], str]) -> bytes:
	if data is None:
		return b""
	if isinstance(data, (bytes, bytearray, memoryview)):
		return bytes(data)
	return to_json(data).encode()


def decode(raw: bytes) -> Any:
	return json.loads(raw) if raw else None


def _more_than_0(span: Span, what: str) -> int:
	ns = _lib.nanoseconds(span, what)
	if ns <= 0:
		_lib.invalid(f"{what}: {span} is not more than 0")
	return ns


_SPEC_SIZE = ffi.sizeof("hwt_store_spec")


def fill_spec(spec: Any, put: Put, keep: Any, to_json: Callable[[Any], str]) -> None:
	"""What a hwt_store_spec says, as long as the list keep is alive."""
	flags = _IF_EXISTS.get(put.if_exists)
	if flags is None:
		_lib.invalid(f"if_exists is one of {', '.join(_IF_EXISTS)}, not {put.if_exists!r}")
	if put.if_exists == "keep" and put.key is None:
		_lib.invalid('if_exists "keep" needs a key')
	spec.size = _SPEC_SIZE
	spec.kind = _lib.chars(put.kind, keep)
	raw = encode(put.data, to_json)
	if raw:
		data = ffi.from_buffer(raw)
		keep.append(data)
		spec.data = data
		spec.len = len(raw)
	if put.at is not None:
		if put.delay is not None:
			_lib.invalid("at and delay do not go together")
		spec.due_us = _lib.microseconds(put.at, "at")
		flags |= _lib.ABSOLUTE
	elif put.delay is not None:
		spec.delay_ns = _lib.nanoseconds(put.delay, "delay")
	spec.flags = flags
	if put.key is not None:
		spec.key = _lib.chars(put.key, keep)
	if put.group is not None:
		spec.group = _lib.chars(put.group, keep)
	if put.cron is not None:
		spec.schedule = _lib.chars(put.cron, keep)
	if put.zone is not None:
		spec.zone = _lib.chars(str(put.zone), keep)
	spec.priority = _lib.integer(put.priority, "priority", -100, 100)
	if put.every is not None:
		spec.period_ns = _more_than_0(put.every, "every")
	if put.grace is not None:
		spec.grace_ns = _more_than_0(put.grace, "grace")
	if put.spread is not None:
		spec.spread_ns = _lib.nanoseconds(put.spread, "spread")


def info_of(c: Any, raw: bytes) -> Info:
	return Info(
		id=c.id,
		kind=_lib.text(c.kind),
		group=_lib.text_or_none(c.group),
		key=_lib.text_or_none(c.key),
		state=State(c.state),
		due=_lib.moment(c.due_us) if c.due_us else None,
		attempt=c.attempt,
		every=_lib.span_or_none(c.period_ns),
		cron=_lib.text_or_none(c.schedule),
		zone=_lib.text_or_none(c.zone),
		priority=c.priority,
		owner=_lib.text_or_none(c.owner),
		error=_lib.text_or_none(c.error),
		raw=raw,
	)


def _waiting_of(c: Any) -> Dict[Reason, Waiting]:
	"""Of the reasons that hold; from hwt_store_stats or hwt_store_kind_info."""
	return {
		reason: Waiting(count, timedelta(microseconds=oldest_ns // 1000))
		for reason, count, oldest_ns in zip(_REASONS, c.waiting, c.waiting_oldest_ns)
		if count
	}


def kind_info_of(c: Any) -> KindInfo:
	return KindInfo(
		kind=_lib.text(c.kind),
		at_most_once=c.mode == _lib.AT_MOST_ONCE,
		shards=c.shards,
		paused=c.paused,
		processes=c.processes,
		failed=c.failed,
		oldest_due=_lib.moment(c.oldest_due_us) if c.oldest_due_us else None,
		group_limit=c.each_group.running,
		group_start_every=_lib.span_or_none(c.each_group.start_every_ns),
		group_burst=c.each_group.burst,
		waiting=_waiting_of(c),
		waiting_age=_lib.span_or_none(c.waiting_age_ns),
		started_minute=c.started_minute,
	)


def group_info_of(c: Any) -> GroupInfo:
	return GroupInfo(
		kind=_lib.text(c.kind),
		group=_lib.text(c.group),
		paused=c.paused,
		limited=c.limited,
		running=c.limits.running,
		start_every=_lib.span_or_none(c.limits.start_every_ns),
		burst=c.limits.burst,
	)


def ended_of(c: Any) -> Ended:
	run = c.run
	return Ended(
		id=run.id,
		kind=_lib.text(run.kind),
		key=_lib.text(run.key) if run.key else None,
		group=_lib.text(run.group) if run.group else None,
		due=_lib.moment(run.due_us),
		attempt=run.attempt,
		missed=run.missed,
		became=Became(c.became),
		error=_lib.text(c.error) if c.error else None,
		started=_lib.moment(c.started_us) if c.started_us else None,
		ended=_lib.moment(c.ended_us),
		next_due=_lib.moment(c.due_us) if c.due_us else None,
	)


def stats_of(c: Any) -> Stats:
	special = {"lateness": tuple(c.lateness), "waiting": _waiting_of(c)}
	return Stats(**{name: special[name] if name in special else getattr(c, name) for name in Stats.__dataclass_fields__})


def next_time(cron: str, zone: Optional[str] = None, after: Optional[datetime] = None) -> datetime:
	"""
	The first time after `after` (None: now) at which a cron line is due in a zone (None: UTC). It needs no store.

	Raises Invalid, whose text names the field that is wrong.
	"""
	keep: Any = []
	us = _lib.microseconds(after if after is not None else datetime.now(timezone.utc), "after")
	due = ffi.new("int64_t *")
	error = ffi.new("char[256]")
	code = lib.hwt_store_next_time(
		_lib.chars(cron, keep), _lib.chars(None if zone is None else str(zone), keep), us, due, error, 256
	)
	if code != 0:
		_lib.fail(code, _lib.text(error))
	return _lib.moment(due[0])
