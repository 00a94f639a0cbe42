"""Numbers of things, and arms, in sentences."""

import pytest

from sameluck.wording import MAX_LISTED, arm_in, counted, digits_of, listed, sentence


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 users"), (1, "1 user"), (2, "2 users"), (1_000, "1,000 users")]
)
def test_one_is_not_many(number, text):
    assert counted(number, "user") == text


def test_a_plural_may_be_given():
    assert counted(1, "entry", "entries") == "1 entry"
    assert counted(2, "entry", "entries") == "2 entries"


def test_an_arm_without_a_name_is_called_an_arm():
    assert [arm_in(name) for name in ("red", "7", "7 days")] == ["red", "arm 7", "7 days"]


def test_very_many_things_are_not_all_listed():
    assert listed("abc") == "a, b, c"
    many = [str(number) for number in range(1_000 + MAX_LISTED)]
    assert listed(many).endswith(", 9, and 1,000 more")
    assert listed(many[:MAX_LISTED]).endswith(", 9")


@pytest.mark.parametrize(
    ("low", "high", "digits"),
    [(0.49, 31.1, 1), (-0.04, 31, 2), (0.5, 31, 1), (0, 31, 0), (1e-30, 31, 6), (2, 2.5, 2)],
)
def test_an_end_of_an_interval_that_is_not_0_is_not_shown_as_0(low, high, digits):
    assert digits_of(low, high) == digits


def test_a_message_becomes_a_sentence():
    assert sentence("no users came.") == sentence("no users came") == "No users came."
    assert sentence("") == "."
