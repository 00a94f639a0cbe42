"""Tools for tests of stores, policies and environments.

`store_contract.StoreContract` holds the rules of every store as tests, `scenario.Scenario` is what they run on (both
need pytest). `VirtualClock` is a clock that a test advances, `reward_at` the reward of a simulation at one address,
`observed_rewards` all that it has read.
"""

from __future__ import annotations

from sameluck.live.rehearsal.rehearsal import VirtualClock
from sameluck.simulation.observed import observed_rewards
from sameluck.simulation.rewards import reward_at

__all__ = ["VirtualClock", "observed_rewards", "reward_at"]
