"""Exact distributions of policies that share stacks of (state, action, visit), in rational arithmetic.

Every random number is enumerated when it is first read. A policy's paths in company must have exactly the
probabilities that they have alone; with each mistake built on purpose they must not.
"""

from collections import Counter, defaultdict
from fractions import Fraction

import pytest

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
# (probability, next state, reward, end): the reward depends on the next state. All have the same probabilities, so
# that one random number means the same wherever a mistake reads it.
OUTCOMES = {
    (0, 0): [(THIRD, 0, 0, False), (2 * THIRD, 1, 1, False)],
    (0, 1): [(THIRD, 1, 0, False), (2 * THIRD, 0, 1, True)],
    (1, 0): [(THIRD, 0, 1, False), (2 * THIRD, 1, 0, False)],
    (1, 1): [(THIRD, 0, 0, False), (2 * THIRD, 1, 1, True)],
}
START = [(HALF, 0), (HALF, 1)]
EPISODE, PERIODS = 3, 4


def repeats_a_win(path, state):
    """Repeat the action that paid last in this state, else take the other action."""
    for before, action, reward in reversed(path):
        if before == state:
            return action if reward else 1 - action
    return state


def counts_rewards(path, state):
    """Choose by the parity of all rewards, visits and the state."""
    return (sum(reward for *_, reward in path) + len(path) // 2 + state) % 2


POLICIES = (repeats_a_win, counts_rewards)


class Unread(Exception):
    """A random number that is not enumerated yet."""


class World:
    """Random numbers by address, each with the outcome that is assumed for it."""

    def __init__(self, assumed):
        self.assumed = assumed

    def read(self, address, choices):
        if address not in self.assumed:
            raise Unread(address, choices)
        return choices[self.assumed[address]]


def visit_address(state, action, visit, period, episode):
    return (state, action, visit)


def state_address(state, action, visit, period, episode):
    return (state, visit)


def episode_address(state, action, visit, period, episode):
    """A count of visits that starts anew in each episode reads an entry twice."""
    return (state, action, visit - episode["visits", state, action])


def path_of(world, policy, address=visit_address, next_by_period=False):
    """Return the (state, action, reward) of each period."""
    path, visits, began, episode, step, state = [], defaultdict(int), {}, 0, 0, 0
    for period in range(PERIODS):
        if step == 0:
            began = defaultdict(int, {("visits", *cell): n for cell, n in visits.items()})
            _, state = world.read(("start", episode), START)
            episode += 1
        action = policy(path, state)
        cell = OUTCOMES[state, action]
        place = address(state, action, visits[state, action], period, began)
        _, following, reward, end = world.read(place, cell)
        if next_by_period:
            _, following, _, end = world.read(("next", period), cell)
        visits[state, action] += 1
        path.append((state, action, reward))
        step = 0 if end or step == EPISODE - 1 else step + 1
        state = following
    return tuple(path)


def distribution(run):
    """Return the probability of each result of a function of a world."""
    found, open_worlds = Counter(), [(Fraction(1), {})]
    while open_worlds:
        chance, assumed = open_worlds.pop()
        try:
            found[run(World(assumed))] += chance
        except Unread as unread:
            address, choices = unread.args
            for index, choice in enumerate(choices):
                open_worlds.append((chance * choice[0], {**assumed, address: index}))
    assert sum(found.values()) == 1
    return found


def in_company(**how):
    """Return each policy's distribution when all read the same numbers."""
    together = distribution(
        lambda world: tuple(path_of(world, policy, **how) for policy in POLICIES)
    )
    laws = [Counter() for _ in POLICIES]
    for paths, chance in together.items():
        for law, path in zip(laws, paths, strict=True):
            law[path] += chance
    return laws


def solo(policy):
    """Return a policy's distribution in the process itself: every period draws anew."""
    return distribution(
        lambda world: path_of(world, policy, lambda s, a, visit, period, began: (period,))
    )


def test_policies_that_share_stacks_have_their_solo_distributions():
    laws = in_company()

    assert [law == solo(policy) for law, policy in zip(laws, POLICIES, strict=True)] == [True, True]
    assert all(len(law) > 20 for law in laws)
    assert laws[0] != laws[1]


@pytest.mark.parametrize(
    "how",
    [
        {"address": state_address},
        {"address": episode_address},
        {"next_by_period": True},
    ],
    ids=[
        "a stack keyed by the state only",
        "visits counted anew in each episode",
        "next state drawn by the period",
    ],
)
def test_each_mistake_changes_a_distribution(how):
    laws = in_company(**how)

    assert all(law != solo(policy) for law, policy in zip(laws, POLICIES, strict=True))
