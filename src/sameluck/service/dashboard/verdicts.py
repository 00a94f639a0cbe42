"""Findings in words: what may be said now, with as many digits as the interval asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sameluck.reporting.sentences import finding as sentence_on
from sameluck.service.dashboard.findings import Finding
from sameluck.wording import counted, digits_for, signed


class Verdict(NamedTuple):
    """A finding as a page shows it."""

    kind: str  # decided, open, early, same or look
    chip: str  # two to four words
    finding: Finding
    winner: str
    loser: str
    amount: str
    interval: str
    detail: str  # the sentence after the first

    @property
    def bounds(self) -> tuple[str, str, str]:
        """The ends of the interval and the effect, for a drawing of the challenger minus the control."""
        effect = self.finding.effect
        assert effect is not None
        digits = digits_for((effect.high - effect.low) / 2)
        low, high, middle = (
            signed(one, digits) for one in (effect.low, effect.high, effect.effect)
        )
        return low, high, middle

    @property
    def sentence(self) -> str:
        """The first sentence, as plain text."""
        over = f"over {counted(self.finding.horizon, 'period')}"
        if self.kind == "early":
            return "Nothing can be said yet."
        if self.kind == "same":
            return f"{self.winner} and {self.loser} are the same policy and earned exactly the same {over}."
        if self.finding.is_decided:
            return f"{self.winner} earned {self.amount} more than {self.loser} {over}."
        return (
            f"No difference between {self.winner} and {self.loser} is shown {over}: the 95% interval, "
            f"{self.interval}, contains 0."
        )


def verdict_of(finding: Finding, *, aa: bool = False, alarm: str = "") -> Verdict:
    """What a finding says; an alarm of the health checks comes first."""
    effect = finding.effect
    if effect is None:
        have = counted(finding.replications, "replication has", "replications have")
        detail = f"{have} been completed by both {finding.policy} and {finding.control}; an interval needs some more."
        if finding.curve and finding.curve[-1].sd == 0:
            detail = sentence_on(finding.curve[-1])
        chip = f"Look first: {alarm}" if alarm else "No result yet"
        return Verdict("early", chip, finding, finding.policy, finding.control, "", "", detail)
    digits = digits_for((effect.high - effect.low) / 2)
    ahead = effect.effect >= 0
    names = (finding.policy, finding.control)
    winner, loser = names if ahead or not finding.is_decided else names[::-1]
    low, high = effect.low, effect.high
    if finding.is_decided:
        low, high = sorted((abs(low), abs(high)))
    interval = f"{signed(low, digits)} to {signed(high, digits)}"
    kind, chip = _kind(finding, winner, aa=aa, alarm=alarm)
    return Verdict(
        kind,
        chip,
        finding,
        winner,
        loser,
        f"{abs(effect.effect):,.{digits}f}",
        interval,
        _detail(finding, interval),
    )


def summary_of(verdicts: Sequence[Verdict]) -> str:
    """Many challengers of one control in a sentence."""
    decided = [one for one in verdicts if one.kind == "decided"]
    more = sum(one.winner == one.finding.policy for one in decided)
    control, challengers = verdicts[0].finding.control, counted(len(verdicts), "challenger")
    return f"Of {challengers}, {more} earned more than {control} and {len(decided) - more} less."


def _kind(finding: Finding, winner: str, *, aa: bool, alarm: str) -> tuple[str, str]:
    if alarm:
        return "look", f"Look first: {alarm}"
    if finding.is_same:
        return "same", "The same policy"
    if finding.is_decided:
        return ("look", "Look first: A/A differs") if aa else ("decided", f"{winner} leads")
    return "open", "A/A as it should be" if aa else "Open"


def _detail(finding: Finding, interval: str) -> str:
    if finding.is_same:
        return ""
    if not finding.is_decided:
        return (
            "The planned replications are complete."
            if finding.is_final
            else "The experiment goes on: more replications make the interval narrower."
        )
    first = f"The 95% interval runs from {interval} more{_relative(finding)}."
    if finding.is_final:
        return (
            f"{first} The planned replications are complete: it is the t interval that was planned."
        )
    since = f" since replication {finding.decided_at}" if finding.decided_at else ""
    return (
        f"{first} It has left out zero{since} and holds however often you look: you may stop now."
    )


def _relative(finding: Finding) -> str:
    """The interval in per cent of what the other policy earned, where that is positive."""
    effect = finding.effect
    assert effect is not None
    ahead = effect.effect >= 0
    base = effect.control_reward if ahead else effect.reward
    if base <= 0:
        return ""
    bounds = sorted((abs(effect.low), abs(effect.high)))
    low, high = (f"{100 * bound / base:.2g}%" for bound in bounds)
    return f", {low} to {high} of what {finding.control if ahead else finding.policy} earned"
