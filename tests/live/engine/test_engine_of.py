"""The engine of an experiment follows from its design."""

import pytest

import sameluck as sl
from sameluck.design import TimeCoupled
from sameluck.live.engine.protocol import SHARED
from sameluck.live.options import LiveOptions
from sameluck.live.state.definition import engine_of

POLICIES = {"ucb": "ucb1", "uniform": "uniform"}


class DayCoupled(TimeCoupled):
    """A further design without stacks."""

    __slots__ = ()


def experiment(design):
    return sl.Experiment(policies=POLICIES, arms=3, horizon=4, replications=2, design=design)


@pytest.mark.parametrize(("design", "owners"), [("replay", [SHARED] * 2), ("naive", [1, 2])])
def test_stacks_have_the_owners_of_the_design(design, owners):
    assert engine_of(experiment(design), LiveOptions(), {}).stack_owners == owners


@pytest.mark.parametrize("design", [TimeCoupled(), DayCoupled()])
def test_a_design_without_an_engine_is_refused_by_its_name(design):
    with pytest.raises(
        sl.Invalid, match=rf"^{design.label} is for simulation; live use Replay\(\)"
    ):
        engine_of(experiment(design), LiveOptions(), {})
