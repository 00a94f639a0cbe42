"""SQLite keeps the contract, in memory and in a file, with one writing process and any number of readers."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from contract import StoreContract
from contract.scenario import Scenario, assert_finished, assert_same, options, simulated

import sameluck as sl
from sameluck.live.databases.rows import NumberRow, TextRow
from sameluck.live.databases.sqlite import Sqlite
from sameluck.live.databases.sqlite_file import SqliteFile
from sameluck.live.store import Store

HOLDER = """
import sys
import sameluck as sl
store = sl.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


class Kept(Sqlite):
    """A database in memory that outlives its store."""

    def close(self):
        pass


class TestMemory(StoreContract):
    @pytest.fixture
    def open_store(self):
        database = Kept(None)
        yield lambda clock: Store(database, clock=clock)
        Sqlite.close(database)


@pytest.mark.slow
class TestFile(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        return lambda clock: sl.open(url_of(tmp_path), clock=clock)


def url_of(folder, *, synchronous="normal", name="ledger.db"):
    return f"sqlite:///{folder}/{name}?synchronous={synchronous}"


@contextlib.contextmanager
def as_nobody():
    """Root may write everywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def serve(live, scenario):
    while scenario.serve(live).enrolled:
        pass


class TestOneWriter:
    @pytest.fixture
    def holder(self, tmp_path):
        command = [sys.executable, "-c", HOLDER, url_of(tmp_path)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes) as process:
            assert process.stdout.readline() == "open\n"
            yield process
            process.kill()

    @pytest.mark.slow
    def test_a_second_process_is_refused(self, tmp_path, holder):
        with pytest.raises(sl.Unavailable) as caught:
            sl.open(url_of(tmp_path))
        message = str(caught.value)
        assert "being written by another process" in message
        assert "read_only=True" in message
        assert "PostgreSQL" in message
        assert "\n" not in message

        with sl.open(url_of(tmp_path), read_only=True) as reader:
            assert reader.names() == []
        holder.communicate("")
        sl.open(url_of(tmp_path)).close()

    @pytest.mark.slow
    def test_a_killed_writer_leaves_the_file_to_the_next(self, tmp_path, holder):
        holder.send_signal(signal.SIGKILL)
        holder.wait()

        with sl.open(url_of(tmp_path)) as store:
            assert store.names() == []

    def test_a_second_store_of_the_same_process_is_refused(self, tmp_path):
        with (
            sl.open(url_of(tmp_path)),
            pytest.raises(sl.Unavailable, match="another process or store"),
        ):
            sl.open(url_of(tmp_path))


class TestReaders:
    @pytest.mark.slow
    def test_see_whole_states_while_another_thread_writes(self, tmp_path):
        scenario = Scenario(lambda clock: sl.open(url_of(tmp_path), clock=clock))
        live = scenario.start(replications=8, options=options(open_replications=4))
        expected = simulated(live.experiment)
        seen = [0]

        def look():
            with sl.open(url_of(tmp_path), read_only=True) as reader:
                watched = reader.load("trial")
                while seen[-1] < 8:
                    runs = watched.runs()
                    assert_same(runs, expected, runs.replications)
                    assert watched.status().complete >= runs.replications >= seen[-1]
                    seen.append(runs.replications)

        with ThreadPoolExecutor(2) as pool:
            looking = pool.submit(look)
            pool.submit(serve, live, scenario).result(timeout=60)
            looking.result(timeout=60)
        scenario.close()

    def test_change_nothing(self, tmp_path):
        with sl.open(url_of(tmp_path)) as store:
            small = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=2, replications=1)
            live = store.start("trial", small)
            id = live.assign("ann").id
        with sl.open(url_of(tmp_path), read_only=True) as reader:
            watched = reader.load("trial")
            assert watched.describe(id).status == "assigned"
            assert watched.status().users == 1
            for call in (
                lambda: watched.assign("bob"),
                lambda: watched.reward(id, 1),
                watched.pause,
                lambda: watched.add_policy("b", "uniform"),
                lambda: reader.start("other", small),
            ):
                with pytest.raises(sl.Invalid, match="opened read-only"):
                    call()

    def test_need_a_file(self, tmp_path):
        with pytest.raises(sl.Invalid, match=r"cannot open .*ledger\.db"):
            sl.open(url_of(tmp_path), read_only=True)
        assert list(tmp_path.iterdir()) == []

    def test_are_shared_by_threads(self, tmp_path):
        """A server with a thread for each request does not run out of file handles."""
        with sl.open(url_of(tmp_path)) as store:
            for _ in range(40):
                thread = threading.Thread(target=store.names)
                thread.start()
                thread.join()
            assert len(store.database._idle) == 1


class TestAddresses:
    @pytest.mark.parametrize(
        "content", [b"not a database, just text\n" * 100, b"SQLite format 3\0"]
    )
    @pytest.mark.parametrize("read_only", [False, True])
    def test_a_file_that_is_something_else(self, tmp_path, content, read_only):
        (tmp_path / "ledger.db").write_bytes(content)

        with pytest.raises(sl.Invalid, match=r"ledger\.db") as caught:
            sl.open(url_of(tmp_path), read_only=read_only)

        assert "\n" not in str(caught.value)
        assert (tmp_path / "ledger.db").read_bytes() == content

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(sl.Invalid, match=r"cannot open .*nowhere/ledger\.db.* No such file"):
            sl.open(url_of(tmp_path / "nowhere"))

    def test_a_folder_that_may_not_be_written(self, tmp_path):
        tmp_path.chmod(0o500)
        with as_nobody(), pytest.raises(sl.Invalid, match="for writing: Permission denied"):
            sl.open(url_of(tmp_path))

    def test_a_disk_without_room_is_not_the_callers_mistake(self, tmp_path):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
        try:
            with pytest.raises(sl.Unavailable, match=r"cannot open .*ledger\.db.*disk"):
                sl.open(url_of(tmp_path))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        sl.open(url_of(tmp_path)).close()

    @pytest.mark.parametrize("url", ["sqlite:///.", "sqlite:////", "sqlite:///{}"])
    @pytest.mark.parametrize("read_only", [False, True])
    def test_a_folder_is_not_a_database(self, tmp_path, url, read_only):
        with pytest.raises(sl.Invalid, match="is a folder"):
            sl.open(url.format(tmp_path), read_only=read_only)

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            (None, "address is text"),
            (7, "address is text"),
            ("", "unknown address of a store ''"),
            ("ledger.db", "unknown address of a store 'ledger.db'; use one of: sqlite:///file.db"),
            ("mysql://me:secret@host/x", r"'mysql://me:\*\*\*@host/x'"),
            ("sqlite://ledger.db", "write sqlite:///ledger.db"),
            ("sqlite:///a\0b", "cannot contain a NUL"),
            ("sqlite:///ledger.db?synchronous=off", "option after . is synchronous=full or"),
            ("sqlite:///ledger.db?mode=ro", "option after . is synchronous=full or"),
        ],
    )
    def test_refused(self, tmp_path, monkeypatch, url, message):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(sl.Invalid, match=message):
            sl.open(url)
        assert list(tmp_path.iterdir()) == []

    def test_three_slashes_are_relative_to_here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        sl.open("sqlite:///mine #1?.db".replace("?", "%")).close()
        assert (tmp_path / "mine #1%.db").exists()

    def test_a_program_that_changes_its_folder_keeps_its_file(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "elsewhere").mkdir()
        with sl.open("sqlite:///mine.db") as store:
            live = Scenario(lambda _: store).start()
            monkeypatch.chdir(tmp_path / "elsewhere")
            assert live.assign("ann").enrolled
            assert live.status().users == 1
        assert list((tmp_path / "elsewhere").iterdir()) == []

    @pytest.mark.parametrize(("synchronous", "level"), [("full", 2), ("normal", 1)])
    def test_durability_is_that_of_the_url(self, tmp_path, synchronous, level):
        with sl.open(url_of(tmp_path, synchronous=synchronous)) as store:
            writer = store.database.write(lambda t: t.connection)
            assert writer.execute("PRAGMA synchronous").fetchone() == (level,)
            assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_waits_for_the_disk_by_default(self, tmp_path):
        with sl.open(f"sqlite:///{tmp_path}/ledger.db") as store:
            assert store.database.write(lambda t: t.connection).execute(
                "PRAGMA synchronous"
            ).fetchone() == (2,)


class TestMemoryOnly:
    def test_nothing_is_shared_and_nothing_stays(self):
        one, other = (
            Scenario(lambda _: sl.open("sqlite://")),
            Scenario(lambda _: sl.open("sqlite://")),
        )
        one.start()
        assert (one.store.names(), other.store.names()) == (["trial"], [])
        one.close()
        other.close()

    def test_read_only_makes_no_sense(self):
        with pytest.raises(sl.Invalid, match="in memory is empty"):
            sl.open("sqlite://", read_only=True)


class TestClosing:
    @pytest.mark.parametrize("place", ["memory", "file"])
    def test_twice_is_fine_and_nothing_works_afterwards(self, tmp_path, place):
        url = "sqlite://" if place == "memory" else url_of(tmp_path)
        scenario = Scenario(lambda clock: sl.open(url, clock=clock))
        live = scenario.start()
        id = scenario.enrol(live)
        scenario.store.close()
        scenario.store.close()
        calls = (
            scenario.store.names,
            lambda: scenario.store.load("trial"),
            lambda: live.assign("ann"),
            lambda: live.reward(id, 1.0),
            lambda: live.describe(id),
            live.tick,
            live.runs,
            live.status,
            live.pause,
        )
        for call in calls:
            with pytest.raises(sl.Unavailable, match="the store is closed"):
                call()

    def test_waits_for_queued_work(self):
        database, begun, go = Sqlite(None), threading.Event(), threading.Event()

        def slow(transaction):
            begun.set()
            assert go.wait(30)
            return transaction.fetch_all(TextRow, "names")

        with ThreadPoolExecutor(2) as pool:
            work = pool.submit(database.write, slow)
            assert begun.wait(30)
            closing = pool.submit(database.close)
            with pytest.raises(TimeoutError):
                closing.result(timeout=0.05)
            go.set()
            assert work.result(timeout=30) == []
            closing.result(timeout=30)

    def test_a_reader_that_is_overtaken_says_that_the_store_is_closed(self, tmp_path):
        path = tmp_path / "store.db"
        (tmp_path / "store.db-wal").touch()
        file = SqliteFile(path, write=True)
        file.watch_log()
        file.close()
        with pytest.raises(sl.Closed):
            file.check()

    def test_while_many_are_served(self, tmp_path):
        """Each call works or says that the store is closed, and what worked is there afterwards."""
        scenario = Scenario(lambda clock: sl.open(url_of(tmp_path), clock=clock))
        live = scenario.start(replications=40, options=options(open_replications=40))
        started = threading.Barrier(5)

        def paid():
            done = 0
            started.wait()
            with contextlib.suppress(sl.Unavailable):
                while True:
                    done += scenario.serve(live).enrolled
            return done

        with ThreadPoolExecutor(4) as pool:
            workers = [pool.submit(paid) for _ in range(4)]
            started.wait()
            while live.status().settled < 50:
                time.sleep(0.001)
            scenario.store.close()
            acknowledged = sum(worker.result(timeout=60) for worker in workers)
        live = scenario.reopen(live)
        assert acknowledged <= live.status().settled <= acknowledged + 4
        scenario.close()


@pytest.fixture
def interruptible():
    """Python's own SIGINT, which ends a wait: importing polars puts one in its place that lets waits go on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TestGroupCommit:
    def queued(self, database, works):
        """Run pieces of work in one transaction: they queue up behind one that takes long."""
        begun, go = threading.Event(), threading.Event()

        def slow(transaction):
            begun.set()
            assert go.wait(30)

        with ThreadPoolExecutor(len(works) + 1) as pool:
            first = pool.submit(database.write, slow)
            assert begun.wait(30)
            waiting = [pool.submit(database.write, work) for work in works]
            while len(database._queue) < len(works):
                time.sleep(0.001)
            go.set()
            first.result(timeout=30)
            return [future.exception(timeout=30) or future.result() for future in waiting]

    def start(self, name, fault=None):
        def work(transaction):
            values = {
                "definition": "",
                "fingerprints": "{}",
                "options": "",
                "salt": "",
                "streams": 1,
                "now": 0,
            }
            row = transaction.fetch_one(NumberRow, "start", name=name, **values)
            if fault is not None:
                raise fault
            return row

        return work

    def test_a_failing_caller_does_not_affect_others(self):
        database = Sqlite(None)
        fault = ValueError("mine")

        results = self.queued(
            database, [self.start("a"), self.start("b", fault), self.start("a"), self.start("c")]
        )

        assert results[1] is fault
        failed = [error for error in results if isinstance(error, sl.Diverged)]
        assert len(failed) == 1
        names = {name for (name,) in database.read(lambda t: t.fetch_all(TextRow, "names"))}
        assert names == {"a", "c"}
        database.close()

    @pytest.mark.usefixtures("interruptible")
    def test_an_interrupted_caller_does_not_block_others(self):
        """Ctrl-C in the main thread while it waits for its turn."""
        assert threading.current_thread() is threading.main_thread()
        database = Sqlite(None)
        begun, go, interrupted = threading.Event(), threading.Event(), threading.Event()

        def slow(transaction):
            begun.set()
            assert go.wait(30)

        def interrupt():
            while len(database._queue) < 1:
                time.sleep(0.001)
            while not interrupted.is_set():
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                # again: one that comes just before the wait begins is noticed only after it
                interrupted.wait(3)

        with ThreadPoolExecutor(3) as pool:
            leader = pool.submit(database.write, slow)
            assert begun.wait(30)
            pool.submit(interrupt)
            with pytest.raises(KeyboardInterrupt):
                database.write(self.start("mine"))
            interrupted.set()
            other = pool.submit(database.write, self.start("other"))
            go.set()
            leader.result(timeout=30)
            other.result(timeout=30)
            names = pool.submit(database.read, lambda t: t.fetch_all(TextRow, "names"))
            assert names.result(timeout=30) == [("other",)]
            pool.submit(database.close).result(timeout=30)

    @pytest.mark.slow
    def test_a_full_disk_changes_nothing(self, tmp_path):
        scenario = Scenario(lambda clock: sl.open(url_of(tmp_path), clock=clock))
        live = scenario.start()
        id = scenario.enrol(live)
        writer = scenario.store.database.write(lambda t: t.connection)
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages}")
        large = [f"{number:0200}" for number in range(500)]
        with pytest.raises(sl.Unavailable, match=r"changed: .*disk is full; make room"):
            scenario.start(name="too much", arms=large)
        assert scenario.store.names() == ["trial"]
        writer.execute("PRAGMA max_page_count = 1000000")

        scenario.finish(live, waiting=[id])

        assert_finished(live)
        scenario.close()

    def test_a_file_that_cannot_be_written_any_more_changes_nothing(self, tmp_path):
        scenario = Scenario(lambda clock: sl.open(url_of(tmp_path), clock=clock))
        live = scenario.start()
        id = scenario.enrol(live)
        writer = scenario.store.database.write(lambda t: t.connection)
        writer.execute("PRAGMA query_only = 1")  # the same code of SQLite
        with pytest.raises(
            sl.Unavailable, match="readonly database; the file has become read-only"
        ):
            scenario.pay(live, id)
        assert live.assign("ann").reason == "UNAVAILABLE"
        writer.execute("PRAGMA query_only = 0")

        scenario.finish(live, waiting=[id])

        assert_finished(live)
        scenario.close()
