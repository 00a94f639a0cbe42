"""The contract that stores are tested with finds what is wrong."""

import subprocess
import sys

import pytest
from contract import StoreContract
from contract.scenario import Scenario

from sameluck.live.databases.sqlite import Sqlite
from sameluck.live.store import Store


class Careless(Sqlite):
    """A store whose database forbids nothing."""

    def __init__(self):
        super().__init__(None)
        for index in ("one_live_assignment_an_entry", "one_enrolment_a_unit", "one_applied_reward"):
            self.write(lambda t, index=index: t.connection.execute(f"DROP INDEX {index}"))


class Forgetful(Sqlite):
    """A store that acknowledges rewards and drops the audit log."""

    def __init__(self):
        super().__init__(None)
        lost = (
            "CREATE TRIGGER lost AFTER INSERT ON reward_event BEGIN DELETE FROM reward_event; END"
        )
        self.write(lambda t: t.connection.execute(lost))


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (Careless, "test_the_database_forbids_a_second_live_assignment_of_an_entry"),
        (Careless, "test_the_database_forbids_a_second_enrolment_of_a_unit"),
        (Careless, "test_the_database_forbids_a_second_applied_reward"),
        (Forgetful, "test_the_first_value_counts"),
    ],
)
def test_a_store_that_breaks_a_rule_fails(kind, rule):
    database = kind()
    database.close, close = lambda: None, database.close
    scenario = Scenario(lambda clock: Store(database, clock=clock))

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(StoreContract(), rule)(scenario)
    close()


@pytest.mark.slow
def test_sameluck_needs_no_pytest():
    script = "import sys; sys.modules['pytest'] = None; import sameluck; sameluck.open('sqlite://').close()"

    subprocess.run([sys.executable, "-c", script], check=True)
