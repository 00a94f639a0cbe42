"""Each policy keeps its solo distribution when policies share users with contexts: exact, not approximate.

Small worlds are enumerated in rational arithmetic. `test_context_loop` shows that their addresses are those of the
compiled code. Wrong addresses, built on purpose, give other distributions: the enumeration can tell.
"""

from fractions import Fraction
from functools import partial
from itertools import combinations

import pytest

from exact_enumeration import distribution, marginal, total_variation
from nonempty import nonempty

ARMS, PERIODS = 2, 3
FREQUENCIES = (Fraction(2, 3), Fraction(1, 3))
SUCCESS = ((Fraction(1, 2), Fraction(1, 5)), (Fraction(1, 4), Fraction(3, 4)))  # (level, arm)
HALF = (Fraction(1, 2), Fraction(1, 2))


# Policies: functions of the history, a tuple of (level, arm, reward), the level and a source of decision noise.


def win_stay(history, level, noise):
    """Repeat the last arm of the level after a success, else play the other arm."""
    same = [(arm, reward) for seen, arm, reward in history if seen == level]
    if not same:
        return 0
    arm, reward = same[-1]
    return arm if reward else 1 - arm


def pooled(history, level, noise):
    """Ignore levels: play the arm with more successes, the second if there is a tie."""
    earned = [sum(reward for _, arm, reward in history if arm == index) for index in range(ARMS)]
    return int(earned[1] >= earned[0])


def curious(history, level, noise):
    """Toss a coin in the first period of a level, then do the opposite of `win_stay`."""
    if not any(seen == level for seen, _, _ in history):
        return noise(len(history), level)
    return 1 - win_stay(history, level, noise)


POLICIES = {"win_stay": win_stay, "pooled": pooled, "curious": curious}


def walk(policy, name, chance, address):
    """Return the history of a policy; `address(level, arm, visit, period)` is where a reward stands."""
    history = []
    for period in range(PERIODS):
        level = chance(("level", period), FREQUENCIES)
        arm = policy(tuple(history), level, partial(_toss, chance, name))
        visit = sum((seen, played) == (level, arm) for seen, played, _ in history)
        success = SUCCESS[level][arm]
        reward = chance(("reward", *address(level, arm, visit, period)), (1 - success, success))
        history.append((level, arm, reward))
    return tuple(history)


def by_cell(level, arm, visit, period):
    return level, arm, visit


def by_user(level, arm, visit, period):
    return arm, period


def solo(name):
    return distribution(lambda chance: walk(POLICIES[name], name, chance, by_user))


def together(names, address):
    return distribution(
        lambda chance: tuple(walk(POLICIES[name], name, chance, address) for name in names)
    )


GROUPS = [*combinations(POLICIES, 2), tuple(POLICIES)]


@pytest.mark.parametrize("names", GROUPS, ids="+".join)
@pytest.mark.parametrize("address", [by_cell, by_user])
def test_each_policy_keeps_its_solo_distribution(names, address):
    """`by_cell` is replay with levels; `by_user` is replay with features, and `time_coupled`."""
    joint = together(names, address)

    for index, name in nonempty(enumerate(names)):
        assert marginal(joint, index) == solo(name)


@pytest.mark.parametrize("names", GROUPS, ids="+".join)
def test_real_users_are_the_sum_over_cells_of_the_largest_count(names):
    def users(chance):
        read = set()

        def counted(address, probabilities):
            if address[0] == "reward":
                read.add(address)
            return chance(address, probabilities)

        paths = [walk(POLICIES[name], name, counted, by_cell) for name in names]
        visits = [[(level, arm) for level, arm, _ in path] for path in paths]
        cells = {cell for policy_visits in visits for cell in policy_visits}
        largest = sum(max(cell_visits.count(cell) for cell_visits in visits) for cell in cells)
        return len(read), largest

    assert all(read == largest for read, largest in distribution(users))


def replayed_by_arm(names):
    """Return the joint distribution if the k-th reward of an arm is replayed, whoever the user was."""

    def run(chance):
        record, paths = {}, []
        for name in names:
            history = []
            for period in range(PERIODS):
                level = chance(("level", period), FREQUENCIES)
                noise = partial(_toss, chance, name)
                arm = POLICIES[name](tuple(history), level, noise)
                entry = arm, sum(played == arm for _, played, _ in history)
                success = SUCCESS[level][arm]
                if entry not in record:
                    record[entry] = chance(("reward", period, arm), (1 - success, success))
                history.append((level, arm, record[entry]))
            paths.append(tuple(history))
        return tuple(paths)

    return distribution(run)


def _toss(chance, name, *slot):
    return chance(("noise", name, *slot), HALF)


@pytest.mark.parametrize("names", [("win_stay", "curious"), ("pooled", "win_stay")], ids="+".join)
def test_a_stack_for_an_arm_of_all_users_is_wrong(names):
    """The k-th reward of an arm came from a user of another level, or with other features."""
    joint = replayed_by_arm(names)

    assert marginal(joint, 0) == solo(names[0])  # the first policy asks real users only
    assert total_variation(marginal(joint, 1), solo(names[1])) > Fraction(1, 100)


def test_the_noise_of_a_level_needs_the_level_in_its_address():
    """A rule in each level that reads its local period alone would toss one coin for all levels."""

    def repeated(chance):
        def noise(periods, level):
            return chance(("noise", 0), HALF)

        history = []
        for period in range(PERIODS):
            level = chance(("level", period), FREQUENCIES)
            arm = curious(tuple(history), level, noise)
            success = SUCCESS[level][arm]
            reward = chance(("reward", period), (1 - success, success))
            history.append((level, arm, reward))
        return (tuple(history),)

    wrong = marginal(distribution(repeated), 0)

    assert total_variation(wrong, solo("curious")) > Fraction(1, 100)
