"""Fingerprints: what tells the code of a policy in one process from that in another.

A policy plays up to a few thousand periods on fixed rewards, with the random numbers of the first replications, and
the arms that it chooses are hashed, together with its parameters. Code that was edited without another effect has the
same fingerprint, on every machine and version of Python. A Python object that declares a `version` (an attribute of
its maker or of the object) is identified by that instead, and does not play. A difference that takes other rewards or
later periods to show is found when the ledger is derived again.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.functions import is_builtin
from sameluck.errors import SameluckError
from sameluck.live.engine.object_walker import ObjectWalker
from sameluck.live.engine.walker import CompiledWalker, PreparedPolicy, empty_results
from sameluck.live.options import Reward
from sameluck.policies.base import needs_binary, select_function_of
from sameluck.text_forms import write

PERIODS, OBJECT_PERIODS = 5_000, 100
STEPS = 50_000  # periods x arms
MOST_KEPT = 1_000
UNKNOWN = ""
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # SplitMix64
_kept: dict[tuple[object, ...], str] = {}


def fingerprint(prepared: PreparedPolicy, reward: Reward) -> str:
    """The fingerprint of a policy; `UNKNOWN` if it cannot play on these rewards."""
    try:
        version = declared_version(prepared)
        return f"version {version}" if version else _of_choices_kept(prepared, reward)
    except SameluckError:  # it is raised again when the policy is used
        return UNKNOWN


def declared_version(prepared: PreparedPolicy) -> str | None:
    """The version that a Python object declares; None if it declares none."""
    make = prepared.make
    if make is None:
        return None
    version = getattr(make, "version", None)
    if not isinstance(version, str | int):
        try:
            version = getattr(make(0), "version", None)
        except Exception:  # a maker that fails is reported when the policy is used
            return None
    return str(version)[:200] if isinstance(version, str | int) else None


def _of_choices_kept(prepared: PreparedPolicy, reward: Reward) -> str:
    """`_of_choices`, computed once for sameluck's own policies: their code does not change while Python runs."""
    if prepared.make is not None or not is_builtin(body := select_function_of(prepared.policy)):
        return _of_choices(prepared, reward)
    experiment = prepared.experiment
    rule = write(experiment.policies[prepared.name]), prepared.name, prepared.batch
    size = experiment.n_arms, experiment.horizon, experiment.seed
    key = (body, *rule, *size, experiment.design, reward)
    if key not in _kept:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[key] = _of_choices(prepared, reward)
    return _kept[key]


def _of_choices(prepared: PreparedPolicy, reward: Reward) -> str:
    """A digest of what it chooses: with two rewards, and with others between them, if it takes them."""
    experiment = prepared.experiment
    most = PERIODS if prepared.make is None else OBJECT_PERIODS
    periods = min(experiment.horizon, most, max(100, STEPS // experiment.n_arms))
    policy = experiment.policies[prepared.name]
    short = prepared._replace(experiment=experiment.replace(horizon=periods))
    digest = hashlib.blake2b(write(policy).encode(), digest_size=12)
    for replication in range(-(-OBJECT_PERIODS // periods)):  # several if the horizon is short
        draws, means = _draws_and_means(experiment.n_arms, periods, replication)
        two = _scaled((draws < means).astype(float), reward, 0.0, 1.0)
        digest.update(_choices(short, two, replication))
        if not needs_binary(policy):
            between = _scaled((draws + means) / 2, reward, -2.0, 2.0)
            with suppress(SameluckError):  # it may take only two rewards and not say so
                digest.update(_choices(short, between, replication))
    return digest.hexdigest()


def _scaled(rewards: Floats, reward: Reward, low: float, high: float) -> Floats:
    """Rewards of 0 to 1 in the declared range, or between `low` and `high` where there is no bound."""
    least = reward.min
    if least is None:
        least = low if reward.max is None else min(low, reward.max - 1)
    most = reward.max if reward.max is not None else max(high, least + 1)
    return least + (most - least) * rewards


def _draws_and_means(arms: int, periods: int, replication: int) -> tuple[Floats, Floats]:
    """Uniform numbers per arm and position, and a mean per arm."""
    first = 1 + replication * arms * periods
    mixed = np.arange(first, first + arms * periods, dtype=np.uint64) * np.uint64(_STEP)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_FIRST)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_SECOND)
    draws = ((mixed >> np.uint64(54)).astype(float) / 1024).reshape(arms, periods)
    return draws, np.arange(1, arms + 1)[:, None] / (arms + 1)


def _choices(prepared: PreparedPolicy, rewards: Floats, replication: int) -> bytes:
    """The arms that a policy chooses in as many periods as each arm has rewards."""
    arms, periods = rewards.shape
    results = empty_results(prepared.experiment, trajectory=True)
    walker: CompiledWalker | ObjectWalker
    if prepared.make is None:
        walker = CompiledWalker(prepared, replication, np.full(arms, periods), results)
    else:
        walker = ObjectWalker(prepared, replication, results)
    for arm in range(arms):
        walker.push(arm, rewards[arm])
    walker.advance()
    return results.trajectory.arms.astype("<i4").tobytes()
