# SPDX-License-Identifier: BSD-2-Clause
"""kill -9: others take over, and nothing is lost."""

import os
import re
from typing import Set

from conftest import World, wait_until

from hwt_store import Put

WORKER = """
import asyncio, os, sys, hwt_store
store = hwt_store.open(sys.argv[1], schema=sys.argv[2], lease=1)
log = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def say(word, run):
	os.write(log, f"{word} {run.data} {os.getpid()}\\n".encode())
@store.kind("life", concurrency=4, backoff=0.001)
async def life(run):
	if run.data == "held" and run.attempt == 1:
		say("hold", run)
		await asyncio.Event().wait()
	say("done", run)
asyncio.run(store.run())
"""


def test_of_three_workers_one_is_killed(world: World) -> None:
	log = world.folder / "log"
	log.touch()
	for _ in range(3):
		world.start(WORKER, str(log))

	def done() -> Set[str]:
		return set(re.findall(r"^done (\w+) ", log.read_text(), re.MULTILINE))

	with world.open_threads() as store:
		store.put("life", "first")
		wait_until(lambda: "first" in done() and store.kinds()[0].processes == 3)
		store.put_many([Put("life", "held")] + [Put("life", n, delay=n / 100) for n in range(300)])
		pid = int(wait_until(lambda: re.search(r"^hold held (\d+)$", log.read_text(), re.MULTILINE))[1])
		os.kill(pid, 9)
		wait_until(lambda: done() == {"first", "held"} | {str(n) for n in range(300)})
		wait_until(lambda: list(store.each("life")) == [])
		assert f"done held {pid}" not in log.read_text()
