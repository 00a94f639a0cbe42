"""`Experiment` is checked when made, frozen, and survives every round trip; bad input at both doors is refused."""

import copy
import dataclasses
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cases
import sameluck as sl

AWKWARD_NAMES = [
    "plain",
    "with space",
    " ",
    'double "quotes"',
    "single 'quotes'",
    "back\\slash",
    "\\u0041",
    "dots.and.more",
    "a = b # c",
    "[policies]",
    "emoji \N{SAUROPOD}",
    "\N{LATIN SMALL LETTER E WITH ACUTE} and e\N{COMBINING ACUTE ACCENT}",
    "\N{LINE SEPARATOR}",
    "\N{RIGHT-TO-LEFT OVERRIDE}",
    "\N{NO-BREAK SPACE}",
    "true",
    "x" * 200,
]
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


def experiment(**changes):
    """A small experiment with some fields changed."""
    usual = {
        "policies": {"ucb": "ucb1", "ts": "thompson_bernoulli"},
        "arms": 2,
        "horizon": 10,
        "replications": 3,
    }
    return sl.Experiment(**{**usual, **changes})


@st.composite
def experiments(draw):
    """Any experiment: awkward names, all policies and designs, the whole range of numbers."""
    names = draw(
        st.lists(
            st.one_of(NAMES, st.sampled_from(AWKWARD_NAMES)), min_size=1, max_size=4, unique=True
        )
    )
    arms = draw(
        st.one_of(st.integers(2, 2**20), st.lists(NAMES, min_size=2, max_size=5, unique=True))
    )
    return sl.Experiment(
        policies={name: draw(st.sampled_from(cases.ALL_POLICIES)) for name in names},
        arms=arms,
        horizon=draw(st.integers(1, 2**40)),
        replications=draw(st.integers(1, 2**40)),
        design=draw(st.sampled_from(cases.ALL_DESIGNS)),
        control=draw(st.sampled_from(names)),
        seed=draw(st.integers(0, 2**64 - 1)),
    )


# --- round trips ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(experiments())
def test_every_round_trip_gives_the_experiment_back(made):
    """JSON, TOML, plain values, pickle and copy: equal, with the same digest, the same types, the same order."""
    copies = [
        sl.Experiment.from_json(made.to_json()),
        sl.Experiment.from_toml(made.to_toml()),
        sl.Experiment.from_dict(json.loads(json.dumps(made.to_dict()))),
        pickle.loads(pickle.dumps(made)),
        copy.deepcopy(made),
        made.replace(),
    ]

    for one in copies:
        assert one == made
        assert hash(one) == hash(made)
        assert one.digest == made.digest
        assert list(one.policies.items()) == list(made.policies.items())
        assert [type(policy) for policy in one.policies.values()] == [
            type(policy) for policy in made.policies.values()
        ]
        assert (one.arms, one.design, one.control) == (made.arms, made.design, made.control)
        assert type(one.design) is type(made.design)


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_awkward_names_survive(name):
    """As the name of a policy, of the control and of an arm."""
    made = experiment(policies={name: "ucb1", "other": "uniform"}, arms=[name, "b"], control=name)

    assert sl.Experiment.from_toml(made.to_toml()) == made
    assert sl.Experiment.from_json(made.to_json()) == made
    assert made.arm_names == (name, "b")


BAD_NAMES = [
    "",
    "x" * 201,
    "\x7f",
    "tab\there",
    "line\nbreak",
    "\x00",
    "\ud800",
    None,
    1,
    b"x",
    ("a",),
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_names_that_are_none_are_refused(name):
    """Empty, too long, control characters, half a surrogate, not text: refused for policies and for arms."""
    with pytest.raises(sl.Invalid, match="a policy's name must be"):
        experiment(policies={name: "ucb1"})
    with pytest.raises(sl.Invalid, match="an arm's name must be"):
        experiment(arms=[name, "other"])


def test_names_that_look_alike_are_different():
    """Names are compared as they are: case and composition matter, for random numbers too."""
    made = experiment(policies={"a": "uniform", "A": "uniform"}, replications=50)

    runs = sl.simulate(made, "bernoulli(0.5, 0.5)")

    assert (runs.pulls[:, 0] != runs.pulls[:, 1]).any()


# --- identity ---------------------------------------------------------------------------------------------------

CHANGES = [
    {"policies": {"ucb": "ucb1(alpha=2.0000000000000004)", "ts": "thompson_bernoulli"}},
    {"policies": {"ucb": "ucb1", "ts2": "thompson_bernoulli"}},
    {"policies": {"ucb": "ucb1"}},
    {"arms": 3},
    {"arms": ["a", "b"]},
    {"horizon": 11},
    {"replications": 4},
    {"design": "naive"},
    {"design": "replay(share_noise=true)"},
    {"control": "ts"},
    {"seed": 1},
]


def test_the_digest_sees_every_change():
    """Any field, also the last bit of a parameter."""
    digests = [experiment().digest, *(experiment(**change).digest for change in CHANGES)]

    assert len(set(digests)) == len(CHANGES) + 1
    assert all(experiment(**change) != experiment() for change in CHANGES)


@pytest.mark.slow
def test_the_digest_is_the_same_in_another_process():
    """Nothing of it depends on hash randomisation, and equal definitions have equal digests."""
    same = experiment(
        design=sl.Replay(),
        control="ucb",
        seed=0,
        policies={"ucb": sl.UCB1(2), "ts": sl.ThompsonBernoulli(1, 1)},
    )
    script = "import sys, sameluck; print(sameluck.Experiment.from_json(sys.stdin.read()).digest)"
    command = [sys.executable, "-c", script]
    text = experiment().to_json()

    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == experiment().digest == same.digest
    assert len(same.digest) == 16
    assert int(same.digest, 16) >= 0


def test_an_experiment_is_frozen():
    """Neither its fields nor its policies can be changed, and the caller's own dict is not kept."""
    mine = {"ucb": sl.UCB1()}
    made = experiment(policies=mine)
    mine["late"] = sl.Uniform()

    with pytest.raises(dataclasses.FrozenInstanceError):
        made.horizon = 5
    with pytest.raises(TypeError):
        made.policies["late"] = sl.Uniform()
    assert list(made.policies) == ["ucb"]


def test_defaults():
    """Replay, the first policy as control, seed 0; arms are named by their indices."""
    made = experiment()

    assert repr(made.design) == repr(sl.Replay())
    assert made.control == "ucb"
    assert made.seed == 0
    assert made.n_arms == 2
    assert made.arm_names == ("0", "1")
    assert experiment(arms=["left", "right"]).n_arms == 2


def test_replace_checks_again_and_keeps_a_control_that_stays():
    """A control that left gives way to the first; one that is named must be there."""
    made = experiment(control="ts")

    assert made.replace(horizon=20).control == "ts"
    assert made.replace(policies={"only": "ucb1"}).control == "only"
    with pytest.raises(sl.Invalid, match="horizon"):
        made.replace(horizon=0)
    with pytest.raises(sl.Invalid, match="control"):
        made.replace(policies={"only": "ucb1"}, control="ts")


def test_numbers_may_be_numpy_numbers():
    """Whole numbers of any kind are whole numbers, and come out as Python's."""
    made = experiment(
        horizon=np.int32(10), replications=np.int64(3), seed=np.uint64(2**64 - 1), arms=np.int64(2)
    )

    assert [type(value) for value in (made.horizon, made.replications, made.seed, made.arms)] == [
        int
    ] * 4
    assert sl.Experiment.from_json(made.to_json()) == made


# --- bad input at both doors ------------------------------------------------------------------------------------

GAUSSIAN = "gaussian(1.0, 0.0)"
BERNOULLI = "bernoulli(0.7, 0.3)"
UCB = {"policies": {"ucb": "ucb1"}}


def made_from_json(text):
    return lambda: sl.Experiment.from_json(text)


def made_from_toml(text):
    return lambda: sl.Experiment.from_toml(text)


def simulated(environment=BERNOULLI, options=None, **changes):
    return lambda: sl.simulate(experiment(**changes), environment, **(options or {}))


def traced(environment=BERNOULLI, options=None, **changes):
    return lambda: sl.trace(experiment(**changes), environment, **(options or {}))


def made(**changes):
    return lambda: experiment(**changes)


FULL = '{"policies": {"a": "ucb1"}, "arms": 2, "horizon": 5, "replications": 2'

BAD_INPUT = [
    # the first door: Experiment(...)
    (made(horizon=-1), "Experiment.horizon must be a whole number from 1 to"),
    (made(horizon=0), "Experiment.horizon must be a whole number from 1 to"),
    (made(horizon=2**41), "Experiment.horizon must be a whole number from 1 to 2^40"),
    (made(horizon=10.0), "Experiment.horizon must be a whole number from 1 to 2^40, got 10.0"),
    (made(horizon="10"), "Experiment.horizon must be a whole number from 1 to 2^40, got '10'"),
    (made(horizon=None), "Experiment.horizon must be a whole number from 1 to 2^40, got None"),
    (made(horizon=True), "Experiment.horizon must be a whole number from 1"),
    (made(horizon=float("nan")), "Experiment.horizon must be a whole number from 1 to 2^40, got nan"),
    (made(replications=0), "Experiment.replications must be a whole number from 1"),
    (made(replications=-5), "got -5"),
    (made(replications=1.5), "Experiment.replications must be a whole number from 1 to 2^40, got 1.5"),
    (made(seed=-1), "Experiment.seed must be a whole number from 0 to 2^64 - 1, got -1"),
    (made(seed=2**64), "Experiment.seed must be a whole number from 0 to 2^64 - 1"),
    (made(seed="x"), "Experiment.seed must be a whole number from 0 to 2^64 - 1, got 'x'"),
    (made(arms=0), "Experiment.arms must be a whole number from 2"),
    (made(arms=1), "Experiment.arms must be a whole number from 2"),
    (made(arms=-3), "got -3"),
    (made(arms=2**20 + 1), "from 2 to 1,048,576"),
    (made(arms=True), "Experiment.arms must be a whole number from 2"),
    (made(arms="two"), "Experiment.arms must be a whole number from 2 to 1,048,576, got 'two'"),
    (made(arms=2.0), "Experiment.arms must be a whole number from 2 to 1,048,576, got 2.0"),
    (made_from_json(FULL.replace('"arms": 2', '"arms": null') + "}"), "an experiment needs arms"),
    (made(arms=[]), "number of Experiment.arms must be a whole number from 2"),
    (made(arms=["only"]), "number of Experiment.arms must be a whole number from 2"),
    (made(arms=["a", "b", "a"]), "names 'a' twice"),
    (made(design="unknown"), "unknown design 'unknown'; known: naive, replay"),
    (made(design="repaly"), "did you mean 'replay'?"),
    (made(design=None), "unknown design None"),
    (made(control="nobody"), "Experiment.control 'nobody' is not one of its policies"),
    (made(control="uc"), "did you mean 'ucb'?"),
    (made(policies={}), "Experiment.policies is empty"),
    (made(policies=["ucb1"]), "Experiment.policies must map names to policies"),
    (made(policies="ucb1"), "Experiment.policies must map names to policies"),
    (made(policies={"x": "ucb9"}), "unknown policy 'ucb9'; did you mean 'ucb1'?"),
    (made(policies={"x": None}), "None is not a policy"),
    (made(policies={"x": "ucb1(alpha=-1)"}), "UCB1.alpha must be >= 0, got -1.0"),
    (lambda: sl.UCB1(float("nan")), "UCB1.alpha must be a finite number, got nan"),
    (made(policies={"x": "always(2)"}), "Always.arm must be a whole number from 0 to 1, got 2"),
    (made(policies={"x": "ucb1(" + "9" * 400 + ".0)"}), "finite number"),
    (lambda: sl.UCB1(10**400), "too large"),
    # files
    (made_from_json(""), "not valid JSON"),
    (made_from_json("[]"), "an experiment must be an object, got []"),
    (made_from_json("3"), "an experiment must be an object"),
    (made_from_json("[" * 100_000), "not valid JSON"),
    (made_from_json("{}"), "an experiment needs policies, arms, horizon, replications"),
    (made_from_json(FULL + ', "horzion": 3}'), "unknown field 'horzion' in an experiment; did you mean 'horizon'?"),
    (made_from_json(FULL.replace("5", "NaN") + "}"), "Experiment.horizon must be a whole number from 1 to 2^40"),
    (made_from_json(FULL.replace("5", "5e0") + "}"), "Experiment.horizon must be a whole number from 1 to 2^40"),
    (made_from_json(FULL + ', "seed": 1' + "0" * 5_000 + "}"), "not valid JSON"),
    (made_from_json(FULL + ', "design": {}}'), "unknown design {}"),
    (made_from_toml("a = "), "not valid TOML"),
    (made_from_toml("arms = 2\narms = 3"), "not valid TOML"),
    (made_from_toml("[policies]\na = 'ucb1'\na = 'uniform'"), "not valid TOML"),
    (made_from_toml("arms = 2"), "an experiment needs policies, horizon, replications"),
    # the second door: simulate(...) and trace(...)
    (simulated(GAUSSIAN), "policy 'ts' (thompson_bernoulli"),
    (simulated(GAUSSIAN), "needs rewards 0 and 1"),
    (traced(GAUSSIAN), "needs rewards 0 and 1"),
    (simulated("empirical([0, 2], [1, 1])"), "needs rewards 0 and 1"),
    (simulated("bernoulli(0.7, 1.3)"), "Bernoulli.means[1] must be <= 1, got 1.3"),
    (simulated("bernoulli(-0.1, 0.3)"), "Bernoulli.means[0] must be >= 0, got -0.1"),
    (lambda: sl.Bernoulli([0.5, float("nan")]), "Bernoulli.means[1] must be a finite number, got nan"),
    (lambda: sl.Gaussian([0.5, float("inf")]), "Gaussian.means[1] must be a finite number, got inf"),
    (simulated("gaussian(1, 2, sd=-1)", **UCB), "Gaussian.sd must be >= 0, got -1.0"),
    (simulated("bernoulli(0.5, 0.4, 0.3)"), "Bernoulli.means has 3 entries, but there are 2 arms"),
    (simulated("bernouli(0.5, 0.4)"), "unknown environment 'bernouli'; did you mean 'bernoulli'?"),
    (simulated(None), "None is not an environment"),
    (simulated(sl.UCB1()), "is not an environment"),
    (simulated(sl.Bernoulli), "it is an environment class: write 'bernoulli(0.7, 0.3)', for example"),
    (simulated(lambda arm, uniform: uniform), "to sameluck.python_environment"),
    (simulated(options={"checkpoints": [11]}), "checkpoint 11 is outside 1..10"),
    (simulated(options={"checkpoints": [0, 5]}), "checkpoint 0 is outside 1..10"),
    (simulated(options={"checkpoints": [-1]}), "checkpoint -1 is outside 1..10"),
    (simulated(options={"checkpoints": []}), "checkpoints must be a list of whole numbers"),
    (simulated(options={"checkpoints": [1.5]}), "checkpoints must be a list of whole numbers"),
    (simulated(options={"checkpoints": [float("nan")]}), "checkpoints must be a list of whole numbers"),
    (simulated(options={"checkpoints": ["5"]}), "checkpoints must be a list of whole numbers"),
    (simulated(options={"checkpoints": [True]}), "checkpoints must be a list of whole numbers"),
    (simulated(options={"checkpoints": [2**70]}), "heckpoint"),
    (simulated(options={"checkpoints": "5"}), "checkpoints must be a list of whole numbers"),
    (simulated(options={"workers": 0}), "workers must be a whole number >= 1, got 0"),
    (simulated(options={"workers": -2}), "workers must be a whole number >= 1, got -2"),
    (simulated(options={"workers": 1.5}), "workers must be a whole number >= 1, got 1.5"),
    (simulated(options={"workers": True}), "workers must be a whole number >= 1, got True"),
    (simulated(replications=2**40), "GiB are free"),
    (simulated(horizon=2**40), "GiB are free"),
    (simulated(replications=2**30, horizon=1_000, options={"checkpoints": range(1, 1_001)}), "x 1000 checkpoints"),
    (traced(horizon=2**40), "GiB are free"),
    (simulated(options={"replications": range(2, 4)}), "replications must be a range"),
    (simulated(options={"replications": range(1, 1)}), "replications must be a range"),
    (simulated(options={"replications": range(0, 3, 2)}), "replications must be a range"),
    (simulated(options={"replications": 2}), "replications must be a range"),
    (traced(options={"replication": 3}), "replication must be a whole number from 0 to 2, got 3"),
    (traced(options={"replication": -1}), "replication must be a whole number from 0 to 2, got -1"),
    (traced(options={"replication": 0.0}), "replication must be a whole number from 0 to 2, got 0.0"),
    (traced(options={"replication": True}), "replication must be a whole number from 0 to 2, got True"),
    (made(control=["ucb"]), "control"),
    (made_from_json(FULL + ', "control": ["a"]}'), "control"),
    (made_from_json(FULL.replace('"a": "ucb1"', '"a": "ucb1", "a": "uniform"') + "}"), "'a'"),
    (made(control=np.array(["a", "b"])), "control"),
    (lambda: made()().replace(policies=3), "policies must map names to policies, got 3"),
    (lambda: made()().replace(horizons=3), "unknown field 'horizons'"),
    (made_from_json(3), "not valid JSON"),
    (lambda: sl.Experiment.from_toml(b"seed = 3"), "TOML must be text"),
    (simulated(options={"progress": 3}), "progress must be a function, got 3"),
    (simulated(options={"map": "x"}), "map must be a function, got 'x'"),
    (simulated(options={"checkpoints": 5}), "checkpoints must be a list of whole numbers"),
    (simulated(options={"checkpoints": [[1], [2, 3]]}), "checkpoints must be a list of whole numbers"),
]  # fmt: skip

# These raise a bare TypeError or ValueError, or (a name twice in JSON) nothing at all.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        *(
            pytest.param(*row, id=f"{place}-{ascii(row[1])[:60]}")
            for place, row in enumerate(BAD_INPUT)
        ),
    ],
)
def test_bad_input_is_refused_with_one_clear_line(call, fragment):
    """`Invalid` (a ValueError, exit code 2), one line, with the fragment that tells the person what was wrong."""
    with pytest.raises(sl.Invalid) as refused:
        call()

    assert fragment in str(refused.value)
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, ValueError)
    assert refused.value.exit_code == 2


def test_too_much_memory_is_its_own_kind_of_refusal():
    """The estimate is in the message, and nothing was allocated before it."""
    with pytest.raises(
        sl.TooLarge, match=r"about [\d,.]+ GiB.*1,099,511,627,776 replications x 2 policies"
    ):
        sl.simulate(experiment(replications=2**40), BERNOULLI)


def test_a_trace_of_a_huge_experiment_needs_little():
    """One replication is traced whatever the number of replications: memory for the others is not needed."""
    huge = experiment(replications=2**40)

    assert len(sl.trace(huge, BERNOULLI, 2**40 - 1)["ucb"].arms) == 10


def test_arms_are_those_of_the_environment_if_they_are_left_out():
    """The runs are those of an experiment with the arms, to the bit."""
    bare = sl.Experiment(policies={"a": "ucb1", "b": "uniform"}, horizon=20, replications=3)
    whole = bare.replace(arms=3)
    bandit = sl.Bernoulli((0.5, 0.4, 0.3))

    runs = sl.simulate(bare, bandit)
    assert runs.experiment == whole != bare
    assert np.array_equal(runs.rewards, sl.simulate(whole, bandit).rewards)
    assert sl.trace(bare, bandit)["a"].arms.tolist() == sl.trace(whole, bandit)["a"].arms.tolist()
    assert pickle.loads(pickle.dumps(bare)) == bare
    assert "arms" not in bare.to_dict()
    with pytest.raises(sl.Invalid, match=r"bernoulli_prior.* takes any number; give arms=2"):
        sl.simulate(bare, sl.BernoulliPrior())
    with pytest.raises(sl.Invalid, match=r"Experiment.arms is not known here"):
        _ = bare.arm_names
    with pytest.raises(sl.Invalid, match="an experiment needs arms"):
        sl.Experiment.from_json(bare.to_json())
    wrong = bare.replace(policies={"a": sl.Always(5), "b": "uniform"})
    with pytest.raises(sl.Invalid, match="policy 'a'"):
        sl.simulate(wrong, bandit)


def test_replications_may_be_left_out_where_they_are_found(sqlite_url):
    bandit = sl.Bernoulli((0.5, 0.4))
    bare = sl.Experiment(policies={"a": "ucb1", "b": "uniform"}, horizon=20)

    plan = sl.plan(bare, bandit, effect=1.0, pilot=20)
    assert plan.rows == sl.plan(experiment_like(bare), bandit, effect=1.0, pilot=20).rows
    assert sl.trace(bare, bandit, replication=7)["a"].arms.size == 20
    for call in (sl.simulate, sl.coverage, sl.designs):
        with pytest.raises(
            sl.Invalid, match=r"needs Experiment.replications.*replace\(replications"
        ):
            call(bare, bandit)
    with (
        sl.open(sqlite_url) as store,
        pytest.raises(sl.Invalid, match=r"start needs Experiment.replications"),
    ):
        store.start("x", bare.replace(arms=2))


def experiment_like(bare):
    return bare.replace(arms=2, replications=5)


def test_the_repr_shows_what_is_known():
    shown = repr(sl.Experiment(policies={"a": sl.UCB1()}, horizon=5))
    assert "mappingproxy" not in shown
    assert "arms" not in shown
    assert shown.startswith("Experiment(policies={'a': UCB1(alpha=2.0)}, horizon=5, ")
    known = sl.Experiment(policies={"a": sl.UCB1()}, arms=["x", "y"], horizon=5, replications=3)
    assert "arms=('x', 'y'), horizon=5, replications=3" in repr(known)
