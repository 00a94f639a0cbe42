"""The leader board: its order, its parts, and what is off the scale."""

import re

from sameluck.reporting.pages.leader_board import BoardEntry
from sameluck.reporting.pages.leader_board import leader_board as board_of
from sameluck.reporting.pages.rendering import template

CONTROL = BoardEntry("control", 0.0, 0.0, 0.0)


def entry(effect, half=1.0, **more):
    return BoardEntry(f"p{effect:g}", effect, effect - half, effect + half, **more)


def leader_board(*arguments, **options):
    """Render the board as HTML."""
    return template("macros.html").module.leader_board(board_of(*arguments, **options))


def parts(board):
    """The policies by part."""
    found = {}
    for body in re.findall(r"<tbody>(.*?)</tbody>", board, re.DOTALL):
        title = re.sub("<[^>]*>", "", re.search(r'scope="rowgroup" class="l">(.*?)</th>', body)[1])
        found[title] = re.findall(r'class="l name">(?:<a[^>]*>)?([^<]*?)(?: <|<)', body)
    return found


def test_the_best_is_first():
    board = leader_board([entry(-2), CONTROL, entry(3), entry(0.5)], "control", 0.95)
    assert parts(board) == {"All policies": ["p3", "p0.5", "control", "p-2"]}
    assert ">control</td>" in board
    assert "95% interval" in board
    assert "reward" not in board  # nobody has one


def test_those_far_behind_do_not_squeeze_the_others():
    behind = [entry(-100 - k) for k in range(4)]
    board = leader_board(
        [CONTROL, entry(0.5), entry(-0.8), *behind, entry(-5_000)], "control", 0.95
    )
    assert parts(board) == {
        "Close to control, 3": ["p0.5", "control", "p-0.8"],
        "Clearly behind, 5": ["p-100", "p-101", "p-102", "p-103", "p-5000"],
    }
    assert board.count("off the scale") == 1


def test_what_is_not_told_apart_is_never_called_behind():
    near = [entry(k / 10) for k in range(1, 6)]
    board = leader_board([CONTROL, *near, entry(-30, half=40), entry(-90)], "control", 0.95)
    assert parts(board)["Close to control, 7"][-1] == "p-30"
    assert parts(board)["Clearly behind, 1"] == ["p-90"]


def test_those_clearly_ahead_have_a_part_too():
    board = leader_board([CONTROL, entry(0.5), entry(80), entry(90)], "control", 0.95)
    assert parts(board) == {
        "Clearly ahead, 2": ["p90", "p80"],
        "Close to control, 2": ["p0.5", "control"],
    }


def test_names_and_links_are_escaped():
    hostile = BoardEntry("<b>", 1.0, 0.0, 2.0, 12.5, 0.25, may_be_best=True, link='/x?"><b>')
    board = leader_board([CONTROL, hostile], "control", 0.95)
    assert "<b>" not in board
    assert "may be best" in board
    assert "12.5" in board
    assert "25%" in board
