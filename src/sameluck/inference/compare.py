"""`compare`: estimate how much more each policy earns than the control, or how policies differ in another metric."""

from __future__ import annotations

import itertools

from sameluck.errors import Invalid
from sameluck.inference.assumptions import find_violations, moving_environment
from sameluck.inference.comparison import Comparison
from sameluck.inference.effects import Effect, differences, estimated_effects, is_interim
from sameluck.inference.interval_methods import INTERVALS, STUDENT, TWIN, default_interval
from sameluck.inference.metrics import as_metric, measured
from sameluck.inference.policy_summaries import policy_metrics, standings, summarise
from sameluck.inference.requests import Request, check_request
from sameluck.inference.twins.failures import Failure, rare_failures, short_copy
from sameluck.inference.twins.intervals import twin_effects
from sameluck.inference.unseen import (
    SeedCheck,
    check_on,
    check_on_other_seeds,
    possible_loss,
)
from sameluck.policies.external import Makers
from sameluck.runs import Runs
from sameluck.validation import require_flag


def compare(  # noqa: PLR0913 all but one are optional
    runs: Runs,
    *,
    level: float = 0.95,
    control: str | None = None,
    pairs: str = "control",
    interval: str | None = None,
    simultaneous: str | None = None,
    best: bool = False,
    adjust: str | None = None,
    metric: str = "reward",
    makers: Makers | None = None,
    check: bool = True,
) -> Comparison:
    """Estimate how much more each policy earns than the control, at every checkpoint.

    Where the design shares rewards, policies are compared within replications; under `naive` as independent samples.

    Args:
        runs: Result of `simulate`, or of a live experiment's `runs`.
        level: Confidence of the intervals.
        control: Policy to compare with, instead of the experiment's control.
        pairs: `"control"`: every other policy with the control; `"all"`: every two policies; `"best"`: every
            other policy with the policy that earned most, with intervals that account for the selection.
        interval: `"t"`: Student's t over replications, as in the paper; `"anytime"`: valid at every look while
            replications complete; `"median"`: the median difference instead of the mean, exactly; `"bootstrap"`:
            BCa; `"twin"`: the spread that the policies show on a copy of the arms, for which one replication is
            enough (see `twin`). The default is `"t"`, and `"anytime"` for a live experiment that has not completed
            its planned replications.
        simultaneous: Intervals and p-values that hold together: all `"pairs"` at a checkpoint (the default), all
            `"checkpoints"` of a pair, `"both"`, or `"none"`, each alone. By max-t for `"t"`, by Bonferroni's method
            for other intervals and independent policies.
        best: Also report which policies may be the best of all (multiple comparisons with the best).
        adjust: Noise of mean zero to subtract: `"means"` (noise of the rewards, in simulations, where true means are
            known).
        metric: Compared quantity: the cumulative `"reward"`; `"regret"` (pseudo-regret, against the true means),
            `"realised_regret"` (against the rewards received) or `"best_arm_share"`, in simulations; over
            replications the `"quantile(0.1)"` of the reward, or the mean reward of the `"worst_tenth"`.
        makers: As for `simulate`, for `interval="twin"`, which runs `External` policies again.
        check: Simulate further replications with other random numbers, about 0.2 seconds, and say whether they agree.
            On live traffic the policies run on a copy of the arms instead.
    """
    if not isinstance(runs, Runs):
        raise Invalid(
            f"compare takes the Runs of simulate, or of a live experiment (live.runs()), got {runs!r}"
        )
    require_flag("check", check)
    definition = as_metric(metric)
    interval = interval or default_interval(interim=is_interim(runs) and definition.is_mean)
    _require_replications(runs, interval)
    request = Request(level, control, pairs, interval, simultaneous, adjust, definition.name)
    request = check_request(runs.experiment, runs.replications, request)
    if best:
        _require_comparable_with_best(request)
    measured_runs = measured(runs, definition)
    effects = (
        twin_effects(runs, request, makers)
        if request.interval_method.copies_arms
        else estimated_effects(measured_runs, request)
    )
    last = [effect for effect in effects if effect.checkpoint == runs.checkpoints[-1]]
    runs.add_look()
    seeds, reference, failures = _checked(runs, last, request) if check else (SeedCheck(), None, ())
    return Comparison(
        effects=effects if measured_runs is runs else _with_rewards(effects, runs),
        runs=runs,
        request=request,
        values=policy_metrics(measured_runs, request),
        differences=differences(measured_runs, last[0][:2], runs.checkpoints.size - 1, request),
        policies=summarise(runs),
        standings=standings(measured_runs, request) if best else (),
        failures=failures,
        check=seeds,
        violations=find_violations(runs, measured_runs, last, request, reference),
        moving_environment=moving_environment(runs.environment),
        possible_loss=possible_loss(runs),
    )


def _require_replications(runs: Runs, interval: str) -> None:
    """Raise `Invalid` if a live experiment has not completed the replications that an interval needs."""
    needed = INTERVALS.get(interval, STUDENT).needs
    if is_interim(runs) and runs.replications < needed:
        remedy = f', or use interval="{TWIN.name}", which needs one' if needed > TWIN.needs else ""
        raise Invalid(
            f"{runs.replications} of {runs.experiment.replications:,} replications are complete, and compare needs "
            f"{needed}: the replication is the unit of inference. Wait, or choose an earlier horizon with "
            f"live.runs(checkpoints=[...]){remedy}"
        )


def _require_comparable_with_best(request: Request) -> None:
    method, metric = request.interval_method, request.metric_definition
    if method.copies_arms:
        raise Invalid(f'best=True needs an interval other than "{method.name}"')
    if not metric.is_mean:
        raise Invalid(f"best=True needs a metric that is a mean, not {metric.name!r}; leave it out")


def _checked(
    runs: Runs, effects: list[Effect], request: Request
) -> tuple[SeedCheck, Runs | None, tuple[Failure, ...]]:
    """Return the check of the effects, the runs behind it, and rare failures on a copy of live arms."""
    metric, method = request.metric_definition, request.interval_method
    if runs.environment is None:
        copy = short_copy(runs)
        if copy is None:
            return SeedCheck(), None, ()
        failures, on_copy = rare_failures(copy), SeedCheck(copy.runs.replications, on_copy=True)
        if not metric.is_reward:
            return on_copy, None, failures
        are_means = method.is_of_the_mean and not method.copies_arms
        pairs = check_on(copy.runs, effects, are_means=are_means).pairs
        return on_copy._replace(pairs=pairs), copy.runs, failures
    if not metric.is_mean or all(effect.is_same_policy for effect in effects):
        return SeedCheck(), None, ()
    are_means = method.is_of_the_mean
    return *check_on_other_seeds(runs, effects, metric, are_means=are_means), ()


def _with_rewards(effects: tuple[Effect, ...], runs: Runs) -> tuple[Effect, ...]:
    """Return effects on a metric with the mean rewards beside them."""
    keys = itertools.product(runs.policies, runs.checkpoints.tolist())
    means = dict(zip(keys, runs.rewards.mean(axis=0).ravel().tolist(), strict=True))
    result = []
    for effect in effects:
        reward, control_reward = (means[name, effect.checkpoint] for name in effect[:2])
        result.append(effect._replace(reward=reward, control_reward=control_reward))
    return tuple(result)
