"""What can be seen to be wrong with a live experiment while it runs: arrays in, one `Check` out.

| check          | asks whether                                              | p-value                           |
|----------------|-----------------------------------------------------------|-----------------------------------|
| `drift`        | an arm paid the same early and late                       | of one look; Holm over the arms   |
| `replay_audit` | replayed rewards are what real users would have given     | t test over replications          |
| `loss`         | one arm loses more users or rewards than another          | within time blocks; Holm over two |
| `delay`        | the reward window cuts off rewards that were on their way | none: an exact bound on a share   |
| `sample_ratio` | the traffic gate lets in the share it was told to         | anytime-valid                     |
| `same_policy`  | a policy beside itself makes no difference (A/A)          | anytime-valid, or exactly zero    |
| `enrolment`    | calls find a place in the experiment                      | none: a share                     |

A p-value below 0.01 is something to watch, one below 0.001 an alarm: there are several checks, and people look often.
A verdict is about the experiment's assumptions, never about which policy is better.
"""

from __future__ import annotations

from sameluck.live.diagnostics.audit import replay_audit, same_policy
from sameluck.live.diagnostics.check import Check
from sameluck.live.diagnostics.delay import delay, span
from sameluck.live.diagnostics.drift import drift
from sameluck.live.diagnostics.loss import Outcome, loss, stratified_p_value, user_blocks
from sameluck.live.diagnostics.traffic import enrolment, sample_ratio

__all__ = [
    "Check",
    "Outcome",
    "delay",
    "drift",
    "enrolment",
    "loss",
    "replay_audit",
    "same_policy",
    "sample_ratio",
    "span",
    "stratified_p_value",
    "user_blocks",
]
