"""Fingerprints: identify the code of a policy, so that processes with different code are detected.

A policy plays up to a few thousand periods on fixed rewards, with the random numbers of the first replications. Its
parameters and the arms that it chooses are hashed. So an edit without effect keeps the fingerprint, on every machine
and version of Python. A Python object that declares a `version` (an attribute of its maker or of the object) is
identified by the version and does not play. A difference that shows only on other rewards or in later periods is
found when the ledger is derived again.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.functions import is_builtin
from sameluck.errors import SameluckError
from sameluck.live.engine.digest import FIRST, SECOND, STEP
from sameluck.live.engine.walker import PreparedPolicy, empty_results, new_walker
from sameluck.live.options import Reward
from sameluck.policies.base import needs_binary, select_function_of
from sameluck.text_forms import write

PERIODS, OBJECT_PERIODS = 5_000, 100
STEPS = 50_000  # periods x arms
MAX_CACHED = 1_000
UNKNOWN = ""
_cache: dict[tuple[object, ...], str] = {}


def fingerprint(prepared: PreparedPolicy, reward: Reward) -> str:
    """Return the fingerprint of a policy, `UNKNOWN` if the policy cannot play on these rewards."""
    try:
        version = declared_version(prepared)
        return f"version {version}" if version else _cached_choices(prepared, reward)
    except SameluckError:  # raised again when the policy is used
        return UNKNOWN


def declared_version(prepared: PreparedPolicy) -> str | None:
    make = prepared.make
    if make is None:
        return None
    version = getattr(make, "version", None)
    if not isinstance(version, str | int):
        try:
            version = getattr(make(0), "version", None)
        except Exception:  # reported when the policy is used
            return None
    return str(version)[:200] if isinstance(version, str | int) else None


def _cached_choices(prepared: PreparedPolicy, reward: Reward) -> str:
    """Return the digest of choices, cached for built-in policies: their code does not change while Python runs."""
    if prepared.make is not None or not is_builtin(body := select_function_of(prepared.policy)):
        return _choices_digest(prepared, reward)
    experiment = prepared.experiment
    rule = write(experiment.policies[prepared.name]), prepared.name, prepared.batch
    size = experiment.n_arms, experiment.horizon, experiment.seed
    key = (body, *rule, *size, experiment.design, reward)
    if key not in _cache:
        if len(_cache) >= MAX_CACHED:
            _cache.clear()
        _cache[key] = _choices_digest(prepared, reward)
    return _cache[key]


def _choices_digest(prepared: PreparedPolicy, reward: Reward) -> str:
    """Return a digest of the choices on two rewards, and on rewards between them if the policy takes them."""
    experiment = prepared.experiment
    max_periods = PERIODS if prepared.make is None else OBJECT_PERIODS
    periods = min(experiment.horizon, max_periods, max(100, STEPS // experiment.n_arms))
    policy = experiment.policies[prepared.name]
    short = prepared._replace(experiment=experiment.replace(horizon=periods))
    digest = hashlib.blake2b(write(policy).encode(), digest_size=12)
    for replication in range(-(-OBJECT_PERIODS // periods)):  # several if the horizon is short
        draws, means = _draws_and_means(experiment.n_arms, periods, replication)
        two = _scaled((draws < means).astype(float), reward, 0.0, 1.0)
        digest.update(_choices(short, two, replication))
        if not needs_binary(policy):
            between = _scaled((draws + means) / 2, reward, -2.0, 2.0)
            # The policy may take only two rewards without declaring it.
            with suppress(SameluckError):
                digest.update(_choices(short, between, replication))
    return digest.hexdigest()


def _scaled(rewards: Floats, reward: Reward, low: float, high: float) -> Floats:
    """Scale rewards of 0 to 1 to the declared range, or to `low` and `high` where there is no bound."""
    lower = reward.min
    if lower is None:
        lower = low if reward.max is None else min(low, reward.max - 1)
    upper = reward.max if reward.max is not None else max(high, lower + 1)
    return lower + (upper - lower) * rewards


def _draws_and_means(arms: int, periods: int, replication: int) -> tuple[Floats, Floats]:
    """Return uniform numbers per arm and position, and a mean per arm."""
    first = 1 + replication * arms * periods
    mixed = np.arange(first, first + arms * periods, dtype=np.uint64) * np.uint64(STEP)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(FIRST)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(SECOND)
    draws = ((mixed >> np.uint64(54)).astype(float) / 1024).reshape(arms, periods)
    return draws, np.arange(1, arms + 1)[:, None] / (arms + 1)


def _choices(prepared: PreparedPolicy, rewards: Floats, replication: int) -> bytes:
    """Return the arms that a policy chooses in as many periods as each arm has rewards."""
    arms, periods = rewards.shape
    results = empty_results(prepared.experiment, trajectory=True)
    walker = new_walker(prepared, replication, results, np.full(arms, periods))
    for arm in range(arms):
        walker.push(arm, rewards[arm])
    walker.advance()
    return results.trajectory.arms.astype("<i4").tobytes()
