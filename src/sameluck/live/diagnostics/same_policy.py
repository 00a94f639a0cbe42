"""`same policy`: two equal policies make no difference (A/A)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.intervals import anytime_p_values
from sameluck.live.diagnostics.check import Check, Details, diagnostic, p_text, verdict_of
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.policies.base import is_randomised
from sameluck.wording import counted

MIN_REPLICATIONS = 10


def same_policy(differences: Floats, *, exact: bool, names: Sequence[str]) -> Check:
    """Check that two equal policies earn the same, from the difference of their rewards per replication.

    `exact` means that they must agree to the bit: they are deterministic, or randomised with shared noise, under a
    design that shares rewards. Otherwise the mean is tested by the t-mixture p-value of `intervals.anytime_p_values`,
    which is valid after every replication.
    """
    values = np.asarray(differences, float)
    pair, count = " and ".join(names), int(values.size)
    details: Details = {"replications": count, "policies": list(names), "exact": exact}
    if exact:
        return _exactly_equal(values, pair, details)
    if count < MIN_REPLICATIONS:
        sentence = f"{pair} need {MIN_REPLICATIONS} replications for an A/A test and have {count}."
        return Check("same policy", "unknown", sentence, None, details)
    p_value, mean = float(anytime_p_values(values)[-1]), float(values.mean())
    details["mean"] = mean
    verdict = verdict_of(p_value)
    sentence = (
        f"{pair} are the same policy and differ by chance alone: {mean:+.3g} ({p_text(p_value)})."
    )
    if verdict != "fine":
        sentence = (
            f"{pair} are the same policy and yet differ by {mean:+.3g} per replication ({p_text(p_value)}): do not "
            "trust other differences of this experiment before the cause is found."
        )
    return Check("same policy", verdict, sentence, p_value, details)


def _exactly_equal(values: Floats, pair: str, details: Details) -> Check:
    different = np.flatnonzero(values != 0)
    details = details | {"different": int(different.size)}
    if values.size == 0:
        sentence = f"{pair} need one complete replication to be compared."
        return Check("same policy", "unknown", sentence, None, details)
    if different.size == 0:
        where = "the only replication" if values.size == 1 else f"all {values.size:,} replications"
        sentence = f"{pair} are the same policy and earned the same in {where}."
        return Check("same policy", "fine", sentence, None, details)
    first = int(different[0])
    sentence = (
        f"{pair} are the same policy on the same rewards, yet differ in {different.size:,} of "
        f"{counted(values.size, 'replication')}, first in replication {first} by {values[first]:+.3g}. The cause is "
        "a policy that is not a function of its observations, or an entry that was read twice: stop and find it."
    )
    return Check("same policy", "alarm", sentence, None, details | {"first": first})


@diagnostic("same policy")
def _same_policy(snapshot: Snapshot) -> Iterator[Check]:
    """Compare each policy with the first policy of the same definition, unless the ledger cannot be rebuilt."""
    groups: dict[str, list[str]] = {}
    for name, policy in snapshot.experiment.policies.items():
        groups.setdefault(text_forms.write(policy), []).append(name)
    equal = [names for names in groups.values() if len(names) > 1]
    if not equal or snapshot.divergence is not None:
        return
    policies = [name for names in equal for name in names]
    rewards = dict(
        zip(
            policies,
            snapshot.runs(snapshot.ledger, None, policies).rewards[:, :, -1].T,
            strict=True,
        )
    )
    design = snapshot.experiment.design
    for first, *copies in equal:
        randomised = is_randomised(snapshot.experiment.policies[first], snapshot.experiment.n_arms)
        exact = design.shares_rewards and (design.shares_noise or not randomised)
        for copy in copies:
            difference = rewards[copy] - rewards[first]
            yield same_policy(difference, exact=exact, names=(copy, first))
