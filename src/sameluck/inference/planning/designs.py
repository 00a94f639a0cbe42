"""`designs`: the same comparison under several designs, with the precision and the users of each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from sameluck.design import Design, Naive, Replay, TimeCoupled, as_design
from sameluck.environments.base import EnvironmentLike
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment, require_experiment
from sameluck.inference.compare import compare
from sameluck.inference.planning.design_results import DesignComparison
from sameluck.policies.external import Makers
from sameluck.simulation.preconditions import fits
from sameluck.simulation.simulate import ProgressLike, simulate


def designs(
    experiment: Experiment,
    environment: EnvironmentLike,
    *,
    designs: Iterable[Design | str] | None = None,
    level: float = 0.95,
    checkpoints: list[int] | None = None,
    workers: int | None = None,
    progress: ProgressLike | None = None,
    makers: Makers | None = None,
) -> DesignComparison:
    """Run the same comparison under several designs, to measure what sharing rewards saves.

    Args:
        experiment: What to compare; its own design is not used.
        environment: Where rewards come from, or its text form.
        designs: Which designs, or their text forms; those that are defined on the environment if not given.
        level: Confidence of the intervals.
        checkpoints: Horizons to report.
        workers: As for `simulate`.
        progress: As for `simulate`, once for each design.
        makers: As for `simulate`.
    """
    require_experiment("designs", experiment)
    if designs is None:
        environment = as_environment(environment)
        designs = [one for one in (Naive(), TimeCoupled(), Replay()) if fits(one, environment)]
    if isinstance(designs, str) or not isinstance(designs, Iterable):
        raise Invalid(f"designs must be a list of designs, got {designs!r}")
    by_label = {one.label: one for one in map(as_design, designs)}
    if not by_label:
        raise Invalid("designs needs at least one design")
    run = partial(
        simulate, checkpoints=checkpoints, workers=workers, progress=progress, makers=makers
    )
    results = {
        label: compare(run(experiment.replace(design=design), environment), level=level)
        for label, design in by_label.items()
    }
    return DesignComparison(results)
