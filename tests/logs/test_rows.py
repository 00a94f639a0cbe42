"""Reading a production log: every way in gives the same rows, and every bad row is named with its line."""

import json
import math
import subprocess
import sys
import time as clock
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sameluck.errors import Invalid, Missing
from sameluck.logs.rows import Problem, read_log, refuse_problems

RECORDS = [
    {"who": "u1", "day": "mon", "at": 3, "shown": "a10", "paid": 1.5},
    {"who": "u2", "day": "tue", "at": 1, "shown": "a2", "paid": 0.0},
    {"who": "u3", "day": "mon", "at": 2, "shown": "a2", "paid": -2.0},
    {"who": "u4", "day": "tue", "at": 2, "shown": "b", "paid": 1e-3},
]
NAMES = {"arm": "shown", "reward": "paid"}
FULL = {**NAMES, "replication": "day", "time": "at"}


def as_csv(folder, records=RECORDS):
    path = folder / "log.csv"
    pd.DataFrame(records).to_csv(path, index=False)
    return path


def as_jsonl(folder, records=RECORDS):
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def as_ndjson(folder):
    return as_jsonl(folder).rename(folder / "log.NDJSON")


def as_parquet(folder):
    path = folder / "log.parquet"
    pl.DataFrame(RECORDS).write_parquet(path)
    return path


SOURCES = {
    "csv": as_csv,
    "csv as text": lambda folder: str(as_csv(folder)),
    "jsonl": as_jsonl,
    "ndjson": as_ndjson,
    "parquet": as_parquet,
    "pandas": lambda _: pd.DataFrame(RECORDS),
    "polars": lambda _: pl.DataFrame(RECORDS),
    "polars, lazy": lambda _: pl.LazyFrame(RECORDS),
    "list": lambda _: RECORDS,
    "generator": lambda _: (dict(one) for one in RECORDS),
}


def written(folder, text, name="log.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems(source, **settings):
    return [tuple(one) for one in read_log(source, **{**NAMES, **settings}).problems]


def of_values(column, values, **settings):
    """The problems of a log whose first row is good and whose others have these values in a column."""
    good = {"shown": "a", "paid": 1.0, "at": 0, "day": "d"}
    rows = [good] + [{**good, "at": place, column: value} for place, value in enumerate(values, 1)]
    return read_log(rows, **{**NAMES, **settings}).problems


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_every_way_in_gives_the_same_rows(make, tmp_path):
    log = read_log(make(tmp_path), **FULL, low=-2, high=2)

    assert log.arms == ("a2", "a10", "b")
    assert log.replications == ("mon", "tue")
    assert log.replication.tolist() == [0, 0, 1, 1]
    assert log.arm.tolist() == [0, 1, 0, 2]
    assert log.reward.tolist() == [-2.0, 1.5, 0.0, 1e-3]
    header = 1 if "csv" in str(log.name) else 0
    assert (log.row - header).tolist() == [3, 1, 2, 4]
    assert log.problems == ()
    assert (log.arm.dtype, log.reward.dtype, log.row.dtype) == (np.int64, np.float64, np.int64)
    refuse_problems(log)


def test_without_replication_and_time_rows_keep_their_order():
    log = read_log(RECORDS, **NAMES)

    assert log.row.tolist() == [1, 2, 3, 4]
    assert log.replication.tolist() == [0, 0, 0, 0]
    assert log.replications == ("",)
    assert log.reward.tolist() == [1.5, 0.0, -2.0, 1e-3]


def test_given_arms_keep_their_order_and_need_not_all_appear():
    log = read_log(RECORDS, **NAMES, arm_names=["b", "unused", "a10", " a2 "])

    assert log.arms == ("b", "unused", "a10", "a2")
    assert log.arm.tolist() == [2, 3, 3, 0]


def test_arms_and_replications_of_bad_rows_are_not_found():
    rows = [{"shown": "x", "paid": None, "day": 1}, {"shown": "y", "paid": 1, "day": 2}]
    log = read_log(rows, **NAMES, replication="day")

    assert (log.arms, log.replications) == (("y",), ("2",))
    assert log.replication.tolist() == [0]


@given(st.lists(st.integers(0, 300), min_size=1, unique=True))
def test_numbered_arms_are_sorted_by_number(numbers):
    log = read_log([{"shown": f"arm {one}", "paid": 0} for one in numbers], **NAMES)

    assert log.arms == tuple(f"arm {one}" for one in sorted(numbers))
    assert [log.arms[place] for place in log.arm] == [f"arm {one}" for one in numbers]


class TestNames:
    @pytest.mark.parametrize(
        ("value", "name"),
        [(" a ", "a"), (3, "3"), (3.0, "3"), (2.5, "2.5"), (np.int64(3), "3"), (True, "True")],
    )
    def test_are_text(self, value, name):
        assert read_log([{"shown": value, "paid": 0}], **NAMES).arms == (name,)

    def test_a_day_may_be_a_replication(self):
        rows = [{"shown": "a", "paid": 0, "day": date(2024, 5, 1)}]
        assert read_log(rows, **NAMES, replication="day").replications == ("2024-05-01",)

    @pytest.mark.parametrize("value", [None, "", "  ", math.nan, pd.NA, pd.NaT])
    def test_missing(self, value):
        assert of_values("shown", [value]) == (Problem(2, "arm is missing"),)
        refused = of_values("day", [value], replication="day")
        assert refused == (Problem(2, "replication is missing"),)

    def test_not_names(self):
        refused = of_values("shown", [["a"], {"a": 1}, b"a"])
        assert refused[0] == (2, "arm is not a name (['a'])")
        assert len(refused) == 3

    def test_unknown(self):
        assert of_values("shown", ["A"], arm_names=["a"]) == (Problem(2, "unknown arm 'A'"),)

    def test_long_values_are_cut(self):
        ((_, reason),) = of_values("shown", ["x" * 1000], arm_names=["a"])
        assert len(reason) < 60


class TestRewards:
    @pytest.mark.parametrize(
        ("value", "number"),
        [
            ("1", 1.0),
            (" -2.5e-1 ", -0.25),
            (True, 1.0),
            ("False", 0.0),
            (np.bool_(True), 1.0),
            (np.float32(0.5), 0.5),
            (Decimal("0.25"), 0.25),
            (7, 7.0),
        ],
    )
    def test_numbers(self, value, number):
        assert read_log([{"shown": "a", "paid": value}], **NAMES).reward.tolist() == [number]

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ("abc", "reward is not a number ('abc')"),
            ("1,5", "reward is not a number ('1,5')"),
            ("1_000", "reward is not a number ('1_000')"),
            ([1], "reward is not a number ([1])"),
            (1j, "reward is not a number (1j)"),
            (None, "reward is missing"),
            (" ", "reward is missing"),
            (pd.NA, "reward is missing"),
            ("nan", "reward is NaN"),
            (math.nan, "reward is NaN"),
            ("-inf", "reward is infinite"),
            (10**400, "reward is infinite"),
            ("1e999", "reward is infinite"),
        ],
    )
    def test_problems(self, value, reason):
        assert of_values("paid", [value]) == (Problem(2, reason),)

    def test_range(self):
        refused = of_values("paid", [-0.5, 1.5, 0, 1], low=0, high=1)

        assert refused == (
            Problem(2, "reward -0.5 is below the lowest, 0"),
            Problem(3, "reward 1.5 is above the highest, 1"),
        )


class TestTimes:
    def order(self, times):
        rows = [{"shown": "a", "paid": 0, "at": one} for one in times]
        log = read_log(rows, **NAMES, time="at")
        assert log.problems == ()
        return log.row.tolist()

    def test_numbers(self):
        assert self.order(["10", "9.5", "-1e3"]) == [3, 2, 1]
        assert self.order([10, 9.5, np.float32(-1), Decimal("9.75")]) == [3, 2, 4, 1]

    def test_nanoseconds_stay_exact(self):
        start = 1_700_000_000_000_000_000
        assert self.order([start + 2, start + 1, start]) == [3, 2, 1]
        assert self.order([str(start + 1), str(start)]) == [2, 1]

    def test_dates(self):
        assert self.order(["2024-05-02", "2024-05-01T23:59:59.999", "20240430T120000"]) == [3, 2, 1]
        assert self.order(["2024-05-01T12:00:00+02:00", "2024-05-01T11:00:00Z"]) == [1, 2]
        assert self.order([date(2024, 5, 2), datetime(2024, 5, 1, 12)]) == [2, 1]
        assert self.order([np.datetime64("2024-05-02"), np.datetime64("2024-05-01T12")]) == [2, 1]

    @pytest.mark.parametrize("zone", [None, UTC])
    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_dates_of_frames(self, frame, zone):
        days = [datetime(2024, 5, 3, tzinfo=zone), datetime(2024, 5, 1, tzinfo=zone)]
        source = frame({"shown": ["a", "b"], "paid": [1, 2], "at": days})

        assert read_log(source, **NAMES, time="at").row.tolist() == [2, 1]

    @pytest.mark.parametrize("value", [None, "", math.nan, pd.NaT, np.datetime64("NaT")])
    def test_missing(self, value):
        assert of_values("at", [value], time="at") == (Problem(2, "time is missing"),)

    @pytest.mark.parametrize("value", ["noon", "1_000", "2024-13-01", "12:00", True])
    def test_not_a_time(self, value):
        ((row, reason),) = of_values("at", [value], time="at")

        assert row == 2
        assert reason == f"time is neither a number nor a date of ISO 8601 ({value!r})"

    @pytest.mark.parametrize(("value", "reason"), [("inf", "infinite"), ("nan", "missing")])
    def test_not_finite(self, value, reason):
        assert of_values("at", [value], time="at") == (Problem(2, f"time is {reason}"),)

    def test_of_two_kinds(self):
        rows = ["2024-05-01", "17", "2024-05-01T12:00Z", "2024-05-02"]
        refused = read_log(
            [{"shown": "a", "paid": 0, "at": one} for one in rows], **NAMES, time="at"
        )

        assert refused.row.tolist() == [1, 4]
        assert refused.problems == (
            Problem(2, "time is a number ('17'), in record 1 it is a date without a zone"),
            Problem(
                3,
                "time is a date with a zone ('2024-05-01T12:00Z'), in record 1 it is a date without a zone",
            ),
        )

    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), min_size=1, unique=True))
    def test_order_is_that_of_a_stable_sort(self, pairs):
        rows = [{"shown": "a", "paid": t, "day": day, "at": t} for day, t in pairs]
        log = read_log(rows, **FULL)
        days = list(dict.fromkeys(day for day, _ in pairs))
        expected = sorted(pairs, key=lambda pair: (days.index(pair[0]), pair[1]))

        assert log.replications == tuple(map(str, days))
        assert list(zip(log.replication, log.reward, strict=True)) == [
            (days.index(day), t) for day, t in expected
        ]

    def test_ties(self):
        rows = [  # (replication, time, arm, reward)
            (0, 5, "a", 1.0),
            (0, 6, "a", 1.0),
            (1, 5, "a", 1.0),
            (0, 5, "a", 1.0),
            (0, 5, "b", 1.0),
            (0, 5, "b", 1.0),
            (0, 6, "a", 0.0),
        ]
        log = read_log(
            [dict(zip(("day", "at", "shown", "paid"), row, strict=True)) for row in rows], **FULL
        )
        unknown = "in the same replication: their order is unknown"

        assert log.row.tolist() == [1, 2, 3]
        assert log.problems == (
            Problem(4, "the same as record 1"),
            Problem(5, f"its time is that of record 1 {unknown}"),
            Problem(6, "the same as record 5"),
            Problem(7, f"its time is that of record 2 {unknown}"),
        )

    def test_without_times_repeated_rows_are_users(self):
        assert read_log([RECORDS[0]] * 3, **NAMES).row.tolist() == [1, 2, 3]


class TestCsv:
    def test_lines_are_those_of_the_file(self, tmp_path):
        """Blank lines and fields of several lines count; so says any editor."""
        text = 'shown,note,paid\r\n\r\na,"two\nlines",1\r\nb,,x\r\n   \r\nc,,2\r\n'
        log = read_log(written(tmp_path, text), **NAMES)

        assert log.row.tolist() == [3, 7]
        assert log.problems == (Problem(5, "reward is not a number ('x')"),)

    def test_fields(self, tmp_path):
        refused = problems(written(tmp_path, "shown,paid\na,1\na\na,1,\nb,2\n"))

        assert refused == [(3, "1 fields instead of 2"), (4, "3 fields instead of 2")]

    def test_quotes(self, tmp_path):
        refused = problems(written(tmp_path, 'shown,paid\na,1\n"b"x,1\nc,1\n"d,1\ne,1\n'))

        assert [row for row, _ in refused] == [3, 5]
        assert refused[0][1].startswith("not CSV (")
        assert refused[1][1].startswith("not CSV up to line 6 (")

    def test_bytes_that_are_not_utf8(self, tmp_path):
        text = "shown,paid\nä,1\n".encode() + "ö,1\n".encode("latin-1") + b"b,1\n"
        log = read_log(written(tmp_path, text), **NAMES)

        assert log.arms == ("b", "ä")
        assert log.problems == (Problem(3, "bytes that are not UTF-8"),)

    def test_byte_order_mark_and_blanks_in_the_header(self, tmp_path):
        path = written(tmp_path, b"\xef\xbb\xbfshown , paid\na,1")

        assert read_log(path, **NAMES).reward.tolist() == [1.0]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "has no rows"),
            ("shown,paid\n", "has no rows"),
            ("shown,pais\na,1\n", "no column 'paid' for reward; did you mean 'pais'"),
            ("shown:paid\na:1\n", "no column 'shown' for arm.*known: shown:paid"),
            ("shown,paid,paid\na,1,1\n", "several columns 'paid'; rename"),
            ('"shown"x,paid\n', "first line is not CSV"),
            ("ä,paid\n".encode("latin-1"), "first line is not UTF-8"),
            ("shown,paid\na,\nb,x\n", "no row can be used: line 2: reward is missing; line 3"),
        ],
    )
    def test_refused(self, text, message, tmp_path):
        with pytest.raises(Invalid, match=message):
            read_log(written(tmp_path, text), **NAMES)


class TestJsonLines:
    def test_bad_lines(self, tmp_path):
        good = json.dumps(RECORDS[0]).encode()
        lines = [good, b"", b"{", b"[1]", b'"x"', b'{"shown":"\xff"}', b'{"shown": "a"}', good]
        lines.append(b"[" * 100_000)
        path = written(tmp_path, b"\n".join(lines), "log.jsonl")
        refused = problems(path)

        assert [row for row, _ in refused] == [3, 4, 5, 6, 7, 9]
        assert refused[0][1].startswith("not JSON (")
        assert refused[1][1] == "not a record ([1])"
        assert refused[3][1] == "bytes that are not UTF-8"
        assert refused[4][1] == "reward is missing"
        assert read_log(path, **NAMES).row.tolist() == [1, 8]

    def test_numbers_json_does_not_have(self, tmp_path):
        text = '{"shown": 1, "paid": 1}\n{"shown": 1, "paid": NaN}\n{"shown": 1, "paid": -Infinity}'
        refused = problems(written(tmp_path, text, "log.jsonl"))

        assert refused == [(2, "reward is NaN"), (3, "reward is infinite")]

    def test_a_column_only_later_records_have(self, tmp_path):
        rows = [{"shown": "a"}, {"shown": "a", "paid": 1}]

        assert problems(as_jsonl(tmp_path, rows)) == [(1, "reward is missing")]

    def test_byte_order_mark(self, tmp_path):
        path = written(tmp_path, b'\xef\xbb\xbf{"shown": "a", "paid": 1}', "log.jsonl")

        assert read_log(path, **NAMES).arms == ("a",)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "has no rows"),
            ("\n \n", "has no rows"),
            ('{"shown": 1, "pais": 2}', "no column 'paid' for reward; did you mean 'pais'"),
            ("{}", "no row can be used|no column"),
            ("[", "no row can be used: line 1: not JSON"),
        ],
    )
    def test_refused(self, text, message, tmp_path):
        with pytest.raises(Invalid, match=message):
            read_log(written(tmp_path, text, "log.jsonl"), **NAMES)


class TestFrames:
    def test_numbers_that_pandas_made_fractions(self):
        frame = pd.DataFrame({"shown": [1, None, 2], "paid": [1.0, 1.0, None]})
        log = read_log(frame, **NAMES)

        assert log.arms == ("1",)
        assert log.problems == (Problem(2, "arm is missing"), Problem(3, "reward is missing"))

    @pytest.mark.parametrize("dtype", ["category", "string"])
    def test_kinds_of_text(self, dtype):
        frame = pd.DataFrame({"shown": pd.Series(["x", None, "y"], dtype=dtype), "paid": [1, 2, 3]})
        log = read_log(frame, **NAMES)

        assert log.arms == ("x", "y")
        assert log.problems == (Problem(2, "arm is missing"),)

    def test_nullable_numbers(self):
        frame = pd.DataFrame({"shown": ["x", "y"], "paid": pd.array([1, None], dtype="Int64")})

        assert problems(frame) == [(2, "reward is missing")]

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_missing_columns_and_rows(self, frame):
        with pytest.raises(Invalid, match=r"the DataFrame has no column 'shown' for arm; did you"):
            read_log(frame({"show": [1], "paid": [1]}), **NAMES)
        with pytest.raises(Invalid, match="the DataFrame has no rows"):
            read_log(frame({"shown": [], "paid": []}), **NAMES)

    def test_columns_of_one_name(self):
        frame = pd.DataFrame([[1, 2, 3]], columns=["shown", "paid", "paid"])
        with pytest.raises(Invalid, match="several columns 'paid'"):
            read_log(frame, **NAMES)


class TestParquet:
    def test_columns(self, tmp_path):
        with pytest.raises(Invalid, match="has no column 'pais' for reward; did you mean 'paid'"):
            read_log(as_parquet(tmp_path), arm="shown", reward="pais")

    def test_not_parquet(self, tmp_path):
        with pytest.raises(Invalid, match="cannot be read as Parquet"):
            read_log(written(tmp_path, "shown,paid\n", "log.parquet"), **NAMES)

    def test_nanoseconds(self, tmp_path):
        """Order survives; what is below a microsecond does not, and is then a tie."""
        start = pd.Timestamp("2024-05-01 12:00:00.000001001")
        times = [start + pd.Timedelta(7, "us"), start, start + pd.Timedelta(5, "ns")]
        frame = pl.DataFrame({"shown": ["a", "b", "c"], "paid": [1, 2, 3], "at": times})
        frame = frame.with_columns(at=pl.Series(pd.Series(times).astype("datetime64[ns]")))
        frame.write_parquet(tmp_path / "log.parquet")
        log = read_log(tmp_path / "log.parquet", **NAMES, time="at")

        assert log.row.tolist() == [2, 1]
        assert [one.row for one in log.problems] == [3]

    def test_missing_values(self, tmp_path):
        frame = pl.DataFrame({"shown": ["a", None, "c"], "paid": [1.0, 2.0, None]})
        frame.write_parquet(tmp_path / "log.parquet")

        assert problems(tmp_path / "log.parquet") == [
            (2, "arm is missing"),
            (3, "reward is missing"),
        ]

    def test_needs_an_extra(self, tmp_path, monkeypatch):
        path = as_parquet(tmp_path)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(
            Missing, match=r"pyarrow is not installed; run: pip install 'sameluck\[data\]'"
        ):
            read_log(path, **NAMES)


class TestRefused:
    @pytest.mark.parametrize("source", [5, None, {"shown": ["a"], "paid": [1]}, b"log.csv"])
    def test_sources(self, source):
        with pytest.raises(Invalid, match=r"a log is a path ending in \.csv, \.tsv, \.jsonl"):
            read_log(source, **NAMES)

    def test_files(self, tmp_path):
        with pytest.raises(Invalid, match=r"no file .*nowhere\.csv"):
            read_log(tmp_path / "nowhere.csv", **NAMES)
        with pytest.raises(Invalid, match=r"unknown suffix '\.json'.* did you mean '\.jsonl'"):
            read_log(tmp_path / "log.json", **NAMES)
        (tmp_path / "folder.csv").mkdir()
        with pytest.raises(Invalid, match=r"no file .*folder\.csv"):
            read_log(tmp_path / "folder.csv", **NAMES)

    def test_records(self):
        with pytest.raises(Invalid, match="the list has no rows"):
            read_log([], **NAMES)
        with pytest.raises(Invalid, match=r"no row can be used: record 1: not a record \(1\)"):
            read_log([1, 2], **NAMES)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"arm": None}, "arm must be the name of a column"),
            ({"time": 3}, "time must be the name of a column"),
            ({"arm": "paid"}, "one role only, got paid, paid"),
            ({"arm_names": "ab"}, "a list of names, got 'ab'"),
            ({"arm_names": ["a", "a "]}, "distinct and not empty"),
            ({"arm_names": ["a", ""]}, "distinct and not empty"),
        ],
    )
    def test_settings(self, settings, message):
        with pytest.raises(Invalid, match=message):
            read_log(RECORDS, **{**NAMES, **settings})


class TestRefuseProblems:
    def test_one(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        written(tmp_path, "shown,paid\na,1\na,abc\n")
        with pytest.raises(Invalid) as error:
            refuse_problems(read_log("log.csv", **NAMES))

        assert str(error.value) == (
            "log.csv: 1 row cannot be used: line 3: reward is not a number ('abc'). "
            "Pass skip_bad=True (--skip-bad) to leave it out"
        )

    def test_many(self):
        log = read_log([RECORDS[0]] + [{"shown": "a"}] * 1_234, **NAMES)
        with pytest.raises(Invalid) as error:
            refuse_problems(log)

        message = str(error.value)
        assert message.startswith(
            "the list: 1,234 rows cannot be used: record 2: reward is missing;"
        )
        assert message.endswith(
            "record 11: reward is missing; and 1,224 more. Pass skip_bad=True (--skip-bad) to leave them out"
        )
        assert len(log.problems) == 1_234


@pytest.mark.slow
def test_a_large_log_is_read_in_seconds(tmp_path):
    """100,000 lines with dates take about 0.5 s of one core; with a step that is quadratic, more than a minute."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    lines = [
        f"u{place},arm {place % 7},{place % 10 / 10},{place // 1_000},"
        f"{(start + timedelta(seconds=place)).isoformat()}"
        for place in range(100_000)
    ]
    path = written(tmp_path, "\n".join(["who,shown,paid,day,at", *lines]))
    began = clock.process_time()

    log = read_log(path, **FULL)
    tied = read_log(
        ({"shown": "a", "paid": i, "at": 0} for i in range(100_000)), **NAMES, time="at"
    )

    assert clock.process_time() - began < 40
    assert log.row.tolist() == list(range(2, 100_002))
    assert len(tied.problems) == 99_999


@pytest.mark.slow
def test_importing_needs_no_frames():
    code = "import sys, sameluck.live.logs; sys.exit(bool({'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_long_log_is_split_into_replications_of_so_many_rows():
    """In the order of time; the last replication has the remaining rows too."""
    rows = [{"a": "xy"[n % 2], "r": n, "t": -n} for n in range(11)]
    log = read_log(rows, arm="a", reward="r", time="t", replication=3)
    assert log.replications == ("1", "2", "3")
    assert log.reward.tolist() == list(range(10, -1, -1))
    assert log.replication.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2]
    with pytest.raises(Invalid, match="has 11 usable rows, fewer than the 12 of one replication"):
        read_log(rows, arm="a", reward="r", replication=12)
    for wrong in (0, -1, True, 2.5):
        with pytest.raises(Invalid, match="replication must be the name of a column"):
            read_log(rows, arm="a", reward="r", replication=wrong)


def test_decimal_commas_are_read_where_semicolons_separate_columns(tmp_path):
    """As spreadsheets write them in many countries. Names keep their commas; 1.234,5 could be two numbers."""
    path = tmp_path / "log.csv"
    lines = ["2,5;x,1;1,5", "1,5;y;-0,25", "3;x,1;,5", "4;y;2", "5;y;1e-1", "6;y; 1,5e2 "]
    path.write_text("at;shown;paid\n" + "\n".join(lines) + "\n7;y;1.234,5\n8;y;1,2,3\n")
    log = read_log(path, **NAMES, time="at")
    assert log.arms == ("x,1", "y")
    assert log.reward.tolist() == [-0.25, 1.5, 0.5, 2.0, 0.1, 150.0]
    assert log.problems == (
        Problem(8, "reward is not a number ('1.234,5')"),
        Problem(9, "reward is not a number ('1,2,3')"),
    )
