"""One experiment, any calls in any order; after every one of them the tables must obey the rules.

The rewards are arbitrary and the clock may even be set back a little. What a call answered is remembered; everything
else is read from the database with a connection of our own.
"""

import contextlib
import itertools
import shutil
import sqlite3
import tempfile
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import literal
import sameluck as sl

pytestmark = pytest.mark.slow

NAME, LEASE, WINDOW, DEFAULT = "machine", 60, 600, 0.5
AUDITED = -1
OPEN_AT_ONCE = 2

REWARDS = st.sampled_from([0.0, 0.25, 1.0])
NUMBERS = st.integers(0, 1_000)
JUMPS = st.sampled_from([WINDOW, LEASE, WINDOW - LEASE, 1, -5])


# Design, order, exposure, batch, share of audits.
OPTIONS = [
    (sl.Replay(), "lockstep", "implicit", 1, 0.4),
    (sl.Replay(), "lockstep", "explicit", 3, 0.0),
    (sl.Replay(share_noise=True), "phase", "explicit", 1, 0.0),
    (sl.Replay(), "phase", "implicit", 3, 0.4),
    (sl.Naive(), "lockstep", "explicit", 1, 0.0),
    (sl.Naive(), "phase", "implicit", 1, 0.0),
]


class Entry(NamedTuple):
    """A row of the ledger."""

    replication: int
    owner: int
    arm: int
    position: int
    state: str
    assignment: str | None
    due: int | None
    value: float | None
    source: str | None
    settled: int | None

    @property
    def place(self):
        return self[:4]


class Enrolment(NamedTuple):
    """A row of the assignments."""

    replication: int
    owner: int
    arm: int
    position: int
    id: str
    unit: str
    exposed: int | None
    voided: int | None

    @property
    def place(self):
        return self[:4]


class Tables(NamedTuple):
    """Everything in the database."""

    replications: dict
    entries: list
    enrolments: list
    applied: Counter

    @property
    def live(self):
        return [row for row in self.enrolments if row.voided is None]

    def of(self, number):
        """The entries of one replication."""
        return [entry for entry in self.entries if entry.replication == number]


def read(connection):
    key = "replication, owner, arm, position"
    replications = "SELECT number, state, version, policies FROM replication ORDER BY number"
    entries = (
        f"SELECT {key}, state, assignment, due_us, value, source, settled FROM entry ORDER BY {key}"
    )
    enrolments = f"SELECT {key}, id, unit, exposed_us, voided_us FROM assignment"
    applied = "SELECT assignment FROM reward_event WHERE outcome = 'applied'"
    return Tables(
        {number: remaining for number, *remaining in connection.execute(replications)},
        [Entry(*row) for row in connection.execute(entries)],
        [Enrolment(*row) for row in connection.execute(enrolments)],
        Counter(id for (id,) in connection.execute(applied)),
    )


class Machine(RuleBasedStateMachine):
    ids = Bundle("ids")

    options = None

    @initialize(seed=NUMBERS)
    def start(self, seed):
        design, order, exposure, batch, audit_share = self.options
        self.folder = tempfile.mkdtemp()
        self.url = f"sqlite:///{self.folder}/live.db?synchronous=normal"
        self.now, self.units = 1_700_000_000, 0
        self.rewarded, self.seen, self.counted = {}, {}, {}
        self.batch = batch
        experiment = sl.Experiment(
            policies={"ucb": sl.UCB1(), "greedy": sl.EpsilonGreedy(epsilon=0.5)},
            arms=2,
            horizon=5,
            replications=3,
            design=design,
            seed=seed,
        )
        live = sl.LiveOptions(
            reward=sl.Reward(default=DEFAULT, window_seconds=WINDOW),
            exposure=exposure,
            lease_seconds=LEASE,
            order=order,
            open_replications=OPEN_AT_ONCE,
            batch=batch,
            audit_share=audit_share,
        )
        self.store = sl.open(self.url, clock=lambda: self.now)
        self.live = self.store.start(NAME, experiment, options=live)
        self.connection = sqlite3.connect(f"file:{self.folder}/live.db?mode=ro", uri=True)

    def teardown(self):
        if hasattr(self, "store"):
            self.connection.close()
            self.store.close()
            shutil.rmtree(self.folder)

    # Calls

    @rule(target=ids, many=st.integers(1, 4))
    def assign(self, many):
        assignments = self.live.assign_many(range(self.units, self.units + many))
        self.units += many
        assert all(row.enrolled == (row.id is not None) for row in assignments)
        return next((row.id for row in assignments if row.id is not None), None)

    @rule(target=ids, number=NUMBERS)
    @precondition(lambda self: self.units)
    def assign_again(self, number):
        """The same unit, the same answer, as long as it has not been voided."""
        unit = number % self.units
        assignment = self.live.assign(unit)
        if assignment.id is not None:
            before = self.seen.setdefault(assignment.id, (unit, assignment.arm))
            assert before == (unit, assignment.arm)
            again = self.live.assign(unit)
            assert (again.id, again.arm, again.reason) == (assignment.id, assignment.arm, "STICKY")
        return assignment.id

    @rule(id=ids, value=REWARDS)
    def reward(self, id, value):
        if id is None:
            return
        try:
            answer = self.live.reward(id, value)
        except sl.Conflict as conflict:
            answer = conflict
        self.check_answer(id, value, answer)

    def check_answer(self, id, value, answer):
        if isinstance(answer, sl.Conflict):
            refusal = answer.code
            assert refusal in ("reward_conflict", "reward_late", "assignment_voided")
            assert (refusal == "reward_conflict") == (self.rewarded.get(id, value) != value)
            return
        assert answer.applied == (id not in self.rewarded)
        assert answer.duplicate == (self.rewarded.get(id) == value)
        self.rewarded[id] = value

    @rule(pairs=st.lists(st.tuples(ids, REWARDS), max_size=6))
    def reward_list(self, pairs):
        pairs = [(id, value) for id, value in pairs if id is not None]
        for pair, answer in zip(pairs, self.live.reward_many(pairs), strict=True):
            self.check_answer(*pair, answer)

    @rule(target=ids, values=st.lists(REWARDS, min_size=1, max_size=8))
    def serve(self, values):
        """Several units come and are rewarded at once, so that experiments come to their end."""
        for value in values:
            assignment = self.live.assign(self.units)
            self.units += 1
            self.reward(assignment.id, value)
        return assignment.id

    @rule(value=REWARDS)
    def reward_all(self, value):
        for entry in read(self.connection).entries:
            if entry.state == "assigned":
                self.reward(entry.assignment, value)

    @rule(id=ids)
    def expose(self, id):
        with contextlib.suppress(sl.Conflict):
            self.live.expose(id)

    @rule(id=ids)
    def void(self, id):
        with contextlib.suppress(sl.Conflict):
            self.live.void(id)

    @rule(seconds=JUMPS)
    def wait(self, seconds):
        self.now += seconds

    @rule(seconds=JUMPS, many=st.integers(0, 4))
    def tick(self, seconds, many):
        self.assign(many)
        self.now += seconds
        self.live.tick()
        due = [entry.due for entry in read(self.connection).entries if entry.state == "assigned"]
        assert all(moment > self.now * 1_000_000 for moment in due)

    @rule()
    def restart(self):
        self.store.close()
        self.store = sl.open(self.url, clock=lambda: self.now)
        self.live = self.store.load(NAME)

    @rule()
    def pause_and_resume(self):
        if self.live.status().status == "running":
            self.live.pause("lunch")
            assert self.live.assign("somebody else").reason in ("NOT_RUNNING", "STICKY")
            self.live.resume()

    @rule()
    @precondition(lambda self: self.units > 4)
    def join(self):
        if "late" not in self.live.experiment.policies:
            self.live.add_policy("late", sl.UCB1(alpha=0.1))

    @rule()
    @precondition(lambda self: self.units > 15)
    def drain(self):
        if self.live.status().status == "running":
            opened = self.live.status().opened
            self.live.stop(reason="enough")
            assert self.live.status().opened == opened

    @rule(more=st.integers(0, 2))
    @precondition(lambda self: self.units > 15)
    def drain_after_replications(self, more):
        status = self.live.status()
        last = min(status.opened + more, status.planned)
        if status.status in ("running", "draining"):
            self.live.stop(after_replications=last)

    # What must hold after each of them

    @invariant()
    def tables_obey_the_rules(self):
        if not hasattr(self, "store"):
            return
        tables = read(self.connection)
        one_live_assignment_an_entry(tables)
        settled_means_known(tables)
        self.assignments_never_move(tables)
        self.rewards_are_kept(tables)
        for number in tables.replications:
            versions_count(tables, number)
            if self.batch == 1:
                prefixes_are_whole(tables, number, len(self.live.experiment.policies))
            self.users_as_few_as_possible(tables, number)
        assert self.live.verify() == len(tables.replications)
        status_agrees(self.live.status(), tables)
        as_many_open_as_asked_for(self.live.status())

    def assignments_never_move(self, tables):
        for row in tables.enrolments:
            assert self.counted.setdefault(row.id, row[:4]) == row[:4]
            voided = self.counted.setdefault((row.id, "voided"), row.voided)
            assert voided is None or voided == row.voided
            self.counted[row.id, "voided"] = row.voided

    def rewards_are_kept(self, tables):
        observed = {e.assignment: e.value for e in tables.entries if e.source == "observed"}
        assert observed == self.rewarded
        assert tables.applied == Counter(observed.keys())
        assert all(e.value == DEFAULT for e in tables.entries if e.source == "default")

    def users_as_few_as_possible(self, tables, number):
        """A complete replication has requested what its policies read, and nothing else."""
        state, _, policies = tables.replications[number]
        assert policies == len(self.live.experiment.policies)
        if state != "complete":
            return
        entries = [entry for entry in tables.of(number) if entry.owner != AUDITED]
        assert all(entry.state == "settled" for entry in entries)
        known = tuple(sorted((entry[1:4], entry.value) for entry in entries))
        if self.counted.get(number) != (policies, known):
            assert len(entries) == users_needed(self.live.experiment, number, dict(known))
            self.counted[number] = (policies, known)


def one_live_assignment_an_entry(tables):
    entries = {entry.place: entry for entry in tables.entries}
    holders = Counter(row.place for row in tables.live)
    assert all(count == 1 for count in holders.values())
    assert all(count == 1 for count in Counter(row.unit for row in tables.live).values())
    for row in tables.live:
        assert entries[row.place].assignment == row.id
    for entry in tables.entries:
        assert (entry.state == "wanted") == (entry.place not in holders)
        # The window of a default reward is kept: it may be extended.
        ends = entry.state == "assigned" or entry.source == "default"
        assert ends == (entry.due is not None)
    assert not [row for row in tables.enrolments if row.voided and row.exposed]


def settled_means_known(tables):
    for entry in tables.entries:
        facts = (entry.value, entry.source, entry.settled)
        assert all((fact is not None) == (entry.state == "settled") for fact in facts)


def versions_count(tables, number):
    _, version, _ = tables.replications[number]
    settled = [entry.settled for entry in tables.of(number) if entry.state == "settled"]
    assert sorted(settled) == list(range(1, version + 1))


def prefixes_are_whole(tables, number, policies):
    entries = [entry for entry in tables.of(number) if entry.owner != AUDITED]
    for _, stack in itertools.groupby(entries, key=lambda entry: entry[:3]):
        states = [(entry.position, entry.state == "settled") for entry in stack]
        assert [position for position, _ in states] == list(range(len(states)))
        assert all(known for _, known in states[:-1])
    assert sum(entry.state != "settled" for entry in entries) <= policies


def users_needed(experiment, number, values):
    """How many entries the policies read, each by its own rule, of the rewards in the ledger."""
    shared = isinstance(experiment.design, sl.Replay)
    limit = Counter()
    for owner, name in enumerate(experiment.policies, start=1):
        history, pulled = [], Counter()
        for period in range(1, experiment.horizon + 1):
            arm = literal.choose(experiment, number, name, history, period)
            entry = (0 if shared else owner, arm, pulled[arm])
            history.append((arm, values[entry]))
            pulled[arm] += 1
            limit[entry[:2]] = max(limit[entry[:2]], pulled[arm])
    return limit.total()


def status_agrees(status, tables):
    states = Counter(entry.state for entry in tables.entries)
    complete = [n for n, (state, *_) in tables.replications.items() if state == "complete"]
    assert status.users == len(tables.live) == states["settled"] + states["assigned"]
    assert (status.settled, status.waiting) == (states["settled"], states["assigned"])
    assert status.wanted == states["wanted"]
    assert status.voided == len(tables.enrolments) - len(tables.live)
    assert status.defaulted == sum(entry.source == "default" for entry in tables.entries)
    assert status.opened == len(tables.replications)
    assert status.complete == len(complete)
    assert status.prefix == next(n for n in itertools.count() if n not in complete)
    assert status.status != "complete" or status.complete == status.planned
    assert status.status != "stopped" or status.stop_after in (None, status.complete)


def as_many_open_as_asked_for(status):
    """At least so many: a challenger opens again what was complete. What is left may be audits alone."""
    still_open, to_come = status.opened - status.complete, status.planned - status.complete
    needed = still_open + status.wanted + status.waiting
    if status.stop_after is not None:
        assert status.opened <= status.stop_after
        to_come = status.stop_after - status.complete
    if status.status == "running" or (status.status == "draining" and status.stop_after):
        assert still_open >= min(OPEN_AT_ONCE, to_come)
        assert needed > 0
    elif status.status in ("complete", "stopped"):
        assert needed == 0
    else:
        assert (status.status, needed > 0) == ("draining", True)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_machine(options):
    class Chosen(Machine):
        pass

    Chosen.options = options
    run_state_machine_as_test(Chosen, settings=settings(max_examples=12, stateful_step_count=40))
