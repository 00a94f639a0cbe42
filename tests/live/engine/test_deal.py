"""The protocol of dealing suffices for an engine: users dealt one by one give the rewards that stacks give."""

import sameluck as sl
from sameluck.live.engine.protocol import SHARED, Dealt, Offer
from sameluck.live.engine.replication import Scheduler
from sameluck.simulation.rewards import reward_at

EXPERIMENT = sl.Experiment(
    policies={"ucb": "ucb1", "thompson": "thompson_bernoulli"}, arms=2, horizon=40, replications=1
)
BERNOULLI = sl.Bernoulli((0.7, 0.4))


class Dealing:
    """State of a replication that has at most one user at a time: who is dealt while one is busy has no entry."""

    def __init__(self):
        self.replication, self.waiting = Scheduler(EXPERIMENT).start(0)
        self.is_busy = False

    def deal(self, user: Dealt) -> Offer:
        if self.is_busy or not self.waiting:
            return Offer(None)
        self.is_busy = True
        return Offer(self.waiting.pop(0))

    def settle(self, entry, value):
        self.is_busy = False
        self.waiting += self.replication.settle(entry, value, lambda *_: [])


def test_users_dealt_one_by_one_give_the_rewards_of_a_simulation():
    state, users, turned_away = Dealing(), 0, 0
    while not state.replication.complete:
        offer, next_offer = (state.deal(Dealt(users + k)) for k in range(2))
        assert offer.entry is not None
        users, turned_away = users + 2, turned_away + (next_offer.entry is None)
        _, cell, position = offer.entry
        state.settle(offer.entry, reward_at(EXPERIMENT, BERNOULLI, 0, None, cell, position))

    runs = sl.simulate(EXPERIMENT, BERNOULLI)
    assert state.replication.depths[SHARED] == runs.pulls[0, :, -1].max(axis=0).tolist()
    assert (users - turned_away, turned_away) == (runs.interactions[0, -1], users // 2)
