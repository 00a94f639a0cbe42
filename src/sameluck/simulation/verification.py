"""`check_policy` and `difference_from_rerun`: whether a policy and saved runs are what comparisons rely on."""

from __future__ import annotations

import numpy as np

from sameluck import text_forms
from sameluck.environments.base import EnvironmentLike
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.policies.base import POLICIES, Policy
from sameluck.policies.external import Makers
from sameluck.policies.registry import as_policy
from sameluck.runs import Runs
from sameluck.simulation.simulate import Progress, simulate
from sameluck.simulation.trace import trace
from sameluck.validation import require_whole

_ARRAYS = ("rewards", "pulls", "interactions", "totals", "exploration_excess")


def check_policy(
    policy: Policy | str,
    *,
    arms: int = 3,
    horizon: int = 250,
    environment: EnvironmentLike = "bernoulli_prior",
    makers: Makers | None = None,
) -> None:
    """Raise `Invalid`, or `AddressReused`, unless a policy keeps the rules that comparisons rely on.

    Its parameters are valid and survive its text form. In every period it chooses an arm that exists. It is a
    function of its seed and its rewards: a second run repeats the first, compiled code gives the arms of plain
    Python, no random number is read twice, and its functions use no clock and no global randomness. The probabilities
    it states, if any, are probabilities under which the arms it played are possible.

    Args:
        policy: The policy, or its text form.
        arms: How many arms.
        horizon: How many periods are run, each in plain Python too.
        environment: Where rewards come from; Bernoulli arms whose means are drawn uniformly if not given.
        makers: As in `simulate`, for an `External` policy.
    """
    checked = as_policy(policy, require_whole("arms", arms, 2))
    _check_text_form(checked)
    experiment = Experiment(
        policies={"policy": checked}, arms=arms, horizon=horizon, replications=2
    )
    trace(experiment, environment, guard=True, makers=makers)
    simulate(experiment, environment, detail=True, makers=makers)


def _check_text_form(policy: Policy) -> None:
    text = text_forms.write(policy)
    try:
        read = text_forms.normal_form(text_forms.parse(text, POLICIES, "policy"), POLICIES)
    except Invalid as error:
        raise Invalid(
            f"{policy!r} has the text form {text!r}, which cannot be read: {error}"
        ) from None
    if type(read) is not type(policy) or read != policy:
        raise Invalid(
            f"{policy!r} has the text form {text!r}, which is read as {read!r}; use numbers, words, lists of "
            "them, None and other policies as parameters"
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
        detail=runs.totals is not None,
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
