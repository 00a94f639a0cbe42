"""Definition of a live experiment: the policies in the database, and this process's code for them."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from sameluck.design import Design
from sameluck.errors import Diverged, Invalid, OtherVersion, SameluckError
from sameluck.experiment import Experiment, ExperimentRecord
from sameluck.live.calls.settings import this_process
from sameluck.live.databases.rows import DefinitionRow
from sameluck.live.engine.fingerprints import UNKNOWN, fingerprint
from sameluck.live.engine.protocol import Engine
from sameluck.live.engine.replication import Scheduler
from sameluck.live.options import LiveOptions, Makers, check_design
from sameluck.policies.base import needs_binary
from sameluck.policies.external import External, maker_of

_log = logging.getLogger("sameluck")


class PolicyRecord(NamedTuple):
    """Stored facts about a policy beside its definition."""

    owner: int  # of its own stacks, if the policies do not share stacks
    fingerprint: str = UNKNOWN
    added: bool = False  # after the start
    removed: bool = False
    binary: bool = False  # takes only rewards 0 and 1


Records = dict[str, PolicyRecord]


def read_records(row: DefinitionRow) -> Records:
    """Return the records of all policies, including removed policies.

    An experiment that was started before there were records has stack owners in the order of its policies.
    """
    names = json.loads(row.definition)["policies"]
    first = {name: PolicyRecord(owner) for owner, name in enumerate(names, start=1)}
    stored = json.loads(row.fingerprints)
    return first | {name: PolicyRecord(**values) for name, values in stored.items()}


def records_text(records: Mapping[str, PolicyRecord]) -> str:
    return json.dumps({name: record._asdict() for name, record in records.items()})


def engine_class(design: Design) -> type[Scheduler]:
    """Return the class of a design's engines; raise `Invalid` if live experiments have none."""
    check_design(design)
    return Scheduler


def engine_of(
    experiment: Experiment,
    options: LiveOptions,
    makers: Makers,
    stack_owners: Mapping[str, int] | None = None,
    unread_stack_owners: Collection[int] = (),
) -> Engine:
    """Return an engine of the class of the experiment's design; the arguments are those of `Scheduler`."""
    make = engine_class(experiment.design)
    return make(experiment, options, makers, stack_owners, unread_stack_owners)


def arms_of(experiment: Experiment, cells: Iterable[int]) -> list[int]:
    """Return the arms of cells, in order."""
    arm_of = engine_class(experiment.design).arm_of
    return sorted({arm_of(experiment, cell) for cell in cells})


class Definition:
    """Definition of an experiment at one time; its policies are prepared when they are first run."""

    def __init__(self, row: DefinitionRow, options: LiveOptions, makers: Makers) -> None:
        self.row = row
        self.records = read_records(row)
        # `missing`: policies without code in this process, with the reason
        self.experiment, self.missing = _read(row.definition, makers)
        self._options, self._makers = options, makers

    @property
    def owner_names(self) -> dict[int, str]:
        """Policies by stack owner, including removed policies."""
        return {record.owner: name for name, record in self.records.items()}

    def arm_of(self, cell: int) -> int:
        """Return the arm that users of a cell's entries see; this prepares no policy."""
        return engine_class(self.experiment.design).arm_of(self.experiment, cell)

    @cached_property
    def binary_rewards(self) -> bool:
        """True if a policy takes only rewards 0 and 1."""
        missing = any(self.records[name].binary for name in self.missing)
        return missing or any(map(needs_binary, self.experiment.policies.values()))

    @cached_property
    def playable(self) -> Engine:
        """Engine with the policies that this process has the code for."""
        policies = self.experiment.policies
        playable = {name: policy for name, policy in policies.items() if name not in self.missing}
        if not playable:
            raise next(iter(self.missing.values()))
        experiment = self.experiment
        if len(playable) < len(policies):
            experiment = experiment.replace(policies=playable)
        owners = {name: record.owner for name, record in self.records.items()}
        unread = {owner for name, owner in owners.items() if name not in playable}
        return engine_of(experiment, self._options, self._makers, owners, unread)

    @property
    def engine(self) -> Engine:
        """Engine with all policies; raises if this process lacks the experiment's code of a policy."""
        if self.refusal is not None:
            raise type(self.refusal)(str(self.refusal))
        return self.playable

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of the policies that this process has the code for."""
        if len(self.missing) >= len(self.experiment.policies):
            return {}
        reward = self._options.reward
        return {policy.name: fingerprint(policy, reward) for policy in self.playable.policies}

    @cached_property
    def refusal(self) -> SameluckError | None:
        """Reason why this process does not run the policies; None if it does."""
        try:
            reason = next(iter([*self._other_versions(), *self.missing.values()]), None)
        except Exception as error:  # raised by a user's code
            reason = OtherVersion(f"process {this_process()} cannot prepare the policies: {error}")
        if reason is not None:
            _log.warning("sameluck: %s", reason)
        return reason

    def after_fork(self) -> None:
        """Let a child process find its own refusal, since the refusal names the process."""
        vars(self).pop("refusal", None)

    @property
    def other_version(self) -> Diverged | None:
        """Refusal, if this process has other code of a policy than the experiment."""
        return self.refusal if isinstance(self.refusal, OtherVersion) else None

    def lacks_only_others(self, names: Collection[str]) -> bool:
        """Return True if this process lacks the code of policies, but not of these."""
        lacks = bool(self.missing) and self.other_version is None
        return lacks and not any(name in self.missing for name in names)

    def _other_versions(self) -> list[OtherVersion]:
        return [
            OtherVersion(
                f"process {this_process()} has another version of policy {name!r} ({here or 'it does not run'}) than "
                f"the experiment ({stored}) and does not run its policies; other processes carry on. Deploy the code "
                f"that the experiment has, or see live.replace_policy_code({name!r})"
            )
            for name, here in self.fingerprints.items()
            if (stored := self.records[name].fingerprint) not in (UNKNOWN, here)
        ]

    def with_versions(self, names: Collection[str] | None = None) -> DefinitionRow:
        """Return the definition's row with this process's versions: of the named policies, or of all without one."""
        records = dict(self.records)
        for name, here in self.fingerprints.items():
            if name in names if names is not None else records[name].fingerprint == UNKNOWN:
                binary = needs_binary(self.experiment.policies[name])
                records[name] = records[name]._replace(fingerprint=here, binary=binary)
        return self.row._replace(fingerprints=records_text(records))


def first_definition(experiment: Experiment, options: LiveOptions, makers: Makers) -> Definition:
    """Return the definition of an experiment that starts, with this process's versions."""
    row = DefinitionRow(experiment.to_json(), "{}", 0)
    before = Definition(row, options, makers)
    after = Definition(before.with_versions(), options, makers)
    after.playable, after.fingerprints = before.playable, before.fingerprints
    return after


def _read(text: str, makers: Makers) -> tuple[Experiment, dict[str, Invalid]]:
    """Return the experiment without policies of unknown classes, and why policies cannot be run here."""
    missing: dict[str, Invalid] = {}
    try:
        experiment = Experiment.from_json(text)
    except Invalid:
        experiment = _without_unknown(json.loads(text), missing)
    for name, policy in experiment.policies.items():
        if isinstance(policy, External):
            try:
                maker_of(name, policy, makers)
            except Invalid as error:
                missing[name] = error
    return experiment, missing


def _without_unknown(values: ExperimentRecord, missing: dict[str, Invalid]) -> Experiment:
    policies = values["policies"]
    for name, policy in policies.items():
        try:
            Experiment.from_dict({**values, "policies": {name: policy}, "control": name})
        except Invalid as error:
            missing[name] = Invalid(f"{error}; import the module that defines it")
    present = {name: policy for name, policy in policies.items() if name not in missing}
    if not present:
        raise next(iter(missing.values()))
    control = values["control"] if values["control"] in present else ""
    return Experiment.from_dict({**values, "policies": present, "control": control})
