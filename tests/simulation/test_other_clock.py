"""An object that reads the clock is refused, in whatever unit; nobody else finds a trace of the check."""

import datetime
import threading
import time
from datetime import date
from time import strftime

import pytest

import sameluck as sl
from sameluck.simulation.other_clock import OtherClock

TRUE = (time, time.time, datetime.datetime)  # in a tuple, where they are not replaced
ARMS = sl.Bernoulli((0.5, 0.5))
EXPERIMENT = sl.Experiment(
    policies={"it": sl.External("it")}, arms=2, horizon=30, replications=2, seed=1
)
READ = {  # a number, and how much it may differ within the test
    "second": (lambda: int(time.time()), 600),
    "millisecond": (lambda: time.time_ns() // 10**6, 600_000),
    "year": (lambda: time.gmtime().tm_year, 0),
    "year of no moment": (lambda: time.localtime(None).tm_year, 0),
    "year in words": (lambda: int(time.asctime()[-4:]), 0),
    "month": (lambda: int(strftime("%Y%m")), 1),
    "day": (lambda: datetime.datetime.now().toordinal(), 1),
    "day of a zone": (lambda: datetime.datetime.now(datetime.UTC).toordinal(), 1),
    "date": (lambda: date.today().toordinal(), 1),
    "day of the year": (lambda: int(time.strftime("%j", time.localtime())), 1),
}


class Calendar:
    """Plays the other arm if it finds another time than that of the test."""

    def __init__(self, read, most, when):
        self.read, self.expected, self.most, self.when = read, read(), most, when

    def made(self, _):
        return Dated(self)


class Dated:
    def __init__(self, calendar):
        self.calendar, self.arm = calendar, 0
        self.note("made")

    def note(self, when):
        calendar = self.calendar
        if when == calendar.when:
            self.arm = int(abs(calendar.read() - calendar.expected) > calendar.most)

    def select(self):
        self.note("select")
        return self.arm

    def update(self, arm, reward):
        self.note("update")


@pytest.mark.parametrize(
    ("unit", "when"),
    [*((unit, "select") for unit in READ), ("second", "made"), ("day", "update")],
)
def test_an_object_that_reads_the_clock_is_refused(unit, when):
    makers = {"it": Calendar(*READ[unit], when).made}
    with pytest.raises(sl.Invalid, match=r"not deterministic.*do not read the clock"):
        sl.simulate(EXPERIMENT, ARMS, makers=makers)
    assert (time, time.time, datetime.datetime) == TRUE


def test_a_function_of_its_past_and_a_bandit_behind_an_adapter_are_reached():
    this_year = time.gmtime().tm_year

    def choose(arms, rewards):
        return int(time.gmtime().tm_year != this_year)

    class Pulling:
        def pull(self, arms):
            return choose(arms, [])

        def update(self, arm, reward):
            pass

    for make in (lambda _: choose, sl.adapters.river(lambda _: Pulling())):
        with pytest.raises(sl.Invalid, match="do not read the clock"):
            sl.simulate(EXPERIMENT, ARMS, makers={"it": make})


def test_an_object_that_measures_how_long_it_takes_is_not_refused():
    class Timing:
        def __init__(self, _):
            self.started, self.clocks = time.time(), [time.monotonic()]

        def select(self):
            self.clocks += [time.monotonic(), time.perf_counter()]
            return int(time.time() - self.started > 600)

        def update(self, arm, reward):
            pass

    assert sl.simulate(EXPERIMENT, ARMS, makers={"it": Timing}).replications == 2


def test_other_threads_read_the_true_clock():
    clock, read = OtherClock(), {}
    clock.replace_for(test_other_threads_read_the_true_clock)
    try:
        assert time is not TRUE[0]
        with clock.ahead():
            ahead = time.time() - TRUE[1]()
            other = threading.Thread(target=lambda: read.update(other=time.time() - TRUE[1]()))
            other.start()
            other.join()
            assert datetime.datetime.now().year > TRUE[2].now().year
        assert abs(time.time() - TRUE[1]()) < 60
        moment = datetime.datetime(2020, 2, 29, tzinfo=datetime.UTC)
        assert isinstance(moment, datetime.datetime)
        assert type(moment) is TRUE[2]
        assert issubclass(datetime.datetime, datetime.date)
        assert issubclass(TRUE[2], datetime.datetime)
        assert not issubclass(datetime.date, datetime.datetime)
        assert not issubclass(int, datetime.date)
        assert datetime.datetime.fromtimestamp(0, datetime.UTC).year == 1970
    finally:
        clock.restore()
    assert ahead > 300 * 86_400
    assert abs(read["other"]) < 60
    assert time is TRUE[0]


def test_of_two_checks_at_once_only_one_replaces_the_clock():
    first, second = OtherClock(), OtherClock()
    first.replace_for(Dated)
    second.replace_for(Dated)
    first.restore()
    assert time is TRUE[0]
    second.restore()
    second.replace_for(test_other_threads_read_the_true_clock)
    assert time is not TRUE[0]
    second.restore()
    assert time is TRUE[0]
