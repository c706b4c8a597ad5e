"""Every requirement has a test, and no test names a requirement that does not exist.

Tests are read, not collected, so it does not matter which of them run.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.contract.tree import ROOT, source_files
from tests.requirements import PENDING, REQUIREMENTS

MARKER, MARKED = "requirement", "pytestmark"


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All of a source file."""
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


def rows_with_tests() -> dict[str, list[str]]:
    """The tests that name each row, as `path::test`; `path` for a whole module."""
    found: dict[str, list[str]] = {}
    for path in source_files("tests"):
        if path.name.startswith("test_"):
            for row, test in named_in(path):
                found.setdefault(row, []).append(test)
    return found


def named_in(path: Path) -> Iterator[tuple[str, str]]:
    """Row and test, for every row that a test file names."""
    where = str(path.relative_to(ROOT))
    for node in nodes(path):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                yield from ((row, f"{where}::{name}") for row in rows_of(*node.decorator_list))
            case ast.Assign(targets=[ast.Name("pytestmark")], value=value):
                yield from ((row, where) for row in rows_of(*ast.walk(value)))
            case _:
                pass


def rows_of(*nodes: ast.AST) -> Iterator[str]:
    """The rows in those of the nodes that are `requirement("…", …)`."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == MARKER:
            for argument in node.args:
                assert isinstance(argument, ast.Constant), "rows are named in plain words"
                yield str(argument.value)


def test_every_requirement_has_a_test_or_is_pending() -> None:
    without = set(REQUIREMENTS) - set(rows_with_tests())
    assert without - PENDING == set(), "these rows have no test"
    assert PENDING - without == set(), "these rows have a test (or are no rows): take them out of PENDING"


def test_every_requirement_that_a_test_names_exists() -> None:
    assert {row: tests for row, tests in rows_with_tests().items() if row not in REQUIREMENTS} == {}


def test_the_requirement_marker_is_on_tests_only() -> None:
    calls = {
        path: sum(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == MARKER
            for node in nodes(path)
        )
        for path in source_files("tests")
    }
    found = {path: len(list(_marks(path))) for path in calls}
    assert {str(path) for path in calls if calls[path] != found[path]} == set()


def _marks(path: Path) -> Iterator[ast.AST]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield from (mark for mark in node.decorator_list if list(rows_of(mark)))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == MARKED:
            yield from (mark for mark in ast.walk(node.value) if list(rows_of(mark)))
