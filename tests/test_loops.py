"""A test asserts something: not only in a loop over a collection that may be empty."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
KEEPS_ITEMS = {"enumerate", "list", "range", "reversed", "sorted", "tuple", "zip"}
VIEWS = {"items", "keys", "values"}


def bindings_of(statements):
    """Return the values that are assigned to each name."""
    values = {}
    for statement in statements:
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            if isinstance(target, ast.Name):
                values.setdefault(target.id, []).append(statement.value)
    return values


def is_filled(node, bindings):
    """Return whether an expression has items as it is written, or passes through `nonempty`."""
    match node:
        case ast.Constant():
            return bool(node.value)
        case ast.Tuple() | ast.List() | ast.Set():
            return any(not isinstance(entry, ast.Starred) for entry in node.elts)
        case ast.Dict():
            return any(key is not None for key in node.keys)
        case ast.Name():
            values = bindings.get(node.id, [])
            others = {name: bindings[name] for name in bindings if name != node.id}
            return bool(values) and all(is_filled(value, others) for value in values)
        case ast.Call(func=ast.Name(id="nonempty")):
            return True
        case ast.Call(func=ast.Name(id="range"), args=[stop]):
            return is_filled(stop, bindings)
        case ast.Call(func=ast.Name(id="range")):
            return all(isinstance(number, ast.Constant) for number in node.args)
        case ast.Call(func=ast.Name(id=name)) if name in KEEPS_ITEMS:
            return bool(node.args) and all(is_filled(entry, bindings) for entry in node.args)
        case ast.Call(func=ast.Attribute(attr=name)) if name in VIEWS:
            return is_filled(node.func.value, bindings)
    return False


def asserts(node):
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        return name.startswith(("assert", "raises"))
    return isinstance(node, ast.Assert)


def loops_around(node, bindings, loops=()):
    """Yield, for each assertion, the loops around it that may have no items."""
    for child in ast.iter_child_nodes(node):
        if asserts(child):
            yield loops
        is_loop = isinstance(child, ast.For) and not is_filled(child.iter, bindings)
        yield from loops_around(child, bindings, (*loops, child) if is_loop else loops)


def doubtful_loops(source):
    """Return the loops of tests whose every assertion is in a loop that may have no items, with the tests' names."""
    module = ast.parse(source)
    tests = [node for node in ast.walk(module) if isinstance(node, FUNCTION)]
    found = []
    for test in tests:
        bindings = bindings_of(module.body) | bindings_of(ast.walk(test))
        around = [*loops_around(test, bindings)] if test.name.startswith("test_") else []
        if all(around):
            found += [(test.name, loop) for loops in around for loop in loops]
    return found


@pytest.mark.slow
def test_no_test_asserts_only_in_a_loop_that_may_have_no_items():
    """Write `for item in nonempty(items)`."""
    doubtful = {
        f"{path.relative_to(TESTS)}:{loop.lineno} {name}"
        for path in TESTS.rglob("*.py")
        for name, loop in doubtful_loops(path.read_text())
    }
    assert sorted(doubtful) == []


@pytest.mark.parametrize(
    ("items", "is_doubtful"),
    [
        ("found()", True),
        ("[*found()]", True),
        ("enumerate(found())", True),
        ("range(found())", True),
        ("()", True),
        ("(1, 2)", False),
        ("LISTED.items()", False),
        ("zip(LISTED, (3,), strict=True)", False),
        ("nonempty(found())", False),
    ],
)
def test_a_loop_that_may_have_no_items_is_found(items, is_doubtful):
    loop = f"LISTED = {{1: 2}}\ndef test_it():\n    for item in {items}:\n        assert item"
    assert bool(doubtful_loops(loop)) == is_doubtful
    assert doubtful_loops(f"{loop}\n    assert LISTED") == []
