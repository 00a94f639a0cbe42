"""Markov decision processes and their learners against literal versions that keep whole histories."""

import math
from collections import defaultdict

import numpy as np
import pytest

import sameluck as sl
from sameluck import cli, text_forms
from sameluck.environments.contextual import states
from sameluck.environments.contextual.base import gap_in_context
from sameluck.environments.registry import as_environment
from sameluck.randomness.samplers import beta, log_gamma, normal, uniform
from sameluck.randomness.streams import (
    ALL_POLICIES,
    CONTEXT,
    DECISION,
    REWARD,
    at,
    owner_of,
    stream,
    subkey,
    within,
    word,
)

# Rewards depend on the next state, and one outcome ends the episode.
OUTCOMES = [
    [[(0.7, 0, 0.2, 0), (0.3, 1, 0.0, 0)], [(0.5, 1, 0.0, 0), (0.4, 2, 0.5, 0), (0.1, 0, 0.0, 1)]],
    [[(1.0, 0, 0.1, 0)], [(0.6, 2, 0.0, 0), (0.4, 1, 1.0, False)]],
    [[(0.5, 2, 0.3, 0), (0.5, 0, 0.9, True)], [(0.8, 1, 0.0, 0), (0.2, 2, 1.0, 0)]],
]
START, EPISODE = [0.6, 0.0, 0.4], 4
PROCESS = sl.TabularMDP(OUTCOMES, START, EPISODE)
POLICIES = {
    "q": sl.QLearning(epsilon=0.3, omega=0.6, discount=0.9, initial=0.5),
    "psrl": sl.PSRL(prior_mean=0.2, prior_sd=0.5, noise_sd=0.4, prior_weight=2.0),
    "psrl beta": sl.PSRL("beta"),
    "ucbvi": sl.UCBVI(bonus=0.01),
}
DESIGNS = [sl.Naive(), sl.Replay(), sl.Replay(share_noise=True), sl.TimeCoupled()]
END = "end"


def drawn(chances, value):
    """The index that a uniform number selects."""
    return int(np.searchsorted(np.cumsum(chances), value, "right"))


class LiteralQ:
    def __init__(self, policy, noise):
        self.policy, self.noise, self.visits = policy, noise, defaultdict(int)
        self.values = defaultdict(lambda: policy.initial)

    def best(self, state):
        return max(range(2), key=lambda arm: self.values[state, arm])

    def choose(self, state, step, period):
        if uniform(at(self.noise, period, 0)) < self.policy.epsilon:
            return int(uniform(at(self.noise, period, 1)) * 2)
        return self.best(state)

    def learn(self, state, step, arm, reward, following):
        self.visits[state, arm] += 1
        later = 0.0
        if following not in (END, None):
            later = self.policy.discount * self.values[following, self.best(following)]
        share = self.visits[state, arm] ** -self.policy.omega
        self.values[state, arm] += share * (reward + later - self.values[state, arm])


class LiteralModel:
    """Whole histories of each state and action, and a plan at the start of each episode."""

    def __init__(self, policy, noise):
        self.policy, self.noise = policy, noise
        self.rewards, self.nexts, self.plan = defaultdict(list), defaultdict(list), None

    def choose(self, state, step, period):
        if step == 0:
            self.make_plan(period)
        return self.plan[step][state]

    def learn(self, state, step, arm, reward, following):
        self.rewards[state, arm].append(reward)
        if following is not None:
            self.nexts[state, arm].append(following)


class LiteralPSRL(LiteralModel):
    def make_plan(self, period):
        policy, chances, means = self.policy, {}, {}
        for state in range(3):
            for arm in range(2):
                key = within(self.noise, state * 2 + arm)
                nexts, rewards = self.nexts[state, arm], self.rewards[state, arm]
                logs = [
                    log_gamma(
                        at(key, period, slot), policy.prior_weight / 4 + nexts.count(following)
                    )
                    for slot, following in enumerate([0, 1, 2, END])
                ]
                sizes = [math.exp(value - max(logs)) for value in logs]
                chances[state, arm] = [size / sum(sizes) for size in sizes]
                bits, paid = at(key, period, 4), sum(rewards)
                if policy.rewards == "beta":
                    means[state, arm] = beta(bits, 1.0 + paid, 1.0 + len(rewards) - paid)
                else:
                    gain, prior = policy.noise_sd**-2.0, policy.prior_sd**-2.0
                    precision = prior + len(rewards) * gain
                    centre = (prior * policy.prior_mean + gain * paid) / precision
                    means[state, arm] = centre + normal(bits) / math.sqrt(precision)
        values, self.plan = [0.0] * 3, []
        for _ in range(EPISODE):
            scores = [
                [
                    means[state, arm]
                    + sum(p * v for p, v in zip(chances[state, arm], values, strict=False))
                    for arm in range(2)
                ]
                for state in range(3)
            ]
            self.plan.insert(0, [int(np.argmax(row)) for row in scores])
            values = [max(row) for row in scores]


class LiteralUCBVI(LiteralModel):
    HORIZON = 60

    def make_plan(self, period):
        highest = EPISODE * self.policy.max_reward
        if self.plan is None:
            self.before = np.full((EPISODE, 3, 2), highest)
        logarithm = math.log(5 * 3 * 2 * self.HORIZON / self.policy.delta)
        values = {0: 0.0, 1: 0.0, 2: 0.0, END: 0.0}
        self.plan = [None] * EPISODE
        for step in reversed(range(EPISODE)):
            for state in range(3):
                for arm in range(2):
                    rewards, nexts = self.rewards[state, arm], self.nexts[state, arm]
                    count = len(rewards) if step == EPISODE - 1 else len(nexts)
                    if count:
                        bonus = self.policy.bonus * highest * logarithm / math.sqrt(count)
                        later = np.mean([values[following] for following in nexts or [END]])
                        bound = np.mean(rewards) + bonus + (step < EPISODE - 1) * later
                        before = self.before[step, state, arm]
                        self.before[step, state, arm] = min(before, bound)
            self.plan[step] = self.before[step].argmax(axis=1).tolist()
            values = {**dict(enumerate(self.before[step].max(axis=1))), END: 0.0}


LITERAL = {sl.QLearning: LiteralQ, sl.PSRL: LiteralPSRL, sl.UCBVI: LiteralUCBVI}


def literal_gaps():
    """V*(state) - Q*(state, arm) by steps to go."""
    values, tables = [0.0] * 3, [None]
    for _ in range(EPISODE):
        scores = [
            [sum(p * (r + (not end) * values[s]) for p, s, r, end in cell) for cell in row]
            for row in OUTCOMES
        ]
        values = [max(row) for row in scores]
        tables.append([[max(row) - score for score in row] for row in scores])
    return tables


def walk(experiment, replication):
    """Return the path of each policy as (state, step, arm, reward), and the number of real users."""
    design, entries, paths = experiment.design, set(), {}
    for name, policy in experiment.policies.items():
        owner = ALL_POLICIES if design.shares_rewards else owner_of(name)
        noise_owner = ALL_POLICIES if design.shares_noise else owner_of(name)
        users = stream(experiment.seed, CONTEXT, replication, owner)
        stacks = stream(experiment.seed, REWARD, replication, owner)
        noise = stream(experiment.seed, DECISION, replication, noise_owner)
        learner = LITERAL[type(policy)](policy, noise)
        visits, path, episode, step = defaultdict(int), [], 0, 0
        for period in range(1, experiment.horizon + 1):
            if step == 0:
                episode += 1
                state = drawn(START, uniform(at(users, episode, 0)))
            arm = learner.choose(state, step, period)
            position = period - 1 if design.indexed_by_period else visits[state, arm]
            visits[state, arm] += 1
            value = uniform(word(subkey(stacks, state * 2 + arm), position))
            cell = OUTCOMES[state][arm]
            _, following, reward, end = cell[drawn([outcome[0] for outcome in cell], value)]
            path.append((state, step, arm, reward))
            entries.add((owner, state, arm, position))
            is_last = step == EPISODE - 1
            seen = None if is_last else END if end else following
            learner.learn(state, step, arm, reward, seen)
            step = 0 if end or is_last else step + 1
            state = following
        paths[name] = path
    return paths, len(entries)


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_states_and_learners_are_what_a_literal_walk_gives(design):
    experiment = sl.Experiment(policies=POLICIES, horizon=60, replications=2, design=design, seed=5)
    gaps = literal_gaps()
    for replication in range(experiment.replications):
        paths, users = walk(experiment, replication)
        trace = sl.trace(experiment, PROCESS, replication, guard=replication == 0)
        for name, path in paths.items():
            visited, steps, arms, rewards = zip(*path, strict=True)
            assert trace[name].contexts[:, 0].tolist() == list(visited), name
            assert trace[name].contexts[:, 1].tolist() == list(steps)
            assert trace[name].arms.tolist() == list(arms)
            assert trace[name].rewards.tolist() == list(rewards)
        assert trace.interactions == users

    path = paths["q"]
    runs = sl.simulate(experiment.replace(policies={"q": POLICIES["q"]}), PROCESS)
    lost = [gaps[EPISODE - step][state][arm] for state, step, arm, _ in path]
    assert runs.regret[1, 0, 0] == pytest.approx(sum(lost))
    assert runs.best_pulls[1, 0, 0] == sum(gap < 1e-12 for gap in lost)
    assert runs.rewards[1, 0, 0] == pytest.approx(sum(reward for *_, reward in path))
    cells = [state * 2 + arm for state, _, arm, _ in path]
    assert runs.visits[1, 0, 0].tolist() == np.bincount(cells, minlength=6).tolist()


def test_gaps_add_up_to_what_a_policy_loses_in_an_episode():
    """The performance difference lemma, for the policy that always plays arm 1."""
    tables, table = literal_gaps(), PROCESS.optimal_values()
    earned, lost, here = 0.0, 0.0, dict(enumerate(START))
    for step in range(EPISODE):
        there = defaultdict(float)
        for state, chance in here.items():
            lost += chance * tables[EPISODE - step][state][1]
            for probability, following, reward, end in OUTCOMES[state][1]:
                earned += chance * probability * reward
                there[following] += chance * probability * (not end)
        here = there
    assert table[0] @ START - earned == pytest.approx(lost, rel=1e-12)


def test_a_table_of_gaps_that_is_too_large_is_cut(monkeypatch):
    whole = PROCESS.compiled_parameters(0, range(1), 2)
    monkeypatch.setattr(states, "_MAX_GAPS", 12)
    cut = PROCESS._replace(episode=5).compiled_parameters(0, range(1), 2)

    assert whole.gaps.shape == (4, 6)
    assert cut.gaps.tolist() == whole.gaps[:2].tolist()
    first_step = np.array([2.0, 0.0, 1.0])
    assert gap_in_context(cut, 0, first_step, 1, 2) == whole.gaps[1, 5]


@pytest.mark.parametrize(
    "process",
    [
        PROCESS,
        PROCESS._replace(states=("a", "b", "c"), actions=("go", "stay")),
        sl.TabularMDP.riverswim(4, episode=10),
        sl.TabularMDP.random(5, 3, seed=2),
    ],
    ids=["listed", "named", "riverswim", "random"],
)
def test_a_process_survives_its_text_form(process):
    text = text_forms.write(as_environment(process))

    assert as_environment(text) == as_environment(process)
    assert type(as_environment(text)) is type(process)
    assert as_environment(process.tabular()).context.number == process.context.number


def test_riverswim_has_the_published_probabilities():
    outcomes = sl.TabularMDP.riverswim().tabular().outcomes

    assert outcomes[0] == (((1.0, 0, 0.005, 0),), ((0.4, 0, 0, 0), (0.6, 1, 0, 0)))
    assert outcomes[3][1] == ((0.05, 2, 0, 0), (0.6, 3, 0, 0), (0.35, 4, 0, 0))
    assert outcomes[5] == (((1.0, 4, 0, 0),), ((0.4, 4, 1, 0), (0.6, 5, 1, 0)))
    assert as_environment("riverswim") == sl.RiverSwim(6, 20)


def test_a_random_process_depends_on_its_seed_alone():
    first, again, other = (sl.TabularMDP.random(6, 2, seed=seed).tabular() for seed in (1, 1, 2))

    assert first == again != other
    cells = [cell for row in first.outcomes for cell in row]
    assert all(len({outcome[1] for outcome in cell}) == 3 for cell in cells)


def test_arrays_become_outcomes():
    transitions = np.zeros((2, 2, 2))
    transitions[:, 0, 0] = transitions[:, 1, 1] = 1.0
    by_cell = sl.TabularMDP.from_arrays(transitions, [[0, 1], [2, 3]], ends=[0, 1], episode=3)
    by_next = sl.TabularMDP.from_arrays(transitions, np.ones((2, 2, 2)))

    assert by_cell.outcomes == (
        (((1, 0, 0, 0),), ((1, 1, 1, 1),)),
        (((1, 0, 2, 0),), ((1, 1, 3, 1),)),
    )
    assert by_cell.optimal_values()[:, 0].tolist() == [1, 1, 1]
    assert by_next.optimal_values()[0].tolist() == [20, 20]


@pytest.mark.slow
def test_runs_with_states_survive_a_file(tmp_path):
    experiment = sl.Experiment(policies={"q": sl.QLearning()}, horizon=30, replications=3)
    runs = sl.simulate(experiment, "riverswim(states=4, episode=10)", checkpoints=[10, 30])
    runs.save(tmp_path / "runs.npz")

    read = sl.Runs.load(tmp_path / "runs.npz")

    assert read.experiment.context == sl.States(4, 10)
    assert read.environment == sl.RiverSwim(4, 10)
    assert read.experiment.arm_names == ("left", "right")
    assert read.visits.tobytes() == runs.visits.tobytes()
    assert runs.visits.sum(axis=-1).tolist() == [[[10, 30]]] * 3
    assert read.level_rewards is None or read.level_rewards.size == 0


@pytest.mark.slow
def test_the_command_line_takes_a_process(capsys):
    policies = ["q=q_learning", "bold=q_learning(initial=5)"]
    options = ["--env", "riverswim(states=4, episode=10)", "--horizon", "50"]

    assert cli.run(["compare", *policies, *options, "--replications", "10"]) == 0
    assert "river_swim(states=4, episode=10)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sl.TabularMDP([]), "list of 1 to 100,000 states"),
        (lambda: sl.TabularMDP([[[(0.5, 0, 0, 0)]]]), r"outcomes\[0\]\[0\] .* sum is 1, got 0.5"),
        (lambda: sl.TabularMDP([[[(1, 1, 0, 0)]]]), "next state must be <= 0"),
        (lambda: sl.TabularMDP([[[(1, 0.5, 0, 0)]], [[(1, 0, 0, 0)]]]), "a whole number, got 0.5"),
        (lambda: sl.TabularMDP([[[(1, 0, math.nan, 0)]]]), "reward must be a finite number"),
        (lambda: sl.TabularMDP([[[(1, 0, 0, 2)]]]), "end must be 1 or 0"),
        (lambda: sl.TabularMDP([[[(1, 0, 0)]]]), "next state, reward, end"),
        (lambda: sl.TabularMDP([[[(1, 0, 0, 0)]], []]), r"outcomes\[1\] must be a list with one"),
        (lambda: sl.TabularMDP(OUTCOMES, [0.5, 0.4, 0]), "start must have probabilities"),
        (lambda: sl.TabularMDP(OUTCOMES, episode=0), "TabularMDP.episode"),
        (lambda: sl.TabularMDP(OUTCOMES, states=["a"]), "states has 1 names"),
        (lambda: sl.TabularMDP.from_arrays(np.ones((2, 2)), [1, 2]), r"shape \(states, actions"),
        (lambda: sl.TabularMDP.from_arrays(np.ones((2, 2, 2)) / 2, [1, 2, 3]), "rewards of the"),
        (lambda: sl.RiverSwim(1), "RiverSwim.states"),
        (lambda: sl.RandomMDP(2, 2), "RandomMDP.branching"),
        (lambda: sl.QLearning(omega=2), "QLearning.omega"),
        (lambda: sl.PSRL("gamma"), "PSRL.rewards"),
        (lambda: sl.UCBVI(delta=0), "UCBVI.delta"),
    ],
)
def test_bad_processes_and_learners_are_refused(make, message):
    with pytest.raises(sl.Invalid, match=message):
        make()


@pytest.mark.parametrize("policy", [sl.QLearning(), sl.PSRL(), sl.UCBVI()], ids=str)
def test_learners_need_states(policy):
    experiment = sl.Experiment(policies={"it": policy}, horizon=10, replications=1)

    with pytest.raises(sl.Invalid, match="needs states, and the users have no context"):
        sl.simulate(experiment, "bernoulli(0.5, 0.4)")


def test_gymnasium_tables_have_their_known_values():
    pytest.importorskip("gymnasium")
    cliff = sl.adapters.gymnasium("CliffWalking-v1")
    lake = sl.adapters.gymnasium("FrozenLake-v1")

    assert cliff.optimal_values()[0] @ cliff.start == -13  # the shortest way along the cliff
    assert lake.context == sl.States(16, 100)
    assert lake.optimal_values()[0] @ lake.start == pytest.approx(0.7442, abs=1e-4)
    assert any(outcome[1:] == (15, 1, 1) for outcome in lake.outcomes[14][2])
    sure = sl.adapters.gymnasium("FrozenLake-v1", is_slippery=False, episode=6)
    assert sure.optimal_values()[0][0] == 1
    assert sure._replace(episode=5).optimal_values()[0][0] == 0


@pytest.mark.parametrize("name", ["CartPole-v1", "Nowhere-v1"])
def test_gymnasium_environments_without_a_table_are_refused(name):
    pytest.importorskip("gymnasium")
    with pytest.raises(sl.Invalid, match=name):
        sl.adapters.gymnasium(name)
