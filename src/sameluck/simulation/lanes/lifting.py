"""A scalar body rewritten for lanes.

The rewritten function takes a first argument more, the mask of the lanes that execute it, and calls the functions of
`arithmetic` and `indexing` in place of what depends on a branch. The mask is a boolean as long as no branch differs
between lanes:

    if bound > highest:                      _test = bound > highest
        best, highest = arm, bound    ->     best, highest = pick(_test, arm, best), pick(_test, bound, highest)

A branch with more than assignments of names is skipped if no lane takes it. A return in a branch ends the lanes that
take it. What another function computes is rewritten likewise if it is one of sameluck's inlined bodies, and computed
lane by lane by the scalar function otherwise. A body with anything else (loops that end early, new variables whose
value depends on the branch taken before) raises `CannotLift`, and the scalar loop runs it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, reduce
from typing import Any, NoReturn

import numpy as np
from numba import njit
from numba.extending import overload

from sameluck.compilation.bodies import Body, NoSource, is_ours, source_function
from sameluck.compilation.decorators import branch_hint, inlined_body, likely
from sameluck.simulation.lanes import arithmetic, indexing
from sameluck.simulation.lanes.lane_types import INLINED, Lanes
from sameluck.simulation.lanes.syntax import (
    are_cheap,
    assigned_names,
    assignment,
    load_name,
    parsed,
    return_statements,
    store_name,
    surely_assigned,
    without_docstring,
)

_REPLACED: dict[object, Body] = {
    int: arithmetic.as_int,
    np.int64: arithmetic.as_int,
    np.uint64: arithmetic.as_unsigned,
    float: arithmetic.as_float,
    np.float64: arithmetic.as_float,
    math.sqrt: arithmetic.root,
    np.sqrt: arithmetic.root,
}
_UNCHANGED = (abs, min, max, range, len)
_LIVE = "_live"  # the mask of the lanes that have not returned


class CannotLift(Exception):
    """Why a body cannot be rewritten for lanes."""


@cache
def lifted(body: Body) -> Body:
    """A body for lanes, as a function to call from compiled code: `(mask, *arguments)`."""
    try:
        function = source_function(inspect.unwrap(body))
    except NoSource as reason:
        raise CannotLift(str(reason)) from reason
    namespace = dict(inspect.unwrap(body).__globals__)
    rewritten = _Rewriting(function, namespace, checked=not is_ours(body)).rewritten()
    code = compile(ast.Module([ast.fix_missing_locations(rewritten)], []), "<lanes>", "exec")
    exec(code, namespace)
    return njit(boundscheck=not is_ours(body), **INLINED)(namespace[function.name])


def lifted_inline(function: Body) -> Body:
    """An inlined function of sameluck for lanes."""
    body = inlined_body(function)
    if body is None:
        raise CannotLift(f"{function.__name__} is not inlined")
    return lifted(body)


class _Rewriting(ast.NodeVisitor):
    """One function being rewritten: a method per kind of statement and of expression.

    Args:
        function: The function.
        namespace: Its global names; those of the functions that it calls in lanes are added.
        checked: Whether an index may be out of range.
    """

    def __init__(
        self, function: ast.FunctionDef, namespace: dict[str, object], *, checked: bool
    ) -> None:
        self.name = function.name
        self.namespace = namespace
        self.checked = checked
        self.arguments = [argument.arg for argument in function.args.args]
        self.statements = without_docstring(function.body)
        self.defined = set(self.arguments)
        self.local = assigned_names(self.statements) | self.defined
        self.returns_once = return_statements(self.statements) == self.statements[-1:]
        self.mask = _LIVE  # the lanes that execute what is being rewritten
        self.serial = 0

    def rewritten(self) -> ast.FunctionDef:
        """The function with the mask as its first argument."""
        body = self.block(self.statements, _LIVE)
        if not self.returns_once:
            body = [*parsed("_result = 0"), *body, *parsed("return _result")]
        names = [ast.arg(name) for name in (_LIVE, *self.arguments)]
        return ast.FunctionDef(
            self.name, ast.arguments([], names, None, [], [], None, []), body, []
        )

    def generic_visit(self, node: ast.AST) -> NoReturn:
        """Refuse what has no method."""
        raise CannotLift(f"line {getattr(node, 'lineno', '?')}: {ast.unparse(node)}")

    # Statements: each method returns a list of statements.

    def block(self, statements: Iterable[ast.stmt], mask: str) -> list[ast.stmt]:
        """Statements executed by the lanes of a mask."""
        before, self.mask = self.mask, mask
        new = [new for statement in statements for new in self.visit(statement)]
        self.mask = before
        return new

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        """What the lanes of the mask assign; the others keep what they have."""
        if len(node.targets) > 1:
            self.generic_visit(node)
        match node.targets[0], node.value:
            case ast.Name(id=name), value:
                return [self.assign(name, self.visit(value))]
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                names = [self.new_name() for _ in targets]
                first = [
                    assignment(name, self.visit(v)) for name, v in zip(names, values, strict=True)
                ]
                pairs = zip(map(_name_of, targets), names, strict=True)
                return first + [self.assign(name, load_name(held)) for name, held in pairs]
            case ast.Subscript(value=ast.Attribute(attr="memory") as memory, slice=index), value:
                parts = [self.visit(part) for part in (memory, index, value)]
                return [ast.Expr(self.call(indexing.write, *parts, load_name(self.mask)))]
        return self.generic_visit(node)

    def assign(self, name: str, value: ast.expr) -> ast.stmt:
        """The assignment to one name."""
        if self.mask != _LIVE and name in self.defined:
            value = self.call(arithmetic.pick, load_name(self.mask), value, load_name(name))
        self.defined.add(name)
        return assignment(name, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        """As an assignment."""
        if node.value is None:
            return self.generic_visit(node)
        return self.visit_Assign(ast.Assign([node.target], node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        """As an assignment."""
        old = load_name(_name_of(node.target))
        return [self.assign(old.id, self.visit(ast.BinOp(old, node.op, node.value)))]

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        """Both branches, each executed by the lanes that take it."""
        before, mask = set(self.defined), load_name(self.mask)
        test, then, otherwise = (self.new_name() for _ in range(3))
        new = [
            assignment(test, self.visit(node.test)),
            assignment(then, self.call(arithmetic.both, mask, load_name(test))),
            *self.branch(node.body, then),
        ]
        if node.orelse:
            opposite = self.call(arithmetic.negated, load_name(test))
            new.append(assignment(otherwise, self.call(arithmetic.both, mask, opposite)))
            new += self.branch(node.orelse, otherwise)
        # A name that is new in one branch has no value in the lanes that do not take it.
        self.defined = before | (surely_assigned(node.body) & surely_assigned(node.orelse))
        if self.mask != _LIVE and return_statements([node]):
            new.append(assignment(self.mask, self.call(arithmetic.both, mask, load_name(_LIVE))))
        return new

    def branch(self, statements: Iterable[ast.stmt], mask: str) -> list[ast.stmt]:
        """A branch, skipped if no lane takes it, unless to execute it is cheaper than to ask."""
        statements = [s for s in statements if not self.is_hint(s)]
        block = self.block(statements, mask)
        cheap = are_cheap(statements)
        return block if cheap else [ast.If(self.call(arithmetic.some, load_name(mask)), block, [])]

    def is_hint(self, statement: ast.stmt) -> bool:
        """Whether a statement is about branches, which lanes do not have."""
        match statement:
            case ast.Expr(value=ast.Call(func=function)):
                return self.resolve(function) is branch_hint
        return False

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """A loop over a range that is the same in all lanes."""
        name, over = _name_of(node.target), node.iter
        ranges = isinstance(over, ast.Call) and self.resolve(over.func) is range
        if node.orelse or not ranges or (self.mask != _LIVE and name in self.defined):
            return self.generic_visit(node)
        numbers = self.visit(over)
        self.defined.add(name)
        return [ast.For(store_name(name), numbers, self.block(node.body, self.mask), [])]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        """The lanes of the mask return."""
        if node.value is None:
            return self.generic_visit(node)
        value, mask = self.visit(node.value), load_name(self.mask)
        if self.returns_once:
            return [ast.Return(value)]
        new = [assignment("_result", self.call(arithmetic.pick, mask, value, load_name("_result")))]
        if self.mask == _LIVE:
            return [*new, *parsed("return _result")]
        left = self.call(arithmetic.both, load_name(_LIVE), self.call(arithmetic.negated, mask))
        none_left = self.call(arithmetic.negated, self.call(arithmetic.some, load_name(_LIVE)))
        return [*new, assignment(_LIVE, left), ast.If(none_left, parsed("return _result"), [])]

    def visit_Pass(self, node: ast.Pass) -> list[ast.stmt]:
        """Nothing."""
        return []

    # Expressions: each method returns an expression.

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """A number."""
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name with a value in every lane of the mask."""
        return (
            self.generic_visit(node) if node.id in self.local - self.defined else load_name(node.id)
        )

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """A field."""
        return ast.Attribute(self.visit(node.value), node.attr, ast.Load())

    def visit_Tuple(self, node: ast.Tuple) -> ast.expr:
        """Several."""
        return ast.Tuple([self.visit(one) for one in node.elts], ast.Load())

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """An element of an array."""
        array, index = self.visit(node.value), self.visit(node.slice)
        if self.checked:
            return self.call(indexing.checked_read, array, index)
        return ast.Subscript(array, index, ast.Load())

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Arithmetic: the operators of `arithmetic`."""
        return ast.BinOp(self.visit(node.left), node.op, self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """A negation."""
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self.call(arithmetic.negated, operand)
        return ast.UnaryOp(node.op, operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Conditions, all of which are evaluated."""
        joined = arithmetic.both if isinstance(node.op, ast.And) else arithmetic.either
        return reduce(
            lambda one, other: self.call(joined, one, other), map(self.visit, node.values)
        )

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """One comparison of numbers."""
        if len(node.ops) > 1 or isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return self.generic_visit(node)
        return ast.Compare(self.visit(node.left), node.ops, [self.visit(node.comparators[0])])

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """A choice, both sides of which are evaluated."""
        return self.call(arithmetic.pick, *map(self.visit, (node.test, node.body, node.orelse)))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """What a function computes: rewritten if it is inlined, else lane by lane."""
        if node.keywords:
            return self.generic_visit(node)
        function, arguments = self.resolve(node.func), [self.visit(one) for one in node.args]
        if function in _REPLACED:
            return self.call(_REPLACED[function], *arguments)
        if function is likely:
            return arguments[0]
        if function in _UNCHANGED or hasattr(function, "_fields"):
            return ast.Call(node.func, arguments, [])
        with suppress(CannotLift):
            return self.call(lifted_inline(function), load_name(self.mask), *arguments)
        return self.call(lane_by_lane(function, len(arguments)), load_name(self.mask), *arguments)

    def resolve(self, node: ast.expr) -> Any:
        """What a dotted global name stands for."""
        if isinstance(node, ast.Attribute):
            return getattr(self.resolve(node.value), node.attr)
        known = {**vars(builtins), **self.namespace}
        if isinstance(node, ast.Name) and node.id in known and node.id not in self.local:
            return known[node.id]
        return self.generic_visit(node)

    def call(self, function: Body, *arguments: ast.expr) -> ast.Call:
        """A call of a function under a name of its own."""
        name = f"_{function.__name__}_{id(function)}"
        self.namespace[name] = function
        return ast.Call(load_name(name), list(arguments), [])

    def new_name(self) -> str:
        """A name that the function does not use."""
        self.serial += 1
        return f"_lane_{self.serial}"


@cache
def lane_by_lane(function: Body, arity: int) -> Body:
    """A scalar function called for one lane after another; once if its arguments are numbers."""
    names = [f"a{k}" for k in range(arity)]
    listed, of_lane = ", ".join(names), ", ".join(f"get_lane({name}, lane)" for name in names)
    namespace = {
        **vars(arithmetic),
        "function": function,
        "ZERO": np.uint64(0),
        "ONE": np.uint64(1),
    }
    exec(_LANE_BY_LANE.format(arguments=listed, of_lane=of_lane), namespace)
    stub, lanes, scalar = (namespace[name] for name in ("stub", "lanes", "scalar"))

    def choose(mask: object, *arguments: object) -> Body:
        return lanes if any(isinstance(one, Lanes) for one in arguments) else scalar

    choose.__signature__ = inspect.signature(stub)  # type: ignore[attr-defined]
    overload(stub, jit_options=INLINED, strict=False)(choose)
    return stub


_LANE_BY_LANE = """
def stub(mask, {arguments}):
    pass

def scalar(mask, {arguments}):
    return function({arguments})

def lanes(mask, {arguments}):
    left = bits_of(mask)
    lane = lowest_bit(left)
    found = splat(function({of_lane}))
    left &= left - ONE
    while left != ZERO:
        lane = lowest_bit(left)
        found = with_lane(found, lane, function({of_lane}))
        left &= left - ONE
    return found
"""


def _name_of(target: ast.expr) -> str:
    if not isinstance(target, ast.Name):
        raise CannotLift(f"line {target.lineno}: it assigns to {ast.unparse(target)}")
    return target.id
