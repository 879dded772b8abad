# SPDX-License-Identifier: BSD-2-Clause
"""What is put, found, moved and cancelled. Nothing runs here."""

import asyncio
import dataclasses
import json
import os
import threading
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List

import pytest
from conftest import World, wait_until

import hwt_store
from hwt_store import Outcome, Put, State

LATER = datetime(2100, 1, 1, 12, 0, 0, 250000, tzinfo=timezone.utc)


def test_what_is_put_is_read(world: World) -> None:
	with world.open_threads() as store:
		id = store.put("mail", {"to": "Zoë"}, at=LATER, key="k", group="tenant 9", priority=7, grace=60)
		info = store.get(id)
		assert info is not None and info == store.get(kind="mail", key="k", group="tenant 9")
		assert (info.id, info.kind, info.key, info.group, info.priority) == (id, "mail", "k", "tenant 9", 7)
		assert (info.state, info.due, info.data) == (State.PENDING, LATER, {"to": "Zoë"})
		assert (info.every, info.cron, info.zone, info.error, info.attempt) == (None, None, None, None, 0)
		assert store.get(kind="mail", key="k") is None
		# In the local zone it is the same moment.
		local = store.get(store.put("mail", at=LATER.astimezone(timezone(timedelta(hours=5)))))
		assert local is not None and local.due == LATER and local.data is None and local.raw == b""
		series = store.get(store.put("mail", at=LATER, every=timedelta(days=1), spread=3))
		assert series is not None and series.every == timedelta(days=1)
		cron = store.get(store.put("mail", cron="0 8 * * mon", zone="UTC"))
		assert cron is not None and (cron.cron, cron.zone) == ("0 8 * * mon", "UTC")
		assert cron.due == hwt_store.next_time("0 8 * * mon", "UTC")


def test_data_are_json_or_bytes(world: World) -> None:
	with world.open_threads() as store:
		for data in (17, "text", [1, None, {"a": 0.5}], False, "x" * 100000):
			info = store.get(store.put("a", data, delay=9))
			assert info is not None and info.data == data and info.raw == json.dumps(data, ensure_ascii=False).encode()
		for raw in (b"\0\xff", bytearray(b"ab"), memoryview(b"cd"), b""):
			info = store.get(store.put("a", raw, delay=9))
			assert info is not None and info.raw == bytes(raw)
		info = store.get(store.put("a", b"\xff", delay=9))
		with pytest.raises(ValueError):
			info.data if info else None


def test_hwt_jobs_and_python_read_each_other(world: World) -> None:
	if not os.path.exists(os.path.join(os.environ["HWT_BUILD"], "hwt-jobs")):
		pytest.skip("no hwt-jobs")
	with world.open_threads() as store:
		store.put("expire", {"order": 17, "to": "Zoë"}, delay=3600, key="here")
		assert '{"order": 17, "to": "Zoë"}' in world.jobs("show", "expire", "--key", "here")
		(row,) = json.loads(world.jobs("list", "expire", "--json"))
		assert json.loads(row["data"]) == {"order": 17, "to": "Zoë"}
		world.jobs("put", "expire", '{"order": 18}', "--at", "1h", "--key", "there")
		info = store.get(kind="expire", key="there")
		assert info is not None and info.data == {"order": 18}


WRONG: Dict[str, Dict[str, Any]] = {
	"naive": {"at": datetime(2100, 1, 1)},
	"before 1970": {"at": datetime(1969, 1, 1, tzinfo=timezone.utc)},
	"two times": {"at": LATER, "delay": 1},
	"every 0": {"every": timedelta(0)},
	"every so short": {"every": 0.5},
	"grace 0": {"grace": 0},
	"spread of a single one": {"spread": 1},
	"a cron line": {"cron": "* * * *"},
	"a zone alone": {"zone": "UTC"},
	"two series": {"cron": "@daily", "every": 60},
	"priority": {"priority": 101},
	"an empty key": {"key": ""},
	"a long key": {"key": "k" * 256},
	"a character 0": {"key": "a\0b"},
	"an empty group": {"group": ""},
	"keep without a key": {"if_exists": "keep"},
	"replace without a key": {"if_exists": "replace"},
	"no such word": {"if_exists": "overwrite", "key": "k"},
	"no number": {"delay": float("nan")},
	"too many seconds": {"delay": 1e300},
	"NaN in data": {"data": [float("nan")]},
	"a lone surrogate": {"data": "\ud800"},
	"too much data": {"data": b"x" * (1 << 20) + b"x"},
}


def test_wrong_arguments_raise_and_put_nothing(world: World) -> None:
	with world.open_threads() as store:
		for name, wrong in WRONG.items():
			with pytest.raises(ValueError):
				print(name, store.put("b", **wrong))
		types: List[Dict[str, Any]] = [{"delay": "5"}, {"at": 17}, {"key": 17}, {"data": {1, 2}}, {"priority": "high"}]
		for wrong in types:
			with pytest.raises(TypeError):
				store.put("b", **wrong)
		for kind in ("", "k" * 64):
			with pytest.raises(hwt_store.Invalid):
				store.put(kind)
		with pytest.raises(hwt_store.Invalid, match="an id"):
			store.cancel()
		with pytest.raises(hwt_store.Invalid):
			store.get(kind="a")
		with pytest.raises(hwt_store.Invalid):
			store.cancel(0)
		with pytest.raises(hwt_store.Invalid):
			store.cancel(17, kind="a", key="k")
		with pytest.raises(hwt_store.Invalid):
			store.reschedule(17, delay=1, at=LATER)
		assert all(list(store.each(kind.kind)) == [] for kind in store.kinds())


def test_a_key_is_used_once(world: World) -> None:
	with world.open_threads() as store:
		id = store.put("a", 1, at=LATER, key="k")
		with pytest.raises(hwt_store.Exists) as error:
			store.put("a", 2, key="k")
		assert error.value.id == id
		assert store.put("a", 2, key="k", group="g") != id
		assert store.put("a", 3, key="k", if_exists="keep") == id
		assert store.put("a", 3, key="k", if_exists="revive") == id
		kept = store.get(id)
		assert kept is not None and kept.data == 1
		assert store.put("a", 4, at=LATER, key="k", if_exists="replace") == id
		with pytest.raises(hwt_store.Exists):
			store.put("a", 3, every=60, key="k", if_exists="keep_due")
		with pytest.raises(hwt_store.Invalid, match="every or cron"):
			store.put("a", 3, key="l", if_exists="keep_due")
		series = store.put("a", 3, every=60, delay=3600, key="l", if_exists="keep_due")
		assert store.put_many([Put("a", 5, every=90, key="l", if_exists="keep_due")]) == [series]
		kept = store.get(series)
		assert kept is not None and kept.data == 5
		replaced = store.get(id)
		assert replaced is not None and replaced.data == 4


def test_many_are_put_together_or_not_at_all(world: World) -> None:
	with world.open_threads() as store:
		ids = store.put_many(Put("a", n, delay=3600 + n, key=f"k{n}") for n in range(1200))
		assert len(set(ids)) == 1200
		seventh = store.get(ids[7])
		assert seventh is not None and seventh.data == 7
		with pytest.raises(hwt_store.Exists) as error:
			store.put_many([Put("a", key="new"), Put("a", key="k7")])
		assert error.value.id == ids[7]
		assert store.get(kind="a", key="new") is None
		with pytest.raises(hwt_store.Invalid):
			store.put_many([Put("a", key="new"), Put("a", priority=200)])
		with pytest.raises(hwt_store.Invalid, match="10,?000"):
			store.put_many([Put("a")] * 10001)
		assert store.put_many([]) == []
		# More than a page, in order of due time; and a list that is left early.
		assert [info.id for info in store.each("a")] == ids
		assert [info.raw for info in store.each("a", with_data=False)] == [b""] * 1200
		for info in store.each("a"):
			assert info.id == ids[0]
			break
		with pytest.raises(hwt_store.NotFound):
			list(store.each("b"))
	with pytest.raises(hwt_store.Invalid, match="closed"):
		store.put("a")


def test_cancel_and_reschedule_say_what_they_found(world: World) -> None:
	with world.open_threads() as store:
		id = store.put("a", delay=3600, key="k", group="g")
		assert store.reschedule(id, at=LATER) is Outcome.DONE
		moved = store.get(id)
		assert moved is not None and moved.due == LATER
		assert store.reschedule(kind="a", key="k", group="g", delay=timedelta(hours=1))
		assert store.cancel(kind="a", key="k") is Outcome.NONE
		assert not store.reschedule(kind="a", key="k", delay=1)
		assert store.cancel(kind="a", key="k", group="g") is Outcome.DONE
		assert store.cancel(id) is Outcome.NONE
		assert store.reschedule(id) is Outcome.NONE


def test_all_of_a_group_or_kind(world: World) -> None:
	with world.open_threads() as store:
		store.put_many(Put("a", delay=3600, group=group) for group in ("g", "h", None) for _ in range(5))
		assert store.reschedule_all("a", group="g", at=LATER) == 5
		assert [info.due for info in store.each("a", group="g")] == [LATER] * 5
		assert store.cancel_all("a", states=[State.FAILED]) == 0
		assert len(list(store.each("a", states=[State.PENDING]))) == 15
		assert list(store.each("a", states=[State.FAILED, State.RUNNING])) == []
		assert store.cancel_all("a", group="h") == 5
		assert store.cancel_all("a", group=None) == 5
		assert [info.group for info in store.each("a")] == ["g"] * 5
		assert store.cancel_all("a") == 5
		assert list(store.each("a", group=hwt_store.ANY)) == []


def test_kinds_and_their_rules(world: World) -> None:
	with world.open_threads() as store:
		id = store.put("a", at=LATER)
		store.limit("a", running=3, start_every=timedelta(seconds=2), burst=5)
		store.limit("a", "g", running=1)
		store.pause("a")
		(kind,) = store.kinds()
		assert (kind.kind, kind.paused, kind.failed, kind.oldest_due) == ("a", True, 0, LATER)
		assert (kind.group_limit, kind.group_start_every, kind.group_burst) == (3, timedelta(seconds=2), 5)
		assert (kind.processes, kind.shards, kind.at_most_once) == (0, 8, False)
		store.unlimit("a")
		store.unlimit("a", "g")
		store.resume("a")
		store.pause("a", "g")
		store.resume("a", "g")
		(kind,) = store.kinds()
		assert (kind.paused, kind.group_limit) == (False, 0)
		with pytest.raises(hwt_store.Invalid):
			store.limit("a", running=-1)
		with pytest.raises(hwt_store.Invalid):
			store.limit("a", burst=3)
		with pytest.raises(hwt_store.NotFound):
			store.pause("b")
		with pytest.raises(hwt_store.Busy):
			store.remove_kind("a")
		store.cancel(id)
		store.remove_kind("a")
		assert store.kinds() == []
		stats = store.stats()
		assert stats.put == 1 and stats.cancelled == 1 and len(stats.lateness) == 32
		with pytest.raises(hwt_store.NotFound):
			store.stats("a")
		assert "hwt_store_database_up 1" in store.prometheus()


def test_what_is_due_says_why_it_does_not_run(world: World) -> None:
	async def main() -> None:
		async with world.open() as store:

			@store.kind("a")
			async def a(run: hwt_store.Run) -> None:
				raise AssertionError("it is paused")

			await store.put("a", delay=-5)
			(kind,) = await store.kinds()
			assert list(kind.waiting) == ["nobody"]
			assert kind.waiting["nobody"].count == 1 and kind.waiting["nobody"].oldest >= timedelta(0)
			assert kind.waiting_age is None and kind.started_minute == 0
			await store.pause("a")
			running = asyncio.ensure_future(store.run())
			while not (await store.stats("a")).waiting.get("pause"):
				await asyncio.sleep(0.01)
			await store.put("a")
			while (await store.stats("a")).waiting["pause"].count < 2:
				await asyncio.sleep(0.01)
			assert list((await store.stats()).waiting) == ["pause"]
			while "pause" not in kind.waiting:  # a renewal tells it
				(kind,) = await store.kinds()
				await asyncio.sleep(0.01)
			assert kind.waiting["pause"].count in (1, 2) and kind.waiting_age is not None
			store.stop()
			await running

	asyncio.run(main())


def test_the_same_on_asyncio(world: World) -> None:
	async def main() -> None:
		async with world.open() as store:
			id = await store.put("a", {"n": 1}, delay=3600, key="k", group="g")
			assert await store.put("a", key="k", group="g", if_exists="keep") == id
			ids = await store.put_many(Put("a", n, at=LATER) for n in range(600))
			assert [info.id async for info in store.each("a")] == [id] + ids
			async for info in store.each("a", group="g"):
				assert info == await store.get(id)
				break
			with pytest.raises(hwt_store.NotFound):
				[info async for info in store.each("b")]
			assert await store.reschedule(id, delay=60)
			assert await store.reschedule_all("a", group=None, delay=60) == 600
			assert await store.cancel(kind="a", key="k", group="g")
			assert await store.cancel(id) is Outcome.NONE
			await store.limit("a", running=3)
			await store.pause("a")
			(kind,) = await store.kinds()
			assert kind.paused and kind.group_limit == 3
			await store.unlimit("a")
			await store.resume("a")
			assert await store.cancel_all("a") == 600
			await store.remove_kind("a")
			assert (await store.stats()).put == 601
			assert "hwt_store_put" in await store.prometheus()
		with pytest.raises(hwt_store.Invalid, match="closed"):
			await store.put("a")

	asyncio.run(main())


def test_coroutines_that_put_at_once_share_transactions(world: World) -> None:
	async def main() -> None:
		async with world.open() as store:
			await store.put("a", "first", at=LATER)
			puts = [store.put("a", n, at=LATER) for n in range(200)]
			puts[100:100] = [store.put("a", priority=200), store.put("a", {1, 2})]
			cancelled = asyncio.ensure_future(store.put("a", "cancelled", at=LATER))
			await asyncio.sleep(0)
			cancelled.cancel()
			ids = await asyncio.gather(*puts, return_exceptions=True)
			wrong, of_type = ids.pop(100), ids.pop(100)
			assert isinstance(wrong, hwt_store.Invalid) and "priority" in str(wrong)
			assert isinstance(of_type, TypeError)
			found = {info.id: info.data async for info in store.each("a") if info.data not in ("first", "cancelled")}
			assert found == {id: n for n, id in enumerate(ids)}
			# None is to blame: one transaction for all that wait.
			before = (await store.stats()).round_trips
			store._puts._busy = True
			tasks = [asyncio.ensure_future(store.put("a", n, at=LATER)) for n in range(200)]
			await asyncio.sleep(0)
			tasks.pop(0).cancel()  # its place in the transaction stays
			store._pool.submit(store._puts._put_waiting)
			await asyncio.gather(*tasks)
			assert (await store.stats()).round_trips - before < 20

	asyncio.run(main())


def test_close_waits_for_calls(world: World) -> None:
	store = world.open_threads()
	go_on = threading.Event()
	ends: List[str] = []

	def call(_handle: Any) -> int:
		go_on.wait()
		ends.append("call")
		return 0

	def close() -> None:
		store.close()
		ends.append("close")

	threads = [threading.Thread(target=store._calls._call, args=(call,)), threading.Thread(target=close)]
	threads[0].start()
	wait_until(lambda: store._calls._calls == 1)
	threads[1].start()
	threads[1].join(0.1)  # time to do it wrong
	go_on.set()
	for thread in threads:
		thread.join()
	assert ends == ["call", "close"]


def test_a_forked_child_opens_anew(world: World) -> None:
	with world.open_threads() as store:
		mine = store.put("a", "parent", delay=3600)
		child = os.fork()
		if child == 0:
			status = 1
			try:
				theirs = store.put("a", "child", delay=3600)
				status = 0 if theirs != mine and store.cancel(mine) else 2
			except hwt_store.Invalid as error:
				status = 3 if "forked" in str(error) else 4
			finally:
				os._exit(status)
		status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
		if world.url.startswith("sqlite:"):  # whose mutexes and locks are copied as they are
			assert status == 3
			assert store.cancel(mine)
		else:
			assert status == 0
			assert store.cancel(mine) is Outcome.NONE
			assert [info.data for info in store.each("a")] == ["child"]


NAMES = ["delay_ns", "due_us", "period_ns", "_ns", "_us", "schedule", "HWT_", "hwt_store_"]


def test_errors_name_the_arguments_of_python(world: World) -> None:
	with world.open_threads() as store:
		for arguments, word in (
			({"every": 0.5}, "every is 0, or"),
			({"every": 5, "cron": "@daily"}, "every and cron"),
			({"grace": 4e9}, "grace is"),
			({"spread": 1}, "spread needs cron or every"),
			({"cron": "@daily", "spread": -1}, "spread is"),
			({"if_exists": "replace"}, 'if_exists "replace"'),
			({"priority": 2**40}, "priority"),
			({"priority": 101}, "priority"),
			({"key": "\ud800"}, "Unicode"),
		):
			with pytest.raises(hwt_store.Invalid, match=word) as caught:
				store.put("a", **arguments)  # type: ignore[arg-type]
			assert not any(name in str(caught.value) for name in NAMES)
		store.put("a")
		with pytest.raises(hwt_store.Invalid, match="burst needs a rate: start_every$"):
			store.limit("a", burst=3)
		for id in (0, -1, 2**63, 2**80):
			with pytest.raises(hwt_store.Invalid, match="id"):
				store.get(id)
			with pytest.raises(hwt_store.Invalid, match="id"):
				store.cancel(id)
		for states in (["pending"], "pending", [1]):
			with pytest.raises(TypeError, match="State.PENDING"):
				store.cancel_all("a", states=states)  # type: ignore[arg-type]
			with pytest.raises(TypeError, match="State.PENDING"):
				list(store.each("a", states=states))  # type: ignore[arg-type]
	with pytest.raises(hwt_store.Invalid, match="^lease is"):
		world.open(lease=0.1)


def test_put_many_refuses_what_is_not_for_all_or_none(world: World) -> None:
	with world.open_threads() as store:
		for if_exists in ("keep", "revive"):
			with pytest.raises(hwt_store.Invalid, match=if_exists):
				store.put_many([Put("a"), Put("a", key="k", if_exists=if_exists)])  # type: ignore[arg-type]
		ids = store.put_many([Put("a", key="k")])
		assert store.put_many([Put("a", key="k", if_exists="replace")]) == ids


def test_the_last_time_of_all_is_read(world: World) -> None:
	last = datetime.max.replace(tzinfo=timezone.utc)
	with world.open_threads() as store:
		id = store.put("a", at=last)
		between = store.put("a", at=last - timedelta(days=1))
		# The library takes a microsecond more than a datetime has.
		world.sql(f"update {world.schema}_timeout set due_us = 253402300800000000 where id = {id}")
		info = store.get(id)
		assert info is not None and info.due == last
		assert [info.id for info in store.each("a")] == [between, id]


@dataclasses.dataclass
class Order:
	number: uuid.UUID
	paid: datetime


def test_data_that_json_has_not_take_the_default(world: World) -> None:
	order = Order(uuid.UUID(int=17), datetime(2026, 1, 1, tzinfo=timezone.utc))

	def default(value: Any) -> Any:
		return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else str(value)

	with world.open_threads(default=default) as store:
		info = store.get(store.put("a", order))
		assert info is not None and info.data == {"number": str(order.number), "paid": str(order.paid)}
		(id,) = store.put_many([Put("a", {"order": order})])
	with world.open_threads() as store:
		with pytest.raises(TypeError, match="Order"):
			store.put("a", order)

	async def main() -> None:
		async with world.open(default=str) as store:
			info = await store.get(await store.put("a", order.number))
			assert info is not None and info.data == str(order.number)

	asyncio.run(main())


def test_puts_of_coroutines_fail_alone_and_together(world: World) -> None:
	"""Some that are invalid cost a few transactions; a database that is away costs one wait."""
	bad = {7, 77, 300}
	everybody = threading.Event()

	async def main() -> None:
		async with world.open() as store:
			tries: List[int] = []
			put_many = store._calls.put_many

			def counted(puts: Any) -> Any:
				puts = list(puts)
				tries.append(len(puts))
				return put_many(puts)

			store._calls.put_many = counted  # type: ignore
			results = await asyncio.gather(
				*(store.put("a", n, delay=3600, every=0.5 if n in bad else None) for n in range(500)),
				return_exceptions=True,
			)
			assert {n for n, result in enumerate(results) if isinstance(result, hwt_store.Invalid)} == bad
			assert len(tries) < 60
			assert len([info async for info in store.each("a")]) == 497

			def away(puts: Any) -> Any:  # or one alone, if the thread is faster than the coroutines
				tries.append(1)
				everybody.wait()
				raise hwt_store.Unavailable(11, "it is away")

			store._calls.put_many = store._calls.put = away  # type: ignore
			del tries[:]
			putting = asyncio.gather(*(store.put("a", [n]) for n in range(2000)), return_exceptions=True)
			for _ in range(3):
				await asyncio.sleep(0)
			everybody.set()
			results = await putting
			assert {type(result) for result in results} == {hwt_store.Unavailable}
			assert len(tries) == 1 and len({id(result) for result in results}) == 2000

	asyncio.run(main())
