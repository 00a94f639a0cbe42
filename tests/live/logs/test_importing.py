"""A log of one policy becomes a ledger: nothing is lost or invented, and the experiment continues from there."""

import csv

import numpy as np
import pytest
from users import Place, Users, assert_same, finish

import sameluck as sl
from sameluck.live.logs import importing

ARMS = ("blue", "red", "green")
BERNOULLI = sl.Bernoulli([0.3, 0.5, 0.6])
COLUMNS = {"arm": "shown", "reward": "paid", "replication": "run"}


def experiment(**changes):
    values = {
        "policies": {"old": "ucb1(alpha=2)", "new": "thompson_bernoulli", "third": "ucb_delta"},
        "arms": ARMS,
        "horizon": 40,
        "replications": 4,
        "seed": 3,
    }
    return sl.Experiment(**{**values, **changes})


def log_of(design, policy="old", environment=BERNOULLI, replications=None):
    """What one policy of an experiment would have logged."""
    rows = []
    for number in range(replications or design.replications):
        trajectory = sl.trace(design, environment, number)[policy]
        for arm, reward in zip(trajectory.arms.tolist(), trajectory.rewards.tolist(), strict=True):
            rows.append({"run": f"r{number}", "shown": design.arm_names[arm], "paid": reward})
    return rows


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def imported(store, design, rows, **changes):
    values = {"policies": dict(design.policies), "arms": ARMS, "seed": design.seed, **COLUMNS}
    return store.import_log("shop", rows, **{**values, **changes})


@pytest.fixture
def store():
    with sl.open("sqlite://") as opened:
        yield opened


def test_the_challenger_asks_only_for_what_the_log_cannot_answer(url):
    design = experiment()
    users = Users(design, BERNOULLI)
    with sl.open(url) as store:
        record = imported(store, design, log_of(design), logged_by="old")
        assert record.agrees
        assert record.rows == 4 * 40
        assert record.replications == ("r0", "r1", "r2", "r3")
        assert record.live.experiment == design
        assert record.live.options.order == "phase"
    with sl.open(url) as store:
        live = store.load("shop")
        finish(live, users)
        expected = users.simulated()

        assert_same(live.runs(), expected)
        assert live.status().users == expected.interactions.sum() - 4 * 40
        assert live.status().imported == 4 * 40
        assert live.verify() == 4


def test_how_far_each_gets_is_what_the_trace_says(store):
    design = experiment()
    record = imported(store, design, log_of(design), logged_by="old")

    reaches = {name: [] for name in design.policies}
    for number in range(4):
        traces = record.live.trace(number)
        for name, trajectory in traces.items():
            reaches[name].append(trajectory.arms.size)
            entries = np.bincount(traces["old"].arms, minlength=3)
            used = np.bincount(trajectory.arms, minlength=3)
            assert (used <= entries).all()
    for name, trajectory in record.policies.items():
        assert trajectory.replications == 4
        assert trajectory.replayed == sum(reaches[name])
        assert trajectory.finished == reaches[name].count(40)
        assert trajectory.users_at_least == sum(reach < 40 for reach in reaches[name])
    assert record.policies["old"].finished == 4
    assert record.live.status().wanted == 4, "in phase order one policy of a replication asks"


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"policies": {"old": "thompson_bernoulli", "new": "ucb1"}},
        {"policies": {"old": "batched(thompson_bernoulli, size=7)", "new": "ucb1"}},
        {"policies": {"old": "epsilon_greedy(epsilon=0.3)"}},
    ],
    ids=["randomised", "batched", "alone"],
)
def test_other_logging_policies(store, changes):
    design = experiment(**changes)
    record = imported(store, design, log_of(design), logged_by="old")

    assert record.agrees
    finish(record.live, Users(design, BERNOULLI))
    assert_same(record.live.runs(), Users(design, BERNOULLI).simulated())


def test_an_object_of_the_application(store):
    class InTurn:
        def __init__(self, seed):
            self.seen = [seed]

        def select(self, period):
            return (period - 1) % 3

        def update(self, arm, reward):
            self.seen.append((arm, reward))

    design = experiment(policies={"mine": sl.External("turn"), "new": "ucb1"})
    rows = [
        {"run": number, "shown": ARMS[index % 3], "paid": index % 2}
        for number in range(2)
        for index in range(30)
    ]
    makers = {"turn": InTurn}

    record = imported(store, design, rows, logged_by="mine", makers=makers)

    assert record.agrees
    assert record.policies["mine"].finished == 2
    rows[40]["shown"] = "green"
    with sl.open("sqlite://") as other:
        record = imported(other, design, rows, logged_by="mine", makers=makers, mismatch_ok=True)
    assert "record 41: it would have played 'red', the log has 'green'" in record.agreement
    assert "it is randomised" in record.agreement, "an object may always be"


class TestALogByAnotherPolicy:
    def test_the_first_difference_has_its_line(self, store, tmp_path):
        rows = log_of(experiment())
        index = next(
            n for n in range(60, 160) if rows[n]["shown"] == "red" and rows[n - 1]["shown"] == "red"
        )
        rows[index]["shown"] = "blue"
        path = write_csv(tmp_path / "log.csv", rows)

        record = imported(store, experiment(), path, logged_by="old", mismatch_ok=True)

        assert not record.agrees
        assert record.agreement.startswith(
            f"ucb1(alpha=2) would have written another log; first difference at line {index + 2}: it would "
            "have played 'red', the log has 'blue'; 1 of 4 replications differ"
        )
        assert "randomised" not in record.agreement
        assert "BEWARE: ucb1" in str(record)
        assert record.live.experiment.control == "old"

    def test_other_random_choices(self, store):
        design = experiment(policies={"old": "ucb1", "new": "thompson_bernoulli"})

        record = imported(
            store, design, log_of(design, "new"), logged_by="new", seed=4, mismatch_ok=True
        )

        assert not record.agrees
        assert "it is randomised, and the log has other random choices" in record.agreement
        assert record.live.experiment.control == "new"

    @pytest.mark.slow
    def test_entries_that_no_policy_reads_are_kept(self, url):
        """The log's policy plays green alone for long: its stack is longer than any policy reads."""
        design = experiment()
        users = Users(design, BERNOULLI)
        rows = [
            {
                "run": number,
                "shown": ARMS[arm],
                "paid": users.reward_at(Place(number, None, arm, at)),
            }
            for number in range(4)
            for arm, count in ((0, 1), (1, 2), (2, 200))
            for at in range(count)
        ]
        with sl.open(url) as store:
            record = imported(store, design, rows, horizon=40)
            assert record.agrees is None
            assert record.agreement is None
            assert record.lengths == (203, 203)
            assert "further entries of their arms' stacks" in str(record)
        with sl.open(url) as store:
            live = store.load("shop")
            finish(live, users)
            expected = users.simulated()

            assert_same(live.runs(), expected)
            reached = expected.pulls[:, :, -1].max(axis=1)
            beyond = np.maximum(reached - [1, 2, 200], 0).sum()
            assert live.status().users == beyond
            assert live.status().status == "complete"

    def test_only_what_was_imported_may_be_unread(self, tmp_path):
        where = f"sqlite:///{tmp_path / 'live.db'}"
        design = experiment()
        rows = [{"run": 0, "shown": ARMS[n % 3], "paid": 1} for n in range(300)]
        with sl.open(where) as store:
            imported(store, design, rows, horizon=10)
            change = "UPDATE entry SET source = 'observed' WHERE position = 99"
            store.database.write(lambda transaction: transaction.connection.execute(change))
        with (
            sl.open(where) as store,
            pytest.raises(sl.Diverged, match="is settled, but no policy reads it"),
        ):
            store.load("shop")


class TestHorizon:
    def test_the_shortest_replication_decides(self, store):
        design = experiment(horizon=50, replications=3)
        rows = log_of(design)
        del rows[145:], rows[90:100]

        record = imported(store, design, rows, logged_by="old")

        assert record.lengths == (40, 50)
        assert record.live.experiment.horizon == 40
        assert record.agrees
        text = str(record)
        assert (
            "Replications of the log have 40 to 50 rows; rows beyond the horizon are kept" in text
        )
        assert "Their lengths must not depend on their rewards" in text
        shorter = design.replace(horizon=40)
        finish(record.live, Users(shorter, BERNOULLI))
        assert_same(record.live.runs(), Users(shorter, BERNOULLI).simulated())

    def test_longer_than_the_log(self, store):
        design = experiment(horizon=60)
        rows = log_of(experiment())

        record = imported(store, design, rows, logged_by="old", horizon=60)

        assert record.agrees, "as far as the log goes"
        assert "even the policy that wrote the log needs users" in str(record)
        assert record.policies["old"].finished == 0
        finish(record.live, Users(design, BERNOULLI))
        assert_same(record.live.runs(), Users(design, BERNOULLI).simulated())

    @pytest.mark.slow
    def test_a_batch_that_the_log_cuts_off(self, store):
        design = experiment(policies={"old": "batched(ucb1, size=16)", "new": "ucb1"})
        record = imported(store, design, log_of(design), logged_by="old", horizon=64)

        assert record.agrees
        assert record.policies["old"].replayed == 4 * 32


def test_more_replications_may_be_planned(store):
    design = experiment(replications=7)
    record = imported(
        store, design, log_of(design, replications=3), logged_by="old", replications=7
    )

    assert "3 more" not in str(record)
    assert "4 more are planned" in str(record)
    finish(record.live, Users(design, BERNOULLI))
    assert_same(record.live.runs(), Users(design, BERNOULLI).simulated())


def test_lock_step_if_requested(store):
    design = experiment()
    record = imported(store, design, log_of(design), options={"order": "lockstep"})

    assert record.live.options.order == "lockstep"
    finish(record.live, Users(design, BERNOULLI))
    assert_same(record.live.runs(), Users(design, BERNOULLI).simulated())


def test_a_log_that_answers_everything_is_a_finished_experiment(store):
    design = experiment(policies={"old": "ucb1(alpha=2)", "same": "ucb1(alpha=2)"})
    record = imported(store, design, log_of(design), logged_by="old")

    assert record.live.status().status == "complete"
    assert_same(record.live.runs(), Users(design, BERNOULLI).simulated())


def test_a_challenger_may_join_later(store):
    design = experiment()
    first = {"old": design.policies["old"]}
    record = imported(store, design, log_of(design), policies=first, logged_by="old")
    assert record.live.status().status == "complete"

    record.live.add_policy("new", "thompson_bernoulli")
    record.live.add_policy("third", "ucb_delta")
    finish(record.live, Users(design, BERNOULLI))

    assert_same(record.live.runs(), Users(design, BERNOULLI).simulated())


def test_what_was_imported_is_audited_once_it_is_replayed(store):
    """The log's users are long gone: the audit asks whether today's give the same."""
    design = experiment(policies={"new": "thompson_bernoulli"})
    live = sl.LiveOptions(order="phase", audit_share=0.5)
    record = imported(store, design, log_of(experiment()), options=live)
    assert record.policies["new"].replayed > 60
    assert record.policies["new"].finished < 4
    assert record.live.verify() == 4

    audited = 0
    for unit in range(500):
        assignment = record.live.assign(unit)
        if assignment.id is not None:
            audited += record.live.describe(assignment.id).audit
            record.live.reward(assignment.id, 1)
    assert audited > 0.2 * record.policies["new"].replayed
    assert record.live.status().status == "complete"
    assert record.live.verify() == 4


def test_rows_are_ordered_by_time(store):
    design = experiment()
    rows = [{**row, "at": index} for index, row in enumerate(log_of(design))]
    mixed = [rows[index] for index in np.random.default_rng(1).permutation(len(rows))]

    record = imported(store, design, mixed, logged_by="old", time="at")

    assert record.agrees
    assert set(record.replications) == {"r0", "r1", "r2", "r3"}


def test_one_replication_and_arms_as_found(store):
    rows = [{"shown": f"a{index % 12}", "paid": index / 7} for index in range(60)]
    columns = {"arm": "shown", "reward": "paid", "sorted_ok": True}
    record = store.import_log("shop", rows, policies={"new": "ucb1"}, **columns)

    assert record.live.experiment.arm_names == tuple(f"a{index}" for index in range(12))
    assert record.live.experiment.replications == 1
    assert record.live.experiment.horizon == 60
    assert record.live.trace(0)["new"].rewards.tolist()[:12] == [n / 7 for n in range(12)]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_an_export_can_be_imported(store, tmp_path, suffix):
    """The ledger stands in the order of its stacks; what holds no reward is left out."""
    design = experiment()
    live = store.start("first", design)
    finish(live, Users(design, BERNOULLI))
    path = tmp_path / f"ledger.{suffix}"
    live.export(path)

    columns = {"arm": "arm", "reward": "value", "replication": "replication", "sorted_ok": True}
    record = imported(store, design, path, horizon=40, skip_bad=suffix == "jsonl", **columns)

    assert record.rows == live.status().users
    assert record.live.status().status == "complete"
    assert_same(record.live.runs(), live.runs())


class TestBadRows:
    def test_nothing_is_imported_and_the_lines_are_named(self, store, tmp_path):
        rows = log_of(experiment())
        rows[3]["paid"] = "nan"
        rows[7]["shown"] = "violet"
        path = write_csv(tmp_path / "log.csv", rows)

        with pytest.raises(
            sl.Invalid, match=r"line 5: reward is NaN; line 9: unknown arm 'violet'"
        ):
            imported(store, experiment(), path)

        assert store.names() == []

    def test_they_may_be_skipped(self, store, tmp_path):
        rows = log_of(experiment())
        rows[43]["paid"] = ""
        path = write_csv(tmp_path / "log.csv", rows)

        record = imported(
            store, experiment(), path, skip_bad=True, logged_by="old", mismatch_ok=True
        )

        assert record.skipped == ("line 45: reward is missing",)
        assert record.rows == 159
        assert record.live.experiment.horizon == 39
        assert "159 rows imported, 1 left out" in str(record)
        assert record.agrees or "rows that were left out may be the cause" in record.agreement

    def test_rewards_out_of_range(self, store):
        live = sl.LiveOptions(reward=sl.Reward(min=-1, max=1))
        rows = [{"run": 0, "shown": ARMS[n % 3], "paid": n} for n in range(4)]

        with pytest.raises(sl.Invalid, match="record 3: reward 2 is above the highest, 1"):
            imported(store, experiment(), rows, policies={"new": "ucb1"}, options=live)

    def test_a_policy_that_counts_successes(self, store):
        rows = log_of(experiment())
        rows[2]["paid"] = 0.5
        rows += [{"run": "worse", "shown": "red", "paid": 2}]

        with pytest.raises(sl.Invalid, match=r"2 rows .* record 3: reward 0.5 is neither 0 nor 1"):
            imported(store, experiment(), rows)
        record = imported(store, experiment(), rows, skip_bad=True)

        assert record.rows == 159
        assert record.replications == ("r0", "r1", "r2", "r3")

    def test_none_is_left(self, store):
        rows = [{"run": 0, "shown": "red", "paid": 0.5}]

        with pytest.raises(sl.Invalid, match="no row can be used"):
            imported(store, experiment(), rows, skip_bad=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logged_by": "odl"}, "logged_by 'odl' is not one of policies; did you mean 'old'"),
        ({"policies": {}}, "policies must map names to policies"),
        ({"policies": "ucb1"}, "policies must map names to policies"),
        ({"policies": {"a": "ucb9"}}, "ucb9"),
        ({"replications": 3}, "replications is 3, but the log has 4"),
        ({"horizon": 0}, "Experiment.horizon must be a whole number from 1"),
        ({"arm": "colour"}, "no column 'colour' for arm"),
        ({"options": {"order": "no"}}, "unknown LiveOptions.order 'no'; "),
        ({"options": sl.LiveOptions(open_replications=5)}, "LiveOptions.open_replications is 5"),
        ({"policies": {"mine": sl.External("x")}}, "makers"),
    ],
)
def test_invalid_arguments(store, changes, message):
    with pytest.raises(sl.Invalid, match=message):
        imported(store, experiment(), log_of(experiment()), **changes)

    assert store.names() == []


def test_a_log_of_one_arm_does_not_say_what_the_others_are(store):
    rows = [{"shown": "red", "paid": 1}] * 5

    with pytest.raises(sl.Invalid, match=r"has one arm, 'red'; name all arms: arms="):
        store.import_log("shop", rows, arm="shown", reward="paid", policies={"a": "ucb1"})


def test_a_name_is_taken_once(store):
    design = experiment()
    imported(store, design, log_of(design))

    with pytest.raises(sl.Conflict, match="there is an experiment 'shop' already") as caught:
        imported(store, design, log_of(design))
    assert caught.value.code == "name_taken"


def test_all_or_nothing(url, monkeypatch):
    design = experiment()
    whole = importing.LogStacks.write

    def broken(*arguments):
        whole(*arguments)
        raise RuntimeError("the lights went out")

    with sl.open(url) as store:
        monkeypatch.setattr(importing.LogStacks, "write", broken)
        with pytest.raises(RuntimeError, match="the lights went out"):
            imported(store, design, log_of(design))
        assert store.names() == []
        monkeypatch.undo()
        assert imported(store, design, log_of(design)).rows == 160


@pytest.mark.slow
def test_a_long_log(url):
    """More rows than go into one statement; every value at its place."""
    rng = np.random.default_rng(5)
    arms, values = rng.integers(0, 3, 12_000), rng.normal(size=12_000)
    rows = [
        {"shown": ARMS[arm], "paid": value}
        for arm, value in zip(arms.tolist(), values.tolist(), strict=True)
    ]
    with sl.open(url) as store:
        record = store.import_log(
            "shop", rows, arm="shown", reward="paid", arms=ARMS, policies={"only": "always(arm=1)"}
        )
        trajectory = record.live.trace(0)["only"]

        assert record.rows == 12_000
        assert trajectory.rewards.tolist() == values[arms == 1].tolist()
        assert store.load("shop").status().imported == 12_000
