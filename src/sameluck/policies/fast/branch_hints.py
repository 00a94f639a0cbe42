"""Branch hints in users' select functions, which make an argmax about three times as fast.

The compiler tends to turn the branch of an argmax into conditional moves (`branch_hint` says what that costs). In
machine code a function is therefore replaced by a copy with a hint where a loop over arms notes a new best arm:

    for arm in range(tally.pulls.size):
        if score > highest:
            branch_hint()
            best, highest = arm, score

A hint changes no result, and plain Python runs the original function. A function without such a branch, or without
available source, is compiled as it is; in the latter case the logger `sameluck` has a debug line with the reason.
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
def with_branch_hints(function: FunctionType) -> FunctionType:
    """Return a copy of a function with a hint in each branch of an argmax, or the function if it cannot have any."""
    try:
        tree = source_function(function)
        return _compiled_like(function, tree) if _insert_hints(tree) else function
    except (NoSource, SyntaxError) as reason:
        log.debug("%s is compiled without branch hints: %s", function.__qualname__, reason)
        return function


def _insert_hints(tree: ast.FunctionDef) -> int:
    """Insert a hint into each branch of an argmax, and return the number of hints."""
    branches = {
        id(branch): branch
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name)
        for branch in ast.walk(loop)
        if isinstance(branch, ast.If) and _notes_a_new_best(branch, loop.target.id)
    }
    for branch in branches.values():
        hint = ast.Expr(ast.Call(ast.Name(_HINT, ast.Load()), [], []))
        branch.body.insert(0, ast.fix_missing_locations(ast.copy_location(hint, branch.body[0])))
    return len(branches)


def _notes_a_new_best(branch: ast.If, arm: str) -> bool:
    """Return whether a branch keeps the loop's variable and assigns a name that its condition compares."""
    orders = [op for node in ast.walk(branch.test) for op in getattr(node, "ops", ())]
    assignments = [node for node in branch.body if isinstance(node, ast.Assign)]
    values = [value for node in assignments for value in getattr(node.value, "elts", [node.value])]
    keeps_arm = any(isinstance(value, ast.Name) and value.id == arm for value in values)
    compared = _names([branch.test], ast.Load) & _names(assignments, ast.Store)
    return keeps_arm and bool(compared) and any(isinstance(op, _ORDERS) for op in orders)


def _names(nodes: Iterable[ast.AST], use: type[ast.expr_context]) -> set[str]:
    names = (name for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, use)}


def _compiled_like(original: FunctionType, tree: ast.FunctionDef) -> FunctionType:
    """Return a function from a changed syntax tree, with the original's globals, closure and line numbers."""
    old = original.__code__
    tree.decorator_list, tree.returns = [], None
    tree.args.defaults, tree.args.kw_defaults = [], [None] * len(tree.args.kwonlyargs)
    for argument in ast.walk(tree.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    # An enclosing function gives the copy free variables: those of the original, and the hint.
    cells = dict(zip(old.co_freevars, original.__closure__ or (), strict=True))
    cells[_HINT] = CellType(branch_hint)
    enclosing: Any = ast.parse(f"def enclosing({', '.join(cells)}): pass")
    enclosing.body[0].body = [tree]
    new = _inner(_inner(compile(enclosing, old.co_filename, "exec", dont_inherit=True)))
    if {*new.co_names} != {*old.co_names} or new.co_varnames != old.co_varnames:
        # For example, __private names in a class are mangled.
        raise NoSource("its names depend on where it is defined")
    closure = tuple(cells[name] for name in new.co_freevars)
    copy = FunctionType(
        new, original.__globals__, original.__name__, original.__defaults__, closure
    )
    copy.__qualname__, copy.__module__ = original.__qualname__, original.__module__
    return copy


def _inner(code: CodeType) -> CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))
