# SPDX-License-Identifier: BSD-2-Clause
"""
What is measured: each subject is put to work in processes of its own. A run appends "NUMBER TIME PID" to a log.

`python3 subjects.py SUBJECT LOG SECONDS` is a worker, whose runs last so long.
"""

import asyncio
import os
import pathlib
import socket
import subprocess
import sys
import time
import warnings
from datetime import datetime, timezone
from typing import Any, Dict, List, Tuple

HERE = pathlib.Path(__file__).resolve()
URL = os.environ.get("HWT_STORE_PG_URL", "")
REDIS = f"redis://127.0.0.1:{os.environ.get('HWT_BENCH_REDIS', '0')}/0"

Items = List[Tuple[int, float]]  # number, and when it is due


def moment(at: float) -> datetime:
	return datetime.fromtimestamp(at, timezone.utc)


class Log:
	def __init__(self, path: str) -> None:
		self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

	def say(self, number: int) -> None:
		os.write(self.fd, f"{number} {time.time():.6f} {os.getpid()}\n".encode())


class Subject:
	"""Of the other side: puts, and starts and kills workers."""

	name = ""
	workers = 3  # that share the work

	def __init__(self, log: str, takes: float) -> None:
		self.arguments = [log, str(takes)]
		self.processes: List["subprocess.Popen[str]"] = []

	def command(self) -> List[str]:
		return [sys.executable, str(HERE), self.name, *self.arguments]

	def start(self) -> None:
		self.processes.append(
			subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
		)
		assert self.processes[-1].stdout is not None
		for line in self.processes[-1].stdout:
			if "ready" in line:
				return
		raise RuntimeError(f"a worker of {self.name} has ended")

	def kill(self) -> None:
		process = self.processes.pop(0)
		process.kill()
		process.wait()

	def put(self, items: Items) -> None:
		raise NotImplementedError

	def close(self) -> None:
		while self.processes:
			self.kill()


class Hwt(Subject):
	name = "hwt_store"

	def __init__(self, log: str, takes: float) -> None:
		import hwt_store

		super().__init__(log, takes)
		self.put_one = hwt_store.Put
		self.store = hwt_store.open_threads(URL, schema="b")

	def put(self, items: Items) -> None:
		for begin in range(0, len(items), 1000):
			self.store.put_many(self.put_one("a", n, at=moment(at)) for n, at in items[begin : begin + 1000])

	def close(self) -> None:
		super().close()
		self.store.cancel_all("a")
		self.store.close()


def hwt_worker(log: Log, takes: float) -> None:
	import hwt_store

	store = hwt_store.open(URL, schema="b", lease=2)

	@store.kind("a")
	async def task(run: hwt_store.Run) -> None:
		log.say(run.data)
		if takes:
			await asyncio.sleep(takes)

	async def main() -> None:
		running = asyncio.ensure_future(store.run())
		while not running.done() and not (await store.stats()).shards_held:
			await asyncio.sleep(0.01)
		print("ready", flush=True)
		await running

	asyncio.run(main())


class ApScheduler(Subject):
	"""Its schedulers cannot share a job store, and hear of what is added in their own process only."""

	name = "apscheduler"
	workers = 1

	def put(self, items: Items) -> None:
		stdin = self.processes[-1].stdin
		assert stdin is not None
		for n, at in items:
			stdin.write(f"{n} {at}\n")
		stdin.flush()


ap_log: Log
ap_takes = 0.0


def ap_task(number: int) -> None:
	ap_log.say(number)
	time.sleep(ap_takes)


def ap_worker(log: Log, takes: float) -> None:
	global ap_log, ap_takes
	from apscheduler.executors.pool import ThreadPoolExecutor
	from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
	from apscheduler.schedulers.background import BackgroundScheduler

	import subjects

	subjects.ap_log, subjects.ap_takes = log, takes
	scheduler = BackgroundScheduler(
		jobstores={"default": SQLAlchemyJobStore(URL)}, executors={"default": ThreadPoolExecutor(100)}, timezone="UTC"
	)
	scheduler.start()
	print("ready", flush=True)
	for line in sys.stdin:
		n, at = line.split()
		scheduler.add_job(
			subjects.ap_task, "date", run_date=moment(float(at)), args=[int(n)], misfire_grace_time=None
		)
	time.sleep(1e6)


class Celery(Subject):
	name = "celery"

	def __init__(self, log: str, takes: float) -> None:
		super().__init__(log, takes)
		os.environ["HWT_BENCH_LOG"], os.environ["HWT_BENCH_TAKES"] = log, str(takes)
		self.app = celery_app()

	def command(self) -> List[str]:
		name = f"w{time.monotonic_ns()}@here"
		return [sys.executable, "-c", "import subjects; subjects.celery_worker()", name]

	def put(self, items: Items) -> None:
		for n, at in items:
			self.app.tasks["a"].apply_async((n,), eta=moment(at))


def celery_app() -> Any:
	import celery

	app = celery.Celery("bench", broker=REDIS)
	app.conf.task_ignore_result = True
	log, takes = Log(os.environ["HWT_BENCH_LOG"]), float(os.environ["HWT_BENCH_TAKES"])

	@app.task(name="a")  # type: ignore[misc]
	def task(number: int) -> None:
		log.say(number)
		time.sleep(takes)

	return app


def celery_worker() -> None:
	from celery.signals import worker_ready

	app = celery_app()
	warnings.simplefilter("ignore")  # of root

	@worker_ready.connect  # type: ignore[misc]
	def ready(**_: Any) -> None:
		os.write(1, b"ready\n")  # what is printed becomes a line of its log

	app.worker_main(["worker", "-P", "threads", "-c", "100", "-l", "CRITICAL", "-n", sys.argv[1], "--without-gossip"])


def redis_server(folder: str) -> Any:
	"""A server of our own that syncs as Redis does it, each second; None: there is none."""
	with socket.socket() as free:
		free.bind(("127.0.0.1", 0))
		port = free.getsockname()[1]
	try:
		server = subprocess.Popen(
			["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--appendonly", "yes"],
			stdout=subprocess.DEVNULL,
		)
	except OSError:
		return None
	os.environ["HWT_BENCH_REDIS"] = str(port)
	global REDIS
	REDIS = f"redis://127.0.0.1:{port}/0"
	while True:
		with socket.socket() as trial:
			if trial.connect_ex(("127.0.0.1", port)) == 0:
				return server
		time.sleep(0.01)


SUBJECTS: Dict[str, Any] = {
	"hwt_store": (Hwt, hwt_worker),
	"apscheduler": (ApScheduler, ap_worker),
	"celery": (Celery, celery_worker),
}

if __name__ == "__main__":
	SUBJECTS[sys.argv[1]][1](Log(sys.argv[2]), float(sys.argv[3]))
