"""Preconditions of a simulation: a fitting environment, existing replications, enough memory."""

from __future__ import annotations

from sameluck import text_forms
from sameluck.arrays import Ints
from sameluck.design import Design
from sameluck.environments.base import Environment, EnvironmentLike
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid, TooLarge
from sameluck.experiment import Experiment, capabilities_of
from sameluck.policies.base import check_context, needs_binary


def fitted(experiment: Experiment, environment: EnvironmentLike) -> tuple[Experiment, Environment]:
    """Return the experiment, with the environment's arms if it has none, and the checked environment."""
    _require_experiment(experiment)
    environment = as_environment(environment)
    if not experiment.arms:
        if environment.arms is None:
            raise Invalid(
                f"Experiment.arms is missing: {_short(environment)} takes any number; give arms=2, for example"
            )
        experiment = experiment.replace(arms=environment.arm_names or environment.arms)
    environment.check(experiment.n_arms)  # before its context is asked for
    if experiment.context is None and environment.context is not None:
        experiment = experiment.replace(context=environment.context)
    return experiment, checked_environment(experiment, environment)


def _require_experiment(experiment: object) -> None:
    if not isinstance(experiment, Experiment):
        raise Invalid(f"the first argument must be an Experiment, got {experiment!r}")


def checked_environment(experiment: Experiment, environment: EnvironmentLike) -> Environment:
    """Return the environment, from itself or its text form; raise `Invalid` if it does not fit the experiment."""
    _require_experiment(experiment)
    environment = as_environment(environment)
    environment.check(experiment.n_arms)
    check_design(experiment.design, environment)
    _check_context(experiment, environment)
    for name, policy in experiment.policies.items():
        try:
            check_context(policy, experiment.context, experiment.n_arms)
        except Invalid as error:
            raise Invalid(f"policy {name!r}: {error}") from None
        if needs_binary(policy) and not environment.binary:
            raise Invalid(
                f"policy {name!r} ({text_forms.write(policy)}) needs rewards 0 and 1, but {_short(environment)} "
                "has others; use a policy for real-valued rewards, such as thompson_gaussian"
            )
    return environment


def _check_context(experiment: Experiment, environment: Environment) -> None:
    context, expected = experiment.context, environment.context
    if context is None or (expected is not None and context.agrees_with(expected)):
        return
    if expected is None:
        raise Invalid(
            f"Experiment.context is {context.text}, but the users of {_short(environment)} have no context; leave "
            "it out, or use an environment with contexts, such as linear or by_level"
        )
    raise Invalid(
        f"Experiment.context is {context.text}, but the users of {_short(environment)} have {expected.text}; "
        "leave it out, or give the environment's"
    )


def fits(design: Design, environment: Environment) -> bool:
    """Return whether a design is defined on an environment."""
    capabilities = capabilities_of(environment, design)
    shares_stacks = design.shares_rewards and capabilities.has_stacks
    return capabilities.is_stationary or not shares_stacks


def check_design(design: Design, environment: Environment) -> None:
    """Raise `Invalid` for shared stacks of rewards in a moving environment."""
    if not fits(design, environment):
        raise Invalid(
            f"the design {design.label} is not defined on {_short(environment)}: policies share the k-th reward of "
            "an arm and read it in different periods, so it has no period whose distribution it could have; use "
            "design='naive' or 'time_coupled', or see with sameluck.rehearse what becomes of replay on such traffic"
        )


def _short(environment: Environment) -> str:
    text = text_forms.write(environment)
    return text if len(text) <= 80 else text[:77] + "..."


def checked_replications(experiment: Experiment, replications: range | None) -> range:
    """Return the replications to run, all if not given."""
    experiment.require_replications("simulate")
    if replications is None:
        return range(experiment.replications)
    fits = (
        isinstance(replications, range)
        and replications.step == 1
        and 0 <= replications.start < replications.stop <= experiment.replications
    )
    if not fits:
        raise Invalid(
            f"replications must be a range with step 1 within 0..{experiment.replications:,} (the experiment's), "
            f"got {replications!r}"
        )
    return replications


def check_memory(experiment: Experiment, replications: int, checkpoints: Ints) -> None:
    """Raise `TooLarge` with an estimate if the results would not fit into this machine's memory."""
    policies, arms = len(experiment.policies), experiment.n_arms
    cells = replications * policies * checkpoints.size
    results = 8 * cells * (experiment.cells + arms + 2)
    tables = 64 * experiment.horizon * (policies if experiment.indexed_by_period else 1)
    needed, free = results + tables, _available_memory()
    if needed > free:
        raise TooLarge(
            f"this would need about {needed / 2**30:,.1f} GiB, and {free / 2**30:,.1f} GiB are free: "
            f"{replications:,} replications x {policies} policies x {checkpoints.size} "
            f"checkpoints x {arms} arms, horizon {experiment.horizon:,}; request fewer of them"
        )


def _available_memory() -> int:
    try:
        with open("/proc/meminfo") as lines:
            values = dict(line.split(":") for line in lines)
        return int(values["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 1 << 40
