"""`Experiment`: the frozen definition of a comparison, checked on construction; `Capabilities` of its rewards."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Ints
from sameluck.context import Context, as_context
from sameluck.design import Design, Replay, as_design
from sameluck.environments.base import Environment
from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.policies.base import Policy
from sameluck.policies.registry import as_policy
from sameluck.randomness import streams
from sameluck.validation import is_whole, require_fields, require_name, require_whole

MAX_COUNT = 1 << 40  # of periods or replications


class ExperimentRecord(TypedDict):
    """Experiment as plain values for JSON and TOML; policies and the design are text forms."""

    policies: dict[str, str]
    arms: NotRequired[int | list[str]]  # missing until it is known
    horizon: int
    replications: NotRequired[int]  # likewise
    design: str
    control: str
    seed: int
    context: NotRequired[str]  # missing without contexts


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Definition of a comparison: policies, periods, replications and the design.

    Args:
        policies: Name -> policy (or its text form). A policy's random numbers are keyed by its name: adding, removing
            or reordering policies leaves the others' results unchanged, to the bit.
        arms: How many arms, or their names. If not given, as many as the environment has in which it is simulated;
            0 until then.
        horizon: Periods in a replication.
        replications: Independent repetitions; the unit of all inference. `plan` does without; 0 if not given.
        design: `Naive()`, `Replay()`, `TimeCoupled()` or its text form.
        control: The policy the others are compared with; the first if not given.
        seed: 0 to 2^64 - 1. The same seed gives the same bits on any number of workers.
        context: What is known of a user before an arm is chosen: `Features(3)`, `Levels(2)` or its text form. If not
            given, the context of the environment in which it is simulated; None without contexts.
    """

    policies: Mapping[str, Policy]
    arms: int | tuple[str, ...] = None  # type: ignore[assignment]  # 0 then
    horizon: int
    replications: int = None  # type: ignore[assignment]  # 0 then
    design: Design = Replay()  # noqa: RUF009 it is immutable
    control: str = ""
    seed: int = 0
    context: Context | None = None

    def __post_init__(self) -> None:
        """Check every field and bring it to one form."""
        self._set("arms", 0 if self.arms is None else _checked_arms(self.arms))
        arms = self.n_arms if self.arms else None
        self._set("policies", MappingProxyType(_checked_policies(self.policies, arms)))
        self._set("horizon", require_whole("Experiment.horizon", self.horizon, 1, MAX_COUNT))
        replications = 0
        if self.replications is not None:
            replications = require_whole("Experiment.replications", self.replications, 1, MAX_COUNT)
        self._set("replications", replications)
        self._set("design", as_design(self.design))
        if self.context is not None:
            self._set("context", as_context(self.context))
        self._set("seed", require_whole("Experiment.seed", self.seed, 0, 2**64 - 1))
        if self.control is None or (isinstance(self.control, str) and not self.control):
            self._set("control", next(iter(self.policies)))
        if not isinstance(self.control, str) or self.control not in self.policies:
            hint = did_you_mean(str(self.control), self.policies)
            raise Invalid(
                f"Experiment.control {shown(self.control)} is not one of its policies; {hint}"
            )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def n_arms(self) -> int:
        """Number of arms; raises `Invalid` while it is unknown."""
        if not self.arms:
            raise Invalid(
                "Experiment.arms is not known here: give arms=2, for example, or their names"
            )
        return self.arms if isinstance(self.arms, int) else len(self.arms)

    @property
    def indexed_by_period(self) -> bool:
        """Whether rewards are indexed by period: by the design, or because every user is a cell of its own."""
        by_context = self.context is not None and self.context.indexed_by_period
        return self.design.indexed_by_period or by_context

    @property
    def counts_pairs(self) -> bool:
        """Whether real users are counted as distinct pairs of period and cell."""
        return self.indexed_by_period and self.design.shares_rewards

    @property
    def cells(self) -> int:
        """Number of stacks of rewards: arms, or pairs of level and arm."""
        return self.n_arms if self.context is None else self.context.cells(self.n_arms)

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Names of the arms; their indices as text if only a count was given."""
        return tuple(map(str, range(self.n_arms))) if isinstance(self.arms, int) else self.arms

    def replace(self, **changes: object) -> Experiment:
        """Return the same experiment with some fields changed, checked again.

        A control that is no longer among the policies is replaced by the first of them.
        """
        values = require_fields(
            "Experiment.replace", {**self._fields(), **changes}, [*self._fields()]
        )
        policies = values["policies"]
        kept = isinstance(policies, Mapping) and self.control in policies
        if "control" not in changes and not kept:
            values = {**values, "control": ""}
        return Experiment(**values)

    def require_replications(self, function: str) -> int:
        """Return the number of replications; raise `Invalid` if it was not given to a function that needs it."""
        if not self.replications:
            raise Invalid(
                f"{function} needs Experiment.replications, which was left out: give it, or use "
                "experiment.replace(replications=100); plan and race find it"
            )
        return self.replications

    def _fields(self) -> dict[str, Any]:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        optional = {"arms": self.arms or None, "replications": self.replications or None}
        return {**values, **optional, "policies": dict(self.policies)}

    def __repr__(self) -> str:
        known = {name: value for name, value in self._fields().items() if value is not None}
        return f"Experiment({', '.join(f'{name}={value!r}' for name, value in known.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Callable[[], Experiment], tuple[()]]:
        return partial(Experiment, **self._fields()), ()

    @property
    def digest(self) -> str:
        """Stable fingerprint of the definition and of the stream version."""
        text = json.dumps([streams.VERSION, self.to_dict()], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> ExperimentRecord:
        """Return plain values, as in JSON and TOML."""
        policies = {name: text_forms.write(policy) for name, policy in self.policies.items()}
        values: ExperimentRecord = {
            "policies": policies,
            "arms": self.arms if isinstance(self.arms, int) else list(self.arms),
            "horizon": self.horizon,
            "replications": self.replications,
            "design": text_forms.write(self.design),
            "control": self.control,
            "seed": self.seed,
        }
        if self.context is not None:
            values["context"] = self.context.text
        if not self.arms:
            del values["arms"]
        if not self.replications:
            del values["replications"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Experiment:
        """Return the experiment that `to_dict` described."""
        fields_by_name = require_fields(
            "an experiment", values, [item.name for item in fields(cls)]
        )
        required = ("policies", "arms", "horizon", "replications")
        if needed := [name for name in required if fields_by_name.get(name) is None]:
            raise Invalid(f"an experiment needs {', '.join(needed)}")
        return cls(**fields_by_name)

    def to_json(self) -> str:
        """Return the experiment as a JSON object."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """Return the experiment that `to_json` wrote."""
        try:
            values = json.loads(text, object_pairs_hook=_without_repeats)
        except Invalid:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            raise Invalid(f"not valid JSON: {error}") from None
        return cls.from_dict(values)

    def to_toml(self) -> str:
        """Return the experiment as a TOML document."""
        values = self.to_dict()
        policies = [f"{_toml(name)} = {_toml(text)}" for name, text in values["policies"].items()]
        settings = [
            f"{name} = {_toml(value)}" for name, value in values.items() if name != "policies"
        ]
        return "\n".join([*settings, "", "[policies]", *policies, ""])

    @classmethod
    def from_toml(cls, text: str) -> Experiment:
        """Return the experiment that `to_toml` wrote."""
        return cls.from_dict(read_toml(text))


class Capabilities(NamedTuple):
    """Properties of rewards that decide which questions have an answer.

    Metrics, adjustments, twins, plans and live experiments ask here, and nowhere else compare classes of environments
    or designs.
    """

    is_simulated: bool  # the environment is known: its rewards can be read and simulated again
    has_arm_means: bool  # each arm has one true mean in a replication, and it is known
    has_instances: bool  # each replication has its own arms, drawn from a prior
    is_stationary: bool  # an arm's distribution does not move; assumed of real users
    has_stacks: bool  # the k-th reward of a cell is one entry, in whatever period it is read
    has_contexts: bool  # what is known of a user decides the distribution of the rewards

    @property
    def is_iid(self) -> bool:
        """Return whether the rewards of an arm are i.i.d. over periods and replications."""
        return self.is_stationary and not self.has_instances and not self.has_contexts


def capabilities_of(environment: Environment | None, design: Design | None = None) -> Capabilities:
    """Return the capabilities of an environment, None for real users, under a design."""
    is_stationary = environment is None or not environment.is_moving
    context = None if environment is None else environment.context
    by_period = context is not None and context.indexed_by_period
    return Capabilities(
        is_simulated=environment is not None,
        has_arm_means=environment is not None and is_stationary and context is None,
        has_instances=environment is not None and environment.is_prior,
        is_stationary=is_stationary,
        has_stacks=not by_period and (design is None or not design.indexed_by_period),
        has_contexts=context is not None,
    )


def require_experiment(function: str, experiment: object) -> None:
    """Raise `Invalid` unless the first argument of a function is an `Experiment`."""
    if not isinstance(experiment, Experiment):
        raise Invalid(f"{function} needs an Experiment first, got {shown(experiment)}")


def checked_checkpoints(experiment: Experiment, checkpoints: Sequence[int] | None) -> Ints:
    """Return the horizons to report, ascending, each once."""
    if checkpoints is None:
        return np.array([experiment.horizon], np.int64)
    try:
        values = np.asarray(list(checkpoints))
    except (TypeError, ValueError):
        values = np.array("")
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iu":
        raise Invalid(f"checkpoints must be a list of whole numbers, got {shown(checkpoints)}")
    for value in values:
        if not 1 <= value <= experiment.horizon:
            raise Invalid(
                f"checkpoint {value} is outside 1..{experiment.horizon:,} (the experiment's horizon)"
            )
    return np.unique(values).astype(np.int64)


def read_toml(text: str) -> dict[str, object]:
    """Return the values of a TOML document; raise `Invalid` with the position of an error."""
    if not isinstance(text, str):
        raise Invalid(f"TOML must be text, got {shown(text)}")
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Invalid(f"not valid TOML: {error}") from None


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    repeated = _first_repeated(name for name, _ in pairs)
    if repeated is not None:
        raise Invalid(f"{repeated!r} appears twice in one object; names must differ")
    return dict(pairs)


def _toml(value: object) -> str:
    # JSON and TOML agree on numbers, lists and strings, except that TOML also escapes DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _checked_arms(arms: object) -> int | tuple[str, ...]:
    if isinstance(arms, str) or not isinstance(arms, Iterable) or is_whole(arms):
        return require_whole("Experiment.arms", arms, 2, streams.SLOTS)
    names = tuple(arms)
    for name in names:
        require_name("an arm's name", name)
    repeated = _first_repeated(names)
    if repeated is not None:
        raise Invalid(f"Experiment.arms names {repeated!r} twice; arms need different names")
    require_whole("the number of Experiment.arms", len(names), 2, streams.SLOTS)
    return names


def _checked_policies(policies: object, arms: int | None) -> dict[str, Policy]:
    if not isinstance(policies, Mapping):
        raise Invalid(f"Experiment.policies must map names to policies, got {shown(policies)}")
    if not policies:
        raise Invalid("Experiment.policies is empty; name at least one policy")
    checked = {}
    for name, policy in policies.items():
        require_name("a policy's name", name)
        try:
            checked[name] = as_policy(policy, arms)
        except Invalid as error:
            raise type(error)(f"policy {name!r}: {error}") from error
    return checked


def _first_repeated(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)
