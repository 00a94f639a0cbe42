"""`Draft`: an experiment as the fields of a form, and what it would take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sameluck.environments.discrete import Bernoulli
from sameluck.errors import Invalid, shown
from sameluck.experiment import Experiment
from sameluck.inference import Plan, plan
from sameluck.service.limits import Limits

PILOT = 100  # simulated replications
MOST_PERIODS = 5_000_000  # that a preview simulates
ROWS = 3  # policies in the form

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
    """The fields of the form, as they were typed."""

    fields: Mapping[str, str]

    @staticmethod
    def of(typed: Mapping[str, str]) -> Draft:
        """The draft of what was typed, with defaults where nothing was."""
        return Draft({name: typed.get(name, value)[:2_000] for name, value in DEFAULTS.items()})

    @property
    def arms(self) -> list[str]:
        """The names of the arms."""
        return items(self.fields["arms"])

    @property
    def policies(self) -> dict[str, str]:
        """The policies in text form; the first is the control."""
        rows = [
            (self.fields[f"policy{row}_name"].strip(), self.fields[f"policy{row}"].strip())
            for row in range(1, ROWS + 1)
        ]
        given = [(name, policy) for name, policy in rows if name or policy]
        if len({name for name, _ in given}) < len(given):
            raise Invalid("each policy needs a name of its own")
        return dict(given)

    def document(self) -> dict[str, Any]:
        """The body of `POST /v1/experiments`; it is checked there."""
        window = number("the window of rewards", self.fields["window"])
        return {
            "name": self.fields["name"].strip(),
            "policies": self.policies,
            "arms": self.arms,
            "horizon": whole("periods", self.fields["horizon"]),
            "replications": whole("replications", self.fields["replications"]),
            "live": {"reward": {"min": 0, "max": 1, "window_seconds": window}},
        }

    def experiment(self, limits: Limits) -> Experiment:
        """The experiment, checked."""
        body = self.document()
        sizes = len(body["arms"]), len(body["policies"]), body["horizon"], body["replications"]
        limits.check_experiment(*sizes)
        keys = ("policies", "arms", "horizon", "replications")
        return Experiment.from_dict({key: body[key] for key in keys})

    def plan(self, limits: Limits) -> Plan:
        """What it would take, by a simulation in which the arms pay as guessed."""
        experiment = self.experiment(limits)
        periods = PILOT * experiment.horizon * len(experiment.policies)
        if periods > MOST_PERIODS:
            raise Invalid(
                f"a preview simulates at most {MOST_PERIODS:,} periods, and this takes {periods:,}; use sl.plan"
            )
        guess = [number("a guess", item) for item in items(self.fields["guess"])]
        if len(guess) != experiment.n_arms:
            raise Invalid(
                f"guess what each of the {experiment.n_arms} arms pays, got {len(guess)} numbers"
            )
        return plan(
            experiment,
            Bernoulli(guess),
            replications=experiment.replications,
            pilot=PILOT,
            arrivals_per_day=number("users a day", self.fields["arrivals"]),
        )


def items(text: str) -> list[str]:
    """What commas separate in a field."""
    return [item.strip() for item in text.split(",") if item.strip()]


def whole(what: str, text: str) -> int:
    """The whole number of a field, or `Invalid`."""
    try:
        return int(text.replace(",", ""))
    except ValueError:
        raise Invalid(f"{what}: a whole number is needed, got {shown(text)}") from None


def number(what: str, text: str) -> float:
    """The number of a field, or `Invalid`."""
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"{what}: a number is needed, got {shown(text)}") from None
