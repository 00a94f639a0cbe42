"""Stores for coroutines: the calls of `Store`, made together; cancelled tasks lose and double nothing."""

import asyncio
import contextlib
import inspect
import math
import os
import random
import threading

import pytest
from contract import StoreContract
from contract.assignments import AssignmentRules
from contract.rewards import RewardRules

import sameluck as sl
from sameluck.live.calls import call_queue
from sameluck.live.databases.sqlite import Sqlite

EXPERIMENT = sl.Experiment(
    policies={"a": "ucb1", "b": "epsilon_greedy"}, arms=2, horizon=50, replications=600
)
MANY = sl.LiveOptions(open_replications=600)
LONG = 30.0  # seconds until a test that waits for nothing fails


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("own", "synchronous"),
    [(sl.AsyncStore, sl.Store), (sl.AsyncLiveExperiment, sl.LiveExperiment)],
)
def test_the_names_and_the_signatures_are_those_of_the_synchronous_class(own, synchronous):
    assert public(own) == public(synchronous) - {"database"}  # which has no coroutines
    methods = [name for name in public(own) if callable(getattr(own, name))]
    assert len(methods) > 8
    for name in methods:
        method, original = getattr(own, name), getattr(synchronous, name)
        assert inspect.iscoroutinefunction(method), name
        parameters = inspect.signature(original).parameters
        assert inspect.signature(method).parameters == parameters, name
        assert method.__doc__


def test_the_attributes_are_those_of_the_synchronous_experiment():
    async def main():
        async with started(Slow()) as live:
            for name in ("id", "name", "options", "started_at", "experiment"):
                assert getattr(live, name) == getattr(live.synchronous, name)

    asyncio.run(main())


def test_opening_takes_the_same_arguments():
    parameters = inspect.signature(sl.open).parameters
    assert inspect.signature(sl.open_async).parameters == parameters


# The rules of live experiments


class Blocking:
    """An object for coroutines, used by threads; attributes that it lacks are those of the synchronous object."""

    def __init__(self, own, loop):
        self._own, self._loop = own, loop

    def __getattr__(self, name):
        if not hasattr(self._own, name):  # has no coroutines
            return getattr(self._own.synchronous, name)
        method = getattr(self._own, name)
        if not inspect.iscoroutinefunction(method):
            return method

        def call(*arguments, **named):
            made = asyncio.run_coroutine_threadsafe(method(*arguments, **named), self._loop)
            answer = made.result()
            is_experiment = isinstance(answer, sl.AsyncLiveExperiment)
            return Blocking(answer, self._loop) if is_experiment else answer

        return call


@pytest.mark.slow
class TestContract(AssignmentRules, RewardRules):
    scenario = StoreContract.scenario

    @pytest.fixture
    def open_store(self, tmp_path):
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        path = str(tmp_path / "ledger.db")

        def opened(clock):
            synchronous = sl.Store(Sqlite(path, synchronous="normal"), clock=clock)
            return Blocking(sl.AsyncStore(synchronous), loop)

        yield opened
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# A store that can be slow


class Slow:
    """A database in memory that makes no transaction while it is held up."""

    read_only = False  # no `kind`: batches are made one at a time

    def __init__(self):
        self._database = Sqlite(None)
        self._changed = threading.Condition()
        self._allowed = math.inf  # transactions
        self.begun = 0  # of those
        self.transactions, self.error = 0, None

    def write(self, work):
        with self._changed:
            self.begun += 1
            assert self._changed.wait_for(lambda: self._allowed > 0, LONG)
            self._allowed -= 1
        if self.error:
            raise self.error
        self.transactions += 1
        return self._database.write(work)

    read = write

    def close(self):
        self._database.close()

    def allow(self, transactions):
        with self._changed:
            self._allowed = transactions
            self._changed.notify_all()

    @contextlib.contextmanager
    def held_up(self):
        """Until the end, transactions that begin wait."""
        self.hold_up()
        try:
            yield
        finally:
            self.allow(math.inf)

    def hold_up(self):
        self.begun = 0
        self.allow(0)


@contextlib.asynccontextmanager
async def started(database, **settings):
    async with sl.AsyncStore(sl.Store(database, **settings)) as store:
        yield await store.start("trial", EXPERIMENT, options=MANY)


async def begun(database, transactions=1):
    """Wait until so many transactions have begun."""
    while database.begun < transactions:
        await asyncio.sleep(0.001)


def within_reason(main):
    return asyncio.run(asyncio.wait_for(main, LONG))


@pytest.mark.slow
def test_calls_of_one_moment_share_transactions():
    async def main():
        database = Slow()
        async with started(database, timeout=LONG) as live:
            before = database.transactions
            answers = await asyncio.gather(*(live.assign(n) for n in range(150)))
            assert {answer.reason for answer in answers} == {"ASSIGNED"}
            receipts = await asyncio.gather(*(live.reward(answer.id, 1.0) for answer in answers))
            assert all(receipt.applied for receipt in receipts)
            # One alone, then a hundred, then the rest; and a look for what is overdue.
            assert database.transactions - before <= 8
            assert (await live.status()).answers == {"ASSIGNED": 150}

    within_reason(main())


def test_groups_in_turn_do_not_overlap_and_do_not_hold_up_others():
    """What waits meanwhile is one group, whichever thread is free."""
    groups, free, first = [], threading.Event(), threading.Event()

    def together(items):
        groups.append(items)
        first.set()
        assert free.wait(LONG)
        return items

    async def main():
        queue = call_queue.CallQueue(3, 1, failed=print)
        in_turn = call_queue.BatchedCall(together, in_turn=True)
        other = call_queue.BatchedCall(lambda items: items)
        calls = [asyncio.ensure_future(queue.call(in_turn, 0, None))]
        await asyncio.to_thread(first.wait, LONG)
        calls += [asyncio.ensure_future(queue.call(in_turn, n, None)) for n in range(1, 9)]
        assert await queue.call(other, "x", LONG) == "x"
        free.set()
        assert await asyncio.gather(*calls) == list(range(9))
        await queue.close(lambda: None)

    within_reason(main())
    assert groups == [[0], list(range(1, 9))]


def test_each_caller_gets_its_own_error():
    async def main():
        async with started(Slow(), timeout=LONG) as live:
            first = await live.assign("ann")
            calls = [live.reward(first.id, 1.0), live.reward(first.id, 0.0), live.assign("")]
            calls += [live.reward("asg_1", 1.0), live.reward(None, 1.0), live.assign("ann")]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(answer) for answer in answers] == [
                *(sl.Receipt, sl.Conflict, sl.Invalid, sl.Unknown, sl.Receipt, sl.Assignment)
            ]
            assert answers[1].code == "reward_conflict"
            assert answers[5] == first._replace(reason="STICKY")

    within_reason(main())


def test_errors_of_the_store_reach_every_caller():
    async def main():
        database = Slow()
        async with started(database, timeout=LONG) as live:
            assignment = await live.assign("ann")
            database.error = sl.Unavailable("gone")
            answers = await asyncio.gather(*(live.assign(n) for n in range(5)))
            assert {answer[1:] for answer in answers} == {("0", False, "UNAVAILABLE")}
            calls = [live.assign("bob", strict=True), live.reward(assignment.id, 1.0)] * 5
            answers = await asyncio.gather(
                *calls, live.expose(assignment.id), return_exceptions=True
            )
            assert {type(answer) for answer in answers} == {sl.Unavailable}
            # The circuit breaker is that of the synchronous calls.
            before = database.begun
            assert (await live.assign("eve")).reason == "UNAVAILABLE"
            assert database.begun == before
            live.synchronous.settings.after_fork()  # forget the failures
            database.error = ZeroDivisionError("a mistake")
            calls = [live.assign("bob"), live.assign("eve"), live.reward(assignment.id, 1.0)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(answer) for answer in answers} == {ZeroDivisionError}
            database.error = None
            assert (await live.reward(assignment.id, 1.0)).applied

    within_reason(main())


async def once_available(call):
    """After an outage the circuit breaker lets one call per second through."""
    while True:
        try:
            return await call()
        except sl.Unavailable:
            await asyncio.sleep(0.05)


@pytest.mark.slow
def test_a_store_that_hangs_does_not_stop_the_loop_and_users_get_the_fallback_in_time():
    async def main():
        database = Slow()
        async with started(database, timeout=0.1) as live:
            while not (assignment := await live.assign("ann")).enrolled:  # a slow machine
                pass
            with database.held_up():
                answers = await asyncio.gather(*(live.assign(n) for n in range(500)))
                assert {answer[1:] for answer in answers} == {("0", False, "UNAVAILABLE")}
                with pytest.raises(sl.Unavailable, match="did not answer in time"):
                    await live.assign("bob", strict=True)
                # Calls are not even submitted as long as it hangs, and may be made again afterwards.
                assert live.calls._waiting.keys() <= {live._assigning[False]}
                waiting = sum(map(len, live.calls._waiting.values()))
                await asyncio.gather(*(live.assign(n) for n in range(500, 1_000)))
                assert sum(map(len, live.calls._waiting.values())) == waiting
            receipt = await once_available(lambda: live.reward(assignment.id, 1.0))
            assert receipt.applied
            while (answer := await live.assign(0)).reason == "UNAVAILABLE":
                pass
            assert answer.reason == "ASSIGNED"  # the assignments nobody heard of are void
            while (status := await live.status()).users > 2:  # each call voids about a hundred
                await live.assign("ann")
            assert status.answers["UNAVAILABLE"] >= 1_000
            assert (status.users, status.waiting) == (2, 1)

    within_reason(main())


# Tasks that are cancelled


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_assignment_nobody_hears_of_is_void():
    async def main():
        database = Slow()
        async with started(database, timeout=LONG) as live:
            with database.held_up():
                first = asyncio.create_task(live.assign("first"))
                await begun(database)
                waiting = asyncio.create_task(live.assign("waiting"))
                await asyncio.sleep(0)
                await cancelled(first)  # in a transaction
                await cancelled(waiting)  # not yet
            assert (await live.assign("other")).reason == "ASSIGNED"
            assert (await live.status()).waiting == 1
            again = await live.assign("first")
            assert again.reason == "ASSIGNED"
            assert (await live.reward(again.id, 1.0)).applied
            assert (await live.status()).answers == {"ASSIGNED": 2}

    within_reason(main())


def test_an_answer_that_comes_just_before_the_cancellation_is_not_lost(monkeypatch):
    async def main():
        async with started(Slow(), timeout=LONG) as live:
            task = asyncio.create_task(live.assign("first"))

            def end(answered, original=call_queue._end):
                original(answered)
                task.cancel()

            monkeypatch.setattr(call_queue, "_end", end)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await live.assign("first")).reason == "ASSIGNED"
            assert (await live.status()).voided == 1

    within_reason(main())


def test_a_unit_that_another_task_has_told_keeps_its_assignment():
    async def main():
        database = Slow()
        async with started(database, timeout=LONG, clock=lambda: 1_700_000_000.0) as live:
            await live.assign("first")
            with database.held_up():
                other = asyncio.create_task(live.assign("other"))
                await begun(database)
                tasks = [asyncio.create_task(live.assign("ann")) for _ in range(3)]
                await asyncio.sleep(0)
                database.allow(1)
                await other
                await begun(database, 2)
                await cancelled(tasks[0])  # whose call makes the assignment
            delivered = await tasks[1]
            assert (delivered.reason, await tasks[2]) == ("STICKY", delivered)
            await live.assign("last")
            assert (await live.reward(delivered.id, 1.0)).applied

    within_reason(main())


def test_a_reward_is_reported_even_if_the_task_is_cancelled():
    async def main():
        database = Slow()
        async with started(database, timeout=LONG) as live:
            ids = [(await live.assign(n)).id for n in range(2)]
            with database.held_up():
                tasks = [asyncio.create_task(live.reward(id, 1.0)) for id in ids]
                await begun(database)
                for task in tasks:
                    await cancelled(task)
            receipts = [await live.reward(id, 1.0) for id in ids]
            assert all(receipt.duplicate for receipt in receipts)

    within_reason(main())


@pytest.mark.slow
def test_users_who_leave_at_random(url):
    """What was acknowledged or passed on counts once; no entry waits for a user who was not told the arm."""
    luck = random.Random(3)

    async def main():
        delivered, rewarded, acknowledged = [], [], {}

        async def serve(live, unit):
            answer = await live.assign(unit)
            delivered.append(unit)
            await asyncio.sleep(luck.choice((0, 0.002)))
            rewarded.append(unit)
            receipt = await live.reward(answer.id, float(unit % 2))
            assert receipt.applied
            acknowledged[answer.id] = receipt.value

        async def visit(live, unit):
            task = asyncio.create_task(serve(live, unit))
            if luck.random() < 0.5:
                await asyncio.sleep(luck.random() * 0.02)
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        async with sl.open_async(url, timeout=LONG) as store:
            live = await store.start("trial", EXPERIMENT, options=MANY)
            for first in range(0, 400, 100):
                await asyncio.gather(*(visit(live, unit) for unit in range(first, first + 100)))
            await live.assign("last")
            for id, value in acknowledged.items():
                assert (await live.describe(id)).value == value
            status = await live.status()
            assert 0 < len(acknowledged) <= len(rewarded) < 400
            assert (status.settled, status.users) == (len(rewarded), len(delivered) + 1)

    within_reason(main())


# Event loops and processes


@pytest.mark.slow
def test_a_loop_that_ends_with_calls_in_flight_and_another_one():
    database = Slow()
    store = sl.AsyncStore(sl.Store(database, timeout=LONG))

    async def abandon():
        live = await store.start("trial", EXPERIMENT, options=MANY)
        given = await live.assign("ann")
        database.hold_up()
        tasks = [live.assign("bob"), live.reward(given.id, 1.0)]
        tasks = [asyncio.create_task(task) for task in tasks]
        await begun(database)
        return live, given, tasks

    async def go_on(live, given):
        database.allow(math.inf)
        assert (await live.reward(given.id, 1.0)).duplicate
        assert (await live.assign("bob")).reason == "ASSIGNED"
        assert (await live.status()).waiting == 1
        await store.close()
        with pytest.raises(sl.Closed):
            await live.assign("eve")
        with pytest.raises(sl.Closed):
            await live.status()
        await store.close()

    live, given, _ = within_reason(abandon())
    within_reason(go_on(live, given))


@pytest.mark.slow
def test_two_loops_at_once():
    with contextlib.closing(sl.Store(Slow(), timeout=LONG)) as synchronous:
        synchronous.start("trial", EXPERIMENT, options=MANY)
        store, answers = sl.AsyncStore(synchronous), []

        async def serve(first):
            live = await store.load("trial")
            for n in range(first, first + 20):
                assignments = await asyncio.gather(*(live.assign(f"{n} {k}") for k in range(5)))
                answers.extend(await asyncio.gather(*(live.reward(g.id, 1.0) for g in assignments)))

        threads = [
            threading.Thread(target=asyncio.run, args=[serve(first)]) for first in (0, 1_000)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 200
        assert all(receipt.applied for receipt in answers)
        within_reason(store.close())


def test_closing_answers_the_calls_that_wait_even_if_it_is_cancelled():
    async def main():
        database = Slow()
        store = sl.AsyncStore(sl.Store(database, timeout=LONG))
        live = await store.start("trial", EXPERIMENT, options=MANY)
        with database.held_up():
            tasks = [asyncio.create_task(live.assign(n)) for n in range(5)]
            await begun(database)
            closing = asyncio.create_task(store.close())
            await asyncio.sleep(0.01)
            await cancelled(closing)
            with pytest.raises(sl.Closed):
                await live.assign("late")
        assert {answer.reason for answer in await asyncio.gather(*tasks)} == {"ASSIGNED"}

    within_reason(main())


def test_opening_that_is_cancelled_leaves_the_file_to_the_next(sqlite_url):
    async def main():
        async def opened():
            async with sl.open_async(sqlite_url):
                await asyncio.sleep(LONG)

        for pause in (0, 0.001, 0.005, 0.05):
            task = asyncio.create_task(opened())
            await asyncio.sleep(pause)
            await cancelled(task)
            while True:
                with contextlib.suppress(sl.Unavailable):  # until it is closed
                    store = await sl.open_async(sqlite_url)
                    break
            assert await store.names() == []
            await store.close()
        with pytest.raises(sl.Invalid, match="unknown address of a store"):
            await sl.open_async("mysql://")

    within_reason(main())


@pytest.mark.slow
def test_a_forked_process_has_threads_of_its_own(url):
    """The calls in flight stay those of its parent."""

    async def in_child(store, live):
        if url.startswith("sqlite"):
            return (await live.assign("ann")).reason
        assert not live.calls._waiting
        answers = await asyncio.gather(*(live.assign(n) for n in ("ann", "child", "child")))
        await store.close()
        return " ".join(sorted(answer.reason for answer in answers))

    async def main():
        async with sl.open_async(url, timeout=LONG) as store:
            live = await store.start("trial", EXPERIMENT, options=MANY)
            await live.assign("ann")
            tasks = [asyncio.create_task(live.assign(n)) for n in range(300)]
            await asyncio.sleep(0)
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    os.write(writing, asyncio.run(in_child(store, live)).encode())
                os._exit(0)
            os.close(writing)
            answers = await asyncio.gather(*tasks)
            with os.fdopen(reading) as output:
                reasons = await asyncio.to_thread(output.read)
            await asyncio.to_thread(os.waitpid, child, 0)
            assert {answer.reason for answer in answers} == {"ASSIGNED"}
            return reasons, (await live.status()).users

    reasons, users = within_reason(main())
    if url.startswith("sqlite"):  # its parent writes
        assert (reasons, users) == ("UNAVAILABLE", 301)
    else:
        assert (reasons, users) == ("ASSIGNED STICKY STICKY", 302)
