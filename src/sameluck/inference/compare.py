"""`compare`: how much more each policy earns than the control, or how they differ in another metric."""

from __future__ import annotations

from sameluck.errors import Invalid
from sameluck.inference.comparison import Comparison
from sameluck.inference.effects import Effect, effects, is_interim
from sameluck.inference.metrics import as_metric, measured
from sameluck.inference.policy_summaries import standings
from sameluck.inference.requests import Request, check_request
from sameluck.inference.twins.for_comparisons import failures_ahead, twin_effects
from sameluck.policies.external import Makers
from sameluck.runs import Runs


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
) -> Comparison:
    """Estimate how much more each policy earns than the control, at every checkpoint.

    Where the design shares rewards, policies are compared within replications; under `naive` as independent samples.

    Args:
        runs: What `simulate` or a live experiment's `runs` returned.
        level: Confidence of the intervals.
        control: Compare with this policy instead of the experiment's control.
        pairs: `"control"`: every other policy with the control; `"all"`: every two policies; `"best"`: every
            other policy with the one that earned most, with intervals that hold although it was chosen.
        interval: `"t"`: Student's t over replications, as in the paper; `"anytime"`: valid at every look while
            replications complete; `"median"`: the median difference instead of the mean, exactly; `"bootstrap"`:
            BCa; `"twin"`: the spread that the policies show on a copy of the arms, for which one replication is
            enough (see `twin`). If not given: `"t"`, but `"anytime"` for a live experiment that has not completed
            its planned replications.
        simultaneous: What intervals, p-values and sentences hold for together: all `"pairs"` at a checkpoint (the
            default), all `"checkpoints"` of a pair, `"both"`, or `"none"`: each alone (max-t for `"t"`, Bonferroni
            for the others and for independent policies).
        best: Also report which policies may be the best of all (multiple comparisons with the best).
        adjust: Subtract noise of mean zero, for runs of `simulate(detail=True)`: `"means"` (of the rewards, where
            true means are known: in simulations) or `"exploration"` (of the policies' random choices).
        metric: What is compared: the cumulative `"reward"`; `"regret"` (pseudo-regret, against the true means),
            `"realised_regret"` (against the rewards received) or `"best_arm_share"`, in simulations; over
            replications the `"quantile(0.1)"` of the reward, or the mean reward of the `"worst_tenth"`.
        makers: For `interval="twin"`, which runs `External` policies again: as for `simulate`.
    """
    if not isinstance(runs, Runs):
        raise Invalid(
            f"compare takes the Runs of simulate, or of a live experiment (live.runs()), got {runs!r}"
        )
    interim = is_interim(runs)
    if interim and runs.replications < 2 and interval != "twin":
        raise Invalid(
            f"{runs.replications} of {runs.experiment.replications:,} replications are complete, and compare needs "
            "2: the replication is the unit of inference. Wait, choose an earlier horizon with "
            'live.runs(checkpoints=[...]), or use interval="twin", which needs one'
        )
    asked = as_metric(metric)
    default = "anytime" if interim and asked.is_mean else "t"
    request = check_request(
        runs.experiment,
        runs.replications,
        Request(level, control, pairs, interval or default, simultaneous, adjust, asked.name),
    )
    if request.interval == "twin":
        if best:
            raise Invalid('best=True needs an interval other than "twin"')
        around_mean = twin_effects(runs, request, makers)
        return Comparison(around_mean, runs, request, (), failures_ahead(runs))
    if best and not asked.is_mean:
        raise Invalid(f"best=True needs a metric that is a mean, not {asked.name!r}; leave it out")
    values = measured(runs, asked)
    ranked = standings(values, request) if best else ()
    found = effects(values, request)
    if values is not runs:
        found = _with_rewards(found, runs)
    return Comparison(found, runs, request, ranked, failures_ahead(runs))


def _with_rewards(found: tuple[Effect, ...], runs: Runs) -> tuple[Effect, ...]:
    """Effects on a metric with the mean rewards beside them."""
    means = runs.rewards.mean(axis=0)
    places = {int(checkpoint): index for index, checkpoint in enumerate(runs.checkpoints)}

    def mean(policy: str, checkpoint: int) -> float:
        return float(means[runs.policies.index(policy), places[checkpoint]])

    return tuple(
        one._replace(
            reward=mean(one.policy, one.checkpoint),
            control_reward=mean(one.control, one.checkpoint),
        )
        for one in found
    )
