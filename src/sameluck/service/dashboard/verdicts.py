"""Findings in words, with the digits that the interval justifies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sameluck.reporting.sentences import finding as sentence_on
from sameluck.service.dashboard.findings import Finding
from sameluck.wording import counted, digits_for, signed


class Verdict(NamedTuple):
    """A finding as a page shows it."""

    state: str  # decided, open, early, same or look
    chip: str  # two to four words
    finding: Finding
    winner: str
    loser: str
    amount: str
    interval: str
    detail: str  # after the first sentence

    @property
    def bounds(self) -> tuple[str, str, str]:
        """Ends of the interval and effect, of the challenger minus the control, for a drawing."""
        effect = self.finding.effect
        assert effect is not None
        digits = digits_for((effect.high - effect.low) / 2)
        return (
            signed(effect.low, digits),
            signed(effect.high, digits),
            signed(effect.effect, digits),
        )

    @property
    def sentence(self) -> str:
        """First sentence, as plain text."""
        over = f"over {counted(self.finding.horizon, 'period')}"
        if self.state == "early":
            return "It is too early for a result."
        if self.state == "same":
            return f"{self.winner} and {self.loser} are the same policy and earned exactly the same {over}."
        if self.finding.is_decided:
            return f"{self.winner} earned {self.amount} more than {self.loser} {over}."
        return (
            f"No difference between {self.winner} and {self.loser} is shown {over}: the 95% interval, "
            f"{self.interval}, contains 0."
        )


def verdict_of(finding: Finding, *, aa: bool = False, alarm: str = "") -> Verdict:
    """Return the verdict of a finding; an alarm of the health checks takes precedence."""
    effect = finding.effect
    if effect is None:
        have = counted(finding.replications, "replication has", "replications have")
        detail = f"{have} been completed by both {finding.policy} and {finding.control}; an interval needs more."
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
    state, chip = _state(finding, winner, aa=aa, alarm=alarm)
    amount, detail = f"{abs(effect.effect):,.{digits}f}", _detail(finding, interval)
    return Verdict(state, chip, finding, winner, loser, amount, interval, detail)


def summary_of(verdicts: Sequence[Verdict]) -> str:
    """Return a sentence about many challengers of one control."""
    decided = [verdict for verdict in verdicts if verdict.state == "decided"]
    more = sum(verdict.winner == verdict.finding.policy for verdict in decided)
    control, challengers = verdicts[0].finding.control, counted(len(verdicts), "challenger")
    return f"Of {challengers}, {more} earned more than {control} and {len(decided) - more} less."


def _state(finding: Finding, winner: str, *, aa: bool, alarm: str) -> tuple[str, str]:
    if alarm:
        return "look", f"Look first: {alarm}"
    if finding.is_same:
        return "same", "The same policy"
    if finding.is_decided:
        return ("look", "Look first: A/A differs") if aa else ("decided", f"{winner} leads")
    return "open", "A/A as expected" if aa else "Open"


def _detail(finding: Finding, interval: str) -> str:
    if finding.is_same:
        return ""
    if not finding.is_decided:
        more = "More replications make the interval narrower."
        return "The planned replications are complete." if finding.is_final else more
    first = f"The 95% interval runs from {interval} more{_relative(finding)}."
    if finding.is_final:
        return f"{first} The planned replications are complete, so this is the planned t interval."
    since = f" since replication {finding.decided_at}" if finding.decided_at else ""
    return f"{first} It excludes zero{since} and is valid at every look, so you may stop now."


def _relative(finding: Finding) -> str:
    """Return the interval in per cent of the other policy's reward, if that is positive."""
    effect = finding.effect
    assert effect is not None
    ahead = effect.effect >= 0
    base = effect.control_reward if ahead else effect.reward
    if base <= 0:
        return ""
    bounds = sorted((abs(effect.low), abs(effect.high)))
    low, high = (f"{100 * bound / base:.2g}%" for bound in bounds)
    return f", {low} to {high} of what {finding.control if ahead else finding.policy} earned"
