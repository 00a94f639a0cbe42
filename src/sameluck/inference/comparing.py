"""`compare`: how much more each policy earns than the control."""

from __future__ import annotations

from sameluck.errors import Invalid
from sameluck.inference.cautions import is_interim
from sameluck.inference.comparison import Comparison
from sameluck.inference.effects import Request, check_request, effects
from sameluck.inference.policy_summaries import standings
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
    default = "anytime" if interim else "t"
    request = check_request(
        runs.experiment,
        runs.replications,
        Request(level, control, pairs, interval or default, simultaneous, adjust),
    )
    if request.interval == "twin":
        if best:
            raise Invalid('best=True needs an interval other than "twin"')
        around_mean = twin_effects(runs, request, makers)
        return Comparison(around_mean, runs, request, (), failures_ahead(runs))
    ranked = standings(runs, request) if best else ()
    return Comparison(effects(runs, request), runs, request, ranked, failures_ahead(runs))
