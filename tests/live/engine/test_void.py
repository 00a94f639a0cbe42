"""The state of a replication says whether a voided entry is wanted again."""

import pytest

import sameluck as sl
from sameluck.live.engine.replication import Replication


@pytest.fixture
def live():
    policies = {"first": "always(0)", "second": "always(1)"}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=4, replications=1)
    options = sl.LiveOptions(exposure="explicit", open_replications=1)
    with sl.open("sqlite://") as store:
        yield store.start("shop", experiment, options=options)


def enrolled(live, *units):
    return [live.assign(unit).id for unit in units]


def test_stacks_want_the_entry_again(live):
    first, _ = enrolled(live, "anna", "ben")

    live.void(first)
    assert live.status().wanted == 1
    again = live.assign("carla")
    assert live.describe(again.id)[2:7] == live.describe(first)[2:7]


def test_a_state_that_does_not_want_the_entry_releases_it(live, monkeypatch):
    voided = []

    def void(self, entry):
        self.outstanding.discard(entry)
        voided.append(entry)
        return []

    monkeypatch.setattr(Replication, "void", void)
    first, _ = enrolled(live, "anna", "ben")

    live.void(first)
    assert voided == [(0, 0, 0)]
    assert (live.status().wanted, live.status().voided) == (0, 1)
    assert live.assign("carla").reason == "NO_OPEN_SLOT"
    assert live.describe(first).status == "voided"


def test_a_unit_is_voided_whatever_the_ledger_is(live):
    first, second = enrolled(live, "anna", "ben")
    live.reward(first, 0.5)
    database = live.open_replications.database
    database.write(lambda t: t.connection.execute("UPDATE entry SET value = 2 WHERE value = 0.5"))
    live.open_replications.states.clear()

    live.void(second)
    assert (live.status().status, live.status().voided) == ("running", 1)
    with pytest.raises(sl.Diverged, match=r"in the ledger and 0\.5 in the audit log"):
        live.reward(live.assign("carla").id, 0.5)
