# SPDX-License-Identifier: BSD-2-Clause
"""The C library: its declarations, the errors that its calls return, and text and times on the way there and back."""

import errno
import os
import re
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, NoReturn, Optional, Sequence, Type, Union

import cffi

SONAME = "libhwt-store.so.0"
VERSION = "0.2"  # before 1.0 structures may change with it

# As store/include/hwt_store.h has them; a test compares the layout with store/test/abi_store.txt.
DECLARATIONS = """
typedef struct hwt_store hwt_store;

typedef struct hwt_store_run {
	int64_t id;
	const char *kind, *key;
	const void *data;
	size_t len;
	int64_t due_us;
	unsigned attempt;
	uint64_t missed;
	void *connection;
	const char *group;
} hwt_store_run;

typedef struct hwt_store_ended {
	size_t size;
	const hwt_store_run *run;
	int rc;
	const char *error;
	int64_t started_us, ended_us, due_us;
	unsigned became;
} hwt_store_ended;

typedef struct hwt_store_config {
	size_t size;
	const char *name, *schema;
	unsigned threads, batch;
	int64_t lease_ns, tick_ns;
	void (*warn)(void *ctx, const char *message);
	void *warn_ctx;
	uint64_t reserved[8];
	void (*ended)(void *ctx, const hwt_store_ended *ended);
	void *ended_ctx;
} hwt_store_config;

typedef struct hwt_store_kind {
	size_t size;
	const char *name;
	void *task;
	void *ctx;
	unsigned mode, shards, concurrency, max_attempts;
	int64_t horizon_ns, backoff_ns, backoff_max_ns;
	unsigned flags;
} hwt_store_kind;

typedef struct hwt_store_spec {
	size_t size;
	const char *kind, *key;
	const void *data;
	size_t len;
	int64_t delay_ns, due_us, period_ns;
	unsigned flags;
	const char *group;
	int priority;
	const char *schedule, *zone;
	int64_t grace_ns, spread_ns;
} hwt_store_spec;

typedef struct hwt_store_which {
	size_t size;
	int64_t id;
	const char *kind, *group, *key;
	bool all, any_group;
	unsigned states;
	int64_t after_us, after_id;
} hwt_store_which;

typedef struct hwt_store_when { int64_t delay_ns, due_us; } hwt_store_when;

typedef struct hwt_store_info {
	size_t size;
	int64_t id;
	unsigned state, attempt;
	int64_t due_us, period_ns;
	char kind[64], key[256], owner[128], error[256], group[256];
	int priority;
	char schedule[128], zone[64];
	void *data;
	size_t data_room, len;
} hwt_store_info;

typedef struct hwt_store_limits {
	size_t size;
	uint32_t running;
	int64_t start_every_ns;
	uint32_t burst;
} hwt_store_limits;

typedef struct hwt_store_kind_info {
	size_t size;
	char kind[64];
	unsigned mode, shards;
	bool paused;
	uint32_t processes;
	uint64_t failed;
	int64_t oldest_due_us;
	hwt_store_limits each_group;
	uint64_t waiting[14];
	int64_t waiting_oldest_ns[14];
	int64_t waiting_age_ns;
	uint64_t started_minute;
} hwt_store_kind_info;

typedef struct hwt_store_group_info {
	size_t size;
	char kind[64], group[256];
	bool paused, limited;
	hwt_store_limits limits;
} hwt_store_group_info;

typedef struct hwt_store_stats {
	size_t size;
	uint64_t put, begun, done, failed, retried, cancelled, taken_over, lost_leases, reconnects, round_trips;
	uint64_t window, running, shards_held;
	int64_t lateness_max_ns;
	uint64_t lateness[32];
	uint64_t set_aside, overdue;
	int64_t overdue_oldest_ns, lateness_minute_max_ns;
	uint64_t trusted, rescheduled;
	uint64_t waiting[14];
	int64_t waiting_oldest_ns[14];
} hwt_store_stats;

int hwt_store_open(hwt_store **store, const char *url, const hwt_store_config *config, char *error, size_t error_len);
int hwt_store_register(hwt_store *store, const hwt_store_kind *kind);
int hwt_store_start(hwt_store *store);
int hwt_store_stop(hwt_store *store);
int hwt_store_stop_within(hwt_store *store, int64_t ns);
int hwt_store_close(hwt_store *store);
int hwt_store_put(hwt_store *store, const hwt_store_spec *spec, int64_t *id);
int hwt_store_put_many(hwt_store *store, const hwt_store_spec *specs, size_t n, int64_t *ids);
int hwt_store_cancel_ex(hwt_store *store, const hwt_store_which *which, uint64_t *n);
int hwt_store_reschedule_ex(hwt_store *store, const hwt_store_which *which, hwt_store_when when, uint64_t *n);
int hwt_store_get_ex(hwt_store *store, const hwt_store_which *which, hwt_store_info *info);
int hwt_store_each_ex(hwt_store *store, const hwt_store_which *which,
	bool (*each)(void *ctx, const hwt_store_info *info), void *ctx);
int hwt_store_each_kind(hwt_store *store, bool (*each)(void *ctx, const hwt_store_kind_info *info), void *ctx);
int hwt_store_each_group(hwt_store *store, const char *kind,
	bool (*visit)(void *ctx, const hwt_store_group_info *info), void *ctx);
int hwt_store_remove_kind(hwt_store *store, const char *kind);
int hwt_store_limit(hwt_store *store, const char *kind, const char *group, const hwt_store_limits *limits);
int hwt_store_pause(hwt_store *store, const char *kind, const char *group);
int hwt_store_resume(hwt_store *store, const char *kind, const char *group);
int hwt_store_next_time(const char *schedule, const char *zone, int64_t after_us, int64_t *due_us, char *error,
	size_t error_len);
bool hwt_store_is_mine(const hwt_store_run *run);
int hwt_store_again(const hwt_store_run *run, int64_t delay_ns);
int hwt_store_fail(const hwt_store_run *run, const char *why);
int hwt_store_give_up(const hwt_store_run *run, const char *why);
int hwt_store_end_series(const hwt_store_run *run);
int hwt_store_fd(hwt_store *store, int *fd);
int hwt_store_next(hwt_store *store, hwt_store_run **run);
int hwt_store_end(hwt_store_run *run, int answer);
int hwt_store_read_stats(hwt_store *store, hwt_store_stats *out);
int hwt_store_read_kind_stats(hwt_store *store, const char *kind, hwt_store_stats *out);
int hwt_store_prometheus(hwt_store *store, char *buf, size_t len);
const char *hwt_store_error(void);
const char *hwt_version(void);
"""

PULLED = 1
AT_MOST_ONCE = 1
ABSOLUTE, REPLACE, REVIVE, KEEP_DUE = 1, 2, 4, 8
WITH_DATA = 1 << 31
INT64_MAX = 2**63 - 1
UINT32_MAX = 2**32 - 1

ffi: Any = cffi.FFI()
ffi.cdef(DECLARATIONS)
NULL: Any = ffi.NULL


def _load() -> Any:
	name = os.environ.get("HWT_STORE_LIBRARY") or SONAME
	try:
		found = ffi.dlopen(name)
	except OSError as error:
		raise ImportError(
			f"the C library libhwt-store is not found ({error}): install it (Debian: libhwt-store0; from its tree: "
			"make install, then ldconfig), or set HWT_STORE_LIBRARY to the path of the file"
		) from None
	version = ffi.string(found.hwt_version()).decode()
	if not version.startswith(VERSION + "."):
		raise ImportError(f"this package is for libhwt-store {VERSION}, and {name} is {version}")
	return found


lib: Any = _load()


class Error(Exception):
	"""A call has failed. Its text says what to do. Unless the class says otherwise nothing has changed."""

	def __init__(self, code: int, text: str, id: Optional[int] = None) -> None:
		super().__init__(text)
		self.errno = code  #: of the module errno
		self.id = id  #: of the timeout, where there is one


class Invalid(Error, ValueError):
	"""An argument makes no sense."""


class NotFound(Error, LookupError):
	"""There is no such kind, no such folder, no such database."""


class Exists(Error):
	"""The key is in use; `id` is that of the timeout that has it."""


class Busy(Error):
	"""It is in use."""


class Unavailable(Error, ConnectionError):
	"""The database does not answer, or was locked for too long. Nothing has happened: try again."""


class Unknown(Error, ConnectionError):
	"""The connection broke during the call: whether it has happened is not known. After a put, `get(id)` tells."""

	ids: Sequence[int] = ()  #: of put_many


_CLASSES: Dict[int, Type[Error]] = {
	errno.EINVAL: Invalid,
	errno.ENOENT: NotFound,
	errno.EEXIST: Exists,
	errno.EBUSY: Busy,
	errno.EAGAIN: Unavailable,
	errno.ENOTCONN: Unavailable,
	errno.ECONNRESET: Unknown,
}


#: What the library's texts say, and what it is called here.
_NAMES = {
	"HWT_STORE_REPLACE, HWT_STORE_REVIVE and HWT_STORE_KEEP_DUE": 'if_exists "replace", "revive" and "keep_due"',
	"HWT_STORE_REPLACE": 'if_exists "replace"',
	"HWT_STORE_REVIVE": 'if_exists "revive"',
	"HWT_STORE_KEEP_DUE": 'if_exists "keep_due"',
	"a period or a schedule": "every or cron",
	"HWT_STORE_ABSOLUTE": "at",
	"delay_ns": "delay",
	"due_us": "at",
	"after_us": "after",
	"a schedule or a period": "cron or every",
	"above the period": "above every",
	"period_ns": "every",
	"schedule": "cron",
	"grace_ns": "grace",
	"spread_ns": "spread",
	"lease_ns": "lease",
	"backoff_ns": "backoff",
	"backoff_max_ns": "backoff_max",
	"start_every_ns": "start_every",
	"hwt_store_open": "open",
	"hwt_store_get": "get",
}
_C_NAME = re.compile(r"\b(" + "|".join(sorted(_NAMES, key=len, reverse=True)) + r")\b(?!\w)")


def fail(code: int, words: Optional[str] = None, id: Optional[int] = None) -> NoReturn:
	"""Raises what a call has returned; on the thread of the call, which keeps its text."""
	if words is None:
		words = text(lib.hwt_store_error())
	words = _C_NAME.sub(lambda name: _NAMES[name[0]], words)
	raise _CLASSES.get(code, Error)(code, words or os.strerror(code), id)


def check(code: int) -> None:
	if code != 0:
		fail(code)


def invalid(words: str) -> NoReturn:
	fail(errno.EINVAL, words)


def text(pointer: Any) -> str:
	"""The text of a char *; NULL is none."""
	return "" if pointer == NULL else str(ffi.string(pointer), "utf-8", "replace")


def text_or_none(pointer: Any) -> Optional[str]:
	return text(pointer) or None


def chars(value: Optional[str], keep: Any) -> Any:
	"""A char *, alive as long as the list keep; None is NULL."""
	if value is None:
		return NULL
	if not isinstance(value, str):
		raise TypeError(f"a text is expected, not {value!r}")
	if "\0" in value:
		invalid(f"{value!r} has a character 0")
	try:
		made = ffi.new("char[]", value.encode())
	except UnicodeEncodeError:
		invalid(f"{value!r} is no text of Unicode")
	keep.append(made)
	return made


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

#: A time span: a timedelta, or a number of seconds.
Span = Union[timedelta, float]


def nanoseconds(span: Optional[Span], what: str) -> int:
	if span is None:
		return 0
	if isinstance(span, timedelta):
		ns = span // _MICROSECOND * 1000
	elif isinstance(span, (int, float)) and not isinstance(span, bool):
		if span != span or abs(span) > 1e10:
			invalid(f"{what}: {span} seconds is out of range")
		ns = round(span * 1_000_000_000)
	else:
		raise TypeError(f"{what} is a timedelta or a number of seconds, not {span!r}")
	return min(max(ns, -INT64_MAX), INT64_MAX)


def microseconds(at: datetime, what: str) -> int:
	if not isinstance(at, datetime):
		raise TypeError(f"{what} is a datetime, not {at!r}")
	if at.tzinfo is None:
		invalid(
			f"{what}: {at} has no time zone; datetime.now(timezone.utc) has one, and at.astimezone() gives it the local one"
		)
	us = (at - _EPOCH) // _MICROSECOND
	if us < 0:
		invalid(f"{what}: {at} is before 1970")
	return us


def moment(us: int) -> datetime:
	"""The library's times end with the year 10000, which is the first that a datetime has not."""
	try:
		return _EPOCH + us * _MICROSECOND
	except OverflowError:
		return datetime.max.replace(tzinfo=timezone.utc)


def integer(value: int, what: str, least: int, most: int) -> int:
	if not isinstance(value, int):
		raise TypeError(f"{what} is an int, not {value!r}")
	if not least <= value <= most:
		invalid(f"{what}: {value} is not within {least} and {most}")
	return value


def span_or_none(ns: int) -> Optional[timedelta]:
	return timedelta(microseconds=ns // 1000) if ns else None
