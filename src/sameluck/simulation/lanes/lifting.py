"""A scalar body rewritten for lanes.

The rewritten function takes a first argument more, the mask of the lanes that execute it, and calls the functions of
`vectors` in place of what depends on a branch. The mask is a boolean as long as no branch differs between lanes:

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
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, reduce
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from sameluck.bodies import NoSource, is_ours, source_function
from sameluck.compiled import branch_hint, inlined_body, likely
from sameluck.simulation.lanes import vectors
from sameluck.simulation.lanes.vectors import Lanes

_OPTIONS = {"error_model": "numpy", "_nrt": False, "forceinline": True}
_REPLACED: dict[object, Callable[..., Any]] = {
    int: vectors.as_int,
    np.int64: vectors.as_int,
    np.uint64: vectors.as_unsigned,
    float: vectors.as_float,
    np.float64: vectors.as_float,
    math.sqrt: vectors.root,
    np.sqrt: vectors.root,
}
_UNCHANGED = (abs, min, max, range, len)
_CHEAP = (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Tuple, ast.UnaryOp)
_LIVE = "_live"  # the mask of the lanes that have not returned


class CannotLift(Exception):
    """Why a body cannot be rewritten for lanes."""


@cache
def lifted(body: Callable[..., Any]) -> Callable[..., Any]:
    """A body for lanes, as a function to call from compiled code: `(mask, *arguments)`."""
    try:
        function = source_function(inspect.unwrap(body))
    except NoSource as reason:
        raise CannotLift(str(reason)) from reason
    namespace = dict(inspect.unwrap(body).__globals__)
    rewritten = _Rewriting(function, namespace, checked=not is_ours(body)).rewritten()
    code = compile(ast.Module([ast.fix_missing_locations(rewritten)], []), "<lanes>", "exec")
    exec(code, namespace)
    return njit(boundscheck=not is_ours(body), **_OPTIONS)(namespace[function.name])


def lifted_inline(function: Callable[..., Any]) -> Callable[..., Any]:
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
        self, function: ast.FunctionDef, namespace: dict[str, Any], *, checked: bool
    ) -> None:
        self.name = function.name
        self.namespace = namespace
        self.checked = checked
        self.arguments = [argument.arg for argument in function.args.args]
        self.statements = _without_docstring(function.body)
        self.defined = set(self.arguments)
        self.local = _assigned(self.statements) | self.defined
        self.returns_once = _returns(self.statements) == self.statements[-1:]
        self.mask = _LIVE  # the lanes that execute what is being rewritten
        self.serial = 0

    def rewritten(self) -> ast.FunctionDef:
        """The function with the mask as its first argument."""
        body = self.block(self.statements, _LIVE)
        if not self.returns_once:
            body = [*_parsed("_result = 0"), *body, *_parsed("return _result")]
        names = [ast.arg(name) for name in (_LIVE, *self.arguments)]
        return ast.FunctionDef(
            self.name, ast.arguments([], names, None, [], [], None, []), body, []
        )

    def generic_visit(self, node: ast.AST) -> Any:
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
                first = [_store(name, self.visit(v)) for name, v in zip(names, values, strict=True)]
                pairs = zip(map(_name_of, targets), names, strict=True)
                return first + [self.assign(name, _load(held)) for name, held in pairs]
            case ast.Subscript(value=ast.Attribute(attr="memory") as memory, slice=index), value:
                parts = [self.visit(part) for part in (memory, index, value)]
                return [ast.Expr(self.call(vectors.write, *parts, _load(self.mask)))]
        return self.generic_visit(node)

    def assign(self, name: str, value: ast.expr) -> ast.stmt:
        """The assignment to one name."""
        if self.mask != _LIVE and name in self.defined:
            value = self.call(vectors.pick, _load(self.mask), value, _load(name))
        self.defined.add(name)
        return _store(name, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        """As an assignment."""
        if node.value is None:
            return self.generic_visit(node)
        return self.visit_Assign(ast.Assign([node.target], node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        """As an assignment."""
        old = _load(_name_of(node.target))
        return [self.assign(old.id, self.visit(ast.BinOp(old, node.op, node.value)))]

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        """Both branches, each executed by the lanes that take it."""
        before, mask = set(self.defined), _load(self.mask)
        test, then, otherwise = (self.new_name() for _ in range(3))
        new = [
            _store(test, self.visit(node.test)),
            _store(then, self.call(vectors.both, mask, _load(test))),
            *self.branch(node.body, then),
        ]
        if node.orelse:
            opposite = self.call(vectors.negated, _load(test))
            new.append(_store(otherwise, self.call(vectors.both, mask, opposite)))
            new += self.branch(node.orelse, otherwise)
        # A name that is new in one branch has no value in the lanes that do not take it.
        self.defined = before | (_surely_assigned(node.body) & _surely_assigned(node.orelse))
        if self.mask != _LIVE and _returns([node]):
            new.append(_store(self.mask, self.call(vectors.both, mask, _load(_LIVE))))
        return new

    def branch(self, statements: Iterable[ast.stmt], mask: str) -> list[ast.stmt]:
        """A branch, skipped if no lane takes it, unless to execute it is cheaper than to ask."""
        statements = [s for s in statements if not self.is_hint(s)]
        block = self.block(statements, mask)
        cheap = _are_cheap(statements)
        return block if cheap else [ast.If(self.call(vectors.some, _load(mask)), block, [])]

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
        return [ast.For(_target(name), numbers, self.block(node.body, self.mask), [])]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        """The lanes of the mask return."""
        if node.value is None:
            return self.generic_visit(node)
        value, mask = self.visit(node.value), _load(self.mask)
        if self.returns_once:
            return [ast.Return(value)]
        new = [_store("_result", self.call(vectors.pick, mask, value, _load("_result")))]
        if self.mask == _LIVE:
            return [*new, *_parsed("return _result")]
        left = self.call(vectors.both, _load(_LIVE), self.call(vectors.negated, mask))
        none_left = self.call(vectors.negated, self.call(vectors.some, _load(_LIVE)))
        return [*new, _store(_LIVE, left), ast.If(none_left, _parsed("return _result"), [])]

    def visit_Pass(self, node: ast.Pass) -> list[ast.stmt]:
        """Nothing."""
        return []

    # Expressions: each method returns an expression.

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """A number."""
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name with a value in every lane of the mask."""
        return self.generic_visit(node) if node.id in self.local - self.defined else _load(node.id)

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
            return self.call(vectors.checked_read, array, index)
        return ast.Subscript(array, index, ast.Load())

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Arithmetic: the operators of `vectors`."""
        return ast.BinOp(self.visit(node.left), node.op, self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """A negation."""
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self.call(vectors.negated, operand)
        return ast.UnaryOp(node.op, operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Conditions, all of which are evaluated."""
        joined = vectors.both if isinstance(node.op, ast.And) else vectors.either
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
        return self.call(vectors.pick, *map(self.visit, (node.test, node.body, node.orelse)))

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
            return self.call(lifted_inline(function), _load(self.mask), *arguments)
        return self.call(lane_by_lane(function, len(arguments)), _load(self.mask), *arguments)

    def resolve(self, node: ast.expr) -> Any:
        """What a dotted global name stands for."""
        if isinstance(node, ast.Attribute):
            return getattr(self.resolve(node.value), node.attr)
        known = {**vars(builtins), **self.namespace}
        if isinstance(node, ast.Name) and node.id in known and node.id not in self.local:
            return known[node.id]
        return self.generic_visit(node)

    def call(self, function: Callable[..., Any], *arguments: ast.expr) -> ast.Call:
        """A call of a function under a name of its own."""
        name = f"_{function.__name__}_{id(function)}"
        self.namespace[name] = function
        return ast.Call(_load(name), list(arguments), [])

    def new_name(self) -> str:
        """A name that the function does not use."""
        self.serial += 1
        return f"_lane_{self.serial}"


@cache
def lane_by_lane(function: Callable[..., Any], arity: int) -> Callable[..., Any]:
    """A scalar function called for one lane after another; once if its arguments are numbers."""
    names = [f"a{k}" for k in range(arity)]
    listed, of_lane = ", ".join(names), ", ".join(f"get_lane({name}, lane)" for name in names)
    namespace = {**vars(vectors), "function": function}
    exec(_LANE_BY_LANE.format(arguments=listed, of_lane=of_lane), namespace)
    stub, lanes, scalar = (namespace[name] for name in ("stub", "lanes", "scalar"))

    def choose(mask: Any, *arguments: Any) -> Any:
        return lanes if any(isinstance(one, Lanes) for one in arguments) else scalar

    choose.__signature__ = inspect.signature(stub)  # type: ignore[attr-defined]
    overload(stub, jit_options=_OPTIONS, strict=False)(choose)
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


def _are_cheap(statements: Iterable[ast.stmt]) -> bool:
    values = [s.value if isinstance(s, ast.Assign) else s for s in statements]
    nodes = (node for value in values for node in ast.walk(value))
    return all(isinstance(n, _CHEAP) for n in nodes if isinstance(n, (ast.expr, ast.stmt)))


def _surely_assigned(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that every execution of some statements assigns."""
    found: set[str] = set()
    for statement in statements:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            found |= _assigned([statement])
        elif isinstance(statement, ast.If):
            found |= _surely_assigned(statement.body) & _surely_assigned(statement.orelse)
    return found


def _assigned(statements: Iterable[ast.AST]) -> set[str]:
    nodes = (node for statement in statements for node in ast.walk(statement))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _returns(statements: Iterable[ast.AST]) -> list[ast.AST]:
    nodes = (node for statement in statements for node in ast.walk(statement))
    return [node for node in nodes if isinstance(node, ast.Return)]


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    described = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if described else body


def _name_of(target: ast.expr) -> str:
    if not isinstance(target, ast.Name):
        raise CannotLift(f"line {target.lineno}: it assigns to {ast.unparse(target)}")
    return target.id


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _target(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _store(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([_target(name)], value)


def _parsed(text: str) -> list[ast.stmt]:
    return ast.parse(text).body
