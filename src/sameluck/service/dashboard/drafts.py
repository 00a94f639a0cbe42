"""`Draft`: an experiment as the fields of a form, and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sameluck.environments.discrete import Bernoulli
from sameluck.errors import Invalid, shown
from sameluck.experiment import Experiment
from sameluck.inference import Plan, plan
from sameluck.service.limits import Limits

PILOT = 100  # simulated replications
MAX_PERIODS = 5_000_000  # that a preview simulates
POLICY_ROWS = 3  # in the form

DEFAULTS = {
    "name": "",
    "arms": "red, green, blue",
    "policy1_name": "control",
    "policy1": "ucb1",
    "policy2_name": "challenger",
    "policy2": "thompson_bernoulli",
    "policy3_name": "",
    "policy3": "",
    "horizon": "200",
    "replications": "30",
    "window": "3600",
    "guess": "0.5, 0.4, 0.3",
    "arrivals": "1000",
}


class Draft(NamedTuple):
    """Fields of the form as text."""

    fields: Mapping[str, str]

    @staticmethod
    def of(typed: Mapping[str, str]) -> Draft:
        """Return the draft of the typed fields, with defaults for missing fields."""
        return Draft({name: typed.get(name, value)[:2_000] for name, value in DEFAULTS.items()})

    @property
    def arms(self) -> list[str]:
        return items(self.fields["arms"])

    @property
    def policies(self) -> dict[str, str]:
        """Policies in text form; the first is the control."""
        rows = [
            (self.fields[f"policy{row}_name"].strip(), self.fields[f"policy{row}"].strip())
            for row in range(1, POLICY_ROWS + 1)
        ]
        filled = [(name, policy) for name, policy in rows if name or policy]
        if len({name for name, _ in filled}) < len(filled):
            raise Invalid("two policies have the same name; give each policy its own name")
        return dict(filled)

    def document(self) -> dict[str, Any]:
        """Return the body of `POST /v1/experiments`, which checks it."""
        window = number("seconds until a reward counts as 0", self.fields["window"])
        return {
            "name": self.fields["name"].strip(),
            "policies": self.policies,
            "arms": self.arms,
            "horizon": whole("periods", self.fields["horizon"]),
            "replications": whole("replications", self.fields["replications"]),
            "live": {"reward": {"min": 0, "max": 1, "window_seconds": window}},
        }

    def experiment(self, limits: Limits) -> Experiment:
        keys = ("arms", "policies", "horizon", "replications")
        values = {key: value for key, value in self.document().items() if key in keys}
        sizes = {
            key: value if isinstance(value, int) else len(value) for key, value in values.items()
        }
        limits.check_sizes(**sizes)
        return Experiment.from_dict(values)

    def plan(self, limits: Limits) -> Plan:
        """Return the plan, from a simulation in which the arms have the guessed means."""
        experiment = self.experiment(limits)
        periods = PILOT * experiment.horizon * len(experiment.policies)
        if periods > MAX_PERIODS:
            raise Invalid(
                f"a preview simulates at most {MAX_PERIODS:,} periods, and this one takes {periods:,}; use sl.plan"
            )
        guess = [number("a guessed mean reward", item) for item in items(self.fields["guess"])]
        if len(guess) != experiment.n_arms:
            message = f"guess the mean reward of each of the {experiment.n_arms} arms, got {len(guess)} numbers"
            raise Invalid(message)
        return plan(
            experiment,
            Bernoulli(guess),
            replications=experiment.replications,
            pilot=PILOT,
            arrivals_per_day=number("users per day", self.fields["arrivals"]),
        )


def items(text: str) -> list[str]:
    """Return the items of a field that commas separate."""
    return [item.strip() for item in text.split(",") if item.strip()]


def whole(name: str, text: str) -> int:
    """Return the whole number of a field, or raise `Invalid`."""
    try:
        return int(text.replace(",", ""))
    except ValueError:
        raise Invalid(f"{name} must be a whole number, got {shown(text)}") from None


def number(name: str, text: str) -> float:
    """Return the number of a field, or raise `Invalid`."""
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"{name} must be a number, got {shown(text)}") from None
