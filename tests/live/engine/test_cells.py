"""Users see the arm of a cell; the database knows cells alone."""

import pytest

import sameluck as sl
from sameluck.live.engine.replication import Scheduler
from sameluck.live.state import definition

ARMS = ["left", "middle", "right", "none"]


class Mirrored(Scheduler):
    """Stacks whose cells 0, 1 and 2 are the arms 2, 1 and 0; cells of `none` are `none`."""

    @staticmethod
    def arm_of(_, cell):
        return cell if cell == 3 else 2 - cell

    @staticmethod
    def cells_of(_, arm):
        return [Mirrored.arm_of(_, arm)]


class Merged(Scheduler):
    """Stacks of which cells 0 and 1 both show the first arm."""

    @staticmethod
    def arm_of(_, cell):
        return max(0, cell - 1)

    @staticmethod
    def cells_of(_, arm):
        return [0, 1] if arm == 0 else [arm + 1]


@pytest.fixture
def start(monkeypatch):
    stores = []

    def start(engine_class, policies):
        monkeypatch.setattr(definition, "Scheduler", engine_class)
        stores.append(sl.open("sqlite://"))
        options = sl.LiveOptions(open_replications=1, fallback="none")
        experiment = sl.Experiment(policies=policies, arms=ARMS, horizon=5, replications=2)
        return stores[-1].start("shop", experiment, options=options)

    yield start
    for store in stores:
        store.close()


def test_a_unit_sees_the_arm_of_its_cell_whenever_it_is_asked_for(start, tmp_path):
    live = start(Mirrored, {"fixed": "always(0)"})

    first = live.assign("anna")
    assert (first.arm, first.reason) == ("right", "ASSIGNED")
    assert (live.assign("anna").arm, live.assign("anna").reason) == ("right", "STICKY")
    details = live.describe(first.id)
    assert (details.arm, details.arm_index) == ("right", 2)
    live.reward(first.id, 1.0)
    for what in ("ledger", "rewards"):
        live.export(tmp_path / f"{what}.csv", what=what)
        assert ",right,2," in (tmp_path / f"{what}.csv").read_text()


def test_a_disabled_arm_is_all_of_its_cells(start):
    live = start(Merged, {"first": "always(0)", "second": "always(1)", "other": "always(2)"})

    live.disable_arm("left")
    assert live.status().disabled == ("left",)
    assert live.status().held == 2
    assert [live.assign(unit).arm for unit in range(3)] == ["middle", "none", "none"]
    assert "Disabled: left." in str(live.runs().notes)
    with pytest.raises(sl.Invalid, match="'left' is disabled and cannot be the fallback"):
        live.disable_arm("middle", fallback="left")
    live.enable_arm("left")
    assert live.status().disabled == ()
    assert [live.assign(unit).arm for unit in (3, 4)] == ["left", "left"]
