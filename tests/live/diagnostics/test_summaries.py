"""Kept summaries: a look gives the bits of a look from scratch, and reads only what changed."""

import random

import pytest

import sameluck as sl
from sameluck.live.databases.rows import LedgerRow, OutcomeRow
from sameluck.live.diagnostics import snapshot, summaries
from sameluck.live.diagnostics.snapshot import Snapshot

OPTIONS = sl.LiveOptions(
    exposure="explicit",
    open_replications=6,
    audit_share=0.3,
    lease_seconds=50,
    reward=sl.Reward(window_seconds=100, default=0.0),
)
RUNS = ("rewards", "pulls", "interactions", "observed", "checkpoints")


def experiment(**changes):
    values = {
        "policies": {"old": "ucb1", "new": "epsilon_greedy(epsilon=0.3)", "copy": "ucb1"},
        "arms": ("red", "blue"),
        "horizon": 6,
        "replications": 60,
        "seed": 3,
        **changes,
    }
    return sl.Experiment(**values)


class Script:
    """An experiment, and calls of users and operators at random."""

    def __init__(self, store, seed):
        self.store, self.random = store, random.Random(seed)
        self.live = store.start("shop", experiment(seed=seed), options=OPTIONS)
        self.units, self.waiting, self.enrolled, self.added = 0, [], [], 0

    @property
    def clock(self):
        return self.store.settings.clock

    def act(self):
        weights = {
            self.serve: 30,
            self.wait: 4,
            self.erase: 3,
            self.prune: 2,
            self.extend: 1,
            self.add: 1,
            self.remove: 1,
            self.pause: 1,
        }
        self.random.choices(list(weights), list(weights.values()))[0]()

    def serve(self):
        for _ in range(12):
            self.units += 1
            self.clock.advance(self.random.choice([0.0, 1.0, 3.0]))
            if assignment := self.live.assign(f"unit {self.units}").id:
                self.waiting.append(assignment)
                self.enrolled.append(f"unit {self.units}")
        self.random.shuffle(self.waiting)
        for _ in range(min(len(self.waiting), 14)):
            id = self.waiting.pop()
            fate = self.random.random()
            try:
                if fate < 0.1:
                    self.live.void(id)
                elif fate > 0.15:
                    self.live.expose(id)
                    if fate > 0.4:
                        self.live.reward(id, float(self.random.random() < 0.5))
                    else:
                        self.waiting.append(id)  # late, perhaps
            except (sl.Conflict, sl.Unknown):
                pass

    def wait(self):
        self.clock.advance(self.random.choice([20.0, 60.0, 130.0]))
        self.live.tick()

    def erase(self):
        for unit in self.random.sample(self.enrolled, min(4, len(self.enrolled))):
            self.live.erase(unit)

    def prune(self):
        self.store.prune(self.random.choice([0, 100, 1_000]))

    def extend(self):
        self.live.extend_windows(30)

    def add(self):
        self.added += 1
        self.live.add_policy(f"added {self.added}", "epsilon_greedy(epsilon=0.1)")

    def remove(self):
        if f"added {self.added}" in self.live.experiment.policies:
            self.live.remove_policy(f"added {self.added}")

    def pause(self):
        self.live.pause()
        self.live.resume()

    def look(self, live):
        """Everything that a look shows, as text with every bit."""
        runs = []
        for checkpoints in (None, [3, 6]):
            names = list(live.experiment.policies)
            for policies in (None, ["old", "new"], names[::-1][:2]):
                shown = live.runs(checkpoints, policies=policies)
                runs.append([getattr(shown, name).tobytes() for name in RUNS])
        now = live.settings.now()
        ended = live.open_replications.read(
            lambda ledger: Snapshot(ledger, live.options, now, kept=live._summaries).ended
        )
        return live.diagnostics(), [*runs, [column.tobytes() for column in ended[:4]]]


def assert_same_look(script):
    kept, scratch = script.look(script.live), script.look(script.store.peek("shop"))
    assert repr(kept[0]) == repr(scratch[0])
    assert kept[1] == scratch[1]
    return {check.name: check.details for check in kept[0]}


def test_a_look_has_the_bits_of_a_look_from_scratch(any_store, monkeypatch):
    """Whatever users and operators do between the looks; the sample becomes coarser as the ledger grows."""
    monkeypatch.setattr(snapshot, "MAX_SAMPLE", 60)
    monkeypatch.setattr(summaries, "MAX_TURN", 0)
    script = Script(any_store, 1)
    for _ in range(50):
        script.act()
        if script.random.random() < 0.3:
            details = assert_same_look(script)
    assert script.live.status().complete > 10
    assert details["loss"]["every"] >= 4


def test_changes_of_complete_replications_are_seen(any_store, monkeypatch):
    """Late rewards, erasure, pruning, extended windows, added and removed policies."""
    monkeypatch.setattr(summaries, "MAX_TURN", 0)
    script, silent = Script(any_store, 2), {}
    live, unit = script.live, 0
    while live.status().complete < 12:
        unit += 1
        script.clock.advance(7.0)
        if id := live.assign(f"unit {unit}").id:
            live.expose(id)
            if unit % 3:
                live.reward(id, float(unit % 2))
            else:
                silent[f"unit {unit}"] = id
    script.clock.advance(200.0)
    live.tick()
    assert_same_look(script)
    units = list(silent)
    for unit in units[:6]:
        with pytest.raises(sl.Conflict):
            live.reward(silent[unit], 1.0)
    loss = assert_same_look(script)["loss"]["arms"]
    assert sum(row["late"] for row in loss) == 6
    changes = [
        lambda: live.erase(units[8]),
        lambda: live.erase(units[1]),
        lambda: live.erase("unit 4"),
        lambda: live.extend_windows(1_000),
        lambda: live.add_policy("third", "epsilon_greedy(epsilon=0.1)"),
        lambda: live.remove_policy("third"),
        lambda: script.clock.advance(1.0),
        lambda: script.store.prune(150),
        lambda: script.store.prune(0),
    ]
    for change in changes:
        change()
        loss = assert_same_look(script)["loss"]["arms"]
    assert sum(row["late"] for row in loss) == 0


class Counted:
    """A transaction that counts the rows of long results."""

    def __init__(self, transaction, rows):
        self._transaction, self._rows = transaction, rows

    def __getattr__(self, name):
        return getattr(self._transaction, name)

    def iterate(self, row_class, name, /, **values):
        for row in self._transaction.iterate(row_class, name, **values):
            self._rows[row_class] = self._rows.get(row_class, 0) + 1
            yield row


@pytest.fixture
def rows_read(monkeypatch):
    """Function that returns the number of rows that a look reads, by their class."""

    def count(store, look):
        rows = {}
        read = store.database.read
        monkeypatch.setattr(
            store.database, "read", lambda work: read(lambda t: work(Counted(t, rows)))
        )
        look()
        monkeypatch.setattr(store.database, "read", read)
        return rows

    return count


def finished(store, replications):
    script = Script(store, 1)
    while script.live.status().complete < replications:
        script.serve()
        script.wait()
    return script


def test_a_look_after_the_first_reads_no_complete_replication(store, monkeypatch, rows_read):
    monkeypatch.setattr(summaries, "MAX_TURN", 0)
    script = finished(store, 25)
    live, entries = script.live, script.live.status().settled

    def look():
        live.diagnostics()
        live.runs()

    first = rows_read(store, look)
    assert first[LedgerRow] >= 2 * entries
    again = rows_read(store, look)
    assert again[OutcomeRow] < first[OutcomeRow] / 3
    assert again[LedgerRow] < first[LedgerRow] / 4
    live.erase("unit 3")
    assert rows_read(store, look)[LedgerRow] < first[LedgerRow] / 4


def test_after_a_load_the_first_look_derives_no_replication_again(store, rows_read, monkeypatch):
    monkeypatch.setattr(summaries, "MAX_TURN", 0)
    script = finished(store, 25)
    entries = script.live.status().settled
    live = store.load("shop")
    live.runs()  # of which the check of equal policies is a part
    assert rows_read(store, live.diagnostics)[LedgerRow] < entries / 2
    live.pause()
    assert rows_read(store, live.resume)[LedgerRow] < entries / 2
    assert rows_read(store, live.verify)[LedgerRow] >= entries


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        ("UPDATE entry SET value = 1 - value WHERE replication = 5 AND position = 0", "rebuild"),
        (
            "UPDATE reward_event SET value = 7 WHERE assignment IN "
            "(SELECT id FROM assignment WHERE replication = 5)",
            "audit log",
        ),
    ],
    ids=["ledger", "log"],
)
def test_an_edit_of_a_complete_replication_is_found_in_turn(tmp_path, monkeypatch, edit, check):
    """A look reads some unchanged replications again, so that every one is read again before long."""
    monkeypatch.setattr(summaries, "MAX_TURN", 40)
    with sl.open(
        f"sqlite:///{tmp_path}/shop.db?synchronous=normal", clock=sl.VirtualClock(0.0)
    ) as store:
        live = finished(store, 25).live
        assert {found.name: found.verdict for found in live.diagnostics()}[check] == "fine"
        store.database.write(lambda transaction: transaction.connection.execute(edit))
        verdicts = [
            {found.name: found.verdict for found in live.diagnostics()}[check] for _ in range(30)
        ]
        assert "alarm" in verdicts
        assert set(verdicts[verdicts.index("alarm") :]) == {"alarm"}
