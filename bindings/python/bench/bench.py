# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios, and their figures. run.sh says how to start it."""

import importlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Tuple

import subjects
from subjects import Subject

import hwt_store

QUICK = "-q" in sys.argv
URL = os.environ["HWT_STORE_PG_URL"]
KILL_PATIENCE_S = 30.0  # what has not run so long after its time is called lost


def starts(log: str) -> Dict[int, List[Tuple[float, int]]]:
	"""Of each number when it has started, and in which process."""
	found: Dict[int, List[Tuple[float, int]]] = {}
	for line in pathlib.Path(log).read_text().splitlines():
		number, at, pid = line.split()
		found.setdefault(int(number), []).append((float(at), int(pid)))
	return found


def wait(log: str, n: int, patience_s: float) -> Dict[int, List[Tuple[float, int]]]:
	"""Until n have started, or the patience ends."""
	until = time.time() + patience_s
	while True:
		found = starts(log)
		if len(found) >= n or time.time() > until:
			return found
		time.sleep(0.05)


def part(sorted_values: List[float], of: float) -> float:
	return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * of))]


def say(subject: str, what: str) -> None:
	print(f"{subject:<24} {what}", flush=True)


def lives(n: int) -> None:
	"""One worker that puts, runs and ends: by put_many, and one put each from 100 coroutines."""
	import asyncio

	async def main() -> None:
		left = 0
		over = asyncio.Event()
		async with hwt_store.open(URL, schema="lives") as store:

			@store.kind("a")
			async def task(run: hwt_store.Run) -> None:
				nonlocal left
				left -= 1
				if left == 0:
					over.set()

			async def many() -> None:
				for begin in range(0, n, 1000):
					await store.put_many(hwt_store.Put("a", {"n": begin + i}) for i in range(min(1000, n - begin)))

			async def each() -> None:
				async def some() -> None:
					for i in range(n // 100):
						await store.put("a", {"n": i})

				await asyncio.gather(*(some() for _ in range(100)))

			running = asyncio.ensure_future(store.run())
			while not (await store.stats()).shards_held:
				await asyncio.sleep(0.01)
			for name, puts in (("put_many", many), ("a put each", each)):
				rates = []
				for _ in range(3):
					left = n
					over.clear()
					began = time.perf_counter()
					await asyncio.gather(puts(), over.wait())
					rates.append(n / (time.perf_counter() - began))
				say("hwt_store", f"{name}: {sorted(rates)[1]:.0f} lives a second ({min(rates):.0f} .. {max(rates):.0f})")
			store.stop()
			await running

	asyncio.run(main())


def kills(rounds: int) -> None:
	"""Of three workers with a lease of 2 s one is killed in a run, again and again, and another is started."""
	log = tempfile.NamedTemporaryFile()
	subject = subjects.Hwt(log.name, 1.0)
	waits: List[float] = []
	for _ in range(3):
		subject.start()
	number = 0
	for _ in range(rounds):
		# Some 60 in each second; each takes one.
		now = time.time()
		subject.put([(number + i, now + i / 60) for i in range(120)])
		number += 120
		wait(log.name, number - 60, 60)
		pid = subject.processes[0].pid
		time.sleep(random.random() / 4)
		subject.kill()
		killed = time.time()
		held = [n for n, runs in starts(log.name).items() if runs[-1][1] == pid and runs[-1][0] > killed - 1]
		subject.start()
		until = time.time() + 60
		while time.time() < until:
			found = starts(log.name)
			if all(found[n][-1][1] != pid for n in held):
				break
			time.sleep(0.02)
		waits += [found[n][1][0] - killed for n in held if len(found[n]) > 1 and found[n][-1][1] != pid]
		if any(found[n][-1][1] == pid for n in held):
			say("hwt_store", f"LOST: of {len(held)} that {pid} held")
	found = wait(log.name, number, 60)
	twice = sum(len(runs) > 1 for runs in found.values())
	waits.sort()
	say(
		"hwt_store",
		f"{rounds} kills, {number} put, {number - len(found)} lost, {len(waits)} were held by the dead and started elsewhere "
		f"after {part(waits, 0.5):.2f} s (median), {waits[-1]:.2f} s at most; {twice} started twice; lease 2 s",
	)
	subject.close()


def lateness(subject: Subject, log: str, n: int, over_s: float) -> None:
	begin = time.time() + 3
	due = {i: begin + random.random() * over_s for i in range(n)}
	subject.put(sorted(due.items(), key=lambda item: item[1]))
	found = wait(log, n, over_s + 60)
	late = sorted((runs[0][0] - due[i]) * 1000 for i, runs in found.items())
	say(
		subject.name,
		f"late by {part(late, 0.5):.1f} ms (median), p99 {part(late, 0.99):.1f}, most {late[-1]:.1f}; earliest {late[0]:.1f}"
		f" ({n / over_s:.0f} a second, {n - len(found)} missing)",
	)


def rate(subject: Subject, log: str, n: int) -> None:
	began = time.time()
	subject.put([(i, began) for i in range(n)])
	found = wait(log, n, 120)
	end = max((runs[0][0] for runs in found.values()), default=began + 1)
	say(subject.name, f"{len(found) / (end - began):.0f} lives a second ({n} due at once, {n - len(found)} missing)")


def kill(subject: Subject, log: str, n: int) -> None:
	"""One worker is killed in the middle; a second later it is started again."""
	begin = time.time() + 3
	over_s = 10.0
	due = {i: begin + i * over_s / n for i in range(n)}
	subject.put(sorted(due.items(), key=lambda item: item[1]))
	time.sleep(max(0.0, begin + over_s / 2 - time.time()))
	pid = subject.processes[0].pid
	killed = time.time()
	subject.kill()
	time.sleep(1)
	subject.start()
	found = wait(log, n, over_s / 2 + KILL_PATIENCE_S)
	time.sleep(8)  # what the dead one held runs again
	found = starts(log)
	missing = n - len(found)
	cut = [i for i, runs in found.items() if runs[-1][1] == pid and runs[-1][0] > killed - 0.3]
	late = max(runs[0][0] - due[i] for i, runs in found.items())
	say(
		subject.name,
		f"a kill of one of {subject.workers}: {missing} of {n} not started {KILL_PATIENCE_S:.0f} s later, {len(cut)} were cut off in"
		f" their run and not run again; the others at most {late:.1f} s late",
	)


def with_workers(name: str, workers: int, takes: float, what: Callable[[Subject, str], None]) -> None:
	log = tempfile.NamedTemporaryFile()
	subject: Subject = subjects.SUBJECTS[name][0](log.name, takes)
	try:
		for _ in range(min(workers, subject.workers)):
			subject.start()
		what(subject, log.name)
	finally:
		subject.close()


class PgCron:
	"""It knows minutes only. What it does is known by its own record."""

	def sql(self, text: str) -> str:
		psql = [os.environ["HWT_STORE_PG_BIN"] + "/psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", URL, "-c", text]
		return subprocess.run(psql, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

	def start(self) -> None:
		ctl = os.environ["HWT_POSTGRES_CTL"]
		with (pathlib.Path(ctl).parent / "data/postgresql.conf").open("a") as out:
			out.write("shared_preload_libraries = 'pg_cron'\ncron.use_background_workers = on\nmax_worker_processes = 60\n")
		subprocess.run([ctl, "restart"], check=True)
		self.sql("create extension pg_cron")

	def done(self) -> int:
		return int(self.sql("select count(*) from cron.job_run_details where status = 'succeeded'"))

	def once(self, jobs: int, command: str, wait_for: int) -> None:
		"""So many jobs in a minute that begins soon: until the first of them are done."""
		at = (time.time() + 5) // 60 * 60 + 60
		when = time.gmtime(at)
		self.sql("select cron.unschedule(jobid) from cron.job")
		self.sql("truncate cron.job_run_details")
		schedule = f"cron.schedule('{when.tm_min} {when.tm_hour} * * *', '{command}')"
		self.sql(f"select count({schedule}) from generate_series(1, {jobs})")
		time.sleep(at - time.time())
		while self.done() < wait_for and time.time() < at + 120:
			time.sleep(0.2)

	def lateness(self, minutes: int) -> None:
		self.sql("select count(cron.schedule('* * * * *', 'select ' || i)) from generate_series(1, 100) i")
		time.sleep(60 * minutes + 60 - time.time() % 60 - 1)
		self.sql("select cron.unschedule(jobid) from cron.job")
		time.sleep(5)
		figures = self.sql(
			"select count(*), round(1000 * percentile_cont(0.5) within group (order by late)::numeric, 1), "
			"round(1000 * percentile_cont(0.99) within group (order by late)::numeric, 1), round(1000 * max(late)::numeric, 1), "
			"count(*) filter (where status <> 'succeeded') from (select status, "
			"extract(epoch from start_time - date_trunc('minute', start_time)) late from cron.job_run_details) d"
		).split("|")
		say("pg_cron", f"{figures[0]} runs late by {figures[1]} ms (median), p99 {figures[2]}, most {figures[3]}; {figures[4]} failed")

	def rate(self, n: int) -> None:
		self.once(n, "select 1", wait_for=n)
		rate = self.sql("select count(*) / extract(epoch from max(end_time) - min(start_time)) from cron.job_run_details")
		say("pg_cron", f"{float(rate):.0f} runs a second ({n} due at once, {n - self.done()} missing)")

	def kill(self, n: int) -> None:
		"""One that runs, as of any other subject. PostgreSQL then restarts all its processes."""
		self.once(n, "select pg_sleep(0.3)", wait_for=n // 10)
		os.kill(int(self.sql("select max(job_pid) from cron.job_run_details where status = 'running'")), signal.SIGKILL)
		time.sleep(KILL_PATIENCE_S)
		cut = self.sql("select count(*) from cron.job_run_details where status <> 'succeeded'")
		say(
			"pg_cron",
			f"a kill of one of its workers: {n - self.done()} of {n} not done {KILL_PATIENCE_S:.0f} s later, {cut} of them cut off"
			" in their run by its record, and none is run again",
		)


def pg_cron() -> None:
	if not list(pathlib.Path("/usr/lib/postgresql").glob("*/lib/pg_cron.so")):
		say("pg_cron", "is not installed")
		return
	cron = PgCron()
	cron.start()
	cron.lateness(1 if QUICK else 2)
	cron.rate(200 if QUICK else 2000)
	cron.kill(300)


def rivals() -> None:
	with tempfile.TemporaryDirectory() as folder:
		redis = subjects.redis_server(folder)
		try:
			for name, module in (("hwt_store", "cffi"), ("apscheduler", "apscheduler"), ("celery", "celery")):
				try:
					importlib.import_module(module)
				except ImportError:
					say(name, "is not installed")
					continue
				if name == "celery" and redis is None:
					say(name, "redis-server is not installed")
					continue
				n = {"hwt_store": 20000, "apscheduler": 1000, "celery": 4000}[name] // (10 if QUICK else 1)
				with_workers(name, 1, 0, lambda subject, log: lateness(subject, log, n=100 if QUICK else 1000, over_s=2 if QUICK else 20))
				with_workers(name, 1, 0, lambda subject, log: rate(subject, log, n))
				with_workers(name, 3, 0.3, lambda subject, log: kill(subject, log, 300))
		finally:
			if redis is not None:
				redis.send_signal(signal.SIGTERM)
				redis.wait()


SCENARIOS: Dict[str, Any] = {
	"lives": lambda: lives(1000 if QUICK else 20000),
	"kills": lambda: kills(2 if QUICK else 20),
	"rivals": rivals,
	"pg_cron": pg_cron,
}

for scenario in [argument for argument in sys.argv[1:] if argument != "-q"] or list(SCENARIOS):
	print(f"-- {scenario}", flush=True)
	SCENARIOS[scenario]()
