"""Cautions: sentences to read before relying on an interval, with the remedy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sameluck.inference.effects import is_interim
from sameluck.inference.interval_methods import ANYTIME, MEDIAN
from sameluck.wording import amount, counted, listed

if TYPE_CHECKING:
    from sameluck.inference.assumptions import ScaleMismatch
    from sameluck.inference.comparison import Comparison
    from sameluck.inference.requests import Pair
    from sameluck.inference.unseen import PairCheck

FEW_REPLICATIONS = 10


def comparison_cautions(result: Comparison) -> tuple[str, ...]:
    violations = result.violations
    return (
        *result.runs.notes,
        *movement_caution(result.moving_environment),
        *_interim(result),
        *_extended(result),
        *_contradicted(result),
        *_few_replications(result),
        *_tail_without_bounds(result),
        *_winner_each_alone(result),
        *_identical(result),
        *_constant(result),
        *_skewed(result),
        *_opposed(violations.opposed_pairs),
        *_unstable(result),
        *scale_caution(violations.scale),
    )


def movement_caution(moving_environment: str | None) -> Iterator[str]:
    """Say which conclusions fail where the arms of a simulation move."""
    if moving_environment is not None:
        yield (
            f"The rewards of an arm are not i.i.d.: the {moving_environment} environment changes them with the "
            "period. Each policy still has the distribution of a solo run, and replications are independent, so "
            "effects, intervals and p-values hold for this course of the rewards. Not valid: replay, twins, "
            "pseudo-regret and the share of the best arm, because no arm has one mean, and conclusions about another "
            "course or horizon."
        )


def _interim(result: Comparison) -> Iterator[str]:
    runs, method = result.runs, result.request.interval_method
    if is_interim(runs) and not method.valid_at_every_look:
        is_mean = result.request.metric_definition.is_mean
        interval = f"the {method.name} interval" if is_mean else "this interval"
        yield (
            f"{runs.replications:,} of {runs.experiment.replications:,} planned replications: "
            f"{interval} is valid at the planned number only; at interim looks it misses the true effect far too "
            f'often. interval="{ANYTIME.name}" is valid at every look.'
        )


def _extended(result: Comparison) -> Iterator[str]:
    runs, method = result.runs, result.request.interval_method
    if runs.earlier_looks and not method.valid_at_every_look:
        looks = listed((f"{count:,}" for count in runs.earlier_looks), at_most=3)
        yield (
            f"These runs were compared at {looks} replications and then extended: this interval is valid only at a "
            "number of replications that did not depend on earlier results. "
            f'interval="{ANYTIME.name}" is valid at every look.'
        )


def _contradicted(result: Comparison) -> Iterator[str]:
    """Name the pairs whose mean on other seeds is outside the interval, the failures behind it and the remedy."""
    check, count = result.check, result.runs.replications
    pairs = check.contradicted
    if not pairs:
        return
    if check.on_copy:
        yield _contradicted_on_copy(result)
        return
    failures = [
        f" {failure.policy} ends {amount(failure.loss)} or more behind {failure.control} in about 1 replication in "
        f"{failure.one_in:,.0f}."
        for failure in check.failures[:1]
    ]
    needed = max(10 * count, result.violations.replications_for_skewness)
    yield (
        f"On other seeds {_means(pairs)} ({check.replications:,} replications): these "
        f"{counted(count, 'replication')} are unusual.{''.join(failures)} Run more (about {needed:,})."
    )


def _contradicted_on_copy(result: Comparison) -> str:
    check, count = result.check, result.runs.replications
    means = (
        f"{pair.policy} minus {pair.control} is {amount(pair.effect)}"
        for pair in check.contradicted
    )
    needed = result.violations.replications_for_skewness
    about = f" (about {needed:,})" if needed > count else ""
    return (
        f"On a copy of the arms {listed(means, at_most=3)}, outside the interval ({check.replications:,} "
        f"replications): these {counted(count, 'replication')} are unusual, or the arms changed. Wait for "
        f'more{about}, or see the median with interval="{MEDIAN.name}".'
    )


def _means(pairs: Sequence[PairCheck]) -> str:
    """Return the mean differences on other seeds, with two standard errors."""
    means = (
        f"{pair.policy} minus {pair.control} is {amount(pair.effect)} ± {amount(2 * pair.error)}"
        for pair in pairs
    )
    return listed(means, at_most=3)


def _few_replications(result: Comparison) -> Iterator[str]:
    method, replications = result.request.interval_method, result.runs.replications
    pairs = result.check.pairs_on_other_seeds
    if method.copies_arms:
        yield (
            "The spread is measured on a copy of the arms: it assumes that their rewards are i.i.d., which few "
            "replications can hardly test."
        )
    elif replications < FEW_REPLICATIONS and method.is_of_the_mean and not pairs:
        yield (
            f"Only {replications} replications: the intervals assume normal differences. "
            f"{FEW_REPLICATIONS} or more show whether that holds."
        )


def _tail_without_bounds(result: Comparison) -> Iterator[str]:
    metric, effects = result.request.metric_definition, result.last_effects
    unknown = [effect for effect in effects if math.isinf(effect.low) or math.isinf(effect.high)]
    if metric.is_quantile and any(effect.sd != 0 for effect in unknown):
        yield (
            f"Too few replications for the {metric.title}: no order statistic of {effects[0].replications:,} bounds "
            "it at this level, for all comparisons together. Run more."
        )


def _winner_each_alone(result: Comparison) -> Iterator[str]:
    covered, effects = result.request.simultaneous, result.last_effects
    if result.request.pairs == "best" and covered in ("none", "checkpoints") and len(effects) > 1:
        remedy = 'leave out simultaneous="none"' if covered == "none" else 'use simultaneous="both"'
        yield (
            f"{effects[0].control} was chosen on the same data, so intervals of each pair alone favour it; "
            f"{remedy}."
        )


def _names(pairs: Sequence[Pair]) -> str:
    return listed((f"{policy} and {control}" for policy, control in pairs), at_most=3)


def _identical(result: Comparison) -> Iterator[str]:
    varying = [pair[:2] for pair in result.check.pairs_on_other_seeds if pair.error > 0]
    pairs = [pair for pair in result.violations.identical_pairs if pair not in varying]
    if pairs:
        yield (
            f"{_names(pairs)} pulled every arm equally often in every replication: this environment cannot "
            "distinguish them. Try an environment in which they differ."
        )


def _constant(result: Comparison) -> Iterator[str]:
    violations, check = result.violations, result.check
    pairs = [*violations.constant_pairs, *violations.identical_pairs]
    checked = check.pairs_on_other_seeds
    varying = [pair for pair in checked if pair[:2] in pairs and pair.error > 0]
    if varying:
        names = _names([pair[:2] for pair in varying])
        yield (
            f"The difference of {names} is the same in every replication, but not on other seeds: {_means(varying)} "
            f"({check.replications:,} replications). Run more replications."
        )
    elif violations.constant_pairs and not checked:
        yield (
            f"The difference of {_names(violations.constant_pairs)} is the same in every replication, which does not "
            "prove that it is constant. Run more replications."
        )


def _skewed(result: Comparison) -> Iterator[str]:
    runs, violations = result.runs, result.violations
    if violations.skewed_pairs and not result.check.replications:
        is_mean = result.request.metric_definition.is_mean
        median = f', or see the median with interval="{MEDIAN.name}"' if is_mean else ""
        more = "wait for more" if runs.environment is None else "run more"
        yield (
            f"The differences of {_names(violations.skewed_pairs)} are skewed: rare replications weigh heavily, and "
            f"with {runs.replications:,} the interval is only approximate; {more} "
            f"(about {violations.replications_for_skewness:,}){median}."
        )


def _opposed(pairs: Sequence[Pair]) -> Iterator[str]:
    if pairs:
        yield (
            f"Shared noise raises the variance of the difference of {_names(pairs)}, because these policies use it "
            'in opposite ways. The design "replay" without share_noise is more precise.'
        )


def _unstable(result: Comparison) -> Iterator[str]:
    policies = result.violations.unstable_policies
    if policies and not result.check.replications:
        pull = "pulls" if len(policies) == 1 else "pull"
        yield (
            f"How often {listed(policies)} {pull} an arm varies much between replications: rare replications "
            "dominate, and a small run understates the spread. Run more replications before relying on the interval."
        )


def scale_caution(mismatch: ScaleMismatch | None) -> Iterator[str]:
    """Name the policies that assume another scale of rewards, the risk and the parameters to set."""
    if mismatch is None:
        return
    risks = (
        (mismatch.too_small, "less, so that little is explored and a poor arm may be kept"),
        (mismatch.too_large, "more, so that much is explored and learning is slow"),
    )
    assumptions = [
        f"{listed(names)} assume{'s' * (len(names) == 1)} {risk}" for names, risk in risks if names
    ]
    remedies: dict[str, list[str]] = {}
    for name, parameters in mismatch.remedies.items():
        settings = [f"{field}={value:.12g}" for field, value in parameters.items()]
        remedy = f"set {' and '.join(settings)}" if settings else ""
        remedies.setdefault(remedy or f"divide the rewards by {mismatch.sd:g}", []).append(name)
    yield (
        f"The standard deviation of the rewards is about {mismatch.sd:g}: {'; '.join(assumptions)}. The comparison "
        "depends on the unit of the rewards: "
        f"{listed(f'{remedy} ({listed(names)})' for remedy, names in remedies.items())}."
    )
