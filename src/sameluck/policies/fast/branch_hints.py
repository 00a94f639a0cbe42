"""Branch hints in the select functions of a user, which make an argmax about three times as fast.

The compiler tends to turn the branch of an argmax into conditional moves (`branch_hint` says what that costs). In
machine code a body is therefore replaced by a copy with a hint where a loop over arms notes a new best one:

    for arm in range(tally.pulls.size):
        if score > highest:
            branch_hint()
            best, highest = arm, score

A hint changes no result, and plain Python runs the body itself. A body is compiled as it is if it has no such branch
or its source is not at hand; for the latter a debug line of the logger `sameluck` says why.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterable
from functools import cache
from types import CellType, CodeType, FunctionType
from typing import Any

from sameluck.compilation.decorators import branch_hint
from sameluck.compilation.functions import NoSource, source_function

_HINT = "_branch_hint"
_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
log = logging.getLogger("sameluck")


@cache
def with_branch_hints(body: FunctionType) -> FunctionType:
    """The same function with a hint in each branch of an argmax; itself if there is none, or no source."""
    try:
        function = source_function(body)
        return _compiled_like(body, function) if _insert_hints(function) else body
    except (NoSource, SyntaxError) as reason:
        log.debug("%s is compiled without branch hints: %s", body.__qualname__, reason)
        return body


def _insert_hints(function: ast.FunctionDef) -> int:
    """Insert a hint into each branch of an argmax, and return how many there are."""
    branches = {
        id(branch): branch
        for loop in ast.walk(function)
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name)
        for branch in ast.walk(loop)
        if isinstance(branch, ast.If) and _notes_a_new_best(branch, loop.target.id)
    }
    for branch in branches.values():
        hint = ast.Expr(ast.Call(ast.Name(_HINT, ast.Load()), [], []))
        branch.body.insert(0, ast.fix_missing_locations(ast.copy_location(hint, branch.body[0])))
    return len(branches)


def _notes_a_new_best(branch: ast.If, arm: str) -> bool:
    """Whether a branch keeps the loop's variable, and the next comparison is with something that it assigns."""
    orders = [op for node in ast.walk(branch.test) for op in getattr(node, "ops", ())]
    assignments = [node for node in branch.body if isinstance(node, ast.Assign)]
    values = [each for node in assignments for each in getattr(node.value, "elts", [node.value])]
    keeps_arm = any(isinstance(value, ast.Name) and value.id == arm for value in values)
    compared = _names([branch.test], ast.Load) & _names(assignments, ast.Store)
    return keeps_arm and bool(compared) and any(isinstance(op, _ORDERS) for op in orders)


def _names(nodes: Iterable[ast.AST], use: type[ast.expr_context]) -> set[str]:
    every = (each for node in nodes for each in ast.walk(node))
    return {each.id for each in every if isinstance(each, ast.Name) and isinstance(each.ctx, use)}


def _compiled_like(body: FunctionType, function: ast.FunctionDef) -> FunctionType:
    """A function from a changed syntax tree, with the globals, the closure and the line numbers of the original."""
    old = body.__code__
    function.decorator_list, function.returns = [], None
    function.args.defaults, function.args.kw_defaults = [], [None] * len(function.args.kwonlyargs)
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    cells = dict(zip(old.co_freevars, body.__closure__ or (), strict=True))
    cells[_HINT] = CellType(branch_hint)
    around: Any = ast.parse(f"def around({', '.join(cells)}): pass")
    around.body[0].body = [function]
    new = _inner(_inner(compile(around, old.co_filename, "exec", dont_inherit=True)))
    if {*new.co_names} != {*old.co_names} or new.co_varnames != old.co_varnames:
        raise NoSource(
            "its names depend on where it is defined"
        )  # such as __private ones of a class
    closure = tuple(cells[name] for name in new.co_freevars)
    copy = FunctionType(new, body.__globals__, body.__name__, body.__defaults__, closure)
    copy.__qualname__, copy.__module__ = body.__qualname__, body.__module__
    return copy


def _inner(code: CodeType) -> CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))
