"""Markov decision processes with finitely many states and actions: `TabularMDP`, `RiverSwim`, `RandomMDP`.

An arm is an action. A reward and the next state are one joint outcome, drawn from the same random bits. The k-th
outcome of a state and an action is one entry of a stack. An episode ends with an outcome that ends it, or after its
largest number of steps; the next period is the first step of the next episode, so that visits to an absorbing end
cost no user.

Regret is the sum of V*(state) - Q*(state, action) over all steps, which is the loss of the policy's episodes by the
performance difference lemma. The optimal values depend on the steps to go and come from backward induction. A table
larger than `_MAX_GAPS` is cut: steps further from the end have the gaps of the furthest step in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sameluck.arrays import Bools, Floats, Ints
from sameluck.compilation.decorators import inlined
from sameluck.compilation.windows import whole_numbers
from sameluck.context import MAX_EPISODE, MAX_LEVELS, States
from sameluck.environments.base import draws
from sameluck.environments.checks import MAX_REWARD, SUM_TOLERANCE, check_row
from sameluck.environments.contextual.base import (
    ContextualEnvironment,
    contexts,
    gaps,
)
from sameluck.errors import Invalid, shown
from sameluck.randomness.samplers import discrete, exponential, uniform
from sameluck.randomness.streams import (
    ALL_POLICIES,
    INSTANCE,
    SLOTS,
    Bits,
    Key,
    at,
    stream,
    subkey,
)
from sameluck.text_forms import normal_form
from sameluck.validation import is_listed, require_number, require_whole

_MAX_GAPS = 1 << 22  # entries (step, state, action) of the table of gaps
_TIE = 1e-12  # relative difference of values that rounding alone explains
S = TypeVar("S", bound=np.generic)

_FEW = 8  # outcomes of a cell that are compared one by one
_VALUES = 1 << 53  # of `uniform`
_1, _11 = np.uint64(1), np.uint64(11)
_NUMBERS = 4  # of an outcome: probability, next state, reward, end


class MarkovDecisionProcess(ContextualEnvironment):
    """Base class of environments that can write all their outcomes as a `TabularMDP`."""

    __slots__ = ()
    hidden = 1  # the drawn outcome, which holds the next state too

    def __init__(self, *_values: object, **_named: object) -> None:
        process = normal_form(self)
        process.check(process.arms or 0)

    def tabular(self) -> TabularMDP:
        """Return the same process with its outcomes in lists."""
        raise NotImplementedError

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledMDP:
        return _compiled(type(self).__name__, normal_form(self))

    def optimal_values(self) -> Floats:
        """Return the largest expected reward of the remaining episode (step, state), by backward induction."""
        process = self.tabular()
        _, values = _backward_induction(_arrays(process), process.episode)
        return values[::-1]


class _TabularMDPFields(NamedTuple):
    outcomes: Sequence[Sequence[Sequence[Sequence[float]]]]
    start: Sequence[float] | None = None
    episode: int = 20
    states: Sequence[str] | None = None
    actions: Sequence[str] | None = None


class TabularMDP(_TabularMDPFields, MarkovDecisionProcess):
    """Markov decision process whose joint outcomes of reward and next state are listed.

    Args:
        outcomes: For each state and each action a list of outcomes. An outcome is (probability, next state, reward,
            end), where end is 1 if the outcome ends the episode, else 0.
        start: Probabilities of an episode's first state; state 0 if not given.
        episode: Largest number of steps in an episode.
        states: Names of the states; their indices if not given.
        actions: Names of the actions; their indices if not given.
    """

    __slots__ = ()
    sample = "tabular_mdp([[[1, 0, 0.1, 0]], [[0.8, 1, 0, 0], [0.2, 0, 0, 0]]], [[[1, 0, 1, 0]], [[1, 1, 0, 1]]])"

    def __new__(
        cls,
        outcomes: Sequence[Sequence[Sequence[Sequence[float]]]],
        start: Sequence[float] | None = None,
        episode: int = 20,
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
    ) -> TabularMDP:
        """Return the process with end flags as numbers, because equal processes have equal text forms."""
        numbers = cast(Sequence[Sequence[Sequence[Sequence[float]]]], _as_numbers(outcomes))
        return super().__new__(cls, numbers, start, episode, states, actions)

    @property
    def arms(self) -> int | None:
        first = self.outcomes[0] if is_listed(self.outcomes) and self.outcomes else None
        return len(first) if is_listed(first) else 0

    @property
    def arm_names(self) -> Sequence[str]:
        return self.actions or ()

    @property
    def context(self) -> States:
        return States(self.states or len(self.outcomes), self.episode)

    @property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        return bool(np.isin(_arrays(self).rewards, (0, 1)).all())

    def tabular(self) -> TabularMDP:
        return self

    def check(self, arms: int) -> None:
        _check_outcomes(self.outcomes, arms)
        require_whole("TabularMDP.episode", self.episode, 1, MAX_EPISODE)
        count = len(self.outcomes)
        for name, entries, size in (
            ("states", self.states, count),
            ("actions", self.actions, arms),
        ):
            if entries is not None:
                States(entries, self.episode).check()
                if len(entries) != size:
                    raise Invalid(
                        f"TabularMDP.{name} has {len(entries)} names, but there are {size} {name}; give one name each"
                    )
        if self.start is not None:
            check_row("TabularMDP.start", self.start, count, at_least=0, at_most=1)
            _check_sum("TabularMDP.start", sum(self.start))

    @classmethod
    def riverswim(cls, states: int = 6, *, episode: int = 20) -> RiverSwim:
        """Return RiverSwim (Strehl and Littman, 2008)."""
        return RiverSwim(states, episode)

    @classmethod
    def random(
        cls, states: int, actions: int, *, branching: int = 3, episode: int = 20, seed: int = 0
    ) -> RandomMDP:
        """Return a process with random probabilities and mean rewards."""
        return RandomMDP(states, actions, branching, episode, seed)

    @classmethod
    def from_arrays(
        cls,
        transitions: ArrayLike,
        rewards: ArrayLike,
        *,
        ends: ArrayLike | None = None,
        start: Sequence[float] | None = None,
        episode: int = 20,
    ) -> TabularMDP:
        """Return a process from arrays.

        Args:
            transitions: Probabilities of the next states (state, action, next state).
            rewards: Rewards (state, action), or (state, action, next state) if they depend on the next state.
            ends: Whether the episode ends in a next state (next state,), or by (state, action, next state); never
                if not given.
            start: As in `TabularMDP`.
            episode: As in `TabularMDP`.
        """
        probabilities = np.asarray(transitions, float)
        shape = probabilities.shape
        if len(shape) != 3 or shape[0] != shape[2]:
            raise Invalid(f"transitions must have the shape (states, actions, states), got {shape}")
        paid, flags = np.asarray(rewards, float), np.zeros(shape[2])
        if paid.shape == shape[:2]:
            paid = paid[:, :, None]
        if ends is not None:
            flags = np.asarray(ends, float)
        for name, array in (("rewards", paid), ("ends", flags)):
            if array.shape not in (shape, shape[2:], (*shape[:2], 1)):
                raise Invalid(
                    f"{name} of the shape {array.shape} do not fit transitions of the shape {shape}; see "
                    "TabularMDP.from_arrays"
                )
        nexts = np.broadcast_to(np.arange(shape[2], dtype=float), shape)
        paid, flags = np.broadcast_to(paid, shape), np.broadcast_to(flags, shape)
        entries = np.stack([probabilities, nexts, paid, flags], axis=-1)
        # Outcomes of probability 0 are left out, but bad numbers stay for the check.
        outcomes = [
            [row[row[:, 0] != 0].tolist() for row in action_rows] for action_rows in entries
        ]
        return cls(outcomes, start, episode)


class _RiverSwimFields(NamedTuple):
    states: int = 6
    episode: int = 20


class RiverSwim(_RiverSwimFields, MarkovDecisionProcess):
    """Swim upstream for the reward 1 (Strehl and Littman, 2008), while a small reward downstream tempts.

    Action 0 swims left and succeeds; in the leftmost state it pays 0.005. Action 1 swims right, against the current:
    it moves right with probability 0.35, stays with 0.6 and moves left with 0.05. In the leftmost state it moves
    right with 0.6 and stays with 0.4. In the rightmost state it pays 1, and stays with 0.6 or moves left with 0.4. An
    episode begins in the leftmost state.

    Args:
        states: How many states.
        episode: Steps in an episode.
    """

    __slots__ = ()
    sample = "river_swim(states=6, episode=20)"
    arm_names = ("left", "right")

    @property
    def arms(self) -> int | None:
        return 2

    @property
    def context(self) -> States:
        return States(self.states, self.episode)

    def check(self, arms: int) -> None:
        require_whole("RiverSwim.states", self.states, 2, MAX_LEVELS)
        require_whole("RiverSwim.episode", self.episode, 1, MAX_EPISODE)
        _check_arms("RiverSwim", 2, arms)

    def tabular(self) -> TabularMDP:
        last = self.states - 1
        outcomes = []
        for state in range(self.states):
            left, right = max(state - 1, 0), min(state + 1, last)
            moves = {left: 0.05, state: 0.6, right: 0.35}
            if state in (0, last):
                moves = {0: 0.4, right: 0.6} if state == 0 else {left: 0.4, last: 0.6}
            swim_left = [(1.0, left, 0.005 * (state == 0), 0)]
            reward = float(state == last)
            swim_right = [(chance, following, reward, 0) for following, chance in moves.items()]
            outcomes.append([swim_left, swim_right])
        return normal_form(TabularMDP(outcomes, None, self.episode))


class _RandomMDPFields(NamedTuple):
    states: int
    actions: int
    branching: int = 3
    episode: int = 20
    seed: int = 0


class RandomMDP(_RandomMDPFields, MarkovDecisionProcess):
    """Random process, the same in all replications: from each state an action leads to a few next states.

    The next states of a state and an action are drawn without replacement, and their probabilities uniformly from the
    simplex. A reward is 1 with a probability drawn uniformly from [0, 1), else 0, independent of the next state. An
    episode begins in state 0.

    Args:
        states: How many states.
        actions: How many actions.
        branching: How many next states a state and an action have.
        episode: Steps in an episode.
        seed: Another seed draws another process.
    """

    __slots__ = ()
    sample = "random_mdp(states=5, actions=3, branching=3, episode=20)"
    binary = True

    @property
    def arms(self) -> int | None:
        return self.actions

    @property
    def context(self) -> States:
        return States(self.states, self.episode)

    def check(self, arms: int) -> None:
        require_whole("RandomMDP.states", self.states, 1, MAX_LEVELS)
        require_whole("RandomMDP.actions", self.actions, 1, SLOTS)
        require_whole("RandomMDP.branching", self.branching, 1, self.states)
        require_whole("RandomMDP.episode", self.episode, 1, MAX_EPISODE)
        require_whole("RandomMDP.seed", self.seed, 0, 2**64 - 1)
        _check_arms("RandomMDP", self.actions, arms)

    def tabular(self) -> TabularMDP:
        key = stream(self.seed, INSTANCE, 0, ALL_POLICIES)
        outcomes = [
            [
                self._outcomes(subkey(key, state * self.actions + action))
                for action in range(self.actions)
            ]
            for state in range(self.states)
        ]
        return normal_form(TabularMDP(outcomes, None, self.episode))

    def _outcomes(self, key: Key) -> list[tuple[float, float, float, float]]:
        count = self.branching
        order = [*range(self.states)]
        for index in range(count):
            other = index + int(uniform(at(key, 1, index)) * (self.states - index))
            order[index], order[other] = order[other], order[index]
        weights = [exponential(at(key, 2, index)) for index in range(count)]
        paid = uniform(at(key, 3, 0))
        return [
            (weight / sum(weights) * chance, following, reward, 0)
            for following, weight in zip(order[:count], weights, strict=True)
            for reward, chance in ((1.0, paid), (0.0, 1.0 - paid))
        ]


def _as_numbers(value: object) -> object:
    if isinstance(value, bool | np.bool_):
        return float(value)
    return tuple(map(_as_numbers, value)) if is_listed(value) else value


def _check_arms(name: str, actions: int, arms: int) -> None:
    if actions != arms:
        raise Invalid(
            f"{name} has {actions} actions, but there are {arms} arms; give {actions} arms"
        )


def _check_sum(name: str, total: float) -> None:
    if abs(total - 1) > SUM_TOLERANCE:
        raise Invalid(f"{name} must have probabilities whose sum is 1, got {total:.12g}")


def _check_outcomes(outcomes: object, arms: int) -> None:
    name = "TabularMDP.outcomes"
    if not is_listed(outcomes) or not 1 <= len(outcomes) <= MAX_LEVELS:
        raise Invalid(f"{name} must be a list of 1 to {MAX_LEVELS:,} states, got {shown(outcomes)}")
    for state, by_action in enumerate(outcomes):
        if not is_listed(by_action) or len(by_action) != arms:
            raise Invalid(
                f"{name}[{state}] must be a list with one entry for each of {arms} actions, got {shown(by_action)}"
            )
        for action, listed in enumerate(by_action):
            _check_distribution(f"{name}[{state}][{action}]", listed, len(outcomes))


def _check_distribution(name: str, listed: object, states: int) -> None:
    if not is_listed(listed) or not listed:
        raise Invalid(f"{name} must be a list of outcomes, got {shown(listed)}")
    total = 0.0
    for index, outcome in enumerate(listed):
        label = f"{name}[{index}]"
        if not is_listed(outcome) or len(outcome) != _NUMBERS:
            raise Invalid(
                f"{label} must be (probability, next state, reward, end), got {shown(outcome)}"
            )
        probability, following, reward, end = cast(Sequence[float], outcome)
        require_number(f"{label}: its probability", probability, at_least=0, at_most=1)
        require_number(f"{label}: its next state", following, at_least=0, at_most=states - 1)
        require_number(f"{label}: its reward", reward, at_least=-MAX_REWARD, at_most=MAX_REWARD)
        if following != int(following):
            raise Invalid(f"{label}: its next state must be a whole number, got {shown(following)}")
        if end not in (0, 1):
            raise Invalid(f"{label}: its end must be 1 or 0, got {shown(end)}")
        total += float(probability)
    _check_sum(name, total)


class _Outcomes(NamedTuple):
    """Outcomes of all cells, one after another; a cell is state * actions + action."""

    offsets: Ints  # where the outcomes of a cell begin, and the end
    probabilities: Floats
    nexts: Floats
    rewards: Floats
    ends: Bools
    actions: int


def _arrays(process: TabularMDP) -> _Outcomes:
    cells = [listed for by_action in process.outcomes for listed in by_action]
    table = np.array([outcome for listed in cells for outcome in listed], float)
    offsets = np.cumsum([0, *map(len, cells)])
    probabilities, nexts, rewards, ends = (
        np.ascontiguousarray(table[:, column]) for column in range(_NUMBERS)
    )
    return _Outcomes(offsets, probabilities, nexts, rewards, ends > 0, process.arms or 0)


def _backward_induction(outcomes: _Outcomes, steps: int) -> tuple[Floats, Floats]:
    """Return gaps (steps to go - 1, cell) and optimal values (steps to go - 1, state)."""
    offsets, actions = outcomes.offsets[:-1], outcomes.actions
    following = outcomes.nexts.astype(np.int64)
    values = np.zeros((steps + 1, offsets.size // actions))
    lost = np.empty((steps, offsets.size))
    for step in range(steps):
        later = np.where(outcomes.ends, 0.0, values[step][following])
        sums = np.add.reduceat(outcomes.probabilities * (outcomes.rewards + later), offsets)
        by_action = sums.reshape(-1, actions)
        values[step + 1] = by_action.max(axis=1)
        gap = values[step + 1][:, None] - by_action
        gap[gap <= _TIE * (1 + np.abs(by_action))] = 0.0
        lost[step] = gap.ravel()
    return lost, values[1:]


class CompiledMDP(NamedTuple):
    """Outcomes of all cells, one after another; a cell is state * actions + action."""

    offsets: Ints  # where the outcomes of a cell begin, and the end
    width: int  # outcomes of every cell, filled up with outcomes that are never drawn; 0 if cells have many
    limits: NDArray[np.uint64]  # see `_limits`
    nexts: NDArray[np.int32]
    rewards: Floats
    ends: Bools
    start: Floats  # cumulative probabilities of the first state
    gaps: Floats  # (steps to go - 1, cell)
    episode: int
    arms: int


def _limits(outcomes: _Outcomes) -> NDArray[np.uint64]:
    """Return the lowest of the 2^53 values of `uniform` that draw an outcome of a cell or one after it.

    A value u draws them if u times the sum of all probabilities is at least the sum of those before. The product is
    rounded, but grows with u, so that bisection finds the lowest value to the bit.
    """
    sums = [np.cumsum(part) for part in np.split(outcomes.probabilities, outcomes.offsets[1:-1])]
    before = np.concatenate([np.append(0.0, part[:-1]) for part in sums])
    total = np.concatenate([np.full(part.size, part[-1]) for part in sums])
    low, high = np.zeros(total.size, np.int64), np.full(total.size, _VALUES)
    while (low < high).any():
        middle = (low + high) // 2
        is_drawn = middle * 2.0**-53 * total >= before
        low = np.where(is_drawn, low, np.minimum(middle + 1, high))
        high = np.where(is_drawn, middle, high)
    return high.astype(np.uint64)


@lru_cache(maxsize=4)
def _compiled(class_name: str, process: MarkovDecisionProcess) -> CompiledMDP:
    # With the class, because NamedTuples of different classes compare equal.
    table = process.tabular()
    outcomes = _arrays(table)
    offsets, counts = outcomes.offsets, np.diff(outcomes.offsets)
    rows = max(1, min(table.episode, _MAX_GAPS // counts.size))
    lost, _ = _backward_induction(outcomes, rows)
    limits, nexts = _limits(outcomes), outcomes.nexts.astype(np.int32)
    rewards, ends, width = outcomes.rewards, outcomes.ends, int(counts.max())
    if width <= _FEW:
        offsets, is_filled = np.arange(counts.size + 1) * width, np.arange(width) < counts[:, None]
        limits = _spread_out(limits, is_filled, _VALUES)
        nexts, rewards = _spread_out(nexts, is_filled, 0), _spread_out(rewards, is_filled, 0)
        ends = _spread_out(ends, is_filled, 0)
    start = np.ones(len(table.outcomes)) if table.start is None else np.cumsum(table.start)
    return CompiledMDP(
        offsets,
        width if width <= _FEW else 0,
        limits,
        nexts,
        rewards,
        ends,
        start,
        lost,
        table.episode,
        outcomes.actions,
    )


def _spread_out(values: NDArray[S], is_filled: Bools, rest: int) -> NDArray[S]:
    spread = np.full(is_filled.shape, rest, values.dtype)
    spread[is_filled] = values
    return spread.ravel()


@inlined
def _outcome(parameters: CompiledMDP, context: Floats, arm: int, bits: Bits) -> np.uint64:
    """Return the index of the outcome that random bits draw."""
    # By sums in place of branches, which no processor predicts.
    cell, drawn = np.uint64(int(context[0]) * parameters.arms + arm), bits >> _11
    outcome = np.uint64(parameters.offsets[cell])
    if parameters.width > 0:
        first = outcome
        for index in range(1, parameters.width):
            outcome += np.uint64(parameters.limits[first + np.uint64(index)] <= drawn)
        return outcome
    left = np.uint64(parameters.offsets[cell + _1]) - outcome
    while left > _1:
        half = left >> _1
        outcome += half * np.uint64(parameters.limits[outcome + half] <= drawn)
        left -= half
    return outcome


@draws(CompiledMDP)
def _reward(parameters: CompiledMDP, row: int, context: Floats, arm: int, bits: Bits) -> float:
    outcome = _outcome(parameters, context, arm, bits)
    whole_numbers(context, 3, 1)[0] = outcome
    return parameters.rewards[outcome]


@contexts(CompiledMDP)
def _next_state(
    parameters: CompiledMDP, row: int, period: int, noise: Key, context: Floats
) -> None:
    if period > 1:
        outcome = np.uint64(whole_numbers(context, 3, 1)[0])
        step = context[1] + 1.0
        if not parameters.ends[outcome] and step < parameters.episode:
            context[0], context[1] = parameters.nexts[outcome], step
            return
    episode = context[2] + 1.0
    context[0] = discrete(at(noise, np.int64(episode), 0), parameters.start)
    context[1], context[2] = 0.0, episode


@gaps(CompiledMDP)
def _gap(parameters: CompiledMDP, row: int, context: Floats, arm: int, arms: int) -> float:
    to_go = min(parameters.episode - np.int64(context[1]), parameters.gaps.shape[0])
    return parameters.gaps[to_go - 1, int(context[0]) * arms + arm]
