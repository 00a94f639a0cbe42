"""The playground: the fields of its form, and what a simulation of them found."""

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
from sameluck.service.dashboard.simulations import Question
from sameluck.service.limits import Limits

MOST_PERIODS = 100_000_000  # of all policies and replications
MOST_REPLICATIONS = 1_000
ARMS = (2, 3, 4, 5)
HORIZONS = (100, 300, 1_000, 3_000, 10_000)
REPLICATIONS = (10, 20, 50, 200)
OTHER = "other"


class Choice(NamedTuple):
    """A policy that the form offers."""

    policy: str  # in text form
    title: str
    rule: str


CHOICES = (
    Choice(
        "thompson_bernoulli", "Thompson sampling", "plays arms as often as they may be the best"
    ),
    Choice("ucb1(alpha=1)", "UCB1, alpha 1", "plays the arm with the highest upper bound"),
    Choice(
        "epsilon_greedy(epsilon=0.1)",
        "Epsilon-greedy, 0.1",
        "plays at random in a tenth of periods",
    ),
    Choice("uniform", "Uniform", "plays every arm as often"),
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
    """The fields of the form, as they were chosen."""

    fields: Mapping[str, str]

    @staticmethod
    def of(chosen: Mapping[str, str]) -> Setting:
        """The setting of what was chosen, with defaults where nothing was."""
        fields = {name: chosen.get(name, value)[:2_000] for name, value in DEFAULTS.items()}
        known = {OTHER, *(choice.policy for choice in CHOICES)}
        for side in ("a", "b"):
            if fields[side] not in known:  # by a link: the form has a field for it
                fields |= {side: OTHER, f"{side}_other": fields[side]}
        return Setting(fields)

    @property
    def policies(self) -> list[str]:
        """The policies by their text forms in brief, which are their names; the first is the control."""
        chosen = [
            self.fields[f"{side}_other"] if self.fields[side] == OTHER else self.fields[side]
            for side in ("a", "b")
        ]
        names = []
        for text in [*chosen, *filter(str.strip, self.fields["more"].splitlines())]:
            policy = text_forms.normal_form(text_forms.parse(text, POLICIES, "policy"))
            names.append(text_forms.write(policy, brief=True))
        if twice := {name for name in names if names.count(name) > 1}:
            raise Invalid(f"{twice.pop()} is chosen twice; a comparison needs different policies")
        return names

    @property
    def means(self) -> list[float]:
        """What each arm pays on average."""
        arms = whole("arms", self.fields["arms"])
        if arms not in ARMS:
            raise Invalid(f"arms: from {ARMS[0]} to {ARMS[-1]}, got {arms}")
        return [number(f"arm {k}", self.fields[f"mean{k}"]) for k in range(1, arms + 1)]

    @property
    def environment(self) -> str:
        """The environment in text form."""
        return f"bernoulli({', '.join(f'{mean:g}' for mean in self.means)})"

    @property
    def sizes(self) -> dict[str, int]:
        """Periods, replications and seed."""
        return {
            name: whole(name, self.fields[name]) for name in ("horizon", "replications", "seed")
        }

    def question(self, limits: Limits) -> Question:
        """What is to be simulated, checked."""
        policies, means, sizes = self.policies, self.means, self.sizes
        horizon, replications = sizes["horizon"], sizes["replications"]
        limits.check_experiment(len(means), len(policies), horizon, replications)
        if not 2 <= replications <= MOST_REPLICATIONS:
            raise Invalid(f"replications: from 2 to {MOST_REPLICATIONS:,}, got {replications:,}")
        periods = horizon * replications * len(policies)
        if periods > MOST_PERIODS:
            raise Invalid(
                f"the playground simulates at most {MOST_PERIODS:,} periods, and this takes {periods:,}; "
                "sameluck compare has no such limit"
            )
        arms = [f"arm {k}" for k in range(1, len(means) + 1)]
        definition = {"policies": {name: name for name in policies}, "arms": arms, **sizes}
        experiment = Experiment.from_dict(definition)
        curve = checkpoints_of(horizon) if len(policies) == 2 else [horizon]
        return Question(experiment, self.environment, tuple(curve))

    @property
    def start_path(self) -> str:
        """The form of a live experiment with the same policies; empty if it has no room for them."""
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
