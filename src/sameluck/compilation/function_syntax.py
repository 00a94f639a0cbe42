"""Check of a user's function before it runs: syntax that cannot be compiled, loops without an end, output.

Numba's message for most of these names another line, or something that the function does not contain.
"""

from __future__ import annotations

import ast
import builtins
import dis
from collections.abc import Iterator
from functools import cache

from sameluck.compilation.function_errors import Misuse
from sameluck.compilation.functions import Function, NoSource, source_function

_COMPREHENSIONS: dict[type, str] = {
    ast.ListComp: "list comprehension",
    ast.SetComp: "set comprehension",
    ast.DictComp: "dict comprehension",
    ast.GeneratorExp: "generator expression",
}
_PRINT = (
    "it calls print in every period of every replication: remove it, and see each arm and reward with sl.trace(...); "
    "simulate(..., check=False) allows it"
)
_BUILTINS = ("input", "open", "exec", "eval", "breakpoint", "globals", "locals", "__import__")


def check_calls(function: Function, prefix: str = "it") -> None:
    """Raise `Misuse` if a function calls `print`, or a built-in function that reads or writes outside it."""
    for step in dis.get_instructions(function):
        name = step.argval
        if step.opname != "LOAD_GLOBAL" or name in function.__globals__:
            continue
        line = step.positions.lineno if step.positions else None
        if name == "print":
            raise Misuse(_PRINT.replace("it", prefix, 1), function, line)
        if name in _BUILTINS and hasattr(builtins, name):
            raise Misuse(f"{prefix} calls {name}, which cannot be compiled", function, line)


def check_syntax(function: Function) -> None:
    """Raise `Misuse` for syntax that cannot be compiled and for an endless loop, if the source is available."""
    tree = _tree(function)
    for statement in tree.body if tree else ():
        for reason, node in _findings(statement):
            raise Misuse(reason, function, node.lineno)


def may_be_endless(function: Function) -> bool:
    """Return whether a function has a `while` loop; True if its source is not available."""
    tree = _tree(function)
    return tree is None or any(isinstance(node, ast.While) for node in ast.walk(tree))


@cache
def _tree(function: Function) -> ast.FunctionDef | None:
    # Kept, because reading a long file takes as long as checking the function in plain Python may.
    try:
        return source_function(function)  # type: ignore[arg-type]  # registered functions are plain
    except NoSource:
        return None


def _findings(tree: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    allowed = {id(node) for outer in ast.walk(tree) for node in _unmade_lists(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.While) and _is_endless(node):
            yield "its loop never ends: it has no break and no return", node
        elif isinstance(node, ast.Yield | ast.YieldFrom):
            yield "it yields values: return one arm's index", node
        elif isinstance(node, ast.expr) and (comprehension := _COMPREHENSIONS.get(type(node))):
            yield f"it uses a {comprehension}: write a for loop", node
        elif isinstance(node, ast.Call) and (called := _takes_lambda(node)):
            yield f"it passes a lambda to {called}: write a for loop", node
        elif isinstance(node, ast.List | ast.Dict | ast.Set) and id(node) not in allowed:
            container = type(node).__name__.lower()
            yield f"it makes a {container}: write a tuple, as in (1, 2), or use tally.memory", node
        elif isinstance(node, ast.JoinedStr):
            yield "it makes a text: use numbers", node


def _unmade_lists(node: ast.AST) -> list[ast.expr]:
    """Return the lists that Python replaces by tuples, as in `for x in [a, b]` and `x in [1, 2]`, or unpacks into."""
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.iter] if isinstance(node, ast.For) else getattr(node, "comparators", [])


def _is_endless(loop: ast.While) -> bool:
    is_true = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    return is_true and not any(map(_leaves, loop.body))


def _leaves(node: ast.AST, *, by_break: bool = True) -> bool:
    """Return whether a statement may leave the loop around it; a `break` in an inner loop does not."""
    if isinstance(node, ast.Return | ast.Raise):
        return True
    if isinstance(node, ast.Break):
        return by_break
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        return False
    by_break = by_break and not isinstance(node, ast.For | ast.While)
    return any(_leaves(child, by_break=by_break) for child in ast.iter_child_nodes(node))


def _takes_lambda(call: ast.Call) -> str:
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not any(isinstance(argument, ast.Lambda) for argument in arguments):
        return ""
    return ast.unparse(call.func)
