"""`LiveExperiment`: an experiment on real users. Each of its methods is one transaction."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from sameluck.errors import (
    Conflict,
    Diverged,
    Invalid,
    Unknown,
    did_you_mean,
    require,
    require_number,
)
from sameluck.experiment import Experiment, check_name, checked_checkpoints
from sameluck.live import answers as say
from sameluck.live.answers import Assignment, Description, Joining, Receipt, Status, moment
from sameluck.live.casting import Cast, Entry
from sameluck.live.checks import Check
from sameluck.live.database import Database, Row, Transaction, Work
from sameluck.live.diagnosing import Snapshot, diagnostics
from sameluck.live.exporting import export
from sameluck.live.ledgers import read_replications, runs_of, trace_of
from sameluck.live.looking import description, status
from sameluck.live.options import Live, check_fit, fallback_arm, only_binary, played
from sameluck.live.stage import GOING, Held, Joined, Stage, found
from sameluck.live.walking import Maker
from sameluck.runs import Runs
from sameluck.trajectories import Trace

SECOND = 1_000_000  # microseconds
SWEEP_AT_ONCE = 100

Clock: TypeAlias = Callable[[], float]
T = TypeVar("T")


class LiveExperiment:
    """A running experiment: what `store.start` and `store.load` return."""

    def __init__(
        self, database: Database, row: Row, makers: Mapping[str, Maker] | None, clock: Clock
    ) -> None:
        id, self.name, definition, options, _, _, self._salt, _, started = row
        self.live = Live.from_dict(json.loads(options))
        self.started_at = moment(started)
        self._database = database
        self._clock = clock
        self._stage = Stage(id, definition, self.live, makers or {})
        self._fallback = self.experiment.arm_names[fallback_arm(self.experiment, self.live)]
        self._guard = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._seen: dict[Any, Runs] = {}  # complete replications never change
        self._next_sweep = 0
        self._next_count = 0

    @property
    def experiment(self) -> Experiment:
        """What is being compared, policies that joined late included."""
        return self._stage.cast.experiment

    @property
    def _id(self) -> int:
        return self._stage.id

    def __repr__(self) -> str:
        names = ", ".join(self.experiment.policies)
        return f"<LiveExperiment {self.name!r}: {names}; horizon {self.experiment.horizon:,}>"

    # Serving

    def assign(self, unit: str | int) -> Assignment:
        """Which arm to show the unit that has just arrived.

        The same unit always gets the same answer while it takes part. A unit the experiment has no use for gets the
        fallback arm and `enrolled` False; that never raises.
        """
        code = self._code(unit)
        if not self._takes_part(code):
            return self._count(self._turned_away(say.NOT_IN_TRAFFIC_SHARE))
        now = self._now()
        if now >= self._next_sweep:
            self._next_sweep = now + SECOND
            self.tick()
        answer = self._write(lambda transaction: self._assign(transaction, code))
        if answer.reason in (say.NO_OPEN_SLOT, say.DRAINING) and self.tick():
            answer = self._write(lambda transaction: self._assign(transaction, code))
        return self._count(answer)

    def _assign(self, transaction: Transaction, code: str) -> Assignment:
        now = self._now()
        self._flush_calls(transaction, now)
        transaction.run("lock_unit", unit=int(code[:15], 16))
        standing = found(transaction.one("standing", experiment=self._id, unit=code))
        status, enrolled, arm = standing
        if enrolled is not None:
            return self._shown(enrolled, arm, say.STICKY)
        if status not in GOING:
            return self._turned_away(say.NOT_RUNNING)
        new = _new_id(now)
        explicit = self.live.exposure == "explicit"
        patience = self.live.lease_seconds if explicit else self.live.reward.window_seconds
        due = now + round(patience * SECOND)
        taken = transaction.one("take", experiment=self._id, assignment=new, due=due)
        if taken is None:
            return self._turned_away(say.NO_OPEN_SLOT if status == "running" else say.DRAINING)
        replication, owner, arm, position = taken
        entry = {"owner": owner, "arm": arm, "position": position}
        key = {"experiment": self._id, "replication": replication, **entry}
        transaction.run("enrol", assignment=new, **key, unit=code, now=now)
        return self._shown(new, arm, say.ASSIGNED)

    def _shown(self, id: str, arm: int, reason: str) -> Assignment:
        return Assignment(id, self._stage.cast.arm_names[arm], enrolled=True, reason=reason)

    def _turned_away(self, reason: str) -> Assignment:
        return Assignment(None, self._fallback, enrolled=False, reason=reason)

    def expose(self, id: str | None) -> None:
        """The unit has seen its arm: from now on it counts, with the default reward if none comes in the window."""
        if id is not None:
            _raise(self._write(lambda transaction: self._expose(transaction, id)))

    def _expose(self, transaction: Transaction, id: str) -> Conflict | None:
        held, now = self._hold(transaction, id)
        if not held.live:
            return _voided(id)
        if held.exposed or held.state == "settled":
            return None
        transaction.run("expose", assignment=id, now=now)
        if self.live.exposure == "explicit":
            due = now + round(self.live.reward.window_seconds * SECOND)
            transaction.run("set_due", **self._stage.key(held), due=due)
        return None

    def reward(self, id: str | None, value: float) -> Receipt:
        """Report what a unit brought. Durable once this returns.

        The first value counts. The same value again is no more than a retry; another value, a value after the window
        or for a voided assignment raises `Conflict` and is kept in the audit log. For a unit that does not take part
        (`id` None) nothing happens.
        """
        value = self._checked_reward(value)
        if id is None:
            return Receipt(applied=False, duplicate=False, value=value)
        receipt, conflict = self._write(lambda transaction: self._reward(transaction, id, value))
        _raise(conflict)
        return receipt

    def _reward(
        self, transaction: Transaction, id: str, value: float
    ) -> tuple[Receipt, Conflict | None]:
        held, now = self._hold(transaction, id)
        if held.policies != len(self.experiment.policies):
            self._stage.refresh(transaction)
            self._checked_reward(value)
        outcome, conflict = _judge(held, value)
        transaction.run("note_reward", assignment=id, value=value, now=now, outcome=outcome)
        if outcome == "applied":
            self._stage.settle(transaction, held, value, "observed", now)
        receipt = Receipt(outcome == "applied", outcome == "duplicate", value)
        return receipt, conflict

    def void(self, id: str | None) -> None:
        """The unit never saw its arm: offer the entry to somebody else, and let the unit take part again."""
        if id is not None:
            _raise(self._write(lambda transaction: self._void(transaction, id)))

    def _void(self, transaction: Transaction, id: str) -> Conflict | None:
        held, now = self._hold(transaction, id)
        if held.state == "settled" and held.live:
            said = f"assignment {id!r} is settled with {held.value!r} ({held.source}) and cannot be voided"
            return Conflict(said, "already_settled")
        if held.exposed:
            said = f"assignment {id!r} was exposed and cannot be voided; it gets the default reward if none comes"
            return Conflict(said, "already_exposed")
        if held.live:
            self._offer_again(transaction, held, now)
        return None

    def tick(self) -> int:
        """Deal with everything whose time is up; how many assignments that were.

        Exposed and no reward within the window: the default reward. Not exposed within the lease: void, and offer the
        entry again. `assign` does this now and then too, and a reward after its window is late whether or not anybody
        has ticked.
        """
        done = 0
        while True:
            due = self._database.read(self._overdue)
            for id in due:
                done += self._write(partial(self._expire_if_due, id=id))
            if len(due) < SWEEP_AT_ONCE:
                return done

    def _overdue(self, transaction: Transaction) -> list[str]:
        now = self._now()
        rows = transaction.all("overdue", experiment=self._id, now=now, limit=SWEEP_AT_ONCE)
        return [id for (id,) in rows]

    def _expire_if_due(self, transaction: Transaction, id: str) -> bool:
        held, now = self._look(transaction, id), self._now()
        expires = held.is_due(now)
        if expires:
            self._expire(transaction, held, now)
        return expires

    def _expire(self, transaction: Transaction, held: Held, now: int) -> None:
        if held.exposed or self.live.exposure == "implicit":
            self._stage.settle(transaction, held, self.live.reward.default, "default", now)
        else:
            self._offer_again(transaction, held, now)

    def _offer_again(self, transaction: Transaction, held: Held, now: int) -> None:
        transaction.run("void", assignment=held.id, now=now)
        transaction.run("offer_again", **self._stage.key(held), assignment=held.id)

    def _hold(self, transaction: Transaction, id: str) -> tuple[Held, int]:
        """An assignment as it stands now: if its time is up, that has been dealt with."""
        held, now = self._look(transaction, id), self._now()
        if held.is_due(now):
            self._expire(transaction, held, now)
            held = self._look(transaction, id)
        return held, now

    def _look(self, transaction: Transaction, id: str) -> Held:
        row = transaction.one("lock_assignment", assignment=id) if _is_id(id) else None
        if row is None or row[0] != self._id:
            raise self._unknown(id)
        _, replication, owner, arm, position, exposed, current, state, due, *rest = row
        entry = Entry(owner, arm, position)
        return Held(id, replication, entry, exposed is not None, current == id, state, due, *rest)

    def _unknown(self, id: object) -> Unknown:
        return Unknown(
            f"no assignment {id!r} in experiment {self.name!r}; use the id that assign returned"
        )

    def begin(self, transaction: Transaction) -> None:
        """Open the first replications; part of the transaction that starts the experiment."""
        self._stage.go_on(transaction, self._now())

    # Steering

    def pause(self, reason: str = "") -> None:
        """Enrol nobody for now; rewards are taken all the same."""
        self._steer("paused", ("running", "draining"), reason)

    def resume(self) -> None:
        """Go on after a pause; or after a failure, once the policies agree with the ledger again."""
        self.verify()
        self._steer("running", ("paused", "failed"), "")

    def stop(self, *, drain: bool = True, reason: str = "") -> None:
        """End the experiment before the planned number of replications.

        Args:
            drain: Open no further replication and finish every one that was begun: the only way to stop whose
                results are unbiased, since how long a replication takes depends on how it goes. False stops at once,
                and results are those of the complete prefix.
            reason: For the record.
        """
        status = "draining" if drain else "stopped"
        self._steer(status, ("running", "paused", "draining"), reason)

    def _steer(self, status: str, allowed: tuple[str, ...], reason: str) -> None:
        if reason:
            check_name("a reason", reason)

        def work(transaction: Transaction) -> Conflict | None:
            _, before, _ = found(transaction.one("lock_experiment", experiment=self._id))
            if before == status:
                return None
            if before not in allowed:
                said = f"experiment {self.name!r} is {before} and cannot become {status}"
                return Conflict(said, "invalid_transition")
            transaction.run("set_status", experiment=self._id, status=status, reason=reason)
            if status in GOING:
                self._stage.go_on(transaction, self._now())
            return None

        _raise(self._write(work))

    def add_policy(self, name: str, policy: Any, *, make: Maker | None = None) -> Joining:
        """Let a challenger join, even a finished experiment.

        It walks through what is known first and asks for users only where no policy has been before. The answer says
        how far that carried it and how many users it needs at least. Do not tune a challenger on the ledger it joins.

        Args:
            name: Its name among the policies.
            policy: The policy, or its text form.
            make: For `External(...)`: the maker it names.
        """
        if make is not None:
            self._stage.makers[getattr(policy, "name", name)] = make
        return self._write(lambda transaction: self._add_policy(transaction, name, policy))

    def preview_policy(self, name: str, policy: Any, *, make: Maker | None = None) -> Joining:
        """What `add_policy` would answer; nothing is changed."""
        if make is not None:
            self._stage.makers[getattr(policy, "name", name)] = make

        def work(transaction: Transaction) -> Joining:
            definition, _, _ = found(transaction.one("experiment_now", experiment=self._id))
            wider = self._with_challenger(transaction, definition, name, policy)
            (users,) = found(transaction.one("count_assigned", experiment=self._id))
            return _summary(name, self._stage.preview(transaction, wider.to_json()), users)

        return self._database.read(work)

    def _add_policy(self, transaction: Transaction, name: str, policy: Any) -> Joining:
        definition, status, reason = found(transaction.one("lock_experiment", experiment=self._id))
        require(
            status != "failed",
            f"experiment {self.name!r} has failed ({reason}); nobody can join it",
        )
        (users,) = found(transaction.one("count_assigned", experiment=self._id))
        wider = self._with_challenger(transaction, definition, name, policy)
        joined = self._stage.join(transaction, wider.to_json(), self._now())
        (opened,) = found(transaction.one("count_open", experiment=self._id))
        if opened and status in ("complete", "stopped"):
            again = "running" if status == "complete" else "draining"
            transaction.run("set_status", experiment=self._id, status=again, reason=reason)
        return _summary(name, joined, users)

    def _with_challenger(
        self, transaction: Transaction, definition: str, name: str, policy: Any
    ) -> Experiment:
        before = Experiment.from_json(definition)
        check_name("a policy's name", name)
        require(
            name not in before.policies,
            f"experiment {self.name!r} has a policy {name!r} already; choose another name",
        )
        require(
            not self.live.aa,
            f"experiment {self.name!r} is an A/A rehearsal, in which every policy plays the control's rule; "
            "start another experiment",
        )
        wider = before.replace(policies={**before.policies, name: policy})
        if isinstance(self.live.batch, int):
            wider = played(wider, Live(batch={name: self.live.batch}))
        check_fit(wider, self.live)
        others = only_binary(wider) and transaction.one("not_binary", experiment=self._id)
        require(
            not others,
            f"policy {name!r} needs rewards 0 and 1, but experiment {self.name!r} has had others",
        )
        return wider

    # Looking

    def describe(self, id: str) -> Description:
        """Everything about an assignment, for the analyst; the application that serves users need not know it."""

        def work(transaction: Transaction) -> Description:
            row = transaction.one("describe", assignment=id) if _is_id(id) else None
            if row is None or row[0] != self._id:
                raise self._unknown(id)
            return description(id, self.name, self._stage.current(transaction).experiment, row)

        return self._database.read(work)

    def runs(
        self, checkpoints: Sequence[int] | None = None, *, policies: Sequence[str] | None = None
    ) -> Runs:
        """What has happened so far, for `compare`.

        It holds the complete prefix of replications, never "those finished so far": how long a replication takes
        depends on how it goes.

        Args:
            checkpoints: Horizons to report; a replication counts once every policy has passed the last of them. The
                experiment's horizon if not given.
            policies: Only these; others need not have come as far.
        """

        def work(transaction: Transaction, cast: Cast, numbers: Sequence[int]) -> Runs:
            known = tuple(cast.experiment.policies)
            for name in policies or ():
                require(name in known, f"no policy {name!r} here; {did_you_mean(str(name), known)}")
            horizons = checked_checkpoints(cast.experiment, checkpoints)
            chosen = tuple(policies or known)
            before = self._seen.get((cast.experiment.digest, tuple(horizons), chosen))
            first = before.replications if before else 0
            span = numbers[first:]
            more = runs_of(transaction, self._id, cast, span, horizons, chosen, first)
            together = Runs.concat([before, more]) if before else more
            self._seen = {(cast.experiment.digest, tuple(horizons), chosen): together}
            return together

        return self._read(work)

    def trace(self, replication: int = 0) -> Trace:
        """Every period of one replication, as far as it has come."""

        def work(transaction: Transaction, cast: Cast, numbers: Sequence[int]) -> Trace:
            whole = isinstance(replication, int) and not isinstance(replication, bool)
            if not whole or replication not in numbers:
                raise Invalid(
                    f"replication must be from 0 to {len(numbers) - 1:,} (those begun so far), got {replication!r}"
                )
            return trace_of(transaction, self._id, cast, replication)

        return self._read(work)

    def _read(self, work: Callable[[Transaction, Cast, Sequence[int]], T]) -> T:
        def on_one_state(transaction: Transaction) -> T:
            cast = self._stage.current(transaction)
            rows = transaction.all("replications", experiment=self._id)
            return work(transaction, cast, [number for number, *_ in rows])

        return self._database.read(on_one_state)

    def verify(self) -> int:
        """Derive every replication from its ledger again; how many there are.

        A difference between what the policies make of the ledger and what was asked for raises `Diverged`.
        """

        def work(transaction: Transaction, cast: Cast, numbers: Sequence[int]) -> int:
            return sum(1 for _ in read_replications(transaction, self._id, cast, numbers))

        return self._read(work)

    def verify_or_fail(self) -> None:
        """As `verify`; a difference stops the experiment."""
        try:
            self.verify()
        except Diverged as error:
            if not self._database.read_only:
                self._fail(str(error))
            raise

    def status(self) -> Status:
        """How far the experiment has come."""
        self._flush_all_calls()
        return self._database.read(lambda transaction: status(transaction, self._id, self.name))

    def diagnostics(self, *, silence_is_zero: bool = False) -> tuple[Check, ...]:
        """Whether what the experiment assumes can be seen to be wrong; each check with a sentence and a verdict.

        The ledger against the policies, what is waited for, enrolment and the traffic gate, drift, loss and delay by
        arm; the replay audit if `audit_share` is set; equal policies, if there are any, against each other.

        Args:
            silence_is_zero: Silence is how the default reward is reported here (only purchases are sent, say): arms
                may differ in how often no reward comes.
        """
        self._flush_all_calls()

        def work(transaction: Transaction, cast: Cast, numbers: Sequence[int]) -> tuple[Check, ...]:
            snapshot = Snapshot(transaction, self._id, cast, numbers, self.live, self._now())
            return diagnostics(snapshot, silence_is_zero=silence_is_zero)

        return self._read(work)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        what: str = "ledger",
        format: str | None = None,
    ) -> int:
        """Write the ledger to a file, whole or not at all; how many rows it has.

        One row an assignment, and one an entry that nobody was assigned (wanted, or imported): the ledger in its
        order, after it the assignments that were voided. Units are keyed hashes. In CSV, text that a spreadsheet
        would take for a formula gets a leading apostrophe.

        Args:
            path: Where to; .csv, .jsonl (or .ndjson) or .parquet says which format.
            what: "ledger", or "rewards": every reward ever reported and what became of it.
            format: "csv", "jsonl" or "parquet", whatever the path's ending.
        """
        named = (self._id, self.name, self.live.to_dict())
        return export(self._database, named, path, what=what, format=format)

    # Small things

    def _write(self, work: Work[T]) -> T:
        """A transaction; if the policies do not agree with the ledger, the experiment is stopped."""
        try:
            return self._database.write(work)
        except Diverged as error:
            self._fail(str(error))
            raise

    def _fail(self, reason: str) -> None:
        values = {"experiment": self._id, "status": "failed", "reason": reason}
        self._database.write(lambda transaction: transaction.run("set_status", **values))

    def _now(self) -> int:
        return round(self._clock() * SECOND)

    def _code(self, unit: str | int) -> str:
        """A unit is kept as a keyed hash: enough to know it again, and no name in the database."""
        if isinstance(unit, int) and not isinstance(unit, bool):
            unit = str(unit)
        fits = isinstance(unit, str) and 0 < len(unit) <= 1_000
        require(
            fits, f"a unit must be text of 1 to 1,000 characters (or a whole number), got {unit!r}"
        )
        try:
            content = unit.encode()  # type: ignore[union-attr]
        except UnicodeEncodeError:
            raise Invalid(f"a unit must be valid Unicode, got {unit!r}") from None
        return hashlib.blake2b(content, key=bytes.fromhex(self._salt), digest_size=16).hexdigest()

    def _takes_part(self, code: str) -> bool:
        if self.live.traffic_share >= 1:
            return True
        place = hashlib.blake2b(b"traffic share", key=bytes.fromhex(code), digest_size=8).digest()
        return int.from_bytes(place, "little") < self.live.traffic_share * 2**64

    def _checked_reward(self, value: Any) -> float:
        low, high = self.live.reward.bounds
        require_number("a reward", value, at_least=low, at_most=high)
        require(
            value in (0, 1) or not only_binary(self.experiment),
            f"a reward must be 0 or 1 (a policy counts successes), got {value!r}",
        )
        return float(value)

    def _count(self, answer: Assignment) -> Assignment:
        with self._guard:
            self._calls[answer.reason] += 1
        return answer

    def _flush_all_calls(self) -> None:
        if self._calls and not self._database.read_only:
            self._write(lambda transaction: self._flush_calls(transaction, None))

    def _flush_calls(self, transaction: Transaction, now: int | None) -> None:
        if now is not None and now < self._next_count:
            return
        with self._guard:
            calls, self._calls = self._calls, Counter()
            self._next_count = max(self._next_count, (now or 0) + SECOND)
        if not calls:
            return
        transaction.undo(lambda: self._calls.update(calls))
        rows = [{"experiment": self._id, "reason": r, "calls": n} for r, n in sorted(calls.items())]
        transaction.many("count_answers", rows)


def _judge(held: Held, value: float) -> tuple[str, Conflict | None]:
    """What a reported reward comes to, and what to say if it does not count."""
    if not held.live:
        return "voided", _voided(held.id)
    if held.state == "assigned":
        return "applied", None
    if held.source == "default":
        said = f"assignment {held.id!r}: its window is over, and the default reward {held.value!r} counts"
        return "late", Conflict(said, "reward_late")
    if held.value == value:
        return "duplicate", None
    said = f"assignment {held.id!r} was rewarded with {held.value!r}; the first value counts, {value!r} does not"
    return "conflict", Conflict(said, "reward_conflict")


def _summary(name: str, joined: Sequence[Joined], users: int) -> Joining:
    finished = sum(one.finished for one in joined)
    replayed = sum(one.replayed for one in joined)
    wanted = sum(one.wanted for one in joined)
    return Joining(name, len(joined), finished, replayed, wanted, users)


def _raise(conflict: Conflict | None) -> None:
    if conflict is not None:
        raise conflict


def _voided(id: str) -> Conflict:
    said = f"assignment {id!r} was voided (not exposed in time, or by request); its entry went to somebody else"
    return Conflict(said, "assignment_voided")


def _is_id(id: Any) -> bool:
    return isinstance(id, str) and id.isascii() and id.isprintable() and len(id) <= 100


def _new_id(now: int) -> str:
    # Time first: new rows go to the end of the index. 80 random bits: nobody guesses one.
    return f"asg_{now // 1000:012x}{os.urandom(10).hex()}"
