"""Learners in Markov decision processes: `QLearning`, `PSRL` and `UCBVI`.

In a period a learner sees the state, the step in the episode, and the state, action and reward of the period before.
A period with step 0 begins an episode, so that the value after the action before is 0. If that action was not the
last step of the longest episode, its outcome ended the episode, and it counts as a transition to the end. After the
last step the next state is not shown: its reward counts, its transition does not.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, called, inlined
from sameluck.context import Context, States
from sameluck.policies import base
from sameluck.policies.base import Tally, selects
from sameluck.policies.epsilon_greedy import EXPLORES, WHICH_ARM
from sameluck.randomness.samplers import beta, log_gamma, normal, uniform
from sameluck.randomness.streams import Key, OnceKey, at, within
from sameluck.validation import require_number, require_one_of

_STEPS = 1 << 17  # step sizes in a table, because a power takes longer than all else in a period
_ONE_STATE = States(1, 1)  # where only the class of a rule matters


class QLearning(NamedTuple):
    """Q-learning with epsilon-greedy exploration (Watkins, 1989).

    After an action the value of its state and action moves towards the reward plus `discount` times the best value in
    the next state, by a share n^-omega. Here n counts the visits to the state and action, including the present
    visit. After the last step of an episode the target is the reward alone. With probability epsilon the action is
    drawn uniformly, else it has the highest value. Values do not depend on the step in the episode.

    Args:
        epsilon: Probability of a random action.
        omega: Exponent of the step size; Even-Dar and Mansour (2003) recommend values below 1.
        discount: Weight of the next state's value.
        initial: Value of every state and action before the first visit; a large value makes it explore.
    """

    epsilon: float = 0.1
    omega: float = 0.8
    discount: float = 0.99
    initial: float = 1.0

    def check(self, arms: int) -> None:
        require_number("QLearning.epsilon", self.epsilon, at_least=0, at_most=1)
        require_number("QLearning.omega", self.omega, at_least=0, at_most=1)
        require_number("QLearning.discount", self.discount, at_least=0, at_most=1)
        require_number("QLearning.initial", self.initial, at_least=-1e50, at_most=1e50)

    def check_context(self, context: Context | None) -> None:
        base.require_states("QLearning", context)

    def prepare(self, arms: int, horizon: int, context: Context | None) -> _QLearning:
        steps = [float(max(visit, 1)) ** -self.omega for visit in range(min(horizon, _STEPS) + 1)]
        states = (context or _ONE_STATE).number
        return _QLearning(
            self.epsilon, self.omega, self.discount, self.initial, np.array(steps), states
        )


class _QLearning(NamedTuple):
    epsilon: float
    omega: float
    discount: float
    initial: float
    steps: Floats  # sizes by number of visits
    states: int

    def memory(self, arms: int) -> int:
        return 2 * self.states * arms  # values, then visits


@selects(_QLearning)
def _q_learning(policy: _QLearning, tally: Tally, period: int, noise: Key) -> int | np.int64:
    arms = tally.pulls.size
    values, visits = tally.memory[: policy.states * arms], tally.memory[policy.states * arms :]
    if period == 1:
        for cell in range(values.size):
            values[cell] = policy.initial
    else:
        target = tally.last_reward
        if tally.step > 0:
            first = tally.level * arms
            target += policy.discount * values[first + _best(values, first, arms)]
        cell = tally.last_level * arms + tally.last_arm
        visit = visits[cell] + 1.0
        visits[cell] = visit
        in_table = visit < policy.steps.size
        step = policy.steps[np.int64(visit)] if in_table else visit**-policy.omega
        values[cell] += step * (target - values[cell])
    if uniform(at(noise, period, EXPLORES)) < policy.epsilon:
        return np.int64(uniform(at(noise, period, WHICH_ARM)) * arms)
    return _best(values, tally.level * arms, arms)


@inlined
def _best(values: Floats, first: int, arms: int) -> int:
    """Return the action with the highest of the values that begin at an index."""
    best, highest = 0, values[first]
    for arm in range(1, arms):
        if values[first + arm] > highest:
            branch_hint()
            best, highest = arm, values[first + arm]
    return best


class PSRL(NamedTuple):
    """Posterior sampling for reinforcement learning (Strens, 2000; Osband, Russo and Van Roy, 2013).

    At the start of each episode draw a process from the posterior, find its best actions by backward induction and
    play them through the episode. The next state, or the end of the episode, has a Dirichlet prior for each state and
    action. The mean reward has a normal posterior, as in `ThompsonGaussian`, or the Beta(1, 1) posterior of rewards
    from 0 to 1, where a reward r counts as r successes. An episode's plan takes time in proportion to
    episode x states^2 x actions.

    Args:
        rewards: "normal" or "beta".
        prior_mean: Mean of the prior of a mean reward; for normal rewards.
        prior_sd: Standard deviation of the prior of a mean reward; for normal rewards.
        noise_sd: Standard deviation of a reward; for normal rewards.
        prior_weight: Weight of the Dirichlet prior, spread evenly over all next states and the end.
    """

    rewards: str = "normal"
    prior_mean: float = 0.0
    prior_sd: float = 1.0
    noise_sd: float = 1.0
    prior_weight: float = 1.0

    def check(self, arms: int) -> None:
        require_one_of("PSRL.rewards", self.rewards, ("normal", "beta"))
        require_number("PSRL.prior_mean", self.prior_mean, at_least=-1e50, at_most=1e50)
        require_number("PSRL.prior_sd", self.prior_sd, above=0, at_most=1e50)
        require_number("PSRL.noise_sd", self.noise_sd, above=0, at_most=1e50)
        require_number("PSRL.prior_weight", self.prior_weight, at_least=1e-6, at_most=1e6)

    def check_context(self, context: Context | None) -> None:
        base.require_states("PSRL", context)

    def prepare(self, arms: int, horizon: int, context: Context | None) -> _PSRL:
        states = context if isinstance(context, States) else _ONE_STATE
        return _PSRL(
            self.rewards == "beta",
            self.prior_mean,
            self.prior_sd**-2.0,
            self.noise_sd**-2.0,
            self.prior_weight / (states.number + 1),
            states.number,
            states.episode,
        )


class _PSRL(NamedTuple):
    has_beta: bool
    prior_mean: float
    prior_precision: float
    precision: float  # of a reward
    weight: float  # of a next state in the Dirichlet prior
    states: int
    episode: int

    def memory(self, arms: int) -> int:
        # The model, a drawn row of probabilities and mean reward per cell, the values of two steps, and the plan.
        cells, width = self.states * arms, self.states + 1
        return cells * (width + 2) + cells * (width + 1) + 2 * width + self.episode * self.states


class _Model(NamedTuple):
    """Views of a memory: visits, sums of rewards and counts of next states, whose last is the end."""

    visits: Floats  # by cell
    totals: Floats  # by cell
    counts: Floats  # (cell, next state)
    remainder: Floats


@inlined
def _model(memory: Floats, states: int, arms: int) -> _Model:
    cells = states * arms
    end = cells * (states + 3)
    return _Model(memory[:cells], memory[cells : 2 * cells], memory[2 * cells : end], memory[end:])


@inlined
def _learn(model: _Model, tally: Tally, states: int, episode: int) -> None:
    """Count the last reward, and the last transition if the next state is known."""
    cell = tally.last_level * tally.pulls.size + tally.last_arm
    model.visits[cell] += 1.0
    model.totals[cell] += tally.last_reward
    following = tally.level if tally.step > 0 else states
    if tally.step > 0 or tally.last_context[1] + 1.0 < episode:
        model.counts[cell * (states + 1) + following] += 1.0


@selects(_PSRL)
def _posterior_sampling(policy: _PSRL, tally: Tally, period: int, noise: Key) -> int | np.int64:
    arms = tally.pulls.size
    model = _model(tally.memory, policy.states, arms)
    if period > 1:
        _learn(model, tally, policy.states, policy.episode)
    drawn = model.remainder[: policy.states * arms * (policy.states + 2)]
    left = model.remainder[drawn.size :]
    plan = left[2 * (policy.states + 1) :]
    if tally.step == 0:
        for cell in range(policy.states * arms):
            width = policy.states + 2
            row = drawn[cell * width : (cell + 1) * width]
            _draw_row(policy, model, cell, row, period, within(noise, cell))
        _plan(policy, drawn, left[: 2 * (policy.states + 1)], plan, arms)
    return np.int64(plan[tally.step * policy.states + tally.level])


@called
def _draw_row(
    policy: _PSRL, model: _Model, cell: int, row: Floats, period: int, noise: Key | OnceKey
) -> None:
    """Draw the probabilities of the next states and then the mean reward of a cell, from its posterior."""
    width = policy.states + 1
    highest = -np.inf
    for following in range(width):
        shape = policy.weight + model.counts[cell * width + following]
        row[following] = log_gamma(at(noise, period, following), shape)
        highest = max(highest, row[following])
    total = 0.0
    for following in range(width):
        row[following] = math.exp(row[following] - highest)
        total += row[following]
    for following in range(width):
        row[following] /= total
    visits, paid = model.visits[cell], model.totals[cell]
    bits = at(noise, period, width)
    if policy.has_beta:
        paid = min(max(paid, 0.0), visits)
        row[width] = beta(bits, 1.0 + paid, 1.0 + visits - paid)
    else:
        precision = policy.prior_precision + visits * policy.precision
        mean = (policy.prior_precision * policy.prior_mean + policy.precision * paid) / precision
        row[width] = mean + normal(bits) / math.sqrt(precision)


@called
def _plan(policy: _PSRL, drawn: Floats, values: Floats, plan: Floats, arms: int) -> None:
    """Write the best action of each step and state in the drawn process."""
    states, width = policy.states, policy.states + 2
    later, now = values[: states + 1], values[states + 1 :]  # the end has the value 0
    for state in range(states + 1):
        later[state], now[state] = 0.0, 0.0
    for step in range(policy.episode - 1, -1, -1):
        for state in range(states):
            best, highest = 0, -np.inf
            for arm in range(arms):
                first = (state * arms + arm) * width
                value = drawn[first + states + 1]
                for following in range(states):
                    value += drawn[first + following] * later[following]
                if value > highest:
                    best, highest = arm, value
            now[state] = highest
            plan[step * states + state] = best
        later, now = now, later


class UCBVI(NamedTuple):
    """Upper confidence bound value iteration (Azar, Osband and Munos, 2017), with the Chernoff-Hoeffding bonus.

    At the start of each episode find the values of all steps by backward induction in the observed process. To the
    value of a state and action add `bonus` x max_reward x H x L / sqrt(n). H is the episode's length,
    L = log(5 x states x actions x horizon / delta) and n the visits. A value never exceeds H x max_reward or its
    value in the episode before. The article's rewards are known; here they are the means of observed rewards. An
    episode's plan takes time in proportion to H x states^2 x actions.

    Args:
        delta: Probability that a bound may fail.
        bonus: Factor of the bonus, 7 in the article; smaller factors explore less.
        max_reward: Largest reward.
    """

    delta: float = 0.05
    bonus: float = 7.0
    max_reward: float = 1.0

    def check(self, arms: int) -> None:
        require_number("UCBVI.delta", self.delta, above=0, at_most=1)
        require_number("UCBVI.bonus", self.bonus, at_least=0, at_most=1e50)
        require_number("UCBVI.max_reward", self.max_reward, above=0, at_most=1e50)

    def check_context(self, context: Context | None) -> None:
        base.require_states("UCBVI", context)

    def prepare(self, arms: int, horizon: int, context: Context | None) -> _UCBVI:
        states = context if isinstance(context, States) else _ONE_STATE
        logarithm = math.log(5.0 * states.number * arms * horizon / self.delta)
        highest = states.episode * self.max_reward
        return _UCBVI(self.bonus * highest * logarithm, highest, states.number, states.episode)


class _UCBVI(NamedTuple):
    bonus: float  # of one visit
    highest: float  # value
    states: int
    episode: int

    def memory(self, arms: int) -> int:
        # The model, the values of two steps, and the value of each step, state and action.
        cells, width = self.states * arms, self.states + 1
        return cells * (width + 2) + 2 * width + self.episode * cells


@selects(_UCBVI)
def _optimistic(policy: _UCBVI, tally: Tally, period: int, noise: Key) -> int:
    arms = tally.pulls.size
    model = _model(tally.memory, policy.states, arms)
    values = model.remainder[2 * (policy.states + 1) :]
    if period == 1:
        for index in range(values.size):
            values[index] = policy.highest
    else:
        _learn(model, tally, policy.states, policy.episode)
    if tally.step == 0:
        _bound(policy, model, arms)
    return _best(values, (tally.step * policy.states + tally.level) * arms, arms)


@called
def _bound(policy: _UCBVI, model: _Model, arms: int) -> None:
    """Lower the values of all steps, states and actions to their bounds."""
    states, width = policy.states, policy.states + 1
    values = model.remainder[2 * width :]
    later, now = model.remainder[:width], model.remainder[width : 2 * width]
    for state in range(width):
        later[state], now[state] = 0.0, 0.0
    for step in range(policy.episode - 1, -1, -1):
        for state in range(states):
            highest = -np.inf
            for arm in range(arms):
                cell = state * arms + arm
                index = step * states * arms + cell
                bound = _upper_bound(policy, model, later, cell, step)
                values[index] = min(values[index], bound)
                highest = max(highest, values[index])
            now[state] = highest
        later, now = now, later


@inlined
def _upper_bound(policy: _UCBVI, model: _Model, later: Floats, cell: int, step: int) -> float:
    """Return the upper confidence bound of a cell's value, given the values of the next step."""
    width = policy.states + 1
    transitions, expected = 0.0, 0.0
    for following in range(width):
        count = model.counts[cell * width + following]
        transitions += count
        expected += count * later[following]
    # Before the last step only visits whose next state is known bound the value.
    is_last = step == policy.episode - 1
    visits = model.visits[cell] if is_last else transitions
    if visits == 0.0:
        return policy.highest
    bound = model.totals[cell] / model.visits[cell] + policy.bonus / math.sqrt(visits)
    return bound if is_last else bound + expected / transitions
