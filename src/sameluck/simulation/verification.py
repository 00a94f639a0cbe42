"""`check_policy`, `check_environment` and `difference_from_rerun`: checks of what comparisons rely on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sameluck import text_forms
from sameluck.design import Naive
from sameluck.environments.base import ENVIRONMENTS, EnvironmentLike
from sameluck.environments.registry import as_environment
from sameluck.environments.stated_means import check_means
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.policies.base import POLICIES, Policy, check_context
from sameluck.policies.external import Makers
from sameluck.policies.registry import as_policy
from sameluck.policies.simple import Uniform
from sameluck.runs import POLICY_ARRAYS, Runs
from sameluck.simulation.simulate import Progress, simulate
from sameluck.simulation.trace import trace
from sameluck.validation import require_whole

CHECKED_DRAWS, CHECKED_SECONDS = 1_000_000, 2.0
_DEFAULT_ENVIRONMENTS = (
    "bernoulli_prior",
    "logistic_prior(3)",
    "logistic_prior(3, shared=true)",
    "by_level(bernoulli_prior(a=1), bernoulli_prior(a=1))",
)
_ARRAYS = ("rewards", "interactions", *POLICY_ARRAYS[1:])


def check_policy(
    policy: Policy | str,
    *,
    arms: int = 3,
    horizon: int = 250,
    environment: EnvironmentLike | None = None,
    makers: Makers | None = None,
) -> None:
    """Raise `Invalid`, or `AddressReused`, unless a policy keeps the rules that comparisons rely on.

    Its parameters are valid and survive its text form. In every period it chooses an arm that exists. It is a
    function of its seed and its rewards: a second run repeats the first, compiled code gives the arms of plain
    Python, no random number is read twice, and its functions use no clock and no global randomness.

    Args:
        policy: The policy, or its text form.
        arms: How many arms.
        horizon: How many periods are run, each in plain Python too.
        environment: Where rewards come from. If not given, Bernoulli arms whose means are drawn uniformly; for a
            policy that needs contexts, users with features or levels.
        makers: As in `simulate`, for an `External` policy.
    """
    checked = as_policy(policy, require_whole("arms", arms, 2))
    _check_text_form(checked, POLICIES, "policy")
    experiment = Experiment(
        policies={"policy": checked}, arms=arms, horizon=horizon, replications=2
    )
    world = as_environment(environment or _default_environment(checked, arms))
    trace(experiment, world, guard=True, makers=makers)
    simulate(experiment, world, makers=makers)


def _default_environment(policy: Policy, arms: int) -> str:
    for text in _DEFAULT_ENVIRONMENTS:
        try:
            check_context(policy, as_environment(text).context, arms)
        except Invalid:
            continue
        return text
    return _DEFAULT_ENVIRONMENTS[0]  # which refuses the policy with the reason


def check_environment(
    environment: EnvironmentLike, *, arms: int | None = None, horizon: int = 250
) -> None:
    """Raise `Invalid` unless an environment keeps the rules that simulations rely on.

    Its parameters are valid and survive its text form. Its rewards are a function of its parameters and of random
    bits: a second run repeats the first, and compiled code gives the rewards of plain Python. The stated means are
    those of a million draws per arm, up to chance (false alarm 1e-9; docs/guide.md has the heavy tails). If it moves,
    its means in the first, the middle and the last period are checked.

    Args:
        environment: The environment, or its text form.
        arms: How many arms; the environment's number, or 3 if any number fits.
        horizon: How many periods are run, each in plain Python too.
    """
    checked = as_environment(environment)
    _check_text_form(checked, ENVIRONMENTS, "environment")
    count = (checked.arms or 3) if arms is None else require_whole("arms", arms, 1)
    experiment = Experiment(
        policies={"uniform": Uniform()}, arms=count, horizon=horizon, replications=2, design=Naive()
    )
    trace(experiment, checked, guard=True)
    phases = (*checked.moves_between, checked) if checked.is_moving else (checked,)
    for phase in phases:
        check_means(phase, count, horizon, draws=CHECKED_DRAWS, seconds=CHECKED_SECONDS)


def _check_text_form(value: object, registry: Mapping[str, type[object]], noun: str) -> None:
    text = text_forms.write(value)
    try:
        read = text_forms.normal_form(text_forms.parse(text, registry, noun), registry)
    except Invalid as error:
        raise Invalid(
            f"{value!r} has the text form {text!r}, which cannot be read: {error}"
        ) from None
    if type(read) is not type(value) or read != value:
        raise Invalid(
            f"{value!r} has the text form {text!r}, which is read as {read!r}; use numbers, words, lists of "
            "them, None and other policies or environments as parameters"
        )


def difference_from_rerun(
    runs: Runs, *, workers: int | None = None, progress: Progress | None = None
) -> str | None:
    """Simulate runs again from what they hold; return the first difference as a sentence, None for equal bits."""
    if runs.environment is None:
        raise Invalid(
            "these runs have no environment: they are of a live experiment, whose ledger "
            "`sameluck live doctor` checks"
        )
    again = simulate(
        runs.experiment,
        runs.environment,
        checkpoints=runs.checkpoints.tolist(),
        replications=range(runs.first, runs.first + runs.replications),
        workers=workers,
        progress=progress,
    )
    for name in _ARRAYS:
        saved, new = getattr(runs, name), getattr(again, name)
        if saved is not None and saved.tobytes() != new.tobytes():
            return _sentence(runs, name, np.argwhere(~np.equal(saved, new)))
    return None


def _sentence(runs: Runs, name: str, indices: np.ndarray) -> str:
    word = name.replace("_", " ")
    if not len(indices):
        return f"{word} differ in the sign of a zero or in their type"
    first = [runs.first + int(indices[0][0]), *map(int, indices[0][1:])]
    policy = "" if name == "interactions" else f" of policy {runs.policies[first.pop(1)]!r}"
    count = f"{len(indices):,} of {getattr(runs, name).size:,} {word} differ"
    return f"{count}, first in replication {first[0]}{policy} at checkpoint {runs.checkpoints[first[1]]}"
