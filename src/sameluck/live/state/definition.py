"""The policies of a live experiment as the database has them, and the code that this process has for them."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import NamedTuple

from sameluck.errors import Diverged, Invalid, OtherVersion, SameluckError
from sameluck.experiment import Experiment, ExperimentRecord
from sameluck.live.calls.settings import this_process
from sameluck.live.databases.rows import DefinitionRow
from sameluck.live.engine.fingerprints import UNKNOWN, fingerprint
from sameluck.live.engine.protocol import Engine
from sameluck.live.engine.scheduler import Scheduler
from sameluck.live.options import LiveOptions, Makers, needs_binary_rewards
from sameluck.policies.base import needs_binary
from sameluck.policies.external import External, maker_of

_log = logging.getLogger("sameluck")


class PolicyRecord(NamedTuple):
    """What the database has of a policy beside its definition."""

    owner: int  # of its own stacks, where policies do not share them
    fingerprint: str = UNKNOWN
    added: bool = False  # after the start
    removed: bool = False
    binary: bool = False  # it takes only rewards 0 and 1


Records = dict[str, PolicyRecord]


def read_records(row: DefinitionRow) -> Records:
    """The records of all policies, those that were removed too.

    An experiment that was started before there were records has owners by the order of its policies.
    """
    names = json.loads(row.definition)["policies"]
    first = {name: PolicyRecord(owner) for owner, name in enumerate(names, start=1)}
    stored = json.loads(row.fingerprints)
    return first | {name: PolicyRecord(**values) for name, values in stored.items()}


def records_text(records: Mapping[str, PolicyRecord]) -> str:
    """Records as they are stored."""
    return json.dumps({name: record._asdict() for name, record in records.items()})


class Definition:
    """An experiment as it was defined at one time; its policies are prepared when they are first run."""

    def __init__(self, row: DefinitionRow, options: LiveOptions, makers: Makers) -> None:
        self.row = row
        self.records = read_records(row)
        self.experiment, self._missing = _known(row.definition, makers)
        self._options, self._makers = options, makers

    @property
    def missing(self) -> dict[str, Invalid]:
        """The policies that this process has no code for, and why."""
        return self._missing

    @property
    def owner_names(self) -> dict[int, str]:
        """The policies by the owners of their stacks, those that were removed too."""
        return {record.owner: name for name, record in self.records.items()}

    @cached_property
    def binary_rewards(self) -> bool:
        """Whether some policy takes only rewards 0 and 1."""
        missing = any(self.records[name].binary for name in self._missing)
        return missing or needs_binary_rewards(self.experiment)

    @cached_property
    def playable(self) -> Engine:
        """The prepared policies that this process has the code for."""
        policies = self.experiment.policies
        known = {name: policy for name, policy in policies.items() if name not in self._missing}
        if not known:
            raise next(iter(self._missing.values()))
        experiment = self.experiment
        if len(known) < len(policies):
            experiment = experiment.replace(policies=known)
        owners = {name: record.owner for name, record in self.records.items()}
        unread = {owner for name, owner in owners.items() if name not in known}
        return Scheduler(experiment, self._options, self._makers, owners, unread)

    @property
    def engine(self) -> Engine:
        """All policies, prepared; raises if this process does not have the experiment's code of each."""
        if self.refusal is not None:
            raise type(self.refusal)(str(self.refusal))
        return self.playable

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprints of the policies that this process has the code for."""
        if len(self._missing) >= len(self.experiment.policies):
            return {}
        reward = self._options.reward
        return {one.name: fingerprint(one, reward) for one in self.playable.prepared}

    @cached_property
    def refusal(self) -> SameluckError | None:
        """Why this process does not run the policies; None if it does."""
        try:
            reason = next(iter([*self._other_versions(), *self._missing.values()]), None)
        except Exception as error:  # of a user's code
            reason = OtherVersion(f"process {this_process()} cannot prepare the policies: {error}")
        if reason is not None:
            _log.warning("sameluck: %s", reason)
        return reason

    def after_fork(self) -> None:
        """Let a child say itself why it does not run the policies: the refusal names the process."""
        vars(self).pop("refusal", None)

    @property
    def other_version(self) -> Diverged | None:
        """The refusal, if it is that the code of a policy is not that of the experiment."""
        return self.refusal if isinstance(self.refusal, OtherVersion) else None

    def lacks_only_others(self, names: Collection[str]) -> bool:
        """Whether this process lacks the code of some policies, but not of these."""
        lacks = bool(self._missing) and self.other_version is None
        return lacks and not any(name in self._missing for name in names)

    def _other_versions(self) -> list[OtherVersion]:
        return [
            OtherVersion(
                f"process {this_process()} has another version of policy {name!r} ({own or 'it does not run'}) than "
                f"the experiment ({stored}) and does not run its policies; other processes carry on. Deploy the code "
                f"that the experiment has, or see live.replace_policy_code({name!r})"
            )
            for name, own in self.fingerprints.items()
            if (stored := self.records[name].fingerprint) not in (UNKNOWN, own)
        ]

    def with_versions(self, names: Collection[str] | None = None) -> DefinitionRow:
        """The definition with this process's versions: of those policies without one, or of those named."""
        records = dict(self.records)
        for name, own in self.fingerprints.items():
            if name in names if names is not None else records[name].fingerprint == UNKNOWN:
                binary = needs_binary(self.experiment.policies[name])
                records[name] = records[name]._replace(fingerprint=own, binary=binary)
        return self.row._replace(fingerprints=records_text(records))


def first_definition(experiment: Experiment, options: LiveOptions, makers: Makers) -> Definition:
    """The definition of an experiment that starts, with the versions of this process."""
    row = DefinitionRow(experiment.to_json(), "{}", 0)
    before = Definition(row, options, makers)
    after = Definition(before.with_versions(), options, makers)
    after.playable, after.fingerprints = before.playable, before.fingerprints
    return after


def _known(text: str, makers: Makers) -> tuple[Experiment, dict[str, Invalid]]:
    """The experiment without the policies whose class this process does not have; why some cannot be run."""
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
    known = {name: policy for name, policy in policies.items() if name not in missing}
    if not known:
        raise next(iter(missing.values()))
    control = values["control"] if values["control"] in known else ""
    return Experiment.from_dict({**values, "policies": known, "control": control})
