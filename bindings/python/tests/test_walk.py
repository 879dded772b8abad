# SPDX-License-Identifier: BSD-2-Clause
"""
A random walk over the API, in both flavours, beside workers that are killed, stopped, and fork: against a model.

HWT_WALK_S seconds on each engine from HWT_SEED (17).
"""

import asyncio
import collections
import os
import random
import re
import signal
import time
from typing import Any, Dict, List, Set

import pytest
from conftest import World, wait_until

import hwt_store
from hwt_store import Outcome, Put, State

WORKER = """
import asyncio, logging, multiprocessing, os, random, sys, time, hwt_store
logging.disable()
log = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
context = multiprocessing.get_context("fork")
class Bad(Exception):
	def __str__(self):
		raise KeyError
def told(run):
	if run.is_mine():
		os.write(log, f"begun {run.id}\\n".encode())
	if run.data == "raise":
		raise Bad
	if run.data == "give_up":
		return run.give_up("a\\0b")
	if run.data == "again" and random.random() < 0.5:
		return run.again(0.01)
	if run.data == "fork":
		child = context.Process(target=lambda: (store.stop(), time.sleep(60)))
		child.start()
		child.terminate()
		child.join()
		assert child.exitcode == -15
	os.write(log, f"done {run.id}\\n".encode())
settings = {"schema": sys.argv[2], "lease": 2}
kind = {"max_attempts": 1000, "backoff": 0.01, "backoff_max": 0.1, "timeout": 1}
if sys.argv[4] == "threads":
	store = hwt_store.open_threads(sys.argv[1], threads=4, **settings)
	@store.kind("w", **kind)
	def task(run):
		told(run)
	@store.kind("raise", backoff=0.01, max_attempts=2)
	def fails(run):
		told(run)
	store.run(stop_within=0.2)
	store.close()
else:
	store = hwt_store.open(sys.argv[1], **settings)
	@store.kind("w", **kind)
	async def task(run):
		if run.data == "cancel" and random.random() < 0.3 / run.attempt:
			[other.cancel() for other in store._tasks]
		await asyncio.sleep(0)
		told(run)
	@store.kind("raise", backoff=0.01, max_attempts=2)
	async def fails(run):
		told(run)
	async def main():
		await store.run(stop_within=0.2)
		await store.close()
	asyncio.run(main())
"""

WHAT = ["ok", "ok", "ok", "again", "give_up", "cancel", "fork"]


class Walk:
	def __init__(self, world: World, seed: int) -> None:
		self.world = world
		self.random = random.Random(seed)
		self.log = world.folder / "log"
		self.log.touch()
		self.what: Dict[int, str] = {}  # data of each put, by id
		self.keys: Dict[str, int] = {}
		self.cancelled: Set[int] = set()
		self.after: Dict[int, int] = {}  # by id: size of the log just after its cancel
		self.on_loop, self.on_threads = world.open(), world.open_threads()
		self.steps: Dict[str, int] = collections.Counter()
		self.workers: List[Any] = []

	def start(self) -> None:
		flavour = self.random.choice(["threads", "asyncio"])
		self.workers.append(self.world.start(WORKER, str(self.log), flavour))

	async def call(self, name: str, *arguments: Any, **named: Any) -> Any:
		"""On one of the flavours."""
		if self.random.random() < 0.5:
			return await getattr(self.on_loop, name)(*arguments, **named)
		return await asyncio.to_thread(getattr(self.on_threads, name), *arguments, **named)

	def draw(self) -> Put:
		kind = self.random.choice(["w", "w", "w", "raise"])
		what = "raise" if kind == "raise" else self.random.choice(WHAT)
		delay = self.random.choice([0, 0.01, 0.5, 3600])
		group = self.random.choice([None, "g", "h"])
		return Put(kind, what, delay=delay, group=group, priority=self.random.randint(-100, 100))

	async def step(self) -> None:
		step = self.random.choice(
			["put", "puts", "put_many", "cancel", "reschedule", "get", "each", "key", "pause", "reopen", "kill", "bad"]
		)
		self.steps[step] += 1
		ids = list(self.what)
		id = self.random.choice(ids) if ids else 1
		if step == "put":
			put = self.draw()
			self.what[await self.call("put", **vars(put))] = put.data
		elif step == "puts":
			puts = [self.draw() for _ in range(self.random.randint(2, 30))]
			for put, got in zip(puts, await asyncio.gather(*(self.on_loop.put(**vars(put)) for put in puts))):
				self.what[got] = put.data
		elif step == "put_many":
			puts = [self.draw() for _ in range(self.random.randint(0, 30))]
			for put, got in zip(puts, await self.call("put_many", puts)):
				self.what[got] = put.data
		elif step == "cancel":
			outcome = await self.call("cancel", id)
			assert not (outcome is Outcome.DONE and id in self.cancelled)
			if outcome:
				self.cancelled.add(id)
				self.after[id] = self.log.stat().st_size
		elif step == "reschedule":
			outcome = await self.call("reschedule", id, delay=self.random.choice([0, 0.1]))
			assert not (outcome and id in self.cancelled)
		elif step == "get":
			info = await self.call("get", id)
			assert info is None or (info.id not in self.cancelled and info.data == self.what[id])
		elif step == "each":
			async for info in self.on_loop.each("w"):
				assert info.id in self.what and info.id not in self.cancelled
				if self.random.random() < 0.1:
					break
			for info in self.on_threads.each("raise"):
				assert info.id in self.what and info.id not in self.cancelled
				if self.random.random() < 0.1:
					break
		elif step == "key":
			got = await self.call("put", "w", "ok", key="k", if_exists="keep", delay=3600)
			assert self.keys.setdefault("k", got) == got or self.what[self.keys["k"]]
			self.keys["k"] = got
			self.what[got] = "ok"
		elif step == "pause":
			await self.call("pause", "w", self.random.choice([None, "g"]))
			await self.call("resume", "w", None)
			await self.call("resume", "w", "g")
		elif step == "reopen":
			held = self.on_threads.each("w")
			next(held, None)
			self.on_threads.close()
			with pytest.raises(hwt_store.Invalid):
				self.on_threads.put("w")
			self.on_threads = self.world.open_threads()
			await self.on_loop.close()
			self.on_loop = self.world.open()
		elif step == "kill" and self.workers:
			worker = self.workers.pop(self.random.randrange(len(self.workers)))
			worker.send_signal(self.random.choice([signal.SIGKILL, signal.SIGTERM]))
			worker.wait()
			self.start()
		elif step == "bad":
			for call in (
				self.call("get", self.random.choice([0, -1, 2**63])),
				self.call("put", "w", every=0.5),
				self.call("put", "w", if_exists="never"),
				self.call("put", "w", key="a\0"),
			):
				with pytest.raises(hwt_store.Invalid):
					await call

	async def walk(self, seconds: float) -> None:
		await self.on_loop.put_many([Put("w", "ok", delay=3600), Put("raise", "raise", delay=3600)])
		for kind in ("w", "raise"):
			async for info in self.on_loop.each(kind):
				self.what[info.id] = info.data
		for _ in range(2):
			self.start()
		until = time.monotonic() + seconds
		while time.monotonic() < until:
			await self.step()
		# All that is left comes now, and runs.
		for kind in ("w", "raise"):
			await self.call("reschedule_all", kind, states=[State.PENDING])
		# A list by states may miss a row that goes from one to the other meanwhile; one of all states does not, as a run
		# moves a row to later times only.
		left: List[hwt_store.Info] = []

		def nothing_waits() -> bool:
			left[:] = [info for kind in ("w", "raise") for info in self.on_threads.each(kind)]
			return all(info.state == State.FAILED for info in left)

		wait_until(nothing_waits)
		failed = {info.id: info.error for info in left}
		said = self.log.read_text()
		done = {int(id) for id in re.findall(r"^done (\d+)$", said, re.MULTILINE)}
		for id, size in self.after.items():
			assert f"begun {id}\n" not in said[size:], (id, "begun after its cancel")
		for id, what in self.what.items():
			if id in self.cancelled:
				continue
			elif what == "raise":
				assert (failed.get(id) or "").startswith(("Bad: ", "CancelledError", "its process died")), (id, failed.get(id))
			elif what == "give_up":
				assert failed.get(id) == "a?b", (id, failed.get(id))
			else:
				assert id in done and id not in failed, (id, what, failed.get(id))
		assert set(failed) <= set(self.what)
		print(f"{sum(self.steps.values())} steps, {len(self.what)} put, {len(done)} done, {len(self.cancelled)} cancelled")
		for worker in self.workers:
			worker.send_signal(signal.SIGTERM)
			assert worker.wait() == 0
		self.on_threads.close()
		await self.on_loop.close()


@pytest.mark.skipif("HWT_WALK_S" not in os.environ, reason="the walk is make nightly's: HWT_WALK_S=60 says how long")
def test_a_random_walk_finds_what_the_model_says(world: World) -> None:
	seed = int(os.environ.get("HWT_SEED") or 17)
	print(f"HWT_SEED={seed}")
	asyncio.run(Walk(world, seed).walk(float(os.environ["HWT_WALK_S"])))
