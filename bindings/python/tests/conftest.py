# SPDX-License-Identifier: BSD-2-Clause
"""Each test on SQLite, and on the PostgreSQL that HWT_STORE_URL names (store/test/postgres.sh starts one)."""

import itertools
import os
import pathlib
import sqlite3
import string
import subprocess
import sys
import time
from typing import Any, Callable, Iterator, List, Optional

import pytest

import hwt_store

PATIENCE_S = 600  # only a hang lasts so long

_numbers = itertools.count()


class World:
	"""A database without tables, and the processes that a test starts on it."""

	def __init__(self, url: str, folder: pathlib.Path) -> None:
		n = next(_numbers)
		self.url = url
		self.schema = "t_" + "".join(string.ascii_lowercase[n // 26**i % 26] for i in range(4))
		self.folder = folder
		self.processes: List["subprocess.Popen[str]"] = []

	def open(self, **settings: Any) -> hwt_store.Store:
		return hwt_store.open(self.url, schema=self.schema, **settings)

	def open_threads(self, **settings: Any) -> hwt_store.ThreadStore:
		return hwt_store.open_threads(self.url, schema=self.schema, **settings)

	def start(self, program: str, *arguments: str) -> "subprocess.Popen[str]":
		"""Starts a program, which finds the url, the schema and the arguments in sys.argv, and its output in a pipe."""
		process = subprocess.Popen(
			[sys.executable, "-u", "-c", program, self.url, self.schema, *arguments],
			stdin=subprocess.PIPE,
			stdout=subprocess.PIPE,
			text=True,
		)
		self.processes.append(process)
		return process

	def sql(self, statement: str) -> None:
		"""Past the library."""
		if self.url.startswith("sqlite:"):
			connection = sqlite3.connect(self.url[len("sqlite:") :])
			connection.execute(statement)
			connection.commit()
			connection.close()
		else:
			subprocess.run(["psql", "-qX", "-c", statement, self.url.replace("pg:", "")], check=True)

	def jobs(self, *arguments: str) -> str:
		"""What hwt-jobs prints."""
		tool = os.path.join(os.environ["HWT_BUILD"], "hwt-jobs")
		return subprocess.run(
			[tool, "-d", self.url, "--schema", self.schema, *arguments], check=True, stdout=subprocess.PIPE, text=True
		).stdout


def wait_until(what: Callable[[], Any]) -> Any:
	give_up = time.monotonic() + PATIENCE_S
	while True:
		is_so = what()
		if is_so or time.monotonic() > give_up:
			assert is_so
			return is_so
		time.sleep(0.005)


def lines_until(process: "subprocess.Popen[str]", last: str) -> List[str]:
	"""What a process prints, until this line."""
	assert process.stdout is not None
	lines = []
	for line in process.stdout:
		lines.append(line.rstrip("\n"))
		if lines[-1] == last:
			return lines
	raise AssertionError(f"{last!r} does not come: {lines}")


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request: Any, tmp_path: pathlib.Path) -> Iterator[World]:
	if request.param == "postgresql":
		if not os.environ.get("HWT_STORE_URL"):
			pytest.skip("no PostgreSQL server")
		world = World(os.environ["HWT_STORE_URL"], tmp_path)
	else:
		world = World(f"sqlite:{tmp_path}/t.db", tmp_path)
	yield world
	for process in world.processes:
		process.kill()
		process.wait()


class _Tap:
	"""Writes TAP to the file that HWT_PYTEST_TAP names."""

	def __init__(self, path: str) -> None:
		self.out = open(path, "w")
		self.n = 0

	def pytest_runtest_logreport(self, report: Any) -> None:
		if report.when != "call" and report.outcome == "passed":
			return
		self.n += 1
		name = report.nodeid.split("::", 1)[-1]
		skipped = f" # SKIP {report.longrepr[2]}" if report.skipped else ""
		print(f"{'not ok' if report.failed else 'ok'} {self.n} - {name}{skipped}", file=self.out, flush=True)

	def pytest_sessionfinish(self) -> None:
		print(f"1..{self.n}", file=self.out, flush=True)


def pytest_configure(config: Any) -> None:
	path: Optional[str] = os.environ.get("HWT_PYTEST_TAP")
	if path:
		config.pluginmanager.register(_Tap(path))
