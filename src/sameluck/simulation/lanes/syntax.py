"""Syntax trees of bodies: what is in them, and the nodes that lifting makes."""

from __future__ import annotations

import ast
from collections.abc import Iterable

_CHEAP = (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Tuple, ast.UnaryOp)


def are_cheap(statements: Iterable[ast.stmt]) -> bool:
    """Whether statements are so cheap that executing them for no lane costs less than a branch."""
    values = [s.value if isinstance(s, ast.Assign) else s for s in statements]
    nodes = (node for value in values for node in ast.walk(value))
    return all(isinstance(n, _CHEAP) for n in nodes if isinstance(n, (ast.expr, ast.stmt)))


def surely_assigned(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that every execution of some statements assigns."""
    found: set[str] = set()
    for statement in statements:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            found |= assigned_names([statement])
        elif isinstance(statement, ast.If):
            found |= surely_assigned(statement.body) & surely_assigned(statement.orelse)
    return found


def assigned_names(statements: Iterable[ast.AST]) -> set[str]:
    """The names that some execution of statements assigns."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def return_statements(statements: Iterable[ast.AST]) -> list[ast.AST]:
    """The return statements in statements."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return [node for node in nodes if isinstance(node, ast.Return)]


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function after its docstring."""
    first = body[0]
    described = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if described else body


def load_name(name: str) -> ast.Name:
    """A name that is read."""
    return ast.Name(name, ast.Load())


def store_name(name: str) -> ast.Name:
    """A name that is assigned to."""
    return ast.Name(name, ast.Store())


def assignment(name: str, value: ast.expr) -> ast.stmt:
    """An assignment to a name."""
    return ast.Assign([store_name(name)], value)


def parsed(text: str) -> list[ast.stmt]:
    """The statements of a text."""
    return ast.parse(text).body
