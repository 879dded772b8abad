# SPDX-License-Identifier: BSD-2-Clause
"""What the package needs of the C library."""

import asyncio
import errno
import os
import pathlib
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import List, get_args

import pytest

import hwt_store
from hwt_store import _lib
from hwt_store._puts import Puts

ROOT = pathlib.Path(os.environ["HWT_TREE"])


def test_structures_lie_as_in_c() -> None:
	record = (ROOT / "store/test/abi_store.txt").read_text()
	seen = 0
	for name in re.findall(r"^typedef struct (\w+) \{", _lib.DECLARATIONS, re.MULTILINE):
		size = re.search(rf"^sizeof {name} = (\d+)$", record, re.MULTILINE)
		assert size is None or _lib.ffi.sizeof(name) == int(size[1]), name
		fields = dict(_lib.ffi.typeof(name).fields)
		for member, at, size_of in re.findall(rf"^{name}\.(\w+) at (\d+), (\d+) bytes$", record, re.MULTILINE):
			assert fields[member].offset == int(at), f"{name}.{member}"
			assert _lib.ffi.sizeof(fields[member].type) == int(size_of), f"{name}.{member}"
			seen += 1
	assert seen > 100


def test_reasons_are_those_of_c() -> None:
	names = re.findall(r"^HWT_STORE_(?:WAITS_)?(\w+) = (\d+)$", (ROOT / "store/test/abi_store.txt").read_text(), re.MULTILINE)
	reasons = {name.lower(): int(number) for name, number in names}
	assert [reasons[reason] for reason in get_args(hwt_store.Reason)] == list(range(reasons["waits"]))


def test_each_function_is_there() -> None:
	names = re.findall(r"\b(hwt_store_\w+)\(hwt_store|\b(hwt_store_\w+)\(", _lib.DECLARATIONS)
	for name in {first or second for first, second in names}:
		assert hasattr(_lib.lib, name)


def test_without_the_library_the_import_says_what_to_do() -> None:
	ended = subprocess.run(
		[sys.executable, "-c", "import hwt_store"],
		env={**os.environ, "HWT_STORE_LIBRARY": "/nowhere/libhwt-store.so"},
		stderr=subprocess.PIPE,
		text=True,
	)
	assert ended.returncode == 1
	assert "ImportError" in ended.stderr and "HWT_STORE_LIBRARY" in ended.stderr and "make install" in ended.stderr


def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
	monkeypatch.setattr(_lib, "VERSION", "0.1")
	with pytest.raises(ImportError, match="for libhwt-store 0.1"):
		_lib._load()


def test_next_time_needs_no_store() -> None:
	after = datetime(2026, 3, 1, tzinfo=timezone.utc)
	assert hwt_store.next_time("30 6 * * 1-5", after=after) == datetime(2026, 3, 2, 6, 30, tzinfo=timezone.utc)
	assert hwt_store.next_time("@daily", "UTC", after) == datetime(2026, 3, 2, tzinfo=timezone.utc)
	assert hwt_store.next_time("@hourly") > datetime.now(timezone.utc)
	with pytest.raises(hwt_store.Invalid, match="minute"):
		hwt_store.next_time("61 * * * *")
	with pytest.raises(ValueError, match="time zone"):
		hwt_store.next_time("@daily", after=datetime(2026, 3, 1))


def test_of_puts_that_perhaps_happened_each_has_its_id() -> None:
	class Broken:
		def put_many(self, puts: List[hwt_store.Put]) -> List[int]:
			error = hwt_store.Unknown(errno.ECONNRESET, "the connection broke", 4)
			error.ids = range(4, 4 + len(puts))
			raise error

	async def main() -> None:
		with ThreadPoolExecutor(1) as pool:
			all_wait = threading.Event()
			pool.submit(all_wait.wait)
			puts = Puts(Broken(), pool)  # type: ignore[arg-type]
			put = hwt_store.Put("a")
			tasks = [asyncio.ensure_future(puts.put(put)) for _ in range(3)]
			await asyncio.sleep(0)
			all_wait.set()
			errors = await asyncio.gather(*tasks, return_exceptions=True)
			assert [error.id for error in errors if isinstance(error, hwt_store.Unknown)] == [4, 5, 6]

	asyncio.run(main())


def test_each_public_name_has_a_docstring() -> None:
	for name in hwt_store.__all__:
		thing = getattr(hwt_store, name)
		if not isinstance(thing, type):
			continue
		assert thing.__doc__, name
		for member, value in vars(thing).items():
			if not member.startswith("_") and callable(value):
				assert value.__doc__, f"{name}.{member}"
	assert hwt_store.ThreadStore.put.__doc__ == hwt_store.Store.put.__doc__


def test_what_cannot_be_opened_says_why() -> None:
	with pytest.raises(hwt_store.Invalid):
		hwt_store.open("mysql://app")
	with pytest.raises(hwt_store.NotFound) as error:
		hwt_store.open("sqlite:/nowhere/at/all.db")
	assert error.value.errno == 2 and "/nowhere/at" in str(error.value)
	with pytest.raises(hwt_store.Unavailable):
		hwt_store.open("pg:host=/nowhere dbname=app")
	with pytest.raises(ValueError):
		hwt_store.open_threads("sqlite:/nowhere/at/all.db", threads=0)
