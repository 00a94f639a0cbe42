"""`Setting`: the form of the playground, and the question that it asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from sameluck import text_forms
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.policies.base import POLICIES
from sameluck.service.dashboard.drafts import number, whole
from sameluck.service.dashboard.findings import checkpoints_of
from sameluck.service.dashboard.playground_simulations import Question
from sameluck.service.limits import Limits

MAX_PERIODS = 100_000_000  # of all policies and replications
MAX_REPLICATIONS = 1_000
OPTIONS = {
    "arms": (2, 3, 4, 5),
    "horizon": (100, 300, 1_000, 3_000, 10_000),
    "replications": (10, 20, 50, 200),
}
OTHER = "other"


class Choice(NamedTuple):
    """A policy that the form offers."""

    policy: str  # in text form
    title: str
    rule: str


CHOICES = (
    Choice(
        "thompson_bernoulli",
        "Thompson sampling",
        "plays each arm with the probability that it is the best",
    ),
    Choice("ucb1(alpha=1)", "UCB1, alpha 1", "plays the arm with the highest upper bound"),
    Choice(
        "epsilon_greedy(epsilon=0.1)",
        "Epsilon-greedy, 0.1",
        "plays a random arm in a tenth of the periods",
    ),
    Choice("uniform", "Uniform", "plays all arms equally often"),
)

DEFAULTS = {
    "a": "ucb1(alpha=1)",
    "a_other": "",
    "b": "thompson_bernoulli",
    "b_other": "",
    "more": "",
    "arms": "3",
    "mean1": "0.7",
    "mean2": "0.5",
    "mean3": "0.3",
    "mean4": "0.3",
    "mean5": "0.3",
    "horizon": "1000",
    "replications": "20",
    "seed": "7",
}


class Setting(NamedTuple):
    """Chosen fields of the form as text."""

    fields: Mapping[str, str]

    @staticmethod
    def of(chosen: Mapping[str, str]) -> Setting:
        """Return the setting of the chosen fields, with defaults for missing fields."""
        fields = {name: chosen.get(name, value)[:2_000] for name, value in DEFAULTS.items()}
        offered = {OTHER, *(choice.policy for choice in CHOICES)}
        for side in ("a", "b"):
            if fields[side] not in offered:  # from a link; the form has a text field for it
                fields |= {side: OTHER, f"{side}_other": fields[side]}
        return Setting(fields)

    @property
    def policies(self) -> list[str]:
        """Names of the policies, which are their brief text forms; the first is the control."""
        sides = [f"{side}_other" if self.fields[side] == OTHER else side for side in ("a", "b")]
        chosen = [self.fields[side] for side in sides]
        names = []
        for text in [*chosen, *filter(str.strip, self.fields["more"].splitlines())]:
            policy = text_forms.normal_form(text_forms.parse(text, POLICIES, "policy"))
            names.append(text_forms.write(policy, brief=True))
        if repeated := {name for name in names if names.count(name) > 1}:
            raise Invalid(f"{repeated.pop()} is chosen twice; choose different policies")
        return names

    @property
    def means(self) -> list[float]:
        arms = whole("arms", self.fields["arms"])
        offered = OPTIONS["arms"]
        if arms not in offered:
            raise Invalid(f"choose {offered[0]} to {offered[-1]} arms, got {arms}")
        return [number(f"arm {k}", self.fields[f"mean{k}"]) for k in range(1, arms + 1)]

    @property
    def environment(self) -> str:
        return f"bernoulli({', '.join(f'{mean:g}' for mean in self.means)})"

    @property
    def sizes(self) -> dict[str, int]:
        names = ("horizon", "replications", "seed")
        return {name: whole(name, self.fields[name]) for name in names}

    def question(self, limits: Limits) -> Question:
        policies, means, sizes = self.policies, self.means, self.sizes
        horizon, replications = sizes["horizon"], sizes["replications"]
        limits.check_sizes(arms=len(means), policies=len(policies))
        limits.check_sizes(horizon=horizon, replications=replications)
        if not 2 <= replications <= MAX_REPLICATIONS:
            raise Invalid(f"choose 2 to {MAX_REPLICATIONS:,} replications, got {replications:,}")
        periods = horizon * replications * len(policies)
        if periods > MAX_PERIODS:
            raise Invalid(
                f"the playground simulates at most {MAX_PERIODS:,} periods, and these settings take {periods:,}; "
                "use sameluck compare, which has no such limit"
            )
        arms = [f"arm {k}" for k in range(1, len(means) + 1)]
        definition = {"policies": {name: name for name in policies}, "arms": arms, **sizes}
        experiment = Experiment.from_dict(definition)
        curve = checkpoints_of(horizon) if len(policies) == 2 else [horizon]
        return Question(experiment, self.environment, tuple(curve))

    @property
    def start_path(self) -> str:
        """Path of the form of a live experiment with the same policies; empty if there are too many policies."""
        policies, means = self.policies, self.means
        if len(policies) > 3:
            return ""
        fields = {
            "arms": ", ".join(f"arm {k}" for k in range(1, len(means) + 1)),
            "guess": ", ".join(f"{mean:g}" for mean in means),
            "horizon": self.fields["horizon"],
            "replications": self.fields["replications"],
        }
        for row, policy in enumerate(policies, 1):
            fields |= {f"policy{row}_name": policy, f"policy{row}": policy}
        return f"/new?{urlencode(fields)}"
