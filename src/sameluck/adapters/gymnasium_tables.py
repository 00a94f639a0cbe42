"""Gymnasium's environments with tables of outcomes as `TabularMDP`: FrozenLake, Taxi, CliffWalking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sameluck.environments.contextual.states import TabularMDP
from sameluck.errors import Invalid, optional, shown

_EPISODE = 200  # if the environment has no limit of steps


def gymnasium(environment: object, *, episode: int | None = None, **options: object) -> TabularMDP:
    """Return an environment of Gymnasium, such as "FrozenLake-v1", as a `TabularMDP`.

    It is read from the environment's own table `P`. Outcomes that are equal but for their probability are merged.

    Args:
        environment: Its name, or the environment itself; it must have a table `P`.
        episode: Largest number of steps in an episode; the environment's limit, or 200, if not given.
        **options: Passed to `gymnasium.make` with the name, such as `is_slippery=False`.
    """
    made = environment
    if isinstance(environment, str):
        package = optional("gymnasium", "gymnasium")
        try:
            made = package.make(environment, **options)
        except (package.error.Error, TypeError) as error:
            raise Invalid(f"gymnasium.make({environment!r}): {error}") from error
    inner = getattr(made, "unwrapped", made)
    table, start = getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
    if table is None or start is None:
        raise Invalid(
            f"{shown(environment)} has no table P of outcomes and first states, as FrozenLake, Taxi and CliffWalking "
            "have; write its outcomes as a TabularMDP"
        )
    limit = getattr(getattr(made, "spec", None), "max_episode_steps", None)
    outcomes = [[_merged(table[state][action]) for action in table[state]] for state in table]
    return TabularMDP(outcomes, [float(chance) for chance in start], episode or limit or _EPISODE)


def _merged(
    listed: Iterable[tuple[float, int, float, bool]],
) -> list[tuple[float, int, float, bool]]:
    chances: dict[tuple[int, float, bool], float] = defaultdict(float)
    for probability, following, reward, end in listed:
        chances[int(following), float(reward), bool(end)] += float(probability)
    return [(chance, *outcome) for outcome, chance in chances.items()]
